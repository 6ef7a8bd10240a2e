//! Points in time in whole ticks, and the one place where a [`Duration`] becomes ticks.
//!
//! The engine counts time in ticks since its clock's start. A deadline is rounded *up* to a tick and a clock
//! reading is rounded *down*, so nothing expires early: when the clock, rounded down, has reached a deadline
//! that was rounded up, the exact instant has passed. Both roundings live here and nowhere else.
//!
//! This module is pure: it reads no clock and starts no thread.

use core::fmt;
use core::time::Duration;

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// A point in time, in ticks since the start of a clock.
///
/// [`Tick::MAX`] means *never*: a timer with this deadline is kept and can be stopped, but does not expire.
///
/// # Examples
///
/// ```
/// use ixion::Tick;
///
/// let soon = Tick::new(12);
/// assert!(Tick::ZERO < soon && soon < Tick::MAX);
/// assert_eq!(soon.as_u64(), 12);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tick(u64);

impl Tick {
    /// The start of the clock.
    pub const ZERO: Tick = Tick(0);

    /// Never. No clock reading reaches it: [`Resolution::floor`] stops one tick short.
    pub const MAX: Tick = Tick(u64::MAX);

    /// Makes a point in time from a number of ticks since the clock's start.
    #[must_use]
    pub const fn new(ticks: u64) -> Self {
        Tick(ticks)
    }

    /// Returns the number of ticks since the clock's start.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Whether this is [`Tick::MAX`], which means never.
    #[must_use]
    pub const fn is_never(self) -> bool {
        self.0 == u64::MAX
    }
}

impl fmt::Debug for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_never() { f.write_str("Tick(never)") } else { write!(f, "Tick({})", self.0) }
    }
}

/// The length of a tick, and with it the two roundings between durations and ticks.
///
/// # Examples
///
/// ```
/// use ixion::{Resolution, Tick};
/// use std::time::Duration;
///
/// let ms = Resolution::MILLISECOND;
/// let instant = Duration::from_micros(1500);
/// assert_eq!(ms.floor(instant), Tick::new(1)); // a clock reading: the tick that has begun
/// assert_eq!(ms.ceil(instant), Tick::new(2)); // a deadline: the first tick that is not early
/// assert_eq!(ms.start_of(Tick::new(2)), Duration::from_millis(2));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Resolution {
    /// Never zero.
    nanos: u64,
}

impl Resolution {
    /// One tick a millisecond, the default.
    pub const MILLISECOND: Resolution = Resolution { nanos: 1_000_000 };

    /// Makes a resolution whose tick is `tick` long.
    ///
    /// A `tick` of zero is taken as one nanosecond, and one of more than `u64::MAX` nanoseconds (584 years) as
    /// that: every value that a caller can pass gives a resolution that works.
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::Resolution;
    /// use std::time::Duration;
    ///
    /// let resolution = Resolution::new(Duration::from_micros(64));
    /// assert_eq!(resolution.tick(), Duration::from_micros(64));
    /// assert_eq!(Resolution::new(Duration::ZERO).tick(), Duration::from_nanos(1));
    /// ```
    #[must_use]
    pub const fn new(tick: Duration) -> Self {
        let nanos = tick.as_nanos();
        if nanos == 0 {
            Resolution { nanos: 1 }
        } else if nanos > u64::MAX as u128 {
            Resolution { nanos: u64::MAX }
        } else {
            Resolution { nanos: nanos as u64 }
        }
    }

    /// Returns the length of a tick.
    #[must_use]
    pub const fn tick(self) -> Duration {
        Duration::from_nanos(self.nanos)
    }

    /// Rounds a clock reading down to the tick that has begun.
    ///
    /// Saturates one short of [`Tick::MAX`], so that no reading ever reaches *never*.
    #[must_use]
    #[inline]
    pub const fn floor(self, elapsed: Duration) -> Tick {
        if self.nanos == 1_000_000 {
            // The common case, without a 128-bit division. A `Duration` of u64::MAX seconds overflows: saturate.
            let ms = elapsed.as_secs().saturating_mul(1000).saturating_add(elapsed.subsec_millis() as u64);
            return Tick(if ms == u64::MAX { u64::MAX - 1 } else { ms });
        }
        let ticks = elapsed.as_nanos() / self.nanos as u128;
        Tick(if ticks >= u64::MAX as u128 { u64::MAX - 1 } else { ticks as u64 })
    }

