//! What Kafka's tests of other users of its timers and purgatories assert, put to this engine: futures that are waited
//! for, thresholds, the coordinator's timers, remote reads. `tests/README.md` lists them.

use crate::guarantees::support::*;
use ixion::{DelayedOperation, ManualClock, Outcome, Purgatory, Resolution};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Results that come in one by one; `None` is one that is missing.
type Results = Rc<RefCell<Vec<Option<u64>>>>;

/// Waits until all results are there, and answers with their sum; with the sum of those that are if its time is up.
struct Sum(Results, Rc<Cell<Option<(Outcome, u64)>>>);

impl DelayedOperation for Sum {
    fn try_complete(&mut self) -> bool {
        self.0.borrow().iter().all(Option::is_some)
    }

    fn on_complete(self, outcome: Outcome) {
        self.1.set(Some((outcome, self.0.borrow().iter().flatten().sum())));
    }
}

struct Sums {
    clock: ManualClock,
    purgatory: Purgatory<u32, Sum>,
}

impl Sums {
    fn new() -> Self {
        let clock = clock(Resolution::MILLISECOND);
        Sums { purgatory: Purgatory::builder("futures").clock(clock.clone()).build(), clock }
    }

    fn wait(&self, results: &[Option<u64>]) -> (Results, Rc<Cell<Option<(Outcome, u64)>>>) {
        let (results, answer) = (Rc::new(RefCell::new(results.to_vec())), Rc::default());
        let op = Sum(Rc::clone(&results), Rc::clone(&answer));
        let _ = self.purgatory.try_complete_else_watch(op, ms_of(2000), [0]).unwrap();
        (results, answer)
    }

    /// Returns how many operations this completes.
    fn bring(&self, results: &Results, at: usize, value: u64) -> usize {
        results.borrow_mut()[at] = Some(value);
        self.purgatory.check_and_complete(&0)
    }
}

/// `DelayedOperationTest`, delayed future.
#[test]
fn results_that_are_all_there_are_added_up_at_once_and_others_when_the_last_one_comes() {
    let sums = Sums::new();
    let (_, there) = sums.wait(&[Some(10), Some(11)]);
    assert_eq!((there.get(), sums.purgatory.len()), (Some((Outcome::Satisfied, 21)), 0));
    let (results, both) = sums.wait(&[None, None]);
    assert_eq!((sums.bring(&results, 0, 20), both.get()), (0, None));
    assert_eq!((sums.bring(&results, 1, 21), both.get()), (1, Some((Outcome::Satisfied, 41))));
    let (results, one) = sums.wait(&[None, Some(31)]);
    assert_eq!((sums.bring(&results, 0, 30), one.get()), (1, Some((Outcome::Satisfied, 61))));
    // The last: one result comes, and the other never.
    let (results, late) = sums.wait(&[None, None]);
    assert_eq!(sums.bring(&results, 0, 40), 0);
    sums.clock.advance(ms_of(1999));
    assert_eq!((sums.purgatory.expire().expired, late.get()), (0, None));
    sums.clock.advance(ms_of(1));
    assert_eq!((sums.purgatory.expire().expired, late.get()), (1, Some((Outcome::Expired, 40))));
    assert_eq!(results.borrow()[1], None);
    assert!(sums.purgatory.is_empty() && sums.purgatory.watched() == 0);
}

/// Operations that wait on one key until a number is reached.
struct Thresholds {
    bench: Bench,
    reached: Arc<std::sync::atomic::AtomicU64>,
}

impl Thresholds {
    fn new() -> Self {
        Thresholds { bench: Bench::with(|builder| builder.shards(1)), reached: Arc::default() }
    }

    fn wait(&self, threshold: u32, timeout: u64) -> Handle {
        let mut op = self.bench.probe(threshold);
        let (reached, flag) = (Arc::clone(&self.reached), Arc::clone(&op.flag));
        op.in_look = Some(Box::new(move || {
            flag.store(reached.load(Ordering::SeqCst) >= u64::from(threshold), Ordering::SeqCst);
        }));
        self.bench.wait(op, ms_of(timeout), &[0])
    }

    fn reach(&self, number: u64) -> Vec<u32> {
        self.reached.store(number, Ordering::SeqCst);
        let ended = self.bench.purgatory.check_and_complete(&0);
        let log = self.bench.take_log();
        assert_eq!(log.len(), ended);
        log.into_iter().map(|end| end.0).collect()
    }
}

/// `ThresholdPurgatoryTest`, completion.
#[test]
fn each_threshold_completes_when_it_is_reached_and_not_before() {
    let thresholds = Thresholds::new();
    let _ = [3, 1, 5].map(|threshold| thresholds.wait(threshold, 500));
    assert_eq!(thresholds.bench.purgatory.len(), 3);
    for (number, completed, left) in [(1, &[1][..], 2), (2, &[], 2), (3, &[3], 1), (4, &[], 1), (5, &[5], 0)]
    {
        assert_eq!(thresholds.reach(number), completed);
        assert_eq!(thresholds.bench.purgatory.len(), left);
    }
}

