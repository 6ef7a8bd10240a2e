//! A crowd at a queue of `ixion-retry`: takers of one or two items that wait or go, an item that is pushed alone and a batch
//! that is enough for all, with more or less room in flight; at random. One that is left waiting is a deadlock.
#![cfg(ixion_shuttle)]

use ixion_models::{Sleeper, Still, explore};
use ixion_retry::{MemoryStore, RetryQueue};
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread::spawn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

const NEVER: Duration = Duration::MAX;
const TAKERS: usize = 4;

/// Takes and acknowledges, or goes when it would have to wait.
fn take(queue: &RetryQueue<MemoryStore>) {
    let (task, n) = (Arc::new(Sleeper::default()), thread_rng().gen_range(1..=2));
    let mut take = Box::pin(queue.take(n, NEVER, NEVER));
    let taken = match task.poll(&mut take) {
        Poll::Ready(taken) => taken.unwrap(),
        Poll::Pending if thread_rng().gen_bool(0.25) => return,
        Poll::Pending => task.go_on(take).unwrap(),
    };
    let done = queue.ack_all(taken.iter().map(|delivery| &delivery.receipt)).unwrap();
    assert!(!done.is_empty() && done.into_iter().all(|done| done));
}

#[test]
fn nobody_is_left_waiting_while_there_are_items() {
    explore(3000, || {
        let room = [1, 2, usize::MAX][thread_rng().gen_range(0..3)];
        let queue = RetryQueue::builder(MemoryStore::new()).clock(Still).max_in_flight(room).build();
        queue.drive();
        let queue = Arc::new(queue);
        let start = |run: fn(&RetryQueue<MemoryStore>)| {
            let queue = Arc::clone(&queue);
            spawn(move || run(&queue))
        };
        let mut threads: Vec<_> = (0..TAKERS).map(|_| start(take)).collect();
        threads.push(start(|queue| _ = queue.push(b"x", Duration::ZERO).unwrap()));
        queue.push_all(&[(b"x", Duration::ZERO); 2 * TAKERS]).unwrap();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
