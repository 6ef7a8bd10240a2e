//! The forms of the interface: rejections, boxed operations, operations of one thread, borrowed keys.

use super::support::*;
use ixion::{
    BoxedOperation, DelayedOperation, HandedBack, ManualClock, Outcome, Purgatory, Registration,
    RejectReason, Rejected, Resolution, Tick, TimingWheel,
};
use std::cell::{Cell, RefCell};
use std::error::Error;
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[test]
fn the_capacity_counts_operations_and_only_those_that_would_wait_are_refused() {
    let bench = Bench::with(|builder| builder.capacity(2));
    let first = bench.watch(0, ms_of(10), &[1, 2, 3, 4]);
    bench.watch(1, ms_of(20), &[1]);
    let ready = bench.probe(2);
    ready.flag.store(true, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(bench.register(ready, ms_of(10), &[1]), Ok(Registration::Completed(Outcome::Satisfied)));
    let keys = [1];
    let rejected = bench.purgatory.try_complete_else_watch(bench.probe(3), ms_of(10), keys).unwrap_err();
    assert_eq!((rejected.reason, rejected.op.number), (RejectReason::Full, 3));
    bench.assert_left(2, 5, 4);
    // Whatever ends an operation makes room.
    assert!(bench.purgatory.force_complete(first.id));
    let third = bench.watch(4, ms_of(30), &[1]);
    drop(bench.purgatory.cancel(third.id));
    bench.watch(5, ms_of(30), &[1]);
    bench.advance(30);
    assert_eq!(bench.drive().0, 2);
    bench.watch(6, ms_of(30), &[]);
    bench.watch(7, ms_of(30), &[]);
    assert_eq!(bench.register(bench.probe(8), ms_of(1), &[]), Err(RejectReason::Full));
    let none = Bench::with(|builder| builder.capacity(0));
    assert_eq!(none.register(none.probe(0), ms_of(1), &[1]), Err(RejectReason::Full));
    none.assert_left(0, 0, 0);
}

#[test]
fn a_rejection_is_an_error_for_every_operation_and_converts_to_its_reason() {
    struct Plain; // neither Debug nor Display
    impl DelayedOperation for Plain {
        fn try_complete(&mut self) -> bool {
            false
        }
        fn on_complete(self, _: Outcome) {}
    }
    fn by_reason(purgatory: &Purgatory<u32, Plain>) -> Result<Registration, RejectReason> {
        Ok(purgatory.try_complete_else_watch(Plain, NEVER, [1])?)
    }
    fn boxed(purgatory: &Purgatory<u32, Plain>) -> Result<Registration, Box<dyn Error>> {
        Ok(purgatory.try_complete_else_watch(Plain, NEVER, [1])?)
    }
    let purgatory = Purgatory::builder("closed").build();
    assert_eq!(purgatory.shutdown(), 0);
    assert_eq!(by_reason(&purgatory), Err(RejectReason::Shutdown));
    assert_eq!(boxed(&purgatory).unwrap_err().to_string(), "the purgatory has been shut down");
    let full: Rejected<Plain> = Rejected { op: Plain, reason: RejectReason::Full };
    assert_eq!(full.to_string(), "the purgatory is full");
    assert_eq!(format!("{full:?}"), "Rejected { reason: Full, .. }");
}

#[test]
fn operations_of_different_types_share_a_purgatory_in_boxes() {
    struct Other(u64);
    impl DelayedOperation for Other {
        fn try_complete(&mut self) -> bool {
            false
        }
        fn on_complete(self, _: Outcome) {}
    }
    let bench = Bench::new();
    let purgatory: Purgatory<u32> = Purgatory::builder("boxed").clock(bench.clock.clone()).build();
    let probe = BoxedOperation::new(bench.probe(7));
    let other = BoxedOperation::new(Other(8));
    let _ = purgatory.try_complete_else_watch(probe, ms_of(10), [1]).expect("open");
    let id = purgatory.try_complete_else_watch(other, ms_of(10), [1]).expect("open").id().expect("waits");
    let other = purgatory.cancel(id).taken().expect("nobody is inside");
    let other = other.downcast::<Probe>().err().expect("it is no probe");
    assert_eq!(other.downcast::<Other>().expect("it is the other").0, 8);
    bench.advance(10);
    assert_eq!(purgatory.expire().expired, 1);
    assert_eq!(bench.take_log(), [(7, Outcome::Expired)]);
    let ready = bench.probe(9);
    ready.flag.store(true, std::sync::atomic::Ordering::SeqCst);
    let ready = BoxedOperation::new(ready);
    assert_eq!(format!("{ready:?}"), "BoxedOperation { .. }");
    assert!(purgatory.try_complete_else_watch(ready, NEVER, [1]).expect("open").is_completed());
    assert_eq!(bench.take_log(), [(9, Outcome::Satisfied)]);
}

#[test]
fn operations_that_are_not_send_live_in_a_purgatory_of_one_thread() {
    struct Local(Rc<Cell<bool>>, Rc<RefCell<Vec<Outcome>>>);
    impl DelayedOperation for Local {
        fn try_complete(&mut self) -> bool {
            self.0.get()
        }
        fn on_complete(self, outcome: Outcome) {
            self.1.borrow_mut().push(outcome);
        }
    }
    let (ready, ends) = (Rc::new(Cell::new(false)), Rc::new(RefCell::new(Vec::new())));
    let purgatory = Purgatory::builder("local").build();
    for _ in 0..2 {
        let op = Local(Rc::clone(&ready), Rc::clone(&ends));
        let _ = purgatory.try_complete_else_watch(op, NEVER, [Rc::new(1)]).expect("open");
    }
    ready.set(true);
    assert_eq!(purgatory.check_and_complete(&Rc::new(1)), 2);
    assert_eq!(*ends.borrow(), [Outcome::Satisfied; 2]);
}

#[test]
fn a_purgatory_is_send_and_sync_where_keys_and_operations_are_send() {
    fn send_and_sync<T: Send + Sync>() {}
    send_and_sync::<Purgatory<u32, Probe>>();
    send_and_sync::<Purgatory<String, BoxedOperation>>();
    send_and_sync::<Purgatory<SendKey, Probe>>();
    send_and_sync::<ixion::Expirer>();
}

/// `Send`, but not `Sync`.
#[derive(PartialEq, Eq, Hash)]
struct SendKey(u32, std::marker::PhantomData<Cell<u32>>);

#[test]
fn keys_are_asked_for_by_borrowed_forms_without_an_allocation() {
    let bench = Bench::new();
    let purgatory: Purgatory<String, Probe> = Purgatory::builder("strings").build();
    let keys = ["a", "b"].map(String::from);
    let _ = purgatory.try_complete_else_watch(bench.probe(0), NEVER, keys).expect("open");
    assert!(purgatory.contains_key("a") && !purgatory.contains_key("c"));
    assert_eq!(purgatory.check_and_complete("a"), 0);
    assert_eq!(purgatory.reset_timeout_for_key("b", NEVER), 1);
    let back: HandedBack<Probe> = purgatory.cancel_for_key("b");
    assert_eq!(back.count(), 1);
    assert!(!purgatory.contains_key("a"));
}

#[test]
fn a_key_given_twice_is_watched_once() {
    for count in [2u32, 3, 8, 9, 40, 1000] {
        let bench = Bench::new();
        let keys: Vec<u32> = (0..count).chain(0..count).chain([0, 0]).collect();
        let handle = bench.watch(0, NEVER, &keys);
        bench.assert_left(1, count as usize, count as usize);
        let looks = handle.looks.load(std::sync::atomic::Ordering::SeqCst);
        bench.purgatory.check_and_complete(&0);
        assert_eq!(handle.looks.load(std::sync::atomic::Ordering::SeqCst), looks + 1);
        assert!(bench.purgatory.force_complete(handle.id));
        bench.assert_left(0, 0, 0);
    }
}

#[test]
fn any_number_of_shards_gives_the_same_answers() {
    for shards in [0, 1, 2, 3, 16, 1000, usize::MAX] {
        let bench = Bench::with(|builder| builder.shards(shards));
        for number in 0..200 {
            bench.watch(number, ms_of(10), &[number, number + 1, number / 7]);
        }
        assert_eq!(bench.purgatory.force_complete_for_key(&100), 2, "{shards} shards");
        bench.advance(10);
        assert_eq!(bench.drive().0, 198);
        bench.assert_left(0, 0, 0);
    }
}

#[test]
fn what_is_printed_for_debugging_says_what_it_is() {
    assert_eq!(format!("{:?} {:?}", Tick::new(7), Tick::MAX), "Tick(7) Tick(never)");
    assert_eq!(format!("{:?}", Resolution::default()), "Resolution(1ms)");
    let clock = ManualClock::default();
    clock.advance(ms_of(3));
    assert_eq!(format!("{clock:?}"), "ManualClock { elapsed: 3ms, resolution: Resolution(1ms) }");
    let mut wheel = TimingWheel::default();
    assert_eq!(format!("{:?}", wheel.start_timer(Tick::new(9), ())), "TimerId(0.1)");
    assert_eq!(format!("{wheel:?}"), "TimingWheel { now: Tick(0), len: 1, next_expiration: Some(Tick(9)) }");
    let builder = Purgatory::<u32, Probe>::builder("named").shards(3).hash_seed(5).capacity(9);
    let builder = format!("{builder:?}");
    for part in
        ["Builder", "\"named\"", "shards: 3", "hash_seed: Some(5)", "capacity: Some(9)", "max_timeout"]
    {
        assert!(builder.contains(part), "{builder}");
    }
    let told = Arc::new(Mutex::new(String::new()));
    let log = Arc::clone(&told);
    let purgatory: Purgatory<u32, Panicking> = Purgatory::builder("printed")
        .on_panic(move |caught| *log.lock().unwrap() = format!("{caught:?}; {caught}"))
        .build();
    let id = purgatory.try_complete_else_watch(Panicking, NEVER, [1]).expect("open").id().expect("waits");
    assert!(format!("{id:?}").starts_with("OperationId("), "{id:?}");
    let shown = format!("{purgatory:?}");
    assert!(shown.contains("\"printed\"") && shown.contains("pending: 1"), "{shown}");
    assert_eq!(format!("{:?}", purgatory.cancel(id)), "Taken(..)");
    assert_eq!(format!("{:?}", purgatory.cancel(id)), "Gone");
    let back = HandedBack { taken: vec![Panicking], busy: 2 };
    assert_eq!(
        (back.count(), format!("{back:?}")),
        (3, "HandedBack { taken: [1 operations], busy: 2 }".into())
    );
    let _ = purgatory.try_complete_else_watch(Panicking, NEVER, [1]).expect("open");
    assert_eq!(purgatory.force_complete_for_key(&1), 1);
    let told = told.lock().unwrap();
    assert!(told.contains("place: Callback") && told.contains("message: \"told\""), "{told}");
    assert!(told.ends_with("purgatory printed: on_complete panicked: told"), "{told}");
}

struct Panicking;

impl DelayedOperation for Panicking {
    fn try_complete(&mut self) -> bool {
        false
    }

    fn on_complete(self, _: Outcome) {
        std::panic::resume_unwind(Box::new("told"));
    }
}

#[test]
fn keys_that_hash_alike_are_keys_apart() {
    #[derive(PartialEq, Eq)]
    struct Alike(u32);
    impl Hash for Alike {
        fn hash<H: Hasher>(&self, _: &mut H) {}
    }
    for keys in [3, 30] {
        let purgatory: Purgatory<Alike, Panicking> = Purgatory::builder("alike").build();
        let twice = (0..keys).chain(0..keys).map(Alike);
        let _ = purgatory.try_complete_else_watch(Panicking, NEVER, twice).expect("open");
        assert_eq!((purgatory.watched(), purgatory.key_count()), (keys as usize, keys as usize));
        assert!((0..keys).all(|key| purgatory.contains_key(&Alike(key))));
        drop(purgatory.cancel_first(&Alike(keys - 1)));
        assert_eq!(purgatory.key_count(), 0);
    }
}

#[test]
fn never_is_never_however_long_a_tick_is() {
    let day = Resolution::new(Duration::from_secs(24 * 3600));
    let purgatory: Purgatory<u32, Panicking> =
        Purgatory::builder("days").clock(ManualClock::with_resolution(day)).build();
    let _ = purgatory.try_complete_else_watch(Panicking, Duration::MAX, [1]).expect("open");
    assert_eq!(purgatory.next_expiration(), None);
    drop(purgatory.cancel_for_key(&1));
}

#[test]
fn a_key_of_a_rejected_operation_whose_destructor_panics_is_reported_like_any_other() {
    #[derive(PartialEq, Eq, Hash)]
    struct Brittle(u32);
    impl Drop for Brittle {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("brittle"));
        }
    }
    let purgatory = Purgatory::builder("full").capacity(0).on_panic(|_| ()).build();
    let rejected = purgatory.try_complete_else_watch(Panicking, NEVER, [Brittle(1), Brittle(2)]);
    assert_eq!(rejected.map_err(RejectReason::from), Err(RejectReason::Full));
    assert_eq!(purgatory.stats().panics, 2);
}
