//! The rules u1 to u6 of answers that wait for jobs, and what Kafka's tests of futures and of remote look-ups assert.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use super::*;
use crate::{ManualClock, Purgatory};

type Outcomes = Result<u64, ErrorCode>;

/// What is known of a job: its result once it is there, and how often it was asked and cancelled.
#[derive(Default)]
struct Work {
    result: Cell<Option<Outcomes>>,
    polls: Cell<u32>,
    cancels: Cell<u32>,
    moved: Cell<Option<ErrorCode>>,
}

#[derive(Clone, Default)]
struct Hand(Rc<Work>);

impl Job for Hand {
    type Output = u64;

    fn poll(&mut self) -> Option<Outcomes> {
        self.0.polls.set(self.0.polls.get() + 1);
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

fn done(result: Outcomes) -> Hand {
    let hand = Hand::default();
    hand.0.result.set(Some(result));
    hand
}

type LookUp = PartitionJob<Hand, Hand>;
type Answer = Rc<RefCell<Option<(Outcome, Vec<Outcomes>)>>>;
type Wait<J> = DelayedFuture<J, Box<dyn FnOnce(Outcome, Vec<JobStatus<J>>)>>;

struct Server<J: Job<Output = u64> + 'static> {
    clock: ManualClock,
    purgatory: Purgatory<u32, Wait<J>>,
}

impl<J: Job<Output = u64>> Server<J> {
    fn new() -> Self {
        let clock = ManualClock::new();
        Server { purgatory: Purgatory::builder("jobs").clock(clock.clone()).build(), clock }
    }

    fn wait(&self, jobs: Vec<JobStatus<J>>) -> Answer {
        let answer = Answer::default();
        let slot = Rc::clone(&answer);
        let end = move |outcome, jobs: Vec<JobStatus<J>>| {
            *slot.borrow_mut() = Some((outcome, jobs.into_iter().map(|status| status.result).collect()));
        };
        let op: Wait<J> = DelayedFuture::new(jobs, Box::new(end));
        let _ = self.purgatory.try_complete_else_watch(op, Duration::from_secs(2), [1]).expect("it is open");
        answer
    }

