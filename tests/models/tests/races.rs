//! Each race of the protocol, as a model. The names are those of `design.rs`.
#![cfg(any(ixion_loom, ixion_shuttle))]

use ixion::{Cancelled, Outcome, Registration};
use ixion_models::checker::thread::{JoinHandle, spawn};
use ixion_models::{End, Flag, Keyed, Op, assert_quiet, model, purgatory};
use std::sync::Arc;
use std::time::Duration;

const NEVER: Duration = Duration::MAX;
const NOW: Duration = Duration::ZERO;

fn register(purgatory: &Keyed, op: Op, timeout: Duration, keys: &[u32]) -> Registration {
    purgatory.try_complete_else_watch(op, timeout, keys.iter().copied()).expect("open")
}

/// Starts a thread that sets a flag and signals a key.
fn signal(purgatory: &Keyed, flag: &Arc<Flag>, key: u32) -> JoinHandle<usize> {
    let (purgatory, flag) = (Arc::clone(purgatory), Arc::clone(flag));
    spawn(move || {
        flag.set();
        purgatory.check_and_complete(&key)
    })
}

/// Lets the driver go on with what a tired holder handed on, as an expirer does when its alarm rings.
fn drive(purgatory: &Keyed) {
    if purgatory.next_expiration().is_some() {
        let _ = purgatory.expire();
    }
}

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
fn an_event_between_look_and_watch() {
    for shards in [1, 2] {
        model(2, move || {
            let (purgatory, flag, end) = (purgatory(shards), Flag::new(), End::new());
            let event = signal(&purgatory, &flag, 2);
            let registration = register(&purgatory, Op::new(&[&flag], &end), NEVER, &[1, 2]);
            event.join().unwrap();
            assert_eq!((end.calls(), end.outcome()), (1, Some(Outcome::Satisfied)), "{registration:?}");
            assert_quiet(&purgatory, 0, 0);
        });
    }
}

#[test]
fn two_events_against_a_registration() {
    model(3, || {
        let (purgatory, a, b, end) = (purgatory(1), Flag::new(), Flag::new(), End::new());
        let first = signal(&purgatory, &a, 1);
        let second = signal(&purgatory, &b, 2);
        let _ = register(&purgatory, Op::new(&[&a, &b], &end), NEVER, &[1, 2]);
        first.join().unwrap();
        second.join().unwrap();
        drive(&purgatory);
        assert_eq!((end.calls(), end.outcome()), (1, Some(Outcome::Satisfied)));
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
fn cancel_for_key_against_a_registration() {
    for shards in [1, 2] {
        model(2, move || {
            let (purgatory, flag, end) = (purgatory(shards), Flag::new(), End::new());
            let canceller = {
                let purgatory = Arc::clone(&purgatory);
                spawn(move || purgatory.cancel_for_key(&1))
            };
            let registration = register(&purgatory, Op::new(&[&flag], &end), NEVER, &[1, 2]);
            let back = canceller.join().unwrap();
            match (back.taken.len(), back.busy) {
                (0, 0) => {
                    assert!(!registration.is_completed());
                    assert_quiet(&purgatory, 1, 2);
                }
                (1, 0) => assert_quiet(&purgatory, 0, 0),
                (0, 1) => {
                    assert_eq!(registration, Registration::Completed(Outcome::Cancelled));
                    assert_quiet(&purgatory, 0, 0);
                }
                other => panic!("one operation was cancelled {other:?} times"),
            }
            assert_eq!(end.calls(), back.busy);
        });
    }
}

#[test]
fn an_expiry_and_an_event_against_a_registration() {
    model(3, || {
        let (purgatory, flag, end) = (purgatory(1), Flag::new(), End::new());
        let event = signal(&purgatory, &flag, 1);
        let driver = {
            let purgatory = Arc::clone(&purgatory);
            spawn(move || purgatory.expire().expired)
        };
        let _ = register(&purgatory, Op::new(&[&flag], &end), NOW, &[1]);
        event.join().unwrap();
        let expired = driver.join().unwrap();
        let outcome = if expired == 1 { Outcome::Expired } else { Outcome::Satisfied };
        assert_eq!((end.calls(), end.outcome()), (1, Some(outcome)));
        assert_quiet(&purgatory, 0, 0);
    });
}

#[test]
fn a_shutdown_against_a_registration() {
    model(2, || {
        let (purgatory, flag, end) = (purgatory(1), Flag::new(), End::new());
        let closer = {
            let purgatory = Arc::clone(&purgatory);
            spawn(move || purgatory.shutdown())
        };
        let registration = purgatory.try_complete_else_watch(Op::new(&[&flag], &end), NEVER, [1]);
        let decided = closer.join().unwrap();
        match registration {
            Ok(_) => {
                assert_eq!(decided, 1, "what was accepted is swept up");
                assert_eq!((end.calls(), end.outcome()), (1, Some(Outcome::Shutdown)));
            }
            Err(rejected) => {
                assert_eq!((decided, end.calls()), (0, 0));
                drop(rejected.op);
            }
        }
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
