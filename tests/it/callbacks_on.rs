//! Callbacks that are jobs of an executor.

use crate::guarantees::support::*;
use crate::jobs::SOON;
use ixion::{Cancelled, Outcome, PanicPlace, Purgatory, Waiting};
use std::collections::VecDeque;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Instant;

type Job = Box<dyn FnOnce() + Send>;

/// An executor that runs its jobs when a test says so.
#[derive(Clone, Default)]
struct Queue(Arc<Mutex<VecDeque<Job>>>);

impl Queue {
    fn push(&self, job: Job) {
        self.0.lock().unwrap().push_back(job);
    }

    fn pop(&self) -> Option<Job> {
        self.0.lock().unwrap().pop_front()
    }

    fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn run_all(&self) -> usize {
        std::iter::from_fn(|| self.pop()).map(|job| job()).count()
    }
}

fn queued() -> (Queue, Bench) {
    let queue = Queue::default();
    let jobs = queue.clone();
    (queue, Bench::with(|builder| builder.callbacks_on(move |job| jobs.push(job))))
}

#[test]
fn an_end_is_decided_and_counted_before_its_job_runs_and_jobs_come_in_order() {
    let (queue, bench) = queued();
    let handles: Vec<Handle> = (1..6).map(|number| bench.watch(number, ms_of(5), &[number])).collect();
    let at_once = bench.probe(0);
    at_once.flag.store(true, Ordering::SeqCst);
    assert!(bench.register(at_once, NEVER, &[1]).unwrap().is_completed());
    handles[0].set();
    assert_eq!(bench.purgatory.check_and_complete(&1), 1);
    assert!(bench.purgatory.force_complete(handles[1].id));
    bench.advance(5);
    assert!(bench.purgatory.reset_timeout(handles[2].id, ms_of(5)));
    assert!(bench.purgatory.reset_timeout(handles[3].id, NEVER));
    assert_eq!(bench.drive().0, 1);
    let back = bench.purgatory.cancel(handles[3].id);
    assert!(matches!(back, Cancelled::Taken(op) if op.number == 4), "no callback, no job");
    assert_eq!(bench.purgatory.cancel(handles[4].id), Cancelled::Gone, "decided, though its job has not run");
    assert_eq!(bench.purgatory.shutdown(), 1);

    let stats = bench.purgatory.stats();
    assert_eq!((stats.satisfied, stats.forced, stats.expired, stats.shut_down), (2, 1, 1, 1));
    bench.assert_left(0, 0, 0);
    assert_eq!((bench.take_log().len(), queue.len()), (0, 5));
    assert_eq!(queue.run_all(), 5);
    let ends = [
        (0, Outcome::Satisfied),
        (1, Outcome::Satisfied),
        (2, Outcome::Forced),
        (5, Outcome::Expired),
        (3, Outcome::Shutdown),
    ];
    assert_eq!(bench.take_log(), ends);
}

/// CAN-11, on an executor that is held up.
#[test]
fn what_fires_twice_before_its_first_job_has_run_runs_twice_in_order() {
    let (queue, bench) = queued();
    for number in 1..3 {
        let handle = bench.watch(number, ms_of(1), &[1]);
        bench.advance(1);
        assert_eq!(bench.drive().0, 1);
        assert_eq!(bench.purgatory.cancel(handle.id), Cancelled::Gone, "too late");
    }
    let cancelled = bench.watch(3, ms_of(1), &[1]);
    assert!(bench.purgatory.cancel(cancelled.id).is_cancelled());
    bench.advance(1);
    assert_eq!((bench.drive().0, queue.run_all()), (0, 2));
    assert_eq!(bench.take_log(), [(1, Outcome::Expired), (2, Outcome::Expired)]);
}

#[test]
fn an_operation_and_its_keys_are_dropped_by_their_job() {
    let (queue, bench) = queued();
    let payload = Arc::new(());
    let mut op = bench.probe(1);
    op.payload = Some(Arc::clone(&payload));
    let handle = bench.wait(op, NEVER, &[1]);
    assert!(bench.purgatory.force_complete(handle.id));
    assert_eq!(Arc::strong_count(&payload), 2);
    assert_eq!(queue.run_all(), 1);
    assert_eq!(Arc::strong_count(&payload), 1);

    let keys = Queue::default();
    let jobs = keys.clone();
    let keyed: Purgatory<Arc<str>, Waiting> =
        Purgatory::builder("keys").callbacks_on(move |job| jobs.push(job)).build();
    let key: Arc<str> = "key".into();
    let mut wait = pin!(keyed.wait(NEVER, [Arc::clone(&key)], || None::<()>));
    assert!(wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(keyed.force_complete_for_key(&key), 1);
    assert_eq!(Arc::strong_count(&key), 2);
    assert_eq!(keys.run_all(), 1);
    assert_eq!(Arc::strong_count(&key), 1);
    assert!(matches!(wait.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Err(_))));
}

