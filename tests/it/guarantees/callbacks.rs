//! No user code under a lock; no recursion.

use super::support::*;
use ixion::{Outcome, Purgatory, defer};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

#[test]
fn a_callback_may_call_everything_on_the_same_key_too() {
    let bench = Bench::with(|builder| builder.shards(1));
    let others: Vec<Handle> = (1..6).map(|number| bench.watch(number, ms_of(10), &[1, 2])).collect();
    let mut op = bench.probe(0);
    let (purgatory, again) = (Arc::clone(&bench.purgatory), bench.probe(9));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let saw = Arc::clone(&seen);
    op.at_end = Some(Box::new(move |_| {
        others[0].set();
        let mut saw = saw.lock().unwrap();
        saw.push(purgatory.check_and_complete(&1));
        saw.push(usize::from(purgatory.force_complete(others[1].id)));
        saw.push(usize::from(purgatory.cancel(others[2].id).is_cancelled()));
        saw.push(usize::from(purgatory.reset_timeout(others[3].id, ms_of(20))));
        saw.push(usize::from(
            !purgatory.try_complete_else_watch(again, ms_of(5), [1]).unwrap().is_completed(),
        ));
        saw.push(purgatory.cancel_first(&2).taken().map_or(0, |op| op.number as usize));
        saw.extend([purgatory.len(), purgatory.watched(), purgatory.key_count()]);
        saw.push(purgatory.force_complete_for_key(&2));
        saw.push(purgatory.cancel_for_key(&1).taken.len());
        saw.push(purgatory.expire().expired);
        saw.push(usize::from(purgatory.stats().balances()));
        saw.push(purgatory.shutdown());
    }));
    let first = bench.wait(op, ms_of(10), &[1]);
    assert!(bench.purgatory.force_complete(first.id));
    // Counted at once: one satisfied, forced, cancelled, reset, registered; then the first of those left, and so on.
    assert_eq!(*seen.lock().unwrap(), [1, 1, 1, 1, 1, 4, 2, 3, 2, 1, 1, 0, 1, 0]);
}

#[test]
fn what_a_callback_causes_runs_after_it_in_order() {
    let bench = Bench::new();
    let order = Arc::new(Mutex::new(Vec::new()));
    let handles: Vec<Handle> = (1..4)
        .map(|number| {
            let mut op = bench.probe(number);
            let order = Arc::clone(&order);
            op.at_end = Some(Box::new(move |_| order.lock().unwrap().push(format!("callback {number}"))));
            bench.wait(op, NEVER, &[number])
        })
        .collect();
    let mut op = bench.probe(0);
    let (purgatory, log) = (Arc::clone(&bench.purgatory), Arc::clone(&order));
    op.at_end = Some(Box::new(move |_| {
        for handle in handles.iter().rev() {
            assert!(purgatory.force_complete(handle.id), "decided at once");
            log.lock().unwrap().push("forced".to_string());
        }
        assert_eq!(purgatory.len(), 0, "and unlinked at once");
    }));
    let first = bench.wait(op, NEVER, &[0]);
    assert!(bench.purgatory.force_complete(first.id));
    let expected = ["forced", "forced", "forced", "callback 3", "callback 2", "callback 1"];
    assert_eq!(*order.lock().unwrap(), expected);
}

#[test]
fn a_chain_of_a_hundred_thousand_completions_costs_no_stack() {
    const LENGTH: u32 = 100_000;
    // A thread whose stack would not hold a thousand nested calls.
    let chain = std::thread::Builder::new().stack_size(256 * 1024);
    let run = chain.spawn(|| {
        let bench = Bench::new();
        for number in 0..LENGTH {
            let mut op = bench.probe(number);
            let purgatory = Arc::clone(&bench.purgatory);
            op.at_end = Some(Box::new(move |_| {
                purgatory.force_complete_for_key(&(number + 1));
            }));
            bench.wait(op, NEVER, &[number]);
        }
        assert_eq!(bench.purgatory.force_complete_for_key(&0), 1);
        assert!(bench.take_log().iter().map(|end| end.0).eq(0..LENGTH));
        bench.assert_left(0, 0, 0);
    });
    run.unwrap().join().unwrap();
}