/// `ThresholdPurgatoryTest`, expiration.
#[test]
fn thresholds_that_are_not_reached_expire_each_at_its_time() {
    let thresholds = Thresholds::new();
    let bench = &thresholds.bench;
    let _ = [1, 1].map(|threshold| thresholds.wait(threshold, 200));
    bench.advance(100);
    let _ = [50, 200, 100].map(|timeout| thresholds.wait(5, timeout));
    for (at, expired, left) in [(100, 0, 5), (150, 1, 4), (200, 3, 1), (250, 0, 1), (300, 1, 0)] {
        bench.advance_to(ms_of(at));
        assert_eq!((bench.drive().0, bench.purgatory.len()), (expired, left), "at {at}");
    }
    let log = bench.take_log();
    assert!(log.iter().all(|end| end.1 == Outcome::Expired));
    assert_eq!(log.into_iter().map(|end| end.0).collect::<Vec<_>>(), [5, 1, 1, 5, 5]);
}

/// `ThresholdPurgatoryTest`: completing all, failing all, and completion from outside.
#[test]
fn thresholds_are_completed_from_outside_one_by_one_or_all_at_once() {
    let thresholds = Thresholds::new();
    let handles = [1, 2, 3].map(|threshold| thresholds.wait(threshold, 500));
    for (handle, left) in handles.iter().zip([2, 1, 0]) {
        assert!(thresholds.bench.purgatory.force_complete(handle.id));
        assert_eq!(thresholds.bench.purgatory.len(), left);
    }
    let _ = [1, 2, 3].map(|threshold| thresholds.wait(threshold, 500));
    assert_eq!(thresholds.bench.purgatory.force_complete_for_key(&0), 3);
    thresholds.bench.assert_left(0, 0, 0);
    let ends = [1, 2, 3, 1, 2, 3].map(|threshold| (threshold, Outcome::Forced));
    assert_eq!(thresholds.bench.take_log(), ends);
}

/// `MockExpirationServiceTest` and the tests of throttled channels. (The wheel's part is
/// `wheel_kafka::each_step_of_the_clock_ends_what_it_reaches`.)
#[test]
fn each_step_of_the_clock_ends_the_operations_that_it_reaches() {
    let bench = Bench::with(|builder| builder.shards(1));
    (1..).zip([50, 25, 75, 50]).for_each(|(number, ms)| drop(bench.watch(number, ms_of(ms), &[])));
    for ended in [&[2][..], &[1, 4], &[3]] {
        bench.advance(25);
        let _ = bench.drive();
        assert_eq!(bench.take_log().into_iter().map(|end| end.0).collect::<Vec<_>>(), ended);
    }
    let _ = [10, 30, 30, 20].map(|ms| bench.watch(0, ms_of(ms), &[]));
    let left = [1, 2, 3, 4, 5].map(|_| {
        bench.advance(10);
        let _ = bench.drive();
        bench.purgatory.len()
    });
    assert_eq!(left, [3, 2, 0, 0, 0]);
}

/// The coordinator's timers: one for each key; what fires is an event that is handled later.
#[derive(Clone)]
struct Timers(Arc<Bench>, Arc<std::sync::Mutex<Vec<(u32, u32)>>>);

impl Timers {
    fn new() -> Self {
        Timers(Arc::new(Bench::with(|builder| builder.shards(1))), Arc::default())
    }

    /// Starts the timer of a key, in the place of one that it may have. Fires as (key, number), unless another was
    /// started meanwhile.
    fn schedule(&self, key: u32, number: u32, delay: u64) {
        drop(self.0.purgatory.cancel_for_key(&key));
        let (mut op, fired) = (self.0.probe(number), Arc::clone(&self.1));
        op.at_end = Some(Box::new(move |_| fired.lock().unwrap().push((key, number))));
        self.0.wait(op, ms_of(delay), &[key]);
    }

    /// Does something after a delay, and again after a backoff as long as it fails.
    fn retry(&self, key: u32, delay: u64, backoff: u64, fails: u32) {
        let (mut op, timers) = (self.0.probe(fails), self.clone());
        op.at_end = Some(Box::new(move |_| {
            timers.1.lock().unwrap().push((key, fails));
            if fails > 0 {
                timers.retry(key, backoff, backoff, fails - 1);
            }
        }));
        self.0.wait(op, ms_of(delay), &[key]);
    }

    /// Moves the clock, drives, and returns what has fired.
    fn advance(&self, ms: u64) -> Vec<(u32, u32)> {
        self.0.advance(ms);
        let _ = self.0.drive();
        std::mem::take(&mut self.1.lock().unwrap())
    }
}

