//! REE: callbacks that come back into the engine, and deadlocks.

use super::support::with_a_stack_of;
use crate::guarantees::support::*;
use crate::uptime::tick;
use ixion::{Cancelled, DelayedOperation, Outcome, Purgatory, RejectReason, TimingWheel};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, RwLock};
use std::thread;
use std::time::Duration;

const STACK: usize = 1 << 20;

/// REE-01. There, a callback that armed itself again with no delay kept the pass running, and all others starved.
#[test]
fn operations_that_register_themselves_again_with_no_timeout_run_once_a_drive_and_starve_nobody() {
    /// Registers itself again without a timeout, for ever.
    struct Again(Arc<Purgatory<u32, Again>>, Arc<AtomicUsize>);
    impl DelayedOperation for Again {
        fn try_complete(&mut self) -> bool {
            false
        }
        fn on_complete(self, outcome: Outcome) {
            self.1.fetch_add(1, Ordering::SeqCst);
            let purgatory = Arc::clone(&self.0);
            let registered = purgatory.try_complete_else_watch(self, Duration::ZERO, [1]);
            assert_eq!(registered.is_ok(), outcome == Outcome::Expired);
        }
    }
    for shards in [1, 16] {
        with_a_stack_of(STACK, move || {
            let (bench, runs) = (Bench::new(), Arc::new(AtomicUsize::new(0)));
            let builder = Purgatory::builder("again").clock(bench.clock.clone()).shards(shards);
            let purgatory: Arc<Purgatory<u32, Again>> = Arc::new(builder.build());
            let plain = |runs: &Arc<AtomicUsize>| Again(Arc::clone(&purgatory), Arc::clone(runs));
            // Two more of the same tick, behind the thousand.
            let others = Arc::new(AtomicUsize::new(0));
            for number in 0..1002 {
                let op = plain(if number < 1000 { &runs } else { &others });
                let _ = purgatory.try_complete_else_watch(op, Duration::ZERO, [number]).unwrap();
            }
            for drive in 1..=3 {
                while purgatory.expire().more {}
                assert_eq!(runs.load(Ordering::SeqCst), 1000 * drive, "each once");
                assert_eq!(others.load(Ordering::SeqCst), 2 * drive, "and those behind them");
            }
            assert_eq!(purgatory.shutdown(), 1002);
        });
    }
}

/// REE-01, of a wheel: whoever takes what is due first, and starts it again afterwards, comes to an end.
#[test]
fn timers_that_are_started_again_after_all_that_was_due_is_taken_expire_once_a_turn() {
    let mut wheel = TimingWheel::starting_at(tick(0));
    let now = tick(5);
    for n in 0..1000u32 {
        wheel.start_timer(now, n);
    }
    for _ in 0..3 {
        let due: Vec<u32> = std::iter::from_fn(|| wheel.pop_expired(now)).map(|it| it.item).collect();
        assert!(due.iter().copied().eq(0..1000));
        assert_eq!(wheel.pop_expired(now), None);
        for n in due {
            wheel.start_timer(now, n);
        }
    }
    assert_eq!(wheel.len(), 1000);
}

/// REE-03. There, a callback that cancelled those behind it crashed the pass.
#[test]
fn a_callback_that_cancels_its_siblings_is_told_which_will_run_and_exactly_those_do() {
    // All in one step of the drive, and in many.
    for count in [10u32, 300] {
        for by in [0, 3, count / 2, count - 1] {
            let bench = Bench::with(|builder| builder.shards(1));
            let handles: Arc<Mutex<Vec<Handle>>> = Arc::default();
            let taken = Arc::new(Mutex::new(Vec::new()));
            for number in 0..count {
                let mut op = bench.probe(number);
                if number == by {
                    let (all, taken) = (Arc::clone(&handles), Arc::clone(&taken));
                    let purgatory = Arc::clone(&bench.purgatory);
                    op.at_end = Some(Box::new(move |_| {
                        for handle in all.lock().unwrap().iter() {
                            match purgatory.cancel(handle.id) {
                                Cancelled::Taken(op) => taken.lock().unwrap().push(op.number),
                                Cancelled::Gone => {}
                                Cancelled::Busy => unreachable!("nobody is inside"),
                            }
                        }
                    }));
                }
                let handle = bench.wait(op, ms_of(5), &[1]);
                handles.lock().unwrap().push(handle);
            }
            bench.advance(5);
            let (expired, _) = bench.drive();
            let (ran, taken) = (bench.take_log(), taken.lock().unwrap());
            assert_eq!((ran.len(), ran.len() + taken.len()), (expired, count as usize));
            assert!(ran.iter().map(|end| end.0).eq(0..expired as u32), "those before, in order");
            assert!(
                taken.iter().copied().eq(expired as u32..count),
                "and the rest was taken, and did not run"
            );
            assert!(by < expired as u32 && taken.is_empty() == (count < 100 || by == count - 1));
            bench.assert_left(0, 0, 0);
        }
    }
}

