//! Each race over an operation that waits, as a model. The names are those of `design.rs`.
#![cfg(any(ixion_loom, ixion_shuttle))]

use ixion::{Cancelled, Outcome};
use ixion_models::checker::thread::spawn;
use ixion_models::{End, Flag, Op, assert_quiet, drive, model, purgatory, register, signal, start};
use std::sync::Arc;
use std::time::Duration;

const NEVER: Duration = Duration::MAX;
const NOW: Duration = Duration::ZERO;

#[test]
fn two_events_on_an_operation_that_needs_both() {
    model(2, || {
        let (purgatory, a, b, end) = (purgatory(1), Flag::new(), Flag::new(), End::new());
        let registration = register(&purgatory, Op::new(&[&a, &b], &end), NEVER, &[1, 2]);
        assert!(!registration.is_completed());
        let other = signal(&purgatory, &b, 2);
        a.set();
        let counts = purgatory.check_and_complete(&1) + other.join().unwrap();
        assert_eq!((end.calls(), end.outcome()), (1, Some(Outcome::Satisfied)));
        assert_eq!(counts, 1, "one call decided it");
        assert_quiet(&purgatory, 0, 0);
    });
}

#[test]
fn an_event_while_another_thread_is_inside() {
    model(2, || {
        let (purgatory, flag, end) = (purgatory(1), Flag::new(), End::new());
        let _ = register(&purgatory, Op::new(&[&flag], &end), NEVER, &[1]);
        // Its look may say no, and may say it after the event.
        let inside = start(&purgatory, |purgatory| purgatory.check_and_complete(&1));
        flag.set();
        let counts = purgatory.check_and_complete(&1) + inside.join().unwrap();
        assert_eq!((end.calls(), end.outcome(), counts), (1, Some(Outcome::Satisfied), 1));
        assert_quiet(&purgatory, 0, 0);
    });
}

#[test]
fn an_event_against_expiry() {
    model(2, || {
        let (purgatory, flag, end) = (purgatory(1), Flag::new(), End::new());
        let _ = register(&purgatory, Op::new(&[&flag], &end), NOW, &[1]);
        let event = signal(&purgatory, &flag, 1);
        let drive = purgatory.expire();
        let satisfied = event.join().unwrap();
        assert_eq!(drive.expired + satisfied, 1, "one of them won");
        let outcome = if satisfied == 1 { Outcome::Satisfied } else { Outcome::Expired };
        assert_eq!((end.calls(), end.outcome()), (1, Some(outcome)));
        assert_quiet(&purgatory, 0, 0);
    });
}

#[test]
fn an_event_an_expiry_and_a_cancellation_at_once() {
    model(3, || {
        let (purgatory, flag, end) = (purgatory(1), Flag::new(), End::new());
        let id = register(&purgatory, Op::new(&[&flag], &end), NOW, &[1]).id().expect("waits");
        let event = signal(&purgatory, &flag, 1);
        let cancel = {
            let purgatory = Arc::clone(&purgatory);
            spawn(move || purgatory.cancel(id))
        };
        let expired = purgatory.expire().expired;
        let satisfied = event.join().unwrap();
        let (taken, busy) = match cancel.join().unwrap() {
            Cancelled::Taken(_) => (1, 0),
            Cancelled::Busy => (0, 1),
            Cancelled::Gone => (0, 0),
        };
        assert_eq!(expired + satisfied + taken + busy, 1, "exactly one decided it");
        assert_eq!(end.calls(), 1 - taken);
        assert_quiet(&purgatory, 0, 0);
    });
}

#[test]
fn a_forced_completion_against_a_busy_operation() {
    model(2, || {
        let (purgatory, flag, end) = (purgatory(1), Flag::new(), End::new());
        let id = register(&purgatory, Op::new(&[&flag], &end), NEVER, &[1]).id().expect("waits");
        let event = signal(&purgatory, &flag, 1);
        let forced = purgatory.force_complete(id);
        let satisfied = event.join().unwrap();
        assert_eq!(usize::from(forced) + satisfied, 1);
        let outcome = if forced { Outcome::Forced } else { Outcome::Satisfied };
        assert_eq!((end.calls(), end.outcome()), (1, Some(outcome)));
        assert_quiet(&purgatory, 0, 0);
    });
}

#[test]
fn a_cancellation_against_a_busy_operation() {
    model(2, || {
        let (purgatory, flag, end) = (purgatory(1), Flag::new(), End::new());
        let id = register(&purgatory, Op::new(&[&flag], &end), NEVER, &[1, 2]).id().expect("waits");
        let event = signal(&purgatory, &flag, 1);
        let cancelled = purgatory.cancel(id);
        let satisfied = event.join().unwrap();
        assert_eq!(satisfied + usize::from(cancelled.is_cancelled()), 1);
        let (calls, outcome) = match cancelled {
            Cancelled::Taken(_) => (0, None),
            Cancelled::Busy => (1, Some(Outcome::Cancelled)),
            Cancelled::Gone => (1, Some(Outcome::Satisfied)),
        };
        assert_eq!((end.calls(), end.outcome()), (calls, outcome));
        assert_quiet(&purgatory, 0, 0);
    });
}

#[test]
fn a_shutdown_against_a_busy_operation() {
    model(2, || {
        let (purgatory, flag, end) = (purgatory(1), Flag::new(), End::new());
        let _ = register(&purgatory, Op::new(&[&flag], &end), NEVER, &[1]);
        let event = signal(&purgatory, &flag, 1);
        let shut_down = purgatory.shutdown();
        let satisfied = event.join().unwrap();
        assert_eq!(satisfied + shut_down, 1);
        let outcome = if satisfied == 1 { Outcome::Satisfied } else { Outcome::Shutdown };
        assert_eq!((end.calls(), end.outcome()), (1, Some(outcome)));
        assert_quiet(&purgatory, 0, 0);
    });
}

