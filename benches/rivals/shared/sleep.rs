//! tokio's `sleep` on a runtime of several threads. Boxed and polled once, as on one thread.

use super::{Lane, Shared};
use crate::support::Payload;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::runtime::{Builder, EnterGuard, Runtime};
use tokio::time::{Sleep, sleep};

pub struct Sleeps(Runtime);

pub struct Entered<'a>(EnterGuard<'a>);

impl Shared for Sleeps {
    const NAME: &'static str = "tokio sleep";
    type Lane<'a> = Entered<'a>;

    fn new() -> Self {
        Sleeps(Builder::new_multi_thread().enable_time().build().expect("a runtime"))
    }

    fn lane(&self) -> Entered<'_> {
        Entered(self.0.enter())
    }
}

impl Lane for Entered<'_> {
    type Id = (Pin<Box<Sleep>>, Payload);

    #[inline]
    fn start(&mut self, delay: Duration, payload: Payload) -> Self::Id {
        let _entered = &self.0;
        let mut sleep = Box::pin(sleep(delay));
        // Rarely, it has expired by now.
        let _ = sleep.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        (sleep, payload)
    }

    #[inline]
    fn stop(&mut self, (sleep, _payload): Self::Id) -> bool {
        !sleep.is_elapsed()
    }
}
