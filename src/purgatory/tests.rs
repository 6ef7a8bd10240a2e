//! What a purgatory does that only its inside can show.

use super::*;
use crate::clock::ManualClock;
use crate::operation::Outcome;
use crate::trampoline::JOBS_PER_PASS;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

type Log = Arc<Mutex<Vec<(u32, Outcome)>>>;

struct Op {
    number: u32,
    ready: Arc<AtomicBool>,
    log: Log,
}

impl DelayedOperation for Op {
    fn try_complete(&mut self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    fn on_complete(self, outcome: Outcome) {
        self.log.lock().unwrap().push((self.number, outcome));
    }
}

struct Bench {
    clock: ManualClock,
    purgatory: Purgatory<u32, Op>,
    log: Log,
}

impl Bench {
    fn new() -> Self {
        let clock = ManualClock::new();
        let purgatory = Purgatory::builder("test").clock(clock.clone()).hash_seed(1).build();
        Bench { clock, purgatory, log: Log::default() }
    }

    fn watch(&self, number: u32, ms: u64, keys: &[u32]) -> (OperationId, Arc<AtomicBool>) {
        let ready = Arc::new(AtomicBool::new(false));
        let op = Op { number, ready: Arc::clone(&ready), log: Arc::clone(&self.log) };
        let timeout = Duration::from_millis(ms);
        let registration = self.purgatory.try_complete_else_watch(op, timeout, keys.iter().copied());
        (registration.expect("accepted").id().expect("waits"), ready)
    }

    fn log(&self) -> Vec<(u32, Outcome)> {
        std::mem::take(&mut self.log.lock().unwrap())
    }

    fn assert_nothing_is_kept(&self) {
        for shard in &self.purgatory.engine.shards {
            let shard = shard.lock();
            shard.watch.check_invariants();
            assert_eq!((shard.watch.watchers(), shard.watch.keys(), shard.wheel.len()), (0, 0, 0));
            assert!(shard.owed.is_empty());
        }
        assert!(self.purgatory.stats().balances(), "{:?}", self.purgatory.stats());
    }
}

#[test]
fn whatever_ends_an_operation_takes_it_out_of_the_wheel_and_every_list() {
    let bench = Bench::new();
    let keys: Vec<u32> = (0..20).collect();
    let (_, ready) = bench.watch(0, 5, &keys);
    ready.store(true, Ordering::Release);
    assert_eq!(bench.purgatory.watched(), 20);
    assert_eq!(bench.purgatory.check_and_complete(&7), 1);
    bench.assert_nothing_is_kept();
    let (id, _) = bench.watch(1, 5, &keys);
    assert!(bench.purgatory.force_complete(id));
    bench.assert_nothing_is_kept();
    let (id, _) = bench.watch(2, 5, &keys);
    assert!(bench.purgatory.cancel(id).taken().is_some());
    bench.assert_nothing_is_kept();
    bench.watch(3, 5, &keys);
    bench.clock.advance(Duration::from_millis(5));
    assert_eq!(bench.purgatory.expire().expired, 1);
    bench.assert_nothing_is_kept();
    bench.watch(4, 5, &keys);
    assert_eq!(bench.purgatory.shutdown(), 1);
    bench.assert_nothing_is_kept();
    let outcomes = [Outcome::Satisfied, Outcome::Forced, Outcome::Expired, Outcome::Shutdown];
    assert_eq!(bench.log(), [0, 1, 3, 4].into_iter().zip(outcomes).collect::<Vec<_>>());
}

#[test]
fn a_callback_that_feeds_itself_does_not_hold_a_pass() {
    struct Again {
        purgatory: Arc<Purgatory<u32, Again>>,
        runs: Arc<AtomicUsize>,
    }
    impl DelayedOperation for Again {
        fn try_complete(&mut self) -> bool {
            false
        }
        fn on_complete(self, outcome: Outcome) {
            self.runs.fetch_add(1, Ordering::Relaxed);
            assert_ne!(outcome, Outcome::Panicked);
            let purgatory = Arc::clone(&self.purgatory);
            if let Ok(Registration::Watched(id)) = purgatory.try_complete_else_watch(self, Duration::MAX, [1])
            {
                purgatory.force_complete(id);
            }
        }
    }
    let clock = ManualClock::new();
    let purgatory: Arc<Purgatory<u32, Again>> =
        Arc::new(Purgatory::builder("feed").clock(clock.clone()).build());
    let runs = Arc::new(AtomicUsize::new(0));
    let again = Again { purgatory: Arc::clone(&purgatory), runs: Arc::clone(&runs) };
    purgatory.try_complete_else_watch(again, Duration::ZERO, [1]).expect("open").id().expect("waits");
    for pass in 1..=3 {
        let drive = purgatory.expire();
        assert!(!drive.more && drive.next == Some(Tick::ZERO), "{drive:?}: the rest is due now");
        assert!(runs.load(Ordering::Relaxed) <= pass * (JOBS_PER_PASS + 1));
    }
    // A shutdown breaks the chain: nothing is registered any more, and the rest of it runs out.
    assert_eq!(purgatory.shutdown(), 0);
    assert_eq!(purgatory.expire(), Drive::default());
    assert!(purgatory.stats().balances() && purgatory.is_empty());
}
