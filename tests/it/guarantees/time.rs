//! Never early, hardly late; any duration, any uptime; order; one timer on many clocks.

use super::support::*;
use ixion::{Clock, Drive, Outcome, Purgatory, Resolution, Tick};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn an_operation_expires_in_the_first_drive_that_reads_its_deadline_and_not_before() {
    for (start, timeout) in
        [(0, 1), (0, 999), (1, 1_000_000), (999_999, 1), (999_999, 1_000_001), (1, 1_999_998)]
    {
        let bench = Bench::new();
        bench.clock.advance(Duration::from_nanos(start));
        bench.watch(0, Duration::from_nanos(timeout), &[1]);
        let exact = start + timeout;
        let deadline = exact.next_multiple_of(1_000_000);
        for reading in [start, exact - 1, deadline - 1] {
            bench.advance_to(Duration::from_nanos(reading));
            assert_eq!(bench.drive().0, 0, "{start} + {timeout} is not over at {reading}");
        }
        bench.advance_to(Duration::from_nanos(deadline));
        assert_eq!(bench.drive().0, 1, "{start} + {timeout} is over at {deadline}");
        assert!(deadline - exact < 1_000_000, "late by less than a tick");
    }
}

#[test]
fn a_finer_clock_gives_finer_deadlines_to_the_same_code() {
    let clock = clock(Resolution::new(Duration::from_micros(64)));
    let purgatory: Purgatory<u32, Probe> = Purgatory::builder("fine").clock(clock.clone()).build();
    let bench = Bench::new();
    let op = bench.probe(0);
    let _ = purgatory.try_complete_else_watch(op, Duration::from_micros(65), [1]).expect("open");
    assert_eq!(purgatory.next_expiration(), Some(tick(2)));
    clock.advance(Duration::from_micros(127));
    assert_eq!(purgatory.expire().expired, 0);
    assert_eq!(purgatory.time_to_next(), Some(Duration::from_micros(1)));
    clock.advance(Duration::from_micros(1));
    assert_eq!(purgatory.expire().expired, 1);
}

#[test]
fn a_zero_timeout_is_watched_and_due_at_the_next_drive() {
    let bench = Bench::new();
    bench.advance(5);
    let first = bench.watch(0, Duration::ZERO, &[1]);
    bench.watch(1, Duration::ZERO, &[1]);
    let third = bench.watch(2, Duration::ZERO, &[1]);
    bench.assert_left(3, 3, 1);
    // Until then an event, a cancellation and a reset still win.
    first.set();
    assert_eq!(bench.purgatory.check_and_complete(&1), 1);
    assert!(bench.purgatory.reset_timeout(third.id, ms_of(1)));
    assert_eq!(bench.drive().0, 1);
    assert_eq!(bench.take_log(), [(0, Outcome::Satisfied), (1, Outcome::Expired)]);
    bench.advance(1);
    assert_eq!(bench.drive().0, 1);
    bench.assert_left(0, 0, 0);
}

#[test]
fn every_duration_is_legal_at_any_uptime() {
    let starts = [0, 1 << 30, (1 << 36) - 3, 1 << 42, 1 << 52, u64::MAX / 1000 - 5];
    for start in starts {
        let bench = Bench::new();
        bench.clock.advance_to(Duration::from_secs(start));
        let timeouts =
            [Duration::from_nanos(1), ms_of(64), ms_of(1 << 32), Duration::from_millis(u64::MAX), NEVER];
        for (number, timeout) in timeouts.into_iter().enumerate() {
            bench.watch(number as u32, timeout, &[1]);
        }
        bench.advance(1);
        assert_eq!(bench.drive().0, 1, "at {start} s");
        bench.advance(63);
        assert_eq!(bench.drive().0, 1, "at {start} s");
        assert_eq!(bench.purgatory.len(), 3, "at {start} s");
        bench.clock.advance_to(Duration::MAX);
        let (_, last) = bench.drive();
        assert_eq!(last.next, None, "what is left is never due");
        assert!(bench.take_log().iter().all(|end| end.0 != 4), "Duration::MAX is never");
    }
}

#[test]
fn a_timeout_past_the_end_of_time_is_never_and_one_within_is_exact() {
    let bench = Bench::new();
    bench.clock.advance_to(ms_of(u64::MAX - 10));
    bench.watch(0, ms_of(5), &[]);
    bench.watch(1, ms_of(50), &[]);
    assert_eq!(bench.purgatory.next_expiration(), Some(Tick::new(u64::MAX - 5)));
    bench.advance(4);
    assert_eq!(bench.drive().0, 0);
    bench.advance(1);
    assert_eq!(bench.drive(), (1, Drive { expired: 1, more: false, next: None }));
    assert_eq!(bench.purgatory.next_expiration(), None);
}

