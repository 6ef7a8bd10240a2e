//! How long after its due time an item is in the hands of somebody.

use crate::recipe::{Next, PERIOD, Recipe};
use crate::{BATCH, Measure, VISIBILITY};
use ixion_bench::support::{Table, quantiles, time};
use ixion_retry::{RetryQueue, Store};
use std::ops::ControlFlow::Continue;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) struct Lateness<'a> {
    pub(crate) table: &'a mut Table,
    pub(crate) items: u64,
}

/// Threads that take the items.
const TAKERS: usize = 4;
/// How long pushing them may take, a batch at a time.
const HEAD_START: Duration = Duration::from_millis(500);
/// How far apart they are due.
const GAP: Duration = Duration::from_millis(1);

pub(crate) fn caption(items: u64) -> String {
    format!(
        "{items} items, one due each {GAP:?}, until one of {TAKERS} threads that wait has it. For the recipe, whose job wakes up \
         each {PERIOD:?}, they are spread over one such period."
    )
}

impl Measure for Lateness<'_> {
    fn with<S: Store>(&mut self, name: &str, store: S, _: &dyn Fn() -> u64) {
        let queue = &RetryQueue::builder(store).start().expect("a thread");
        let run = &Run::new(self.items, GAP);
        thread::scope(|scope| {
            scope.spawn(|| {
                for items in run.batches() {
                    let now = run.start.elapsed();
                    let delay = |item| run.due(item).saturating_sub(now);
                    let items: Vec<_> = items.map(|item| (item.to_le_bytes(), delay(item))).collect();
                    queue.push_all(&items).expect("a push");
                }
                run.has_begun();
            });
            for _ in 0..TAKERS {
                scope.spawn(move || {
                    while !run.is_done() {
                        let taken = queue.take_blocking(32, VISIBILITY, VISIBILITY).expect("a take");
                        let now = run.start.elapsed();
                        for delivery in taken {
                            assert!(queue.ack(&delivery.receipt).expect("an acknowledgement"));
                            if run.note(&delivery.payload, now) {
                                queue.close();
                            }
                        }
                    }
                });
            }
        });
        self.row(name, run);
    }

    fn with_recipe(&mut self, name: &str, url: &str, _: &dyn Fn() -> u64) {
        let run = &Run::new(self.items, PERIOD / self.items as u32);
        let mut recipe = Recipe::connect(url).expect("a connection");
        for items in run.batches() {
            let due = |item| run.due(item).as_millis() as u64;
            let items: Vec<_> = items.map(|item| (due(item), item.to_le_bytes())).collect();
            recipe.add(&items).expect("a push");
        }
        run.has_begun();
        loop {
            let now = run.start.elapsed().as_millis() as u64;
            let sent = recipe.poll(now, |next| {
                if let Next::Send(payload) = next {
                    run.note(&payload, run.start.elapsed());
                }
                Continue(())
            });
            sent.expect("a poll");
            if run.is_done() {
                break;
            }
            thread::sleep(PERIOD);
        }
        self.row(name, run);
    }
}

impl Lateness<'_> {
    fn row(&mut self, name: &str, run: &Run) {
        let lateness = quantiles(&mut run.lateness.lock().unwrap(), [0.5, 0.99, 1.0]);
        self.table.row([name.to_owned()].into_iter().chain(lateness.map(time)));
    }
}

/// Items, and how late those were that have come.
struct Run {
    start: Instant,
    items: u64,
    gap: Duration,
    come: AtomicU64,
    lateness: Mutex<Vec<Duration>>,
}

impl Run {
    fn new(items: u64, gap: Duration) -> Self {
        Run { start: Instant::now(), items, gap, come: AtomicU64::new(0), lateness: Mutex::default() }
    }

    fn due(&self, item: u64) -> Duration {
        HEAD_START + self.gap * item as u32
    }

    /// The items, as they are pushed.
    fn batches(&self) -> impl Iterator<Item = Range<u64>> {
        let batch = BATCH as u64;
        (0..self.items).step_by(BATCH).map(move |first| first..self.items.min(first + batch))
    }

    /// All are pushed.
    fn has_begun(&self) {
        assert!(self.start.elapsed() < HEAD_START, "the store is slower than the head start");
    }

    /// An item has come. Returns whether it was the last.
    fn note(&self, payload: &[u8], now: Duration) -> bool {
        let item = payload.try_into().map(u64::from_le_bytes).expect("a number");
        self.lateness.lock().unwrap().push(now.checked_sub(self.due(item)).expect("never early"));
        self.come.fetch_add(1, Ordering::Relaxed) + 1 == self.items
    }

    fn is_done(&self) -> bool {
        self.come.load(Ordering::Relaxed) == self.items
    }
}