    /// Rounds an instant up to the first tick that is not before it.
    ///
    /// An instant past the last tick is [`Tick::MAX`], which means never.
    #[must_use]
    #[inline]
    pub const fn ceil(self, instant: Duration) -> Tick {
        if self.nanos == 1_000_000 {
            let up = (instant.subsec_nanos() as u64).div_ceil(1_000_000);
            return Tick(instant.as_secs().saturating_mul(1000).saturating_add(up));
        }
        let ticks = instant.as_nanos().div_ceil(self.nanos as u128);
        Tick(if ticks >= u64::MAX as u128 { u64::MAX } else { ticks as u64 })
    }

    /// Returns the instant at which a tick begins; [`Duration::MAX`] for [`Tick::MAX`].
    #[must_use]
    pub const fn start_of(self, tick: Tick) -> Duration {
        if tick.is_never() {
            return Duration::MAX;
        }
        if self.nanos == 1_000_000 {
            return Duration::from_millis(tick.0);
        }
        // At most 2^64 * 2^64 nanoseconds: no overflow in 128 bits.
        let nanos = tick.0 as u128 * self.nanos as u128;
        let secs = nanos / NANOS_PER_SEC;
        if secs > u64::MAX as u128 {
            return Duration::MAX;
        }
        Duration::new(secs as u64, (nanos % NANOS_PER_SEC) as u32)
    }

    /// Returns the deadline of something that starts at `elapsed` and has `timeout` to go: the exact instant,
    /// rounded up to a tick. Saturates: a timeout past the end of time is [`Tick::MAX`], never.
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::{Resolution, Tick};
    /// use std::time::Duration;
    ///
    /// let ms = Resolution::MILLISECOND;
    /// let (now, timeout) = (Duration::from_micros(1_200), Duration::from_millis(30));
    /// assert_eq!(ms.deadline(now, timeout), Tick::new(32)); // 31.2 ms, rounded up: never early
    /// assert_eq!(ms.deadline(now, Duration::MAX), Tick::MAX);
    /// ```
    #[must_use]
    #[inline]
    pub const fn deadline(self, elapsed: Duration, timeout: Duration) -> Tick {
        match elapsed.checked_add(timeout) {
            Some(instant) => self.ceil(instant),
            None => Tick::MAX,
        }
    }
}

impl Default for Resolution {
    fn default() -> Self {
        Resolution::MILLISECOND
    }
}

impl fmt::Debug for Resolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Resolution({:?})", self.tick())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_is_rounded_down_and_a_deadline_up() {
        for resolution in [Resolution::MILLISECOND, Resolution::new(Duration::from_micros(64))] {
            let tick = resolution.tick();
            for n in [0u32, 1, 2, 63, 64, 65, 4096] {
                let start = tick * n;
                assert_eq!(resolution.floor(start), Tick::new(n.into()));
                assert_eq!(resolution.ceil(start), Tick::new(n.into()));
                assert_eq!(resolution.start_of(Tick::new(n.into())), start);
                let later = start + Duration::from_nanos(1);
                assert_eq!(resolution.floor(later), Tick::new(n.into()));
                assert_eq!(resolution.ceil(later), Tick::new(u64::from(n) + 1));
            }
        }
    }

    #[test]
    fn a_deadline_that_the_clock_has_reached_is_never_early() {
        let resolution = Resolution::new(Duration::from_nanos(7));
        for nanos in 0..200 {
            let instant = Duration::from_nanos(nanos);
            let deadline = resolution.ceil(instant);
            for reading in 0..200 {
                let now = Duration::from_nanos(reading);
                if resolution.floor(now) >= deadline {
                    assert!(now >= instant, "{now:?} reaches {deadline:?} before {instant:?}");
                }
            }
        }
    }

    #[test]
    fn the_largest_durations_saturate_and_never_is_never_reached() {
        for tick in [Duration::ZERO, Duration::from_nanos(1), Duration::from_millis(1), Duration::MAX] {
            let resolution = Resolution::new(tick);
            assert!(resolution.floor(Duration::MAX) < Tick::MAX, "{resolution:?}");
            assert!(resolution.ceil(Duration::MAX) >= resolution.floor(Duration::MAX));
            assert_eq!(resolution.start_of(Tick::MAX), Duration::MAX);
        }
        assert_eq!(Resolution::MILLISECOND.ceil(Duration::MAX), Tick::MAX);
        assert_eq!(Resolution::MILLISECOND.deadline(Duration::from_secs(9), Duration::MAX), Tick::MAX);
        assert_eq!(Resolution::new(Duration::ZERO).tick(), Duration::from_nanos(1));
        assert_eq!(Resolution::new(Duration::MAX).tick(), Duration::from_nanos(u64::MAX));
        let last = Tick::new(u64::MAX - 1);
        assert_eq!(Resolution::MILLISECOND.floor(Resolution::MILLISECOND.start_of(last)), last);
    }
}
