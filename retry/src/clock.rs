//! A clock whose times mean the same after a restart.

use ixion::{Clock, SystemClock};
use std::time::{Duration, SystemTime};

/// The time since 1970, in ticks of a millisecond: the machine's at the moment when the clock was made, and from
/// then on that moment and what has passed since. Changes of the machine's time do not touch it before the next start.
///
/// At the next start they do. If the machine's time was set back meanwhile, what a store holds becomes due, and runs out,
/// later by as much: never early. If it was set forward, or has been right only since then, delays and visibilities that
/// were begun before end early by as much. So start after the machine has set its time.
#[derive(Clone, Copy, Debug)]
pub struct UnixClock {
    start: Duration,
    since: SystemClock,
}

impl UnixClock {
    /// Reads the machine's time. One before 1970 is taken for 1970.
    #[must_use]
    pub fn new() -> Self {
        let start = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        UnixClock { start, since: SystemClock::new() }
    }
}

impl Default for UnixClock {
    fn default() -> Self {
        UnixClock::new()
    }
}

impl Clock for UnixClock {
    fn elapsed(&self) -> Duration {
        self.start.saturating_add(self.since.elapsed())
    }
}
