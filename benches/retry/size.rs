//! How much a store needs for an item that waits.

use crate::recipe::Recipe;
use crate::{BATCH, Measure, payload};
use ixion_bench::support::Table;
use ixion_retry::{RetryQueue, Store};
use std::ops::Range;
use std::time::Duration;

pub(crate) struct Size<'a> {
    pub(crate) table: &'a mut Table,
    pub(crate) items: u64,
}

/// Of the payloads, in bytes.
const LENGTHS: [usize; 2] = [64, 1024];
const DELAY: Duration = Duration::from_secs(3600);

pub(crate) fn head() -> impl Iterator<Item = String> {
    ["store".to_owned()].into_iter().chain(LENGTHS.map(|bytes| format!("payload of {bytes}")))
}

pub(crate) fn caption(items: u64) -> String {
    format!(
        "Bytes for each of {items} items that wait: memory of the process or of the server, or length of the file."
    )
}

impl Measure for Size<'_> {
    fn with<S: Store>(&mut self, name: &str, store: S, size: &dyn Fn() -> u64) {
        let queue = RetryQueue::builder(store).build();
        self.row(name, size, |items, length| {
            let items: Vec<_> = items.map(|item| (payload(item, length), DELAY)).collect();
            queue.push_all(&items).expect("a push");
        });
    }

    fn with_recipe(&mut self, name: &str, url: &str, size: &dyn Fn() -> u64) {
        let mut recipe = Recipe::connect(url).expect("a connection");
        self.row(name, size, |items, length| {
            let items: Vec<_> = items.map(|item| (DELAY.as_millis() as u64, payload(item, length))).collect();
            recipe.add(&items).expect("a push");
        });
    }
}

impl Size<'_> {
    fn row(&mut self, name: &str, size: &dyn Fn() -> u64, mut push: impl FnMut(Range<u64>, usize)) {
        let bytes = LENGTHS.map(|length| {
            let before = size();
            for first in (0..self.items).step_by(BATCH) {
                push(first..self.items.min(first + BATCH as u64), length);
            }
            (size().saturating_sub(before) / self.items).to_string()
        });
        self.table.row([name.to_owned()].into_iter().chain(bytes));
    }
}
