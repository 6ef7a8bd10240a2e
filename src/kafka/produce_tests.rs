//! Kafka's rules for delayed produce requests, each with a state made by hand.
//! The numbers "2.1 case n" are those of the rules p1 to p13 at the head of the module.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use super::*;
use crate::{DelayedOperation, ManualClock, Outcome, Purgatory, Watch};

/// A partition whose standing is set by hand and which counts how often it is asked.
#[derive(Clone)]
struct Hand {
    standing: Rc<Cell<Standing>>,
    asked: Rc<Cell<u32>>,
}

impl ProducePartition for Hand {
    fn standing(&self) -> Standing {
        self.asked.set(self.asked.get() + 1);
        self.standing.get()
    }
}

fn leader(high_watermark: i64, in_sync: usize, min_in_sync: usize) -> Standing {
    Standing::Leader { high_watermark, in_sync, min_in_sync }
}

fn hand(standing: Standing) -> Hand {
    Hand { standing: Rc::new(Cell::new(standing)), asked: Rc::default() }
}

type Answer = Rc<Cell<Option<(Outcome, Vec<ErrorCode>, usize)>>>;

type Produce = DelayedProduce<Hand, Box<dyn FnOnce(Outcome, Vec<PartitionStatus<Hand>>)>>;

/// The operation, and where its answer will be: outcome, errors, number of statuses still pending.
fn produce(statuses: Vec<PartitionStatus<Hand>>) -> (Produce, Answer) {
    let answer = Answer::default();
    let slot = answer.clone();
    let op = move |outcome, statuses: Vec<PartitionStatus<Hand>>| {
        let pending = statuses.iter().filter(|status| status.pending).count();
        slot.set(Some((outcome, statuses.iter().map(|status| status.error).collect(), pending)));
    };
    (DelayedProduce::new(statuses, Box::new(op)), answer)
}

#[test]
fn only_acks_all_with_an_appended_partition_must_wait() {
    // 2.1 case 1
    let appended = || PartitionStatus::appended((), 4);
    let failed = || PartitionStatus::failed((), ErrorCode::NOT_ENOUGH_REPLICAS);
    assert!(must_wait(-1, &[appended()]));
    assert!(must_wait(-1, &[failed(), appended()]), "one appended partition is enough");
    assert!(!must_wait(-1, &[failed(), failed()]), "nothing was appended");
    assert!(!must_wait::<()>(-1, &[]), "no partition at all");
    for acks in [0, 1, 2, -2, i16::MAX, i16::MIN] {
        assert!(!must_wait(acks, &[appended()]), "acks={acks}");
    }
}

#[test]
fn the_required_offset_is_one_past_the_last_appended_one() {
    // 2.1 case 2
    assert_eq!(PartitionStatus::appended((), 41).required_offset, 42);
    assert_eq!(PartitionStatus::appended((), i64::MAX).required_offset, i64::MAX, "and does not wrap");
}

#[test]
fn an_appended_partition_is_provisionally_timed_out_and_a_failed_one_keeps_its_error() {
    // 2.1 case 3
    let appended = PartitionStatus::appended((), 1);
    assert_eq!((appended.error, appended.pending), (ErrorCode::REQUEST_TIMED_OUT, true));
    let failed = PartitionStatus::failed((), ErrorCode::CORRUPT_MESSAGE);
    assert_eq!((failed.error, failed.pending), (ErrorCode::CORRUPT_MESSAGE, false));
}

#[test]
fn the_minimum_in_sync_is_never_more_than_the_replicas() {
    // 2.1 case 4
    assert_eq!(effective_min_in_sync(2, 3), 2);
    assert_eq!(effective_min_in_sync(3, 1), 1);
}

#[test]
fn a_partition_that_is_gone_gets_the_error_that_says_why() {
    // 2.1 case 5 (A)
    for error in [
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode::KAFKA_STORAGE_ERROR,
        ErrorCode::NOT_LEADER_OR_FOLLOWER,
    ] {
        assert_eq!(decide(Standing::Absent(error), 10), Some(error));
    }
}

#[test]
fn a_partition_that_another_server_leads_gets_not_leader() {
    // 2.1 case 6 (B)
    assert_eq!(decide(Standing::Follower, 0), Some(ErrorCode::NOT_LEADER_OR_FOLLOWER));
}

