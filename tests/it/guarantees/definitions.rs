//! The sentences between the guarantees: what exactly a first look, a key, a timeout, a count and a drop are.

use super::support::*;
use ixion::{Cancelled, DelayedOperation, Equivalent, Outcome, Purgatory, Registration, Tick};
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

#[test]
fn the_keys_are_consumed_once_after_the_first_look_and_before_the_second() {
    let bench = Bench::new();
    let op = bench.probe(0);
    let looks = Arc::clone(&op.looks);
    let mut left = [3, 1, 2].into_iter();
    let keys = std::iter::from_fn(|| {
        assert_eq!(looks.load(Ordering::SeqCst), 1);
        left.next()
    });
    assert!(!bench.purgatory.try_complete_else_watch(op, NEVER, keys).unwrap().is_completed());
    assert_eq!(looks.load(Ordering::SeqCst), 2);
    bench.assert_left(1, 3, 3);
}

#[test]
fn a_look_runs_on_the_callers_thread_and_has_its_operation_to_itself() {
    let bench = Bench::new();
    let mut op = bench.probe(0);
    let (caller, purgatory) = (thread::current().id(), Arc::clone(&bench.purgatory));
    let (inside, looks) = (AtomicBool::new(false), Arc::clone(&op.looks));
    op.in_look = Some(Box::new(move || {
        assert_eq!(thread::current().id(), caller);
        assert!(!inside.swap(true, Ordering::SeqCst), "two looks at once");
        // Another thread signals, and comes back before this look is over: it waits for nobody.
        if looks.load(Ordering::SeqCst) == 2 {
            let purgatory = Arc::clone(&purgatory);
            assert_eq!(thread::spawn(move || purgatory.check_and_complete(&1)).join().unwrap(), 0);
        }
        inside.store(false, Ordering::SeqCst);
    }));
    let handle = bench.wait(op, ms_of(100_000), &[1]);
    assert_eq!(handle.looks.load(Ordering::SeqCst), 3, "and the mark that it left was worth a third look");
    bench.assert_left(1, 1, 1);
}

#[test]
fn a_zero_timeout_is_due_at_the_next_drive_within_a_tick_too() {
    let bench = Bench::new();
    bench.advance_to(Duration::from_micros(5_500));
    bench.watch(0, Duration::ZERO, &[1]);
    let reset = bench.watch(1, ms_of(10), &[1]);
    assert!(bench.purgatory.reset_timeout(reset.id, Duration::ZERO));
    assert_eq!(bench.purgatory.next_expiration(), Some(tick(5)));
    assert_eq!(bench.purgatory.time_to_next(), Some(Duration::ZERO), "a driver need not sleep first");
    assert_eq!(bench.drive().0, 2);
    // A nanosecond more is a time that is not over yet.
    bench.watch(2, Duration::from_nanos(1), &[1]);
    assert_eq!(bench.drive().0, 0);
    bench.advance_to(ms_of(6));
    assert_eq!(bench.drive().0, 1);
}

#[test]
fn a_zero_timeout_in_a_callback_of_a_drive_is_left_for_the_next_drive() {
    let bench = Bench::new();
    let (again, purgatory) = (bench.probe(1), Arc::clone(&bench.purgatory));
    let mut op = bench.probe(0);
    op.at_end = Some(Box::new(move |_| {
        assert!(!purgatory.try_complete_else_watch(again, Duration::ZERO, [1]).unwrap().is_completed());
    }));
    bench.wait(op, Duration::ZERO, &[1]);
    assert_eq!(bench.drive().0, 1);
    bench.assert_left(1, 1, 1);
    assert_eq!(bench.drive().0, 1);
}

#[test]
fn what_a_callback_of_a_drive_resets_is_left_for_the_next_drive() {
    let bench = Bench::with(|builder| builder.shards(1));
    let (late, purgatory) = (bench.watch(1, NEVER, &[1]), Arc::clone(&bench.purgatory));
    let mut op = bench.probe(0);
    op.at_end = Some(Box::new(move |_| assert!(purgatory.reset_timeout(late.id, Duration::ZERO))));
    bench.wait(op, ms_of(1), &[1]);
    bench.watch(2, ms_of(2), &[1]); // for the drive to come by once more
    bench.advance(2);
    assert_eq!(bench.drive().0, 2);
    assert!(bench.take_log().iter().map(|end| end.0).eq([0, 2]));
    assert_eq!(bench.drive().0, 1);
}

