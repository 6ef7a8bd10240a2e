//! What a purgatory says of itself: what it did, how late, how long, for whom, and where its timers are.

use crate::uptime::{clock, tick};
use ixion::wheel::Occupancy;
use ixion::{
    CaughtPanic, Clock, DelayedOperation, Histogram, ManualClock, Outcome, PanicPlace, Purgatory,
    Registration, Resolution, TimingWheel, Watch, Watcher,
};
use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Ends when it is told to, and does something then.
struct Op {
    ready: Arc<AtomicBool>,
    then: Box<dyn FnMut() + Send>,
}

impl Op {
    fn new() -> Self {
        Op::then(|| {})
    }

    fn then(then: impl FnMut() + Send + 'static) -> Self {
        Op { ready: Arc::default(), then: Box::new(then) }
    }
}

impl DelayedOperation for Op {
    fn try_complete(&mut self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }
    fn on_complete(mut self, _outcome: Outcome) {
        (self.then)();
    }
}

type Keyed = Purgatory<u32, Op>;

fn purgatory() -> (ManualClock, Keyed) {
    let clock = clock(Resolution::MILLISECOND);
    (clock.clone(), Purgatory::builder("observed").clock(clock).hash_seed(1).build())
}

fn register(purgatory: &Keyed, op: Op, timeout: Duration, key: u32) -> ixion::OperationId {
    purgatory.try_complete_else_watch(op, timeout, [key]).expect("open").id().expect("it waits")
}

fn drive(purgatory: &Keyed) -> usize {
    let mut expired = 0;
    loop {
        let pass = purgatory.expire();
        expired += pass.expired;
        if !pass.more {
            return expired;
        }
    }
}

/// All that was recorded, longest last: exact for what is below 32 us or a maximum, else the bucket's end.
fn times(histogram: &Histogram) -> Vec<Duration> {
    let each = histogram.buckets().flat_map(|bucket| (0..bucket.count).map(move |_| bucket.to));
    each.map(|time| time.min(histogram.max())).collect()
}

/// Whether each time is what is expected, to the precision of a histogram.
fn are_about(histogram: &Histogram, expected: &[Duration]) -> bool {
    let times = times(histogram);
    times.len() == expected.len()
        && times.iter().zip(expected).all(|(time, expected)| {
            (*expected..=*expected + *expected / 16 + Duration::from_micros(1)).contains(time)
        })
}

#[test]
fn the_time_to_a_deadline_is_what_is_left_of_it_and_never_stays_never() {
    let (clock, purgatory) = purgatory();
    register(&purgatory, Op::new(), ms(500), 1);
    register(&purgatory, Op::new(), Duration::MAX, 2);
    let left = |key| purgatory.time_to(purgatory.watchers(&key)[0].deadline);
    assert_eq!((left(1), left(2)), (ms(500), Duration::MAX));
    clock.advance(ms(200));
    assert_eq!((left(1), left(2)), (ms(300), Duration::MAX));
    clock.advance(ms(400)); // nobody has driven: it is overdue
    assert_eq!((left(1), left(2)), (Duration::ZERO, Duration::MAX));
}

#[test]
fn the_books_say_what_was_over_at_once_and_what_was_turned_away() {
    let clock = clock(Resolution::MILLISECOND);
    let purgatory: Keyed = Purgatory::builder("small").clock(clock).capacity(1).build();
    let over = Op { ready: Arc::new(AtomicBool::new(true)), ..Op::new() };
    assert!(purgatory.try_complete_else_watch(over, ms(5), [1]).expect("open").is_completed());
    register(&purgatory, Op::new(), ms(5), 1);
    for _ in 0..3 {
        assert!(purgatory.try_complete_else_watch(Op::new(), ms(5), [1]).is_err());
    }
    purgatory.shutdown();
    for _ in 0..2 {
        assert!(purgatory.try_complete_else_watch(Op::new(), ms(5), [1]).is_err());
    }
    let stats = purgatory.stats();
    assert_eq!((stats.registered, stats.at_once, stats.satisfied, stats.shut_down), (2, 1, 1, 1));
    assert_eq!((stats.rejected_full, stats.rejected_shutdown), (3, 2));
    assert!(stats.balances());
}

