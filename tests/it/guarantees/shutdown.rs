//! Shutdown is a decision of the caller.

use super::support::*;
use ixion::{Outcome, RejectReason};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

#[test]
fn shutting_down_completes_everything_once() {
    let bench = Bench::new();
    for number in 0..1000 {
        let timeout = if number % 2 == 0 { NEVER } else { ms_of(10) };
        bench.watch(number, timeout, &[number % 10, 50]);
    }
    assert!(!bench.purgatory.is_shutdown());
    assert_eq!(bench.purgatory.shutdown(), 1000);
    assert!(bench.purgatory.is_shutdown());
    assert_eq!(bench.purgatory.shutdown(), 0);
    assert_eq!(bench.purgatory.shutdown_and_hand_back().count(), 0);
    let ends = bench.take_log();
    assert!(ends.len() == 1000 && ends.iter().all(|end| end.1 == Outcome::Shutdown));
    bench.assert_left(0, 0, 0);
    assert_eq!(bench.register(bench.probe(0), ms_of(1), &[1]), Err(RejectReason::Shutdown));
    assert_eq!((bench.drive().0, bench.purgatory.next_expiration()), (0, None));
}

#[test]
fn handing_back_gives_every_operation_to_the_caller_and_calls_none() {
    let bench = Bench::new();
    for number in 0..100 {
        bench.watch(number, ms_of(10), &[number, 200]);
    }
    let back = bench.purgatory.shutdown_and_hand_back();
    let mut numbers: Vec<u32> = back.taken.iter().map(|op| op.number).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..100) && back.busy == 0);
    assert!(bench.take_log().is_empty());
    assert_eq!(bench.purgatory.stats().shut_down, 100);
    bench.assert_left(0, 0, 0);
}

#[test]
fn a_rejected_operation_comes_back_whole_and_is_not_looked_at() {
    let bench = Bench::new();
    bench.purgatory.shutdown();
    let rejected = bench.purgatory.try_complete_else_watch(bench.probe(5), ms_of(1), [1]).unwrap_err();
    assert_eq!((rejected.op.number, rejected.op.looks.load(Ordering::SeqCst)), (5, 0));
    assert!(bench.take_log().is_empty());
}

#[test]
fn dropping_a_purgatory_shuts_it_down() {
    let bench = Bench::new();
    bench.watch(0, NEVER, &[1]);
    let Bench { purgatory, log, .. } = bench;
    drop(purgatory);
    assert_eq!(*log.lock().unwrap(), [(0, Outcome::Shutdown)]);
}

#[test]
fn a_shutdown_from_a_callback_ends_the_rest_after_it() {
    let bench = Bench::new();
    let mut op = bench.probe(0);
    let purgatory = Arc::clone(&bench.purgatory);
    op.at_end = Some(Box::new(move |_| assert_eq!(purgatory.shutdown(), 9)));
    bench.wait(op, ms_of(1), &[1]);
    for number in 1..10 {
        bench.watch(number, ms_of(1000), &[1]);
    }
    bench.advance(1);
    assert_eq!(bench.drive().0, 1);
    let ends = bench.take_log();
    assert_eq!((ends.len(), ends[0]), (10, (0, Outcome::Expired)));
    assert!(ends[1..].iter().all(|end| end.1 == Outcome::Shutdown));
    bench.assert_left(0, 0, 0);
}

#[test]
fn a_hand_back_from_a_callback_finds_what_is_due_in_the_same_tick_ended_already() {
    let bench = Bench::new();
    let mut op = bench.probe(0);
    let purgatory = Arc::clone(&bench.purgatory);
    op.at_end = Some(Box::new(move |_| {
        assert_eq!(purgatory.len(), 1, "all that was due is decided before the first callback");
        assert_eq!(purgatory.shutdown_and_hand_back().taken.len(), 1);
    }));
    bench.wait(op, ms_of(1), &[1]);
    let second = bench.watch(1, ms_of(1), &[1]);
    bench.watch(2, ms_of(1000), &[1]);
    bench.advance(1);
    assert_eq!(bench.drive().0, 2);
    assert_eq!(bench.take_log(), [(0, Outcome::Expired), (1, Outcome::Expired)]);
    assert!(!bench.purgatory.reset_timeout(second.id, NEVER));
    bench.assert_left(0, 0, 0);
}

#[test]
fn a_shutdown_that_races_registrations_loses_nothing() {
    for round in 0..200 {
        let bench = Bench::new();
        let accepted = AtomicUsize::new(0);
        let handed = thread::scope(|scope| {
            for thread in 0..2u32 {
                let (bench, accepted) = (&bench, &accepted);
                scope.spawn(move || {
                    for number in 0..50 {
                        let op = bench.probe(thread * 1000 + number);
                        match bench.register(op, NEVER, &[number, thread]) {
                            Ok(_) => accepted.fetch_add(1, Ordering::SeqCst),
                            Err(reason) => {
                                assert_eq!(reason, RejectReason::Shutdown);
                                break;
                            }
                        };
                    }
                });
            }
            while bench.purgatory.len() < round % 40 {
                thread::yield_now();
            }
            bench.purgatory.shutdown_and_hand_back()
        });
        let completed = bench.take_log();
        assert!(completed.iter().all(|end| end.1 == Outcome::Shutdown));
        assert_eq!(completed.len(), handed.busy);
        assert_eq!(accepted.load(Ordering::SeqCst), completed.len() + handed.taken.len());
        bench.assert_left(0, 0, 0);
    }
}
