//! The queue of `ixion-retry`: who waits against what can come, and the one alarm. Its clock stands still at ten
//! milliseconds, so an alarm for then rings at the first drive, and one for later never does.
#![cfg(any(ixion_loom, ixion_shuttle))]

use ixion::ManualClock;
use ixion_models::checker::thread::{JoinHandle, spawn};
use ixion_models::{Sleeper, Still, block_on, bounded};
use ixion_retry::{Backoff, MemoryStore, RetryQueue};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

const NOW: Duration = Duration::ZERO;
const NEVER: Duration = Duration::MAX;
/// Without a bound some models of two threads take minutes; all planted bugs show with this one.
const PREEMPTIONS: usize = 2;

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

type Queue = Arc<RetryQueue<MemoryStore>>;

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

/// Waits for one item, and says how many have come.
fn take(queue: &Queue, timeout: Duration) -> Pin<Box<impl Future<Output = usize>>> {
    let take = queue.take(1, NEVER, timeout);
    Box::pin(async { take.await.unwrap().len() })
}

#[test]
fn a_push_against_a_taker_that_begins_to_wait() {
    bounded(PREEMPTIONS, || {
        let queue = queue();
        let pusher = start(&queue, |queue| push(queue, NOW));
        assert_eq!(block_on(take(&queue, NEVER)), 1);
        pusher.join().unwrap();
    });
}

#[test]
fn a_taker_that_goes_as_an_item_wakes_it() {
    bounded(PREEMPTIONS, || {
        let queue = queue();
        let [first_task, task] = [(); 2].map(|()| Arc::new(Sleeper::default()));
        let (mut first, mut second) = (take(&queue, NEVER), take(&queue, NEVER));
        assert!(first_task.poll(&mut first).is_pending() && task.poll(&mut second).is_pending());
        let pusher = start(&queue, |queue| push(queue, NOW));
        drop(first);
        assert_eq!(task.go_on(second), 1);
        pusher.join().unwrap();
    });
}

#[test]
fn a_taker_that_leaves_some_to_another() {
    bounded(PREEMPTIONS, || {
        let queue = queue();
        let (task, mut second) = (Arc::new(Sleeper::default()), take(&queue, NEVER));
        let first = start(&queue, |queue| block_on(take(queue, NEVER)));
        assert!(task.poll(&mut second).is_pending());
        // One step, which wakes one.
        queue.push_all(&[(b"x", NOW), (b"x", NOW)]).unwrap();
        assert_eq!(task.go_on(second), 1);
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
        let (task, mut waits) = (Arc::new(Sleeper::default()), take(&queue, ms(5)));
        assert!(task.poll(&mut waits).is_pending());
        clock.advance(ms(5));
        let driver = start(&queue, |queue| queue.drive());
        let taken = task.go_on(waits);
        driver.join().unwrap();
        let counts = queue.counts().unwrap();
        assert_eq!((counts.in_flight, counts.waiting), (taken, 1 - taken));
    });
}

#[test]
fn a_queue_that_is_closed_against_a_taker_and_a_push() {
    bounded(PREEMPTIONS, || {
        let queue = queue();
        let pusher = start(&queue, |queue| push(queue, NOW));
        let closer = start(&queue, |queue| queue.close());
        let taken = block_on(take(&queue, NEVER));
        pusher.join().unwrap();
        closer.join().unwrap();
        let counts = queue.counts().unwrap();
        assert_eq!((counts.in_flight, counts.waiting), (taken, 1 - taken));
    });
}