#[test]
fn drives_passes_and_calls_of_the_driver_are_counted() {
    let (clock, purgatory) = purgatory();
    for key in 0..3000 {
        register(&purgatory, Op::new(), ms(5), key);
    }
    assert_eq!(purgatory.stats().work.rings, 1, "the first one is the earliest, and so are no others");
    clock.advance(ms(5));
    assert_eq!(drive(&purgatory), 3000);
    let work = purgatory.stats().work;
    assert_eq!((work.drives, work.passes), (1, 3), "a pass is bounded");
    assert_eq!(drive(&purgatory), 0);
    let work = purgatory.stats().work;
    assert_eq!((work.drives, work.passes), (2, 4));
}

#[test]
fn a_timer_that_comes_down_the_wheel_is_counted_at_each_level() {
    let clock = ManualClock::new();
    let purgatory: Keyed = Purgatory::builder("down").clock(clock.clone()).build();
    register(&purgatory, Op::new(), ms(5), 1); // level 0
    // Level 2, and through level 1 to level 0: two that are neighbours all the way.
    register(&purgatory, Op::new(), ms(64 * 64 + 64 + 1), 2);
    register(&purgatory, Op::new(), ms(64 * 64 + 64 + 2), 2);
    clock.advance(ms(5));
    drive(&purgatory);
    assert_eq!(purgatory.stats().work.cascaded, 0);
    clock.advance(ms(10_000));
    drive(&purgatory);
    assert_eq!((purgatory.stats().expired, purgatory.stats().work.cascaded), (3, 4));
    purgatory.shutdown();
    assert_eq!(purgatory.stats().work.cascaded, 4, "what a wheel did outlives it");
}

#[test]
fn the_longest_pass_is_the_one_with_the_slowest_callbacks() {
    let (clock, purgatory) = purgatory();
    for (at, takes) in [(5, 3), (6, 40), (20, 7)] {
        let clock = clock.clone();
        register(&purgatory, Op::then(move || clock.advance(ms(takes))), ms(at), 1);
    }
    assert_eq!(purgatory.stats().work.longest_pass, Duration::ZERO);
    clock.advance(ms(6));
    assert_eq!(drive(&purgatory), 2);
    assert_eq!(purgatory.stats().work.longest_pass, ms(43));
    assert_eq!(drive(&purgatory), 1);
    assert_eq!(purgatory.stats().work.longest_pass, ms(43), "7 ms are less");
}

#[test]
fn an_expiry_is_as_late_as_the_drive_and_the_callbacks_before_it() {
    let (clock, purgatory) = purgatory();
    let slow = clock.clone();
    register(&purgatory, Op::then(move || slow.advance(ms(30))), ms(10), 1);
    register(&purgatory, Op::new(), ms(11), 2);
    clock.advance(Duration::from_micros(20_500));
    assert_eq!(drive(&purgatory), 2);
    // 20.5 - 10, and 20.5 + 30 - 11.
    let lateness = purgatory.lateness();
    assert!(
        are_about(&lateness, &[Duration::from_micros(10_500), Duration::from_micros(39_500)]),
        "{lateness:?}"
    );
    assert_eq!(lateness.sum(), ms(50));
}

#[test]
fn what_is_decided_together_is_equally_late_and_its_own_callbacks_do_not_count() {
    let clock = clock(Resolution::MILLISECOND);
    let purgatory: Keyed = Purgatory::builder("one").clock(clock.clone()).shards(1).build();
    for _ in 0..64 {
        let clock = clock.clone();
        register(&purgatory, Op::then(move || clock.advance(ms(10))), ms(5), 1);
    }
    clock.advance(ms(5));
    assert_eq!(drive(&purgatory), 64);
    assert_eq!((purgatory.lateness().count(), purgatory.lateness().max()), (64, Duration::ZERO));
}

