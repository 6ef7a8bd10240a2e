//! The rules q1 to q8 of share fetches, and what Kafka's tests of them assert.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use super::*;
use crate::{DelayedOperation, ManualClock, Purgatory};

/// A group's view of a partition, with the number of locks taken and given back.
#[derive(Default)]
struct Records {
    bytes: Cell<u64>,
    is_locked: Cell<bool>,
    moved: Cell<Option<ErrorCode>>,
    taken: Cell<u32>,
    released: Cell<u32>,
    /// Somebody else takes the lock between the question and the attempt.
    is_contended: Cell<bool>,
}

#[derive(Clone, Default)]
struct View(Rc<Records>);

struct Lock(Rc<Records>);

impl Drop for Lock {
    fn drop(&mut self) {
        assert!(self.0.is_locked.replace(false), "it was released before");
        self.0.released.set(self.0.released.get() + 1);
    }
}

impl SharePartition for View {
    type Lock = Lock;

    fn acquirable(&self) -> Result<u64, ErrorCode> {
        match self.0.moved.get() {
            Some(error) => Err(error),
            None => Ok(if self.0.is_locked.get() { 0 } else { self.0.bytes.get() }),
        }
    }

    fn try_lock(&self) -> Option<Lock> {
        let has_records = self.0.bytes.get() > 0 && self.0.moved.get().is_none();
        if !has_records || self.0.is_contended.get() || self.0.is_locked.replace(true) {
            return None;
        }
        self.0.taken.set(self.0.taken.get() + 1);
        Some(Lock(Rc::clone(&self.0)))
    }
}

fn view(bytes: u64) -> View {
    let view = View::default();
    view.0.bytes.set(bytes);
    view
}

type Key = ShareKey<&'static str, u32>;
/// The outcome, and which of the partitions are to be read.
type Answer = Rc<RefCell<Option<(Outcome, Vec<bool>)>>>;
type Fetch = DelayedShareFetch<View, Box<dyn FnOnce(Outcome, Vec<ShareStatus<View>>)>>;

fn fetch(min_bytes: u64, views: &[View]) -> (Fetch, Answer) {
    let answer = Answer::default();
    let slot = Rc::clone(&answer);
    let end = move |outcome, statuses: Vec<ShareStatus<View>>| {
        *slot.borrow_mut() = Some((outcome, statuses.iter().map(|status| status.lock.is_some()).collect()));
    };
    (DelayedShareFetch::new(min_bytes, views.iter().cloned(), Box::new(end)), answer)
}

struct Server {
    clock: ManualClock,
    purgatory: Purgatory<Key, Fetch>,
}

impl Server {
    fn new() -> Self {
        let clock = ManualClock::new();
        Server { purgatory: Purgatory::builder("ShareFetch").clock(clock.clone()).build(), clock }
    }

    /// Waits on both keys of each partition, by their places.
    fn wait(&self, group: &'static str, min_bytes: u64, views: &[View]) -> Answer {
        let (op, answer) = fetch(min_bytes, views);
        let keys = (0..).take(views.len()).flat_map(|partition| ShareKey::both(group, partition));
        let timeout = Duration::from_millis(500);
        let _ = self.purgatory.try_complete_else_watch(op, timeout, keys).expect("it is open");
        answer
    }
}

#[test]
fn keys_of_different_kinds_or_groups_or_partitions_are_never_equal() {
    // q1; DelayedShareFetchKeyTest
    let keys: Vec<Key> = [("a", 1), ("b", 1), ("a", 2)]
        .into_iter()
        .flat_map(|(group, partition)| ShareKey::both(group, partition))
        .collect();
    for (i, key) in keys.iter().enumerate() {
        for (j, other) in keys.iter().enumerate() {
            let is_same = i == j || (i, j) == (1, 3) || (i, j) == (3, 1); // partition 1, of whatever group
            assert_eq!(key == other, is_same, "{key:?} and {other:?}");
        }
    }
}

