//! Clocks that do what a clock should not: they stand still, jump and step back.

use super::support::*;
use ixion::Outcome;
use std::time::Duration;

const HOUR: u64 = 3600 * 1000;
const YEAR: u64 = 365 * 24 * HOUR;

#[test]
fn while_the_clock_stands_still_time_is_up_for_nobody_and_events_go_on() {
    let bench = Bench::new();
    bench.watch(0, ms_of(1), &[1]);
    let handle = bench.watch(1, ms_of(1), &[2]);
    for _ in 0..1000 {
        assert_eq!(bench.drive().0, 0);
        assert_eq!(bench.purgatory.time_to_next(), Some(ms_of(1)));
        assert!(bench.purgatory.reset_timeout(handle.id, ms_of(1)));
    }
    handle.set();
    assert_eq!(bench.purgatory.check_and_complete(&2), 1);
    bench.watch(2, Duration::ZERO, &[3]);
    assert_eq!(bench.drive().0, 1, "what has no timeout needs no time");
    assert_eq!(bench.take_log(), [(1, Outcome::Satisfied), (2, Outcome::Expired)]);
    bench.advance(1);
    assert_eq!(bench.drive().0, 1);
    bench.assert_left(0, 0, 0);
}

#[test]
fn a_clock_that_steps_back_by_years_again_and_again_ends_nothing_early_and_loses_nothing() {
    let bench = Bench::with(|builder| builder.shards(1));
    bench.advance(50 * YEAR);
    for number in 0..50 {
        bench.watch(number, ms_of(10), &[1]);
        assert_eq!(bench.drive().0, 0);
        // One year back: what is registered next is due before all of those that were registered earlier.
        bench.advance_to(ms_of(u64::from(49 - number) * YEAR));
        assert_eq!(bench.drive().0, 0);
    }
    bench.advance_to(ms_of(YEAR + 9));
    assert_eq!(bench.drive().0, 0);
    for year in 1..=50 {
        bench.advance_to(ms_of(year * YEAR + 9));
        assert_eq!(bench.drive().0, 0);
        bench.advance(1);
        assert_eq!(bench.purgatory.time_to_next(), Some(Duration::ZERO));
        assert_eq!(bench.drive().0, 1);
    }
    assert!(bench.take_log().iter().map(|end| end.0).eq((0..50).rev()));
    bench.assert_left(0, 0, 0);
}

#[test]
fn a_clock_that_jumps_by_years_reaches_each_deadline_in_its_year() {
    let bench = Bench::new();
    for number in 0..100 {
        bench.watch(number, ms_of(u64::from(number) * YEAR + 1), &[number % 7]);
    }
    let never = bench.watch(100, NEVER, &[1]);
    for year in 0..100 {
        assert_eq!(bench.purgatory.next_expiration(), Some(tick(year * YEAR + 1)));
        bench.advance_to(ms_of(year * YEAR + 1));
        assert_eq!(bench.drive().0, 1);
    }
    assert!(bench.take_log().iter().map(|end| end.0).eq(0..100));
    bench.assert_left(1, 1, 1);
    assert!(bench.purgatory.force_complete(never.id));
}

#[test]
fn after_a_host_has_slept_for_eight_hours_all_that_is_due_ends_once_in_order_and_in_bounded_passes() {
    const COUNT: u32 = 5000;
    /// A pass takes 1024, and finishes the batch of 64 that it is in.
    const PASS: usize = 1024 + 63;
    let timeout = |number: u32| u64::from(number * 7919 % 9973) * 4 * HOUR / 4000; // up to ten hours
    let bench = Bench::with(|builder| builder.shards(1));
    let parked: Vec<Handle> =
        (0..COUNT).map(|number| bench.watch(number, ms_of(timeout(number)), &[1])).collect();
    let due = (0..COUNT).filter(|&number| timeout(number) <= 8 * HOUR).count();
    assert!(due > 3 * PASS && due < COUNT as usize);

    bench.advance(8 * HOUR);
    assert_eq!(bench.purgatory.time_to_next(), Some(Duration::ZERO));
    let mut expired = Vec::new();
    loop {
        let pass = bench.purgatory.expire();
        assert!(pass.expired <= PASS, "{pass:?}");
        expired.push(pass.expired);
        if !pass.more {
            break;
        }
        // Whoever is awake already goes on between the passes.
        assert_eq!(bench.purgatory.check_and_complete(&1), 0);
    }
    assert_eq!(expired.iter().sum::<usize>(), due);
    assert!(expired.len() <= 2 * due.div_ceil(1024), "passes that only move timers are few: {expired:?}");

    let ends = bench.take_log();
    assert!(ends.iter().all(|end| end.1 == Outcome::Expired && timeout(end.0) <= 8 * HOUR));
    assert!(
        ends.is_sorted_by(|one, next| (timeout(one.0), one.0) < (timeout(next.0), next.0)),
        "once, in order"
    );
    let next = (0..COUNT).map(timeout).filter(|timeout| *timeout > 8 * HOUR).min();
    assert_eq!(bench.purgatory.next_expiration(), next.map(tick));
    bench.assert_left(COUNT as usize - due, COUNT as usize - due, 1);
    assert!(
        parked.iter().filter(|handle| bench.purgatory.force_complete(handle.id)).count() + due
            == COUNT as usize
    );
}