#[test]
fn every_expiry_of_a_drive_of_many_passes_has_a_lateness() {
    let (clock, purgatory) = purgatory();
    for n in 0..5000u32 {
        register(&purgatory, Op::new(), ms(u64::from(n % 100)), n);
    }
    clock.advance(ms(100));
    assert_eq!(drive(&purgatory), 5000);
    let lateness = purgatory.lateness();
    assert_eq!((lateness.count(), lateness.max()), (5000, ms(100)));
    assert_eq!(lateness.sum(), ms(50 * (1..=100).sum::<u64>()));
}

#[test]
fn each_way_to_end_is_a_wait_of_its_length() {
    let clock = clock(Resolution::MILLISECOND);
    let purgatory: Keyed =
        Purgatory::builder("waits").clock(clock.clone()).capacity(7).measure_waits(true).build();
    let over = Op { ready: Arc::new(AtomicBool::new(true)), ..Op::new() };
    assert!(purgatory.try_complete_else_watch(over, ms(5), [1]).expect("open").is_completed());
    let ready = Arc::new(AtomicBool::new(false));
    register(&purgatory, Op { ready: Arc::clone(&ready), ..Op::new() }, Duration::MAX, 1);
    let forced = register(&purgatory, Op::new(), ms(1000), 2);
    let cancelled = register(&purgatory, Op::new(), ms(1000), 3);
    register(&purgatory, Op::new(), ms(4), 4);
    register(&purgatory, Op::new(), ms(1000), 5);
    clock.advance(ms(1));
    ready.store(true, Ordering::Relaxed);
    assert_eq!(purgatory.check_and_complete(&1), 1);
    clock.advance(ms(1));
    assert!(purgatory.force_complete(forced));
    clock.advance(ms(1));
    assert!(purgatory.cancel(cancelled).is_cancelled());
    clock.advance(ms(5));
    assert_eq!(drive(&purgatory), 1);
    clock.advance(ms(8));
    assert_eq!(purgatory.shutdown(), 1);
    let waits = purgatory.waits().expect("they are measured");
    assert!(are_about(&waits, &[ms(1), ms(2), ms(3), ms(8), ms(16)]), "{waits:?}");
    let stats = purgatory.stats();
    assert_eq!(waits.count(), stats.ended() - stats.at_once);
}

#[test]
fn a_new_timeout_does_not_begin_a_new_wait() {
    let clock = clock(Resolution::MILLISECOND);
    let purgatory: Keyed = Purgatory::builder("waits").clock(clock.clone()).measure_waits(true).build();
    let id = register(&purgatory, Op::new(), ms(10), 1);
    for _ in 0..5 {
        clock.advance(ms(9));
        assert!(purgatory.reset_timeout(id, ms(10)));
    }
    assert_eq!(purgatory.watchers(&1)[0].since, Some(tick(0)));
    clock.advance(ms(10));
    assert_eq!(drive(&purgatory), 1);
    assert_eq!(purgatory.waits().map(|waits| waits.max()), Some(ms(55)));
}

#[test]
fn waits_are_measured_only_where_that_is_asked_for() {
    let (_, purgatory) = purgatory();
    register(&purgatory, Op::new(), ms(5), 1);
    assert_eq!(purgatory.cancel_for_key(&1).count(), 1);
    assert_eq!(purgatory.waits(), None);
}

#[test]
fn who_waits_on_a_key_is_told_with_when_it_came_and_when_and_where_it_waits() {
    let (clock, purgatory) = purgatory();
    let at = |progress| {
        let watches = [Watch::at(7, progress), Watch::any(8)];
        let registered = purgatory.try_complete_else_watch_at(Op::new(), ms(500), watches);
        registered.expect("open").id().expect("it waits")
    };
    let numbered = [at(200), at(100)];
    clock.advance(Duration::from_micros(2_900));
    let plain = register(&purgatory, Op::new(), ms(10), 7);
    let never = register(&purgatory, Op::new(), Duration::MAX, 7);
    clock.advance(ms(3));
    let told: Vec<_> = purgatory
        .watchers(&7)
        .into_iter()
        .map(|Watcher { id, since, deadline, progress, .. }| (id, since, deadline, progress))
        .collect();
    assert_eq!(
        told,
        [
            (plain, Some(tick(2)), tick(13), None),
            (never, None, ixion::Tick::MAX, None),
            (numbered[0], Some(tick(0)), tick(500), Some(200)),
            (numbered[1], Some(tick(0)), tick(500), Some(100)),
        ]
    );
    assert_eq!(
        (purgatory.watcher_count(&7), purgatory.watcher_count(&8), purgatory.watcher_count(&9)),
        (4, 2, 0)
    );
    assert_eq!((purgatory.name(), purgatory.now()), ("observed", tick(5)));
}

