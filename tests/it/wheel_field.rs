//! Faults that other timers had in the field, as scenarios that this wheel passes.

use crate::uptime::{start, tick};
use ixion::{Tick, TimerId, TimingWheel};

/// A wheel at the start.
fn new_wheel() -> TimingWheel<u64> {
    TimingWheel::starting_at(tick(0))
}

fn drain(wheel: &mut TimingWheel<u64>, now: u64) -> Vec<(u64, u64)> {
    let all: Vec<_> = std::iter::from_fn(|| wheel.pop_expired(tick(now)))
        .map(|it| (it.deadline.as_u64() - start(), it.item))
        .collect();
    assert!(wheel.next_expiration().is_none_or(|next| next > tick(now)), "left overdue at {now}");
    wheel.check_invariants();
    all
}

/// A far timer shared the top level with nearer ones after a wrap, and hid them.
#[test]
fn a_far_timer_does_not_hide_a_near_one() {
    let span = 1u64 << 36;
    let far = [span - 1, span, u64::MAX].into_iter().chain((1..=64).map(|k| span + (k << 30)));
    let boundaries = (1..=10).map(|level| 1u64 << (6 * level)).chain([1 << 30, 1 << 36]);
    for boundary in boundaries {
        let now = boundary.saturating_sub(100);
        for far in far.clone().filter(|far| *far > boundary + 1000) {
            let mut wheel = new_wheel();
            let far = wheel.start_timer(tick(far), 0);
            assert_eq!(drain(&mut wheel, now), []);
            let near = wheel.start_timer(tick(now + 333), 1);
            assert_eq!(wheel.next_expiration(), Some(tick(now + 333)));
            assert_eq!(drain(&mut wheel, now + 332), []);
            assert_eq!(drain(&mut wheel, now + 333), [(now + 333, 1)]);
            assert_eq!((wheel.stop_timer(near), wheel.stop_timer(far)), (None, Some(0)));
            assert!(wheel.is_empty());
        }
    }
}

/// Newest first, where a list was filled from its head.
#[test]
fn equal_deadlines_do_not_expire_newest_first() {
    let start = |wheel: &mut TimingWheel<u64>, item: u64| {
        wheel.start_timer(tick(1000), item);
    };
    let run = |step: u64| {
        let mut wheel = new_wheel();
        (0..50).for_each(|n| start(&mut wheel, n));
        assert_eq!(drain(&mut wheel, 950), []);
        (50..100).for_each(|n| start(&mut wheel, n));
        let times = (951..=1000).filter(|now| (now - 950) % step == 0);
        times.flat_map(|now| drain(&mut wheel, now)).collect::<Vec<_>>()
    };
    let expected: Vec<_> = (0..100).map(|n| (1000, n)).collect();
    assert_eq!((run(50), run(1)), (expected.clone(), expected));
}

/// Taking one out of the middle broke the order, and a timer was never found again.
#[test]
fn stopping_one_in_the_middle_loses_no_other() {
    let mut wheel = new_wheel();
    let start = |wheel: &mut TimingWheel<u64>, at: u64| wheel.start_timer(tick(at), at);
    for at in [11_000, 90_000, 1_000] {
        start(&mut wheel, at);
    }
    let stopped = start(&mut wheel, 4_000);
    for at in [60_000, 100, 3_000] {
        start(&mut wheel, at);
    }
    assert_eq!(wheel.stop_timer(stopped), Some(4_000));
    start(&mut wheel, 16_000);
    let mut fired = Vec::new();
    for now in 1..=20_000 {
        for (deadline, item) in drain(&mut wheel, now) {
            assert_eq!((deadline, item), (now, now));
            fired.push(item);
            if item == 100 {
                let brief = start(&mut wheel, 1_500);
                assert_eq!(wheel.stop_timer(brief), Some(1_500));
            }
            if item % 1_000 == 0 && item < 20_000 && !fired.contains(&(item + 1_000)) {
                let next = item + 1_000;
                if ![3_000, 11_000, 16_000].contains(&next) {
                    start(&mut wheel, next);
                }
            }
        }
    }
    let expected: Vec<u64> = [100].into_iter().chain((1..=20).map(|n| n * 1_000)).collect();
    assert_eq!(fired, expected);
    assert_eq!(wheel.len(), 2);
}

