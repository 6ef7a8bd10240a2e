//! The rules m1 to m9 of remote fetches, and what Kafka's tests of them assert.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::*;
use crate::kafka::ErrorCode;
use crate::{ManualClock, Purgatory};

const MAX_WAIT: Duration = Duration::from_millis(500);
const REMOTE_MAX_WAIT: Duration = Duration::from_secs(5);
const MS: Duration = Duration::from_millis(1);

/// A read of a partition: its result once it is there, why it is void, and how often it was cancelled.
#[derive(Clone, Default)]
struct Hand(Rc<Work>);

#[derive(Default)]
struct Work {
    result: Cell<Option<Result<u64, ErrorCode>>>,
    moved: Cell<Option<ErrorCode>>,
    cancels: Cell<u32>,
}

impl Job for Hand {
    type Output = u64;

    fn poll(&mut self) -> Option<Result<u64, ErrorCode>> {
        self.0.result.take()
    }

    fn cancel(&mut self) {
        self.0.cancels.set(self.0.cancels.get() + 1);
    }
}

impl JobPartition for Hand {
    fn error(&self) -> Option<ErrorCode> {
        self.0.moved.get()
    }
}

type Results = Vec<Result<u64, ErrorCode>>;
type Answer = Box<dyn FnOnce(RemoteEnd, RemoteFetch<Hand, Hand>)>;

/// The fetches of one partition, and the answers to them: outcome, results, and how many reads had been cancelled by then.
struct Server {
    clock: ManualClock,
    purgatory: Purgatory<u32, DelayedRemoteFetch<Hand, Hand, Answer>>,
    answers: RefCell<Vec<(Outcome, Results, u32)>>,
}

impl Server {
    fn new() -> Rc<Self> {
        let clock = ManualClock::new();
        let purgatory = Purgatory::builder("RemoteFetch").clock(clock.clone()).build();
        Rc::new(Server { purgatory, clock, answers: RefCell::default() })
    }

    fn fetch<const N: usize>(self: &Rc<Self>, local_bytes: u64) -> [Hand; N] {
        let hands: [Hand; N] = std::array::from_fn(|_| Hand::default());
        let read =
            |hand: &Hand| JobStatus::begun(PartitionJob { partition: hand.clone(), job: hand.clone() });
        let reads = hands.iter().map(read).collect();
        self.wait(RemoteFetch::new(reads, local_bytes, MAX_WAIT, REMOTE_MAX_WAIT));
        hands
    }

    fn wait(self: &Rc<Self>, fetch: RemoteFetch<Hand, Hand>) {
        let (timeout, this) = (fetch.timeout(), Rc::clone(self));
        let answer: Answer = Box::new(move |end, fetch| match end {
            RemoteEnd::Again => this.wait(fetch),
            RemoteEnd::Over(outcome) => {
                let cancels = fetch.reads.iter().map(|read| read.job.job.0.cancels.get()).sum();
                let results = fetch.reads.into_iter().map(|read| read.result).collect();
                this.answers.borrow_mut().push((outcome, results, cancels));
            }
        });
        let op = DelayedRemoteFetch::new(fetch, answer);
        let _ = self.purgatory.try_complete_else_watch(op, timeout, [1]).expect("it is open");
    }

    /// Delivers a result, signals it, and returns the answer if that was enough.
    fn bring(&self, hand: &Hand, result: Result<u64, ErrorCode>) -> Option<(Outcome, Results, u32)> {
        hand.0.result.set(Some(result));
        self.purgatory.check_and_complete(&1);
        self.answers.borrow_mut().pop()
    }

    fn at(&self, time: Duration) -> Option<(Outcome, Results, u32)> {
        self.clock.advance_to(time);
        while self.purgatory.expire().more {}
        self.answers.borrow_mut().pop()
    }
}

const LATE: Result<u64, ErrorCode> = Err(ErrorCode::REQUEST_TIMED_OUT);

#[test]
fn a_fetch_is_over_when_each_of_its_reads_is_done() {
    // m1, m2 and m9
    let server = Server::new();
    let [a, b] = server.fetch(0);
    assert_eq!(server.bring(&b, Ok(2)), None);
    assert_eq!(server.bring(&a, Ok(1)), Some((Outcome::Satisfied, vec![Ok(1), Ok(2)], 0)));
    server.fetch::<0>(0);
    assert_eq!(server.answers.take(), [(Outcome::Satisfied, vec![], 0)], "with nothing to read");
}

#[test]
fn a_read_that_fails_or_whose_partition_moves_away_ends_the_wait_and_cancels_the_others() {
    // m3, m7 and m9
    let server = Server::new();
    let [a, b] = server.fetch(0);
    let error = Err(ErrorCode::OFFSET_OUT_OF_RANGE);
    assert_eq!(server.bring(&a, error), Some((Outcome::Satisfied, vec![error, LATE], 1)));
    assert_eq!((a.0.cancels.get(), b.0.cancels.get()), (0, 1));
    for error in [
        ErrorCode::NOT_LEADER_OR_FOLLOWER,
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode::KAFKA_STORAGE_ERROR,
    ] {
        let [a, b] = server.fetch(0);
        a.0.moved.set(Some(error));
        server.purgatory.check_and_complete(&1);
        assert_eq!(server.answers.take(), [(Outcome::Satisfied, vec![Err(error), LATE], 2)]);
        assert_eq!((a.0.cancels.get(), b.0.cancels.get()), (1, 1));
    }
}

