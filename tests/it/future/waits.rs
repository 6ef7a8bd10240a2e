//! When a task is woken, and how long a wait lasts.

use super::*;
use ixion::{BoxedOperation, DelayedOperation, Outcome, WaitError, Watch};
use std::cell::RefCell;
use std::rc::Rc;

#[test]
fn a_wait_that_need_not_wait_takes_no_place_and_counts_as_satisfied() {
    let (_, purgatory) = waits();
    let mut keys = [1, 2].into_iter();
    let mut wait = purgatory.wait(SECOND, keys.by_ref(), || Some(7));
    assert_eq!(poll(&Task::new(), &mut wait), Poll::Ready(Ok(7)));
    drop(wait);
    assert_eq!(keys.next(), Some(1), "the keys were not asked for");
    assert_eq!(purgatory.stats().satisfied, 1);
    assert_nothing_is_kept(&purgatory);
}

#[test]
fn a_wait_that_is_not_polled_does_nothing() {
    let (_, purgatory) = waits();
    let wait = purgatory.wait(SECOND, [1], || -> Option<()> { panic!("a look") });
    assert_eq!(purgatory.len(), 0);
    drop(wait);
    assert_eq!(purgatory.stats().registered, 0);
}

#[test]
fn an_event_on_any_of_the_keys_wakes_the_task_which_has_the_value() {
    for key in [1, 2, 3] {
        let (_, purgatory) = waits();
        let (task, cell) = (Task::new(), Cell::new(false));
        let mut wait = purgatory.wait(SECOND, [1, 2, 3], set(&cell));
        assert!(poll(&task, &mut wait).is_pending());
        assert_eq!((purgatory.len(), purgatory.watched(), task.woken()), (1, 3, 0));
        cell.set(true);
        assert_eq!(purgatory.check_and_complete(&key), 0, "the task decides");
        assert_eq!((purgatory.len(), task.woken()), (1, 1));
        assert_eq!(poll(&task, &mut wait), Poll::Ready(Ok("set")));
        assert_eq!(purgatory.stats().satisfied, 1);
        assert_nothing_is_kept(&purgatory);
    }
}

#[test]
fn an_event_that_comes_while_the_wait_takes_its_place_is_seen_by_the_look_after_it() {
    let (_, purgatory) = waits();
    let cell = Cell::new(false);
    // The keys are asked for between the first look and the watching, so nobody is woken by this.
    let keys = [1].into_iter().inspect(|key| {
        cell.set(true);
        purgatory.check_and_complete(key);
    });
    let mut wait = purgatory.wait(SECOND, keys, set(&cell));
    assert_eq!(poll(&Task::new(), &mut wait), Poll::Ready(Ok("set")));
    assert_nothing_is_kept(&purgatory);
}

#[test]
fn an_event_that_comes_during_a_look_wakes_the_task_to_look_again() {
    let (_, purgatory) = waits();
    let (task, cell) = (Task::new(), Cell::new(0));
    let look = || {
        let before = cell.get();
        cell.set(before + 1);
        purgatory.check_and_complete(&1);
        (before == 5).then_some("at last")
    };
    let mut wait = purgatory.wait(SECOND, [1], look);
    // The first poll looks twice.
    for polls in 1..=4 {
        assert!(poll(&task, &mut wait).is_pending());
        assert_eq!(task.woken(), polls);
    }
    assert_eq!(poll(&task, &mut wait), Poll::Ready(Ok("at last")));
    assert_nothing_is_kept(&purgatory);
}

#[test]
fn a_task_that_was_woken_is_not_woken_again_before_it_is_polled() {
    let (_, purgatory) = waits();
    let (task, cell) = (Task::new(), Cell::new(false));
    let mut wait = purgatory.wait(SECOND, [1], set(&cell));
    for polls in 0..3 {
        assert!(poll(&task, &mut wait).is_pending());
        assert_eq!(task.woken(), polls);
        for _ in 0..4 {
            purgatory.check_and_complete(&1);
        }
    }
    assert_eq!(task.woken(), 3);
}

#[test]
fn looks_that_say_no_leave_the_wait_its_place_and_its_deadline() {
    let (clock, purgatory) = waits();
    let (first, second) = (Task::new(), Task::new());
    let mut waits = [(); 2].map(|()| purgatory.wait(SECOND, [1], || None::<()>));
    assert!(poll(&first, &mut waits[0]).is_pending() && poll(&second, &mut waits[1]).is_pending());
    let next = purgatory.next_expiration();
    for _ in 0..9 {
        clock.advance(SECOND / 10);
        assert_eq!(purgatory.expire().expired, 0);
        purgatory.check_and_complete(&1);
        assert!(poll(&first, &mut waits[0]).is_pending());
        assert_eq!(purgatory.next_expiration(), next, "one deadline for its whole life");
    }
    assert_eq!(purgatory.stats().registered, 2);
    drop(purgatory.cancel_first(&1));
    assert_eq!(poll(&first, &mut waits[0]), Poll::Ready(Err(WaitError::Cancelled)), "it was the first");
    clock.advance(SECOND / 10);
    assert_eq!(purgatory.expire().expired, 1);
    assert_eq!(poll(&second, &mut waits[1]), Poll::Ready(Err(WaitError::Elapsed)));
    assert_nothing_is_kept(&purgatory);
}

#[test]
fn a_timeout_counts_from_the_first_poll() {
    let (clock, purgatory) = waits();
    let task = Task::new();
    let mut wait = purgatory.wait(SECOND, [], || None::<()>);
    clock.advance(SECOND);
    assert!(poll(&task, &mut wait).is_pending());
    clock.advance(SECOND - Duration::from_millis(1));
    assert_eq!((purgatory.expire().expired, task.woken()), (0, 0));
    clock.advance(Duration::from_millis(1));
    assert_eq!((purgatory.expire().expired, task.woken()), (1, 1));
    assert_eq!(poll(&task, &mut wait), Poll::Ready(Err(WaitError::Elapsed)));
}

