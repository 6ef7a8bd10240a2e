//! How a wait ends, and what is left of it then.

use super::*;
use ixion::{Cancelled, WaitError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

fn waiting<'a>(
    purgatory: &'a Waits,
    task: &Arc<Task>,
) -> impl Future<Output = Result<(), WaitError>> + Unpin + use<'a> {
    let mut wait = purgatory.wait(SECOND, [1, 2], || None);
    assert!(poll(task, &mut wait).is_pending());
    wait
}

#[test]
fn each_way_to_end_is_told_apart() {
    type Way = fn(&ManualClock, &Waits);
    let ways: [(Way, WaitError); 5] = [
        (
            |clock, purgatory| {
                clock.advance(SECOND);
                assert_eq!(purgatory.expire().expired, 1);
            },
            WaitError::Elapsed,
        ),
        (|_, purgatory| assert_eq!(purgatory.force_complete_for_key(&2), 1), WaitError::Forced),
        (|_, purgatory| assert_eq!(purgatory.cancel_for_key(&1).taken.len(), 1), WaitError::Cancelled),
        (|_, purgatory| assert_eq!(purgatory.shutdown(), 1), WaitError::Shutdown),
        (|_, purgatory| assert_eq!(purgatory.shutdown_and_hand_back().taken.len(), 1), WaitError::Shutdown),
    ];
    for (way, error) in ways {
        let (clock, purgatory) = waits();
        let task = Task::new();
        let mut wait = waiting(&purgatory, &task);
        way(&clock, &purgatory);
        assert_eq!(task.woken(), 1, "{error}");
        assert_eq!(poll(&task, &mut wait), Poll::Ready(Err(error)));
        assert_nothing_is_kept(&purgatory);
    }
}

#[test]
fn a_wait_for_which_there_is_no_room_is_told_so_unless_it_need_not_wait() {
    let purgatory: Waits = Purgatory::builder("full").clock(ManualClock::new()).capacity(1).build();
    let task = Task::new();
    let first = waiting(&purgatory, &task);
    let mut second = purgatory.wait(SECOND, [3], || None::<()>);
    assert_eq!(poll(&task, &mut second), Poll::Ready(Err(WaitError::Full)));
    let mut third = purgatory.wait(SECOND, [3], || Some(3));
    assert_eq!(poll(&task, &mut third), Poll::Ready(Ok(3)));
    // A look that says no does not cost a wait its room.
    let mut first = first;
    for _ in 0..3 {
        purgatory.check_and_complete(&1);
        assert!(poll(&task, &mut first).is_pending());
    }
    drop(first);
    let mut fourth = purgatory.wait(SECOND, [3], || None::<()>);
    assert!(poll(&task, &mut fourth).is_pending());
}

#[test]
fn after_a_shutdown_what_is_there_is_taken_and_nobody_waits() {
    let (_, purgatory) = waits();
    purgatory.shutdown();
    let task = Task::new();
    let mut queue = vec![1, 2];
    let mut taken = Vec::new();
    let end = loop {
        let mut wait = purgatory.wait(SECOND, [1], || queue.pop());
        match poll(&task, &mut wait) {
            Poll::Ready(Ok(item)) => taken.push(item),
            other => break other,
        }
    };
    assert_eq!((taken, end), (vec![2, 1], Poll::Ready(Err(WaitError::Shutdown))));
    assert_nothing_is_kept(&purgatory);
}

#[test]
fn a_value_that_the_last_look_finds_wins_over_the_timeout() {
    let (clock, purgatory) = waits();
    let (task, cell) = (Task::new(), Cell::new(false));
    let mut wait = purgatory.wait(SECOND, [1], set(&cell));
    assert!(poll(&task, &mut wait).is_pending());
    clock.advance(SECOND);
    assert_eq!(purgatory.expire().expired, 1);
    cell.set(true);
    assert_eq!(poll(&task, &mut wait), Poll::Ready(Ok("set")));
    assert_eq!(purgatory.stats().expired, 1, "the books say what was decided first");
    assert_nothing_is_kept(&purgatory);
}