#[test]
fn a_partition_below_its_required_offset_stays_pending() {
    // 2.1 case 7 (C), high watermark below
    assert_eq!(decide(leader(9, 3, 2), 10), None);
    assert_eq!(decide(leader(9, 1, 2), 10), None, "however few are in sync");
}

#[test]
fn a_replicated_partition_with_enough_replicas_in_sync_succeeds() {
    // 2.1 case 7a
    assert_eq!(decide(leader(10, 2, 2), 10), Some(ErrorCode::NONE));
    assert_eq!(decide(leader(99, 3, 2), 10), Some(ErrorCode::NONE));
}

#[test]
fn a_replicated_partition_with_too_few_replicas_in_sync_says_so_after_the_append() {
    // 2.1 case 7b, and case 11: it needs a watermark that had passed before the replicas fell out
    assert_eq!(decide(leader(10, 1, 2), 10), Some(ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND));
}

#[test]
fn a_decision_sticks_whatever_happens_to_the_partition_later() {
    // 2.1 case 8
    let (done, waiting) = (hand(leader(10, 2, 2)), hand(leader(0, 2, 2)));
    let statuses =
        vec![PartitionStatus::appended(done.clone(), 9), PartitionStatus::appended(waiting.clone(), 9)];
    let (mut op, answer) = produce(statuses);
    assert!(!op.try_complete());
    done.standing.set(Standing::Absent(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
    assert!(!op.try_complete());
    assert_eq!(done.asked.get(), 1, "a decided partition is not asked again");
    waiting.standing.set(leader(10, 2, 2));
    assert!(op.try_complete());
    op.on_complete(Outcome::Satisfied);
    let errors = vec![ErrorCode::NONE, ErrorCode::NONE];
    assert_eq!(answer.take(), Some((Outcome::Satisfied, errors, 0)));
}

#[test]
fn a_request_is_complete_when_no_partition_is_pending() {
    // 2.1 case 9
    let waiting = hand(leader(9, 2, 2));
    let gone = hand(Standing::Follower);
    let failed = PartitionStatus::failed(hand(Standing::Follower), ErrorCode::MESSAGE_TOO_LARGE);
    let statuses =
        vec![PartitionStatus::appended(waiting.clone(), 9), failed, PartitionStatus::appended(gone, 3)];
    let (mut op, answer) = produce(statuses);
    assert!(!op.try_complete());
    waiting.standing.set(leader(10, 2, 2));
    assert!(op.try_complete());
    assert!(op.try_complete(), "and stays complete");
    op.on_complete(Outcome::Satisfied);
    let errors = vec![ErrorCode::NONE, ErrorCode::MESSAGE_TOO_LARGE, ErrorCode::NOT_LEADER_OR_FOLLOWER];
    assert_eq!(answer.take(), Some((Outcome::Satisfied, errors, 0)));
}

#[test]
fn a_partition_that_failed_the_append_is_never_asked() {
    // 2.1 case 3, seen from the look
    let failed = hand(leader(i64::MAX, 3, 1));
    let waiting = hand(leader(0, 3, 1));
    let (mut op, _answer) = produce(vec![
        PartitionStatus::failed(failed.clone(), ErrorCode::NOT_ENOUGH_REPLICAS),
        PartitionStatus::appended(waiting, 0),
    ]);
    assert!(!op.try_complete());
    assert_eq!(failed.asked.get(), 0);
    assert_eq!(op.statuses()[0].error, ErrorCode::NOT_ENOUGH_REPLICAS);
}

#[test]
fn an_expired_request_mixes_successes_errors_and_timeouts() {
    // 2.1 case 10
    let statuses = vec![
        PartitionStatus::appended(hand(leader(10, 2, 2)), 9),
        PartitionStatus::appended(hand(leader(9, 2, 2)), 9),
        PartitionStatus::appended(hand(Standing::Follower), 9),
        PartitionStatus::failed(hand(Standing::Follower), ErrorCode::CORRUPT_MESSAGE),
    ];
    let (mut op, answer) = produce(statuses);
    assert!(!op.try_complete());
    op.on_complete(Outcome::Expired);
    let errors = vec![
        ErrorCode::NONE,
        ErrorCode::REQUEST_TIMED_OUT,
        ErrorCode::NOT_LEADER_OR_FOLLOWER,
        ErrorCode::CORRUPT_MESSAGE,
    ];
    assert_eq!(answer.take(), Some((Outcome::Expired, errors, 1)), "one mark for the one still pending");
}

#[test]
fn a_shrunken_in_sync_set_alone_ends_nothing() {
    // 2.1 cases 11 and 12
    let partition = hand(leader(5, 3, 2));
    let (mut op, answer) = produce(vec![PartitionStatus::appended(partition.clone(), 9)]);
    assert!(!op.try_complete());
    partition.standing.set(leader(5, 1, 2)); // the watermark is frozen from here on
    assert!(!op.try_complete());
    op.on_complete(Outcome::Expired);
    assert_eq!(answer.take(), Some((Outcome::Expired, vec![ErrorCode::REQUEST_TIMED_OUT], 1)));
}

#[test]
fn a_timeout_of_zero_waits_for_the_next_turn_of_the_timer_and_events_still_win_until_then() {
    // 2.1 case 13
    let purgatory = Purgatory::builder("Produce").clock(ManualClock::new()).build();
    for (event_first, error) in [(false, ErrorCode::REQUEST_TIMED_OUT), (true, ErrorCode::NONE)] {
        let partition = hand(leader(9, 2, 2));
        let (op, answer) = produce(vec![PartitionStatus::appended(partition.clone(), 9)]);
        let registration = purgatory.try_complete_else_watch(op, Duration::ZERO, [0]).expect("it is open");
        assert!(registration.id().is_some(), "it is watched");
        if event_first {
            partition.standing.set(leader(10, 2, 2));
            assert_eq!(purgatory.check_and_complete(&0), 1);
        }
        assert_eq!(purgatory.expire().expired, usize::from(!event_first));
        assert_eq!(answer.take().map(|(_, errors, _)| errors), Some(vec![error]));
    }
}

#[test]
fn codes_have_the_names_and_numbers_of_the_protocol() {
    assert_eq!(ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND.as_i16(), 20);
    assert_eq!(ErrorCode::UNKNOWN_SERVER_ERROR.as_i16(), -1);
    assert_eq!(format!("{:?}", ErrorCode::FENCED_LEADER_EPOCH), "FENCED_LEADER_EPOCH");
}

#[test]
fn a_request_is_asked_only_when_a_watermark_has_reached_what_it_requires() {
    // 2.1 case 7, and without a look at every event
    let (a, b) = (hand(leader(5, 1, 1)), hand(leader(0, 1, 1)));
    let statuses = vec![
        PartitionStatus::appended(a.clone(), 9),
        PartitionStatus::failed(hand(Standing::Follower), ErrorCode::NOT_LEADER_OR_FOLLOWER),
        PartitionStatus::appended(b.clone(), 2),
    ];
    let (op, answer) = produce(statuses);
    let watches = op.watches(|partition| Some(Rc::ptr_eq(&partition.asked, &b.asked)));
    assert_eq!(watches, [Watch::at(false, 10), Watch::at(true, 3)], "none for the one that failed");
    let purgatory: Purgatory<bool, Produce> =
        Purgatory::builder("produce").clock(ManualClock::new()).shards(2).build();
    assert!(!purgatory.try_complete_else_watch_at(op, Duration::MAX, watches).expect("open").is_completed());
    let asked = a.asked.get();
    a.standing.set(leader(9, 1, 1));
    assert_eq!(purgatory.check_and_complete_up_to(&false, 9), 0);
    assert_eq!(a.asked.get(), asked, "9 is not 10");
    a.standing.set(leader(10, 1, 1));
    assert_eq!(purgatory.check_and_complete_up_to(&false, 10), 0);
    assert_eq!(a.asked.get(), asked + 1);
    // An event that concerns everybody has no number.
    b.standing.set(Standing::Follower);
    assert_eq!(purgatory.check_and_complete(&true), 1);
    let errors = vec![ErrorCode::NONE, ErrorCode::NOT_LEADER_OR_FOLLOWER, ErrorCode::NOT_LEADER_OR_FOLLOWER];
    assert_eq!(answer.take(), Some((Outcome::Satisfied, errors, 0)));
    assert_eq!(purgatory.watched(), 0);
}
