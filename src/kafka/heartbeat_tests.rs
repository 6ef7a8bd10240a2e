//! The rules h1 to h6 of sessions, with a small group on a clock that is moved by hand.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::*;
use crate::{ManualClock, OperationId, Purgatory};

const SESSION: Duration = Duration::from_secs(10);
const SECOND: Duration = Duration::from_secs(1);

/// The members of a group, with what they are about. A callback that ran with its lock held would find it borrowed.
type Members = Rc<RefCell<BTreeMap<u32, Phase>>>;

struct Member(Members, u32);

impl SessionMember for Member {
    fn is_gone(&self) -> bool {
        !self.0.borrow().contains_key(&self.1)
    }
}

type Answer = Box<dyn FnOnce(Outcome, Member)>;

struct Group {
    clock: ManualClock,
    purgatory: Purgatory<u32, DelayedHeartbeat<Member, Answer>>,
    members: Members,
    /// Each end: the member, the outcome, and whether the member was still there.
    ends: Rc<RefCell<Vec<(u32, Outcome, bool)>>>,
}

impl Group {
    fn new() -> Self {
        let clock = ManualClock::new();
        Group {
            purgatory: Purgatory::builder("Heartbeat").clock(clock.clone()).build(),
            clock,
            members: Rc::default(),
            ends: Rc::default(),
        }
    }

    /// Takes a member in and begins its session.
    fn admit(&self, name: u32, phase: Phase) -> OperationId {
        self.members.borrow_mut().insert(name, phase);
        let ends = Rc::clone(&self.ends);
        let answer: Answer = Box::new(move |outcome, Member(members, name)| {
            let was_there = outcome == Outcome::Expired && members.borrow_mut().remove(&name).is_some();
            ends.borrow_mut().push((name, outcome, was_there));
        });
        let op = DelayedHeartbeat::new(Member(Rc::clone(&self.members), name), answer);
        let timeout = phase.timeout(SESSION);
        let registration = self.purgatory.try_complete_else_watch(op, timeout, [name]).expect("open");
        registration.id().expect("the member is there")
    }

    /// Something is heard of a member, which is in this phase from now on. Under the group's lock.
    fn hear(&self, name: u32, session: OperationId, phase: Phase) -> bool {
        let mut members = self.members.borrow_mut();
        let is_in_time = self.purgatory.reset_timeout(session, phase.timeout(SESSION));
        if is_in_time {
            members.insert(name, phase);
        }
        is_in_time
    }

    fn after(&self, time: Duration) -> Vec<(u32, Outcome, bool)> {
        self.clock.advance(time);
        while self.purgatory.expire().more {}
        self.ends.take()
    }
}

#[test]
fn a_member_has_one_session_from_the_day_its_id_is_handed_out() {
    // h1
    let group = Group::new();
    let session = group.admit(1, Phase::Pending);
    for phase in [Phase::New, Phase::Live, Phase::Parked, Phase::Live] {
        assert!(group.hear(1, session, phase));
        assert_eq!((group.purgatory.len(), group.purgatory.watched()), (1, 1));
    }
    assert_eq!(group.after(SESSION), [(1, Outcome::Expired, true)]);
    assert!(group.purgatory.is_empty());
}

#[test]
fn an_id_that_nobody_joins_with_expires_like_a_member() {
    // h1
    let group = Group::new();
    group.admit(1, Phase::Pending);
    assert_eq!(group.after(SESSION - SECOND), []);
    assert_eq!(group.after(SECOND), [(1, Outcome::Expired, true)]);
}

#[test]
fn each_heartbeat_counts_the_whole_session_timeout_from_then() {
    // h2
    let group = Group::new();
    let session = group.admit(1, Phase::Live);
    for _ in 0..100 {
        assert_eq!(group.after(SESSION - Duration::from_millis(1)), []);
        assert!(group.hear(1, session, Phase::Live));
    }
    assert_eq!(group.after(SESSION - Duration::from_millis(1)), []);
    assert_eq!(group.after(Duration::from_millis(1)), [(1, Outcome::Expired, true)]);
    let stats = group.purgatory.stats();
    assert_eq!((stats.registered, stats.expired), (1, 1), "one operation for a hundred heartbeats");
}