/// `CoordinatorRuntimeTest`, schedule, re-schedule, cancel, schedule if absent.
#[test]
fn a_keyed_timer_fires_once_is_replaced_or_cancelled_and_not_extended_if_it_is_there() {
    let timers = Timers::new();
    timers.schedule(1, 1, 10);
    timers.schedule(2, 2, 20);
    assert_eq!(timers.advance(11), [(1, 1)]);
    assert_eq!(timers.0.purgatory.len(), 1);
    // Replaced again and again: only the last one fires.
    (3..6).for_each(|number| timers.schedule(2, number, 20));
    assert_eq!(timers.0.purgatory.len(), 1);
    assert_eq!(timers.advance(19), []);
    assert_eq!(timers.advance(1), [(2, 5)]);
    timers.schedule(3, 6, 10);
    assert_eq!(timers.0.purgatory.cancel_for_key(&3).taken.len(), 1);
    assert_eq!(timers.advance(100), []);
    // If absent: at half its time it is there, and goes on as it was.
    timers.schedule(4, 7, 10);
    assert_eq!(timers.advance(5), []);
    assert!(timers.0.purgatory.contains_key(&4));
    assert_eq!(timers.advance(5), [(4, 7)]);
    assert!(!timers.0.purgatory.contains_key(&4));
}

/// `CoordinatorRuntimeTest`, re-schedule and cancel between firing and processing. Here a callback that comes before the
/// timer's in the same step finds it fired, and is told so; a user who queues events checks the number of its own.
#[test]
fn a_keyed_timer_that_has_fired_and_not_run_yet_is_over_for_whoever_replaces_it() {
    for again in [true, false] {
        let timers = Timers::new();
        let mut first = timers.0.probe(0);
        let later = timers.clone();
        first.at_end = Some(Box::new(move |_| {
            assert!(!later.0.purgatory.contains_key(&1), "it has fired");
            assert_eq!(later.0.purgatory.cancel_for_key(&1).count(), 0, "so it is too late to cancel");
            if again {
                later.schedule(1, 2, 5);
            }
        }));
        timers.0.wait(first, ms_of(10), &[9]);
        timers.schedule(1, 1, 10);
        assert_eq!(timers.advance(10), [(1, 1)], "exactly once");
        let rest: &[(u32, u32)] = if again { &[(1, 2)] } else { &[] };
        assert_eq!(timers.advance(5), rest);
        assert!(timers.0.purgatory.is_empty());
    }
}

/// `CoordinatorRuntimeTest`, retries.
#[test]
fn a_timer_that_fails_is_there_again_after_its_backoff_until_it_succeeds() {
    for backoff in [500, 1000] {
        let timers = Timers::new();
        timers.retry(1, 10, backoff, 2);
        assert_eq!((timers.advance(11), timers.0.purgatory.len()), (vec![(1, 2)], 1));
        assert_eq!((timers.advance(backoff - 1), timers.0.purgatory.len()), (vec![], 1));
        assert_eq!((timers.advance(1), timers.0.purgatory.len()), (vec![(1, 1)], 1));
        assert_eq!((timers.advance(backoff), timers.0.purgatory.len()), (vec![(1, 0)], 0));
        timers.retry(1, 10, backoff, 0);
        assert_eq!((timers.advance(11), timers.0.purgatory.len()), (vec![(1, 0)], 0), "not retried");
        assert_eq!(timers.advance(10_000), []);
    }
}

