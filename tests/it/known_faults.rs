//! Faults that other purgatories and timers had, as scenarios that must go right here. The ids are those of
//! `tests/README.md`, which also says where the scenarios are that stand elsewhere.

use crate::guarantees::support::*;
use ixion::{DelayedOperation, Outcome, Purgatory, Resolution};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex, RwLock};
use std::thread;

/// B2. There, a thread that held the operation's lock made a signal skip, and nobody looked again when it let go. Here a
/// look that stops at a lock of the user's delays itself alone.
#[test]
fn a_look_that_waits_for_a_lock_of_its_own_is_not_skipped_and_delays_nobody_else() {
    let bench = Bench::new();
    let group = Arc::new(Mutex::new(()));
    let (enter, entered) = channel();
    let mut op = bench.probe(0);
    let (lock, looks) = (Arc::clone(&group), Arc::clone(&op.looks));
    op.in_look = Some(Box::new(move || {
        if looks.load(Ordering::SeqCst) == 3 {
            enter.send(()).unwrap();
        }
        drop(lock.lock().unwrap());
    }));
    let handle = bench.wait(op, ms_of(1000), &[1]);
    bench.watch(1, ms_of(10), &[1, 2]);
    let held = group.lock().unwrap();
    handle.set();
    let purgatory = Arc::clone(&bench.purgatory);
    let busy = thread::spawn(move || purgatory.check_and_complete(&1));
    entered.recv().unwrap();
    assert_eq!(bench.purgatory.check_and_complete(&1), 0, "it does not wait");
    bench.advance(10);
    assert_eq!(bench.drive().0, 1, "nor does an expiry");
    drop(held);
    assert_eq!(busy.join().unwrap(), 1, "without another event");
    assert_eq!(bench.take_log(), [(1, Outcome::Expired), (0, Outcome::Satisfied)]);
}

/// B3. Threads that share a lock of the user's may all get to the operation at once.
#[test]
fn threads_that_share_a_read_lock_complete_an_operation_once() {
    const THREADS: usize = 4;
    let state = RwLock::new(());
    for _ in 0..200 {
        let bench = Bench::new();
        let handle = bench.watch(0, NEVER, &[1]);
        let start = Barrier::new(THREADS);
        let counted = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let _shared = state.read().unwrap();
                    start.wait();
                    handle.set();
                    counted.fetch_add(bench.purgatory.check_and_complete(&1), Ordering::SeqCst);
                });
            }
        });
        assert_eq!(bench.take_log(), [(0, Outcome::Satisfied)]);
        assert_eq!(counted.into_inner(), 1);
    }
}

/// B5, B6. There, a change of leadership left operations of the partition waiting, or lingering.
#[test]
fn an_event_that_concerns_all_of_a_key_ends_all_of_them_at_once() {
    let bench = Bench::new();
    let leads = Arc::new(AtomicBool::new(true));
    for number in 0..1000 {
        let mut op = bench.probe(number);
        let (leads, flag) = (Arc::clone(&leads), Arc::clone(&op.flag));
        op.in_look = Some(Box::new(move || flag.store(!leads.load(Ordering::SeqCst), Ordering::SeqCst)));
        bench.wait(op, NEVER, &[1, 10 + number % 7]);
    }
    leads.store(false, Ordering::SeqCst);
    assert_eq!(bench.purgatory.check_and_complete(&1), 1000);
    bench.assert_left(0, 0, 0);
}

/// B8. There, a port that did not look after an append made every fetch wait its whole time.
#[test]
fn an_event_ends_an_operation_in_the_same_call_while_the_clock_stands_still() {
    let bench = Bench::new();
    let fetch = bench.watch(0, ms_of(500), &[1]);
    fetch.set();
    assert_eq!(bench.purgatory.check_and_complete(&1), 1);
    assert_eq!((bench.take_log(), bench.clock.now()), (vec![(0, Outcome::Satisfied)], tick(0)));
}

/// B9. There, one operation served two purposes, and what completed the one completed the other.
#[test]
fn waits_of_different_kinds_on_one_subject_do_not_end_each_other() {
    #[derive(PartialEq, Eq, Hash)]
    enum Key {
        Heartbeat(u32),
        Sync(u32),
    }
    let bench = Bench::new();
    let purgatory: Purgatory<Key, Probe> = Purgatory::builder("group").build();
    let (heartbeat, sync) = (bench.probe(0), bench.probe(1));
    let flags = [Arc::clone(&heartbeat.flag), Arc::clone(&sync.flag)];
    let _ = purgatory.try_complete_else_watch(heartbeat, NEVER, [Key::Heartbeat(7)]).unwrap();
    let _ = purgatory.try_complete_else_watch(sync, NEVER, [Key::Sync(7)]).unwrap();
    flags.iter().for_each(|flag| flag.store(true, Ordering::SeqCst));
    assert_eq!(purgatory.check_and_complete(&Key::Heartbeat(7)), 1);
    assert!(!purgatory.contains_key(&Key::Heartbeat(7)) && purgatory.contains_key(&Key::Sync(7)));
    assert_eq!(bench.take_log(), [(0, Outcome::Satisfied)]);
}