/// After a sparse removal, ids and deadlines no longer belonged together.
#[test]
fn ids_and_deadlines_belong_together_after_a_sparse_removal() {
    let mut wheel = new_wheel();
    let started: Vec<(TimerId, u64)> =
        (0..1000u64).map(|n| n * 37 % 5000).map(|at| (wheel.start_timer(tick(at), at), at)).collect();
    for (id, at) in started.iter().step_by(3) {
        assert_eq!(wheel.stop_timer(*id), Some(*at));
    }
    let rest = started.iter().enumerate().filter(|(n, _)| n % 3 != 0).map(|(_, timer)| *timer);
    for (id, at) in rest.clone() {
        assert_eq!((wheel.deadline(id), wheel.get(id)), (Some(tick(at)), Some(&at)));
    }
    for (id, at) in rest {
        assert_eq!(wheel.stop_timer(id), Some(at));
    }
    assert!(wheel.is_empty());
    wheel.check_invariants();
}

/// An infinite delay overflowed, and fired at once, again and again.
#[test]
fn an_infinite_delay_does_not_fire() {
    for start in [0, 1_000_000_000_000] {
        let mut wheel = TimingWheel::starting_at(tick(start));
        let delays = [u64::MAX, u64::MAX / 1_000_000, i64::MAX as u64];
        let ids = delays.map(|delay| wheel.start_timer(tick(start.saturating_add(delay)), delay));
        for now in start..start + 3000 {
            assert_eq!(wheel.pop_expired(tick(now)), None);
        }
        assert_eq!(wheel.len(), 3);
        for (id, delay) in ids.into_iter().zip(delays) {
            assert_eq!(wheel.stop_timer(id), Some(delay));
        }
    }
}

/// A wheel that was older than its span refused every new timer.
#[test]
fn a_wheel_of_any_age_takes_timers() {
    for age in [(1 << 36) + 7, 1 << 42, 1 << 52] {
        for pending in [false, true] {
            let mut wheel = new_wheel();
            if pending {
                wheel.start_timer(tick(u64::MAX - 1), 0);
            }
            assert_eq!(drain(&mut wheel, age), []);
            for after in [10_000, 1, 0] {
                wheel.start_timer(tick(age + after), after);
            }
            for after in [0, 1, 10_000] {
                assert_eq!(wheel.next_expiration(), Some(tick(age + after)));
                assert_eq!(drain(&mut wheel, age + after), [(age + after, after)]);
            }
            assert_eq!(wheel.len(), usize::from(pending));
        }
    }
}

/// Advancing the clock by the maximum panicked.
#[test]
fn the_largest_step_fires_everything_finite_once() {
    let year = 365 * 24 * 3600 * 1000;
    let mut wheel = new_wheel();
    for deadline in [year, u64::MAX, 1] {
        wheel.start_timer(tick(deadline), deadline);
    }
    assert_eq!(drain(&mut wheel, u64::MAX), [(1, 1), (year, year)]);
    let late = wheel.start_timer(tick(year + 1), 7);
    assert_eq!(wheel.deadline(late), Some(tick(year + 1)));
    let last = u64::MAX - 1;
    wheel.start_timer(Tick::new(last), 8);
    assert_eq!(drain(&mut wheel, u64::MAX), [(year + 1, 7), (last - start(), 8)]);
    assert_eq!(wheel.len(), 1);
}