/// REE-03. The same with a new timeout: too late for what the drive has begun with, and said so.
#[test]
fn a_callback_that_resets_its_siblings_is_told_which_will_run_now_and_the_others_run_later() {
    for after in [0, 1, 10_000] {
        let bench = Bench::with(|builder| builder.shards(1));
        let handles: Arc<Mutex<Vec<Handle>>> = Arc::default();
        let mut first = bench.probe(0);
        let (all, purgatory) = (Arc::clone(&handles), Arc::clone(&bench.purgatory));
        let reset = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&reset);
        first.at_end = Some(Box::new(move |_| {
            let reset = |handle: &Handle| purgatory.reset_timeout(handle.id, ms_of(after));
            *told.lock().unwrap() = all.lock().unwrap().iter().map(reset).collect::<Vec<bool>>();
        }));
        bench.wait(first, ms_of(5), &[1]);
        for number in 1..300 {
            let handle = bench.watch(number, ms_of(5), &[1]);
            handles.lock().unwrap().push(handle);
        }
        bench.advance(5);
        let now = bench.drive().0;
        let reset = reset.lock().unwrap();
        assert_eq!(reset.iter().filter(|reset| !**reset).count(), now - 1);
        assert!(now > 1 && now < 300 && !reset.iter().skip_while(|reset| !**reset).any(|reset| !reset));
        assert_eq!(bench.take_log().len(), now);
        bench.advance(after.max(1) - 1);
        assert_eq!(bench.drive().0, if after == 0 { 300 - now } else { 0 });
        bench.advance(1);
        let _ = bench.drive();
        assert!(bench.take_log().into_iter().map(|end| end.0).eq(now as u32..300), "each once, in order");
        bench.assert_left(0, 0, 0);
    }
}

/// REE-03, of a wheel: between two pops everything may be done to those that are due.
#[test]
fn between_two_pops_siblings_may_be_stopped_and_restarted() {
    for k in 0..10usize {
        let mut wheel = TimingWheel::starting_at(tick(0));
        let ids: Vec<_> = (0..10usize).map(|n| wheel.start_timer(tick(70), n)).collect();
        let mut fired = Vec::new();
        while let Some(due) = wheel.pop_expired(tick(70)) {
            fired.push(due.item);
            if due.item == k {
                assert_eq!(wheel.stop_timer(due.id), None, "its own is over");
                assert!(!wheel.restart_timer(due.id, tick(70)));
                if k > 0 {
                    assert_eq!(wheel.stop_timer(ids[k - 1]), None, "the one before has fired");
                }
                if k + 1 < 10 {
                    assert_eq!(wheel.stop_timer(ids[k + 1]), Some(k + 1));
                }
                if k + 2 < 10 {
                    assert!(wheel.restart_timer(ids[k + 2], tick(70)), "to the end of its own slot");
                }
                if k + 3 < 10 {
                    assert!(wheel.restart_timer(ids[k + 3], tick(5000)), "to another level");
                }
            }
            wheel.check_invariants();
        }
        let mut expected: Vec<usize> = (0..10).filter(|n| *n <= k || *n > k + 3).collect();
        expected.extend((k + 2 < 10).then_some(k + 2));
        assert_eq!(fired, expected);
        let later = wheel.pop_expired(tick(5000)).map(|due| due.item);
        assert_eq!(later, (k + 3 < 10).then_some(k + 3));
        assert!(wheel.is_empty());
    }
}

