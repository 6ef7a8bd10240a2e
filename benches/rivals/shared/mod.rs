//! Timers that threads share, each with the thread that drives it, on the machine's clock.

pub mod hashed;
pub mod locked_heap;
pub mod locked_queue;
pub mod purgatory;
pub mod sleep;

use crate::support::Payload;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Something that keeps the timers of many threads.
pub trait Shared: Sync + Sized {
    const NAME: &'static str;
    /// What a thread has to use it with.
    type Lane<'a>: Lane
    where
        Self: 'a;

    /// Starts what drives it, too; that ends when it is dropped.
    fn new() -> Self;

    /// Called on the thread that uses it.
    fn lane(&self) -> Self::Lane<'_>;

    /// Returns when all that the lanes have asked for has been done.
    fn settle(&self) {}
}

pub trait Lane {
    type Id;
    fn start(&mut self, delay: Duration, payload: Payload) -> Self::Id;
    /// Stops a timer and drops its payload; false if it has expired, where that can be told.
    fn stop(&mut self, id: Self::Id) -> bool;
}

/// A thread that does something every millisecond, until it is dropped.
pub struct Ticker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    pub fn new(mut tick: impl FnMut() + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(1));
                tick();
            }
        });
        Ticker { stop, thread: Some(thread) }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("it was started").join().expect("it does not panic");
    }
}
