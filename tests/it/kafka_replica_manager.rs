//! What Kafka's tests of its replica manager and partitions assert of waiting requests: produce and fetch operations of
//! this crate in purgatories, over a partition that is moved by hand.

use crate::uptime::clock;
use ixion::kafka::fetch::{
    Access, EpochEnd, FetchLimits, FetchPartition, FirstRead, Isolation, OffsetPlace, Offsets, PartitionFetch,
};
use ixion::kafka::produce::{PartitionStatus, ProducePartition, Standing};
use ixion::kafka::{DelayedFetch, DelayedProduce, ErrorCode};
use ixion::{DelayedOperation, ManualClock, Outcome, Purgatory, Resolution};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// Where a partition stands. Ten bytes a record, all on one segment.
struct State {
    /// Whether it is there at all; if not, why.
    gone: Option<ErrorCode>,
    leads: bool,
    epoch: i32,
    log_end: i64,
    high_watermark: i64,
    last_stable: i64,
    in_sync: usize,
}

#[derive(Clone)]
struct Partition(Rc<RefCell<State>>);

impl ProducePartition for Partition {
    fn standing(&self) -> Standing {
        let state = self.0.borrow();
        match (state.gone, state.leads) {
            (Some(error), _) => Standing::Absent(error),
            (None, false) => Standing::Follower,
            (None, true) => {
                let (high_watermark, in_sync) = (state.high_watermark, state.in_sync);
                Standing::Leader { high_watermark, in_sync, min_in_sync: 2 }
            }
        }
    }
}

impl FetchPartition for Partition {
    fn offsets(&self, access: Access) -> Result<Offsets, ErrorCode> {
        let state = self.0.borrow();
        if let Some(error) = state.gone {
            return Err(error);
        }
        match access.current_leader_epoch {
            Some(epoch) if epoch < state.epoch => return Err(ErrorCode::FENCED_LEADER_EPOCH),
            _ if access.leader_only && !state.leads => return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER),
            _ => {}
        }
        let place = |offset: i64| OffsetPlace::new(offset, 0, offset as u64 * 10);
        Ok(Offsets {
            log_end: place(state.log_end),
            high_watermark: place(state.high_watermark),
            last_stable: place(state.last_stable),
        })
    }

    fn end_of_epoch(&self, _: Access, epoch: i32) -> Result<Option<EpochEnd>, ErrorCode> {
        Ok(Some(EpochEnd { epoch, end_offset: self.0.borrow().log_end }))
    }
}

/// Consumers and followers wait for different things.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    HighWatermark,
    LogEnd,
}

/// The outcome, the error, and how many records there are to read.
type Answer = Rc<Cell<Option<(Outcome, ErrorCode, i64)>>>;
type Produce = DelayedProduce<Partition, Box<dyn FnOnce(Outcome, Vec<PartitionStatus<Partition>>)>>;
type Fetch = DelayedFetch<Partition, Box<dyn FnOnce(Outcome, Vec<PartitionFetch<Partition>>)>>;

struct Manager {
    clock: ManualClock,
    partition: Partition,
    produce: Purgatory<Key, Produce>,
    fetch: Purgatory<Key, Fetch>,
}

impl Manager {
    fn new() -> Self {
        let state = State {
            gone: None,
            leads: true,
            epoch: 1,
            log_end: 0,
            high_watermark: 0,
            last_stable: 0,
            in_sync: 3,
        };
        let clock = clock(Resolution::MILLISECOND);
        Manager {
            partition: Partition(Rc::new(RefCell::new(state))),
            produce: Purgatory::builder("Produce").clock(clock.clone()).build(),
            fetch: Purgatory::builder("Fetch").clock(clock.clone()).build(),
            clock,
        }
    }

    /// Appends a record with `acks=-1`, and waits for its replication.
    fn append(&self) -> Answer {
        let last = self.partition.0.borrow().log_end;
        self.change(|state| state.log_end += 1);
        let answer = Answer::default();
        let slot = Rc::clone(&answer);
        let end = move |outcome, statuses: Vec<PartitionStatus<Partition>>| {
            slot.set(Some((outcome, statuses[0].error, 0)));
        };
        let statuses = vec![PartitionStatus::appended(self.partition.clone(), last)];
        let op: Produce = DelayedProduce::new(statuses, Box::new(end));
        let timeout = Duration::from_millis(1000);
        let _ = self.produce.try_complete_else_watch(op, timeout, [Key::HighWatermark]).unwrap();
        answer
    }