/// REE-06. There, a thread that held a lock of its own signalled, and the engine waited for an operation whose look
/// wanted the same lock.
#[test]
fn a_signal_under_a_lock_that_a_running_look_waits_for_returns_and_loses_nothing() {
    with_a_stack_of(STACK, || {
        let bench = Bench::new();
        let (lock, done) = (Arc::new(RwLock::new(())), Arc::new(AtomicBool::new(false)));
        let ((enter, entered), (go_on, told)) = (channel(), channel::<()>());
        let mut op = bench.probe(0);
        let (looks, flag) = (Arc::clone(&op.looks), Arc::clone(&op.flag));
        let (wanted, state) = (Arc::clone(&lock), Arc::clone(&done));
        op.in_look = Some(Box::new(move || {
            flag.store(state.load(Ordering::SeqCst), Ordering::SeqCst);
            if looks.load(Ordering::SeqCst) == 2 {
                enter.send(()).unwrap(); // watched already, and with an answer that will be stale
                told.recv().unwrap();
            }
            drop(wanted.read().unwrap());
        }));
        let purgatory = Arc::clone(&bench.purgatory);
        let registering = thread::spawn(move || purgatory.try_complete_else_watch(op, NEVER, [1]).unwrap());
        entered.recv().unwrap();
        let held = lock.write().unwrap();
        let writer = {
            let lock = Arc::clone(&lock);
            thread::spawn(move || drop(lock.write().unwrap()))
        };
        go_on.send(()).unwrap();
        done.store(true, Ordering::SeqCst);
        // The look cannot end before this thread lets go, and this thread does not wait for the look.
        let mine = bench.purgatory.check_and_complete(&1);
        drop(held);
        writer.join().unwrap();
        let registered = registering.join().unwrap();
        assert_eq!((mine, registered.is_completed()), (0, true));
        assert_eq!(bench.take_log(), [(0, Outcome::Satisfied)], "without another event");
        bench.assert_left(0, 0, 0);
    });
}

/// REE-08. There, a callback that cancelled itself lost what it still used.
#[test]
fn a_callback_may_cancel_force_and_reset_itself_and_still_has_what_it_holds() {
    let bench = Bench::new();
    let own = Arc::new(Mutex::new(None::<Handle>));
    let mut op = bench.probe(0);
    let (name, purgatory, held) = (Arc::clone(&own), Arc::clone(&bench.purgatory), Arc::new(vec![7; 1000]));
    let seen = Arc::downgrade(&held);
    let read = Arc::new(AtomicUsize::new(0));
    let sum = Arc::clone(&read);
    op.at_end = Some(Box::new(move |_| {
        let own = name.lock().unwrap().take().unwrap();
        assert!(purgatory.cancel(own.id) == Cancelled::Gone);
        assert!(!purgatory.force_complete(own.id) && !purgatory.reset_timeout(own.id, ms_of(1)));
        assert_eq!(purgatory.cancel_for_key(&1).count(), 0);
        sum.store(held.iter().sum(), Ordering::SeqCst);
    }));
    *own.lock().unwrap() = Some(bench.wait(op, ms_of(1), &[1]));
    bench.advance(1);
    assert_eq!(bench.drive().0, 1);
    assert_eq!(read.load(Ordering::SeqCst), 7000);
    assert_eq!(seen.strong_count(), 0, "and it is given back");
    bench.assert_left(0, 0, 0);
}

