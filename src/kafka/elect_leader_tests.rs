//! The rules e1 to e5 of delayed elections, each with a state made by hand.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::*;
use crate::{DelayedOperation, ManualClock, Purgatory};

/// A partition with the leader that the metadata shows.
#[derive(Clone)]
struct Shown(Rc<Cell<Option<i32>>>);

impl ElectedPartition for Shown {
    fn leader(&self) -> Option<i32> {
        self.0.get()
    }
}

type Statuses = Vec<PartitionStatus<Shown>>;
type Answer = Rc<RefCell<Option<(Outcome, Vec<ErrorCode>)>>>;
type Elect = DelayedElectLeader<Shown, Box<dyn FnOnce(Outcome, Statuses)>>;

fn shown(leader: Option<i32>) -> Shown {
    Shown(Rc::new(Cell::new(leader)))
}

fn elect(statuses: Statuses) -> (Elect, Answer) {
    let answer = Answer::default();
    let slot = Rc::clone(&answer);
    let end = move |outcome, statuses: Statuses| {
        *slot.borrow_mut() = Some((outcome, statuses.iter().map(|status| status.error).collect()));
    };
    (DelayedElectLeader::new(statuses, Box::new(end)), answer)
}

#[test]
fn an_election_waits_for_what_is_left_of_its_request() {
    // e1
    let seconds = Duration::from_secs;
    assert_eq!(time_left(seconds(30), seconds(12)), seconds(18));
    assert_eq!(time_left(seconds(30), seconds(31)), Duration::ZERO);
    assert_eq!(time_left(Duration::MAX, seconds(31)), Duration::MAX - seconds(31));
}

#[test]
fn only_the_leader_that_was_elected_counts() {
    // e2
    assert!(decide(Some(2), 2));
    assert!(!decide(Some(1), 2), "from before the election");
    assert!(!decide(None, 2));
}

#[test]
fn a_partition_without_an_election_is_decided_from_the_beginning() {
    // e3
    let status = PartitionStatus::decided(shown(Some(9)), ErrorCode::LEADER_NOT_AVAILABLE);
    assert_eq!((status.elected, status.pending), (-1, false));
    let (mut op, answer) = elect(vec![status]);
    assert!(op.try_complete());
    op.on_complete(Outcome::Satisfied);
    assert_eq!(answer.take(), Some((Outcome::Satisfied, vec![ErrorCode::LEADER_NOT_AVAILABLE])));
}

#[test]
fn who_is_shown_by_the_end_counts_though_nobody_was_told_and_the_others_are_timed_out() {
    // e4
    let partitions = [shown(None), shown(None)];
    let statuses = || partitions.iter().map(|shown| PartitionStatus::elected(shown.clone(), 2)).collect();
    for (outcome, first) in
        [(Outcome::Expired, ErrorCode::NONE), (Outcome::Panicked, ErrorCode::REQUEST_TIMED_OUT)]
    {
        partitions[0].0.set(None);
        let (mut op, answer) = elect(statuses());
        assert!(!op.try_complete());
        partitions[0].0.set(Some(2));
        op.on_complete(outcome);
        assert_eq!(answer.take(), Some((outcome, vec![first, ErrorCode::REQUEST_TIMED_OUT])));
    }
}

#[test]
fn an_update_of_the_metadata_ends_the_wait_whatever_it_shows_later() {
    // e2 and e5
    let purgatory = Purgatory::builder("ElectLeader").clock(ManualClock::new()).build();
    let partitions = [shown(Some(1)), shown(Some(1))];
    let statuses = partitions.iter().map(|shown| PartitionStatus::elected(shown.clone(), 2));
    let (op, answer) = elect(statuses.collect());
    let watches = op.watches(|shown| partitions.iter().position(|other| Rc::ptr_eq(&shown.0, &other.0)));
    let _ = purgatory.try_complete_else_watch_at(op, Duration::from_secs(18), watches).expect("it is open");
    partitions[0].0.set(Some(2));
    assert_eq!(purgatory.check_and_complete(&0), 0);
    partitions[0].0.set(Some(3)); // the next election
    partitions[1].0.set(Some(2));
    assert_eq!(purgatory.check_and_complete(&1), 1);
    assert_eq!(answer.take(), Some((Outcome::Satisfied, vec![ErrorCode::NONE; 2])));
}
