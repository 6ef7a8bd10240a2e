//! Everything that can come to an operation while it is registered: in one shard, and with its second key in another. Its
//! id is not known to anybody yet, so it comes by key, by the clock, or to all.
#![cfg(any(ixion_loom, ixion_shuttle))]

use ixion::{Outcome, Registration, RejectReason};
use ixion_models::{End, Flag, Op, assert_quiet, drive, model, purgatory, register, signal, start};
use std::time::Duration;

const NEVER: Duration = Duration::MAX;
const NOW: Duration = Duration::ZERO;

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
fn an_expiry_against_a_registration() {
    for shards in [1, 2] {
        model(2, move || {
            let (purgatory, flag, end) = (purgatory(shards), Flag::new(), End::new());
            let driver = start(&purgatory, |purgatory| purgatory.expire().expired);
            let registration = register(&purgatory, Op::new(&[&flag], &end), NOW, &[1, 2]);
            let expired = driver.join().unwrap();
            assert_eq!(end.calls(), expired);
            if registration.is_completed() {
                assert_eq!(registration, Registration::Completed(Outcome::Expired));
            }
            assert_quiet(&purgatory, 1 - expired, 2 * (1 - expired));
        });
    }
}

#[test]
fn an_expiry_and_an_event_against_a_registration() {
    model(3, || {
        let (purgatory, flag, end) = (purgatory(1), Flag::new(), End::new());
        let event = signal(&purgatory, &flag, 1);
        let driver = start(&purgatory, |purgatory| purgatory.expire().expired);
        let _ = register(&purgatory, Op::new(&[&flag], &end), NOW, &[1]);
        event.join().unwrap();
        let expired = driver.join().unwrap();
        let outcome = if expired == 1 { Outcome::Expired } else { Outcome::Satisfied };
        assert_eq!((end.calls(), end.outcome()), (1, Some(outcome)));
        assert_quiet(&purgatory, 0, 0);
    });
}

#[test]
fn force_for_key_against_a_registration() {
    for shards in [1, 2] {
        model(2, move || {
            let (purgatory, flag, end) = (purgatory(shards), Flag::new(), End::new());
            let forcer = start(&purgatory, |purgatory| purgatory.force_complete_for_key(&1));
            let registration = register(&purgatory, Op::new(&[&flag], &end), NEVER, &[1, 2]);
            let forced = forcer.join().unwrap();
            assert_eq!((end.calls(), end.outcome()), (forced, (forced == 1).then_some(Outcome::Forced)));
            if registration.is_completed() {
                assert_eq!(registration, Registration::Completed(Outcome::Forced));
            }
            assert_quiet(&purgatory, 1 - forced, 2 * (1 - forced));
        });
    }
}

#[test]
fn cancel_for_key_against_a_registration() {
    for shards in [1, 2] {
        model(2, move || {
            let (purgatory, flag, end) = (purgatory(shards), Flag::new(), End::new());
            let canceller = start(&purgatory, |purgatory| purgatory.cancel_for_key(&1));
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
fn a_reset_for_key_against_a_registration() {
    for shards in [1, 2] {
        model(2, move || {
            let (purgatory, flag, end) = (purgatory(shards), Flag::new(), End::new());
            let resetter = start(&purgatory, |purgatory| {
                let is_seen = purgatory.contains_key(&1);
                let reset = purgatory.reset_timeout_for_key(&1, NEVER);
                assert!(reset == 1 || !is_seen, "what waits on a key can be reset");
                reset
            });
            let registration = register(&purgatory, Op::new(&[&flag], &end), NOW, &[1, 2]);
            assert!(!registration.is_completed());
            let reset = resetter.join().unwrap();
            assert_eq!(purgatory.expire().expired, 1 - reset, "armed together with watching");
            assert_eq!(end.calls(), 1 - reset);
            assert_quiet(&purgatory, reset, 2 * reset);
        });
    }
}

#[test]
fn a_shutdown_against_a_registration() {
    for shards in [1, 2] {
        model(2, move || {
            let (purgatory, flag, end) = (purgatory(shards), Flag::new(), End::new());
            let closer = start(&purgatory, |purgatory| purgatory.shutdown());
            let registration = purgatory.try_complete_else_watch(Op::new(&[&flag], &end), NEVER, [1, 2]);
            let decided = closer.join().unwrap();
            match registration {
                Ok(_) => {
                    assert_eq!(decided, 1, "what was accepted is swept up");
                    assert_eq!((end.calls(), end.outcome()), (1, Some(Outcome::Shutdown)));
                }
                Err(rejected) => {
                    assert_eq!((decided, end.calls()), (0, 0));
                    assert_eq!(rejected.reason, RejectReason::Shutdown);
                }
            }
            assert_quiet(&purgatory, 0, 0);
        });
    }
}

#[test]
fn a_hand_back_against_a_registration() {
    for shards in [1, 2] {
        model(2, move || {
            let (purgatory, flag, end) = (purgatory(shards), Flag::new(), End::new());
            let closer = start(&purgatory, |purgatory| purgatory.shutdown_and_hand_back());
            let registration = purgatory.try_complete_else_watch(Op::new(&[&flag], &end), NEVER, [1, 2]);
            let back = closer.join().unwrap();
            assert_eq!(back.count(), usize::from(registration.is_ok()), "swept up or rejected, not both");
            assert_eq!(end.calls(), back.busy);
            if back.busy == 1 {
                assert_eq!(registration.unwrap(), Registration::Completed(Outcome::Shutdown));
            }
            assert_quiet(&purgatory, 0, 0);
        });
    }
}
