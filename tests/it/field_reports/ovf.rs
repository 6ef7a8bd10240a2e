//! OVF: overflow, wrapping round, and the far future.

use crate::guarantees::support::*;
use crate::uptime::tick;
use ixion::{Cancelled, Clock, Outcome, TimingWheel};
use std::time::Duration;

const DAY: u64 = 24 * 3600 * 1000;
const YEAR: u64 = 365 * DAY;

/// OVF-01. There, the sum of now and an infinite delay was negative, and it fired at once, again and again. (The wheel's
/// part is `wheel_field::an_infinite_delay_does_not_fire`.)
#[test]
fn infinite_timeouts_at_any_uptime_do_not_expire_and_can_be_cancelled() {
    let bench = Bench::with(|builder| builder.shards(1));
    let timeouts = [Duration::MAX, Duration::from_nanos(u64::MAX), ms_of(i64::MAX as u64)];
    let mut waiting = Vec::new();
    for start in [0, 1_000_000_000_000] {
        bench.advance_to(ms_of(start));
        // 2^64 ns are 584 years, so those of the first round are left behind before the second begins.
        waiting.extend(timeouts.iter().map(|timeout| bench.watch(0, *timeout, &[1])));
        for _ in 0..3000 {
            bench.advance(1);
            assert_eq!(bench.purgatory.expire().expired, 0);
        }
    }
    bench.assert_left(6, 6, 1);
    for handle in waiting {
        assert!(matches!(bench.purgatory.cancel(handle.id), Cancelled::Taken(_)));
    }
    bench.assert_left(0, 0, 0);
}

/// OVF-03. There, an engine that was older than its wheel's span refused ordinary timeouts. (The wheel's part is
/// `wheel_field::a_wheel_of_any_age_takes_timers`.)
#[test]
fn a_purgatory_of_any_age_takes_ordinary_timeouts() {
    for age in [(1 << 36) + 7, 1 << 42, 1 << 52, u64::MAX - 20_000] {
        for pending in [false, true] {
            let bench = Bench::new();
            if pending {
                bench.watch(9, ms_of(u64::MAX - 2), &[9]);
            }
            bench.advance_to(ms_of(age));
            assert_eq!(bench.drive().0, 0);
            let timeouts = [10_000, 1, 0];
            timeouts.into_iter().zip(0..).for_each(|(ms, number)| drop(bench.watch(number, ms_of(ms), &[1])));
            for (after, number) in [(0, 2), (1, 1), (10_000, 0)] {
                assert_eq!(bench.purgatory.next_expiration(), Some(tick(age + after)));
                bench.advance_to(ms_of(age + after) - Duration::from_nanos(u64::from(after > 0)));
                assert_eq!(bench.drive().0, usize::from(after == 0), "not before");
                bench.advance_to(ms_of(age + after));
                let _ = bench.drive();
                assert_eq!(bench.take_log(), [(number, Outcome::Expired)]);
            }
            assert_eq!(bench.purgatory.len(), usize::from(pending));
        }
    }
}

/// OVF-05. There, advancing the clock by the maximum panicked. (The wheel's part is
/// `wheel_field::the_largest_step_fires_everything_finite_once`.)
#[test]
fn a_clock_advanced_by_the_maximum_stands_at_the_end_of_time_and_expires_what_is_finite() {
    let bench = Bench::new();
    bench.advance(5);
    let never = bench.watch(0, NEVER, &[1]);
    bench.watch(1, ms_of(YEAR), &[1]);
    bench.watch(2, ms_of(1), &[1]);
    bench.clock.advance(Duration::MAX);
    bench.clock.advance(Duration::MAX);
    assert_eq!(bench.clock.elapsed(), Duration::MAX);
    assert_eq!(bench.drive().0, 2);
    assert_eq!(bench.take_log(), [(2, Outcome::Expired), (1, Outcome::Expired)]);
    // There is no time after it, so what has any time to go waits for ever; what has none is due.
    bench.watch(3, ms_of(1), &[1]);
    bench.watch(4, Duration::ZERO, &[1]);
    assert!(bench.purgatory.reset_timeout(never.id, ms_of(1)));
    assert_eq!(bench.drive().0, 1);
    assert_eq!(bench.take_log(), [(4, Outcome::Expired)]);
    bench.assert_left(2, 2, 1);
}

/// OVF-07. There, a step of a whole turn and more looked at nothing.
#[test]
fn a_step_of_whole_turns_expires_exactly_what_is_due() {
    for turn in [64u64, 4096] {
        for (cursor, step) in [0, 1, 63, 64, 100].into_iter().flat_map(|cursor| {
            [turn, turn * 3 / 2, turn * 2, turn * 2 + 1].into_iter().map(move |step| (cursor, step))
        }) {
            let delays = || (1..=turn).chain(turn + 1..=turn + 100);
            let due = delays().filter(|delay| *delay <= step).count();
            let mut wheel = TimingWheel::starting_at(tick(cursor));
            for delay in delays() {
                wheel.start_timer(tick(cursor + delay), delay);
            }
            let now = tick(cursor + step);
            let fired: Vec<u64> = std::iter::from_fn(|| wheel.pop_expired(now)).map(|it| it.item).collect();
            assert!(fired.into_iter().eq(1..=due as u64), "at {cursor} + {step}");
            assert!(wheel.next_expiration().is_none_or(|next| next > now), "none is left overdue");

            let bench = Bench::with(|builder| builder.shards(1));
            bench.advance(cursor);
            delays().for_each(|delay| drop(bench.watch(delay as u32, ms_of(delay), &[])));
            bench.advance(step);
            let (expired, last) = bench.drive();
            assert_eq!(expired, due, "at {cursor} + {step}");
            assert!(bench.take_log().into_iter().map(|end| end.0).eq(1..=due as u32));
            assert!(last.next.is_none_or(|next| next > bench.clock.now()));
        }
    }
}

