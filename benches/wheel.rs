//! The wheel against what else could keep timers.
//!
//! * `wheel/churn`: N timers wait; one is stopped and another started. The life of a server's timeouts.
//! * `wheel/expire`: N timers are started, and the clock goes on by a tick at a time until all have expired.
//! * `wheel/burst`: N timers are started in a wheel that is empty, and had them before.
//! * `wheel/restart`: N timers wait; one is moved to another deadline.
//!
//! A time is that of one timer for churn and restart, and of N for the other two (see the throughput). Rivals:
//! tokio-util's `DelayQueue`, used as its documentation does, and a `BTreeMap` by (deadline, number). `layout-lazy`
//! and `layout-linked` are other layouts of the same wheel, see `support`. What expired, and in which order,
//! is asserted.

#![allow(missing_docs, reason = "criterion's macros")]

mod support;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ixion::{Tick, TimerId, TimingWheel};
use std::collections::BTreeMap;
use std::task::Poll;
use std::time::Duration;
use support::{Delays, LONGEST, Random, group, is_smoke, lazy::LazyWheel, linked::LinkedWheel, sizes};
use tokio_util::time::{DelayQueue, delay_queue};

/// Something that keeps timers. Their items are numbers.
trait Peer {
    type Id: Copy;
    const NAME: &'static str;
    fn new() -> Self;
    /// Runs `work` where the peer can live.
    fn scope<R>(work: impl FnOnce() -> R) -> R {
        work()
    }
    fn start(&mut self, delay: u64, item: u64) -> Self::Id;
    fn stop(&mut self, id: Self::Id) -> u64;
    fn restart(&mut self, id: Self::Id, delay: u64) -> Self::Id;
    /// Lets `ticks` pass, one after the other, and gives each item that expires to `fire` with the tick.
    fn pass(&mut self, ticks: u64, fire: impl FnMut(u64, u64));
    fn bytes(&self) -> Option<usize> {
        None
    }
}

struct Ixion(TimingWheel<u64>, u64);

impl Peer for Ixion {
    type Id = TimerId;
    const NAME: &'static str = "ixion";

    fn new() -> Self {
        Ixion(TimingWheel::new(), 0)
    }

    #[inline]
    fn start(&mut self, delay: u64, item: u64) -> TimerId {
        self.0.start_timer(Tick::new(self.1 + delay), item)
    }

    #[inline]
    fn stop(&mut self, id: TimerId) -> u64 {
        self.0.stop_timer(id).expect("it waits")
    }

    #[inline]
    fn restart(&mut self, id: TimerId, delay: u64) -> TimerId {
        assert!(self.0.restart_timer(id, Tick::new(self.1 + delay)));
        id
    }

    fn pass(&mut self, ticks: u64, mut fire: impl FnMut(u64, u64)) {
        for _ in 0..ticks {
            self.1 += 1;
            while let Some(expired) = self.0.pop_expired(Tick::new(self.1)) {
                fire(self.1, expired.item);
            }
        }
    }

    fn bytes(&self) -> Option<usize> {
        Some(self.0.heap_size())
    }
}

/// A queue needs a runtime for its clock. It is the real one for churn, burst and restart, in which no time is waited
/// for, and a paused one where time passes.
struct Delayed(DelayQueue<u64>);

impl Peer for Delayed {
    type Id = delay_queue::Key;
    const NAME: &'static str = "delay-queue";

    fn new() -> Self {
        Delayed(DelayQueue::new())
    }

    fn scope<R>(work: impl FnOnce() -> R) -> R {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let _guard = runtime.enter();
        work()
    }

    #[inline]
    fn start(&mut self, delay: u64, item: u64) -> delay_queue::Key {
        self.0.insert(item, Duration::from_millis(delay))
    }

    #[inline]
    fn stop(&mut self, id: delay_queue::Key) -> u64 {
        self.0.remove(&id).into_inner()
    }

    #[inline]
    fn restart(&mut self, id: delay_queue::Key, delay: u64) -> delay_queue::Key {
        self.0.reset(&id, Duration::from_millis(delay));
        id
    }

    fn pass(&mut self, ticks: u64, mut fire: impl FnMut(u64, u64)) {
        // The queue's clock is a runtime's; `expire` gives it one that is paused.
        let _ = (ticks, &mut fire);
        unreachable!("time passes in `expire_delay_queue`");
    }
}

#[derive(Default)]
struct Tree {
    timers: BTreeMap<(u64, u64), u64>,
    started: u64,
    now: u64,
}

impl Peer for Tree {
    type Id = (u64, u64);
    const NAME: &'static str = "btreemap";

