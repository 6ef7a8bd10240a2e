//! The purgatory against one that its users would write themselves, see `rivals`.
//!
//! * `purgatory/closed-loop`: each thread keeps a thousand operations, each on three keys for a second. A step makes
//!   the oldest one's condition true and signals its first key, and registers a new one; one in a hundred (or ten)
//!   is never made true and expires. `pathological`: the first key is the operation's own, and nobody signals
//!   the two others, so that nothing but the engine itself takes anything off their lists. A time is that
//!   of one step; with two threads, of one step of either.
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
use crossbeam_utils::CachePadded;
use ixion::{DelayedOperation, Expirer, OperationId, Outcome, Purgatory, Watch};
use ixion_bench::rivals::home_made::{HomeMade, Waiting};
use ixion_bench::support::{Random, group, is_smoke};
use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Operations that a thread of the closed loop keeps.
const RING: usize = 1000;

/// Something that operations on numbered keys can wait in.
trait Peer: Send + Sync + Sized + 'static {
    const NAME: &'static str;
    type Id;
    type Driver;
    fn new() -> Self;
    /// Starts the thread that expires what is due; it stops when it is dropped.
    fn drive(self: &Arc<Self>) -> Self::Driver;
    /// Expires what is due now.
    fn expire(&self);
    fn register<const N: usize>(&self, op: Request, timeout: Duration, keys: [u64; N]) -> Option<Self::Id>;
    fn check(&self, key: u64) -> usize;
    fn cancel(&self, id: Self::Id) -> Option<Request>;
    /// Nothing else runs: how many wait, on `keys` keys each. Asserts what the peer promises of its books.
    fn count(&self, keys: usize) -> usize;
}

impl Peer for Purgatory<u64, Request> {
    const NAME: &'static str = "ixion";
    type Id = OperationId;
    type Driver = Expirer;

    fn new() -> Self {
        Purgatory::builder("bench").hash_seed(1).build()
    }

    fn drive(self: &Arc<Self>) -> Expirer {
        let expirer = Expirer::spawn("expirer").expect("a thread");
        expirer.drive(self);
        expirer
    }

    fn expire(&self) {
        while Purgatory::expire(self).more {}
    }

    #[inline]
    fn register<const N: usize>(
        &self,
        op: Request,
        timeout: Duration,
        keys: [u64; N],
    ) -> Option<OperationId> {
        self.try_complete_else_watch(op, timeout, keys).expect("there is no limit").id()
    }

    #[inline]
    fn check(&self, key: u64) -> usize {
        self.check_and_complete(&key)
    }

    #[inline]
    fn cancel(&self, id: OperationId) -> Option<Request> {
        Purgatory::cancel(self, id).taken()
    }

    fn count(&self, keys: usize) -> usize {
        let stats = self.stats();
        assert!(stats.balances() && stats.panics == 0, "{stats:?}");
        assert_eq!(stats.watched, keys * stats.pending, "nothing is kept: {stats:?}");
        stats.pending
    }
}

/// A thread that looks every millisecond.
struct Ticker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("it was started").join().expect("it does not panic");
    }
}

impl Peer for HomeMade<Request> {
    const NAME: &'static str = "home-made";
    type Id = Arc<Waiting<Request>>;
    type Driver = Ticker;

    fn new() -> Self {
        HomeMade::new()
    }

    fn drive(self: &Arc<Self>) -> Ticker {
        let stop = Arc::new(AtomicBool::new(false));
        let (peer, stopped) = (Arc::clone(self), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(1));
                peer.expire();
            }
        });
        Ticker { stop, thread: Some(thread) }
    }

    fn expire(&self) {
        HomeMade::expire(self);
    }

    #[inline]
    fn register<const N: usize>(&self, op: Request, timeout: Duration, keys: [u64; N]) -> Option<Self::Id> {
        self.try_complete_else_watch(op, timeout, &keys)
    }

    #[inline]
    fn check(&self, key: u64) -> usize {
        self.check_and_complete(key)
    }

    #[inline]
    fn cancel(&self, id: Self::Id) -> Option<Request> {
        HomeMade::cancel(self, &id)
    }

    fn count(&self, keys: usize) -> usize {
        // It promises nothing until it has purged.
        self.purge();
        assert_eq!(self.watched(), keys * self.len());
        self.len()
    }
}

/// What an operation waits for.
struct Condition {
    ready: AtomicBool,
    ended: AtomicBool,
    /// Which thread made it.
    lane: usize,
}

