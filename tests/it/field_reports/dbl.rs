//! Double fire: every operation ends once, and one call only is told that it was the one.

use super::support::*;
use crate::guarantees::support::*;
use ixion::Outcome;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

/// DBL-01. The handler of the timeout ran, and that of the completion too.
#[test]
fn an_event_an_expiry_and_a_forced_completion_at_once_are_one_end_and_one_winner() {
    under_watch(|| {
        let rounds = rounds(20_000);
        let bench = Bench::new();
        let (start, end) = (Barrier::new(3), Barrier::new(3));
        // A look that lets the others in.
        let probe = |number| Probe { in_look: Some(Box::new(thread::yield_now)), ..bench.probe(number) };
        let ops: Vec<_> = (0..rounds).map(probe).collect();
        let flags: Vec<_> = ops.iter().map(|op| Arc::clone(&op.flag)).collect();
        let id = Mutex::new(None);
        let (satisfied, forced) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let mut ends = [0; 3];
        thread::scope(|scope| {
            scope.spawn(|| {
                for flag in &flags {
                    start.wait();
                    flag.store(true, Ordering::Relaxed);
                    satisfied.store(bench.purgatory.check_and_complete(&1), Ordering::SeqCst);
                    end.wait();
                }
            });
            scope.spawn(|| {
                for _ in &flags {
                    start.wait();
                    let id = id.lock().unwrap().expect("it is registered");
                    forced.store(usize::from(bench.purgatory.force_complete(id)), Ordering::SeqCst);
                    end.wait();
                }
            });
            for (number, op) in (0..).zip(ops) {
                *id.lock().unwrap() = Some(bench.wait(op, ms_of(1), &[1, 2]).id);
                bench.advance(1);
                start.wait();
                let expired = bench.drive().0;
                end.wait();
                let wins = [satisfied.load(Ordering::SeqCst), expired, forced.load(Ordering::SeqCst)];
                let outcomes = [Outcome::Satisfied, Outcome::Expired, Outcome::Forced];
                let winner = wins.iter().position(|win| *win == 1).expect("one has won");
                assert_eq!(wins.iter().sum::<usize>(), 1, "{wins:?}");
                assert_eq!(bench.take_log(), [(number, outcomes[winner])]);
                ends[winner] += 1;
            }
        });
        let stats = bench.purgatory.stats();
        assert_eq!([stats.satisfied, stats.expired, stats.forced], ends);
        assert_eq!(ends.iter().sum::<u64>(), u64::from(rounds));
        bench.assert_left(0, 0, 0);
    });
}

/// DBL-03. One that failed made the whole batch run again.
#[test]
fn of_a_batch_in_which_some_fail_only_those_run_again_that_are_registered_again() {
    let bench = Bench::with(|builder| builder.on_panic(|_| {}));
    for number in 1..=10 {
        let mut op = bench.probe(number);
        if [4, 7].contains(&number) {
            let (again, purgatory) = (bench.probe(number), Arc::clone(&bench.purgatory));
            op.at_end = Some(Box::new(move |_| {
                let _ = purgatory.try_complete_else_watch(again, ms_of(5), [1]).expect("open");
                assert!(number == 4, "one fails with an error, and one with a panic");
            }));
        }
        bench.wait(op, ms_of(5), &[1]);
    }
    bench.advance(5);
    assert_eq!(bench.drive().0, 10);
    assert_eq!(bench.take_log(), (1..=10).map(|number| (number, Outcome::Expired)).collect::<Vec<_>>());
    bench.assert_left(2, 2, 1);
    bench.advance(100);
    assert_eq!((bench.drive().0, bench.drive().0), (2, 0));
    assert_eq!(bench.take_log(), [(4, Outcome::Expired), (7, Outcome::Expired)]);
    assert_eq!(bench.purgatory.stats().panics, 1);
    bench.assert_left(0, 0, 0);
}

/// DBL-05. Two workers read what was due, and both took it.
#[test]
fn threads_that_drive_at_once_expire_each_operation_once() {
    const DRIVERS: usize = 8;
    under_watch(|| {
        let all = rounds(100_000);
        let bench = Bench::new();
        for number in 0..all {
            bench.watch(number, ms_of(u64::from(number % 100)), &[number, all]);
        }
        bench.advance(100);
        let (start, expired) = (Barrier::new(DRIVERS), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..DRIVERS {
                scope.spawn(|| {
                    start.wait();
                    while !bench.purgatory.is_empty() {
                        expired.fetch_add(bench.purgatory.expire().expired, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(expired.into_inner(), all as usize, "no call counts what another one has expired");
        let mut ended: Vec<u32> = bench.take_log().into_iter().map(|end| end.0).collect();
        ended.sort_unstable();
        assert!(ended.into_iter().eq(0..all));
        bench.assert_left(0, 0, 0);
    });
}

/// DBL-07. A scan saw what was just on its way into the queue, took it for stranded, and ran it at once; and again
/// when it was due.
#[test]
fn what_is_registered_while_others_drive_without_a_pause_is_not_run_before_its_time() {
    const REGISTRARS: u32 = 4;
    under_watch(|| {
        let each = rounds(20_000);
        let bench = Bench::new();
        let over = AtomicBool::new(false);
        let registered = AtomicU32::new(0);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !over.load(Ordering::SeqCst) {
                        let _ = bench.purgatory.expire();
                    }
                });
            }
            for registrar in 0..REGISTRARS {
                let (bench, registered) = (&bench, &registered);
                scope.spawn(move || {
                    for number in registrar * each..(registrar + 1) * each {
                        bench.watch(number, ms_of(10 * SECOND), &[number % 7, 10 + registrar]);
                        registered.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            for tenth in 1..=10 {
                while registered.load(Ordering::SeqCst) < REGISTRARS * each * tenth / 10 {
                    thread::yield_now();
                }
                bench.advance(SECOND - 1);
            }
            assert!(bench.log.lock().unwrap().is_empty(), "before its time");
            bench.assert_left((REGISTRARS * each) as usize, 2 * (REGISTRARS * each) as usize, 7 + 4);
            bench.advance(20 * SECOND);
            while !bench.purgatory.is_empty() {
                thread::yield_now();
            }
            over.store(true, Ordering::SeqCst);
        });
        let mut ended: Vec<u32> = bench.take_log().into_iter().map(|end| end.0).collect();
        ended.sort_unstable();
        assert!(ended.into_iter().eq(0..REGISTRARS * each), "each once");
        bench.assert_left(0, 0, 0);
    });
}