    fn new() -> Self {
        Tree::default()
    }

    #[inline]
    fn start(&mut self, delay: u64, item: u64) -> (u64, u64) {
        self.started += 1;
        let key = (self.now + delay, self.started);
        self.timers.insert(key, item);
        key
    }

    #[inline]
    fn stop(&mut self, id: (u64, u64)) -> u64 {
        self.timers.remove(&id).expect("it waits")
    }

    #[inline]
    fn restart(&mut self, id: (u64, u64), delay: u64) -> (u64, u64) {
        let item = self.stop(id);
        self.start(delay, item)
    }

    fn pass(&mut self, ticks: u64, mut fire: impl FnMut(u64, u64)) {
        for _ in 0..ticks {
            self.now += 1;
            while let Some(first) = self.timers.first_entry().filter(|first| first.key().0 <= self.now) {
                fire(self.now, first.remove());
            }
        }
    }
}

macro_rules! layout {
    ($peer:ident, $wheel:ident, $name:literal) => {
        struct $peer($wheel, u64);

        impl Peer for $peer {
            type Id = (u32, u32);
            const NAME: &'static str = $name;

            fn new() -> Self {
                $peer($wheel::new(), 0)
            }

            #[inline]
            fn start(&mut self, delay: u64, item: u64) -> (u32, u32) {
                self.0.start(self.1 + delay, item)
            }

            #[inline]
            fn stop(&mut self, id: (u32, u32)) -> u64 {
                self.0.stop(id).expect("it waits")
            }

            #[inline]
            fn restart(&mut self, id: (u32, u32), delay: u64) -> (u32, u32) {
                self.0.restart(id, self.1 + delay)
            }

            fn pass(&mut self, ticks: u64, mut fire: impl FnMut(u64, u64)) {
                for _ in 0..ticks {
                    self.1 += 1;
                    while let Some((_, item)) = self.0.pop(self.1) {
                        fire(self.1, item);
                    }
                }
            }

            fn bytes(&self) -> Option<usize> {
                Some(self.0.bytes())
            }
        }
    };
}

layout!(Lazy, LazyWheel, "layout-lazy");
layout!(Linked, LinkedWheel, "layout-linked");

/// N timers that wait, each item the number of its handle.
struct Waiting<P: Peer> {
    peer: P,
    ids: Vec<P::Id>,
    delays: Delays,
    random: Random,
}

impl<P: Peer> Waiting<P> {
    fn new(n: usize) -> Self {
        let (mut peer, mut delays) = (P::new(), Delays::uniform());
        let ids = (0..n).map(|j| peer.start(delays.next(), j as u64)).collect();
        Waiting { peer, ids, delays, random: Random::new(1) }
    }

    #[inline]
    fn replace_one(&mut self) {
        let j = self.random.below(self.ids.len());
        let item = self.peer.stop(self.ids[j]);
        assert_eq!(item, j as u64);
        self.ids[j] = self.peer.start(self.delays.next(), item);
    }

    #[inline]
    fn restart_one(&mut self) {
        let j = self.random.below(self.ids.len());
        self.ids[j] = self.peer.restart(self.ids[j], self.delays.next());
    }

    fn stop_all(mut self) {
        for (j, id) in self.ids.iter().enumerate() {
            assert_eq!(self.peer.stop(*id), j as u64);
        }
    }
}

fn churn<P: Peer>(criterion: &mut Criterion) {
    for &(n, size) in sizes() {
        P::scope(|| {
            let mut waiting = Waiting::<P>::new(n);
            // Until whatever is done now and then has been done.
            (0..n.max(if is_smoke() { 0 } else { 500_000 })).for_each(|_| waiting.replace_one());
            let mut group = group(criterion, "wheel");
            let id = BenchmarkId::new(format!("churn/{size}"), P::NAME);
            group.bench_function(id, |bencher| bencher.iter(|| waiting.replace_one()));
            if let Some(bytes) = waiting.peer.bytes() {
                eprintln!("{}/{size}: {:.1} bytes a timer after the churn", P::NAME, bytes as f64 / n as f64);
            }
            waiting.stop_all();
        });
    }
}

fn restart<P: Peer>(criterion: &mut Criterion) {
    for &(n, size) in sizes() {
        P::scope(|| {
            let mut waiting = Waiting::<P>::new(n);
            let mut group = group(criterion, "wheel");
            let id = BenchmarkId::new(format!("restart/{size}"), P::NAME);
            group.bench_function(id, |bencher| bencher.iter(|| waiting.restart_one()));
            waiting.stop_all();
        });
    }
}

