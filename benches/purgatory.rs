//! The purgatory against one that its users would write themselves, see `rivals`; under load in `delayed`.
//!
//! * `purgatory/check`: a signal for a key that nobody watches; and one for a key on which many wait, none of whom has
//!   what it waits for (divide by their number, see the throughput).
//! * `purgatory/hot-key`: an event that completes the first of many waiters on one key, and a new waiter; watching at every
//!   event, and at a number.
//! * `purgatory/register`: an operation from its making to its end, by a signal or by a cancellation.
//!
//! A registration reads the clock, a third of the cost of the cheapest one here. That every operation ends
//! exactly once, that the books balance, and that nothing is kept, is asserted.

#![allow(missing_docs, reason = "criterion's macros")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ixion::{DelayedOperation, Outcome, Purgatory, Watch};
use ixion_bench::rivals::home_made::HomeMade;
use ixion_bench::rivals::purgatories::{Place, Plain, Request};
use ixion_bench::support::{Random, group};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A peer with `n` operations that wait for ever, each on a key of its own and on what `key` says.
fn crowded<P: Place>(n: u64, key: impl Fn(u64) -> u64) -> Arc<P> {
    let peer = Arc::new(P::new());
    for own in 0..n {
        let (_, request) = Request::new(0);
        peer.register(request, Duration::from_secs(1 << 30), [(1_000_000 + own, 0), (key(own), 0)]);
    }
    peer
}

fn check<P: Place>(criterion: &mut Criterion) {
    let mut group = group(criterion, "purgatory");
    let peer = crowded::<P>(10_000, |own| own);
    let mut key = 0;
    group.bench_function(BenchmarkId::new("check/unwatched", P::NAME), |bencher| {
        bencher.iter(|| {
            key = (key + 1) % 1024;
            assert_eq!(peer.check(black_box((10_000 + key, 0))), 0);
        });
    });
    for watchers in [30, 300, 3000] {
        let peer = crowded::<P>(watchers, |_| 7);
        group.throughput(Throughput::Elements(watchers));
        group.bench_function(BenchmarkId::new(format!("check/no-{watchers}"), P::NAME), |bencher| {
            bencher.iter(|| assert_eq!(peer.check(black_box((7, 0))), 0));
        });
        assert_eq!(peer.count(2) as u64, watchers, "all wait on");
    }
}

fn register<P: Place>(criterion: &mut Criterion) {
    let mut random = Random::new(3);
    let mut draw = move || random.below(1024) as u64;
    let timeout = Duration::from_secs(30);
    let mut group = group(criterion, "purgatory");
    let peer = Arc::new(P::new());
    let driver = peer.drive();

    fn complete<P: Place, const N: usize>(peer: &P, keys: [u64; N], timeout: Duration) {
        let (condition, request) = Request::new(0);
        peer.register(request, timeout, keys.map(|key| (key, 0)));
        condition.ready.store(true, Ordering::Release);
        assert_eq!(peer.check((keys[0], 0)), 1);
    }
    group.bench_function(BenchmarkId::new("register/complete-1-key", P::NAME), |bencher| {
        bencher.iter(|| complete(&*peer, [draw()], timeout));
    });
    group.bench_function(BenchmarkId::new("register/complete-3-keys", P::NAME), |bencher| {
        bencher.iter(|| complete(&*peer, [draw(), 1024 + draw(), 2048 + draw()], timeout));
    });
    group.bench_function(BenchmarkId::new("register/cancel", P::NAME), |bencher| {
        bencher.iter(|| {
            let (_condition, request) = Request::new(0);
            let id = peer.register(request, timeout, [(draw(), 0)]).expect("it is not ready");
            assert!(peer.cancel(id).is_some());
        });
    });
    drop(driver);
    assert_eq!(peer.count(1), 0, "all have ended");
}

/// Waits until a key's progress has reached a number.
struct Offset {
    needs: u64,
    progress: Arc<AtomicU64>,
}

impl DelayedOperation for Offset {
    fn try_complete(&mut self) -> bool {
        self.progress.load(Ordering::Relaxed) >= self.needs
    }
    fn on_complete(self, outcome: Outcome) {
        assert_eq!(outcome, Outcome::Satisfied);
    }
}

/// One event on a key with many waiters that completes the first of them, and a registration that takes its place.
fn hot_key(criterion: &mut Criterion) {
    let mut group = group(criterion, "purgatory");
    group.throughput(Throughput::Elements(1));
    for waiters in [10, 100, 1000, 10_000, 100_000] {
        for numbered in [false, true] {
            if !numbered && waiters > 10_000 {
                continue; // linear in the waiters: the rows before show it
            }
            let purgatory: Purgatory<u64, Offset> = Purgatory::builder("hot").hash_seed(1).build();
            let progress = Arc::new(AtomicU64::new(0));
            let register = |needs| {
                let op = Offset { needs, progress: Arc::clone(&progress) };
                let watch = if numbered { Watch::at(7, needs) } else { Watch::any(7) };
                purgatory
                    .try_complete_else_watch_at(op, Duration::MAX, [watch])
                    .expect("open")
                    .id()
                    .expect("waits");
            };
            (1..=waiters).for_each(register);
            let mut now = 0;
            group.bench_function(
                BenchmarkId::new(format!("hot-key/{waiters}"), if numbered { "numbered" } else { "plain" }),
                |bencher| {
                    bencher.iter(|| {
                        now += 1;
                        progress.store(now, Ordering::Relaxed);
                        assert_eq!(purgatory.check_and_complete_up_to(&7, now), 1);
                        register(now + waiters);
                    });
                },
            );
            assert_eq!(purgatory.shutdown_and_hand_back().count() as u64, waiters, "all wait on");
        }
    }
}

fn benches(criterion: &mut Criterion) {
    check::<Plain>(criterion);
    check::<HomeMade<Request>>(criterion);
    register::<Plain>(criterion);
    register::<HomeMade<Request>>(criterion);
    hot_key(criterion);
}

criterion_group!(purgatory, benches);
criterion_main!(purgatory);