#[test]
fn what_is_told_of_a_key_goes_with_those_that_wait_on_it() {
    let (clock, purgatory) = purgatory();
    register(&purgatory, Op::new(), ms(5), 1);
    register(&purgatory, Op::new(), ms(6), 1);
    let told = || (purgatory.watcher_count(&1), purgatory.watchers(&1).len(), purgatory.hottest_keys(3));
    assert_eq!(told(), (2, 2, vec![(1, 2)]));
    clock.advance(ms(5));
    drive(&purgatory);
    assert_eq!(told(), (1, 1, vec![(1, 1)]));
    assert_eq!(purgatory.cancel_for_key(&1).count(), 1);
    assert_eq!(told(), (0, 0, vec![]));
}

#[test]
fn a_key_that_only_a_walk_is_still_on_is_not_told_of() {
    let (_, purgatory) = purgatory();
    let (purgatory, ready) = (Arc::new(purgatory), Arc::new(AtomicBool::new(false)));
    let (asks, told) = (Arc::clone(&purgatory), Arc::new(Mutex::new(None)));
    let tell = Arc::clone(&told);
    let first = Op::then(move || {
        let cancelled = asks.cancel_for_key(&1).count();
        *tell.lock().unwrap() =
            Some((cancelled, asks.watcher_count(&1), asks.watchers(&1), asks.hottest_keys(9)));
    });
    register(&purgatory, Op { ready: Arc::clone(&ready), ..first }, ms(5), 1);
    // More than a walk takes in one step, so that it has a place of its own in the list.
    (0..200).for_each(|_| _ = register(&purgatory, Op::new(), ms(5), 1));
    ready.store(true, Ordering::Relaxed);
    assert_eq!(purgatory.check_and_complete(&1), 1);
    assert_eq!(*told.lock().unwrap(), Some((200, 0, vec![], vec![])));
}

#[test]
fn of_many_that_wait_on_a_key_the_first_are_told() {
    let (_, purgatory) = purgatory();
    let ids: Vec<_> = (0..1000).map(|_| register(&purgatory, Op::new(), ms(5), 1)).collect();
    assert!(purgatory.watchers(&1).iter().map(|waiting| waiting.id).eq(ids[..128].iter().copied()));
    assert!(purgatory.cancel(ids[0]).is_cancelled());
    assert!(purgatory.watchers(&1).iter().map(|waiting| waiting.id).eq(ids[1..129].iter().copied()));
    assert_eq!(purgatory.watcher_count(&1), 999);
}

#[test]
fn callbacks_may_ask_for_everything() {
    let (clock, purgatory) = purgatory();
    let purgatory = Arc::new(purgatory);
    let (asked, asks) = (Arc::new(Mutex::new(None)), Arc::clone(&purgatory));
    let answer = Arc::clone(&asked);
    let op = Op::then(move || {
        let (stats, waiters) = (asks.stats(), asks.watchers(&1).len());
        let (hottest, occupancy) = (asks.hottest_keys(1), asks.occupancy().total());
        *answer.lock().unwrap() = Some((stats.expired, waiters, hottest, occupancy, asks.waits()));
    });
    register(&purgatory, op, ms(5), 1);
    register(&purgatory, Op::new(), ms(50), 1);
    clock.advance(ms(5));
    drive(&purgatory);
    assert_eq!(*asked.lock().unwrap(), Some((1, 1, vec![(1, 1)], 1, None)));
}

