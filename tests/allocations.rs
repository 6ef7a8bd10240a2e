//! What the purgatory allocates, and what it gives back. A binary of its own: the allocator that counts, for each
//! thread apart, is the process's.

use allocation_counter::{AllocationInfo, measure};
use ixion::{
    DelayedOperation, ManualClock, OperationId, Outcome, Purgatory, Registration, Tick, TimingWheel, Waiting,
};
use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

/// Waits for a flag. Moving it about allocates nothing.
struct Plain {
    flag: Rc<Cell<bool>>,
}

impl DelayedOperation for Plain {
    fn try_complete(&mut self) -> bool {
        self.flag.get()
    }

    fn on_complete(self, _: Outcome) {}
}

struct Bench {
    clock: ManualClock,
    purgatory: Purgatory<u64, Plain>,
    flag: Rc<Cell<bool>>,
}

impl Bench {
    fn new() -> Self {
        let clock = ManualClock::new();
        // One shard, so that what warms it up warms up all.
        let purgatory = Purgatory::builder("alloc").clock(clock.clone()).shards(1).build();
        Bench { clock, purgatory, flag: Rc::default() }
    }

    fn register(&self, timeout: Duration, keys: impl IntoIterator<Item = u64>) -> Registration {
        let op = Plain { flag: Rc::clone(&self.flag) };
        self.purgatory.try_complete_else_watch(op, timeout, keys).expect("open")
    }

