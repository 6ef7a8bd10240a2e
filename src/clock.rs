//! The seam to time: the only module of the library that reads a clock.
//!
//! A clock reports how long it has been running, as exactly as it can; it does not round. Rounding to ticks is the
//! engine's, in [`tick`](crate::tick). Tests run the code that ships on a [`ManualClock`]: the clock is replaced,
//! never the timer.

use crate::sync::Mutex;
use crate::tick::{Resolution, Tick};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A source of time that never runs backwards for long: a step back is taken as a standstill.
pub trait Clock: Send + Sync {
    /// Returns the time since the clock's start, as exactly as the clock knows it.
    fn elapsed(&self) -> Duration;

    /// Returns the length of the ticks in which an engine on this clock counts. Must not change.
    fn resolution(&self) -> Resolution {
        Resolution::MILLISECOND
    }
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn elapsed(&self) -> Duration {
        (**self).elapsed()
    }

    fn resolution(&self) -> Resolution {
        (**self).resolution()
    }
}

/// The machine's monotonic clock, from the moment it was made.
///
/// Changes of the wall clock do not touch it.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    start: Instant,
    resolution: Resolution,
}

impl SystemClock {
    /// Starts a clock with ticks of a millisecond.
    #[must_use]
    pub fn new() -> Self {
        SystemClock::with_resolution(Resolution::MILLISECOND)
    }

    /// Starts a clock with the given ticks.
    #[allow(clippy::disallowed_methods, reason = "this is the one place that reads time")]
    #[must_use]
    pub fn with_resolution(resolution: Resolution) -> Self {
        SystemClock { start: Instant::now(), resolution }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    fn resolution(&self) -> Resolution {
        self.resolution
    }
}

/// A clock that stands still until it is moved, for tests and simulations. Clones share the same time.
///
/// # Examples
///
/// ```
/// use ixion::{Clock, ManualClock};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let same = clock.clone();
/// clock.advance(Duration::from_millis(5));
/// assert_eq!(same.elapsed(), Duration::from_millis(5));
/// ```
#[derive(Clone)]
pub struct ManualClock {
    elapsed: Arc<Mutex<Duration>>,
    resolution: Resolution,
}

impl ManualClock {
    /// Makes a clock that reads zero, with ticks of a millisecond.
    #[must_use]
    pub fn new() -> Self {
        ManualClock::with_resolution(Resolution::MILLISECOND)
    }

    /// Makes a clock that reads zero, with the given ticks.
    #[must_use]
    pub fn with_resolution(resolution: Resolution) -> Self {
        ManualClock { elapsed: Arc::new(Mutex::new(Duration::ZERO)), resolution }
    }

    /// Moves the clock forward. Stops at [`Duration::MAX`].
    pub fn advance(&self, by: Duration) {
        let mut elapsed = self.elapsed.lock();
        *elapsed = elapsed.saturating_add(by);
    }

    /// Sets the clock to an instant, an earlier one too: that is how a test steps a clock back.
    pub fn advance_to(&self, elapsed: Duration) {
        *self.elapsed.lock() = elapsed;
    }

    /// Returns the tick that the clock is in.
    #[must_use]
    pub fn now(&self) -> Tick {
        self.resolution.floor(self.elapsed())
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        ManualClock::new()
    }
}

impl Clock for ManualClock {
    fn elapsed(&self) -> Duration {
        *self.elapsed.lock()
    }

    fn resolution(&self) -> Resolution {
        self.resolution
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManualClock")
            .field("elapsed", &self.elapsed())
            .field("resolution", &self.resolution)
            .finish()
    }
}