#[test]
fn zero_counted_does_not_mean_that_nobody_waits() {
    let bench = Bench::new();
    let handle = bench.watch(0, NEVER, &[1]);
    assert_eq!(bench.purgatory.check_and_complete(&1), 0);
    assert!(bench.purgatory.contains_key(&1));
    assert!(bench.purgatory.force_complete(handle.id));
    assert!(!bench.purgatory.contains_key(&1));
}

#[test]
fn one_operation_can_be_looked_at_by_its_id() {
    let bench = Bench::new();
    let handles = [1, 2].map(|number| bench.watch(number, NEVER, &[1, 2]));
    assert!(!bench.purgatory.try_complete(handles[1].id), "its condition is not met");
    handles.iter().for_each(Handle::set);
    assert!(bench.purgatory.try_complete(handles[1].id));
    assert!(!bench.purgatory.try_complete(handles[1].id), "it is over");
    assert_eq!(bench.take_log(), [(2, Outcome::Satisfied)]);
    let looks = handles.map(|handle| handle.looks.load(Ordering::SeqCst));
    assert_eq!(looks, [2, 4], "only the one that was asked for");
    bench.assert_left(1, 2, 2);
}

#[test]
fn a_look_may_register_reset_and_ask() {
    let bench = Bench::new();
    let mut op = bench.probe(0);
    let (purgatory, other) = (Arc::clone(&bench.purgatory), bench.watch(1, ms_of(5), &[1]));
    let mut more = vec![bench.probe(2)];
    op.in_look = Some(Box::new(move || {
        if let Some(another) = more.pop() {
            let registration = purgatory.try_complete_else_watch(another, ms_of(5), [1]).unwrap();
            assert!(purgatory.reset_timeout(registration.id().unwrap(), ms_of(7)));
            assert!(purgatory.reset_timeout(other.id, ms_of(6)));
            assert_eq!(purgatory.next_expiration(), Some(tick(6)));
            assert!(purgatory.contains_key(&1) && purgatory.stats().balances() && purgatory.len() == 2);
        }
    }));
    bench.wait(op, ms_of(8), &[1]);
    bench.advance(8);
    assert_eq!(bench.drive().0, 3);
    assert!(bench.take_log().iter().map(|end| end.0).eq([1, 2, 0]));
}

