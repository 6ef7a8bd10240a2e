//! No lost event, and nobody waits for user code: what comes while a thread is inside an operation.
//!
//! The threads meet at channels inside a look, so that what is tested does happen at that moment.

use super::support::*;
use ixion::{Cancelled, DelayedOperation, Outcome, Purgatory, Registration};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread;

/// The other end of a look that stops in the middle.
struct Inside {
    entered: Receiver<()>,
    go_on: Sender<()>,
}

/// Makes the look number `at` of an operation stop until it is told to go on.
fn stop_in_look(op: &mut Probe, at: usize) -> Inside {
    let (enter, entered) = channel();
    let (go_on, told) = channel::<()>();
    let mut looks = 0;
    op.in_look = Some(Box::new(move || {
        looks += 1;
        if looks == at {
            enter.send(()).unwrap();
            told.recv().unwrap();
        }
    }));
    Inside { entered, go_on }
}

/// Registers an operation, and brings another thread into its third look: the first that a signal causes. That thread
/// returns what its signal counted.
fn with_busy_operation(
    bench: &Bench,
    timeout: u64,
    keys: &[u32],
) -> (Handle, Inside, thread::JoinHandle<usize>) {
    let mut op = bench.probe(0);
    let inside = stop_in_look(&mut op, 3);
    let handle = bench.wait(op, ms_of(timeout), keys);
    let purgatory = Arc::clone(&bench.purgatory);
    let key = keys[0];
    let busy = thread::spawn(move || purgatory.check_and_complete(&key));
    inside.entered.recv().unwrap();
    (handle, inside, busy)
}

#[test]
fn an_event_that_comes_during_a_look_is_looked_at_by_the_thread_inside() {
    let bench = Bench::new();
    let (handle, inside, busy) = with_busy_operation(&bench, 1000, &[1, 2]);
    handle.set();
    assert_eq!(bench.purgatory.check_and_complete(&2), 0, "it leaves a mark and goes");
    // The flag is cleared while that look runs, so that only another look can see the event.
    handle.flag.store(false, Ordering::SeqCst);
    inside.go_on.send(()).unwrap();
    assert_eq!(busy.join().unwrap(), 0);
    assert_eq!(handle.looks.load(Ordering::SeqCst), 4, "the mark was worth another look");
    bench.assert_left(1, 2, 2);
    handle.set();
    assert_eq!(bench.purgatory.check_and_complete(&1), 1);
}

#[test]
fn an_event_during_the_look_that_says_no_completes_the_operation() {
    /// Reads its flag, stops in the third look, and only then answers.
    struct Slow {
        flag: Arc<AtomicBool>,
        looks: usize,
        enter: Sender<()>,
        told: Receiver<()>,
        end: Sender<Outcome>,
    }
    impl DelayedOperation for Slow {
        fn try_complete(&mut self) -> bool {
            let was_set = self.flag.load(Ordering::SeqCst);
            self.looks += 1;
            if self.looks == 3 {
                self.enter.send(()).unwrap();
                self.told.recv().unwrap();
            }
            was_set
        }
        fn on_complete(self, outcome: Outcome) {
            self.end.send(outcome).unwrap();
        }
    }
    let purgatory: Arc<Purgatory<u32, Slow>> = Arc::new(Purgatory::builder("slow").build());
    let ((enter, entered), (go_on, told), (end, ended)) = (channel(), channel(), channel());
    let flag = Arc::new(AtomicBool::new(false));
    let op = Slow { flag: Arc::clone(&flag), looks: 0, enter, told, end };
    let _ = purgatory.try_complete_else_watch(op, NEVER, [1]).expect("open");
    let busy = {
        let purgatory = Arc::clone(&purgatory);
        thread::spawn(move || purgatory.check_and_complete(&1))
    };
    entered.recv().unwrap();
    flag.store(true, Ordering::SeqCst);
    assert_eq!(purgatory.check_and_complete(&1), 0);
    go_on.send(()).unwrap();
    assert_eq!(busy.join().unwrap(), 1, "the thread inside looked again, and decided");
    assert_eq!(ended.recv().unwrap(), Outcome::Satisfied);
}