#[test]
fn the_greatest_timeout_clamps_and_counts_and_never_rejects() {
    let bench = Bench::with(|builder| builder.max_timeout(ms_of(10)));
    let first = bench.watch(0, NEVER, &[1]);
    bench.watch(1, ms_of(10), &[1]);
    bench.watch(2, ms_of(11), &[1]);
    assert_eq!(bench.purgatory.stats().clamped, 2);
    assert!(bench.purgatory.reset_timeout(first.id, ms_of(60_000)));
    assert_eq!(bench.purgatory.stats().clamped, 3);
    bench.advance(10);
    assert_eq!(bench.drive().0, 3);
}

#[test]
fn a_clock_that_steps_back_does_no_harm() {
    // In one shard too: then what is due and what is not yet, of those registered after the step, are late together.
    [1, 16].into_iter().for_each(a_clock_steps_back);
}

fn a_clock_steps_back(shards: usize) {
    let bench = Bench::with(|builder| builder.shards(shards));
    bench.watch(3, ms_of(100), &[]);
    bench.advance(100);
    assert_eq!(bench.drive().0, 1, "a wheel has seen 100");
    bench.watch(0, ms_of(10), &[]);
    assert_eq!(bench.drive().0, 0);
    bench.advance_to(ms_of(50));
    assert_eq!(bench.drive().0, 0, "time stands still for what was registered before");
    // What is registered now counts from the reading that its caller saw.
    bench.watch(1, ms_of(10), &[]);
    bench.watch(2, ms_of(20), &[]);
    assert_eq!(bench.drive().0, 0);
    bench.advance_to(ms_of(59));
    assert_eq!(bench.drive().0, 0, "not early, although a wheel has seen 100");
    bench.advance_to(ms_of(60));
    assert_eq!(bench.drive().0, 1);
    bench.advance_to(ms_of(110));
    assert_eq!(bench.drive().0, 2);
    let order: Vec<u32> = bench.take_log().into_iter().map(|end| end.0).collect();
    assert_eq!(order, [3, 1, 2, 0]);
}

#[test]
fn a_crowd_that_is_due_in_one_tick_expires_in_order_however_often_it_must_be_moved() {
    const CROWD: u32 = 5000;
    let bench = Bench::with(|builder| builder.shards(1));
    for number in 0..CROWD {
        bench.watch(number, ms_of(100_000), &[1]);
    }
    bench.advance(99_999);
    assert_eq!(bench.drive().0, 0);
    bench.advance(1);
    assert_eq!(bench.drive().0, CROWD as usize);
    assert!(bench.take_log().into_iter().map(|end| end.0).eq(0..CROWD));
}

#[test]
fn a_step_of_any_size_expires_the_same_in_the_same_order() {
    let run = |step: u64| {
        let bench = Bench::with(|builder| builder.shards(1));
        for number in 0..300 {
            let timeout = u64::from(number) * 7919 % 4200;
            bench.watch(number, ms_of(timeout), &[number % 5]);
        }
        for _ in 0..4200u64.div_ceil(step) {
            bench.advance(step);
            let _ = bench.drive();
        }
        bench.assert_left(0, 0, 0);
        bench.take_log()
    };
    let by_ticks = run(1);
    assert_eq!(by_ticks.len(), 300);
    assert!(
        by_ticks.is_sorted_by_key(|end| (u64::from(end.0) * 7919 % 4200, end.0)),
        "by (tick, registration)"
    );
    assert_eq!(run(63), by_ticks);
    assert_eq!(run(100_000), by_ticks);
}

#[test]
fn expiry_goes_by_tick_across_the_shards() {
    let bench = Bench::with(|builder| builder.shards(8));
    for number in 0..400 {
        bench.watch(number, ms_of(u64::from(number * 31 % 97)), &[number]);
    }
    bench.advance(1000);
    assert_eq!(bench.drive().0, 400);
    assert!(bench.take_log().is_sorted_by_key(|end| end.0 * 31 % 97));
}

#[test]
fn a_reset_orders_as_newly_registered_and_moves_a_deadline_both_ways() {
    let bench = Bench::with(|builder| builder.shards(1));
    let handles: Vec<Handle> = (0..4).map(|number| bench.watch(number, ms_of(10), &[1])).collect();
    assert!(bench.purgatory.reset_timeout(handles[0].id, ms_of(10)));
    assert!(bench.purgatory.reset_timeout(handles[1].id, ms_of(30)));
    assert!(bench.purgatory.reset_timeout(handles[2].id, ms_of(5)));
    bench.advance(5);
    assert_eq!(bench.drive().0, 1);
    bench.advance(25);
    assert_eq!(bench.drive().0, 3);
    let order: Vec<u32> = bench.take_log().into_iter().map(|end| end.0).collect();
    assert_eq!(order, [2, 3, 0, 1]);
    assert!(!bench.purgatory.reset_timeout(handles[0].id, ms_of(1)), "it has ended");
}