/// B10, B25. There, the timer of an operation that was over fired, or stayed until its time.
#[test]
fn the_timer_of_an_operation_that_is_over_is_gone_and_never_fires() {
    let bench = Bench::new();
    for end in 0..4 {
        let handle = bench.watch(end, ms_of(15_000), &[1]);
        match end {
            0 => drop(bench.purgatory.cancel(handle.id)),
            1 => drop(bench.purgatory.force_complete(handle.id)),
            2 => drop(bench.purgatory.cancel_for_key(&1)),
            _ => {
                handle.set();
                bench.purgatory.check_and_complete(&1);
            }
        }
        assert_eq!(bench.purgatory.next_expiration(), None, "nothing is left to wake up for");
        bench.assert_left(0, 0, 0);
    }
    bench.advance(100_000);
    assert_eq!(bench.drive().0, 0);
    assert_eq!(bench.take_log(), [(1, Outcome::Forced), (3, Outcome::Satisfied)]);
}

/// B11. There, looks ran with the list locked, and two threads stopped each other.
#[test]
fn callbacks_that_register_and_signal_on_the_same_keys_from_two_threads_go_on() {
    const ROUNDS: u32 = 2000;
    let bench = Bench::with(|builder| builder.shards(2));
    thread::scope(|scope| {
        for thread in 0..2u32 {
            let bench = &bench;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let number = thread * ROUNDS + round;
                    let (mut op, again) = (bench.probe(number), bench.probe(100_000 + number));
                    let purgatory = Arc::clone(&bench.purgatory);
                    again.flag.store(true, Ordering::SeqCst);
                    op.at_end = Some(Box::new(move |_| {
                        let _ = purgatory.try_complete_else_watch(again, NEVER, [1, 2]).unwrap();
                        purgatory.check_and_complete(&(2 - thread));
                    }));
                    let keys = if thread == 0 { [1, 2] } else { [2, 1] };
                    let handle = bench.wait(op, NEVER, &keys);
                    handle.set();
                    bench.purgatory.check_and_complete(&keys[1]);
                }
            });
        }
    });
    let _ = bench.drive(); // a thread that tired of the other's marks may have left one behind
    let ends = bench.take_log();
    assert_eq!(ends.len(), 4 * ROUNDS as usize);
    assert!(ends.iter().all(|end| end.1 == Outcome::Satisfied));
    bench.assert_left(0, 0, 0);
}

/// B12, B13, B15. There, a callback that held its lock completed another operation, whose callback wanted another
/// lock, and two threads did so crosswise. Here what a callback causes runs after it has returned, without its locks.
#[test]
fn callbacks_under_locks_that_complete_each_other_crosswise_do_not_meet() {
    let bench = Bench::new();
    let locks = [Arc::new(Mutex::new(())), Arc::new(Mutex::new(()))];
    let both_hold = Arc::new(Barrier::new(2));
    for mine in 0..2usize {
        // The one that is caused wants the other's lock, and its own once more.
        let mut caused = bench.probe(10 + mine as u32);
        let wanted = locks.clone();
        caused.at_end = Some(Box::new(move |_| {
            drop(wanted[1 - mine].lock().unwrap());
            drop(wanted[mine].lock().unwrap());
        }));
        let caused = bench.wait(caused, NEVER, &[10 + mine as u32]);
        let mut first = bench.probe(mine as u32);
        let (purgatory, lock, both_hold) =
            (Arc::clone(&bench.purgatory), Arc::clone(&locks[mine]), Arc::clone(&both_hold));
        first.at_end = Some(Box::new(move |_| {
            let _held = lock.lock().unwrap();
            both_hold.wait();
            caused.set();
            assert_eq!(purgatory.check_and_complete(&(10 + mine as u32)), 1);
            both_hold.wait();
        }));
        bench.wait(first, NEVER, &[mine as u32]);
    }
    thread::scope(|scope| {
        for mine in 0..2 {
            let purgatory = &bench.purgatory;
            scope.spawn(move || assert_eq!(purgatory.force_complete_for_key(&mine), 1));
        }
    });
    assert_eq!(bench.take_log().len(), 4);
    bench.assert_left(0, 0, 0);
}

