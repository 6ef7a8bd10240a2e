//! How many items are pushed, taken and acknowledged in a second.

use crate::recipe::Recipe;
use crate::{BATCH, Measure, PAYLOAD, VISIBILITY, payload};
use ixion_bench::support::{Table, count};
use ixion_retry::{RetryQueue, Store};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) struct Throughput<'a> {
    pub(crate) table: &'a mut Table,
    pub(crate) threads: usize,
    /// How long each is measured.
    pub(crate) each: Duration,
}

const NOW: Duration = Duration::ZERO;

impl Measure for Throughput<'_> {
    fn with<S: Store>(&mut self, name: &str, store: S, _: &dyn Fn() -> u64) {
        let queue = RetryQueue::builder(store).build();
        let one = self.rate(|| {
            || {
                queue.push(&[7; PAYLOAD], NOW).expect("a push");
                1
            }
        });
        let many = self.rate(|| || queue.push_all(&[([7; PAYLOAD], NOW); BATCH]).expect("a push").len());
        let waiting = queue.counts().expect("counts").waiting;
        let take = |n| queue.try_take(n, VISIBILITY).expect("a take");
        let one_done = self.rate(|| {
            || {
                let taken = take(1);
                assert!(taken.iter().all(|one| queue.ack(&one.receipt).expect("an acknowledgement")));
                taken.len()
            }
        });
        let many_done = self.rate(|| {
            || {
                let taken = take(BATCH);
                let done = queue.ack_all(taken.iter().map(|one| &one.receipt));
                assert!(done.expect("an acknowledgement").iter().all(|is_done| *is_done));
                taken.len()
            }
        });
        let left = queue.counts().expect("counts");
        assert!(left.in_flight == 0 && left.waiting < waiting, "{left:?} of {waiting}");
        self.row(name, [one, many, one_done, many_done].map(Some));
    }

    fn with_recipe(&mut self, name: &str, url: &str, _: &dyn Fn() -> u64) {
        let total = &AtomicU64::new(0);
        // No two alike: they would be one.
        let payloads = |n| {
            let first = total.fetch_add(n, Ordering::Relaxed);
            (first..first + n).map(|item| (0, payload(item, PAYLOAD))).collect::<Vec<_>>()
        };
        let [one, many] = [1, BATCH].map(|batch| {
            self.rate(|| {
                let mut recipe = Recipe::connect(url).expect("a connection");
                move || {
                    recipe.add(&payloads(batch as u64)).expect("a push");
                    batch
                }
            })
        });
        let mut job = Recipe::connect(url).expect("a connection");
        let start = Instant::now();
        let sent = job.poll_all(0).expect("a poll").len() as u64;
        let done = sent as f64 / start.elapsed().as_secs_f64();
        assert_eq!(sent, total.load(Ordering::Relaxed));
        self.row(name, [Some(one), Some(many), None, Some(done)]);
    }
}

impl Throughput<'_> {
    /// How much threads get done in a second, each going on until its time is over or there is nothing to do. `begin` makes
    /// what a thread does again and again.
    fn rate<F: FnMut() -> usize>(&self, begin: impl Fn() -> F + Sync) -> f64 {
        let (start, done) = (Instant::now(), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..self.threads {
                scope.spawn(|| {
                    let mut step = begin();
                    while start.elapsed() < self.each {
                        match step() {
                            0 => break,
                            some => done.fetch_add(some as u64, Ordering::Relaxed),
                        };
                    }
                });
            }
        });
        done.into_inner() as f64 / start.elapsed().as_secs_f64()
    }

    fn row(&mut self, name: &str, rates: [Option<f64>; 4]) {
        let rates = rates.map(|rate| rate.map_or("–".to_owned(), |rate| count(rate.round())));
        self.table.row([name.to_owned(), self.threads.to_string()].into_iter().chain(rates));
    }
}