/// A step of a whole turn collapsed to nothing; a timer on the cursor's slot waited a turn too long.
#[test]
fn whole_turns_are_neither_skipped_nor_added() {
    for turn in [64u64, 4096] {
        for cursor in (0..turn).step_by(turn as usize / 64) {
            for step in [turn, turn * 3 / 2, turn * 2] {
                let mut wheel = TimingWheel::starting_at(tick(cursor));
                for n in (1..=turn).step_by(turn as usize / 64).chain(turn..turn + 100) {
                    wheel.start_timer(tick(cursor + n), n);
                }
                let before = wheel.len();
                let fired = drain(&mut wheel, cursor + step).len();
                assert_eq!(fired + wheel.len(), before);
            }
            for delay in
                [1, 2, 3].into_iter().flat_map(|turns| [turns * turn - 1, turns * turn, turns * turn + 1])
            {
                let mut wheel = TimingWheel::starting_at(tick(cursor));
                wheel.start_timer(tick(cursor + delay), delay);
                assert_eq!(drain(&mut wheel, cursor + delay - 1), []);
                assert_eq!(drain(&mut wheel, cursor + delay), [(cursor + delay, delay)]);
            }
        }
    }
}

/// Delays of 2^32 and more were cut to 32 bits.
#[test]
fn delays_beyond_32_bits_are_kept() {
    let delays = [u64::from(u32::MAX), 1 << 32, (1 << 32) + 1, (1 << 32) + 5000, 15_000_000_000];
    let mut wheel = new_wheel();
    for delay in delays {
        wheel.start_timer(tick(delay), delay);
    }
    assert_eq!(drain(&mut wheel, 6000), []);
    for delay in delays {
        assert_eq!(drain(&mut wheel, delay - 1), []);
        assert_eq!(drain(&mut wheel, delay), [(delay, delay)]);
    }
}

/// A timer a century away broke the computation of the wait once it was the nearest.
#[test]
fn a_timer_a_century_away_is_the_next_expiration() {
    let century = 100 * 365 * 24 * 3600 * 1000;
    let mut wheel = new_wheel();
    wheel.start_timer(tick(century), 0);
    assert_eq!(drain(&mut wheel, 200), []);
    assert_eq!(wheel.next_expiration(), Some(tick(century)));
    wheel.start_timer(tick(220), 1);
    assert_eq!(wheel.next_expiration(), Some(tick(220)));
    assert_eq!(drain(&mut wheel, 220), [(220, 1)]);
}

/// The bucket was computed again at removal, from another time than at insertion, and a wrong bit was cleared.
#[test]
fn stopping_after_time_crossed_a_high_bit_finds_the_right_bucket() {
    for bits in [6, 12, 18, 24, 30, 36, 42, 48, 54, 60] {
        for before in [false, true] {
            let edge = 1u64 << bits;
            let mut wheel = TimingWheel::starting_at(tick(edge - 20));
            let stopped = wheel.start_timer(tick(edge + 50), 0);
            wheel.start_timer(tick(edge + 50), 1);
            if before {
                assert_eq!(wheel.stop_timer(stopped), Some(0));
            }
            assert_eq!(drain(&mut wheel, edge + 10), []);
            assert_eq!(wheel.stop_timer(stopped), (!before).then_some(0));
            wheel.check_invariants();
            wheel.start_timer(tick(edge + 40), 2);
            assert_eq!(drain(&mut wheel, edge + 40), [(edge + 40, 2)]);
            assert_eq!(drain(&mut wheel, edge + 50), [(edge + 50, 1)]);
            assert!(wheel.is_empty());
            assert_eq!(wheel.next_expiration(), None);
        }
    }
}

/// Two settings of the maximum were added up, and became a short timeout.
#[test]
fn a_setting_of_the_maximum_is_not_a_short_timeout() {
    let now = 1_000_000_000_000;
    let mut wheel = TimingWheel::starting_at(tick(now));
    for timeout in [u64::MAX, i64::MAX as u64] {
        wheel.start_timer(tick(now.saturating_add(timeout).saturating_add(5000)), timeout);
    }
    assert_eq!(drain(&mut wheel, now + 24 * 3600 * 1000), []);
    assert_eq!(wheel.len(), 2);
}