#[test]
fn a_timeout_of_zero_is_up_at_the_next_drive() {
    let (_, purgatory) = waits();
    let task = Task::new();
    let mut wait = purgatory.wait(Duration::ZERO, [1], || None::<()>);
    assert!(poll(&task, &mut wait).is_pending());
    assert_eq!(purgatory.expire().expired, 1);
    assert_eq!(poll(&task, &mut wait), Poll::Ready(Err(WaitError::Elapsed)));
}

/// How far a wait has come when it is dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    New,
    Waits,
    Woken,
    TimeUp,
    Over,
}

#[test]
fn a_wait_can_be_dropped_at_any_stage_and_nothing_is_kept_of_it() {
    for stage in [Stage::New, Stage::Waits, Stage::Woken, Stage::TimeUp, Stage::Over] {
        let (clock, purgatory) = waits();
        let (task, in_look, in_key) = (Task::new(), Arc::new(()), Arc::new(()));
        let (of_look, of_key) = (Arc::clone(&in_look), Arc::clone(&in_key));
        let keys = [1, 2].into_iter().inspect(move |_| _ = &of_key);
        let mut wait = purgatory.wait(SECOND, keys, move || (Arc::strong_count(&of_look) > 2).then_some(()));
        let other = waiting(&purgatory, &Task::new());
        let mut kept = None;
        if stage != Stage::New {
            assert!(poll(&task, &mut wait).is_pending());
        }
        match stage {
            Stage::New | Stage::Waits => {}
            Stage::Woken => assert_eq!(purgatory.check_and_complete(&1), 0),
            Stage::TimeUp => {
                clock.advance(SECOND);
                assert_eq!(purgatory.expire().expired, 2);
            }
            Stage::Over => {
                kept = Some(Arc::clone(&in_look));
                assert!(poll(&task, &mut wait).is_ready());
            }
        }
        let woken = task.woken();
        assert_eq!(woken, usize::from(matches!(stage, Stage::Woken | Stage::TimeUp)), "{stage:?}");
        drop((wait, kept));
        assert_eq!(purgatory.len(), usize::from(stage != Stage::TimeUp), "{stage:?}: the other one waits on");
        purgatory.check_and_complete(&1);
        clock.advance(SECOND);
        let _ = purgatory.expire();
        assert_eq!(task.woken(), woken, "{stage:?}: nobody is woken for what is gone");
        let counts = [Arc::strong_count(&task), Arc::strong_count(&in_look), Arc::strong_count(&in_key)];
        assert_eq!(counts, [1, 1, 1], "{stage:?}: wakers, look and keys are dropped");
        drop(other);
        assert_nothing_is_kept(&purgatory);
        assert_eq!(purgatory.stats().cancelled, u64::from(matches!(stage, Stage::Waits | Stage::Woken)));
    }
}

#[test]
fn a_callback_may_drop_a_wait_that_is_due_at_the_same_time() {
    let (clock, purgatory) = waits();
    /// Drops what it has when it is woken.
    struct Dropper(Mutex<Option<Box<dyn Send>>>);
    impl Wake for Dropper {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().unwrap().take());
        }
    }
    let purgatory = Arc::new(purgatory);
    let task = Task::new();
    let mut victim = Arc::clone(&purgatory).wait_owned(SECOND, [1], || None::<()>);
    assert!(poll(&task, &mut victim).is_pending());
    let dropper = Arc::new(Dropper(Mutex::new(Some(Box::new(victim)))));
    let mut wait = purgatory.wait(SECOND, [2], || None::<()>);
    assert!(poll_with(&Waker::from(dropper), &mut wait).is_pending());
    clock.advance(SECOND);
    assert_eq!(purgatory.expire().expired, 2);
    assert_nothing_is_kept(&purgatory);
    assert_eq!(Arc::strong_count(&task), 1);
}

