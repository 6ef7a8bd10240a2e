//! Wakers are code of others: they run with no lock held, and may do what they like.

use super::*;
use ixion::{PanicPlace, WaitError};
use std::sync::Mutex;

/// A waker that does something when it is woken, and when it is dropped.
struct Does {
    at_wake: Box<dyn Fn() + Send + Sync>,
    at_drop: Box<dyn Fn() + Send + Sync>,
}

impl Does {
    fn at_wake(run: impl Fn() + Send + Sync + 'static) -> Waker {
        Waker::from(Arc::new(Does { at_wake: Box::new(run), at_drop: Box::new(|| ()) }))
    }

    fn at_drop(run: impl Fn() + Send + Sync + 'static) -> Waker {
        Waker::from(Arc::new(Does { at_wake: Box::new(|| ()), at_drop: Box::new(run) }))
    }
}

impl Wake for Does {
    fn wake(self: Arc<Self>) {
        (self.at_wake)();
    }
}

impl Drop for Does {
    fn drop(&mut self) {
        (self.at_drop)();
    }
}

#[test]
fn a_wait_that_moves_to_another_task_wakes_that_one() {
    let (_, purgatory) = waits();
    let (first, second, cell) = (Task::new(), Task::new(), Cell::new(false));
    let mut wait = purgatory.wait(SECOND, [1], set(&cell));
    assert!(poll(&first, &mut wait).is_pending());
    assert!(poll(&first, &mut wait).is_pending());
    assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (2, 1), "one waker is kept");
    assert!(poll(&second, &mut wait).is_pending());
    assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (1, 2), "the last one");
    purgatory.check_and_complete(&1);
    assert_eq!((first.woken(), second.woken()), (0, 1));
    assert_eq!(Arc::strong_count(&second), 1, "a waker that was called is not kept");
    for _ in 0..1000 {
        assert!(poll(&second, &mut wait).is_pending());
        assert!(poll(&first, &mut wait).is_pending());
    }
    drop(second);
    cell.set(true);
    purgatory.check_and_complete(&1);
    assert_eq!(first.woken(), 1);
    assert_eq!(poll(&first, &mut wait), Poll::Ready(Ok("set")));
}

#[test]
fn a_task_keeps_its_waker_where_it_is_polled_for_no_reason() {
    let (_, purgatory) = waits();
    let task = Task::new();
    let waker = Waker::from(Arc::clone(&task));
    let mut wait = purgatory.wait(SECOND, [1], || None::<()>);
    for _ in 0..3 {
        assert!(poll_with(&waker, &mut wait).is_pending());
        assert_eq!(Arc::strong_count(&task), 3, "the test's two, and one of it");
    }
    purgatory.check_and_complete(&1);
    assert_eq!(task.woken(), 1);
}

#[test]
fn a_waker_may_call_the_engine_on_the_same_key() {
    let clock = ManualClock::new();
    let purgatory: Arc<Waits> = Arc::new(Purgatory::builder("calls").clock(clock.clone()).shards(1).build());
    let (task, calls) = (Task::new(), Arc::new(Mutex::new(Vec::new())));
    let mut other = purgatory.wait(SECOND, [1], || None::<()>);
    let (inside, log) = (Arc::clone(&purgatory), Arc::clone(&calls));
    let waker = Does::at_wake(move || {
        log.lock().unwrap().push(inside.check_and_complete(&1) + inside.len() + inside.watched());
        let mut at_once = inside.wait(SECOND, [1], || Some(()));
        assert!(poll(&Task::new(), &mut at_once).is_ready());
        let mut again = inside.wait(SECOND, [1], || None::<()>);
        assert!(poll(&Task::new(), &mut again).is_pending());
        assert_eq!(inside.force_complete_for_key(&7), 0);
    });
    let mut wait = purgatory.wait(SECOND, [1], || None::<()>);
    assert!(poll_with(&waker, &mut wait).is_pending());
    assert!(poll(&task, &mut other).is_pending());
    purgatory.check_and_complete(&1);
    assert_eq!(*calls.lock().unwrap(), [4], "two wait on one key each");
    assert!(poll_with(&waker, &mut wait).is_pending());
    clock.advance(SECOND);
    assert_eq!(purgatory.expire().expired, 2);
    assert_eq!(calls.lock().unwrap().len(), 2, "and at the end");
    assert_eq!(purgatory.stats().panics, 0);
    assert!(purgatory.is_empty() && purgatory.stats().balances());
}