#[test]
fn expiry_does_not_wait_for_a_busy_operation_nor_do_those_behind_it() {
    let bench = Bench::new();
    let (handle, inside, busy) = with_busy_operation(&bench, 10, &[1]);
    bench.watch(1, ms_of(10), &[2]);
    bench.advance(10);
    assert_eq!(bench.drive().0, 2, "both are decided, and the drive is over");
    assert_eq!(bench.take_log(), [(1, Outcome::Expired)]);
    assert_eq!(bench.purgatory.len(), 1, "until the thread inside has acted it still counts");
    handle.set(); // too late
    inside.go_on.send(()).unwrap();
    assert_eq!(busy.join().unwrap(), 0, "the look's answer is ignored");
    assert_eq!(bench.take_log(), [(0, Outcome::Expired)]);
    bench.assert_left(0, 0, 0);
}

#[test]
fn cancel_force_and_reset_do_not_wait_for_a_busy_operation() {
    for force in [false, true] {
        let bench = Bench::new();
        let (handle, inside, busy) = with_busy_operation(&bench, 1000, &[1, 2]);
        assert!(
            bench.purgatory.reset_timeout(handle.id, ms_of(2000)),
            "a busy operation can be given more time"
        );
        let outcome = if force {
            assert!(bench.purgatory.force_complete(handle.id));
            Outcome::Forced
        } else {
            assert!(bench.purgatory.cancel(handle.id) == Cancelled::Busy);
            Outcome::Cancelled
        };
        // Decided: nothing else gets it.
        assert!(!bench.purgatory.force_complete(handle.id));
        assert!(bench.purgatory.cancel(handle.id) == Cancelled::Gone);
        assert!(!bench.purgatory.reset_timeout(handle.id, ms_of(1)));
        assert_eq!(bench.purgatory.force_complete_for_key(&2), 0);
        assert!(bench.take_log().is_empty());
        handle.set();
        inside.go_on.send(()).unwrap();
        assert_eq!(busy.join().unwrap(), 0);
        assert_eq!(bench.take_log(), [(0, outcome)]);
        bench.assert_left(0, 0, 0);
    }
}

#[test]
fn no_look_begins_after_the_outcome_is_decided() {
    let bench = Bench::new();
    let (handle, inside, busy) = with_busy_operation(&bench, 1000, &[1]);
    bench.purgatory.check_and_complete(&1); // a mark
    assert!(bench.purgatory.force_complete(handle.id));
    inside.go_on.send(()).unwrap();
    busy.join().unwrap();
    assert_eq!(handle.looks.load(Ordering::SeqCst), 3, "the mark that came before the decision is void");
}

#[test]
fn shutdown_does_not_wait_for_a_busy_operation() {
    let bench = Bench::new();
    let (_, inside, busy) = with_busy_operation(&bench, 1000, &[1]);
    bench.watch(1, ms_of(1000), &[1]);
    let back = bench.purgatory.shutdown_and_hand_back();
    assert_eq!((back.taken.len(), back.busy), (1, 1));
    inside.go_on.send(()).unwrap();
    busy.join().unwrap();
    assert_eq!(bench.take_log(), [(0, Outcome::Shutdown)]);
    bench.assert_left(0, 0, 0);
}

