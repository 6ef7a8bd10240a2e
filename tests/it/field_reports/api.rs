//! API: what callers get wrong.

use crate::guarantees::support::*;
use crate::uptime::tick;
use ixion::{Cancelled, Clock, DelayedOperation, ManualClock, Outcome, Purgatory, Resolution};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// API-01. There, a period of zero ran for ever. There are no periods here; a timeout of zero that an operation is given
/// while it waits is one end, at the next drive.
#[test]
fn an_operation_that_is_given_no_time_while_it_waits_ends_once() {
    let bench = Bench::new();
    bench.advance(7);
    let handle = bench.watch(0, ms_of(10), &[1]);
    assert!(bench.purgatory.reset_timeout(handle.id, Duration::ZERO));
    assert!(bench.purgatory.reset_timeout(handle.id, Duration::ZERO));
    assert_eq!(bench.purgatory.time_to_next(), Some(Duration::ZERO));
    assert_eq!(bench.drive().0, 1);
    assert_eq!((bench.drive().0, bench.purgatory.time_to_next()), (0, None), "and no more is due");
    assert_eq!(bench.take_log(), [(0, Outcome::Expired)]);
    let clamped = Bench::with(|builder| builder.max_timeout(Duration::ZERO));
    clamped.watch(0, NEVER, &[1]);
    assert_eq!((clamped.drive().0, clamped.drive().0, clamped.purgatory.stats().clamped), (1, 0, 1));
}

/// API-03. There, odd sizes and ticks were accepted, and misplaced timers. The wheel has no sizes to set; every tick and
/// every number of shards must work.
#[test]
fn with_every_tick_and_number_of_shards_each_timeout_expires_in_its_first_drive() {
    /// Notes the instant at which it must be over.
    struct Timed(Duration, Rc<RefCell<Vec<Duration>>>);
    impl DelayedOperation for Timed {
        fn try_complete(&mut self) -> bool {
            false
        }
        fn on_complete(self, _: Outcome) {
            self.1.borrow_mut().push(self.0);
        }
    }
    let ticks = [0, 1, 3, 63, 1_000_000, 1_000_007, 86_400_000_000_000, u64::MAX].map(Duration::from_nanos);
    for (tick, shards) in ticks.into_iter().flat_map(|tick| [0, 1, 2, 3, 63].map(|shards| (tick, shards))) {
        let resolution = Resolution::new(tick);
        let clock = ManualClock::with_resolution(resolution);
        let purgatory = Purgatory::builder("odd").clock(clock.clone()).shards(shards).build();
        let ended = Rc::new(RefCell::new(Vec::new()));
        let mut pending = Vec::new();
        let mut state = 1 + shards as u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let length = resolution.tick();
        let some = |random: u64| {
            let ticks = [random % 4, random % 70, random % 5000][(random >> 32) as usize % 3] as u32;
            length.saturating_mul(ticks).saturating_add(length / 7 * (random % 7) as u32)
        };
        for _ in 0..150 {
            for _ in 0..random() % 3 {
                let timeout = some(random());
                // With nothing to go it is due in the tick that the clock is in.
                let instant = clock.elapsed().saturating_add(timeout);
                let begun = resolution.start_of(clock.now());
                let due = if timeout.is_zero() { begun } else { instant };
                let op = Timed(due, Rc::clone(&ended));
                let _ = purgatory.try_complete_else_watch(op, timeout, [random() as u32]).unwrap();
                pending.push(due);
            }
            clock.advance(some(random()));
            while purgatory.expire().more {}
            let mut over = ended.take();
            over.sort_unstable();
            // Those whose tick has begun; where ticks are so long that time ends before the next one, none.
            let has_come = |due: Duration| resolution.ceil(due) <= clock.now();
            let mut expected: Vec<Duration> = pending.iter().copied().filter(|due| has_come(*due)).collect();
            expected.sort_unstable();
            pending.retain(|due| !has_come(*due));
            assert_eq!(over, expected, "ticks of {tick:?}, {shards} shards, at {:?}", clock.elapsed());
            assert!(over.iter().all(|due| *due <= clock.elapsed()), "never early");
        }
        assert!(purgatory.stats().expired > 50, "ticks of {tick:?}: {:?}", purgatory.stats());
        assert_eq!(purgatory.shutdown(), pending.len());
    }
}