#[test]
fn a_slow_callback_delays_neither_an_expiry_nor_a_signal() {
    let (jobs, queue) = mpsc::channel::<Job>();
    let executor = thread::spawn(move || queue.into_iter().for_each(|job| job()));
    let bench = Bench::with(|builder| builder.shards(1).callbacks_on(move |job| _ = jobs.send(job)));
    let (go, wait) = mpsc::channel::<()>();
    let mut slow = bench.probe(0);
    slow.at_end = Some(Box::new(move |_| _ = wait.recv()));
    bench.wait(slow, ms_of(1), &[0]);
    let due: Vec<Handle> = (1..10).map(|number| bench.watch(number, ms_of(1), &[number])).collect();
    let signalled = bench.watch(10, NEVER, &[10]);
    bench.advance(1);
    assert_eq!(bench.drive().0, due.len() + 1, "with the first callback at work");
    signalled.set();
    assert_eq!(bench.purgatory.check_and_complete(&10), 1);
    bench.assert_left(0, 0, 0);
    go.send(()).unwrap();
    let log = Arc::clone(&bench.log);
    // The purgatory has the executor, and that the sender.
    drop(bench);
    executor.join().unwrap();
    assert!(log.lock().unwrap().iter().map(|end| end.0).eq(0..=10));
}

#[test]
fn a_callback_finds_the_runtime_of_its_executor() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let handle = runtime.handle().clone();
    let bench = Bench::with(|builder| builder.callbacks_on(move |job| drop(handle.spawn_blocking(job))));
    let (sender, receiver) = mpsc::channel();
    let mut op = bench.probe(0);
    op.at_end = Some(Box::new(move |outcome| drop(tokio::spawn(async move { sender.send(outcome) }))));
    let handle = bench.wait(op, NEVER, &[1]);
    assert!(bench.purgatory.force_complete(handle.id), "from a thread without a runtime");
    assert_eq!(receiver.recv_timeout(SOON), Ok(Outcome::Forced));
}

#[test]
fn a_job_that_is_dropped_runs_there() {
    let bench = Bench::with(|builder| builder.callbacks_on(drop));
    let handle = bench.watch(1, NEVER, &[1]);
    assert!(bench.purgatory.force_complete(handle.id));
    assert_eq!(bench.take_log(), [(1, Outcome::Forced)]);
}

#[test]
fn jobs_that_a_runtime_never_gets_to_run_when_it_drops_them() {
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    let handle = runtime.handle().clone();
    let bench = Bench::with(|builder| builder.callbacks_on(move |job| drop(handle.spawn_blocking(job))));
    let (begun, begins) = mpsc::channel();
    let (go, wait) = mpsc::channel::<()>();
    let mut first = bench.probe(0);
    first.at_end = Some(Box::new(move |_| {
        begun.send(()).unwrap();
        let _ = wait.recv();
    }));
    bench.wait(first, NEVER, &[0]);
    for number in 1..4 {
        bench.watch(number, NEVER, &[number]);
    }
    assert_eq!(bench.purgatory.force_complete_for_key(&0), 1);
    begins.recv_timeout(SOON).unwrap();
    for number in 1..3 {
        assert_eq!(bench.purgatory.force_complete_for_key(&number), 1);
    }
    assert_eq!(bench.take_log(), [(0, Outcome::Forced)], "the others are behind it");
    runtime.shutdown_background();
    go.send(()).unwrap();
    // A runtime that is shut down takes no job any more.
    assert_eq!(bench.purgatory.force_complete_for_key(&3), 1);
    let until = Instant::now() + SOON;
    while bench.log.lock().unwrap().len() < 3 && Instant::now() < until {
        thread::yield_now();
    }
    let mut ends = bench.take_log();
    ends.sort_by_key(|end| end.0);
    assert_eq!(ends, [1, 2, 3].map(|number| (number, Outcome::Forced)));
}

#[test]
fn an_executor_that_panics_is_told_of_and_the_operation_ends_all_the_same() {
    let places = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&places);
    let bench = Bench::with(|builder| {
        builder
            .on_panic(move |panic| told.lock().unwrap().push((panic.place(), panic.message().to_owned())))
            .callbacks_on(|_job| panic!("an executor"))
    });
    for number in 1..3 {
        let mut op = bench.probe(number);
        // The second callback panics as well, while the panic of the executor goes by.
        op.at_end = Some(Box::new(move |_| assert!(number == 1, "a callback")));
        bench.wait(op, ms_of(1), &[number]);
    }
    bench.advance(1);
    assert_eq!(bench.drive().0, 2);
    assert_eq!(bench.take_log(), [(1, Outcome::Expired), (2, Outcome::Expired)]);
    let expected = [
        (PanicPlace::Executor, "an executor"),
        (PanicPlace::Callback, "a callback"),
        (PanicPlace::Executor, "an executor"),
    ];
    assert_eq!(*places.lock().unwrap(), expected.map(|(place, text)| (place, text.to_owned())));
    assert_eq!(bench.purgatory.stats().panics, 3);
    bench.assert_left(0, 0, 0);
}