    /// Fetches from `offset` on, and waits for `min_bytes`. The answer is read again when it ends.
    fn fetch(&self, offset: i64, isolation: Isolation, epoch: Option<i32>, min_bytes: u64) -> Answer {
        let answer = Answer::default();
        let slot = Rc::clone(&answer);
        let fetch = PartitionFetch {
            partition: self.partition.clone(),
            fetch_offset: offset,
            start: OffsetPlace::new(offset, 0, offset as u64 * 10),
            max_bytes: 1 << 20,
            current_leader_epoch: epoch,
            last_fetched_epoch: None,
        };
        let end = move |outcome, fetches: Vec<PartitionFetch<Partition>>| {
            let access = Access { leader_only: true, current_leader_epoch: fetches[0].current_leader_epoch };
            slot.set(Some(match fetches[0].partition.offsets(access) {
                Ok(offsets) => (outcome, ErrorCode::NONE, offsets.end(isolation).offset() - offset),
                Err(error) => (outcome, error, 0),
            }));
        };
        let limits = FetchLimits { min_bytes, isolation, leader_only: true };
        let op: Fetch = DelayedFetch::new(limits, vec![fetch], Box::new(end));
        let key = if isolation == Isolation::LogEnd { Key::LogEnd } else { Key::HighWatermark };
        let _ = self.fetch.try_complete_else_watch(op, Duration::from_millis(1000), [key]).unwrap();
        answer
    }

    /// Changes the partition's state, and signals nobody.
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.partition.0.borrow_mut());
    }

    /// Tells all that wait on the partition; returns how many produce and fetch requests ended.
    fn signal(&self) -> (usize, usize) {
        let fetches =
            self.fetch.check_and_complete(&Key::HighWatermark) + self.fetch.check_and_complete(&Key::LogEnd);
        (self.produce.check_and_complete(&Key::HighWatermark), fetches)
    }

    fn expire_after(&self, ms: u64) -> usize {
        self.clock.advance(Duration::from_millis(ms));
        self.produce.expire().expired + self.fetch.expire().expired
    }
}

const NOT_LEADER: ErrorCode = ErrorCode::NOT_LEADER_OR_FOLLOWER;

/// A request that waits while its leader becomes a follower, whichever way the leader hears of that. B5, B6.
#[test]
fn a_produce_request_whose_leader_becomes_a_follower_is_answered_at_once() {
    let manager = Manager::new();
    let answers = [manager.append(), manager.append()];
    assert_eq!((manager.signal(), manager.produce.len()), ((0, 0), 2));
    manager.change(|state| state.leads = false);
    assert_eq!(manager.signal(), (2, 0));
    for answer in answers {
        assert_eq!(answer.get(), Some((Outcome::Satisfied, NOT_LEADER, 0)));
    }
    assert_eq!((manager.produce.watched(), manager.expire_after(5000)), (0, 0));
}

/// A partition that is taken away answers both kinds of request with an error, and leaves nothing waiting.
#[test]
fn a_partition_that_is_stopped_answers_produce_and_fetch_requests_at_once() {
    for error in [NOT_LEADER, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, ErrorCode::KAFKA_STORAGE_ERROR] {
        let manager = Manager::new();
        let consumer = manager.fetch(0, Isolation::HighWatermark, None, 1);
        let follower = manager.fetch(0, Isolation::LogEnd, None, 1);
        let producer = manager.append();
        manager.change(|state| state.gone = Some(error));
        assert_eq!(manager.signal(), (1, 2));
        for answer in [producer, consumer, follower] {
            assert_eq!(answer.get(), Some((Outcome::Satisfied, error, 0)));
        }
        assert!(manager.fetch.is_empty() && manager.produce.is_empty());
    }
}

/// A consumer that waits while its leader becomes a follower: told by the error that its request knows of.
#[test]
fn a_fetch_whose_leader_becomes_a_follower_is_answered_by_what_its_client_believes() {
    for (epoch, error) in [(None, NOT_LEADER), (Some(1), ErrorCode::FENCED_LEADER_EPOCH)] {
        let manager = Manager::new();
        let answer = manager.fetch(0, Isolation::HighWatermark, epoch, 1);
        assert_eq!((manager.signal(), answer.get()), ((0, 0), None));
        manager.change(|state| (state.leads, state.epoch) = (false, 2));
        assert_eq!(manager.signal(), (0, 1));
        assert_eq!(answer.get(), Some((Outcome::Satisfied, error, 0)));
    }
}

/// A reader of committed records that wants more than there is gets, when its time is up, what is stable by then. B44.
#[test]
fn a_read_committed_fetch_that_expires_returns_what_is_stable_at_that_moment() {
    let manager = Manager::new();
    // Six records are replicated, and another transaction is still open behind the fourth.
    manager.change(|state| (state.log_end, state.high_watermark) = (6, 6));
    let answer = manager.fetch(0, Isolation::LastStable, None, 50);
    assert_eq!(manager.signal(), (0, 0));
    // The first one is aborted meanwhile: its marker is the fourth record.
    manager.change(|state| state.last_stable = 4);
    assert_eq!((manager.signal(), manager.expire_after(999)), ((0, 0), 0));
    assert_eq!((answer.get(), manager.expire_after(2)), (None, 1));
    assert_eq!(answer.get(), Some((Outcome::Expired, ErrorCode::NONE, 4)));
}