    fn watch(&self, timeout: Duration, keys: impl IntoIterator<Item = u64>) -> OperationId {
        self.register(timeout, keys).id().expect("waits")
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn an_operation_that_its_first_look_satisfies_allocates_nothing() {
    let bench = Bench::new();
    bench.flag.set(true);
    // Not even a thread's first call, nor one with many keys.
    let info = measure(|| {
        for _ in 0..100 {
            assert!(bench.register(SECOND, 0..1000).is_completed());
        }
    });
    assert_eq!(info.count_total, 0, "{info:?}");
}

#[test]
fn a_future_that_need_not_wait_allocates_nothing_one_that_waits_twice_and_each_wake_up_once() {
    let (purgatory, flag) = (Purgatory::<u64, Waiting>::builder("alloc").shards(1).build(), Cell::new(true));
    let mut context = Context::from_waker(Waker::noop());
    let mut wait = |events| {
        let mut wait = pin!(purgatory.wait(SECOND, [1], || flag.get().then_some(())));
        for _ in 0..events {
            assert!(wait.as_mut().poll(&mut context).is_pending());
            purgatory.check_and_complete(&1);
        }
        flag.set(true);
        assert!(wait.poll(&mut context).is_ready());
        flag.set(false);
    };
    let allocations = [0, 1, 1, 5].map(|events| measure(|| wait(events)).count_total);
    assert_eq!(
        (allocations[0], allocations[2], allocations[3]),
        (0, 3, 7),
        "the second warms up: {allocations:?}"
    );
}

#[test]
fn an_operation_that_waits_on_one_key_is_one_allocation() {
    let bench = Bench::new();
    // Tables, slabs and chunks, and a list for the key.
    for _ in 0..200 {
        bench.watch(SECOND, [7]);
    }
    let kept = bench.watch(SECOND * 2, [1]);
    assert_eq!(bench.purgatory.cancel_for_key(&7).count(), 200);
    let info = measure(|| {
        let id = bench.watch(SECOND, [1]);
        assert!(bench.purgatory.force_complete(id));
    });
    assert_eq!((info.count_total, info.count_current), (1, 0), "{info:?}");
    drop(bench.purgatory.cancel(kept));
}

/// What the documentation of `try_complete_else_watch` says, and no more when it ends than is said there.
#[test]
fn an_operation_that_waits_on_five_keys_is_three_allocations_and_a_fourth_when_it_ends() {
    let bench = Bench::new();
    for _ in 0..200 {
        bench.watch(SECOND, 1..=40);
    }
    // One is left, so that the tables stay.
    bench.watch(SECOND * 2, [99]);
    assert_eq!(bench.purgatory.cancel_for_key(&7).count(), 200);
    for (keys, registering, ending) in [(0, 1, 0), (2, 1, 0), (4, 1, 0), (5, 3, 1), (8, 3, 1)] {
        let mut id = None;
        let info = measure(|| id = Some(bench.watch(SECOND, 1..=keys)));
        assert_eq!(info.count_total, registering, "{keys} keys: {info:?}");
        let info = measure(|| assert!(bench.purgatory.force_complete(id.expect("it waits"))));
        assert_eq!(info.count_total, ending, "{keys} keys: {info:?}");
    }
}

#[test]
fn asking_and_signalling_allocate_nothing_if_nobody_or_a_few_wait() {
    let bench = Bench::new();
    let id = bench.watch(SECOND, [1, 2]);
    for _ in 0..3 {
        bench.watch(SECOND, [1]);
    }
    bench.clock.advance(SECOND / 2);
    let info = measure(|| {
        assert_eq!(bench.purgatory.check_and_complete(&7), 0, "nobody waits");
        assert_eq!(bench.purgatory.check_and_complete(&1), 0, "four wait, and go on waiting");
        assert_eq!(bench.purgatory.cancel_for_key(&7).count(), 0);
        assert_eq!(bench.purgatory.force_complete_for_key(&7), 0);
        assert!(bench.purgatory.contains_key(&2) && !bench.purgatory.contains_key(&7));
        assert_eq!((bench.purgatory.len(), bench.purgatory.watched()), (4, 5));
        assert!(bench.purgatory.stats().balances());
        assert!(bench.purgatory.next_expiration().is_some());
        assert_eq!(bench.purgatory.expire().expired, 0, "a pass with nothing due");
        assert!(bench.purgatory.reset_timeout(id, SECOND / 2), "within the same bucket");
    });
    assert_eq!(info.count_total, 0, "{info:?}");
}

#[test]
fn borrowed_forms_of_a_key_are_asked_for_without_an_allocation() {
    let purgatory: Purgatory<String, Plain> = Purgatory::builder("strings").build();
    let op = Plain { flag: Rc::default() };
    let _ = purgatory.try_complete_else_watch(op, SECOND, ["orders".to_owned()]).expect("open");
    let info = measure(|| {
        assert!(purgatory.contains_key("orders") && !purgatory.contains_key("payments"));
        assert_eq!(purgatory.check_and_complete("orders"), 0);
        assert_eq!(purgatory.cancel_for_key("payments").count(), 0);
        assert_eq!(purgatory.reset_timeout_for_key("payments", SECOND), 0);
    });
    assert_eq!(info.count_total, 0, "{info:?}");
}

#[test]
fn an_end_allocates_nothing_of_its_own() {
    let bench = Bench::new();
    let ids: Vec<_> = (0..100).map(|key| bench.watch(SECOND, [key, 100 + key])).collect();
    bench.clock.advance(SECOND);
    let info = measure(|| {
        for id in &ids[..30] {
            assert!(bench.purgatory.force_complete(*id));
        }
        for id in &ids[30..60] {
            drop(bench.purgatory.cancel(*id).taken().expect("nobody is inside"));
        }
        bench.flag.set(true);
        assert_eq!(bench.purgatory.check_and_complete(&60), 1);
        assert_eq!(bench.purgatory.cancel_first(&161).taken().iter().count(), 1);
    });
    // What the tables gave up while they grew is carried off once, for all.
    assert!(info.count_total < 12 && bench.purgatory.len() == 38, "{info:?}");
}

#[test]
fn an_expiry_and_a_pass_with_nothing_due_allocate_nothing() {
    let bench = Bench::new();
    let expire_one = || {
        bench.watch(Duration::from_millis(5), [1, 2]);
        bench.clock.advance(Duration::from_millis(5));
        measure(|| {
            assert_eq!(bench.purgatory.expire().expired, 1);
            assert_eq!((bench.purgatory.expire().expired, bench.purgatory.next_expiration()), (0, None));
        })
    };
    expire_one(); // the list of free places
    let info = expire_one();
    assert_eq!(info.count_total, 0, "{info:?}");
}

/// Of what a burst takes, an eighth may stay: a segment of each table in each shard, and what the wheel keeps at hand.
fn assert_given_back(info: AllocationInfo) {
    assert!(info.bytes_max > 10_000_000, "the burst is large enough to tell: {info:?}");
    assert!(info.bytes_current * 8 < info.bytes_max as i64, "{info:?}");
}

/// What a thing done again may add to what stayed the first time.
const NOTHING_MUCH: i64 = 100_000;

#[test]
fn memory_returns_after_operations_have_expired_on_a_key_that_is_never_signalled() {
    const BURST: u64 = 200_000;
    let bench = Bench::new();
    let burst = || {
        for number in 0..BURST {
            bench.watch(Duration::from_millis(number % 10_000), [7]);
        }
        assert_eq!(bench.purgatory.watched() as u64, BURST);
        bench.clock.advance(10 * SECOND);
        while bench.purgatory.expire().more {}
        assert!(bench.purgatory.is_empty() && bench.purgatory.key_count() == 0);
    };
    let first = measure(burst);
    assert_given_back(first);
    let again = measure(burst);
    assert!(again.bytes_current < NOTHING_MUCH, "and another burst adds nothing: {again:?}");
}

#[test]
fn memory_returns_after_many_keys_were_used_once() {
    const KEYS: u64 = 200_000;
    let bench = Bench::new();
    let burst = || {
        let ids: Vec<_> = (0..KEYS).map(|key| bench.watch(Duration::MAX, [key, KEYS + key])).collect();
        assert_eq!(bench.purgatory.key_count() as u64, 2 * KEYS);
        for id in ids {
            assert!(bench.purgatory.force_complete(id));
        }
        assert!(bench.purgatory.is_empty() && bench.purgatory.key_count() == 0);
    };
    let first = measure(burst);
    assert_given_back(first);
    let steady = measure(|| {
        for key in 0..10_000 {
            let id = bench.watch(Duration::MAX, [key]);
            assert!(bench.purgatory.force_complete(id));
        }
    });
    assert!(steady.bytes_current < NOTHING_MUCH, "one key after the other adds nothing: {steady:?}");
}

#[test]
fn memory_returns_after_a_shutdown_from_a_callback() {
    /// Shuts its purgatory down when it ends; the others' callbacks are queued meanwhile.
    struct Closer(Option<Rc<Purgatory<u64, Closer>>>);
    impl DelayedOperation for Closer {
        fn try_complete(&mut self) -> bool {
            false
        }
        fn on_complete(self, _: Outcome) {
            self.0.inspect(|purgatory| assert_eq!(purgatory.shutdown(), 100_000));
        }
    }
    let info = measure(|| {
        let purgatory = Rc::new(Purgatory::builder("closer").build());
        for key in 0..100_000 {
            let _ = purgatory.try_complete_else_watch(Closer(None), SECOND, [key]).expect("open");
        }
        let closer = Closer(Some(Rc::clone(&purgatory)));
        let id = purgatory.try_complete_else_watch(closer, SECOND, []).expect("open").id().expect("waits");
        assert!(purgatory.force_complete(id));
        assert_eq!((purgatory.len(), Rc::strong_count(&purgatory)), (0, 1));
    });
    assert!(info.bytes_current < NOTHING_MUCH, "{info:?}");
}

#[test]
fn a_payload_is_given_back_when_its_operation_ends_on_one_of_its_keys() {
    struct Heavy(Vec<u8>, Arc<()>);
    impl DelayedOperation for Heavy {
        fn try_complete(&mut self) -> bool {
            Arc::strong_count(&self.1) == 1
        }
        fn on_complete(self, _: Outcome) {
            assert_eq!(self.0.len(), 10_000_000);
        }
    }
    let purgatory: Purgatory<u64, Heavy> = Purgatory::builder("heavy").build();
    let gate = Arc::new(());
    let info = measure(|| {
        for _ in 0..5 {
            let op = Heavy(vec![0; 10_000_000], Arc::clone(&gate));
            let _ = purgatory.try_complete_else_watch(op, Duration::MAX, 0..50).expect("open");
        }
        assert_eq!(purgatory.force_complete_for_key(&49), 5);
        assert_eq!(purgatory.watched(), 0);
    });
    assert!(info.bytes_max >= 50_000_000 && info.bytes_current < NOTHING_MUCH, "{info:?}");
}

/// LEAK-01. Elsewhere what was cancelled stayed, with all that it held, until its time had come.
#[test]
fn memory_stays_flat_while_timers_are_registered_and_cancelled_one_after_the_other() {
    const ALL: u64 = if cfg!(debug_assertions) { 50_000 } else { 1_000_000 };
    let (bench, mut wheel) = (Bench::new(), TimingWheel::new());
    let info = measure(|| {
        for number in 0..ALL {
            let id = bench.watch(3600 * SECOND, [number, number % 7]);
            assert!(bench.purgatory.cancel(id).is_cancelled());
            let deadline = Tick::new(3_600_000 + number % 5000);
            let timer = wheel.start_timer(deadline, Rc::clone(&bench.flag));
            assert!(wheel.stop_timer(timer).is_some());
            assert_eq!(Rc::strong_count(&bench.flag), 1, "at once, and without time passing");
        }
    });
    assert_eq!((bench.purgatory.len(), bench.purgatory.watched(), wheel.len()), (0, 0, 0));
    assert!(info.bytes_max < NOTHING_MUCH as u64, "{info:?}");
}

/// LEAK-01. The same where all of them wait before the first is cancelled.
/// Sessions that are kept alive: nothing ends, and nothing comes so near that a drive would clear up.
#[test]
fn memory_stays_flat_while_timeouts_are_reset_again_and_again() {
    let bench = Bench::new();
    let ids: Vec<_> = (0..10_000).map(|_| bench.watch(SECOND * 30, [])).collect();
    let mut seed = 1u64;
    let mut sweep = || {
        for _ in &ids {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            assert!(bench.purgatory.reset_timeout(ids[(seed >> 33) as usize % ids.len()], SECOND * 30));
        }
        bench.clock.advance(SECOND / 10);
        assert_eq!(bench.purgatory.expire().expired, 0);
    };
    (0..10).for_each(|_| sweep());
    let info = measure(|| (0..40).for_each(|_| sweep()));
    assert!(info.bytes_current < 200_000, "{info:?}");
}

#[test]
fn memory_returns_when_timers_are_cancelled_long_before_they_are_due() {
    const ALL: u64 = if cfg!(debug_assertions) { 80_000 } else { 1_000_000 };
    let bench = Bench::new();
    let info = measure(|| {
        let ids: Vec<_> = (0..ALL).map(|number| bench.watch(3600 * SECOND, [number % 1000])).collect();
        assert_eq!(Rc::strong_count(&bench.flag) as u64, ALL + 1);
        for id in ids {
            assert!(bench.purgatory.cancel(id).is_cancelled());
        }
        assert_eq!(Rc::strong_count(&bench.flag), 1);
    });
    assert!(bench.purgatory.is_empty() && bench.purgatory.watched() == 0);
    assert_given_back(info);
}

/// So many operations in all, and so many that wait at the same time.
const OPERATIONS: u64 = if cfg!(debug_assertions) { 2 * WAVE } else { 1_000_000 };
const WAVE: u64 = if cfg!(debug_assertions) { 30_000 } else { 50_000 };

/// An operation with something of its own.
struct Loaded {
    flag: Rc<Cell<bool>>,
    /// As many as wait have one.
    _alive: Rc<()>,
    _payload: Box<[u64; 4]>,
}

impl DelayedOperation for Loaded {
    fn try_complete(&mut self) -> bool {
        self.flag.get()
    }

    fn on_complete(self, _: Outcome) {}
}

struct Crowd {
    clock: ManualClock,
    purgatory: Purgatory<u64, Loaded>,
    flag: Rc<Cell<bool>>,
    alive: Rc<()>,
}

impl Crowd {
    fn new() -> Crowd {
        let clock = ManualClock::new();
        let purgatory = Purgatory::builder("crowd").clock(clock.clone()).build();
        Crowd { clock, purgatory, flag: Rc::default(), alive: Rc::default() }
    }

    /// The three keys of an operation: its own, one that ten share, and one that hundreds share.
    fn keys(number: u64) -> [u64; 3] {
        [number, (1 << 32) + number / 10, (2 << 32) + number % 100]
    }

    /// The keys by which a wave ends: one of each operation's three, by the number of the wave.
    fn keys_of(wave: u64) -> impl Iterator<Item = u64> {
        (0..WAVE).map(move |number| Crowd::keys(number)[wave as usize % 3])
    }

    fn gather(&self) {
        self.flag.set(false);
        for number in 0..WAVE {
            let (flag, alive) = (Rc::clone(&self.flag), Rc::clone(&self.alive));
            let op = Loaded { flag, _alive: alive, _payload: Box::new([number; 4]) };
            let timeout = Duration::from_millis(1 + number % 5000);
            let registered = self.purgatory.try_complete_else_watch(op, timeout, Crowd::keys(number));
            assert!(!registered.expect("open").is_completed());
        }
        assert_eq!(Rc::strong_count(&self.alive) as u64, WAVE + 1);
        assert_eq!(self.purgatory.watched() as u64, 3 * WAVE);
    }

    fn assert_dispersed(&self) {
        let stats = self.purgatory.stats();
        assert_eq!((stats.pending, stats.watched, stats.keys), (0, 0, 0), "{stats:?}");
        assert_eq!(Rc::strong_count(&self.alive), 1, "a payload is kept");
    }
}

/// Wave after wave, each ended by `end`, which is given the number of the wave.
fn nothing_stays(end: impl Fn(&Crowd, u64)) {
    let crowd = Crowd::new();
    let wave = |number| {
        crowd.gather();
        end(&crowd, number);
        crowd.assert_dispersed();
    };
    assert_given_back(measure(|| wave(0)));
    let waves = OPERATIONS / WAVE;
    let rest = measure(|| (1..waves).for_each(wave));
    assert!(rest.bytes_current < NOTHING_MUCH, "{rest:?}");
    // The payload, three to register, one at the end; and one for five operations of the tables, and of the
    // places for what they give up.
    let operations = (waves - 1) * WAVE;
    assert!(rest.count_total <= 5 * operations + operations / 5, "{rest:?}");
}

#[test]
fn after_a_million_events_nothing_stays() {
    nothing_stays(|crowd, wave| {
        crowd.flag.set(true);
        let ended: usize = Crowd::keys_of(wave).map(|key| crowd.purgatory.check_and_complete(&key)).sum();
        assert_eq!(ended as u64, WAVE);
    });
}

#[test]
fn after_a_million_expiries_nothing_stays() {
    nothing_stays(|crowd, _| {
        crowd.clock.advance(5 * SECOND);
        while crowd.purgatory.expire().more {}
    });
}

#[test]
fn after_a_million_forced_completions_nothing_stays() {
    nothing_stays(|crowd, wave| {
        let ended: usize = Crowd::keys_of(wave).map(|key| crowd.purgatory.force_complete_for_key(&key)).sum();
        assert_eq!(ended as u64, WAVE);
    });
}

#[test]
fn after_a_million_cancellations_nothing_stays() {
    nothing_stays(|crowd, wave| {
        let ended: usize = Crowd::keys_of(wave).map(|key| crowd.purgatory.cancel_for_key(&key).count()).sum();
        assert_eq!(ended as u64, WAVE);
    });
}

#[test]
fn after_the_shutdown_of_a_million_nothing_stays() {
    let wave = |number| {
        let crowd = Crowd::new();
        crowd.gather();
        let ended = if number % 2 == 0 {
            crowd.purgatory.shutdown()
        } else {
            crowd.purgatory.shutdown_and_hand_back().count()
        };
        assert_eq!(ended as u64, WAVE);
        crowd.assert_dispersed();
        // What stays while the purgatory does.
        crowd
    };
    let info = measure(|| {
        for number in 0..OPERATIONS / WAVE {
            let mut crowd = None;
            assert_given_back(measure(|| crowd = Some(wave(number))));
        }
    });
    assert!(info.bytes_current < NOTHING_MUCH, "{info:?}");
}

#[test]
fn a_wheel_knows_what_it_holds() {
    for (timers, spread) in [(0, 1), (100_000, 1), (100_000, 1 << 30)] {
        let mut wheel = None;
        let info = measure(|| {
            let mut filled = TimingWheel::starting_at(Tick::new(10));
            for number in 0..timers {
                filled.start_timer(Tick::new(10 + number * 7919 % spread), number);
            }
            wheel = Some(filled);
        });
        let (held, told) = (info.bytes_current, wheel.expect("it was made").heap_size() as i64);
        assert!((held - told).abs() * 20 <= held, "{told} bytes, it says, and has {held}");
    }
    let mut wheel = None;
    let info = measure(|| {
        let mut late = TimingWheel::starting_at(Tick::new(10));
        for number in 0..100_000 {
            late.start_timer(Tick::ZERO, number);
        }
        wheel = Some(late);
    });
    let (held, told) = (info.bytes_current, wheel.expect("it was made").heap_size() as i64);
    // Of trees it knows only how full a node is at least.
    assert!((held - told).abs() * 2 <= held, "{told} bytes, it says, and has {held}");
}
