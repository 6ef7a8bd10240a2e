//! The driver's sleep. loom has no time, so a driver that oversleeps waits for ever, and loom reports a deadlock.
#![cfg(any(ixion_loom, ixion_shuttle))]

use ixion::Purgatory;
use ixion_models::checker::sync::{Condvar, Mutex};
use ixion_models::checker::thread::spawn;
use ixion_models::{End, Flag, Keyed, Op, SEED, Still, model};
use std::sync::Arc;
use std::time::Duration;

/// A driver's bell, rung by the hook for earlier deadlines.
struct Bell {
    rung: Mutex<bool>,
    heard: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.heard.notify_all();
    }

    fn wait(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.heard.wait(rung).unwrap();
        }
        *rung = false;
    }
}

fn with_bell(shards: usize) -> (Keyed, Arc<Bell>) {
    let bell = Arc::new(Bell { rung: Mutex::new(false), heard: Condvar::new() });
    let ring = Arc::clone(&bell);
    let purgatory = Purgatory::builder("model")
        .clock(Still)
        .shards(shards)
        .hash_seed(SEED)
        .on_earlier_deadline(move || ring.ring())
        .build();
    (Arc::new(purgatory), bell)
}

/// Drives until this many operations have expired, sleeping whenever nothing is due.
fn drive_until(purgatory: &Keyed, bell: &Bell, expired: usize) {
    let mut sum = 0;
    while sum < expired {
        let drive = purgatory.expire();
        sum += drive.expired;
        // The clock stands still: what is not due now never will be, and only the bell can end this sleep.
        if sum < expired && drive.next.is_none_or(|next| next.as_u64() > 10) {
            bell.wait();
        }
    }
}

#[test]
fn a_deadline_added_during_the_scan_is_not_overslept() {
    for shards in [1, 2] {
        model(3, move || {
            let (purgatory, bell) = with_bell(shards);
            let (flag, end) = (Flag::new(), End::new());
            let registrar = {
                let (purgatory, end) = (Arc::clone(&purgatory), Arc::clone(&end));
                spawn(move || {
                    let _ = purgatory.try_complete_else_watch(Op::new(&[&flag], &end), Duration::ZERO, [1]);
                })
            };
            drive_until(&purgatory, &bell, 1);
            registrar.join().unwrap();
            assert_eq!(end.calls(), 1);
        });
    }
}

#[test]
fn a_deadline_added_while_the_alarm_still_shows_the_past_is_not_overslept() {
    model(3, || {
        let (purgatory, bell) = with_bell(1);
        let (flag, first, second) = (Flag::new(), End::new(), End::new());
        // Due at once: the alarm shows this instant until the driver has dealt with it.
        let _ = purgatory.try_complete_else_watch(Op::new(&[&flag], &first), Duration::ZERO, [1]);
        *bell.rung.lock().unwrap() = false;
        let registrar = {
            let (purgatory, second) = (Arc::clone(&purgatory), Arc::clone(&second));
            spawn(move || {
                let _ = purgatory.try_complete_else_watch(Op::new(&[&flag], &second), Duration::ZERO, [1]);
            })
        };
        drive_until(&purgatory, &bell, 2);
        registrar.join().unwrap();
        assert_eq!((first.calls(), second.calls()), (1, 1));
    });
}

#[test]
fn an_earlier_deadline_wakes_a_driver_that_sleeps_for_a_later_one() {
    model(3, || {
        let (purgatory, bell) = with_bell(1);
        let (flag, late, early) = (Flag::new(), End::new(), End::new());
        let hour = Duration::from_secs(3600);
        let _ = purgatory.try_complete_else_watch(Op::new(&[&flag], &late), hour, [1]);
        let registrar = {
            let (purgatory, early) = (Arc::clone(&purgatory), Arc::clone(&early));
            spawn(move || {
                let _ = purgatory.try_complete_else_watch(Op::new(&[&flag], &early), Duration::ZERO, [1]);
            })
        };
        drive_until(&purgatory, &bell, 1);
        registrar.join().unwrap();
        assert_eq!((early.calls(), late.calls()), (1, 0));
    });
}

#[test]
fn a_reset_to_an_earlier_deadline_wakes_the_driver() {
    model(2, || {
        let (purgatory, bell) = with_bell(1);
        let (flag, end) = (Flag::new(), End::new());
        let op = Op::new(&[&flag], &end);
        let id = purgatory.try_complete_else_watch(op, Duration::MAX, [1]).unwrap().id().expect("waits");
        let resetter = {
            let purgatory = Arc::clone(&purgatory);
            spawn(move || assert!(purgatory.reset_timeout(id, Duration::ZERO)))
        };
        drive_until(&purgatory, &bell, 1);
        resetter.join().unwrap();
        assert_eq!(end.calls(), 1);
    });
}
