//! What Kafka's own tests of its delayed operations assert, put to this engine. The numbers are those of the list in
//! `tests/README.md`.

use crate::uptime::clock;
use ixion::{DelayedOperation, ManualClock, Outcome, Purgatory, Registration, Resolution};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Waits for a flag; tells its end, and whether it was ever looked at by two threads at once.
struct Request {
    satisfied: Arc<AtomicBool>,
    ended: Arc<Mutex<Vec<Outcome>>>,
    inside: Arc<AtomicUsize>,
    slow: bool,
}

#[derive(Default, Clone)]
struct Seen {
    satisfied: Arc<AtomicBool>,
    ended: Arc<Mutex<Vec<Outcome>>>,
    inside: Arc<AtomicUsize>,
}

impl Seen {
    fn request(&self) -> Request {
        let Seen { satisfied, ended, inside } = self.clone();
        Request { satisfied, ended, inside, slow: false }
    }

    fn satisfy(&self) {
        self.satisfied.store(true, Ordering::SeqCst);
    }

    fn ended(&self) -> Vec<Outcome> {
        self.ended.lock().unwrap().clone()
    }
}

impl DelayedOperation for Request {
    fn try_complete(&mut self) -> bool {
        assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0, "two threads look at once");
        let satisfied = self.satisfied.load(Ordering::SeqCst);
        if self.slow {
            // Widens the moment in which the answer is already stale.
            thread::yield_now();
        }
        self.inside.fetch_sub(1, Ordering::SeqCst);
        satisfied
    }

    fn on_complete(self, outcome: Outcome) {
        assert_eq!(self.inside.load(Ordering::SeqCst), 0, "a look goes on");
        self.ended.lock().unwrap().push(outcome);
    }
}

type Requests = Purgatory<&'static str, Request>;

fn purgatory() -> (Requests, ManualClock) {
    let clock = clock(Resolution::MILLISECOND);
    (Purgatory::builder("mock").clock(clock.clone()).build(), clock)
}

fn watch(purgatory: &Requests, seen: &Seen, ms: u64, keys: &[&'static str]) -> Registration {
    let timeout = Duration::from_millis(ms);
    purgatory.try_complete_else_watch(seen.request(), timeout, keys.iter().copied()).expect("open")
}

/// 1: an operation that registers is held by the registering thread; a signal from another thread does not get in.
/// The busy operations of `guarantees::busy` show it for every call; here, that the second look is exclusive too.
#[test]
fn k1_a_registering_operation_is_exclusive() {
    let (purgatory, _) = purgatory();
    let registered = AtomicUsize::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while registered.load(Ordering::SeqCst) < 2000 {
                purgatory.check_and_complete("key");
            }
        });
        for _ in 0..2000 {
            let mut request = Seen::default().request();
            request.slow = true;
            let registration = purgatory.try_complete_else_watch(request, Duration::MAX, ["key"]);
            if let Some(id) = registration.expect("open").id() {
                drop(purgatory.cancel(id));
            }
            registered.fetch_add(1, Ordering::SeqCst);
        }
    });
    let stats = purgatory.stats();
    assert_eq!((stats.panics, stats.cancelled), (0, 2000), "{stats:?}");
}

/// 2: what comes between the two looks runs if the first says no, and not at all if it says yes.
#[test]
fn k2_the_keys_are_asked_for_only_if_the_first_look_says_no() {
    for satisfied in [false, true] {
        let (purgatory, _) = purgatory();
        let seen = Seen::default();
        seen.satisfied.store(satisfied, Ordering::SeqCst);
        let asked = AtomicUsize::new(0);
        let keys = std::iter::once("key").inspect(|_| {
            asked.fetch_add(1, Ordering::SeqCst);
        });
        let registration =
            purgatory.try_complete_else_watch(seen.request(), Duration::MAX, keys).expect("open");
        assert_eq!(registration.is_completed(), satisfied);
        assert_eq!(asked.load(Ordering::SeqCst), usize::from(!satisfied));
    }
}

/// 3.
#[test]
fn k3_a_request_is_satisfied_by_a_signal_on_its_key_and_counted_once() {
    let (purgatory, _) = purgatory();
    let (first, second) = (Seen::default(), Seen::default());
    assert_eq!(purgatory.check_and_complete("test1"), 0, "with nothing going on");
    assert!(!watch(&purgatory, &first, 100_000, &["test1"]).is_completed());
    assert_eq!(purgatory.check_and_complete("test1"), 0, "still not satisfied");
    assert!(!watch(&purgatory, &second, 100_000, &["test2"]).is_completed());
    assert_eq!(purgatory.check_and_complete("test2"), 0);
    first.satisfy();
    assert_eq!(purgatory.check_and_complete("test1"), 1);
    assert_eq!(purgatory.check_and_complete("test1"), 0);
    second.satisfy();
    assert_eq!(purgatory.check_and_complete("test2"), 1);
    assert_eq!(purgatory.check_and_complete("test2"), 0);
}