#[test]
fn what_comes_while_an_operation_registers_is_acted_on_by_the_registering_thread() {
    type Meanwhile = fn(&Bench);
    let cases: [(Meanwhile, Outcome); 5] = [
        (|bench| assert_eq!(bench.purgatory.cancel_for_key(&1).busy, 1), Outcome::Cancelled),
        (|bench| assert_eq!(bench.purgatory.force_complete_for_key(&2), 1), Outcome::Forced),
        (|bench| assert_eq!(bench.drive().0, 1), Outcome::Expired),
        (|bench| assert_eq!(bench.purgatory.shutdown(), 1), Outcome::Shutdown),
        (|bench| assert_eq!(bench.purgatory.check_and_complete(&1), 0), Outcome::Satisfied),
    ];
    for (meanwhile, outcome) in cases {
        let bench = Bench::new();
        let mut op = bench.probe(0);
        let flag = Arc::clone(&op.flag);
        let inside = stop_in_look(&mut op, 2); // the second look: watched and armed already
        let purgatory = Arc::clone(&bench.purgatory);
        let registering =
            thread::spawn(move || purgatory.try_complete_else_watch(op, ms_of(0), [1, 2]).unwrap());
        inside.entered.recv().unwrap();
        bench.assert_left(1, 2, 2);
        if outcome == Outcome::Satisfied {
            flag.store(true, Ordering::SeqCst);
        }
        meanwhile(&bench);
        inside.go_on.send(()).unwrap();
        assert_eq!(registering.join().unwrap(), Registration::Completed(outcome));
        assert_eq!(bench.take_log(), [(0, outcome)]);
        bench.assert_left(0, 0, 0);
    }
}

#[test]
fn a_thread_that_keeps_being_marked_hands_the_rest_over_and_nothing_is_lost() {
    let bench = Bench::new();
    let mut op = bench.probe(0);
    let looks = Arc::clone(&op.looks);
    let (enter, entered) = channel();
    let (go_on, told) = channel::<()>();
    op.in_look = Some(Box::new(move || {
        if looks.load(Ordering::SeqCst) > 2 && enter.send(()).is_ok() {
            let _ = told.recv();
        }
    }));
    let handle = bench.wait(op, NEVER, &[1]);
    let purgatory = Arc::clone(&bench.purgatory);
    let busy = thread::spawn(move || purgatory.check_and_complete(&1));
    // Every look is marked while it runs, for as long as the thread stays.
    let mut rounds = 0;
    while entered.recv_timeout(std::time::Duration::from_secs(20)).is_ok() {
        rounds += 1;
        // A signal on a key whose shard is the operation's would take it over; this one only marks.
        bench.purgatory.check_and_complete(&1);
        go_on.send(()).unwrap();
        if busy.is_finished() || rounds == 16 {
            break;
        }
    }
    assert_eq!(busy.join().unwrap(), 0, "it was let off after {rounds} rounds");
    drop((entered, go_on));
    assert_eq!(rounds, 16);
    // The last mark is owed: the driver is called, and looks.
    assert_eq!(bench.purgatory.next_expiration(), Some(ixion::Tick::ZERO));
    handle.set();
    assert_eq!(bench.purgatory.expire().expired, 0);
    assert_eq!(bench.take_log(), [(0, Outcome::Satisfied)]);
    bench.assert_left(0, 0, 0);
}

#[test]
fn events_on_two_keys_race_registrations_and_none_is_lost() {
    const ROUNDS: u32 = 3000;
    let bench = Bench::new();
    let start = Barrier::new(3);
    let flags: Vec<_> = (0..ROUNDS).map(|_| Arc::new(AtomicUsize::new(0))).collect();
    thread::scope(|scope| {
        for key in 0..2u32 {
            let (bench, flags, start) = (&bench, &flags, &start);
            scope.spawn(move || {
                for flag in flags {
                    start.wait();
                    flag.fetch_or(1 << key, Ordering::Relaxed);
                    bench.purgatory.check_and_complete(&key);
                }
            });
        }
        for (number, flag) in flags.iter().enumerate() {
            let mut op = bench.probe(number as u32);
            let (met, flag) = (Arc::clone(&op.flag), Arc::clone(flag));
            op.in_look =
                Some(Box::new(move || met.store(flag.load(Ordering::Relaxed) == 3, Ordering::SeqCst)));
            start.wait();
            let _ = bench.register(op, NEVER, &[0, 1]);
        }
    });
    let ends = bench.take_log();
    assert_eq!(ends.len(), ROUNDS as usize);
    assert!(ends.iter().all(|end| end.1 == Outcome::Satisfied));
    bench.assert_left(0, 0, 0);
}
