//! tokio's `sleep`, boxed, polled once when it is started.
//!
//! All share one waker, and what is woken is not polled again until the caller lets go of it: a task for each, as a
//! server has, costs more.

use super::peer::{Peer, Time, runtime};
use crate::support::Payload;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::runtime::{EnterGuard, Runtime};
use tokio::time::{Instant, Sleep, advance, sleep};

pub struct Sleeps {
    runtime: &'static Runtime,
    context: Context<'static>,
}

impl Peer for Sleeps {
    const NAME: &'static str = "tokio sleep";
    // It rounds up.
    const SLACK: u64 = 1;
    type Id = (Pin<Box<Sleep>>, Payload);

    fn new(time: Time) -> Self {
        Sleeps { runtime: runtime(time), context: Context::from_waker(Waker::noop()) }
    }

    fn enter(&self) -> Option<EnterGuard<'static>> {
        Some(self.runtime.enter())
    }

    #[inline]
    fn start(&mut self, delay: u64, payload: Payload) -> Self::Id {
        let mut sleep = Box::pin(sleep(Duration::from_millis(delay)));
        assert!(sleep.as_mut().poll(&mut self.context).is_pending(), "it waits");
        (sleep, payload)
    }

    #[inline]
    fn stop(&mut self, id: Self::Id) {
        drop(id);
    }

    #[inline]
    fn restart(&mut self, mut id: Self::Id, delay: u64) -> Self::Id {
        id.0.as_mut().reset(Instant::now() + Duration::from_millis(delay));
        id
    }

    #[inline]
    fn pass(&mut self, steps: u64, milliseconds: u64, _: impl FnMut(u64, Payload)) {
        self.runtime.block_on(async {
            for _ in 0..steps {
                advance(Duration::from_millis(milliseconds)).await;
            }
        });
    }

    #[inline]
    fn let_go(&mut self, (sleep, _payload): Self::Id) {
        assert!(sleep.is_elapsed(), "it has expired");
    }
}