proptest! {
    #[test]
    fn the_hottest_keys_are_those_with_most_that_wait(
        keys in prop::collection::vec(0..40u32, 0..300), most in 0..50usize, shards in 1..5usize,
    ) {
        let purgatory: Keyed = Purgatory::builder("hot").shards(shards).clock(ManualClock::new()).build();
        keys.iter().for_each(|key| _ = register(&purgatory, Op::new(), ms(5), *key));
        let hottest = purgatory.hottest_keys(most);
        let mut lengths: Vec<usize> =
            (0..40).map(|key| keys.iter().filter(|other| **other == key).count()).filter(|n| *n > 0).collect();
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        lengths.truncate(most);
        prop_assert!(hottest.iter().map(|(_, length)| *length).eq(lengths));
        for (at, (key, length)) in hottest.iter().enumerate() {
            prop_assert_eq!(purgatory.watcher_count(key), *length);
            prop_assert!(hottest[..at].iter().all(|(other, _)| other != key));
        }
    }

    #[test]
    fn each_timer_is_counted_in_the_bucket_of_its_highest_digit_that_is_not_the_wheels(
        start in any::<u64>(),
        delays in prop::collection::vec((any::<u64>(), 0..64u32), 0..300),
        step in 0..10_000u64,
    ) {
        let mut wheel = TimingWheel::starting_at(ixion::Tick::new(start));
        let mut waiting: Vec<u64> = delays.iter().map(|(bits, shift)| start.saturating_add(bits >> shift)).collect();
        waiting.iter().for_each(|deadline| _ = wheel.start_timer(ixion::Tick::new(*deadline), ()));
        let now = start.saturating_add(step);
        while wheel.pop_expired(ixion::Tick::new(now)).is_some() {}
        waiting.retain(|deadline| *deadline > now.min(u64::MAX - 1));
        let mut expected = [[0; Occupancy::SLOTS]; Occupancy::LEVELS];
        let mut never = 0;
        for deadline in &waiting {
            if *deadline == u64::MAX {
                never += 1;
                continue;
            }
            let level = (0..Occupancy::LEVELS as u32).rev().find(|level| deadline >> (6 * level) != now >> (6 * level));
            let level = level.expect("it lies ahead");
            expected[level as usize][(deadline >> (6 * level)) as usize % 64] += 1;
        }
        let occupancy = wheel.occupancy();
        prop_assert!(occupancy.levels().eq(expected.iter().map(|level| &level[..])));
        prop_assert_eq!((occupancy.never(), occupancy.overdue(), occupancy.total()), (never, 0, waiting.len()));
    }

    #[test]
    fn the_wheels_of_a_purgatory_add_up(
        timeouts in prop::collection::vec(0..1u64 << 40, 0..2000), shards in 1..5usize,
    ) {
        let purgatory: Keyed = Purgatory::builder("sum").shards(shards).clock(ManualClock::new()).build();
        let mut wheel = TimingWheel::new();
        for (key, timeout) in timeouts.iter().enumerate() {
            register(&purgatory, Op::new(), ms(*timeout), key as u32);
            wheel.start_timer(ixion::Tick::new(*timeout), ());
        }
        prop_assert_eq!(purgatory.occupancy(), wheel.occupancy());
    }
}

#[test]
fn a_timer_that_was_due_when_it_was_started_is_in_no_bucket() {
    let mut wheel = TimingWheel::starting_at(ixion::Tick::new(100));
    wheel.start_timer(ixion::Tick::new(50), ());
    let occupancy = wheel.occupancy();
    assert_eq!((occupancy.overdue(), occupancy.never(), occupancy.total()), (1, 0, 1));
    assert!(occupancy.levels().flatten().all(|count| *count == 0));
}

/// A clock that counts how often it is read, and panics when it is told to.
#[derive(Clone)]
struct Watched {
    clock: ManualClock,
    reads: Arc<AtomicU64>,
    breaks: Arc<AtomicBool>,
}

impl Watched {
    fn new() -> Self {
        Watched { clock: clock(Resolution::MILLISECOND), reads: Arc::default(), breaks: Arc::default() }
    }

