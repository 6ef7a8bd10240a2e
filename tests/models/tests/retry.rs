//! The queue of `ixion-retry`: who waits against what can come, and the one alarm. Its clock stands still at ten
//! milliseconds, so an alarm for then rings at the first drive, and one for later never does.
#![cfg(any(ixion_loom, ixion_shuttle))]

use ixion::ManualClock;
use ixion_models::checker::sync::{Condvar, Mutex};
use ixion_models::checker::thread::{JoinHandle, spawn};
use ixion_models::{Still, bounded};
use ixion_retry::{Backoff, Delivery, MemoryStore, RetryQueue};
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

const NOW: Duration = Duration::ZERO;
const NEVER: Duration = Duration::MAX;
/// Without a bound some models of two threads take minutes.
const PREEMPTIONS: usize = 3;

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

type Queue = Arc<RetryQueue<MemoryStore>>;
type Taken = Result<Vec<Delivery>, Infallible>;

fn queue() -> Queue {
    let builder = RetryQueue::builder(MemoryStore::new()).backoff(Backoff::fixed(NOW));
    let queue = builder.clock(Still).build();
    // So that no alarm is set but those of the model.
    queue.drive();
    Arc::new(queue)
}

fn start<R: Send + 'static>(queue: &Queue, run: impl FnOnce(&Queue) -> R + Send + 'static) -> JoinHandle<R> {
    let queue = Arc::clone(queue);
    spawn(move || run(&queue))
}

fn push(queue: &Queue, delay: Duration) {
    queue.push(b"x", delay).unwrap();
}

/// A task that sleeps until it is woken. If nobody wakes it, the checker sees a deadlock.
#[derive(Default)]
struct Sleeper {
    woken: Mutex<bool>,
    bell: Condvar,
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        *self.woken.lock().unwrap() = true;
        self.bell.notify_all();
    }
}

fn poll(task: &Arc<Sleeper>, take: Pin<&mut impl Future<Output = Taken>>) -> Option<usize> {
    match take.poll(&mut Context::from_waker(&Waker::from(Arc::clone(task)))) {
        Poll::Ready(taken) => Some(taken.unwrap().len()),
        Poll::Pending => None,
    }
}

/// How many items a taker gets that was polled in vain, and sleeps until it is woken.
fn sleep(task: &Arc<Sleeper>, mut take: Pin<&mut impl Future<Output = Taken>>) -> usize {
    loop {
        let mut woken = task.woken.lock().unwrap();
        while !*woken {
            woken = task.bell.wait(woken).unwrap();
        }
        *woken = false;
        drop(woken);
        if let Some(taken) = poll(task, take.as_mut()) {
            return taken;
        }
    }
}

fn take_one(queue: &Queue) -> usize {
    let (task, mut take) = (Arc::default(), pin!(queue.take(1, NEVER, NEVER)));
    poll(&task, take.as_mut()).unwrap_or_else(|| sleep(&task, take))
}

#[test]
fn a_push_against_a_taker_that_begins_to_wait() {
    bounded(PREEMPTIONS, || {
        let queue = queue();
        let pusher = start(&queue, |queue| push(queue, NOW));
        assert_eq!(take_one(&queue), 1);
        pusher.join().unwrap();
    });
}

#[test]
fn a_taker_that_goes_as_an_item_wakes_it() {
    bounded(PREEMPTIONS, || {
        let queue = queue();
        let (mut first, mut second) =
            (Box::pin(queue.take(1, NEVER, NEVER)), pin!(queue.take(1, NEVER, NEVER)));
        let task = Arc::default();
        assert_eq!((poll(&Arc::default(), first.as_mut()), poll(&task, second.as_mut())), (None, None));
        let pusher = start(&queue, |queue| push(queue, NOW));
        drop(first);
        assert_eq!(sleep(&task, second), 1);
        pusher.join().unwrap();
    });
}

#[test]
fn a_taker_that_leaves_some_to_another() {
    bounded(PREEMPTIONS, || {
        let queue = queue();
        let task = Arc::default();
        let mut second = pin!(queue.take(1, NEVER, NEVER));
        let first = start(&queue, |queue| take_one(queue));
        assert_eq!(poll(&task, second.as_mut()), None);
        // One step, which wakes one.
        queue.push_all(&[(b"x", NOW), (b"x", NOW)]).unwrap();
        assert_eq!(sleep(&task, second), 1);
        assert_eq!(first.join().unwrap(), 1);
    });
}

#[test]
fn a_push_for_later_against_an_alarm_that_rings() {
    bounded(PREEMPTIONS, || {
        let queue = queue();
        let taken = {
            push(&queue, NOW);
            queue.try_take(1, NOW).unwrap() // runs out at once, by the next drive
        };
        assert_eq!(taken.len(), 1);
        let driver = start(&queue, |queue| queue.drive());
        push(&queue, ms(5));
        driver.join().unwrap();
        assert_eq!(queue.time_to_next(), Some(ms(5)));
    });
}

#[test]
fn an_alarm_for_later_against_one_for_sooner() {
    for is_set in [false, true] {
        bounded(PREEMPTIONS, move || {
            let queue = queue();
            if is_set {
                push(&queue, ms(9));
            }
            let sooner = start(&queue, |queue| push(queue, ms(5)));
            push(&queue, ms(7));
            sooner.join().unwrap();
            assert_eq!(queue.time_to_next(), Some(ms(5)));
        });
    }
}

#[test]
fn a_takers_time_against_what_runs_out() {
    bounded(PREEMPTIONS, || {
        let clock = ManualClock::new();
        let builder = RetryQueue::builder(MemoryStore::new()).backoff(Backoff::fixed(NOW));
        let queue = Arc::new(builder.clock(clock.clone()).build());
        queue.drive();
        push(&queue, NOW);
        assert_eq!(queue.try_take(1, ms(5)).unwrap().len(), 1);
        let task = Arc::default();
        let mut waits = pin!(queue.take(1, NEVER, ms(5)));
        assert_eq!(poll(&task, waits.as_mut()), None);
        clock.advance(ms(5));
        let driver = start(&queue, |queue| queue.drive());
        let taken = sleep(&task, waits);
        driver.join().unwrap();
        let counts = queue.counts().unwrap();
        assert_eq!((counts.in_flight, counts.waiting), (taken, 1 - taken));
    });
}

#[test]
fn a_queue_that_is_closed_against_a_taker_and_a_push() {
    bounded(PREEMPTIONS - 1, || {
        let queue = queue();
        let pusher = start(&queue, |queue| push(queue, NOW));
        let closer = start(&queue, |queue| queue.close());
        let taken = take_one(&queue);
        pusher.join().unwrap();
        closer.join().unwrap();
        let counts = queue.counts().unwrap();
        assert_eq!((counts.in_flight, counts.waiting), (taken, 1 - taken));
    });
}