#[test]
fn a_partition_that_moves_away_after_its_read_has_arrived_ends_the_wait_with_its_error() {
    // m3: what has arrived is not for us to send any more
    let server = Server::new();
    let [a, b] = server.fetch(0);
    assert_eq!(server.bring(&a, Ok(1)), None);
    a.0.moved.set(Some(ErrorCode::NOT_LEADER_OR_FOLLOWER));
    server.purgatory.check_and_complete(&1);
    let lost = Err(ErrorCode::NOT_LEADER_OR_FOLLOWER);
    assert_eq!(server.answers.take(), [(Outcome::Satisfied, vec![lost, LATE], 1)]);
    assert_eq!((a.0.cancels.get(), b.0.cancels.get()), (0, 1), "what is done is not cancelled");
}

#[test]
fn a_local_partition_that_moves_away_ends_the_wait() {
    // m3 and m9
    let server = Server::new();
    let (remote, local) = (Hand::default(), Hand::default());
    let read = JobStatus::begun(PartitionJob { partition: remote.clone(), job: remote.clone() });
    let fetch = RemoteFetch::new(vec![read], 0, MAX_WAIT, REMOTE_MAX_WAIT).with_local(vec![local.clone()]);
    server.wait(fetch);
    assert_eq!(server.at(MAX_WAIT), None, "it is still looked at when the wait goes on");
    local.0.moved.set(Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
    server.purgatory.check_and_complete(&1);
    assert_eq!(server.answers.take(), [(Outcome::Satisfied, vec![LATE], 1)]);
    assert_eq!((remote.0.cancels.get(), local.0.cancels.get()), (1, 0));
}

#[test]
fn with_anything_to_send_the_first_deadline_is_the_last() {
    // m4 and m8
    let server = Server::new();
    let [_a, _b] = server.fetch(1);
    assert_eq!(server.at(MAX_WAIT - MS), None);
    assert_eq!(
        server.at(MAX_WAIT),
        Some((Outcome::Expired, vec![LATE, LATE], 2)),
        "bytes of another partition"
    );
    let server = Server::new();
    let [a, _b] = server.fetch(0);
    assert_eq!(server.bring(&a, Ok(1)), None);
    assert_eq!(server.at(MAX_WAIT), Some((Outcome::Expired, vec![Ok(1), LATE], 1)), "one result of two");
}

#[test]
fn with_nothing_to_send_the_wait_goes_on_past_the_first_deadline_and_nothing_is_cancelled() {
    // m4, m6 and m7
    let server = Server::new();
    let [a] = server.fetch(0);
    assert_eq!(server.at(MAX_WAIT), None);
    assert_eq!((server.purgatory.len(), a.0.cancels.get()), (1, 0));
    assert_eq!(server.at(REMOTE_MAX_WAIT - MS), None);
    assert_eq!(server.at(REMOTE_MAX_WAIT), Some((Outcome::Expired, vec![LATE], 1)));
    assert!(server.purgatory.is_empty() && server.purgatory.watched() == 0);
}

#[test]
fn past_the_first_deadline_the_first_result_is_enough() {
    // m5
    let server = Server::new();
    let [a, b] = server.fetch(0);
    assert_eq!(server.at(MAX_WAIT), None);
    server.purgatory.check_and_complete(&1);
    assert!(server.answers.borrow().is_empty(), "a signal alone is not");
    assert_eq!(server.bring(&b, Ok(2)), Some((Outcome::Satisfied, vec![LATE, Ok(2)], 1)));
    assert_eq!((a.0.cancels.get(), b.0.cancels.get()), (1, 0));
}

#[test]
fn a_result_that_comes_while_nobody_waits_is_seen_when_the_wait_goes_on() {
    // m4 and m9: delivered between the two waits
    let server = Server::new();
    let [a, _b] = server.fetch(0);
    a.0.result.set(Some(Ok(1))); // not signalled yet
    assert_eq!(server.at(MAX_WAIT), Some((Outcome::Satisfied, vec![Ok(1), LATE], 1)));
}

#[test]
fn the_second_deadline_is_never_before_the_first() {
    // m6
    let server = Server::new();
    let hand = Hand::default();
    let read = JobStatus::begun(PartitionJob { partition: hand.clone(), job: hand });
    server.wait(RemoteFetch::new(vec![read], 0, MAX_WAIT, Duration::ZERO));
    assert_eq!(server.at(MAX_WAIT - MS), None);
    assert_eq!(server.at(MAX_WAIT), Some((Outcome::Expired, vec![LATE], 1)));
}

#[test]
fn whatever_else_ends_the_wait_cancels_the_reads_at_once() {
    // m7
    for outcome in [Outcome::Forced, Outcome::Shutdown] {
        let server = Server::new();
        let [_a] = server.fetch(0);
        match outcome {
            Outcome::Forced => assert_eq!(server.purgatory.force_complete_for_key(&1), 1),
            _ => assert_eq!(server.purgatory.shutdown(), 1),
        }
        assert_eq!(server.answers.take(), [(outcome, vec![LATE], 1)]);
    }
}

#[test]
fn a_decision_weighs_what_has_arrived_only_past_the_first_deadline() {
    // m2, m3 and m5
    let progress = |pending, arrived, failed, is_past_first| Progress {
        pending,
        arrived,
        failed,
        lost: 0,
        is_past_first,
    };
    assert!(decide(progress(0, 3, 0, false)) && decide(progress(2, 0, 1, false)));
    assert!(!decide(progress(1, 2, 0, false)));
    assert!(decide(Progress { lost: 1, ..progress(2, 0, 0, false) }));
    assert!(decide(progress(1, 2, 0, true)) && !decide(progress(3, 0, 0, true)));
}