/// How many operations have ended, by the thread that made them.
static ENDED: [CachePadded<AtomicU64>; 2] = [const { CachePadded::new(AtomicU64::new(0)) }; 2];

/// A request that waits until its condition is ready.
struct Request(Arc<Condition>);

impl Request {
    #[inline]
    fn new(lane: usize) -> (Arc<Condition>, Request) {
        let condition =
            Arc::new(Condition { ready: AtomicBool::new(false), ended: AtomicBool::new(false), lane });
        (Arc::clone(&condition), Request(condition))
    }
}

impl DelayedOperation for Request {
    #[inline]
    fn try_complete(&mut self) -> bool {
        self.0.ready.load(Ordering::Acquire)
    }

    #[inline]
    fn on_complete(self, outcome: Outcome) {
        assert!(outcome != Outcome::Satisfied || self.0.ready.load(Ordering::Relaxed));
        assert!(!self.0.ended.swap(true, Ordering::Relaxed), "it ends once");
        ENDED[self.0.lane].fetch_add(1, Ordering::Relaxed);
    }
}

/// A closed loop's parameters.
#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    keys: usize,
    /// One in so many is never ready.
    expiring: usize,
    pathological: bool,
    threads: usize,
}

const LOADS: [Load; 7] = [
    Load { name: "10k-keys-1-percent", keys: 10_000, expiring: 100, pathological: false, threads: 1 },
    Load { name: "10k-keys-10-percent", keys: 10_000, expiring: 10, pathological: false, threads: 1 },
    Load { name: "100-keys-1-percent", keys: 100, expiring: 100, pathological: false, threads: 1 },
    Load { name: "pathological", keys: 100, expiring: 100, pathological: true, threads: 1 },
    Load {
        name: "10k-keys-1-percent-2-threads",
        keys: 10_000,
        expiring: 100,
        pathological: false,
        threads: 2,
    },
    Load { name: "100-keys-1-percent-2-threads", keys: 100, expiring: 100, pathological: false, threads: 2 },
    Load { name: "pathological-2-threads", keys: 100, expiring: 100, pathological: true, threads: 2 },
];

/// One thread's part of a closed loop.
struct Lane<P> {
    peer: Arc<P>,
    load: Load,
    number: usize,
    timeout: Duration,
    random: Random,
    made: u64,
    /// The oldest first; with the first key. `None`: it will expire.
    ring: VecDeque<Option<(Arc<Condition>, u64)>>,
}

impl<P: Peer> Lane<P> {
    fn new(peer: &Arc<P>, load: Load, number: usize) -> Self {
        let mut lane = Lane {
            peer: Arc::clone(peer),
            load,
            number,
            timeout: Duration::from_millis(if is_smoke() { 50 } else { 1000 }),
            random: Random::new(11 + number as u64),
            made: 0,
            ring: VecDeque::with_capacity(RING + 1),
        };
        (0..RING).for_each(|_| lane.register());
        lane
    }

    #[inline]
    fn step(&mut self) {
        self.satisfy_oldest();
        self.register();
    }

    #[inline]
    fn satisfy_oldest(&mut self) {
        if let Some(Some((condition, key))) = self.ring.pop_front() {
            condition.ready.store(true, Ordering::Release);
            self.peer.check(key);
        }
    }

    #[inline]
    fn register(&mut self) {
        let mut keys = [0; 3].map(|_| self.random.below(self.load.keys) as u64);
        while keys[0] == keys[1] || keys[0] == keys[2] || keys[1] == keys[2] {
            keys = keys.map(|_| self.random.below(self.load.keys) as u64);
        }
        if self.load.pathological {
            keys[0] = (self.load.keys + self.number) as u64 + 2 * self.made;
        }
        self.made += 1;
        let (condition, request) = Request::new(self.number);
        self.peer.register(request, self.timeout, keys);
        let expires = self.random.below(self.load.expiring) == 0;
        self.ring.push_back((!expires).then_some((condition, keys[0])));
    }
}

/// A closed loop that runs.
struct ClosedLoop<P: Peer> {
    peer: Arc<P>,
    driver: P::Driver,
    lanes: Vec<Lane<P>>,
}

impl<P: Peer> ClosedLoop<P> {
    fn new(load: Load) -> Self {
        ENDED.iter().for_each(|ended| ended.store(0, Ordering::Relaxed));
        let peer = Arc::new(P::new());
        let lanes = (0..load.threads).map(|number| Lane::new(&peer, load, number)).collect();
        ClosedLoop { driver: peer.drive(), peer, lanes }
    }