/// API-05. There, an operation stood twice on one list.
#[test]
fn keys_given_twice_count_once_and_an_operation_without_keys_ends_by_its_time_or_its_id() {
    for (keys, distinct) in [(&[1, 1][..], 1), (&[1, 2, 1], 2), (&[2, 1, 1, 2, 2, 1], 2)] {
        let bench = Bench::new();
        let handle = bench.watch(0, ms_of(10), keys);
        bench.assert_left(1, distinct, distinct);
        handle.set();
        assert_eq!(bench.purgatory.check_and_complete(&1), 1);
        assert_eq!(bench.take_log(), [(0, Outcome::Satisfied)]);
        let handle = bench.watch(1, ms_of(10), keys);
        assert_eq!(bench.purgatory.reset_timeout_for_key(&1, ms_of(5)), 1);
        bench.advance(5);
        assert_eq!(bench.drive().0, 1);
        assert_eq!(bench.take_log(), [(1, Outcome::Expired)]);
        assert!(bench.purgatory.cancel(handle.id) == Cancelled::Gone);
        bench.watch(2, ms_of(10), keys);
        assert_eq!(bench.purgatory.cancel_for_key(&1).taken.len(), 1);
        bench.watch(3, ms_of(10), keys);
        assert_eq!(bench.purgatory.force_complete_for_key(&1), 1);
        assert_eq!(bench.take_log(), [(3, Outcome::Forced)]);
        bench.assert_left(0, 0, 0);
    }
    let bench = Bench::new();
    bench.watch(0, ms_of(10), &[]);
    let forced = bench.watch(1, ms_of(10), &[]);
    bench.assert_left(2, 0, 0);
    forced.set();
    assert_eq!(bench.purgatory.check_and_complete(&1), 0, "nobody can signal it");
    assert!(bench.purgatory.force_complete(forced.id));
    bench.advance(10);
    assert_eq!(bench.drive().0, 1);
    assert_eq!(bench.take_log(), [(1, Outcome::Forced), (0, Outcome::Expired)]);
    bench.assert_left(0, 0, 0);
}

/// API-07. There, whoever knew an item's id, or an old one, could acknowledge it before it was delivered. Here ids cannot
/// be made up, and an old one names nothing.
#[test]
fn an_old_id_touches_nothing_that_came_later_in_its_place() {
    let bench = Bench::with(|builder| builder.shards(1));
    let other = Bench::with(|builder| builder.shards(1));
    let old = bench.watch(0, ms_of(10), &[1]);
    assert!(bench.purgatory.cancel(old.id).is_cancelled());
    bench.watch(1, ms_of(10), &[1]);
    // The same place in another purgatory, at the same turn.
    let before = other.watch(2, ms_of(10), &[1]);
    assert!(other.purgatory.cancel(before.id).is_cancelled());
    let foreign = other.watch(3, ms_of(10), &[1]);
    bench.advance(9);
    for id in [old.id, foreign.id] {
        assert!(bench.purgatory.cancel(id) == Cancelled::Gone);
        assert!(!bench.purgatory.force_complete(id) && !bench.purgatory.reset_timeout(id, ms_of(100)));
    }
    assert_eq!((bench.drive().0, bench.purgatory.next_expiration()), (0, Some(tick(10))));
    bench.advance(1);
    assert_eq!(bench.drive().0, 1);
    assert_eq!(bench.take_log(), [(1, Outcome::Expired)]);
    other.assert_left(1, 1, 1);
}