/// So it may be done under a lock that callbacks take: heartbeats of a group do.
#[test]
fn a_reset_runs_no_callback_that_a_bounded_drive_has_left_behind() {
    const CALLBACKS: u32 = 3000;
    let bench = Bench::new();
    let reset = bench.watch(CALLBACKS, NEVER, &[0]);
    let others: Vec<Handle> = (1..CALLBACKS).map(|number| bench.watch(number, NEVER, &[number])).collect();
    let (mut op, purgatory) = (bench.probe(0), Arc::clone(&bench.purgatory));
    op.at_end = Some(Box::new(move |_| {
        others.iter().for_each(|handle| assert!(purgatory.force_complete(handle.id)));
    }));
    let _ = bench.wait(op, ms_of(1), &[0]);
    bench.advance(1);
    let _ = bench.purgatory.expire();
    let ended = bench.take_log().len();
    assert!(ended < CALLBACKS as usize, "the pass was bounded");
    assert!(bench.purgatory.reset_timeout(reset.id, ms_of(5)));
    assert_eq!(bench.take_log(), []);
    while bench.purgatory.expire().expired == 0 {
        bench.advance(1);
    }
    assert_eq!(ended + bench.take_log().len(), CALLBACKS as usize + 1);
}

#[test]
#[cfg(debug_assertions)]
fn a_look_that_signals_is_a_mistake_that_ends_its_operation_in_debug_builds() {
    let bench = Bench::with(|builder| builder.on_panic(|_| {}));
    let mut op = bench.probe(0);
    let purgatory = Arc::clone(&bench.purgatory);
    op.in_look = Some(Box::new(move || {
        purgatory.check_and_complete(&1);
    }));
    let registration = bench.register(op, NEVER, &[1]);
    assert_eq!(registration, Ok(ixion::Registration::Completed(Outcome::Panicked)));
    bench.assert_left(0, 0, 0);
}

#[test]
#[cfg(not(debug_assertions))]
fn a_look_that_signals_is_put_off_whole_and_told_zero() {
    let bench = Bench::new();
    let other = bench.watch(1, NEVER, &[1]);
    other.set();
    let mut op = bench.probe(0);
    let purgatory = Arc::clone(&bench.purgatory);
    op.in_look = Some(Box::new(move || assert_eq!(purgatory.check_and_complete(&1), 0)));
    bench.wait(op, NEVER, &[2]);
    assert_eq!(bench.take_log(), [(1, Outcome::Satisfied)]);
}

#[test]
fn what_a_look_defers_runs_after_it_and_may_signal() {
    let bench = Bench::new();
    let other = bench.watch(1, NEVER, &[1]);
    let mut op = bench.probe(0);
    let (purgatory, log) = (Arc::clone(&bench.purgatory), Arc::clone(&bench.log));
    op.in_look = Some(Box::new(move || {
        let purgatory = Arc::clone(&purgatory);
        defer(move || _ = purgatory.check_and_complete(&1));
        assert!(log.lock().unwrap().is_empty(), "not in the look");
    }));
    bench.wait(op, NEVER, &[2]);
    assert_eq!(bench.take_log(), []);
    other.set();
    assert_eq!(bench.purgatory.check_and_complete(&2), 0);
    assert_eq!(bench.take_log(), [(1, Outcome::Satisfied)]);
}

#[test]
fn what_is_deferred_runs_in_order_with_callbacks_and_at_once_outside_of_calls() {
    let bench = Bench::new();
    let log = Arc::clone(&bench.log);
    let note = move |number| {
        let log = Arc::clone(&log);
        move || log.lock().unwrap().push((number, Outcome::Panicked))
    };
    defer(note(1));
    assert_eq!(bench.take_log(), [(1, Outcome::Panicked)]);
    let other = bench.watch(4, NEVER, &[4]);
    let (mut op, purgatory) = (bench.probe(2), Arc::clone(&bench.purgatory));
    op.at_end = Some(Box::new(move |_| {
        defer(note(3));
        defer(|| panic!("a job"));
        assert!(purgatory.force_complete(other.id));
        defer(note(5));
    }));
    let first = bench.wait(op, NEVER, &[2]);
    assert!(bench.purgatory.force_complete(first.id));
    let order: Vec<u32> = bench.take_log().into_iter().map(|end| end.0).collect();
    assert_eq!(order, [2, 3, 4, 5]);
    assert_eq!(bench.purgatory.stats().panics, 0, "it was no operation's");
}

