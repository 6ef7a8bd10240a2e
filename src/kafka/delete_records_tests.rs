//! The rules d1 to d6 of delayed DeleteRecords requests, each with a state made by hand.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use super::*;
use crate::{ManualClock, Outcome, Purgatory};

/// A partition whose standing is set by hand.
#[derive(Clone)]
struct Hand(Rc<Cell<Standing>>);

impl DeletePartition for Hand {
    fn delete_standing(&self) -> Standing {
        self.0.get()
    }
}

const fn leader(low_watermark: i64) -> Standing {
    Standing::Leader { low_watermark }
}

fn hand(standing: Standing) -> Hand {
    Hand(Rc::new(Cell::new(standing)))
}

type Answer = Rc<RefCell<Option<(Outcome, Vec<(ErrorCode, i64)>)>>>;
type Statuses = Vec<PartitionStatus<Hand>>;
type Delete = DelayedDeleteRecords<Hand, Box<dyn FnOnce(Outcome, Statuses)>>;

struct Server {
    clock: ManualClock,
    purgatory: Purgatory<usize, Delete>,
}

impl Server {
    fn new() -> Self {
        let clock = ManualClock::new();
        Server { purgatory: Purgatory::builder("DeleteRecords").clock(clock.clone()).build(), clock }
    }

    /// Waits on a key for each of the partitions, by their places.
    fn wait(&self, statuses: Statuses) -> Answer {
        let answer = Answer::default();
        let slot = Rc::clone(&answer);
        let partitions: Vec<Hand> = statuses.iter().map(|status| status.partition.clone()).collect();
        let end = move |outcome, statuses: Statuses| {
            let parts = statuses.iter().map(|status| (status.error, status.low_watermark)).collect();
            *slot.borrow_mut() = Some((outcome, parts));
        };
        let op: Delete = DelayedDeleteRecords::new(statuses, Box::new(end));
        let watches = op.watches(|hand| partitions.iter().position(|other| Rc::ptr_eq(&hand.0, &other.0)));
        let registration = self.purgatory.try_complete_else_watch_at(op, Duration::from_secs(30), watches);
        assert!(registration.expect("it is open").id().is_some(), "it waits");
        answer
    }
}

#[test]
fn only_a_low_watermark_below_the_requested_offset_must_be_waited_for() {
    // d1
    let deleted = |low_watermark| PartitionStatus::deleted((), 100, low_watermark);
    let failed = || PartitionStatus::failed((), ErrorCode::OFFSET_OUT_OF_RANGE);
    assert!(must_wait(&[deleted(100), deleted(99)]));
    assert!(must_wait(&[failed(), deleted(99)]));
    assert!(!must_wait(&[deleted(100), deleted(101)]));
    assert!(!must_wait(&[failed()]));
    assert!(!must_wait::<()>(&[]));
    assert_eq!((deleted(100).error, deleted(100).pending), (ErrorCode::NONE, false));
    assert_eq!((deleted(99).error, deleted(99).pending), (ErrorCode::REQUEST_TIMED_OUT, true));
    let failed = failed();
    assert_eq!((failed.error, failed.low_watermark), (ErrorCode::OFFSET_OUT_OF_RANGE, -1));
    assert_eq!((failed.requested_offset, failed.pending), (0, false));
}

#[test]
fn the_low_watermark_is_the_least_log_start_of_the_leader_and_the_live_replicas() {
    // d2
    assert_eq!(low_watermark(50, [70, 60]), 50);
    assert_eq!(low_watermark(70, [50, 60]), 50);
    assert_eq!(low_watermark(70, []), 70, "a leader whose replicas are all down does not wait");
}

#[test]
fn a_partition_that_is_gone_or_led_elsewhere_gets_its_error_and_no_low_watermark() {
    // d3 and d3a
    for error in [ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, ErrorCode::KAFKA_STORAGE_ERROR] {
        assert_eq!(decide(Standing::Absent(error), 0), Some((error, -1)));
    }
    assert_eq!(decide(Standing::Follower, 0), Some((ErrorCode::NOT_LEADER_OR_FOLLOWER, -1)));
}

#[test]
fn a_partition_is_done_when_its_low_watermark_has_reached_the_requested_offset() {
    // d4
    assert_eq!(decide(leader(99), 100), None);
    assert_eq!(decide(leader(100), 100), Some((ErrorCode::NONE, 100)));
    assert_eq!(decide(leader(120), 100), Some((ErrorCode::NONE, 120)), "with what it is by then");
}

#[test]
fn a_request_whose_time_is_up_mixes_what_is_done_with_the_low_watermarks_it_began_with() {
    // d5
    let server = Server::new();
    let (done, waits) = (hand(leader(10)), hand(leader(10)));
    let answer = server.wait(vec![
        PartitionStatus::deleted(done.clone(), 100, 10),
        PartitionStatus::deleted(waits.clone(), 100, 10),
        PartitionStatus::failed(hand(Standing::Follower), ErrorCode::OFFSET_OUT_OF_RANGE),
    ]);
    done.0.set(leader(100));
    waits.0.set(leader(60));
    assert_eq!(server.purgatory.check_and_complete(&0), 0);
    server.clock.advance(Duration::from_secs(30));
    assert_eq!(server.purgatory.expire().expired, 1);
    let parts = vec![
        (ErrorCode::NONE, 100),
        (ErrorCode::REQUEST_TIMED_OUT, 10),
        (ErrorCode::OFFSET_OUT_OF_RANGE, -1),
    ];
    assert_eq!(answer.take(), Some((Outcome::Expired, parts)));
}

#[test]
fn a_low_watermark_that_rises_far_enough_ends_the_wait() {
    // d6
    let server = Server::new();
    let partition = hand(leader(0));
    let answer = server.wait(vec![PartitionStatus::deleted(partition.clone(), 100, 0)]);
    for (low_watermark, ends) in [(50, 0), (99, 0), (100, 1)] {
        partition.0.set(leader(low_watermark));
        let progress = low_watermark.unsigned_abs();
        assert_eq!(server.purgatory.check_and_complete_up_to(&0, progress), ends, "at {low_watermark}");
    }
    assert_eq!(answer.take(), Some((Outcome::Satisfied, vec![(ErrorCode::NONE, 100)])));
    assert!(server.purgatory.is_empty() && server.purgatory.watched() == 0);
}

#[test]
fn the_loss_of_leadership_ends_the_wait_at_once() {
    // d6. Kafka looks for this and gives no signal of it (B6).
    let server = Server::new();
    let partition = hand(leader(0));
    let answer = server.wait(vec![PartitionStatus::deleted(partition.clone(), 100, 0)]);
    partition.0.set(Standing::Follower);
    assert_eq!(server.purgatory.check_and_complete(&0), 1);
    let parts = vec![(ErrorCode::NOT_LEADER_OR_FOLLOWER, -1)];
    assert_eq!(answer.take(), Some((Outcome::Satisfied, parts)));
}