#[test]
fn destructors_of_operations_and_hooks_may_call_the_purgatory() {
    struct Droppy(Arc<Mutex<Vec<usize>>>, Arc<Purgatory<u32, Droppy>>);
    impl DelayedOperation for Droppy {
        fn try_complete(&mut self) -> bool {
            false
        }
        fn on_complete(self, _: Outcome) {}
    }
    impl Drop for Droppy {
        fn drop(&mut self) {
            let dropped = self.1.force_complete_for_key(&1);
            self.0.lock().unwrap().extend([self.1.len(), dropped]);
        }
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let hooked = Arc::new(AtomicUsize::new(0));
    let calls = Arc::clone(&hooked);
    let bench = Bench::new();
    let watched = Arc::clone(&bench.purgatory);
    let purgatory: Arc<Purgatory<u32, Droppy>> = Arc::new(
        Purgatory::builder("droppy")
            .shards(1)
            .clock(bench.clock.clone())
            .on_earlier_deadline(move || {
                calls.fetch_add(1 + watched.force_complete_for_key(&9), Ordering::SeqCst);
            })
            .build(),
    );
    bench.watch(0, NEVER, &[9]);
    for (key, timeout) in [(1, 5), (1, 50), (2, 5)] {
        let op = Droppy(Arc::clone(&seen), Arc::clone(&purgatory));
        let _ = purgatory.try_complete_else_watch(op, ms_of(timeout), [key]);
    }
    assert_eq!(hooked.load(Ordering::SeqCst), 2, "called once, and forced one elsewhere");
    bench.advance(5);
    assert_eq!(purgatory.expire().expired, 2);
    let (stats, seen) = (purgatory.stats(), seen.lock().unwrap());
    assert_eq!((stats.forced, stats.panics, stats.pending), (1, 0, 0), "a destructor forced the third");
    assert_eq!((seen.len(), seen.iter().skip(1).step_by(2).sum::<usize>()), (6, 1));
}

#[test]
fn a_walk_takes_those_that_were_on_the_key_when_it_began_and_still_wait_when_their_turn_comes() {
    const WAITING: u32 = 500;
    let bench = Bench::new();
    let handles: Arc<Mutex<Vec<Handle>>> = Arc::default();
    let mut first = bench.probe(0);
    let (purgatory, others, late) = (Arc::clone(&bench.purgatory), Arc::clone(&handles), bench.probe(9999));
    first.at_end = Some(Box::new(move |_| {
        // In the middle of the walk: one comes, every other one goes, the last of all too.
        assert!(!purgatory.try_complete_else_watch(late, NEVER, [1]).unwrap().is_completed());
        for handle in others.lock().unwrap().iter().skip(1).step_by(2) {
            assert!(matches!(purgatory.cancel(handle.id), Cancelled::Taken(_)));
        }
    }));
    let first = bench.wait(first, NEVER, &[1]);
    handles.lock().unwrap().push(first);
    for number in 1..WAITING {
        let handle = bench.watch(number, NEVER, &[1]);
        handles.lock().unwrap().push(handle);
    }
    assert_eq!(bench.purgatory.force_complete_for_key(&1), WAITING as usize / 2);
    assert!(bench.take_log().iter().map(|end| end.0).eq((0..WAITING).step_by(2)));
    bench.assert_left(1, 1, 1);
}

#[test]
fn a_purgatory_may_be_dropped_by_a_callback_of_its_own() {
    struct Last(Option<Arc<Purgatory<u32, Last>>>, Log, u32);
    impl DelayedOperation for Last {
        fn try_complete(&mut self) -> bool {
            false
        }
        fn on_complete(mut self, outcome: Outcome) {
            self.1.lock().unwrap().push((self.2, outcome));
            drop(self.0.take());
            self.1.lock().unwrap().push((100 + self.2, outcome));
        }
    }
    let (bench, log) = (Bench::new(), Log::default());
    let purgatory = Arc::new(Purgatory::builder("last").clock(bench.clock.clone()).build());
    let last = Last(Some(Arc::clone(&purgatory)), Arc::clone(&log), 0);
    let _ = purgatory.try_complete_else_watch(last, ms_of(1), [1]).unwrap();
    let _ = purgatory.try_complete_else_watch(Last(None, Arc::clone(&log), 1), NEVER, [1]).unwrap();
    // Whoever drives may itself have been the last to hold it.
    bench.advance(1);
    let purgatory = Arc::into_inner({
        let drives = Arc::clone(&purgatory);
        drop(purgatory);
        assert_eq!(drives.expire().expired, 1);
        drives
    });
    assert_eq!(*log.lock().unwrap(), [(0, Outcome::Expired), (100, Outcome::Expired)]);
    drop(purgatory.expect("the callback has let go of it"));
    assert_eq!(log.lock().unwrap()[2..], [(1, Outcome::Shutdown), (101, Outcome::Shutdown)]);
}

#[test]
fn the_last_drop_inside_a_callback_shuts_down_after_it() {
    let bench = Bench::new();
    let waiting = bench.watch(7, NEVER, &[1]);
    let Bench { purgatory, log, .. } = bench;
    let other = Bench::new();
    let mut op = other.probe(0);
    let (ends, seen) = (Arc::clone(&log), Arc::new(AtomicBool::new(false)));
    let saw = Arc::clone(&seen);
    op.at_end = Some(Box::new(move |_| {
        drop(purgatory);
        saw.store(ends.lock().unwrap().is_empty(), Ordering::SeqCst);
    }));
    let handle = other.wait(op, NEVER, &[1]);
    assert!(other.purgatory.force_complete(handle.id));
    assert!(seen.load(Ordering::SeqCst), "not within the callback");
    assert_eq!(*log.lock().unwrap(), [(7, Outcome::Shutdown)]);
    assert_eq!(waiting.looks.load(Ordering::SeqCst), 2);
}

#[test]
fn a_key_of_several_parts_is_asked_for_by_borrowed_parts() {
    #[derive(PartialEq, Eq, Hash)]
    struct TopicPartition {
        topic: String,
        partition: u32,
    }
    struct Borrowed<'a>(&'a str, u32);
    impl Hash for Borrowed<'_> {
        fn hash<H: Hasher>(&self, state: &mut H) {
            (self.0, self.1).hash(state);
        }
    }
    impl Equivalent<TopicPartition> for Borrowed<'_> {
        fn equivalent(&self, key: &TopicPartition) -> bool {
            self.0 == key.topic && self.1 == key.partition
        }
    }
    let bench = Bench::new();
    let purgatory: Purgatory<TopicPartition, Probe> = Purgatory::builder("parts").build();
    let key = |partition| TopicPartition { topic: "orders".to_owned(), partition };
    let _ = purgatory.try_complete_else_watch(bench.probe(0), NEVER, [key(0), key(1)]).unwrap();
    assert!(purgatory.contains_key(&Borrowed("orders", 1)) && purgatory.contains_key(&key(0)));
    assert!(!purgatory.contains_key(&Borrowed("orders", 2)) && !purgatory.contains_key(&Borrowed("", 1)));
    assert_eq!(purgatory.reset_timeout_for_key(&Borrowed("orders", 0), NEVER), 1);
    assert_eq!(purgatory.force_complete_for_key(&Borrowed("orders", 1)), 1);
    assert_eq!((purgatory.watched(), purgatory.key_count()), (0, 0));
}