/// A request that had better go to another replica is told so at once, and never waits.
#[test]
fn a_fetch_with_a_preferred_replica_is_not_registered() {
    let manager = Manager::new();
    let read = FirstRead { partitions: 1, any_preferred_replica: true, ..FirstRead::default() };
    if !read.answers_at_once(1000, 1) {
        manager.fetch(0, Isolation::HighWatermark, None, 1);
    }
    assert_eq!((manager.fetch.watched(), manager.fetch.stats().registered), (0, 0));
    let plain = FirstRead { any_preferred_replica: false, ..read };
    assert!(!plain.answers_at_once(1000, 1), "without one it waits");
}

/// A follower that has everything waits for the log's end: a high watermark that moves is no reason to answer it. B45.
#[test]
fn the_fetch_of_a_follower_is_not_ended_by_the_high_watermark_and_reads_it_when_its_time_is_up() {
    let manager = Manager::new();
    manager.change(|state| (state.log_end, state.high_watermark) = (2, 0));
    let follower = manager.fetch(2, Isolation::LogEnd, None, 1);
    let consumer = manager.fetch(0, Isolation::HighWatermark, None, 1);
    manager.change(|state| state.high_watermark = 2);
    assert_eq!(manager.fetch.check_and_complete(&Key::HighWatermark), 1);
    assert_eq!(consumer.get(), Some((Outcome::Satisfied, ErrorCode::NONE, 2)));
    assert_eq!((follower.get(), manager.expire_after(1000)), (None, 1));
    assert_eq!(follower.get(), Some((Outcome::Expired, ErrorCode::NONE, 0)));
    // And an append does end it.
    let follower = manager.fetch(2, Isolation::LogEnd, None, 1);
    manager.change(|state| state.log_end = 3);
    assert_eq!(manager.fetch.check_and_complete(&Key::LogEnd), 1);
    assert_eq!(follower.get(), Some((Outcome::Satisfied, ErrorCode::NONE, 1)));
}

/// B46, and the meters of the replica manager: each request is counted once, by how it ended.
#[test]
fn a_request_is_counted_once_however_often_it_was_looked_at_and_by_how_it_ended() {
    let manager = Manager::new();
    manager.change(|state| (state.log_end, state.high_watermark) = (1, 0));
    let _ = (manager.fetch(0, Isolation::HighWatermark, None, 1), manager.append());
    (0..10).for_each(|_| assert_eq!(manager.signal(), (0, 0)));
    assert_eq!(manager.expire_after(1000), 2);
    let _ = (manager.fetch(0, Isolation::HighWatermark, None, 1), manager.append());
    manager.change(|state| state.high_watermark = 3);
    assert_eq!(manager.signal(), (1, 1));
    for stats in [manager.produce.stats(), manager.fetch.stats()] {
        assert_eq!((stats.registered, stats.expired, stats.satisfied), (2, 1, 1), "{stats:?}");
        assert_eq!((stats.pending, stats.watched, stats.ended()), (0, 0, 2));
    }
}

/// The high watermark that passes a record answers its producer; with too few replicas in sync by then, with an error.
#[test]
fn a_produce_request_is_answered_by_the_high_watermark_and_the_replicas_in_sync() {
    for (in_sync, error) in [(2, ErrorCode::NONE), (1, ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND)] {
        let manager = Manager::new();
        let answers = [manager.append(), manager.append()];
        manager.change(|state| (state.high_watermark, state.in_sync) = (1, in_sync));
        assert_eq!(manager.signal(), (1, 0));
        assert_eq!(answers[0].get(), Some((Outcome::Satisfied, error, 0)));
        assert_eq!((answers[1].get(), manager.expire_after(1000)), (None, 1));
        assert_eq!(answers[1].get(), Some((Outcome::Expired, ErrorCode::REQUEST_TIMED_OUT, 0)));
    }
}

/// `DelayedProduce` completes at the look at which its condition is met, however many came before.
#[test]
fn a_produce_request_completes_at_the_third_attempt() {
    let manager = Manager::new();
    let answer = manager.append();
    let mut op = DelayedProduce::new(
        vec![PartitionStatus::appended(manager.partition.clone(), 0)],
        |_, _: Vec<PartitionStatus<Partition>>| {},
    );
    let attempts = [0, 0, 1].map(|high_watermark| {
        manager.change(|state| state.high_watermark = high_watermark);
        (op.try_complete(), manager.signal().0)
    });
    assert_eq!(attempts, [(false, 0), (false, 0), (true, 1)]);
    assert_eq!(answer.get(), Some((Outcome::Satisfied, ErrorCode::NONE, 0)));
}
