//! The rules s1 to s6 of generations that wait for their members' syncs.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use super::*;
use crate::{ManualClock, Purgatory};

const REBALANCE_TIMEOUT: Duration = Duration::from_secs(60);

/// A group made by hand. A callback that ran with its lock held would find it borrowed.
struct Group(RefCell<Standing>);

impl SyncGroup for Rc<Group> {
    fn sync_standing(&self) -> Standing {
        *self.0.borrow()
    }
}

const fn syncing(id: i32, unsynced: usize) -> Standing {
    Standing::Generation { id, unsynced }
}

type Answer = Box<dyn FnOnce(Outcome, Rc<Group>)>;

/// The wait of generation 7 with two members that have not synced.
struct Wait {
    clock: ManualClock,
    purgatory: Purgatory<u32, DelayedSync<Rc<Group>, Answer>>,
    group: Rc<Group>,
    /// The outcome, and whether members are to be removed.
    end: Rc<Cell<Option<(Outcome, bool)>>>,
}

impl Wait {
    fn new() -> Self {
        let (clock, end) = (ManualClock::new(), Rc::new(Cell::new(None)));
        let wait = Wait {
            purgatory: Purgatory::builder("Sync").clock(clock.clone()).build(),
            clock,
            group: Rc::new(Group(RefCell::new(syncing(7, 2)))),
            end: Rc::clone(&end),
        };
        let answer: Answer = Box::new(move |outcome, group| {
            let standing = group.0.borrow_mut();
            end.set(Some((outcome, must_expel(outcome, *standing, 7))));
        });
        let op = DelayedSync::new(Rc::clone(&wait.group), 7, answer);
        let registration =
            wait.purgatory.try_complete_else_watch(op, REBALANCE_TIMEOUT, [7]).expect("it is open");
        assert!(registration.id().is_some(), "it waits");
        wait
    }

    /// Changes the group and signals it afterwards.
    fn becomes(&self, standing: Standing) -> Option<(Outcome, bool)> {
        *self.group.0.borrow_mut() = standing;
        self.purgatory.check_and_complete(&7);
        self.end.take()
    }
}

#[test]
fn a_generation_waits_for_as_long_as_its_rebalance_timeout() {
    // s1
    let wait = Wait::new();
    wait.clock.advance(REBALANCE_TIMEOUT - Duration::from_millis(1));
    assert_eq!((wait.purgatory.expire().expired, wait.end.take()), (0, None));
    wait.clock.advance(Duration::from_millis(1));
    assert_eq!((wait.purgatory.expire().expired, wait.end.take()), (1, Some((Outcome::Expired, true))));
}

#[test]
fn the_last_members_sync_ends_the_wait_and_needs_no_action() {
    // s2, s4 and s6
    let wait = Wait::new();
    assert_eq!(wait.becomes(syncing(7, 1)), None);
    assert_eq!(wait.becomes(syncing(7, 0)), Some((Outcome::Satisfied, false)));
    assert!(wait.purgatory.is_empty() && wait.purgatory.watched() == 0);
}

#[test]
fn another_generation_or_none_makes_the_wait_void() {
    // s3 and s4
    for standing in [syncing(8, 2), syncing(6, 2), Standing::NoGeneration] {
        assert_eq!(Wait::new().becomes(standing), Some((Outcome::Satisfied, false)), "{standing:?}");
    }
}

#[test]
fn nobody_is_removed_if_the_last_sync_or_a_rebalance_comes_before_the_answer_has_the_lock() {
    // s5
    for standing in [syncing(7, 0), syncing(8, 2), Standing::NoGeneration] {
        let wait = Wait::new();
        *wait.group.0.borrow_mut() = standing; // not signalled yet
        wait.clock.advance(REBALANCE_TIMEOUT);
        assert_eq!(wait.purgatory.expire().expired, 1);
        assert_eq!(wait.end.take(), Some((Outcome::Expired, false)), "{standing:?}");
    }
}

#[test]
fn only_a_wait_whose_time_is_up_removes_anybody() {
    // s4 and s5
    for outcome in [Outcome::Satisfied, Outcome::Forced, Outcome::Cancelled, Outcome::Shutdown] {
        assert!(!must_expel(outcome, syncing(7, 2), 7), "{outcome:?}");
    }
    assert!(must_expel(Outcome::Expired, syncing(7, 2), 7));
}
