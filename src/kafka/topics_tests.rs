//! The rules t1 to t6 of delayed requests about topics, each with a state made by hand.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use super::*;
use crate::{DelayedOperation, ManualClock, Purgatory};

/// A topic with so much left to do.
#[derive(Clone, Default)]
struct Hand(Rc<Cell<usize>>);

impl TopicWork for Hand {
    fn outstanding(&self) -> usize {
        self.0.get()
    }
}

type Statuses = Vec<TopicStatus<Hand>>;
type Answer = Rc<RefCell<Option<(Outcome, Vec<ErrorCode>)>>>;
type Create = DelayedCreatePartitions<Hand, Box<dyn FnOnce(Outcome, Statuses)>>;

fn hand(outstanding: usize) -> Hand {
    Hand(Rc::new(Cell::new(outstanding)))
}

fn create(statuses: Statuses) -> (Create, Answer) {
    let answer = Answer::default();
    let slot = Rc::clone(&answer);
    let end = move |outcome, statuses: Statuses| {
        *slot.borrow_mut() = Some((outcome, statuses.iter().map(|status| status.error).collect()));
    };
    (DelayedCreatePartitions::new(statuses, Box::new(end)), answer)
}

#[test]
fn a_request_waits_only_if_it_has_time_and_something_was_begun() {
    // t1
    let begun = || TopicStatus::begun(());
    let refused = || TopicStatus::decided((), ErrorCode::TOPIC_ALREADY_EXISTS);
    assert!(must_wait(1, &[refused(), begun()]));
    assert!(!must_wait(0, &[begun()]) && !must_wait(-1, &[begun()]));
    assert!(!must_wait(30_000, &[refused()]) && !must_wait::<()>(30_000, &[]));
    assert_eq!(begun().error, ErrorCode::REQUEST_TIMED_OUT, "which is what is answered without time");
}

#[test]
fn a_request_that_is_only_validated_waits_for_nothing() {
    // t2
    assert!(!must_wait(30_000, &[TopicStatus::decided((), ErrorCode::NONE)]));
}

#[test]
fn topics_are_done_when_nothing_is_left_to_do_for_them() {
    // t3 and t6
    let purgatory = Purgatory::builder("topic").clock(ManualClock::new()).build();
    let topics = [hand(2), hand(1)];
    let mut statuses: Statuses = topics.iter().cloned().map(TopicStatus::begun).collect();
    statuses.push(TopicStatus::decided(hand(7), ErrorCode::INVALID_PARTITIONS));
    let (op, answer) = create(statuses);
    let watches = op.watches(|topic| topics.iter().position(|other| Rc::ptr_eq(&topic.0, &other.0)));
    assert_eq!(watches.len(), 2);
    let _ = purgatory.try_complete_else_watch_at(op, Duration::from_secs(30), watches).expect("it is open");
    for (topic, left, ends) in [(0, 1, 0), (0, 0, 0), (1, 0, 1)] {
        topics[topic].0.set(left);
        assert_eq!(purgatory.check_and_complete(&topic), ends);
    }
    let errors = vec![ErrorCode::NONE, ErrorCode::NONE, ErrorCode::INVALID_PARTITIONS];
    assert_eq!(answer.take(), Some((Outcome::Satisfied, errors)));
}

#[test]
fn what_was_done_without_a_signal_is_done_when_the_time_is_up() {
    // t4
    let topics = [hand(1), hand(1)];
    let (mut op, answer) = create(topics.iter().cloned().map(TopicStatus::begun).collect());
    assert!(!op.try_complete());
    topics[1].0.set(0);
    op.on_complete(Outcome::Expired);
    let errors = vec![ErrorCode::REQUEST_TIMED_OUT, ErrorCode::NONE];
    assert_eq!(answer.take(), Some((Outcome::Expired, errors)));
}

#[test]
fn nobody_is_asked_at_an_end_that_is_not_the_time() {
    // t4: after a panic the topic may panic again, and the answer would be lost
    for outcome in [Outcome::Panicked, Outcome::Shutdown, Outcome::Forced] {
        let (op, answer) = create(vec![TopicStatus::begun(hand(0))]);
        op.on_complete(outcome);
        assert_eq!(answer.take(), Some((outcome, vec![ErrorCode::REQUEST_TIMED_OUT])));
    }
}

#[test]
fn a_topic_that_is_done_stays_done() {
    // t5
    let topics = [hand(0), hand(1)];
    let (mut op, answer) = create(topics.iter().cloned().map(TopicStatus::begun).collect());
    assert!(!op.try_complete());
    topics[0].0.set(3); // another request has begun
    op.on_complete(Outcome::Expired);
    let errors = vec![ErrorCode::NONE, ErrorCode::REQUEST_TIMED_OUT];
    assert_eq!(answer.take(), Some((Outcome::Expired, errors)));
}
