//! Panics stay with their operation: counted, handed to the hook, and nobody else notices.

use super::support::*;
use ixion::{Outcome, PanicPlace, Purgatory, Registration};
use std::sync::{Arc, Mutex};

type Reports = Arc<Mutex<Vec<(PanicPlace, String)>>>;

fn bench() -> (Bench, Reports) {
    let reports = Reports::default();
    let told = Arc::clone(&reports);
    let bench = Bench::with(|builder| {
        builder.on_panic(move |caught| {
            assert_eq!(caught.purgatory(), "test");
            told.lock().unwrap().push((caught.place(), caught.message().to_string()));
        })
    });
    (bench, reports)
}

#[test]
fn a_look_that_panics_ends_its_operation_and_the_walk_goes_on() {
    let (bench, reports) = bench();
    let handles: Vec<Handle> = (0..5)
        .map(|number| {
            let mut op = bench.probe(number);
            if number == 2 {
                let flag = Arc::clone(&op.flag);
                op.in_look = Some(Box::new(move || {
                    assert!(!flag.load(std::sync::atomic::Ordering::SeqCst), "look of {number}");
                }));
            }
            bench.wait(op, ms_of(10), &[1, 2])
        })
        .collect();
    handles.iter().for_each(Handle::set);
    assert_eq!(bench.purgatory.check_and_complete(&1), 5);
    let outcome = |number| if number == 2 { Outcome::Panicked } else { Outcome::Satisfied };
    assert_eq!(bench.take_log(), (0..5).map(|number| (number, outcome(number))).collect::<Vec<_>>());
    assert_eq!(*reports.lock().unwrap(), [(PanicPlace::Look, "look of 2".to_string())]);
    let stats = bench.purgatory.stats();
    assert_eq!((stats.panicked, stats.panics, stats.satisfied), (1, 1, 4));
    bench.assert_left(0, 0, 0);
}

#[test]
fn a_first_look_that_panics_is_an_end_like_any_other() {
    let (bench, reports) = bench();
    let mut op = bench.probe(0);
    op.in_look = Some(Box::new(|| panic!("first")));
    assert_eq!(bench.register(op, NEVER, &[1]), Ok(Registration::Completed(Outcome::Panicked)));
    assert_eq!(bench.take_log(), [(0, Outcome::Panicked)]);
    assert_eq!(reports.lock().unwrap().len(), 1);
    bench.assert_left(0, 0, 0);
}

#[test]
fn a_callback_or_destructor_that_panics_leaves_the_outcome_and_the_drive_goes_on() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("drop");
        }
    }
    let (bench, reports) = bench();
    for number in 0..6 {
        let mut op = bench.probe(number);
        let bomb = (number == 3).then(|| Bomb);
        op.at_end = Some(Box::new(move |_| {
            let _bomb = bomb;
            assert!(number != 1, "callback");
        }));
        bench.wait(op, ms_of(u64::from(number)), &[1]);
    }
    bench.advance(10);
    assert_eq!(bench.drive().0, 6);
    assert_eq!(bench.take_log().len(), 6);
    let messages: Vec<String> = reports.lock().unwrap().iter().map(|report| report.1.clone()).collect();
    assert_eq!(messages, ["callback", "drop"]);
    assert_eq!((bench.purgatory.stats().expired, bench.purgatory.stats().panics), (6, 2));
    bench.assert_left(0, 0, 0);
}

#[test]
fn a_key_whose_destructor_panics_costs_no_other_key() {
    #[derive(PartialEq, Eq, Hash)]
    struct Key(u32);
    impl Drop for Key {
        fn drop(&mut self) {
            assert!(self.0 != 2 || std::thread::panicking(), "key");
        }
    }
    let (bench, _) = bench();
    let purgatory: Purgatory<Key, Probe> = Purgatory::builder("keys").on_panic(|_| {}).build();
    let op = bench.probe(0);
    let id = purgatory.try_complete_else_watch(op, NEVER, (1..5).map(Key)).unwrap().id().unwrap();
    assert!(purgatory.force_complete(id));
    assert_eq!((purgatory.key_count(), purgatory.stats().panics), (0, 1));
}

#[test]
fn hooks_that_panic_are_caught_as_well() {
    let bench = Bench::with(|builder| {
        builder
            .on_panic(|_| panic!("the hook for panics"))
            .on_earlier_deadline(|| panic!("the hook for deadlines"))
    });
    let handle = bench.watch(0, ms_of(10), &[1]);
    assert_eq!(bench.purgatory.stats().panics, 2, "the deadline's hook, and that for panics when told of it");
    assert!(bench.purgatory.force_complete(handle.id));
    bench.assert_left(0, 0, 0);
}

#[test]
fn a_panic_of_the_keys_iterator_is_the_callers_and_nothing_was_accepted() {
    let bench = Bench::new();
    let (purgatory, op) = (Arc::clone(&bench.purgatory), bench.probe(0));
    let call = std::panic::AssertUnwindSafe(move || {
        let keys = (0..3).inspect(|&key| assert!(key < 2, "keys"));
        let _ = purgatory.try_complete_else_watch(op, NEVER, keys);
    });
    assert!(std::panic::catch_unwind(call).is_err());
    bench.assert_left(0, 0, 0);
    // And the thread goes on as before: callbacks run in place, not behind a call that never ended.
    let handle = bench.watch(1, NEVER, &[1]);
    assert!(bench.purgatory.force_complete(handle.id));
    assert_eq!(bench.take_log(), [(1, Outcome::Forced)]);
}