/// B19. There, an expiry's callback ran beside the look of another thread, on the same fields.
#[test]
fn the_callback_of_an_expiry_begins_after_the_look_of_another_thread_has_ended() {
    let bench = Bench::new();
    let mut op = bench.probe(0);
    let (enter, entered) = channel();
    let (go_on, told) = channel::<()>();
    let inside = Arc::new(AtomicBool::new(false));
    let (within, looks) = (Arc::clone(&inside), Arc::clone(&op.looks));
    op.in_look = Some(Box::new(move || {
        within.store(true, Ordering::SeqCst);
        if looks.load(Ordering::SeqCst) == 3 {
            enter.send(()).unwrap();
            told.recv().unwrap();
        }
        within.store(false, Ordering::SeqCst);
    }));
    op.at_end = Some(Box::new(move |outcome| {
        assert!(!inside.load(Ordering::SeqCst), "{outcome:?} in the middle of a look");
    }));
    bench.wait(op, ms_of(1), &[1]);
    let purgatory = Arc::clone(&bench.purgatory);
    let busy = thread::spawn(move || purgatory.check_and_complete(&1));
    entered.recv().unwrap();
    bench.advance(1);
    assert_eq!(bench.drive().0, 1);
    assert!(bench.take_log().is_empty());
    go_on.send(()).unwrap();
    busy.join().unwrap();
    assert_eq!(bench.take_log(), [(0, Outcome::Expired)]);
    assert_eq!(bench.purgatory.stats().panics, 0);
}

/// B21. What a look has taken is released once, by whatever end.
#[test]
fn what_an_operation_has_taken_is_released_exactly_once_by_every_end() {
    struct Guard(Arc<AtomicUsize>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    struct Reader {
        taken: Option<Guard>,
        released: Arc<AtomicUsize>,
        look: fn() -> bool,
        end: fn(),
    }
    impl DelayedOperation for Reader {
        fn try_complete(&mut self) -> bool {
            let released = Arc::clone(&self.released);
            self.taken.get_or_insert_with(|| Guard(released));
            (self.look)()
        }
        fn on_complete(self, _: Outcome) {
            (self.end)();
        }
    }
    let released = Arc::new(AtomicUsize::new(0));
    let clock = clock(Resolution::MILLISECOND);
    let purgatory: Purgatory<u32, Reader> =
        Purgatory::builder("readers").clock(clock.clone()).on_panic(|_| {}).build();
    let register = |look: fn() -> bool, end: fn()| {
        let op = Reader { taken: None, released: Arc::clone(&released), look, end };
        purgatory.try_complete_else_watch(op, ms_of(1), [1]).unwrap().id()
    };
    let mut ends = 0;
    let mut one_more = |what: &str| {
        ends += 1;
        assert_eq!(released.load(Ordering::SeqCst), ends, "{what}");
    };
    register(|| true, || ());
    one_more("satisfied");
    register(|| panic!("look"), || ());
    one_more("the look panicked");
    register(|| true, || panic!("end"));
    one_more("the callback panicked");
    purgatory.force_complete(register(|| false, || ()).unwrap());
    one_more("forced");
    drop(purgatory.cancel(register(|| false, || ()).unwrap()));
    one_more("cancelled");
    register(|| false, || panic!("end"));
    clock.advance(ms_of(1));
    assert_eq!(purgatory.expire().expired, 1);
    one_more("expired, and the callback panicked");
    register(|| false, || ());
    assert_eq!(purgatory.shutdown(), 1);
    one_more("shut down");
}

/// B29. There, the largest delay wrapped round and was over at once.
#[test]
fn the_largest_timeouts_do_not_wrap_round() {
    let bench = Bench::new();
    bench.advance(1_000_000);
    for (number, timeout) in [ms_of(i64::MAX as u64), ms_of(u64::MAX), NEVER].into_iter().enumerate() {
        bench.watch(number as u32, timeout, &[1]);
    }
    assert_eq!(bench.drive().0, 0);
    bench.advance(100 * 365 * 24 * 3600 * 1000);
    assert_eq!(bench.drive().0, 0);
    bench.assert_left(3, 3, 1);
}

/// B30, B32. There, timers fired within a tick too early, and a manual clock's a tick too late.
#[test]
fn on_a_manual_clock_a_timer_fires_at_its_deadline_and_a_cancelled_one_does_not_count() {
    for timeout in [1, 2, 63, 64, 65, 4095, 4096, 4097, 1_000_003] {
        let bench = Bench::new();
        bench.watch(0, ms_of(timeout), &[1]);
        let cancelled = bench.watch(1, ms_of(timeout), &[1]);
        drop(bench.purgatory.cancel(cancelled.id));
        bench.assert_left(1, 1, 1);
        bench.advance(timeout - 1);
        assert_eq!(bench.drive().0, 0, "{timeout} ms are not over");
        bench.advance(1);
        assert_eq!(bench.drive().0, 1, "{timeout} ms are over");
    }
}

/// B48. There, the deadline was fixed at the start, and too short for a slow read that was still going on.
#[test]
fn an_operation_that_makes_progress_is_given_more_time_again_and_again() {
    let bench = Bench::new();
    let handle = bench.watch(0, ms_of(10), &[1]);
    for _ in 0..1000 {
        bench.advance(9);
        assert_eq!(bench.drive().0, 0);
        assert!(bench.purgatory.reset_timeout(handle.id, ms_of(10)));
    }
    bench.advance(10);
    assert_eq!(bench.drive().0, 1);
}