#[test]
fn an_acknowledgement_concerns_its_group_and_a_change_of_the_partition_concerns_all() {
    // q1; SharePartitionManagerTest, an acknowledgement on one partition of a fetch that waits on two
    let server = Server::new();
    let (a, b) = ([view(0), view(0)], [view(0), view(0)]);
    let (of_a, of_b) = (server.wait("a", 1, &a), server.wait("b", 1, &b));
    assert_eq!((server.purgatory.watched(), server.purgatory.key_count()), (8, 6));
    a[1].0.bytes.set(10);
    b[1].0.bytes.set(10);
    assert_eq!(server.purgatory.check_and_complete(&ShareKey::Group("a", 1)), 1);
    assert_eq!(of_a.take(), Some((Outcome::Satisfied, vec![false, true])));
    assert_eq!(server.purgatory.watched(), 4, "off its other keys too");
    b[1].0.bytes.set(0);
    b[0].0.bytes.set(10);
    assert_eq!(server.purgatory.check_and_complete(&ShareKey::Partition(0)), 1);
    assert_eq!(of_b.take(), Some((Outcome::Satisfied, vec![true, false])));
    assert!(server.purgatory.is_empty() && server.purgatory.watched() == 0);
}

#[test]
fn a_look_adds_up_what_can_be_acquired() {
    // q2 and q4
    let decide = |min_bytes, bytes: &[u64]| decide(min_bytes, bytes.iter().map(|bytes| Ok(*bytes)));
    assert_eq!(decide(100, &[60, 39]), Decision::Wait { bytes: 99 });
    assert_eq!(decide(100, &[60, 40]), Decision::Lock);
    assert_eq!(decide(100, &[u64::MAX, 40]), Decision::Lock, "and does not wrap");
    assert_eq!(decide(0, &[0, 0]), Decision::Wait { bytes: 0 }, "nothing is never enough");
    assert_eq!(decide(0, &[0, 1]), Decision::Lock);
}

#[test]
fn a_partition_whose_lock_another_fetch_has_adds_nothing() {
    // q2
    let server = Server::new();
    let partition = view(10);
    let lock = partition.try_lock().expect("it is free");
    let answer = server.wait("a", 1, std::slice::from_ref(&partition));
    assert_eq!(server.purgatory.check_and_complete(&ShareKey::Group("a", 0)), 0);
    drop(lock);
    assert_eq!(server.purgatory.check_and_complete(&ShareKey::Group("a", 0)), 1);
    assert_eq!(answer.take(), Some((Outcome::Satisfied, vec![true])));
}

#[test]
fn a_partition_that_moves_away_ends_the_wait_with_what_can_be_locked_elsewhere() {
    // q3
    let server = Server::new();
    let views = [view(0), view(5)];
    let answer = server.wait("a", 10, &views);
    views[0].0.moved.set(Some(ErrorCode::NOT_LEADER_OR_FOLLOWER));
    assert_eq!(server.purgatory.check_and_complete(&ShareKey::Partition(0)), 1);
    assert_eq!(answer.take(), Some((Outcome::Satisfied, vec![false, true])));
    let error = Err(ErrorCode::NOT_LEADER_OR_FOLLOWER);
    assert_eq!(decide(1, [Ok(10), error]), Decision::Answer(ErrorCode::NOT_LEADER_OR_FOLLOWER));
}

#[test]
fn no_lock_is_taken_by_a_look_that_does_not_end_the_wait() {
    // q4
    let server = Server::new();
    let views = [view(60), view(39)];
    let answer = server.wait("a", 100, &views);
    assert_eq!(server.purgatory.check_and_complete(&ShareKey::Partition(0)), 0);
    assert!(views.iter().all(|view| view.0.taken.get() == 0));
    views[1].0.bytes.set(40);
    assert_eq!(server.purgatory.check_and_complete(&ShareKey::Partition(1)), 1);
    assert_eq!(answer.take(), Some((Outcome::Satisfied, vec![true, true])));
}

#[test]
fn one_lock_is_enough_if_another_fetch_was_faster_at_the_others_and_none_is_not() {
    // q4 and q5
    let views = [view(60), view(40)];
    let (mut op, answer) = fetch(100, &views);
    views.iter().for_each(|view| view.0.is_contended.set(true));
    assert!(!op.try_complete());
    views[1].0.is_contended.set(false);
    assert!(op.try_complete(), "it has 40 of 100, and keeps them");
    op.on_complete(Outcome::Satisfied);
    assert_eq!(answer.take(), Some((Outcome::Satisfied, vec![false, true])));
}