fn burst<P: Peer>(criterion: &mut Criterion) {
    for &(n, size) in sizes() {
        P::scope(|| {
            let mut peer = P::new();
            let mut delays = Delays::uniform();
            let mut ids = Vec::with_capacity(n);
            let mut group = group(criterion, "wheel");
            group.throughput(Throughput::Elements(n as u64));
            group.bench_function(BenchmarkId::new(format!("burst/{size}"), P::NAME), |bencher| {
                bencher.iter_custom(|iterations| {
                    let mut took = Duration::ZERO;
                    for _ in 0..iterations {
                        let start = std::time::Instant::now();
                        ids.extend((0..n as u64).map(|item| peer.start(delays.next(), item)));
                        took += start.elapsed();
                        for (item, id) in ids.drain(..).enumerate() {
                            assert_eq!(peer.stop(id), item as u64);
                        }
                    }
                    took
                });
            });
        });
    }
}

/// Counts what expires, and sees to it that nothing is early, late or missing.
struct Witness {
    due: Vec<u64>,
    fired: usize,
}

impl Witness {
    fn new() -> Self {
        Witness { due: Vec::new(), fired: 0 }
    }

    #[inline]
    fn fire(&mut self, tick: u64, item: u64, slack: u64) {
        let due = self.due[item as usize];
        assert!(due <= tick && tick <= due + slack, "{item} was due at {due} and fired at {tick}");
        self.fired += 1;
    }

    fn finish(&mut self, n: usize) {
        assert_eq!(std::mem::take(&mut self.fired), n, "all have expired");
        self.due.clear();
    }
}

fn expire<P: Peer>(criterion: &mut Criterion) {
    for &(n, size) in sizes() {
        let (mut peer, mut delays, mut now) = (P::new(), Delays::uniform(), 0);
        let mut witness = Witness::new();
        let mut group = group(criterion, "wheel");
        group.throughput(Throughput::Elements(n as u64));
        group.bench_function(BenchmarkId::new(format!("expire/{size}"), P::NAME), |bencher| {
            bencher.iter(|| {
                for item in 0..n as u64 {
                    let delay = delays.next();
                    witness.due.push(now + delay);
                    peer.start(delay, item);
                }
                peer.pass(LONGEST, |tick, item| witness.fire(tick, item, 0));
                now += LONGEST;
                witness.finish(n);
            });
        });
    }
}

/// As `expire`, in a runtime whose clock is paused and moved on by hand.
fn expire_delay_queue(criterion: &mut Criterion) {
    for &(n, size) in sizes() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime");
        let (mut delays, mut now) = (Delays::uniform(), 0);
        let (mut peer, mut witness) = (runtime.block_on(async { Delayed::new() }), Witness::new());
        let mut group = group(criterion, "wheel");
        group.throughput(Throughput::Elements(n as u64));
        group.bench_function(BenchmarkId::new(format!("expire/{size}"), Delayed::NAME), |bencher| {
            bencher.iter(|| {
                runtime.block_on(async {
                    for item in 0..n as u64 {
                        let delay = delays.next();
                        witness.due.push(now + delay);
                        peer.start(delay, item);
                    }
                    // It rounds up twice: a millisecond or two more.
                    for _ in 0..LONGEST + 3 {
                        now += 1;
                        tokio::time::advance(Duration::from_millis(1)).await;
                        std::future::poll_fn(|context| {
                            while let Poll::Ready(Some(expired)) = peer.0.poll_expired(context) {
                                witness.fire(now, expired.into_inner(), 3);
                            }
                            Poll::Ready(())
                        })
                        .await;
                    }
                    witness.finish(n);
                });
            });
        });
    }
}

fn benches(criterion: &mut Criterion) {
    churn::<Ixion>(criterion);
    churn::<Lazy>(criterion);
    churn::<Linked>(criterion);
    churn::<Delayed>(criterion);
    churn::<Tree>(criterion);
    restart::<Ixion>(criterion);
    restart::<Lazy>(criterion);
    restart::<Linked>(criterion);
    restart::<Delayed>(criterion);
    restart::<Tree>(criterion);
    burst::<Ixion>(criterion);
    burst::<Lazy>(criterion);
    burst::<Linked>(criterion);
    burst::<Delayed>(criterion);
    burst::<Tree>(criterion);
    // Last: a clock that was paused once makes reading it dearer in the whole process.
    expire::<Ixion>(criterion);
    expire::<Lazy>(criterion);
    expire::<Linked>(criterion);
    expire::<Tree>(criterion);
    expire_delay_queue(criterion);
}

criterion_group!(wheel, benches);
criterion_main!(wheel);
