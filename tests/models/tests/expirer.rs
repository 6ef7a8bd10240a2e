//! The expirer's own thread, and its sleep. Time passes only while it sleeps; a sleep beyond the horizon never ends by
//! itself. So an expirer that oversleeps sleeps for ever, the model waits for ever, and the checker reports a deadlock.
#![cfg(any(ixion_loom, ixion_shuttle))]

use ixion::{Clock, DelayedOperation, Expirer, OperationId, Outcome, Purgatory, model_time};
use ixion_models::bounded;
use ixion_models::checker::sync::atomic::{AtomicUsize, Ordering};
use ixion_models::checker::thread::spawn;
use std::sync::Arc;
use std::time::Duration;

const SOON: Duration = Duration::from_millis(5);
const HORIZON: Duration = Duration::from_secs(60);
const LATER: Duration = Duration::from_secs(3600);

/// The clock of the model.
struct ModelClock;

impl Clock for ModelClock {
    fn elapsed(&self) -> Duration {
        model_time::now()
    }
}

/// Stops the clock when the last of them has ended.
struct Timer {
    not_before: Duration,
    left: Arc<AtomicUsize>,
}

impl DelayedOperation for Timer {
    fn try_complete(&mut self) -> bool {
        false
    }

    fn on_complete(self, outcome: Outcome) {
        if outcome == Outcome::Shutdown {
            return;
        }
        assert_eq!(outcome, Outcome::Expired);
        assert!(model_time::now() >= self.not_before, "early");
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            model_time::stop();
        }
    }
}

type Timers = Arc<Purgatory<u32, Timer>>;

fn purgatory() -> Timers {
    Arc::new(Purgatory::builder("model").clock(ModelClock).shards(1).hash_seed(1).build())
}

fn expirer_of(purgatory: &Timers) -> Expirer {
    let expirer = Expirer::spawn("expirer").unwrap();
    expirer.drive(purgatory);
    expirer
}

/// Registers an operation. No id: it has expired already.
fn register(purgatory: &Timers, timeout: Duration, left: &Arc<AtomicUsize>) -> Option<OperationId> {
    let timer = Timer { not_before: model_time::now() + timeout.min(LATER), left: Arc::clone(left) };
    purgatory.try_complete_else_watch(timer, timeout, [1]).expect("open").id()
}

/// Lets time pass until all that are counted have expired.
fn expect_all(purgatory: &Timers, left: &AtomicUsize, pending: usize) {
    model_time::run(HORIZON);
    assert_eq!(left.load(Ordering::Acquire), 0);
    let stats = purgatory.stats();
    assert!(stats.balances() && stats.panics == 0, "{stats:?}");
    assert_eq!(stats.pending, pending);
}

#[test]
fn a_deadline_added_while_the_expirer_falls_asleep() {
    for timeout in [Duration::ZERO, SOON] {
        bounded(2, move || {
            let (purgatory, left) = (purgatory(), Arc::new(AtomicUsize::new(1)));
            let _expirer = expirer_of(&purgatory);
            register(&purgatory, timeout, &left);
            expect_all(&purgatory, &left, 0);
        });
    }
}

#[test]
fn an_earlier_deadline_than_the_one_that_the_expirer_sleeps_for() {
    bounded(2, || {
        let (purgatory, left) = (purgatory(), Arc::new(AtomicUsize::new(1)));
        register(&purgatory, LATER, &left);
        let _expirer = expirer_of(&purgatory);
        register(&purgatory, SOON, &left);
        expect_all(&purgatory, &left, 1);
    });
}

#[test]
fn a_reset_to_an_earlier_deadline_while_the_expirer_falls_asleep() {
    bounded(2, || {
        let (purgatory, left) = (purgatory(), Arc::new(AtomicUsize::new(1)));
        let timer = Timer { not_before: SOON, left: Arc::clone(&left) };
        let registration = purgatory.try_complete_else_watch(timer, Duration::MAX, [1]).expect("open");
        let _expirer = expirer_of(&purgatory);
        assert!(purgatory.reset_timeout(registration.id().expect("waits"), SOON));
        expect_all(&purgatory, &left, 0);
    });
}