/// OVF-09. There, a timer in the slot under the cursor waited for a turn too long. (The wheel's part is
/// `wheel_field::whole_turns_are_neither_skipped_nor_added`.)
#[test]
fn a_timeout_of_whole_turns_expires_on_its_tick_from_every_position() {
    for turn in [64u64, 4096] {
        for cursor in (0..turn).step_by(turn as usize / 64) {
            for delay in [1, 2, 3].into_iter().flat_map(|turns| turns * turn - 1..=turns * turn + 1) {
                let bench = Bench::with(|builder| builder.shards(1));
                bench.advance(cursor);
                let _ = bench.drive();
                bench.watch(0, ms_of(delay), &[]);
                bench.advance(delay - 1);
                assert_eq!(bench.drive().0, 0, "{delay} after {cursor}");
                bench.advance(1);
                assert_eq!(bench.drive().0, 1, "{delay} after {cursor}");
            }
        }
    }
}

/// OVF-11. There, delays of 2^32 ms and more were taken for none. (The wheel's part is
/// `wheel_field::delays_beyond_32_bits_are_kept`.)
#[test]
fn timeouts_beyond_32_bits_of_milliseconds_are_kept() {
    let timeouts = [u64::from(u32::MAX), 1 << 32, (1 << 32) + 1, (1 << 32) + 5000, 15_000_000_000];
    let bench = Bench::new();
    (0..).zip(timeouts).for_each(|(number, ms)| drop(bench.watch(number, ms_of(ms), &[1])));
    bench.advance(6000);
    assert_eq!(bench.drive().0, 0);
    for (number, ms) in (0..).zip(timeouts) {
        bench.advance_to(ms_of(ms - 1));
        assert_eq!(bench.drive().0, 0);
        bench.advance_to(ms_of(ms));
        assert_eq!(bench.drive().0, 1);
        assert_eq!(bench.take_log(), [(number, Outcome::Expired)]);
    }
}

/// OVF-15. There, the sum of two settings, or of now and a setting, was a short timeout.
#[test]
fn a_setting_of_the_maximum_is_a_long_wait_that_an_event_ends() {
    let bench = Bench::new();
    bench.advance_to(ms_of(1_000_000_000_000));
    let grace = Duration::from_secs(5);
    let timeouts =
        [ms_of(u64::MAX), ms_of(i64::MAX as u64), Duration::MAX, ms_of(u64::MAX).saturating_add(grace)];
    let handles: Vec<Handle> =
        (0..).zip(timeouts).map(|(number, timeout)| bench.watch(number, timeout, &[1])).collect();
    assert!(bench.purgatory.reset_timeout(handles[0].id, Duration::MAX.saturating_add(grace)));
    bench.advance(DAY);
    assert_eq!(bench.drive().0, 0);
    let to_next = bench.purgatory.time_to_next().expect("2^63 ms are a time");
    assert_eq!(to_next, ms_of(i64::MAX as u64 - DAY));
    handles.iter().for_each(Handle::set);
    assert_eq!(bench.purgatory.check_and_complete(&1), 4);
    assert!(bench.take_log().iter().all(|end| end.1 == Outcome::Satisfied));
    bench.assert_left(0, 0, 0);
}

/// OVF-17. There, the bucket was computed again at the removal, from another time than at the insertion. (The wheel's
/// part is `wheel_field::stopping_after_time_crossed_a_high_bit_finds_the_right_bucket`.)
#[test]
fn cancelling_after_time_has_crossed_a_high_bit_takes_out_the_right_operation() {
    for bits in [6, 12, 18, 24, 30, 36, 42, 48, 54, 60] {
        for before in [false, true] {
            let (bench, edge) = (Bench::with(|builder| builder.shards(1)), 1u64 << bits);
            bench.advance_to(ms_of(edge - 20));
            assert_eq!(bench.drive().0, 0);
            let cancelled = bench.watch(0, ms_of(70), &[1]);
            bench.watch(1, ms_of(70), &[1]);
            if before {
                assert!(bench.purgatory.cancel(cancelled.id).is_cancelled());
            }
            bench.advance(30);
            assert_eq!(bench.drive().0, 0);
            assert_eq!(bench.purgatory.cancel(cancelled.id).is_cancelled(), !before);
            bench.watch(2, ms_of(30), &[1]);
            for (number, at) in [(2, 40), (1, 50)] {
                assert_eq!(bench.purgatory.next_expiration(), Some(tick(edge + at)));
                bench.advance_to(ms_of(edge + at - 1));
                assert_eq!(bench.drive().0, 0);
                bench.advance(1);
                assert_eq!(bench.drive().0, 1);
                assert_eq!(bench.take_log(), [(number, Outcome::Expired)]);
            }
            assert_eq!(bench.purgatory.next_expiration(), None);
            bench.assert_left(0, 0, 0);
        }
    }
}
