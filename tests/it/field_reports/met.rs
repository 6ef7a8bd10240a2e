//! Counts that disagree with what has happened.

use crate::guarantees::support::*;
use ixion::{Outcome, RejectReason};
use std::sync::{Arc, Mutex};

/// MET-01. A due timer that was cancelled was counted by the cancellation, and by the expiry once more.
#[test]
fn what_is_cancelled_when_it_is_due_is_counted_once_and_frees_one_place() {
    // With the greater number some are cancelled in time, with the smaller one all are decided already.
    for all in [11, 300] {
        let bench = Bench::with(|builder| builder.shards(1).capacity(all as usize));
        let mut cancelled = 0;
        for filling in 1..=3 {
            let others: Arc<Mutex<Vec<Handle>>> = Arc::default();
            let wins = Arc::new(Mutex::new(0));
            let (named, won, purgatory) =
                (Arc::clone(&others), Arc::clone(&wins), Arc::clone(&bench.purgatory));
            let mut first = bench.probe(0);
            first.at_end = Some(Box::new(move |_| {
                for handle in named.lock().unwrap().iter() {
                    *won.lock().unwrap() += u64::from(purgatory.cancel(handle.id).is_cancelled());
                }
            }));
            bench.wait(first, ms_of(1), &[1]);
            let rest = (1..all).map(|number| bench.watch(number, ms_of(1), &[1])).collect();
            *others.lock().unwrap() = rest;
            bench.assert_left(all as usize, all as usize, 1);
            assert_eq!(bench.register(bench.probe(99), ms_of(1), &[1]), Err(RejectReason::Full));
            bench.advance(1);
            let expired = bench.drive().0;
            let won = *wins.lock().unwrap();
            assert_eq!(expired as u64 + won, u64::from(all));
            assert_eq!(won > 0, all > 11);
            cancelled += won;
            let stats = bench.purgatory.stats();
            assert_eq!((stats.cancelled, stats.expired), (cancelled, filling * u64::from(all) - cancelled));
            assert_eq!(bench.take_log().len(), expired);
            bench.assert_left(0, 0, 0);
        }
    }
}

/// MET-03. The size of the purgatory counted entries, those of completed operations too, and the names were mixed up.
#[test]
fn operations_and_their_entries_are_counted_apart_and_only_while_they_wait() {
    let bench = Bench::new();
    let one = bench.watch(0, NEVER, &[1, 2, 3]);
    bench.assert_left(1, 3, 3);
    one.set();
    assert_eq!(bench.purgatory.check_and_complete(&2), 1);
    bench.assert_left(0, 0, 0); // and there is nothing to purge
    let handles: Vec<Handle> =
        (0..1000).map(|number| bench.watch(number, NEVER, &[1, 10 + number])).collect();
    handles.iter().step_by(2).for_each(Handle::set);
    assert_eq!(bench.purgatory.check_and_complete(&1), 500);
    bench.assert_left(500, 1000, 501);
    let stats = bench.purgatory.stats();
    assert_eq!((stats.registered, stats.satisfied), (1001, 501));
}

/// MET-05. Expiries were counted by batches, or by calls.
#[test]
fn the_counts_are_those_of_the_callbacks_that_began() {
    for all in [1, 10, 1000] {
        let bench = Bench::with(|builder| builder.on_panic(|_| {}));
        let handles: Arc<Mutex<Vec<Handle>>> = Arc::default();
        let cancelled = Arc::new(Mutex::new(0));
        for number in 0..all {
            let mut op = bench.probe(number);
            let (purgatory, others, count) =
                (Arc::clone(&bench.purgatory), Arc::clone(&handles), Arc::clone(&cancelled));
            op.at_end = Some(Box::new(move |_| {
                // Every tenth cancels another one, which may be over.
                if number % 10 == 0 {
                    let other = others.lock().unwrap()[((number + all / 2 + 1) % all) as usize].id;
                    *count.lock().unwrap() += u64::from(purgatory.cancel(other).is_cancelled());
                }
                assert!(![1, 5, 9].contains(&number), "three of them panic");
            }));
            let handle = bench.wait(op, ms_of(1 + u64::from(number / 100)), &[number % 3]);
            handles.lock().unwrap().push(handle);
        }
        bench.advance(100);
        let expired = bench.drive().0;
        let (begun, cancelled) = (bench.take_log(), *cancelled.lock().unwrap());
        assert!(begun.iter().all(|end| end.1 == Outcome::Expired));
        assert!(cancelled > 0 || all < 1000);
        let stats = bench.purgatory.stats();
        assert_eq!((stats.expired, stats.cancelled), (begun.len() as u64, cancelled));
        assert_eq!((expired, begun.len() as u64 + cancelled), (begun.len(), u64::from(all)));
        assert_eq!((stats.panics, stats.panicked), (if all == 1 { 0 } else { 3 }, 0));
        bench.assert_left(0, 0, 0);
    }
}
