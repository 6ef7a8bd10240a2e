//! tokio-util's `DelayQueue`, polled as a task would.

use super::peer::{Peer, Time, runtime};
use crate::support::Payload;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;
use tokio::runtime::{EnterGuard, Runtime};
use tokio::task::unconstrained;
use tokio_util::time::{DelayQueue, delay_queue};

pub struct Delayed {
    queue: DelayQueue<Payload>,
    runtime: &'static Runtime,
    now: u64,
}

impl Peer for Delayed {
    const NAME: &'static str = "DelayQueue";
    // It rounds up twice.
    const SLACK: u64 = 3;
    type Id = delay_queue::Key;

    fn new(time: Time) -> Self {
        let runtime = runtime(time);
        let _guard = runtime.enter();
        Delayed { queue: DelayQueue::new(), runtime, now: 0 }
    }

    fn enter(&self) -> Option<EnterGuard<'static>> {
        Some(self.runtime.enter())
    }

    #[inline]
    fn start(&mut self, delay: u64, payload: Payload) -> delay_queue::Key {
        self.queue.insert(payload, Duration::from_millis(delay))
    }

    #[inline]
    fn stop(&mut self, id: delay_queue::Key) {
        drop(self.queue.remove(&id));
    }

    #[inline]
    fn restart(&mut self, id: delay_queue::Key, delay: u64) -> delay_queue::Key {
        self.queue.reset(&id, Duration::from_millis(delay));
        id
    }

    #[inline]
    fn pass(&mut self, steps: u64, milliseconds: u64, mut fire: impl FnMut(u64, Payload)) {
        let (queue, now) = (&mut self.queue, &mut self.now);
        // A task that is done yields; it must not be made to before.
        self.runtime.block_on(unconstrained(async {
            for _ in 0..steps {
                *now += milliseconds;
                tokio::time::advance(Duration::from_millis(milliseconds)).await;
                poll_fn(|context| {
                    while let Poll::Ready(Some(expired)) = queue.poll_expired(context) {
                        fire(*now, expired.into_inner());
                    }
                    Poll::Ready(())
                })
                .await;
            }
        }));
    }
}