#[test]
fn a_new_timeout_replaces_the_old_one_until_the_time_is_up() {
    let (clock, purgatory) = waits();
    let task = Task::new();
    let mut wait = purgatory.wait(SECOND, [1], || None::<()>);
    assert!(wait.reset_timeout(2 * SECOND), "for the first poll");
    assert!(poll(&task, &mut wait).is_pending());
    clock.advance(SECOND);
    assert_eq!(purgatory.expire().expired, 0);
    assert!(wait.reset_timeout(2 * SECOND));
    clock.advance(SECOND);
    assert_eq!(purgatory.expire().expired, 0);
    assert_eq!(purgatory.reset_timeout_for_key(&1, SECOND / 2), 1, "by its key as well");
    clock.advance(SECOND / 2);
    assert_eq!(purgatory.expire().expired, 1);
    assert!(!wait.reset_timeout(SECOND), "its time is up");
    assert_eq!(poll(&task, &mut wait), Poll::Ready(Err(WaitError::Elapsed)));
    assert!(!wait.reset_timeout(SECOND));
}

#[test]
fn a_wait_at_a_number_is_not_woken_before_it_is_reached() {
    let (_, purgatory) = waits();
    let (task, at) = (Task::new(), Cell::new(0));
    let mut wait = purgatory.wait_at(SECOND, [Watch::at(1, 10)], || (at.get() >= 10).then_some(at.get()));
    assert!(poll(&task, &mut wait).is_pending());
    for progress in 1..10 {
        at.set(progress);
        purgatory.check_and_complete_up_to(&1, progress);
    }
    assert_eq!(task.woken(), 0);
    at.set(12);
    purgatory.check_and_complete_up_to(&1, 12);
    assert_eq!(task.woken(), 1);
    assert_eq!(poll(&task, &mut wait), Poll::Ready(Ok(12)));
    assert_nothing_is_kept(&purgatory);
}

/// Callbacks, and futures, in one purgatory of one thread.
enum Op {
    Callback(Rc<RefCell<Vec<Outcome>>>),
    Wait(Waiting),
}

impl From<Waiting> for Op {
    fn from(waiting: Waiting) -> Self {
        Op::Wait(waiting)
    }
}

impl DelayedOperation for Op {
    fn try_complete(&mut self) -> bool {
        match self {
            Op::Callback(_) => false,
            Op::Wait(waiting) => waiting.try_complete(),
        }
    }

    fn on_complete(self, outcome: Outcome) {
        match self {
            Op::Callback(log) => log.borrow_mut().push(outcome),
            Op::Wait(waiting) => waiting.on_complete(outcome),
        }
    }
}

#[test]
fn futures_and_callbacks_that_stay_on_a_thread_share_a_purgatory() {
    let clock = ManualClock::new();
    let purgatory: Purgatory<&str, Op> = Purgatory::builder("local").clock(clock.clone()).build();
    let (log, queue) = (Rc::default(), Rc::new(RefCell::new(Vec::new())));
    let _ = purgatory.try_complete_else_watch(Op::Callback(Rc::clone(&log)), SECOND, ["key"]).unwrap();
    let task = Task::new();
    let mut wait = purgatory.wait(SECOND, ["key"], || queue.borrow_mut().pop());
    assert!(poll(&task, &mut wait).is_pending());
    queue.borrow_mut().push("taken");
    purgatory.check_and_complete("key");
    assert_eq!(poll(&task, &mut wait), Poll::Ready(Ok("taken")));
    let mut wait = purgatory.wait(SECOND, ["key"], || queue.borrow_mut().pop());
    assert!(poll(&task, &mut wait).is_pending());
    clock.advance(SECOND);
    assert_eq!(purgatory.expire().expired, 2);
    assert_eq!(poll(&task, &mut wait), Poll::Ready(Err(WaitError::Elapsed)));
    assert_eq!(*log.borrow(), [Outcome::Expired]);
}

#[test]
fn a_boxed_wait_is_an_operation_like_any_other() {
    let purgatory: Purgatory<u32> = Purgatory::builder("boxed").clock(ManualClock::new()).build();
    let (task, cell) = (Task::new(), Cell::new(false));
    let mut wait = purgatory.wait(SECOND, [1], set(&cell));
    assert!(poll(&task, &mut wait).is_pending());
    cell.set(true);
    purgatory.check_and_complete(&1);
    assert_eq!(poll(&task, &mut wait), Poll::Ready(Ok("set")));
    assert!(purgatory.is_empty() && purgatory.stats().satisfied == 1);
    let mut at_once = purgatory.wait(SECOND, [1], set(&cell));
    assert_eq!(poll(&task, &mut at_once), Poll::Ready(Ok("set")));
    assert_eq!(purgatory.stats().satisfied, 2);
}

#[test]
fn a_wait_is_unpin_and_goes_where_its_parts_can_go() {
    fn goes<T: Send + Unpin>(_: &T) {}
    fn stays<T: Unpin>(_: &T) {}
    let purgatory: Arc<Purgatory<u32>> = Arc::new(Purgatory::builder("p").build());
    goes(&purgatory.wait(SECOND, [1], || None::<()>));
    goes(&Arc::clone(&purgatory).wait_at_owned(SECOND, [Watch::any(1)], || None::<()>));
    let local = Rc::new(());
    stays(&purgatory.wait(SECOND, [1], || Some(Rc::clone(&local))));
    let _: Purgatory<u32, BoxedOperation> = Arc::into_inner(purgatory).unwrap();
}