#[test]
fn ids_are_copied_compared_and_hashed_and_never_come_again() {
    let bench = Bench::with(|builder| builder.shards(1));
    let mut seen = std::collections::HashSet::new();
    for number in 0..10_000 {
        let id = bench.watch(number, NEVER, &[1]).id;
        let same = id;
        assert!(same == id && seen.insert(id));
        assert!(bench.purgatory.force_complete(id));
    }
}

#[test]
fn two_shutdowns_at_once_are_one() {
    for _ in 0..100 {
        let bench = Bench::new();
        (0..50).for_each(|number| drop(bench.watch(number, NEVER, &[number])));
        let start = std::sync::Barrier::new(2);
        let (decided, handed) = thread::scope(|scope| {
            let shutdown = scope.spawn(|| {
                start.wait();
                bench.purgatory.shutdown()
            });
            start.wait();
            let back = bench.purgatory.shutdown_and_hand_back();
            (shutdown.join().unwrap(), back.count())
        });
        assert!(matches!((decided, handed), (50, 0) | (0, 50)), "{decided} and {handed}");
        assert_eq!(bench.take_log().len(), decided);
        bench.assert_left(0, 0, 0);
    }
}

#[test]
fn a_hand_back_in_a_callback_gives_everything_to_the_callback() {
    let bench = Bench::new();
    let mut op = bench.probe(0);
    let purgatory = Arc::clone(&bench.purgatory);
    op.at_end = Some(Box::new(move |_| {
        let back = purgatory.shutdown_and_hand_back();
        assert_eq!((back.taken.len(), back.busy), (20, 0));
        assert_eq!((purgatory.len(), purgatory.watched()), (0, 0));
    }));
    bench.wait(op, ms_of(1), &[1]);
    (1..21).for_each(|number| drop(bench.watch(number, ms_of(2), &[1, number])));
    bench.advance(1);
    assert_eq!(bench.drive().0, 1);
    assert_eq!(bench.take_log(), [(0, Outcome::Expired)]);
    assert_eq!(bench.purgatory.stats().panics, 0);
    bench.assert_left(0, 0, 0);
}

#[test]
fn a_chain_without_an_end_does_not_hold_a_drive() {
    /// Each registers the next, which is over at once.
    struct Endless(Arc<Purgatory<u32, Endless>>, Arc<AtomicUsize>);
    impl DelayedOperation for Endless {
        fn try_complete(&mut self) -> bool {
            self.1.load(Ordering::SeqCst) > 0
        }
        fn on_complete(self, _: Outcome) {
            self.1.fetch_add(1, Ordering::SeqCst);
            let purgatory = Arc::clone(&self.0);
            if let Ok(registration) = purgatory.try_complete_else_watch(self, NEVER, [1]) {
                assert_eq!(registration, Registration::Completed(Outcome::Satisfied));
            }
        }
    }
    let (bench, rounds) = (Bench::new(), Arc::new(AtomicUsize::new(0)));
    let purgatory = Arc::new(Purgatory::builder("endless").clock(bench.clock.clone()).build());
    let op = Endless(Arc::clone(&purgatory), Arc::clone(&rounds));
    let _ = purgatory.try_complete_else_watch(op, Duration::ZERO, [1]).unwrap();
    (0..10).for_each(|number| drop(bench.watch(number, ms_of(u64::from(number)), &[1])));
    for _ in 0..10 {
        let before = rounds.load(Ordering::SeqCst);
        let pass = purgatory.expire();
        let after = rounds.load(Ordering::SeqCst);
        assert!(after > before && after - before < 3000, "{before} to {after}");
        assert_eq!(pass.next, Some(Tick::ZERO), "come again at once");
        // Other purgatories get their turn between the passes.
        assert_eq!(bench.purgatory.expire().expired, 1);
        bench.advance(1);
    }
    purgatory.shutdown();
    assert!(purgatory.is_empty());
}

#[test]
fn the_library_forbids_unsafe_code() {
    assert!(include_str!("../../../src/lib.rs").contains("\n#![forbid(unsafe_code)]\n"));
}