/// REE-08. There, a destructor that called back met the lock under which it was dropped.
#[test]
fn destructors_of_operations_may_call_the_engine_by_whatever_end_they_are_dropped() {
    /// Its destructor registers, cancels, signals and asks.
    struct Caller(Arc<Purgatory<u32, Caller>>, Arc<AtomicUsize>, bool);
    impl DelayedOperation for Caller {
        fn try_complete(&mut self) -> bool {
            self.2
        }
        fn on_complete(self, _: Outcome) {}
    }
    impl Drop for Caller {
        fn drop(&mut self) {
            if self.1.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
                // The other one's destructor only counts.
                let other = Caller(Arc::clone(&self.0), Arc::clone(&self.1), false);
                match self.0.try_complete_else_watch(other, NEVER, [1, 2]) {
                    Ok(registration) => {
                        let other = self.0.cancel(registration.id().expect("it waits"));
                        assert!(other.is_cancelled());
                    }
                    Err(rejected) => assert!(self.0.is_shutdown() || rejected.reason == RejectReason::Full),
                }
            }
            self.0.check_and_complete(&1);
            assert!(self.0.stats().registered > 0 && self.0.len() < 100 && !self.0.contains_key(&9));
        }
    }
    with_a_stack_of(STACK, || {
        let bench = Bench::new();
        let caught = Arc::new(AtomicUsize::new(0));
        let panics = Arc::clone(&caught);
        let builder = Purgatory::builder("callers").shards(1).clock(bench.clock.clone()).capacity(3);
        let purgatory: Arc<Purgatory<u32, Caller>> =
            Arc::new(builder.on_panic(move |_| panics.store(1, Ordering::SeqCst)).build());
        let drops = Arc::new(AtomicUsize::new(0));
        let op = |ready| Caller(Arc::clone(&purgatory), Arc::clone(&drops), ready);
        let watch = || purgatory.try_complete_else_watch(op(false), ms_of(5), [1]).unwrap().id().unwrap();
        let mut before = 0;
        let mut dropped = |what: &str| {
            let now = drops.load(Ordering::SeqCst);
            assert_eq!(now - before, 2, "it and the one that it has made: {what}");
            before = now;
        };
        let _ = purgatory.try_complete_else_watch(op(true), ms_of(5), [1]).unwrap();
        dropped("satisfied");
        assert!(purgatory.force_complete(watch()));
        dropped("forced");
        drop(purgatory.cancel(watch()));
        dropped("cancelled");
        watch();
        drop(purgatory.cancel_for_key(&1));
        dropped("cancelled by key");
        watch();
        bench.advance(5);
        assert_eq!(purgatory.expire().expired, 1);
        dropped("expired");
        let waiting = [watch(), watch(), watch()];
        drop(purgatory.try_complete_else_watch(op(false), ms_of(5), [1]).unwrap_err());
        dropped("refused for want of room");
        drop(purgatory.cancel(waiting[0]));
        dropped("cancelled");
        drop(purgatory.cancel(waiting[1]));
        dropped("cancelled");
        assert_eq!(purgatory.shutdown(), 1);
        dropped("shut down");
        drop(purgatory.try_complete_else_watch(op(false), ms_of(5), [1]).unwrap_err());
        dropped("refused after the shutdown");
        assert_eq!((purgatory.len(), caught.load(Ordering::SeqCst)), (0, 0));
    });
}

/// REE-10. There, a retry at once called the handler from within the handler, until the stack was used up.
#[test]
fn a_handler_that_fails_and_is_retried_at_once_costs_no_stack_and_others_go_on() {
    const FAILURES: usize = 200_000;
    /// Fails at once each time; a retry is another registration of the same.
    struct Retry(Arc<Purgatory<u32, Retry>>, Arc<AtomicUsize>, Arc<AtomicBool>);
    impl DelayedOperation for Retry {
        fn try_complete(&mut self) -> bool {
            true
        }
        fn on_complete(self, _: Outcome) {
            if self.1.fetch_add(1, Ordering::SeqCst) + 1 < FAILURES {
                let purgatory = Arc::clone(&self.0);
                let again = purgatory.try_complete_else_watch(self, NEVER, [1]).unwrap();
                assert!(again.is_completed());
            } else {
                self.2.store(true, Ordering::SeqCst);
            }
        }
    }
    with_a_stack_of(256 * 1024, || {
        let (failed, given_up) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let purgatory: Arc<Purgatory<u32, Retry>> = Arc::new(Purgatory::builder("retry").build());
        let op = Retry(Arc::clone(&purgatory), Arc::clone(&failed), Arc::clone(&given_up));
        let _ = purgatory.try_complete_else_watch(op, NEVER, [1]).unwrap();
        assert_eq!((failed.load(Ordering::SeqCst), given_up.load(Ordering::SeqCst)), (FAILURES, true));
        assert!(purgatory.stats().balances() && purgatory.is_empty());
    });
}

/// REE-10. The same with retries that are due at once, in a drive: other operations get their turn in between.
#[test]
fn retries_that_are_due_at_once_let_other_operations_go_on_in_between() {
    /// Fails in each drive, and is due again at once.
    fn retry(bench: &Arc<Bench>, left: u32) -> Probe {
        let mut op = bench.probe(0);
        let shared = Arc::clone(bench);
        op.at_end = Some(Box::new(move |_| {
            if left > 0 {
                shared.wait(retry(&shared, left - 1), Duration::ZERO, &[1]);
            }
        }));
        op
    }
    let bench = Arc::new(Bench::new());
    bench.wait(retry(&bench, 2000), Duration::ZERO, &[1]);
    (1..=2000).for_each(|number| drop(bench.watch(number, ms_of(u64::from(number)), &[2])));
    for number in 1..=2000 {
        bench.advance(1);
        assert_eq!(bench.drive().0, 2);
        let mut ran: Vec<u32> = bench.take_log().into_iter().map(|end| end.0).collect();
        ran.sort_unstable();
        assert_eq!(ran, [0, number]);
    }
    assert_eq!(bench.drive().0, 1);
    bench.assert_left(0, 0, 0);
}
