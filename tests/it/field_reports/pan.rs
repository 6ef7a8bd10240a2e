//! PAN: user code that panics. What needs the expirer's thread is in `threads`.

use crate::guarantees::support::*;
use ixion::{Outcome, PanicPlace, Registration};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// A bench whose panics are expected, and where they happened.
fn bench() -> (Bench, Arc<Mutex<Vec<PanicPlace>>>) {
    let places = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&places);
    let bench = Bench::with(|builder| {
        builder.shards(1).on_panic(move |caught| told.lock().unwrap().push(caught.place()))
    });
    (bench, places)
}

/// PAN-04. There, a panic under a lock poisoned it, and every later call panicked.
#[test]
fn after_a_panic_in_a_drive_every_call_of_every_thread_works_and_the_rest_expires() {
    for panics_in in 0..10 {
        let (bench, places) = bench();
        for number in 0..10 {
            let mut op = bench.probe(number);
            op.at_end = Some(Box::new(move |_| assert!(number != panics_in, "in a callback")));
            bench.wait(op, ms_of(5), &[1, 10 + number]);
        }
        bench.watch(10, ms_of(50), &[1]);
        bench.advance(5);
        let drive = catch_unwind(AssertUnwindSafe(|| bench.drive().0));
        assert!(drive.is_ok_and(|expired| expired == 10), "the panic stays with its operation");
        assert_eq!(*places.lock().unwrap(), [PanicPlace::Callback]);
        bench.assert_left(1, 1, 1);
        thread::scope(|scope| {
            scope.spawn(|| {
                let ready = bench.watch(11, NEVER, &[2]);
                assert!(bench.purgatory.reset_timeout(ready.id, ms_of(20)));
                ready.set();
                assert_eq!(bench.purgatory.check_and_complete(&2), 1);
                let cancelled = bench.watch(12, ms_of(1), &[2]);
                assert!(bench.purgatory.cancel(cancelled.id).is_cancelled());
                bench.advance(50);
                assert_eq!(bench.drive().0, 1);
            });
        });
        let last: Vec<_> = bench.take_log().split_off(10);
        assert_eq!(last, [(11, Outcome::Satisfied), (10, Outcome::Expired)]);
        bench.assert_left(0, 0, 0);
    }
}

/// PAN-04. The same where the panic unwinds through the engine, because it is the caller's own: in its keys.
#[test]
fn after_a_panic_that_goes_through_the_engine_every_call_works() {
    let (bench, _) = bench();
    bench.watch(0, ms_of(5), &[1]);
    for when in [0, 1] {
        let keys = (0..2).inspect(|key| assert!(*key != when, "in the keys"));
        let (purgatory, op) = (&bench.purgatory, bench.probe(7));
        let call =
            AssertUnwindSafe(|| purgatory.try_complete_else_watch(op, NEVER, keys).map(|_| ()).is_ok());
        assert!(catch_unwind(call).is_err());
        bench.assert_left(1, 1, 1);
    }
    thread::scope(|scope| {
        scope.spawn(|| {
            bench.watch(1, ms_of(5), &[1]);
            bench.advance(5);
            assert_eq!(bench.drive().0, 2);
        });
    });
    bench.assert_left(0, 0, 0);
}

/// PAN-06. There, an operation whose callback had thrown was half done: neither finished nor ever expired.
#[test]
fn an_operation_whose_callback_panics_is_over_by_whatever_it_ended() {
    type End = fn(&Bench, &Handle);
    let ends: [(End, Outcome); 5] = [
        (
            |bench, handle| {
                handle.set();
                assert_eq!(bench.purgatory.check_and_complete(&1), 1);
            },
            Outcome::Satisfied,
        ),
        (|bench, handle| assert!(bench.purgatory.force_complete(handle.id)), Outcome::Forced),
        (|bench, _| assert_eq!(bench.purgatory.force_complete_for_key(&2), 1), Outcome::Forced),
        (
            |bench, _| {
                bench.advance(10);
                assert_eq!(bench.drive().0, 1);
            },
            Outcome::Expired,
        ),
        (|bench, _| assert_eq!(bench.purgatory.shutdown(), 1), Outcome::Shutdown),
    ];
    for (end, outcome) in ends {
        let (bench, places) = bench();
        let mut op = bench.probe(0);
        op.at_end = Some(Box::new(|_| panic!("half done")));
        let handle = bench.wait(op, ms_of(10), &[1, 2]);
        end(&bench, &handle);
        bench.assert_left(0, 0, 0);
        assert_eq!(bench.purgatory.next_expiration(), None, "{outcome:?}");
        // Neither its time nor another event nor anything else finds it again.
        bench.advance(100);
        assert_eq!((bench.drive().0, bench.purgatory.check_and_complete(&1)), (0, 0));
        assert!(
            !bench.purgatory.force_complete(handle.id) && !bench.purgatory.cancel(handle.id).is_cancelled()
        );
        assert_eq!(bench.take_log(), [(0, outcome)]);
        assert_eq!((places.lock().unwrap().len(), bench.purgatory.stats().panics), (1, 1));
    }
}

/// PAN-06. The same at the first look and in the callback that is put off behind another.
#[test]
fn an_operation_whose_callback_panics_is_over_at_its_first_look_and_behind_another_callback() {
    let (bench, places) = bench();
    let mut op = bench.probe(0);
    op.flag.store(true, Ordering::SeqCst);
    op.at_end = Some(Box::new(|_| panic!("at once")));
    let registration = bench.register(op, ms_of(10), &[1]);
    assert_eq!(registration, Ok(Registration::Completed(Outcome::Satisfied)));
    let mut second = bench.probe(1);
    second.at_end = Some(Box::new(|_| panic!("put off")));
    let second = bench.wait(second, ms_of(10), &[1]);
    let after = Arc::new(AtomicUsize::new(0));
    let mut first = bench.probe(2);
    let (purgatory, counted) = (Arc::clone(&bench.purgatory), Arc::clone(&after));
    first.at_end = Some(Box::new(move |_| {
        assert!(purgatory.force_complete(second.id));
        counted.fetch_add(1, Ordering::SeqCst);
    }));
    let first = bench.wait(first, ms_of(10), &[1]);
    assert!(bench.purgatory.force_complete(first.id));
    assert_eq!((after.load(Ordering::SeqCst), places.lock().unwrap().len()), (1, 2));
    let ends = [(0, Outcome::Satisfied), (2, Outcome::Forced), (1, Outcome::Forced)];
    assert_eq!(bench.take_log(), ends);
    bench.advance(100);
    assert_eq!(bench.drive().0, 0);
    bench.assert_left(0, 0, 0);
}
