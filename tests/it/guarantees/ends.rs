//! Exactly one end; nothing is kept; the books balance.

use super::support::*;
use ixion::{Cancelled, Outcome};
use std::sync::Arc;
use std::time::Duration;

const KEYS: [u32; 5] = [1, 2, 3, 4, 5];

#[test]
fn each_way_to_end_gives_its_outcome_once_and_leaves_nothing() {
    let bench = Bench::new();
    let satisfied = bench.watch(0, ms_of(10), &KEYS);
    let forced = bench.watch(1, ms_of(10), &KEYS);
    let cancelled = bench.watch(2, ms_of(10), &KEYS);
    bench.watch(3, ms_of(10), &KEYS);
    bench.watch(4, NEVER, &KEYS);
    bench.assert_left(5, 25, 5);
    satisfied.set();
    assert_eq!(bench.purgatory.check_and_complete(&3), 1);
    assert_eq!(bench.purgatory.check_and_complete(&3), 0);
    bench.assert_left(4, 20, 5);
    assert!(bench.purgatory.force_complete(forced.id));
    assert!(!bench.purgatory.force_complete(forced.id));
    let op = bench.purgatory.cancel(cancelled.id).taken().expect("nobody is inside");
    assert_eq!(op.number, 2);
    assert!(bench.purgatory.cancel(cancelled.id) == Cancelled::Gone);
    bench.advance(10);
    assert_eq!(bench.drive().0, 1);
    bench.assert_left(1, 5, 5);
    assert_eq!(bench.purgatory.shutdown(), 1);
    bench.assert_left(0, 0, 0);
    let outcomes = [Outcome::Satisfied, Outcome::Forced, Outcome::Expired, Outcome::Shutdown];
    assert_eq!(bench.take_log(), [0, 1, 3, 4].into_iter().zip(outcomes).collect::<Vec<_>>());
    let stats = bench.purgatory.stats();
    let ends =
        (stats.satisfied, stats.forced, stats.cancelled, stats.expired, stats.shut_down, stats.panicked);
    assert_eq!((stats.registered, ends), (5, (1, 1, 1, 1, 1, 0)));
}

#[test]
fn an_operation_that_its_first_look_satisfies_is_over_when_the_call_returns() {
    let bench = Bench::new();
    let op = bench.probe(0);
    let (flag, looks) = (Arc::clone(&op.flag), Arc::clone(&op.looks));
    flag.store(true, std::sync::atomic::Ordering::SeqCst);
    let keys = std::iter::from_fn(|| -> Option<u32> { unreachable!("the keys are not asked for") });
    let registration = bench.purgatory.try_complete_else_watch(op, ms_of(10), keys).expect("open");
    assert_eq!(registration, ixion::Registration::Completed(Outcome::Satisfied));
    assert!(registration.is_completed() && registration.id().is_none());
    assert_eq!(looks.load(std::sync::atomic::Ordering::SeqCst), 1);
    assert_eq!(bench.take_log(), [(0, Outcome::Satisfied)]);
    let stats = bench.purgatory.stats();
    assert_eq!((stats.registered, stats.satisfied), (1, 1));
    bench.assert_left(0, 0, 0);
}

#[test]
fn what_an_operation_holds_is_dropped_when_it_ends_and_before_the_call_returns() {
    let bench = Bench::new();
    let payload = Arc::new(());
    let watch = |number| {
        let mut op = bench.probe(number);
        op.payload = Some(Arc::clone(&payload));
        bench.wait(op, ms_of(10), &KEYS)
    };
    watch(0).set();
    bench.purgatory.check_and_complete(&1);
    assert_eq!(Arc::strong_count(&payload), 1);
    bench.purgatory.force_complete(watch(1).id);
    assert_eq!(Arc::strong_count(&payload), 1);
    drop(bench.purgatory.cancel(watch(2).id));
    assert_eq!(Arc::strong_count(&payload), 1);
    watch(3);
    bench.advance(10);
    assert_eq!(bench.drive().0, 1);
    assert_eq!(Arc::strong_count(&payload), 1);
    watch(4);
    bench.purgatory.shutdown();
    assert_eq!(Arc::strong_count(&payload), 1);
}

