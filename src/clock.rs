//! The seam to time: the only module of the library that reads a clock.
//!
//! A clock reports how long it has been running, as exactly as it can; it does not round. Rounding to ticks is the
//! engine's, in [`tick`](crate::tick). A test takes a [`ManualClock`] for its clock, and the real
//! timer.

use crate::sync::Mutex;
use crate::tick::{Resolution, Tick};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A source of time that never runs backwards for long: a step back is taken as a standstill.
///
/// Called by every thread that registers with a timeout, resets or drives. It should neither block nor panic: a panic goes through to
/// the caller.
///
/// # Examples
///
/// ```
/// use ixion::{Clock, Purgatory};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::time::Duration;
///
/// /// The time of a simulation, or a reading that an event loop makes once a turn.
/// struct Cached(AtomicU64);
///
/// impl Clock for Cached {
///     fn elapsed(&self) -> Duration {
///         Duration::from_nanos(self.0.load(Ordering::Relaxed))
///     }
/// }
///
/// let clock = Arc::new(Cached(AtomicU64::new(0)));
/// let purgatory: Purgatory<u64> = Purgatory::builder("loop").clock(clock.clone()).build();
/// clock.0.store(1_000_000, Ordering::Relaxed);
/// # assert_eq!(purgatory.len(), 0);
/// ```
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
///
/// # Examples
///
/// ```
/// use ixion::{Clock, SystemClock};
///
/// let clock = SystemClock::new();
/// assert!(clock.elapsed() <= clock.elapsed());
/// ```
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
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::{Clock, Resolution, SystemClock};
    /// use std::time::Duration;
    ///
    /// let clock = SystemClock::with_resolution(Resolution::new(Duration::from_micros(100)));
    /// assert_eq!(clock.resolution().tick(), Duration::from_micros(100));
    /// ```
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
/// It stands where Kafka's tests have a `MockTimer`: but what it drives is the timer that ships.
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
#[doc(alias = "MockTimer")]
#[doc(alias = "MockTime")]
#[doc(alias = "FakeClock")]
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
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::{ManualClock, Resolution, Tick};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::with_resolution(Resolution::new(Duration::from_secs(1)));
    /// clock.advance(Duration::from_millis(2_999));
    /// assert_eq!(clock.now(), Tick::new(2));
    /// ```
    #[must_use]
    pub fn with_resolution(resolution: Resolution) -> Self {
        ManualClock { elapsed: Arc::new(Mutex::new(Duration::ZERO)), resolution }
    }

    /// Moves the clock forward. Stops at [`Duration::MAX`].
    ///
    /// Ends nothing by itself: drive the purgatory afterwards.
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::{Clock, ManualClock};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new();
    /// clock.advance(Duration::from_millis(5));
    /// clock.advance(Duration::from_millis(5));
    /// assert_eq!(clock.elapsed(), Duration::from_millis(10));
    /// ```
    pub fn advance(&self, by: Duration) {
        let mut elapsed = self.elapsed.lock();
        *elapsed = elapsed.saturating_add(by);
    }

    /// Sets the clock to an instant, an earlier one too: that is how a test steps a clock back.
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::{Clock, ManualClock};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new();
    /// clock.advance_to(Duration::from_secs(10));
    /// clock.advance_to(Duration::from_secs(9)); // purgatories take it for a standstill
    /// assert_eq!(clock.elapsed(), Duration::from_secs(9));
    /// ```
    pub fn advance_to(&self, elapsed: Duration) {
        *self.elapsed.lock() = elapsed;
    }

    /// Returns the tick that the clock is in.
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::{ManualClock, Tick};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new();
    /// clock.advance(Duration::from_micros(2_700));
    /// assert_eq!(clock.now(), Tick::new(2)); // rounded down
    /// ```
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

/// How long the locks of shards are held, in a build with `--cfg ixion_pauses` alone: `benches/pauses.rs` asks.
#[cfg(ixion_pauses)]
#[doc(hidden)]
pub mod pauses {
    use crate::sync::{AtomicU64, Ordering};
    use rustix::time::{ClockId, clock_gettime};
    use std::time::{Duration, Instant};

    /// The longest hold in nanoseconds, by the thread's own time and by the clock on the wall, and how many took longer
    /// than [`LONG`] of the thread's own time, and how many there were.
    static LONGEST: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

    /// No hold should take longer.
    pub const LONG: Duration = Duration::from_micros(100);

    /// One hold, from its making to its end.
    pub(crate) struct TimedHold {
        wall: Instant,
        own: Duration,
    }

    impl TimedHold {
        #[allow(clippy::disallowed_methods, reason = "this is the one place that reads time")]
        pub(crate) fn begin() -> Self {
            TimedHold { wall: Instant::now(), own: own_time() }
        }
    }

    impl Drop for TimedHold {
        fn drop(&mut self) {
            let own = own_time().saturating_sub(self.own);
            let [longest, longest_wall, long, all] = &LONGEST;
            longest.fetch_max(own.as_nanos() as u64, Ordering::Relaxed);
            longest_wall.fetch_max(self.wall.elapsed().as_nanos() as u64, Ordering::Relaxed);
            long.fetch_add(u64::from(own > LONG), Ordering::Relaxed);
            all.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The time for which this thread has run: another program that takes its core does not count.
    pub fn own_time() -> Duration {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    }

    /// Since it was last asked: the longest hold by the thread's own time, and by the wall's; how many were long, of how
    /// many.
    pub fn take() -> (Duration, Duration, u64, u64) {
        let [longest, longest_wall, long, all] = LONGEST.each_ref().map(|it| it.swap(0, Ordering::Relaxed));
        (Duration::from_nanos(longest), Duration::from_nanos(longest_wall), long, all)
    }
}
