//! PRE: precision, and drift.

use crate::guarantees::support::*;
use crate::uptime::{after, tick};
use ixion::{Clock, ManualClock, Outcome, Purgatory, Resolution, TimingWheel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A purgatory whose ticks are so long, on a clock of its own.
fn with_ticks(ms: u64) -> (Purgatory<u32, Probe>, ManualClock) {
    let clock = ManualClock::with_resolution(Resolution::new(ms_of(ms)));
    (Purgatory::builder("ticks").clock(clock.clone()).shards(1).build(), clock)
}

/// PRE-01. There, deadlines were rounded down to their slot, and what was due within the current tick counted as over.
#[test]
fn with_a_coarse_tick_nothing_expires_early_or_more_than_a_tick_late() {
    const TICK: u64 = 10;
    // In the first block, and where deadlines come down one level and two.
    for far in [0, 64 * TICK, 64 * 64 * TICK] {
        for start in 0..TICK {
            for timeout in 0..26 {
                let bench = Bench::new();
                let (purgatory, clock) = with_ticks(TICK);
                clock.advance(ms_of(start));
                let deadline = start + timeout + far;
                let _ = purgatory.try_complete_else_watch(bench.probe(0), ms_of(timeout + far), [1]).unwrap();
                clock.advance_to(ms_of(deadline.saturating_sub(3).max(start)));
                while purgatory.expire().expired == 0 {
                    clock.advance(ms_of(1));
                    assert!(clock.elapsed() < ms_of(deadline + TICK), "{start} + {timeout} + {far} is late");
                }
                assert!(clock.elapsed() >= ms_of(deadline), "{start} + {timeout} + {far} is early");
            }
        }
    }
}

/// PRE-03. There, timers that were not on the boundary of a tick were visited before their time, and lost.
#[test]
fn with_any_tick_every_timeout_expires_by_the_first_tick_at_or_after_its_deadline() {
    for tick in [3, 10, 12, 1000] {
        let phases = (0..tick).step_by(if tick > 100 { 499 } else { 1 });
        for (phase, step) in phases.flat_map(|phase| [tick, 7, tick - 1].map(|step| (phase, step))) {
            let bench = Bench::new();
            let (purgatory, clock) = with_ticks(tick);
            clock.advance(ms_of(phase));
            let last = (3 * tick + 1) as u32;
            for timeout in 1..=last {
                let op = bench.probe(timeout);
                let _ = purgatory.try_complete_else_watch(op, ms_of(timeout.into()), [1]).unwrap();
            }
            let mut now = phase;
            while !purgatory.is_empty() {
                let before = now;
                now += step;
                clock.advance_to(ms_of(now));
                while purgatory.expire().more {}
                for (timeout, _) in bench.take_log() {
                    let due = (phase + u64::from(timeout)).next_multiple_of(tick);
                    assert!(before < due && due <= now, "tick {tick}, {phase} + {timeout} at {now}");
                }
                assert!(now < phase + 5 * tick + step, "some are lost");
            }
        }
    }
}

/// PRE-05. There, a timer that was started while the wheel was far behind got the wrong bucket.
#[test]
fn what_is_registered_by_a_drive_that_catches_up_counts_from_the_real_present() {
    for slots in [64, 4096] {
        let bench = Bench::with(|builder| builder.shards(1));
        let mut op = bench.probe(0);
        let purgatory = Arc::clone(&bench.purgatory);
        let new =
            Mutex::new((1..).zip([1, 10, slots - 1]).map(|(n, ms)| (bench.probe(n), ms)).collect::<Vec<_>>());
        op.at_end = Some(Box::new(move |_| {
            for (op, timeout) in new.into_inner().unwrap() {
                let _ = purgatory.try_complete_else_watch(op, ms_of(timeout), [1]).unwrap();
            }
        }));
        bench.wait(op, ms_of(1), &[1]);
        bench.watch(9, ms_of(slots - 10), &[1]); // so that the drive goes on behind the callback
        bench.advance(slots - 10);
        assert_eq!(bench.drive().0, 2);
        assert_eq!(bench.take_log(), [(0, Outcome::Expired), (9, Outcome::Expired)]);
        let now = after(bench.clock.now());
        for (number, after) in (1..).zip([1, 10, slots - 1]) {
            bench.advance_to(ms_of(now + after - 1));
            assert_eq!(bench.drive().0, 0, "{after} after {now} is not over");
            bench.advance(1);
            assert_eq!(bench.drive().0, 1, "{after} after {now} is over");
            assert_eq!(bench.take_log(), [(number, Outcome::Expired)]);
        }
    }
}

/// PRE-05, of a wheel: its position is the deadline of what was popped last.
#[test]
fn what_is_started_while_a_wheel_catches_up_expires_at_its_deadline() {
    for slots in [64, 4096] {
        let mut wheel = TimingWheel::starting_at(tick(0));
        wheel.start_timer(tick(1), 0);
        let now = slots - 10;
        assert_eq!(wheel.pop_expired(tick(now)).map(|it| it.item), Some(0));
        for after in [1, 10, slots - 1] {
            wheel.start_timer(tick(now + after), after);
        }
        assert_eq!(wheel.pop_expired(tick(now)), None);
        for after in [1, 10, slots - 1] {
            assert_eq!(wheel.pop_expired(tick(now + after - 1)), None);
            assert_eq!(wheel.pop_expired(tick(now + after)).map(|it| it.item), Some(after));
        }
    }
}

/// PRE-07. There, periodic timers drifted by what their handlers took. There are no periodic timers here; a callback
/// registers again. With the time that is left to the next point of a grid it stays on the grid, with a period from its
/// end it does not.
#[test]
fn a_periodic_operation_that_registers_for_the_next_point_of_its_grid_does_not_drift() {
    /// Registers itself for the point after `round`; `on_grid` or a period from now.
    fn arm(bench: &Arc<Bench>, runs: &Arc<Mutex<Vec<u64>>>, round: u64, on_grid: bool) {
        let mut op = bench.probe(0);
        let (shared, noted) = (Arc::clone(bench), Arc::clone(runs));
        op.at_end = Some(Box::new(move |_| {
            noted.lock().unwrap().push(after(shared.clock.now()));
            // What the handler does takes its time, once more than two periods.
            shared.advance(if round == 500 { 250 } else { 7 });
            if round < 1000 {
                arm(&shared, &noted, round + 1, on_grid);
            }
        }));
        let next = ms_of((round + 1) * 100);
        let timeout = if on_grid { next.saturating_sub(bench.elapsed()) } else { ms_of(100) };
        bench.wait(op, timeout, &[1]);
    }
    for on_grid in [true, false] {
        let (bench, runs) = (Arc::new(Bench::new()), Arc::default());
        arm(&bench, &runs, 0, on_grid);
        while let Some(next) = bench.purgatory.next_expiration() {
            bench.advance_to(bench.elapsed().max(ms_of(after(next))));
            assert_eq!(bench.drive().0, 1);
        }
        let runs = runs.lock().unwrap();
        assert_eq!(runs.len(), 1001);
        for (round, at) in (0..).zip(runs.iter().copied()) {
            let nominal = (round + 1) * 100;
            let expected = match (on_grid, round) {
                // Two points were missed meanwhile and are made up for, one a drive.
                (true, 501) => nominal + 150,
                (true, 502) => nominal + 57,
                (true, _) => nominal,
                (false, _) => nominal + round * 7 + if round > 500 { 243 } else { 0 },
            };
            assert_eq!(at, expected, "round {round}");
        }
    }
}

/// PRE-09. There, a deadline just below the boundary of a level was rounded up on it, and missed the cascade.
#[test]
fn timeouts_around_the_boundaries_of_levels_expire_in_the_tick_that_they_round_up_to() {
    let half = Duration::from_micros(500);
    for level in 1..=10u32 {
        let boundary = ms_of(64u64.pow(level));
        let timeouts = [
            (boundary - ms_of(1), 64u64.pow(level) - 1),
            (boundary - half, 64u64.pow(level)),
            (boundary - Duration::from_nanos(1), 64u64.pow(level)),
            (boundary, 64u64.pow(level)),
            (boundary + Duration::from_nanos(1), 64u64.pow(level) + 1),
        ];
        for (timeout, due) in timeouts {
            let bench = Bench::with(|builder| builder.shards(1));
            bench.watch(0, timeout, &[]);
            bench.watch(1, NEVER, &[]);
            assert_eq!(bench.purgatory.next_expiration(), Some(tick(due)));
            bench.advance_to(ms_of(due) - Duration::from_nanos(1));
            assert_eq!(bench.drive().0, 0, "{timeout:?} is not over before tick {due}");
            assert_eq!(bench.purgatory.next_expiration(), Some(tick(due)), "it is not passed over");
            bench.advance_to(ms_of(due));
            assert_eq!(bench.drive().0, 1, "{timeout:?} is over at tick {due}");
        }
    }
}