#[test]
fn of_two_fetches_that_want_the_same_records_the_second_waits_until_the_first_has_read() {
    // q2 and q4
    let server = Server::new();
    let partition = view(0);
    let reading = Rc::new(RefCell::new(Vec::new()));
    for _ in 0..2 {
        let slot = Rc::clone(&reading);
        let op: Fetch = DelayedShareFetch::new(
            1,
            [partition.clone()],
            Box::new(move |_, statuses| slot.borrow_mut().extend(statuses)),
        );
        let keys = ShareKey::both("a", 0);
        let _ = server.purgatory.try_complete_else_watch(op, Duration::MAX, keys).expect("it is open");
    }
    partition.0.bytes.set(10);
    let key = ShareKey::Group("a", 0);
    assert_eq!(server.purgatory.check_and_complete(&key), 1);
    assert!(reading.take()[0].lock.is_some(), "and is given back here");
    assert_eq!(server.purgatory.check_and_complete(&key), 1);
    assert!(reading.take()[0].lock.is_some());
}

#[test]
fn a_fetch_that_ends_by_its_time_or_by_force_takes_what_there_is() {
    // q6; DelayedShareFetchTest, forced with nothing and with something to acquire
    for (bytes, reads) in [(0, false), (5, true)] {
        for outcome in [Outcome::Expired, Outcome::Forced] {
            let server = Server::new();
            let answer = server.wait("a", 10, &[view(bytes)]);
            if outcome == Outcome::Forced {
                assert_eq!(server.purgatory.force_complete_for_key(&ShareKey::Group("a", 0)), 1);
                assert_eq!(server.purgatory.force_complete_for_key(&ShareKey::Group("a", 0)), 0);
            } else {
                server.clock.advance(Duration::from_millis(500));
                assert_eq!(server.purgatory.expire().expired, 1);
            }
            assert_eq!(answer.take(), Some((outcome, vec![reads])));
        }
    }
    let server = Server::new();
    let answer = server.wait("a", 10, &[view(5)]);
    assert_eq!(server.purgatory.shutdown(), 1);
    assert_eq!(answer.take(), Some((Outcome::Shutdown, vec![false])), "nobody begins to read then");
}

#[test]
fn each_lock_is_released_once_however_the_wait_ends() {
    // q7. A callback that panics, and an operation that is dropped without one, release too.
    for end in ["answered", "panicked", "dropped"] {
        let partition = view(10);
        let answer: Box<dyn FnOnce(Outcome, Vec<ShareStatus<View>>)> = match end {
            "panicked" => Box::new(|_, _| panic!("the client is gone")),
            _ => Box::new(|_, statuses| assert!(statuses[0].lock.is_some())),
        };
        let mut op = DelayedShareFetch::new(1, [partition.clone()], answer);
        if end == "dropped" {
            assert!(op.try_complete());
            drop(op);
        } else {
            let purgatory = Purgatory::<u32, Fetch>::builder("ShareFetch").on_panic(|_| {}).build();
            let registration = purgatory.try_complete_else_watch(op, Duration::MAX, [0]).expect("it is open");
            assert!(registration.is_completed());
            assert_eq!(purgatory.stats().panics, u64::from(end == "panicked"));
        }
        assert_eq!((partition.0.taken.get(), partition.0.released.get()), (1, 1), "{end}");
        assert!(!partition.0.is_locked.get());
    }
}

#[test]
fn fetches_that_complete_one_another_do_so_one_after_the_other() {
    // q8. Each answer gives the lock back and signals the next; none runs inside another.
    let purgatory: Rc<Purgatory<Key, Fetch>> = Rc::new(Purgatory::builder("ShareFetch").build());
    let partition = view(0);
    let (depth, answers) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    for _ in 0..1000 {
        let (next, depth, answers) = (Rc::clone(&purgatory), Rc::clone(&depth), Rc::clone(&answers));
        let op: Fetch = DelayedShareFetch::new(
            1,
            [partition.clone()],
            Box::new(move |_, statuses| {
                assert_eq!(depth.replace(1), 0);
                drop(statuses);
                next.check_and_complete(&ShareKey::Group("a", 0));
                answers.set(answers.get() + 1);
                depth.set(0);
            }),
        );
        let _ = purgatory.try_complete_else_watch(op, Duration::MAX, ShareKey::both("a", 0)).expect("open");
    }
    partition.0.bytes.set(10);
    purgatory.check_and_complete(&ShareKey::Group("a", 0));
    assert_eq!((answers.get(), purgatory.len(), partition.0.released.get()), (1000, 0, 1000));
}
