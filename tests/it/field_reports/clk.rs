//! CLK: clocks that step back, jump ahead, or are read too early.

use crate::guarantees::support::*;
use crate::uptime::{after, tick};
use ixion::{Outcome, TimingWheel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// CLK-01. There, a reading that was smaller than the one before panicked in the wheel.
#[test]
fn a_wheel_that_is_told_an_earlier_time_stands_still() {
    let mut wheel = TimingWheel::starting_at(tick(0));
    for deadline in [24, 25, 26, 30] {
        wheel.start_timer(tick(67_137_000 + deadline), deadline);
    }
    let mut fired = Vec::new();
    for now in [25, 24, 24, 30] {
        let before = wheel.now();
        while let Some(due) = wheel.pop_expired(tick(67_137_000 + now)) {
            fired.push((now, due.item));
        }
        assert!(wheel.now() >= before);
        wheel.check_invariants();
    }
    assert_eq!(fired, [(25, 24), (25, 25), (30, 26), (30, 30)]);
    assert!(wheel.is_empty());
}

/// CLK-01, of a purgatory.
#[test]
fn a_clock_that_steps_back_expires_nothing_twice_and_nothing_early_by_its_highest_reading() {
    let bench = Bench::new();
    for (number, at) in (0..).zip([24, 25, 26, 30]) {
        bench.watch(number, ms_of(67_137_000 + at), &[1]);
    }
    let expired = [25, 24, 24, 30].map(|now| {
        bench.advance_to(ms_of(67_137_000 + now));
        bench.drive().0
    });
    assert_eq!(expired, [2, 0, 0, 2]);
    assert!(bench.take_log().into_iter().map(|end| end.0).eq(0..4), "each once");
    // Back by 38 s for a second, and then on as if nothing had been.
    let now = bench.elapsed();
    (4..7).zip([500, 1000, 40_000]).for_each(|(number, ms)| drop(bench.watch(number, ms_of(ms), &[1])));
    for at in 0..1000 {
        bench.advance_to(now - Duration::from_secs(38) + ms_of(at));
        assert_eq!(bench.drive().0, 0);
    }
    for (after, expired) in [(999, 1), (1000, 1), (39_999, 0), (40_000, 1)] {
        bench.advance_to(now + ms_of(after));
        assert_eq!(bench.drive().0, expired, "{after} ms after");
    }
    bench.assert_left(0, 0, 0);
}

/// What a periodic operation does about the points of its grid that were missed.
#[derive(Clone, Copy, PartialEq)]
enum Missed {
    /// Goes on with the next point that is still ahead.
    Skip,
    /// Makes up for each.
    Burst,
    /// Lets a whole period pass from now.
    Delay,
}

const PERIOD: u64 = 1000;

/// Registers an operation that notes when it ran, for which point of its grid, and registers itself again.
fn arm(bench: &Arc<Bench>, runs: &Arc<Mutex<Vec<(u64, u64)>>>, point: u64, missed: Missed) {
    let mut op = bench.probe(0);
    let (shared, noted) = (Arc::clone(bench), Arc::clone(runs));
    op.at_end = Some(Box::new(move |outcome| {
        if outcome != Outcome::Expired {
            return;
        }
        let now = after(shared.clock.now());
        noted.lock().unwrap().push((now, point));
        let next = match missed {
            Missed::Skip => now / PERIOD + 1,
            Missed::Burst | Missed::Delay => point + 1,
        };
        arm(&shared, &noted, next, missed);
    }));
    let now = bench.elapsed();
    let timeout = match missed {
        Missed::Delay => ms_of(PERIOD),
        Missed::Skip | Missed::Burst => ms_of(point * PERIOD).saturating_sub(now),
    };
    bench.wait(op, timeout, &[1]);
}

/// CLK-03. There, after the machine had slept, a periodic task ran in a burst that nobody had asked for. Here a callback
/// registers again as it likes, and a drive runs it once.
#[test]
fn after_a_jump_of_the_clock_a_periodic_operation_skips_catches_up_or_goes_on_as_it_registers() {
    for missed in [Missed::Skip, Missed::Burst, Missed::Delay] {
        for jump in [10, 8 * 3600] {
            let (bench, runs) = (Arc::new(Bench::new()), Arc::default());
            arm(&bench, &runs, 1, missed);
            bench.advance(PERIOD);
            assert_eq!(bench.drive().0, 1);
            bench.advance(jump * PERIOD + 300);
            let mut drives = 0;
            while bench.purgatory.time_to_next() == Some(Duration::ZERO) {
                assert_eq!(bench.drive().0, 1, "a drive runs it once, and ends");
                drives += 1;
            }
            let now = (1 + jump) * PERIOD + 300;
            let last = runs.lock().unwrap().clone();
            let (expected, next) = match missed {
                Missed::Skip => (vec![(now, 2)], (2 + jump) * PERIOD),
                Missed::Burst => ((2..2 + jump).map(|point| (now, point)).collect(), (2 + jump) * PERIOD),
                Missed::Delay => (vec![(now, 2)], now + PERIOD),
            };
            assert!(drives == expected.len() && last[1..] == expected);
            assert_eq!(bench.purgatory.next_expiration(), Some(tick(next)), "then in its pace again");
            assert_eq!(bench.purgatory.shutdown(), 1); // what waits holds the bench
        }
    }
}

/// CLK-05. There, the wall clock was set, and waits hung or ended early. Here nothing can read it: `tidy` keeps both
/// clocks of the standard library out of every module but `clock`, and that has the monotonic one alone.
#[test]
fn the_wall_clock_is_not_read() {
    let clock = include_str!("../../../src/clock.rs");
    assert!(clock.contains("Instant::now()") && !clock.contains("SystemTime"));
    let sync = include_str!("../../../src/sync.rs");
    assert!(!sync.contains("Instant") && !sync.contains("SystemTime"), "waits are for a duration");
}

/// CLK-07. There, a deadline was computed from a reading that was taken before a long callback, so that a short timer was
/// due at once, for ever.
#[test]
fn a_timeout_that_a_long_callback_registers_counts_from_the_time_at_which_it_does() {
    fn arm(bench: &Arc<Bench>, left: u32) {
        let mut op = bench.probe(left);
        let shared = Arc::clone(bench);
        op.at_end = Some(Box::new(move |_| {
            shared.advance(50);
            if left > 1 {
                arm(&shared, left - 1);
            }
        }));
        bench.wait(op, ms_of(10), &[1]);
    }
    let bench = Arc::new(Bench::new());
    arm(&bench, 1000);
    for left in (1..=1000).rev() {
        let now = after(bench.clock.now());
        assert_eq!(bench.purgatory.next_expiration(), Some(tick(now + 10)));
        bench.advance(9);
        assert_eq!(bench.drive().0, 0);
        bench.advance(1);
        assert_eq!(bench.drive().0, 1, "one, and the drive ends");
        assert_eq!(bench.take_log(), [(left, Outcome::Expired)]);
    }
    bench.assert_left(0, 0, 0);
}