    /// Runs so many steps, all threads together. The time is that of the slowest.
    fn run(&mut self, steps: u64) -> Duration {
        let start = Instant::now();
        if let [lane] = &mut self.lanes[..] {
            (0..steps).for_each(|_| lane.step());
            return start.elapsed();
        }
        let share = steps.div_ceil(self.lanes.len() as u64);
        thread::scope(|scope| {
            for lane in &mut self.lanes {
                scope.spawn(move || (0..share).for_each(|_| lane.step()));
            }
        });
        start.elapsed()
    }

    /// Lets everything end.
    fn finish(mut self) {
        drop(self.driver);
        let made: u64 = self.lanes.iter().map(|lane| lane.made).sum();
        let ended = || ENDED.iter().map(|ended| ended.load(Ordering::Relaxed)).sum::<u64>();
        assert_eq!(self.peer.count(3) as u64, made - ended(), "what waits is what has not ended");
        self.lanes.iter_mut().for_each(|lane| (0..RING).for_each(|_| lane.satisfy_oldest()));
        while ended() < made {
            thread::sleep(Duration::from_millis(1));
            self.peer.expire();
        }
        assert_eq!((self.peer.count(3), ended()), (0, made), "all have ended, each once");
    }
}

fn closed_loop<P: Peer>(criterion: &mut Criterion) {
    for load in LOADS {
        let mut running = None;
        let mut group = group(criterion, "purgatory");
        // Until as many expire as are made to.
        group.warm_up_time(Duration::from_millis(1500)).measurement_time(Duration::from_secs(3));
        group.throughput(Throughput::Elements(1));
        group.bench_function(BenchmarkId::new(format!("closed-loop/{}", load.name), P::NAME), |bencher| {
            let running = running.get_or_insert_with(|| ClosedLoop::<P>::new(load));
            bencher.iter_custom(|steps| running.run(steps));
        });
        if let Some(running) = running {
            running.finish();
        }
    }
}

/// A peer with `n` operations that wait for ever, each on a key of its own and on what `key` says.
fn crowded<P: Peer>(n: u64, key: impl Fn(u64) -> u64) -> Arc<P> {
    let peer = Arc::new(P::new());
    for own in 0..n {
        let (_, request) = Request::new(0);
        peer.register(request, Duration::from_secs(1 << 30), [1_000_000 + own, key(own)]);
    }
    peer
}

fn check<P: Peer>(criterion: &mut Criterion) {
    let mut group = group(criterion, "purgatory");
    let peer = crowded::<P>(10_000, |own| own);
    let mut key = 0;
    group.bench_function(BenchmarkId::new("check/unwatched", P::NAME), |bencher| {
        bencher.iter(|| {
            key = (key + 1) % 1024;
            assert_eq!(peer.check(black_box(10_000 + key)), 0);
        });
    });
    for watchers in [30, 300, 3000] {
        let peer = crowded::<P>(watchers, |_| 7);
        group.throughput(Throughput::Elements(watchers));
        group.bench_function(BenchmarkId::new(format!("check/no-{watchers}"), P::NAME), |bencher| {
            bencher.iter(|| assert_eq!(peer.check(black_box(7)), 0));
        });
        assert_eq!(peer.count(2) as u64, watchers, "all wait on");
    }
}

fn register<P: Peer>(criterion: &mut Criterion) {
    let mut random = Random::new(3);
    let mut draw = move || random.below(1024) as u64;
    let timeout = Duration::from_secs(30);
    let mut group = group(criterion, "purgatory");
    let peer = Arc::new(P::new());
    let driver = peer.drive();

    fn complete<P: Peer, const N: usize>(peer: &P, keys: [u64; N], timeout: Duration) {
        let (condition, request) = Request::new(0);
        peer.register(request, timeout, keys);
        condition.ready.store(true, Ordering::Release);
        assert_eq!(peer.check(keys[0]), 1);
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
            let id = peer.register(request, timeout, [draw()]).expect("it is not ready");
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
    check::<Purgatory<u64, Request>>(criterion);
    check::<HomeMade<Request>>(criterion);
    register::<Purgatory<u64, Request>>(criterion);
    register::<HomeMade<Request>>(criterion);
    closed_loop::<Purgatory<u64, Request>>(criterion);
    closed_loop::<HomeMade<Request>>(criterion);
    hot_key(criterion);
}

criterion_group!(purgatory, benches);
criterion_main!(purgatory);