#[test]
fn a_waker_that_polls_its_task_at_once_ends_the_wait_within_the_signal() {
    /// A task on no executor: it runs where it is woken.
    struct Inline(Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>);
    impl Wake for Inline {
        fn wake(self: Arc<Self>) {
            let mut task = self.0.lock().unwrap();
            let waker = Waker::from(Arc::clone(&self));
            if let Some(future) = &mut *task
                && poll_with(&waker, future).is_ready()
            {
                *task = None;
            }
        }
    }
    let (clock, purgatory) = waits();
    let purgatory = Arc::new(purgatory);
    let count = Arc::new(AtomicUsize::new(0));
    let (of_task, inside) = (Arc::clone(&count), Arc::clone(&purgatory));
    let task = async move {
        for wanted in 1..=3 {
            let reached = || (of_task.load(Ordering::SeqCst) >= wanted).then_some(());
            inside.wait(SECOND, [1], reached).await.expect("in time");
        }
        let never = inside.wait(SECOND, [1], || None::<()>).await;
        assert_eq!(never, Err(WaitError::Elapsed));
        of_task.store(10, Ordering::SeqCst);
    };
    let task = Arc::new(Inline(Mutex::new(Some(Box::pin(task)))));
    Arc::clone(&task).wake();
    for wanted in 1..=3 {
        count.store(wanted, Ordering::SeqCst);
        purgatory.check_and_complete(&1);
        assert_eq!(purgatory.stats().satisfied, wanted as u64, "by the time that the signal returns");
    }
    clock.advance(SECOND);
    assert_eq!(purgatory.expire().expired, 1);
    assert_eq!(count.load(Ordering::SeqCst), 10);
    assert!(task.0.lock().unwrap().is_none());
    assert_nothing_is_kept(&purgatory);
}

#[test]
fn a_waker_that_panics_harms_nobody_else() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let hook = Arc::clone(&told);
    let clock = ManualClock::new();
    let purgatory: Waits = Purgatory::builder("panics")
        .clock(clock.clone())
        .on_panic(move |panic| hook.lock().unwrap().push(panic.place()))
        .build();
    let tasks = [Task::new(), Task::new()];
    let waker = Does::at_wake(|| panic!("a waker"));
    let mut waits = [(); 3].map(|()| purgatory.wait(SECOND, [1], || None::<()>));
    let poll_all = |waits: &mut [_; 3]| {
        let [first, second, third] = waits;
        [poll(&tasks[0], first), poll_with(&waker, second), poll(&tasks[1], third)]
    };
    assert_eq!(poll_all(&mut waits), [Poll::Pending; 3]);
    purgatory.check_and_complete(&1);
    assert_eq!((tasks[0].woken(), tasks[1].woken(), purgatory.len()), (1, 1, 3));
    assert_eq!(poll_all(&mut waits), [Poll::Pending; 3]);
    clock.advance(SECOND);
    assert_eq!(purgatory.expire().expired, 3);
    assert_eq!((tasks[0].woken(), tasks[1].woken()), (2, 2));
    assert_eq!(*told.lock().unwrap(), [PanicPlace::Callback], "at the end it is a callback's");
    assert_eq!(poll_all(&mut waits), [Poll::Ready(Err(WaitError::Elapsed)); 3]);
    assert_nothing_is_kept(&purgatory);
}

#[test]
fn a_waker_that_is_dropped_may_call_the_engine() {
    let (clock, purgatory) = waits();
    let purgatory = Arc::new(purgatory);
    let dropped = Arc::new(AtomicUsize::new(0));
    let waker = || {
        let (inside, dropped) = (Arc::clone(&purgatory), Arc::clone(&dropped));
        Does::at_drop(move || {
            // To the slot of the same wait, if it is still there.
            inside.check_and_complete(&1);
            assert!(inside.len() + inside.watched() <= 2);
            dropped.fetch_add(1, Ordering::SeqCst);
        })
    };
    let mut wait = purgatory.wait(SECOND, [1], || None::<()>);
    assert!(poll_with(&waker(), &mut wait).is_pending());
    assert_eq!(dropped.load(Ordering::SeqCst), 0);
    assert!(poll_with(&waker(), &mut wait).is_pending());
    assert_eq!(
        dropped.load(Ordering::SeqCst),
        2,
        "the first was replaced, and its drop has woken the second"
    );
    assert!(poll_with(&waker(), &mut wait).is_pending());
    purgatory.check_and_complete(&1);
    assert_eq!(dropped.load(Ordering::SeqCst), 3, "woken");
    assert!(poll_with(&waker(), &mut wait).is_pending());
    drop(wait);
    assert_eq!(dropped.load(Ordering::SeqCst), 4, "dropped with the wait");
    let mut wait = purgatory.wait(SECOND, [1], || None::<()>);
    assert!(poll_with(&waker(), &mut wait).is_pending());
    clock.advance(SECOND);
    assert_eq!(purgatory.expire().expired, 1);
    assert_eq!(dropped.load(Ordering::SeqCst), 5, "at the end");
    assert_nothing_is_kept(&purgatory);
}
