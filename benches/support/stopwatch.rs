//! A stopwatch that stands still while the thread waits for a processor, so that other programs disturb it less.

use std::fs;
use std::time::{Duration, Instant};

pub struct Stopwatch {
    start: Instant,
    waited: Duration,
}

impl Stopwatch {
    #[must_use]
    pub fn start() -> Self {
        let waited = waited();
        Stopwatch { start: Instant::now(), waited }
    }

    #[must_use]
    pub fn elapsed(&self) -> Duration {
        let elapsed = self.start.elapsed();
        elapsed.saturating_sub(waited().saturating_sub(self.waited))
    }
}

/// How long this thread was ready to run and did not, where Linux says it; elsewhere nothing.
fn waited() -> Duration {
    let read = fs::read_to_string("/proc/thread-self/schedstat");
    let nanoseconds = read.ok().and_then(|text| text.split(' ').nth(1)?.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}