#[test]
fn a_look_may_ask_for_a_look_at_another_operation_and_gets_it_afterwards() {
    let bench = Bench::new();
    let other = bench.watch(1, NEVER, &[1]);
    other.set();
    let (mut op, purgatory) = (bench.probe(0), Arc::clone(&bench.purgatory));
    let looks = Arc::clone(&other.looks);
    op.in_look = Some(Box::new(move || {
        assert!(!purgatory.try_complete(other.id));
        assert_eq!(looks.load(Ordering::SeqCst), 2, "those of its registration");
    }));
    bench.wait(op, NEVER, &[2]);
    assert_eq!(bench.take_log(), [(1, Outcome::Satisfied)]);
}

#[test]
fn looks_may_force_and_cancel_their_own_operation_and_others() {
    let bench = Bench::new();
    let other = bench.watch(1, NEVER, &[1]);
    let mut op = bench.probe(0);
    let purgatory = Arc::clone(&bench.purgatory);
    let looks = Arc::new(AtomicUsize::new(0));
    let looked = Arc::clone(&looks);
    op.in_look = Some(Box::new(move || {
        if looked.fetch_add(1, Ordering::SeqCst) == 2 {
            assert!(purgatory.force_complete(other.id));
            assert_eq!(purgatory.cancel_for_key(&2).busy, 1, "its own");
        }
    }));
    bench.wait(op, NEVER, &[2]);
    assert_eq!(bench.purgatory.check_and_complete(&2), 0);
    let mut ends = bench.take_log();
    ends.sort_by_key(|end| end.0);
    assert_eq!(ends, [(0, Outcome::Cancelled), (1, Outcome::Forced)]);
    bench.assert_left(0, 0, 0);
}

#[test]
fn the_keys_iterator_and_the_destructors_of_keys_may_call_the_purgatory_that_holds_them() {
    /// What a key's destructor asks, and what it was told.
    #[derive(Default)]
    struct Asks {
        holder: Mutex<Option<Arc<Purgatory<Key, Probe>>>>,
        told: Mutex<Vec<usize>>,
    }
    struct Key(u32, Arc<Asks>);
    impl std::hash::Hash for Key {
        fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
            self.0.hash(state);
        }
    }
    impl PartialEq for Key {
        fn eq(&self, other: &Key) -> bool {
            self.0 == other.0
        }
    }
    impl Eq for Key {}
    impl Drop for Key {
        fn drop(&mut self) {
            let holder = self.1.holder.lock().unwrap().clone();
            if let Some(holder) = holder {
                self.1.told.lock().unwrap().push(holder.watched());
            }
        }
    }
    let bench = Bench::new();
    let purgatory: Arc<Purgatory<Key, Probe>> = Arc::new(Purgatory::builder("keys").shards(1).build());
    let asks = Arc::new(Asks::default());
    *asks.holder.lock().unwrap() = Some(Arc::clone(&purgatory));
    let keys = [1, 2, 2].into_iter().map(|number| {
        assert_eq!(purgatory.len(), 0, "asked from within the iterator");
        Key(number, Arc::clone(&asks))
    });
    let id = purgatory.try_complete_else_watch(bench.probe(1), NEVER, keys).unwrap().id().unwrap();
    assert_eq!(*asks.told.lock().unwrap(), [2], "the key that was given twice");
    assert!(purgatory.force_complete(id));
    assert_eq!(*asks.told.lock().unwrap(), [2, 0, 0], "after the operation has left both lists");
    asks.holder.lock().unwrap().take();
}
