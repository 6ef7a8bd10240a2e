//! What a purgatory does that only its inside can show.

use super::drive::{EXPIRY_STEP, MOVE_STEP};
use super::engine::{HOLD_STEPS, LINK_STEP};
use super::watch::WALK_STEP;
use super::*;
use crate::clock::ManualClock;
use crate::operation::Outcome;
use crate::tick::Tick;
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
            assert!(shard.owed.is_empty() && !shard.has_waste());
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

/// Waits, and counts its end.
struct Waits(Arc<AtomicUsize>);

impl DelayedOperation for Waits {
    fn try_complete(&mut self) -> bool {
        false
    }
    fn on_complete(self, _: Outcome) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A million operations whose deadlines share a bucket of the wheel, a hundred thousand of them on one key and the rest
/// on keys of their own, in one shard; one with ten thousand keys. Whatever is done, no hold of the lock is long.
#[test]
fn no_hold_takes_more_steps_than_its_bound_with_a_million_timers_in_one_bucket() {
    const MILLION: u32 = 1_000_000;
    let (clock, ended) = (ManualClock::new(), Arc::new(AtomicUsize::new(0)));
    let purgatory: Purgatory<u32, Waits> =
        Purgatory::builder("million").clock(clock.clone()).shards(1).build();
    let watch = |millis: u32, keys: std::ops::Range<u32>| {
        let timeout = Duration::from_millis(millis.into());
        let registration = purgatory.try_complete_else_watch(Waits(Arc::clone(&ended)), timeout, keys);
        registration.expect("open").id().expect("waits")
    };
    // 64^3 to 2 * 64^3: one block of level 3.
    let in_one_bucket = |n: u32| 300_000 + n % 200_000;
    let earliest = watch(299_999, 1..2);
    for n in 0..MILLION {
        let key = if n % 10 == 0 { 0 } else { n };
        watch(in_one_bucket(n), key..key + 1);
    }
    watch(400_000, 2_000_000..2_010_000);
    let grown = crate::steps::most();
    assert!(grown <= HOLD_STEPS && grown > LINK_STEP, "{grown} steps of one hold while it grew");

    // Who only asks takes no more.
    assert_eq!((purgatory.watchers(&0).len(), purgatory.watcher_count(&0)), (128, 100_000));
    assert_eq!(purgatory.hottest_keys(1), [(0, 100_000)]);
    assert_eq!(purgatory.occupancy().total(), MILLION as usize + 2);
    let asked = crate::steps::most();
    assert!(asked <= HOLD_STEPS && asked > WALK_STEP, "{asked} steps of one hold to answer");

    // The earliest goes, so the next one must be looked for; and that is put off.
    assert_eq!(purgatory.next_expiration(), Some(Tick::new(299_999)));
    assert!(purgatory.cancel(earliest).is_cancelled());
    assert_eq!(purgatory.next_expiration(), Some(Tick::new(64 * 64 * 64)), "the start of the block");
    assert_eq!(purgatory.reset_timeout_for_key(&0, Duration::from_secs(400)), 100_000);
    assert_eq!(purgatory.check_and_complete(&0), 0);
    assert_eq!(purgatory.force_complete_for_key(&0), 100_000);
    assert_eq!(purgatory.cancel_for_key(&1).count(), 1);
    let walked = crate::steps::most();
    assert!(walked <= HOLD_STEPS && walked > WALK_STEP, "{walked} steps of one hold along a key");

    // At the start of the block all of them come down: that takes many holds, and more than one pass.
    clock.advance_to(Duration::from_millis(64 * 64 * 64));
    let mut passes = 1;
    while purgatory.expire().more {
        passes += 1;
    }
    assert!(passes >= 10, "{passes} passes to move 900,000 timers");
    assert_eq!(purgatory.next_expiration(), Some(Tick::new(300_001)));
    clock.advance_to(Duration::from_secs(1000));
    while purgatory.expire().more {}
    assert!(purgatory.is_empty() && purgatory.watched() == 0 && purgatory.key_count() == 0);
    let expired = crate::steps::most();
    assert!((MOVE_STEP..=HOLD_STEPS).contains(&expired), "{expired} steps of one hold of a drive");
    assert_eq!(ended.load(Ordering::Relaxed), MILLION as usize);
    assert!(!purgatory.engine.shards[0].lock().has_waste(), "what the tables gave up is carried off");
}

/// The clock of this test reads what it is told, earlier than before too.
#[derive(Clone, Default)]
struct Told(Arc<AtomicUsize>);

impl crate::clock::Clock for Told {
    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed) as u64)
    }
}