#[test]
fn keys_are_dropped_with_their_last_watcher_and_never_cloned() {
    struct Key(u32, #[allow(dead_code, reason = "counts the keys")] Arc<()>); // no Clone
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
    impl ixion::Equivalent<Key> for u32 {
        fn equivalent(&self, key: &Key) -> bool {
            *self == key.0
        }
    }
    let alive = Arc::new(());
    let bench = Bench::new();
    let purgatory: ixion::Purgatory<Key, Probe> = ixion::Purgatory::builder("keys").build();
    let key = |number| Key(number, Arc::clone(&alive));
    let mut ids = Vec::new();
    for number in 0..100 {
        let keys = [key(number % 10), key(number % 10), key(100 + number)];
        let op = bench.probe(number);
        ids.push(purgatory.try_complete_else_watch(op, NEVER, keys).expect("open").id().expect("waits"));
    }
    assert_eq!(Arc::strong_count(&alive) - 1, purgatory.key_count(), "one key for each list");
    assert_eq!((purgatory.key_count(), purgatory.watched()), (110, 200));
    assert!(purgatory.contains_key(&3u32) && !purgatory.contains_key(&300u32));
    for id in ids {
        assert!(purgatory.force_complete(id));
    }
    assert_eq!(Arc::strong_count(&alive), 1);
    assert_eq!((purgatory.key_count(), purgatory.watched(), purgatory.len()), (0, 0, 0));
}

#[test]
fn an_idle_keys_operations_expire_and_leave_nothing() {
    let bench = Bench::new();
    for number in 0..100_000 {
        bench.watch(number, ms_of(u64::from(number % 1000)), &[number, 7]);
    }
    bench.assert_left(100_000, 199_999, 100_000);
    bench.advance(1000);
    assert_eq!(bench.drive().0, 100_000);
    bench.assert_left(0, 0, 0);
}

#[test]
fn a_stale_or_foreign_id_names_nothing() {
    let (bench, other) = (Bench::new(), Bench::new());
    let here = bench.watch(0, ms_of(10), &[1]);
    let there = other.watch(1, ms_of(10), &[1]);
    assert_ne!(here.id, there.id);
    assert!(!bench.purgatory.force_complete(there.id));
    assert!(bench.purgatory.cancel(there.id) == Cancelled::Gone);
    assert!(!bench.purgatory.reset_timeout(there.id, ms_of(1)));
    drop(bench.purgatory.cancel(here.id));
    // Whoever takes the place afterwards is not named by the old id.
    for number in 0..1000 {
        let next = bench.watch(number, ms_of(10), &[1]);
        assert_ne!(next.id, here.id);
        assert!(bench.purgatory.cancel(here.id) == Cancelled::Gone);
        assert!(!bench.purgatory.force_complete(here.id) && !bench.purgatory.reset_timeout(here.id, NEVER));
        assert!(bench.purgatory.force_complete(next.id));
    }
    other.assert_left(1, 1, 1);
}

#[test]
fn cancelling_by_key_takes_operations_off_their_other_keys_too() {
    let bench = Bench::new();
    for number in 0..150 {
        bench.watch(number, ms_of(10), &[1, 2, 10 + number]);
    }
    bench.watch(999, ms_of(10), &[2]);
    let first = bench.purgatory.cancel_first(&1).taken().expect("nobody is inside");
    assert_eq!(first.number, 0);
    let back = bench.purgatory.cancel_for_key(&1);
    assert_eq!((back.count(), back.busy), (149, 0));
    assert!(back.taken.iter().map(|op| op.number).eq(1..150), "in order of registration");
    bench.assert_left(1, 1, 1);
    assert!(bench.purgatory.cancel_first(&1) == Cancelled::Gone);
    assert_eq!(bench.purgatory.cancel_for_key(&1).count(), 0);
    assert!(bench.take_log().is_empty(), "no callback");
}

#[test]
fn forcing_by_key_completes_all_that_wait_on_it() {
    let bench = Bench::new();
    for number in 0..150 {
        bench.watch(number, ms_of(10), &[number % 2, 9]);
    }
    assert_eq!(bench.purgatory.force_complete_for_key(&1), 75);
    assert_eq!(bench.purgatory.force_complete_for_key(&1), 0);
    let log = bench.take_log();
    assert!(log.iter().map(|end| end.0).eq((1..150).step_by(2)));
    assert!(log.iter().all(|end| end.1 == Outcome::Forced));
    bench.assert_left(75, 150, 2);
}

#[test]
fn expiry_does_not_look_again() {
    let bench = Bench::new();
    let handle = bench.watch(0, ms_of(10), &[1]);
    handle.set(); // but nobody signals
    let looks = handle.looks.load(std::sync::atomic::Ordering::SeqCst);
    bench.advance(10);
    assert_eq!(bench.drive().0, 1);
    assert_eq!(bench.take_log(), [(0, Outcome::Expired)]);
    assert_eq!(handle.looks.load(std::sync::atomic::Ordering::SeqCst), looks);
}

#[test]
fn an_operation_without_keys_is_a_timer() {
    let bench = Bench::new();
    for number in 0..40 {
        bench.watch(number, ms_of(u64::from(number)), &[]);
    }
    bench.assert_left(40, 0, 0);
    bench.advance(100);
    assert_eq!(bench.drive().0, 40);
    assert!(bench.take_log().is_sorted_by_key(|end| end.0));
}

#[test]
fn looks_go_in_order_of_registration_and_only_what_is_met_ends() {
    let bench = Bench::new();
    let handles: Vec<Handle> = (0..300).map(|number| bench.watch(number, NEVER, &[1])).collect();
    for handle in handles.iter().step_by(3) {
        handle.set();
    }
    assert_eq!(bench.purgatory.check_and_complete(&1), 100);
    assert!(bench.take_log().iter().map(|end| end.0).eq((0..300).step_by(3)));
    // Two looks while registering, and one for the signal.
    assert!(handles.iter().all(|handle| handle.looks.load(std::sync::atomic::Ordering::SeqCst) == 3));
    bench.assert_left(200, 200, 1);
}

#[test]
fn nobody_on_a_key_is_no_look_and_no_count() {
    let bench = Bench::new();
    bench.watch(0, Duration::from_secs(1), &[1]);
    assert_eq!(bench.purgatory.check_and_complete(&2), 0);
    assert_eq!(bench.purgatory.force_complete_for_key(&2), 0);
    assert_eq!(bench.purgatory.cancel_for_key(&2).count(), 0);
    bench.assert_left(1, 1, 1);
}
