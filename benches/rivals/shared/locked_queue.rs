//! tokio-util's `DelayQueue` in a mutex, and a task that polls it.

use super::{Lane, Shared};
use crate::support::Payload;
use parking_lot::Mutex;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, EnterGuard, Runtime};
use tokio_util::time::{DelayQueue, delay_queue};

pub struct LockedQueue {
    queue: Arc<Mutex<DelayQueue<Payload>>>,
    runtime: Runtime,
}

pub struct Entered<'a>(&'a Mutex<DelayQueue<Payload>>, EnterGuard<'a>);

impl Shared for LockedQueue {
    const NAME: &'static str = "DelayQueue";
    type Lane<'a> = Entered<'a>;

    fn new() -> Self {
        let runtime = Builder::new_multi_thread().enable_time().build().expect("a runtime");
        let queue = Arc::new(Mutex::new(DelayQueue::new()));
        let polled = Arc::clone(&queue);
        runtime.spawn(async move {
            loop {
                let expired = poll_fn(|context| polled.lock().poll_expired(context)).await;
                if expired.is_none() {
                    // It is empty, and wakes nobody when it no longer is.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        });
        LockedQueue { queue, runtime }
    }

    fn lane(&self) -> Entered<'_> {
        Entered(&self.queue, self.runtime.enter())
    }
}

impl Lane for Entered<'_> {
    type Id = delay_queue::Key;

    #[inline]
    fn start(&mut self, delay: Duration, payload: Payload) -> delay_queue::Key {
        let _entered = &self.1;
        self.0.lock().insert(payload, delay)
    }

    #[inline]
    fn stop(&mut self, id: delay_queue::Key) -> bool {
        let stopped = self.0.lock().try_remove(&id);
        stopped.is_some()
    }
}