#[test]
fn a_purgatory_added_while_the_expirer_falls_asleep() {
    bounded(2, || {
        let (purgatory, left) = (purgatory(), Arc::new(AtomicUsize::new(1)));
        register(&purgatory, SOON, &left);
        let _expirer = expirer_of(&purgatory);
        expect_all(&purgatory, &left, 0);
    });
}

#[test]
fn two_deadlines_one_after_the_other() {
    bounded(2, || {
        let (purgatory, left) = (purgatory(), Arc::new(AtomicUsize::new(2)));
        let _expirer = expirer_of(&purgatory);
        register(&purgatory, 2 * SOON, &left);
        register(&purgatory, SOON, &left);
        expect_all(&purgatory, &left, 0);
    });
}

#[test]
fn a_monitor_that_asks_while_the_expirer_drives() {
    a_monitor_sees_a_deadline_that_is_cancelled(true);
}

#[test]
fn a_monitor_that_asks_while_the_expirer_takes_over() {
    a_monitor_sees_a_deadline_that_is_cancelled(false);
}

/// What the monitor saw may be gone by the time it has the answer: had it promised to drive then, the next deadline that
/// is registered would wake nobody.
fn a_monitor_sees_a_deadline_that_is_cancelled(is_driven_before: bool) {
    bounded(2, move || {
        let (purgatory, left) = (purgatory(), Arc::new(AtomicUsize::new(1)));
        let id = register(&purgatory, SOON, &Arc::new(AtomicUsize::new(2))).expect("waits");
        let before = is_driven_before.then(|| expirer_of(&purgatory));
        let other = {
            let (purgatory, left) = (Arc::clone(&purgatory), Arc::clone(&left));
            spawn(move || {
                // It may have expired: then there is nothing to be wrong about.
                let _ = purgatory.cancel(id);
                let expirer = before.unwrap_or_else(|| expirer_of(&purgatory));
                register(&purgatory, 2 * SOON, &left);
                expirer
            })
        };
        // This thread is the monitor.
        assert!(purgatory.time_to_next().is_none_or(|time| time <= 2 * SOON));
        expect_all(&purgatory, &left, 0);
        drop(other.join().unwrap());
    });
}

/// Waits for two events, and stops the clock.
struct Events(Arc<AtomicUsize>);

impl DelayedOperation for Events {
    fn try_complete(&mut self) -> bool {
        self.0.load(Ordering::Relaxed) == 2
    }

    fn on_complete(self, outcome: Outcome) {
        assert_eq!(outcome, Outcome::Satisfied);
        model_time::stop();
    }
}

#[test]
fn what_a_tired_holder_hands_on_wakes_the_expirer() {
    bounded(3, || {
        let purgatory = Purgatory::builder("model").clock(ModelClock).shards(1).hash_seed(1).build();
        let (purgatory, events) = (Arc::new(purgatory), Arc::new(AtomicUsize::new(0)));
        let _ =
            purgatory.try_complete_else_watch(Events(Arc::clone(&events)), Duration::MAX, [1]).expect("open");
        // It sleeps before it has anything to drive, and again afterwards.
        let expirer = Expirer::spawn("expirer").unwrap();
        model_time::wait_for_sleep(1);
        expirer.drive(&purgatory);
        model_time::wait_for_sleep(2);
        let other = {
            let (purgatory, events) = (Arc::clone(&purgatory), Arc::clone(&events));
            spawn(move || {
                purgatory.check_and_complete(&1);
                events.fetch_add(1, Ordering::Relaxed);
                purgatory.check_and_complete(&1);
            })
        };
        events.fetch_add(1, Ordering::Relaxed);
        purgatory.check_and_complete(&1);
        model_time::run(HORIZON);
        other.join().unwrap();
        assert!(purgatory.is_empty());
    });
}

#[test]
fn the_end_of_the_expirer_while_it_falls_asleep() {
    bounded(2, || {
        let purgatory = purgatory();
        let expirer = expirer_of(&purgatory);
        drop(expirer);
        assert_eq!(purgatory.time_to_next(), None);
    });
}