#[test]
fn what_was_heard_before_the_session_began_counts_when_its_id_is_stored() {
    // h2a. The rebalance in which the member is new ends before its session begins.
    let group = Group::new();
    let session = group.admit(1, Phase::New);
    let by_now = Phase::Live;
    assert!(group.hear(1, session, by_now));
    assert_eq!(group.after(SESSION), [(1, Outcome::Expired, true)]);
}

#[test]
fn a_heartbeat_after_the_end_of_its_session_is_told_so() {
    // h3
    let group = Group::new();
    let session = group.admit(1, Phase::Live);
    assert_eq!(group.after(SESSION).len(), 1);
    assert!(!group.hear(1, session, Phase::Live));
    assert!(group.members.borrow().is_empty());
}

#[test]
fn a_heartbeat_that_comes_before_the_drive_wins_though_the_time_is_up() {
    // h3
    let group = Group::new();
    let session = group.admit(1, Phase::Live);
    group.clock.advance(SESSION);
    assert!(group.hear(1, session, Phase::Live));
    assert_eq!(group.after(SESSION - SECOND), []);
    assert_eq!(group.after(SECOND).len(), 1);
}

#[test]
fn a_heartbeat_from_a_callback_of_the_drive_that_expires_its_session_is_too_late() {
    // h3. Both sessions are due at the same tick, and decided before the first answer.
    let group = Rc::new(Group::new());
    let session = Rc::new(RefCell::new(None));
    let (beside, other) = (Rc::clone(&group), Rc::clone(&session));
    let answer: Answer = Box::new(move |_, _| {
        let session = other.borrow().expect("it has begun");
        assert!(!beside.hear(2, session, Phase::Live));
    });
    group.members.borrow_mut().insert(1, Phase::Live);
    let first = DelayedHeartbeat::new(Member(Rc::clone(&group.members), 1), answer);
    // On the same key, so that both are in one shard and decided in one step.
    let _ = group.purgatory.try_complete_else_watch(first, SESSION, [2]).expect("open");
    *session.borrow_mut() = Some(group.admit(2, Phase::Live));
    assert_eq!(group.after(SESSION), [(2, Outcome::Expired, true)]);
}

#[test]
fn a_member_that_waits_for_its_answer_is_not_expected_to_send_anything() {
    // h4
    let group = Group::new();
    let session = group.admit(1, Phase::Live);
    assert!(group.hear(1, session, Phase::Parked));
    assert_eq!(group.after(SESSION * 10_000), []);
    assert!(group.hear(1, session, Phase::Live), "its join is answered");
    assert_eq!(group.after(SESSION), [(1, Outcome::Expired, true)]);
}

#[test]
fn a_new_member_may_wait_five_minutes_whatever_its_session_timeout() {
    // h4a
    for session_timeout in [SECOND, SESSION, Duration::from_secs(1800)] {
        assert_eq!(Phase::New.timeout(session_timeout), Duration::from_secs(300));
    }
    let group = Group::new();
    group.admit(1, Phase::New);
    assert_eq!(group.after(NEW_MEMBER_TIMEOUT - SECOND), []);
    assert_eq!(group.after(SECOND), [(1, Outcome::Expired, true)]);
}

#[test]
fn the_session_of_a_removed_member_is_over_when_it_is_signalled_and_its_timer_never_fires() {
    // h5
    let group = Group::new();
    let session = group.admit(1, Phase::Live);
    group.admit(2, Phase::Live);
    group.members.borrow_mut().remove(&1);
    assert_eq!(group.purgatory.check_and_complete(&1), 1);
    assert_eq!(group.ends.take(), [(1, Outcome::Satisfied, false)]);
    assert!(!group.hear(1, session, Phase::Live));
    assert_eq!(group.purgatory.check_and_complete(&2), 0, "the other's goes on");
    assert_eq!(group.after(SESSION), [(2, Outcome::Expired, true)]);
}

#[test]
fn an_expiry_finds_that_its_member_has_left_if_the_leave_was_first() {
    // h6
    let group = Group::new();
    group.admit(1, Phase::Live);
    group.members.borrow_mut().remove(&1); // not signalled yet
    assert_eq!(group.after(SESSION), [(1, Outcome::Expired, false)]);
}