#[test]
fn a_clock_that_steps_back_in_the_middle_of_a_drive_keeps_nothing_from_ending_in_it() {
    for young in [2, EXPIRY_STEP as u32, 2000] {
        let (clock, log) = (Told::default(), Log::default());
        let purgatory: Purgatory<u32, Op> = Purgatory::builder("back").clock(clock.clone()).shards(1).build();
        let watch = |number, millis| {
            let op = Op { number, ready: Arc::default(), log: Arc::clone(&log) };
            let registration = purgatory.try_complete_else_watch(op, Duration::from_millis(millis), [1]);
            registration.expect("open").id().expect("waits")
        };
        let take = || -> Vec<u32> { log.lock().unwrap().drain(..).map(|end| end.0).collect() };
        for number in 0..1500 {
            watch(number, 10);
        }
        clock.0.store(20, Ordering::Relaxed);
        assert!(purgatory.expire().more, "one pass is not enough");
        clock.0.store(5, Ordering::Relaxed);
        let soon: Vec<_> = (0..young).map(|number| watch(2000 + number, 1)).collect();
        let never = watch(5000, 1);
        let mut drive = purgatory.expire();
        assert!(purgatory.reset_timeout(never, Duration::MAX), "set aside or not");
        while drive.more {
            drive = purgatory.expire();
        }
        assert!(take().into_iter().eq(0..1500), "what was due in this drive");
        assert_eq!(drive.next, Some(Tick::new(6)), "what was registered at 5 is due at 6 by the same clock");
        assert_eq!(purgatory.expire().expired, 0);
        clock.0.store(6, Ordering::Relaxed);
        while purgatory.expire().more {}
        assert!(take().into_iter().eq(2000..2000 + young), "in order of registration");
        assert!(soon.into_iter().all(|id| !purgatory.reset_timeout(id, Duration::MAX)));
        assert_eq!((purgatory.len(), purgatory.next_expiration()), (1, None));
        let most = crate::steps::most();
        assert!(most <= HOLD_STEPS, "{most} steps of one hold");
    }
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

#[test]
fn keys_are_spread_over_the_shards() {
    let bench = Bench::new();
    for key in 0..1600 {
        bench.watch(key, 5, &[key]);
    }
    let shards = bench.purgatory.engine.shards.iter();
    let keys: Vec<usize> = shards.map(|shard| shard.lock().watch.keys()).collect();
    assert_eq!((keys.len(), keys.iter().sum::<usize>()), (16, 1600));
    assert!(keys.iter().all(|keys| (50..200).contains(keys)), "{keys:?}");
}

#[test]
fn who_asks_for_the_next_deadline_promises_to_drive_unless_a_thread_does() {
    for driven in [false, true] {
        let rung = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&rung);
        let builder = Purgatory::builder("asked").clock(ManualClock::new());
        let purgatory: Purgatory<u32, Op> = builder
            .on_earlier_deadline(move || {
                count.fetch_add(1, Ordering::Relaxed);
            })
            .build();
        if driven {
            purgatory.engine().alarm().attach(&Arc::new(crate::alarm::Bell::new()));
        }
        let watch = |ms| {
            let op = Op { number: 0, ready: Arc::default(), log: Log::default() };
            let _ = purgatory.try_complete_else_watch(op, Duration::from_millis(ms), [1]).expect("open");
        };
        watch(5);
        assert_eq!((purgatory.cancel_for_key(&1).count(), rung.load(Ordering::Relaxed)), (1, 1));
        assert_eq!(purgatory.next_expiration(), None);
        watch(10);
        // Where a thread drives it sleeps until 5 ms: whoever merely asked has not changed what it promised.
        assert_eq!(rung.load(Ordering::Relaxed), if driven { 1 } else { 2 });
    }
}

#[test]
fn a_walk_that_breaks_off_leaves_no_place_of_its_own_behind() {
    let clock = ManualClock::new();
    let purgatory: Purgatory<std::rc::Rc<u32>, Op> = Purgatory::builder("walk").clock(clock).build();
    let key = std::rc::Rc::new(1);
    for number in 0..200 {
        let op = Op { number, ready: Arc::default(), log: Log::default() };
        let _ = purgatory
            .try_complete_else_watch(op, Duration::from_millis(5), [std::rc::Rc::clone(&key)])
            .expect("open");
    }
    assert!(purgatory.cancel_first(&key).is_cancelled());
    assert_eq!(purgatory.force_complete_for_key(&key), 199);
    assert_eq!(std::rc::Rc::strong_count(&key), 1, "the key's list is kept");
}