#[test]
fn handing_back_a_busy_operation() {
    model(2, || {
        let (purgatory, flag, end) = (purgatory(1), Flag::new(), End::new());
        let _ = register(&purgatory, Op::new(&[&flag], &end), NEVER, &[1]);
        let event = signal(&purgatory, &flag, 1);
        let back = purgatory.shutdown_and_hand_back();
        let satisfied = event.join().unwrap();
        assert_eq!(satisfied + back.count(), 1);
        assert_eq!(end.calls() + back.taken.len(), 1, "neither lost nor twice");
        assert_quiet(&purgatory, 0, 0);
    });
}

#[test]
fn a_reset_against_expiry() {
    model(2, || {
        let (purgatory, flag, end) = (purgatory(1), Flag::new(), End::new());
        let id = register(&purgatory, Op::new(&[&flag], &end), NOW, &[1]).id().expect("waits");
        let driver = {
            let purgatory = Arc::clone(&purgatory);
            spawn(move || purgatory.expire().expired)
        };
        let reset = purgatory.reset_timeout(id, NEVER);
        let expired = driver.join().unwrap();
        assert_eq!(usize::from(reset) + expired, 1, "the reset holds, or it came too late");
        assert_eq!(end.calls(), expired);
        assert_quiet(&purgatory, 1 - expired, 1 - expired);
    });
}

#[test]
fn removing_an_emptied_key_against_watching_it() {
    model(2, || {
        let (purgatory, flag) = (purgatory(1), Flag::new());
        let (first, second) = (End::new(), End::new());
        let id = register(&purgatory, Op::new(&[&flag], &first), NEVER, &[1]).id().expect("waits");
        let other = {
            let (purgatory, flag, second) = (Arc::clone(&purgatory), Arc::clone(&flag), Arc::clone(&second));
            spawn(move || register(&purgatory, Op::new(&[&flag], &second), NEVER, &[1]))
        };
        assert!(purgatory.force_complete(id));
        assert!(!other.join().unwrap().is_completed());
        assert_quiet(&purgatory, 1, 1);
        flag.set();
        assert_eq!(purgatory.check_and_complete(&1), 1);
        assert_eq!((first.calls(), second.calls()), (1, 1));
        assert_quiet(&purgatory, 0, 0);
    });
}

#[test]
fn a_walk_in_steps_against_one_that_leaves_and_one_that_comes() {
    model(3, || {
        let (purgatory, flag) = (purgatory(1), Flag::new());
        let ends: Vec<_> = (0..3).map(|_| End::new()).collect();
        let first = register(&purgatory, Op::new(&[&flag], &ends[0]), NEVER, &[1]).id().expect("waits");
        let _ = register(&purgatory, Op::new(&[&flag], &ends[1]), NEVER, &[1]);
        let event = signal(&purgatory, &flag, 1);
        let other = {
            let (purgatory, flag, end) = (Arc::clone(&purgatory), Arc::clone(&flag), Arc::clone(&ends[2]));
            spawn(move || register(&purgatory, Op::new(&[&flag], &end), NEVER, &[1]))
        };
        purgatory.force_complete(first);
        event.join().unwrap();
        let _ = other.join().unwrap();
        drive(&purgatory);
        for end in &ends {
            assert_eq!(end.calls(), 1);
        }
        assert_quiet(&purgatory, 0, 0);
    });
}

#[test]
fn a_walk_in_steps_against_the_next_one_leaving() {
    model(2, || {
        let (purgatory, flag) = (purgatory(1), Flag::new());
        let ends: Vec<_> = (0..3).map(|_| End::new()).collect();
        let ids: Vec<_> =
            ends.iter().map(|end| register(&purgatory, Op::new(&[&flag], end), NEVER, &[1]).id()).collect();
        let event = signal(&purgatory, &flag, 1);
        let forced = purgatory.force_complete(ids[1].expect("waits"));
        assert_eq!(event.join().unwrap() + usize::from(forced), 3);
        for end in &ends {
            assert_eq!(end.calls(), 1);
        }
        assert_quiet(&purgatory, 0, 0);
    });
}

#[test]
fn a_shutdown_against_a_holder_that_tires() {
    model(2, || {
        let (purgatory, flag, end) = (purgatory(1), Flag::new(), End::new());
        let _ = register(&purgatory, Op::new(&[&flag], &end), NEVER, &[1]);
        let inside = start(&purgatory, |purgatory| purgatory.check_and_complete(&1));
        for _ in 0..2 {
            assert_eq!(purgatory.check_and_complete(&1), 0);
        }
        assert_eq!(purgatory.shutdown(), 1);
        assert_eq!(inside.join().unwrap(), 0);
        // Nobody drives any more, and nobody needs to.
        assert_eq!((end.calls(), end.outcome()), (1, Some(Outcome::Shutdown)));
        assert_quiet(&purgatory, 0, 0);
    });
}

#[test]
fn a_holder_that_tires_hands_its_look_on() {
    model(3, || {
        let (purgatory, a, b, end) = (purgatory(1), Flag::new(), Flag::new(), End::new());
        let _ = register(&purgatory, Op::new(&[&a, &b], &end), NEVER, &[1]);
        let first = signal(&purgatory, &a, 1);
        let second = {
            let purgatory = Arc::clone(&purgatory);
            spawn(move || purgatory.check_and_complete(&1))
        };
        b.set();
        purgatory.check_and_complete(&1);
        first.join().unwrap();
        second.join().unwrap();
        drive(&purgatory);
        assert_eq!((end.calls(), end.outcome()), (1, Some(Outcome::Satisfied)));
        assert_quiet(&purgatory, 0, 0);
    });
}