/// B47, `DelayedRemoteFetchTest`, `DelayedRemoteListOffsetsTest`. A wait that is up cancels what it waits for, before it
/// answers; one that is satisfied does not, and one that fails cancels the rest.
#[test]
fn an_operation_cancels_what_it_waits_for_when_its_time_is_up_and_only_then() {
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Task {
        Running,
        Done(i64),
        Failed,
        Cancelled,
    }
    type Tasks = Rc<RefCell<Vec<Task>>>;
    /// Waits for tasks, unless it is not the leader any more.
    struct Remote(Tasks, Rc<Cell<bool>>, Rc<RefCell<Vec<i64>>>);
    impl DelayedOperation for Remote {
        fn try_complete(&mut self) -> bool {
            let mut tasks = self.0.borrow_mut();
            if !self.1.get() {
                // The first is of a partition that moved away: it fails, and the others go on.
                tasks[0] = Task::Cancelled;
            }
            tasks.iter().all(|task| *task != Task::Running)
        }
        fn on_complete(self, outcome: Outcome) {
            let mut tasks = self.0.borrow_mut();
            for task in tasks.iter_mut().filter(|task| **task == Task::Running) {
                assert_eq!(outcome, Outcome::Expired);
                *task = Task::Cancelled;
            }
            assert!(self.2.borrow().is_empty(), "answered once");
            let answer = |task: &Task| if let Task::Done(offset) = task { *offset } else { -1 };
            self.2.borrow_mut().extend(tasks.iter().map(answer));
        }
    }
    let clock = clock(Resolution::MILLISECOND);
    let purgatory = Purgatory::builder("remote").clock(clock.clone()).build();
    let wait = |count: usize| {
        let (tasks, leads) = (Rc::new(RefCell::new(vec![Task::Running; count])), Rc::new(Cell::new(true)));
        let answer = Rc::new(RefCell::new(Vec::new()));
        let op = Remote(Rc::clone(&tasks), Rc::clone(&leads), Rc::clone(&answer));
        let _ = purgatory.try_complete_else_watch(op, ms_of(10), [0]).unwrap();
        (tasks, leads, answer)
    };
    let cancelled = |tasks: &Tasks| tasks.borrow().iter().filter(|task| **task == Task::Cancelled).count();

    let (tasks, _, answer) = wait(3);
    clock.advance(ms_of(10));
    assert_eq!((purgatory.expire().expired, cancelled(&tasks)), (1, 3));
    assert_eq!(*answer.borrow(), [-1, -1, -1]);

    let (tasks, _, answer) = wait(3);
    tasks.borrow_mut().fill(Task::Done(100));
    assert_eq!((purgatory.check_and_complete(&0), cancelled(&tasks)), (1, 0));
    assert_eq!(*answer.borrow(), [100, 100, 100]);

    let (tasks, _, answer) = wait(3);
    tasks.borrow_mut().clone_from_slice(&[Task::Failed, Task::Done(100), Task::Done(100)]);
    assert_eq!((purgatory.check_and_complete(&0), cancelled(&tasks)), (1, 0));
    assert_eq!(*answer.borrow(), [-1, 100, 100]);

    let (tasks, leads, answer) = wait(4);
    tasks.borrow_mut()[1..].fill(Task::Done(100));
    leads.set(false);
    assert_eq!((purgatory.check_and_complete(&0), cancelled(&tasks)), (1, 1));
    assert_eq!(*answer.borrow(), [-1, 100, 100, 100]);
    clock.advance(Duration::from_secs(1));
    assert_eq!(purgatory.expire().expired, 0);
}

/// `PartitionTest`, and B35: whoever signals several purgatories gets through, though looks in each of them panic.
#[test]
fn a_signal_to_several_purgatories_gets_through_though_looks_in_each_of_them_panic() {
    let benches: Vec<Bench> = (0..4).map(|_| Bench::with(|builder| builder.on_panic(|_| {}))).collect();
    for bench in &benches {
        let mut op = bench.probe(0);
        let looks = Arc::clone(&op.looks);
        op.in_look = Some(Box::new(move || assert!(looks.load(Ordering::SeqCst) < 3, "uh oh")));
        bench.wait(op, NEVER, &[1]);
        bench.watch(1, NEVER, &[1]).set();
    }
    let ended: usize = benches.iter().map(|bench| bench.purgatory.check_and_complete(&1)).sum();
    assert_eq!(ended, 8);
    for bench in &benches {
        assert_eq!(bench.take_log(), [(0, Outcome::Panicked), (1, Outcome::Satisfied)]);
        assert_eq!(bench.purgatory.stats().panics, 1);
        bench.assert_left(0, 0, 0);
    }
}

/// `DelayedShareFetchTest`: completed by force it reads once, and not again; completed with nothing to read, not at all;
/// and what the completion causes runs after it.
#[test]
fn an_operation_that_is_completed_by_force_reads_once_and_causes_one_action_that_runs_after_it() {
    for acquirable in [false, true] {
        let (bench, order) = (Bench::new(), Arc::new(std::sync::Mutex::new(Vec::new())));
        let mut action = bench.probe(1);
        let ran = Arc::clone(&order);
        action.at_end = Some(Box::new(move |_| ran.lock().unwrap().push("action")));
        let action = bench.wait(action, NEVER, &[2]);
        let mut op = bench.probe(0);
        let (purgatory, done) = (Arc::clone(&bench.purgatory), Arc::clone(&order));
        op.at_end = Some(Box::new(move |_| {
            if acquirable {
                done.lock().unwrap().push("read");
            }
            assert!(purgatory.force_complete(action.id), "enqueued");
            done.lock().unwrap().push("completed");
        }));
        let handle = bench.wait(op, NEVER, &[1, 3]);
        bench.assert_left(2, 3, 3);
        assert!(bench.purgatory.force_complete(handle.id));
        assert!(!bench.purgatory.force_complete(handle.id), "the second does nothing");
        let expected: &[&str] =
            if acquirable { &["read", "completed", "action"] } else { &["completed", "action"] };
        assert_eq!(*order.lock().unwrap(), expected);
        bench.assert_left(0, 0, 0);
    }
}
