//! SHU: shutdown. What needs the expirer's thread is in `threads`.

use crate::guarantees::support::*;
use crate::uptime::tick;
use ixion::{Cancelled, Outcome, Registration, TimingWheel};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// SHU-01. There, what a stop handed back still called itself pending.
#[test]
fn what_a_shutdown_hands_back_is_handed_back_once_and_its_ids_name_nothing() {
    let bench = Bench::new();
    let waiting: Vec<Handle> =
        (0..5).map(|number| bench.watch(number, ms_of(u64::from(number)), &[1])).collect();
    // Two more that are being registered: watched and armed, and their threads still inside.
    let (enter, entered) = channel();
    let registering: Vec<_> = (5..7)
        .map(|number| {
            let (go_on, told) = channel::<()>();
            let (mut op, enter) = (bench.probe(number), enter.clone());
            let mut looks = 0;
            op.in_look = Some(Box::new(move || {
                looks += 1;
                if looks == 2 {
                    enter.send(()).unwrap();
                    told.recv().unwrap();
                }
            }));
            let purgatory = Arc::clone(&bench.purgatory);
            let thread = thread::spawn(move || purgatory.try_complete_else_watch(op, NEVER, [1]).unwrap());
            entered.recv().unwrap();
            (go_on, thread)
        })
        .collect();
    let back = bench.purgatory.shutdown_and_hand_back();
    let mut numbers: Vec<u32> = back.taken.iter().map(|op| op.number).collect();
    numbers.sort_unstable();
    assert_eq!((numbers, back.busy), (vec![0, 1, 2, 3, 4], 2));
    for handle in waiting {
        assert!(bench.purgatory.cancel(handle.id) == Cancelled::Gone);
        assert!(
            !bench.purgatory.force_complete(handle.id) && !bench.purgatory.reset_timeout(handle.id, NEVER)
        );
    }
    for (go_on, thread) in registering {
        go_on.send(()).unwrap();
        assert_eq!(thread.join().unwrap(), Registration::Completed(Outcome::Shutdown));
    }
    bench.advance(100);
    assert_eq!((bench.drive().0, bench.purgatory.shutdown_and_hand_back().count()), (0, 0));
    let mut ends = bench.take_log();
    ends.sort_by_key(|end| end.0);
    assert_eq!(ends, [(5, Outcome::Shutdown), (6, Outcome::Shutdown)], "the busy ones, and no other");
    bench.assert_left(0, 0, 0);
}

/// SHU-03. There, a shutdown set the time to the maximum, and what was still being started compared itself with that.
#[test]
fn a_shutdown_at_the_end_of_time_panics_nowhere_and_later_calls_are_refused() {
    let bench = Bench::new();
    (0..10).for_each(|number| drop(bench.watch(number, ms_of(u64::from(number)), &[number])));
    let kept = bench.watch(10, NEVER, &[10]);
    bench.clock.advance(Duration::MAX);
    let purgatory = Arc::clone(&bench.purgatory);
    let mut op = bench.probe(11);
    op.at_end = Some(Box::new(move |_| {
        // In the middle of the shutdown.
        assert!(!purgatory.reset_timeout(kept.id, ms_of(5)) && purgatory.is_shutdown());
        assert_eq!((purgatory.next_expiration(), purgatory.expire().expired), (None, 0));
    }));
    bench.wait(op, ms_of(1), &[11]);
    assert_eq!(bench.purgatory.shutdown(), 12);
    assert!(bench.register(bench.probe(12), ms_of(1), &[1]).is_err());
    assert_eq!((bench.drive().0, bench.purgatory.time_to_next()), (0, None));
    assert_eq!(bench.take_log().len(), 12);
    bench.assert_left(0, 0, 0);
}

/// SHU-07. There, cancelling all did not bring the counter to zero, and the destruction asserted it.
#[test]
fn after_all_are_cancelled_the_counts_are_zero_and_everything_can_be_used_again() {
    let bench = Bench::new();
    bench.advance(100);
    let fill = |count: u32, keys: &[u32]| {
        for number in 0..count {
            // Over all levels; the first ones are due already.
            let timeout = if number % 11 == 0 { Duration::ZERO } else { ms_of(1 << (number % 11 * 6)) };
            bench.watch(number, timeout, keys);
        }
    };
    fill(1000, &[1, 2]);
    bench.advance(1);
    bench.assert_left(1000, 2000, 2);
    let back = bench.purgatory.cancel_for_key(&1);
    assert_eq!((back.taken.len(), back.busy), (1000, 0));
    bench.assert_left(0, 0, 0);
    assert_eq!(bench.purgatory.next_expiration(), None);
    fill(10, &[1, 3]);
    bench.assert_left(10, 20, 2);
    assert_eq!(bench.purgatory.cancel_for_key(&3).count(), 10);
    bench.assert_left(0, 0, 0);
    let Bench { purgatory, log, .. } = bench;
    drop(purgatory);
    assert!(log.lock().unwrap().is_empty());
}

/// SHU-07, of a wheel.
#[test]
fn a_wheel_whose_timers_were_all_stopped_is_empty_and_can_be_used_again() {
    let mut wheel = TimingWheel::starting_at(tick(100));
    for round in [1000u64, 10] {
        let deadline = |n: u64| tick([50, 100, 101][n as usize % 3] + (1 << (n % 11 * 6)) * (n % 2));
        let ids: Vec<_> = (0..round).map(|n| wheel.start_timer(deadline(n), n)).collect();
        // Something is due and not popped, something is being moved down.
        let _ = wheel.pop_expired_within(tick(5000), &mut 1);
        assert_eq!(wheel.len() as u64, round - 1);
        let stopped = ids.into_iter().filter_map(|id| wheel.stop_timer(id)).count();
        assert_eq!((stopped as u64, wheel.len(), wheel.next_expiration()), (round - 1, 0, None));
        wheel.check_invariants();
    }
    wheel.start_timer(tick(1), 1);
    assert_eq!(wheel.into_items().count(), 1);
}