#[test]
fn a_callback_that_panics_in_a_job_is_counted_and_harms_no_executor() {
    let queue = Queue::default();
    let jobs = queue.clone();
    let bench = Bench::with(|builder| builder.on_panic(|_| ()).callbacks_on(move |job| jobs.push(job)));
    let mut op = bench.probe(1);
    op.at_end = Some(Box::new(|_| panic!("a callback")));
    let handle = bench.wait(op, NEVER, &[1]);
    assert!(bench.purgatory.force_complete(handle.id));
    assert_eq!(bench.purgatory.stats().panics, 0);
    assert_eq!(queue.run_all(), 1);
    assert_eq!(bench.purgatory.stats().panics, 1);
}

#[test]
fn what_a_job_causes_comes_after_its_callback_on_an_executor_that_runs_in_place_too() {
    const LENGTH: u32 = 20_000;
    let run = |on: fn(Job)| {
        let bench = Bench::with(|builder| builder.callbacks_on(on));
        for number in 0..LENGTH {
            let mut op = bench.probe(number);
            let (purgatory, log) = (Arc::clone(&bench.purgatory), Arc::clone(&bench.log));
            op.at_end = Some(Box::new(move |_| {
                purgatory.force_complete_for_key(&(number + 1));
                assert_eq!(log.lock().unwrap().len(), number as usize + 1, "the next one comes after this");
            }));
            bench.wait(op, NEVER, &[number]);
        }
        assert_eq!(bench.purgatory.force_complete_for_key(&0), 1);
        assert!(bench.take_log().iter().map(|end| end.0).eq(0..LENGTH));
        bench.assert_left(0, 0, 0);
    };
    let small = thread::Builder::new().stack_size(256 * 1024);
    let runs = small.spawn(move || {
        run(|job| job());
        run(drop);
    });
    runs.unwrap().join().unwrap();
}

#[test]
fn what_a_job_causes_on_the_executors_own_thread_comes_after_its_callback() {
    let (queue, bench) = queued();
    let inner = bench.watch(1, NEVER, &[1]);
    let (mut op, purgatory, jobs) = (bench.probe(0), Arc::clone(&bench.purgatory), queue.clone());
    op.at_end = Some(Box::new(move |_| {
        assert!(purgatory.force_complete(inner.id));
        assert_eq!((purgatory.len(), jobs.len()), (0, 0), "decided at once, and handed over after this");
    }));
    let outer = bench.wait(op, NEVER, &[0]);
    assert!(bench.purgatory.force_complete(outer.id));
    queue.pop().unwrap()();
    assert_eq!(queue.len(), 1);
    assert_eq!(queue.run_all(), 1);
    assert_eq!(bench.take_log(), [(0, Outcome::Forced), (1, Outcome::Forced)]);
}

#[test]
fn a_job_outlives_its_purgatory() {
    let (queue, bench) = queued();
    bench.watch(1, NEVER, &[1]);
    let log = Arc::clone(&bench.log);
    drop(bench);
    assert_eq!((log.lock().unwrap().len(), queue.len()), (0, 1), "its end is the shutdown's");
    assert_eq!(queue.run_all(), 1);
    assert_eq!(*log.lock().unwrap(), [(1, Outcome::Shutdown)]);
    assert_eq!(Arc::strong_count(&queue.0), 1, "and the executor is gone with the last job");
}

#[test]
fn handed_back_operations_are_no_jobs() {
    let (queue, bench) = queued();
    bench.watch(1, NEVER, &[1, 2]);
    bench.watch(2, NEVER, &[3]);
    assert_eq!(bench.purgatory.cancel_for_key(&1).taken.len(), 1);
    assert_eq!(bench.purgatory.shutdown_and_hand_back().taken.len(), 1);
    assert_eq!(queue.len(), 0);
}

#[test]
fn every_operation_ends_once_with_threads_on_both_sides() {
    const OPERATIONS: u32 = 2000;
    let (jobs, queue) = mpsc::channel::<Job>();
    let executor = thread::spawn(move || queue.into_iter().for_each(|job| job()));
    let bench = Bench::with(|builder| builder.callbacks_on(move |job| _ = jobs.send(job)));
    let ended = Arc::new(AtomicUsize::new(0));
    for number in 0..OPERATIONS {
        let (mut op, ended) = (bench.probe(number), Arc::clone(&ended));
        op.at_end = Some(Box::new(move |_| _ = ended.fetch_add(1, Ordering::SeqCst)));
        bench.wait(op, ms_of(1), &[number % 16]).set();
    }
    bench.advance(1);
    thread::scope(|scope| {
        scope.spawn(|| while bench.purgatory.expire().more {});
        scope.spawn(|| (0..16).for_each(|key| _ = bench.purgatory.check_and_complete(&key)));
        scope.spawn(|| (0..16).for_each(|key| _ = bench.purgatory.force_complete_for_key(&key)));
    });
    bench.assert_left(0, 0, 0);
    drop(bench);
    executor.join().unwrap();
    assert_eq!(ended.load(Ordering::SeqCst), OPERATIONS as usize);
}