    /// How often it was read since it was last asked.
    fn reads(&self) -> u64 {
        self.reads.swap(0, Ordering::Relaxed)
    }
}

impl Clock for Watched {
    fn elapsed(&self) -> Duration {
        self.reads.fetch_add(1, Ordering::Relaxed);
        if self.breaks.load(Ordering::Relaxed) {
            std::panic::resume_unwind(Box::new("planted"));
        }
        self.clock.elapsed()
    }
}

#[test]
fn the_clock_is_read_where_a_deadline_is_made_and_by_drives_and_nowhere_else() {
    for measured in [false, true] {
        let clock = Watched::new();
        let purgatory: Keyed =
            Purgatory::builder("reads").clock(clock.clone()).shards(1).measure_waits(measured).build();
        let each = u64::from(measured);
        clock.reads();
        let id = register(&purgatory, Op::new(), ms(5), 1);
        assert_eq!(clock.reads(), 1, "a registration");
        register(&purgatory, Op::new(), Duration::MAX, 2);
        assert_eq!(clock.reads(), each, "one that never expires");
        assert!(purgatory.reset_timeout(id, ms(7)));
        assert_eq!(clock.reads(), 1, "a reset");
        assert_eq!(purgatory.check_and_complete(&1), 0);
        let _ = (purgatory.stats(), purgatory.lateness(), purgatory.waits(), purgatory.hottest_keys(9));
        assert_eq!(clock.reads(), 0, "a look, and a question");
        assert_eq!(purgatory.force_complete_for_key(&2), 1);
        assert_eq!(clock.reads(), each, "an end");
        assert_eq!(purgatory.expire().expired, 0);
        assert_eq!(clock.reads(), 1, "a pass with nothing to do");
        clock.clock.advance(ms(7));
        assert_eq!(purgatory.expire().expired, 1);
        assert_eq!(clock.reads(), 2 + each, "a pass, at its beginning and its end");
    }
}

#[test]
fn a_clock_that_panics_costs_a_figure_and_no_operation() {
    let (clock, told) = (Watched::new(), Arc::new(AtomicU64::new(0)));
    let count = Arc::clone(&told);
    let purgatory: Keyed = Purgatory::builder("breaks")
        .clock(clock.clone())
        .measure_waits(true)
        .on_panic(move |caught: CaughtPanic<'_>| {
            assert_eq!(caught.place(), PanicPlace::Clock);
            count.fetch_add(1, Ordering::Relaxed);
        })
        .build();
    let (ended, breaks) = (Arc::new(AtomicU64::new(0)), Arc::clone(&clock.breaks));
    let end = |breaks: Option<Arc<AtomicBool>>| {
        let ended = Arc::clone(&ended);
        Op::then(move || {
            ended.fetch_add(1, Ordering::Relaxed);
            breaks.iter().for_each(|breaks| breaks.store(true, Ordering::Relaxed));
        })
    };
    register(&purgatory, end(Some(breaks)), ms(5), 1);
    register(&purgatory, end(None), ms(6), 2);
    register(&purgatory, end(None), ms(500), 3);
    clock.clock.advance(ms(10));
    assert_eq!(drive(&purgatory), 2);
    assert_eq!(purgatory.force_complete_for_key(&3), 1);
    let stats = purgatory.stats();
    assert_eq!((ended.load(Ordering::Relaxed), stats.expired, stats.forced), (3, 2, 1));
    assert!(stats.balances() && purgatory.is_empty());
    assert_eq!(purgatory.lateness().count(), 1, "the second one's is not known");
    assert_eq!(purgatory.waits().map(|waits| waits.count()), Some(1));
    // Before the second decision, at its end and that of the pass; and at the forced end.
    assert_eq!((told.load(Ordering::Relaxed), stats.panics), (4, 4));
    clock.breaks.store(false, Ordering::Relaxed);
    assert!(matches!(purgatory.try_complete_else_watch(Op::new(), ms(5), [1]), Ok(Registration::Watched(_))));
}