#[test]
fn a_look_that_panics_leaves_nothing_behind() {
    for looks_before in 0..3 {
        let (_, purgatory) = waits();
        let (task, looks) = (Task::new(), Cell::new(0));
        let look = || -> Option<()> {
            looks.set(looks.get() + 1);
            assert!(looks.get() <= looks_before, "a look that panics");
            None
        };
        let mut wait = purgatory.wait(SECOND, [1, 2], look);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            while poll(&task, &mut wait).is_pending() {
                purgatory.check_and_complete(&1);
            }
        }));
        assert!(panicked.is_err());
        drop(wait);
        assert_nothing_is_kept(&purgatory);
        assert_eq!(Arc::strong_count(&task), 1);
        assert_eq!(purgatory.stats().panics, 0, "it is the task's own");
    }
}

#[test]
fn keys_that_panic_end_the_wait() {
    let (_, purgatory) = waits();
    let task = Task::new();
    let keys = [1, 2].into_iter().inspect(|key| assert!(*key < 2, "a key that panics"));
    let mut wait = purgatory.wait(SECOND, keys, || None::<()>);
    assert!(catch_unwind(AssertUnwindSafe(|| poll(&task, &mut wait))).is_err());
    assert_nothing_is_kept(&purgatory);
    assert_eq!(format!("{wait:?}"), "Wait { state: over, .. }");
}

#[test]
#[should_panic(expected = "polled after it had ended")]
fn a_wait_that_is_over_is_not_to_be_polled() {
    let (_, purgatory) = waits();
    let mut wait = purgatory.wait(SECOND, [1], || Some(1));
    assert!(poll(&Task::new(), &mut wait).is_ready());
    let _ = poll(&Task::new(), &mut wait);
}

#[test]
fn an_operation_that_is_taken_out_wakes_its_task_where_it_is_registered_next() {
    let (_, purgatory) = waits();
    let (clock, elsewhere) = waits();
    let (task, cell) = (Task::new(), Cell::new(false));
    let mut wait = purgatory.wait(SECOND, [1], set(&cell));
    assert!(poll(&task, &mut wait).is_pending());
    let Cancelled::Taken(op) = purgatory.cancel_first(&1) else { panic!("nobody is inside") };
    let _ = elsewhere.try_complete_else_watch(op, SECOND, [9]).unwrap();
    assert_eq!(task.woken(), 1, "by the looks of the registration");
    assert!(poll(&task, &mut wait).is_pending());
    cell.set(true);
    elsewhere.check_and_complete(&9);
    assert_eq!(task.woken(), 2);
    assert_eq!(poll(&task, &mut wait), Poll::Ready(Ok("set")));
    // The future knows nothing of that place; the next event there finds that it is over.
    assert_eq!(elsewhere.len(), 1);
    assert_eq!(elsewhere.check_and_complete(&9), 1);
    clock.advance(SECOND);
    assert_eq!(elsewhere.expire().expired, 0);
    assert_nothing_is_kept(&elsewhere);
    assert_nothing_is_kept(&purgatory);
}

#[test]
fn what_waits_and_what_came_of_it_can_be_printed() {
    let (_, purgatory) = waits();
    let mut wait = purgatory.wait(SECOND, [1], || None::<()>);
    assert_eq!(format!("{wait:?}"), "Wait { state: not polled yet, .. }");
    assert!(poll(&Task::new(), &mut wait).is_pending());
    assert_eq!(format!("{wait:?}"), "Wait { state: waits, .. }");
    let op = purgatory.cancel_first(&1).taken().unwrap();
    assert_eq!(format!("{op:?}"), "Waiting { .. }");
    let errors =
        [WaitError::Elapsed, WaitError::Forced, WaitError::Cancelled, WaitError::Shutdown, WaitError::Full];
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "the time is up",
            "the wait was ended by force",
            "the wait was cancelled",
            "the purgatory has been shut down",
            "the purgatory is full"
        ]
    );
}