#[test]
fn a_key_is_reset_with_all_that_wait_on_it() {
    let bench = Bench::new();
    for number in 0..200 {
        bench.watch(number, ms_of(10), &[number % 2, 7]);
    }
    assert_eq!(bench.purgatory.reset_timeout_for_key(&0, ms_of(20)), 100);
    assert_eq!(bench.purgatory.reset_timeout_for_key(&99, ms_of(20)), 0);
    bench.advance(10);
    assert_eq!(bench.drive().0, 100);
    assert!(bench.take_log().iter().all(|end| end.0 % 2 == 1));
    bench.advance(10);
    assert_eq!(bench.drive().0, 100);
}

#[test]
fn a_pass_is_bounded_and_a_drive_takes_what_was_due_when_it_began() {
    let bench = Bench::new();
    for number in 0..5000 {
        let mut op = bench.probe(number);
        let purgatory = Arc::clone(&bench.purgatory);
        let again = bench.probe(10_000 + number);
        // Every callback registers another operation that is due at once.
        op.at_end = Some(Box::new(move |_| {
            let _ = purgatory.try_complete_else_watch(again, Duration::ZERO, [3]);
        }));
        bench.wait(op, ms_of(1), &[2]);
    }
    bench.advance(1);
    let first = bench.purgatory.expire();
    assert!(first.more && first.expired < 5000, "{first:?}");
    let (rest, last) = bench.drive();
    assert_eq!(first.expired + rest, 5000, "not one of those registered meanwhile");
    assert_eq!(last.next, Some(bench.clock.now()), "they are due in the next drive");
    assert_eq!(bench.drive().0, 5000);
    bench.assert_left(0, 0, 0);
}

#[test]
fn the_next_deadline_is_exact_and_an_earlier_one_calls_the_hook() {
    let calls = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let bench = Bench::with(|builder| {
        builder.on_earlier_deadline(move || {
            counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        })
    });
    let called = || calls.swap(0, std::sync::atomic::Ordering::SeqCst);
    assert_eq!((bench.purgatory.next_expiration(), bench.purgatory.time_to_next()), (None, None));
    let far = bench.watch(0, ms_of(5000), &[1]);
    assert_eq!(called(), 1);
    assert_eq!(bench.purgatory.next_expiration(), Some(tick(5000)));
    bench.watch(1, ms_of(6000), &[2]);
    assert_eq!(called(), 0, "a later deadline wakes nobody");
    let near = bench.watch(2, ms_of(4097), &[3]);
    assert_eq!(called(), 1);
    bench.clock.advance(Duration::from_micros(500));
    assert_eq!(bench.purgatory.time_to_next(), Some(Duration::from_micros(4_096_500)));
    let _ = bench.purgatory.cancel(near.id);
    assert_eq!(bench.purgatory.next_expiration(), Some(tick(5000)));
    assert!(bench.purgatory.reset_timeout(far.id, ms_of(2)));
    assert_eq!(called(), 1);
    bench.advance(1_000_000);
    assert_eq!(bench.purgatory.time_to_next(), Some(Duration::ZERO));
}

#[test]
fn the_same_calls_on_the_same_clock_give_the_same_order_of_everything() {
    let run = || {
        let bench = Bench::with(|builder| builder.shards(4).hash_seed(42));
        for number in 0..500 {
            let keys = [number % 13, number % 7, number % 3];
            let handle = bench.watch(number, ms_of(u64::from(number % 50)), &keys);
            match number % 5 {
                0 => handle.set(),
                1 => drop(bench.purgatory.cancel_first(&(number % 13))),
                2 => drop(bench.purgatory.reset_timeout_for_key(&(number % 7), ms_of(9))),
                3 => drop(bench.purgatory.check_and_complete(&(number % 3))),
                _ => {
                    bench.advance(1);
                    let _ = bench.drive();
                }
            }
        }
        bench.purgatory.shutdown();
        bench.take_log()
    };
    assert_eq!(run(), run());
}

#[test]
fn a_shared_clock_is_a_clock() {
    let clock = Arc::new(ixion::SystemClock::new());
    let purgatory: Purgatory<u32> = Purgatory::builder("arc").clock(Arc::clone(&clock)).build();
    assert_eq!(purgatory.next_expiration(), None);
    assert_eq!(clock.resolution(), Resolution::MILLISECOND);
}