/// 4.
#[test]
fn k4_a_request_expires_after_its_timeout_and_another_does_not() {
    let (purgatory, clock) = purgatory();
    let (first, second) = (Seen::default(), Seen::default());
    let _ = watch(&purgatory, &first, 20, &["test1"]);
    let _ = watch(&purgatory, &second, 200_000, &["test2"]);
    clock.advance(Duration::from_millis(19));
    assert_eq!(purgatory.expire().expired, 0);
    clock.advance(Duration::from_millis(1));
    assert_eq!(purgatory.expire().expired, 1);
    assert_eq!(first.ended(), [Outcome::Expired]);
    assert!(second.ended().is_empty());
}

/// 5: an operation that waits for futures, completed by force when the last is done. Here: forced by its id from the
/// thread that finishes last, or expired with one of them missing; no extra thread is needed for either.
#[test]
fn k5_an_operation_may_be_completed_by_force_and_expires_if_nobody_does() {
    let (purgatory, clock) = purgatory();
    let (forced, expired) = (Seen::default(), Seen::default());
    let id = watch(&purgatory, &forced, 2000, &[]).id().expect("waits");
    let _ = watch(&purgatory, &expired, 2000, &[]);
    let left = AtomicUsize::new(2);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                if left.fetch_sub(1, Ordering::SeqCst) == 1 {
                    assert!(purgatory.force_complete(id));
                }
            });
        }
    });
    assert_eq!(forced.ended(), [Outcome::Forced]);
    clock.advance(Duration::from_millis(2000));
    assert_eq!(purgatory.expire().expired, 1);
    assert_eq!(expired.ended(), [Outcome::Expired]);
}

/// 6: Kafka purges; here nothing is ever there to be purged, so `watched` falls with each completion, not with the
/// visit that follows.
#[test]
fn k6_completed_operations_leave_every_list_without_a_purge() {
    let (purgatory, _) = purgatory();
    let (first, second, third) = (Seen::default(), Seen::default(), Seen::default());
    let _ = watch(&purgatory, &first, 100_000, &["test1"]);
    let second_id = watch(&purgatory, &second, 100_000, &["test1", "test2"]).id().expect("waits");
    let third_id = watch(&purgatory, &third, 100_000, &["test1", "test2", "test3"]).id().expect("waits");
    assert_eq!((purgatory.len(), purgatory.watched()), (3, 6));
    assert!(purgatory.force_complete(second_id));
    assert_eq!((purgatory.len(), purgatory.watched()), (2, 4));
    assert!(purgatory.force_complete(third_id));
    assert_eq!((purgatory.len(), purgatory.watched()), (1, 1));
    for key in ["test1", "test2", "test3"] {
        assert_eq!(purgatory.check_and_complete(key), 0);
        assert_eq!((purgatory.len(), purgatory.watched()), (1, 1));
    }
}

/// 7.
#[test]
fn k7_cancelling_a_key_returns_its_operations() {
    let (purgatory, _) = purgatory();
    let seen = Seen::default();
    let _ = watch(&purgatory, &seen, 100_000, &["key"]);
    let _ = watch(&purgatory, &seen, 100_000, &["key"]);
    let _ = watch(&purgatory, &seen, 100_000, &["key2"]);
    assert_eq!(purgatory.cancel_for_key("key").taken.len(), 2);
    assert_eq!((purgatory.len(), purgatory.watched()), (1, 1));
    assert!(seen.ended().is_empty());
}

/// 8.
#[test]
fn k8_cancelling_an_unknown_key_returns_nothing() {
    let (purgatory, _) = purgatory();
    assert_eq!(purgatory.cancel_for_key("key").count(), 0);
}

/// 9: twenty threads signal a hundred operations, twenty times each; the last to come sets the flag first.
#[test]
fn k9_many_threads_complete_every_operation() {
    const OPERATIONS: usize = 100;
    const THREADS: usize = 20;
    let purgatory: Purgatory<usize, Request> = Purgatory::builder("threads").build();
    let seen: Vec<Seen> = (0..OPERATIONS).map(|_| Seen::default()).collect();
    for (key, seen) in seen.iter().enumerate() {
        let mut request = seen.request();
        request.slow = true;
        let _ = purgatory.try_complete_else_watch(request, Duration::MAX, [key]).expect("open");
    }
    let attempts: Vec<AtomicUsize> = (0..OPERATIONS).map(|_| AtomicUsize::new(0)).collect();
    let completed = AtomicUsize::new(0);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (purgatory, seen, attempts, completed) = (&purgatory, &seen, &attempts, &completed);
            scope.spawn(move || {
                for step in 0..OPERATIONS {
                    let key = (step * 7 + thread * 13) % OPERATIONS;
                    if attempts[key].fetch_add(1, Ordering::SeqCst) == THREADS - 1 {
                        seen[key].satisfy();
                    }
                    completed.fetch_add(purgatory.check_and_complete(&key), Ordering::SeqCst);
                }
            });
        }
    });
    assert!(seen.iter().all(|seen| seen.ended() == [Outcome::Satisfied]));
    assert_eq!(completed.load(Ordering::SeqCst), OPERATIONS, "each was decided by one call");
    assert!(purgatory.is_empty() && purgatory.key_count() == 0);
}