    /// Delivers a result and signals it.
    fn bring(&self, hand: &Hand, result: Outcomes) -> usize {
        hand.0.result.set(Some(result));
        self.purgatory.check_and_complete(&1)
    }
}

#[test]
fn results_that_are_there_are_answered_at_once_and_others_when_the_last_one_comes() {
    // u1 and u2; DelayedOperationTest, delayed future
    let server = Server::new();
    let begun = |hands: &[&Hand]| hands.iter().map(|hand| JobStatus::begun(Hand::clone(hand))).collect();
    let answer = server.wait(begun(&[&done(Ok(10)), &done(Ok(11))]));
    assert_eq!(answer.take(), Some((Outcome::Satisfied, vec![Ok(10), Ok(11)])));
    let (first, second) = (Hand::default(), Hand::default());
    let answer = server.wait(begun(&[&first, &second]));
    assert_eq!((server.bring(&second, Ok(21)), server.bring(&first, Ok(20))), (0, 1));
    assert_eq!(answer.take(), Some((Outcome::Satisfied, vec![Ok(20), Ok(21)])));
    let late = Hand::default();
    let answer = server.wait(begun(&[&late, &done(Ok(31))]));
    assert_eq!(server.bring(&late, Ok(30)), 1);
    assert_eq!(answer.take(), Some((Outcome::Satisfied, vec![Ok(30), Ok(31)])));
}

#[test]
fn a_result_is_asked_for_until_it_is_there_and_never_again() {
    // u1
    let server = Server::new();
    let (first, second) = (Hand::default(), Hand::default());
    let decided = Hand::default();
    let answer = server.wait(vec![
        JobStatus::begun(first.clone()),
        JobStatus::begun(second.clone()),
        JobStatus::decided(decided.clone(), Ok(9)),
    ]);
    server.bring(&first, Ok(1));
    let polls = first.0.polls.get();
    server.bring(&second, Ok(2));
    assert_eq!((first.0.polls.get(), decided.0.polls.get()), (polls, 0));
    assert_eq!(answer.take(), Some((Outcome::Satisfied, vec![Ok(1), Ok(2), Ok(9)])));
}

#[test]
fn a_job_that_fails_does_not_hold_up_or_end_the_others() {
    // u2
    let server = Server::new();
    let (fails, works) = (Hand::default(), Hand::default());
    let answer = server.wait(vec![JobStatus::begun(fails.clone()), JobStatus::begun(works.clone())]);
    assert_eq!(server.bring(&fails, Err(ErrorCode::UNKNOWN_SERVER_ERROR)), 0);
    assert_eq!(server.bring(&works, Ok(5)), 1);
    let results = vec![Err(ErrorCode::UNKNOWN_SERVER_ERROR), Ok(5)];
    assert_eq!(answer.take(), Some((Outcome::Satisfied, results)));
    assert_eq!((fails.0.cancels.get(), works.0.cancels.get()), (0, 0));
}

#[test]
fn jobs_that_are_not_done_when_the_time_is_up_are_cancelled_before_the_answer() {
    // u3 and u4
    let server = Server::new();
    let (comes, stays) = (Hand::default(), Hand::default());
    let seen = Rc::new(Cell::new(0));
    let (slot, work) = (Rc::clone(&seen), Rc::clone(&stays.0));
    let end = move |outcome, jobs: Vec<JobStatus<Hand>>| {
        assert_eq!(outcome, Outcome::Expired);
        assert_eq!(jobs[0].result, Ok(40));
        assert_eq!((jobs[1].result, jobs[1].pending), (Err(ErrorCode::REQUEST_TIMED_OUT), true));
        slot.set(work.cancels.get());
    };
    let jobs = vec![JobStatus::begun(comes.clone()), JobStatus::begun(stays.clone())];
    let op: Wait<Hand> = DelayedFuture::new(jobs, Box::new(end));
    let _ = server.purgatory.try_complete_else_watch(op, Duration::from_secs(2), [1]).expect("it is open");
    assert_eq!(server.bring(&comes, Ok(40)), 0);
    server.clock.advance(Duration::from_millis(1999));
    assert_eq!(server.purgatory.expire().expired, 0);
    server.clock.advance(Duration::from_millis(1));
    assert_eq!(server.purgatory.expire().expired, 1);
    assert_eq!((seen.get(), stays.0.cancels.get(), comes.0.cancels.get()), (1, 1, 0));
}

fn look_ups<const N: usize>() -> ([Hand; N], Vec<JobStatus<LookUp>>) {
    let hands: [Hand; N] = std::array::from_fn(|_| Hand::default());
    let job = |hand: &Hand| JobStatus::begun(PartitionJob { partition: hand.clone(), job: hand.clone() });
    let jobs = hands.iter().map(job).collect();
    (hands, jobs)
}

#[test]
fn kafka_remote_list_offsets_test_unfinished_look_ups_time_out_and_each_is_cancelled_once() {
    // u3. Three partitions, nothing found.
    let server = Server::new();
    let (hands, jobs) = look_ups::<3>();
    let answer = server.wait(jobs);
    server.clock.advance(Duration::from_secs(2));
    assert_eq!(server.purgatory.expire().expired, 1);
    let results = vec![Err(ErrorCode::REQUEST_TIMED_OUT); 3];
    assert_eq!(answer.take(), Some((Outcome::Expired, results)));
    assert!(hands.iter().all(|hand| hand.0.cancels.get() == 1));
}

#[test]
fn kafka_remote_list_offsets_test_look_ups_that_succeed_or_fail_are_not_cancelled() {
    // u2. All of three, and then two with one that fails.
    let error = Err(ErrorCode::UNKNOWN_SERVER_ERROR);
    for results in [vec![Ok(100); 3], vec![Ok(100), error, Ok(100)]] {
        let server = Server::new();
        let (hands, jobs) = look_ups::<3>();
        let answer = server.wait(jobs);
        let ends: usize = hands.iter().zip(&results).map(|(hand, result)| server.bring(hand, *result)).sum();
        assert_eq!(ends, 1);
        assert_eq!(answer.take(), Some((Outcome::Satisfied, results)));
        assert!(hands.iter().all(|hand| hand.0.cancels.get() == 0));
    }
}

#[test]
fn kafka_remote_list_offsets_test_a_partition_that_moves_away_is_cancelled_and_the_others_go_on() {
    // u5 and u6. One of four partitions is not led here any more.
    let server = Server::new();
    let (hands, jobs) = look_ups::<4>();
    let answer = server.wait(jobs);
    hands[2].0.moved.set(Some(ErrorCode::NOT_LEADER_OR_FOLLOWER));
    hands[2].0.result.set(Some(Ok(7))); // done, but in the name of a leader that this is not
    assert_eq!(server.purgatory.check_and_complete(&1), 0);
    let ends: usize = [0, 1, 3].iter().map(|place| server.bring(&hands[*place], Ok(100))).sum();
    assert_eq!(ends, 1);
    let results = vec![Ok(100), Ok(100), Err(ErrorCode::NOT_LEADER_OR_FOLLOWER), Ok(100)];
    assert_eq!(answer.take(), Some((Outcome::Satisfied, results)));
    assert_eq!(hands.map(|hand| hand.0.cancels.get()), [0, 0, 1, 0]);
}
