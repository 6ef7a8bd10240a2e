//! How long to wait before the next attempt, and when to give up. Pure: it knows no clock and keeps no state.

use std::error::Error;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

/// A policy of retries: the delays, how they are spread, and when it is enough.
///
/// It keeps no state: what it decides follows from what it is told about the item and from its seed. So an item
/// that is taken up by another process goes on where it was, and a half success resets nothing.
///
/// # Examples
///
/// ```
/// use ixion_retry::{Backoff, Failed, Verdict};
/// use std::time::Duration;
///
/// let backoff = Backoff::exponential(Duration::from_millis(100), 2.0, Duration::from_secs(30))?.max_attempts(5);
/// assert_eq!(backoff.delay(1), Duration::from_millis(100));
/// assert_eq!(backoff.delay(4), Duration::from_millis(800));
/// assert_eq!(backoff.delay(u32::MAX), Duration::from_secs(30));
///
/// let fifth = Failed { attempt: 5, ..Failed::default() };
/// assert!(matches!(backoff.decide(fifth, 0), Verdict::Dead(_)));
/// # Ok::<(), ixion_retry::InvalidFactor>(())
/// ```
#[derive(Clone, Debug)]
pub struct Backoff {
    delays: Delays,
    jitter: Jitter,
    max_attempts: NonZeroU32,
    max_age: Duration,
    seed: u64,
}

#[derive(Clone, Debug)]
enum Delays {
    Table(Arc<[Duration]>),
    Exponential { base: Duration, factor: f64, cap: Duration },
}

/// How a delay is spread, so that what has failed together is not tried again together.
///
/// The names are those of Brooker, *Exponential Backoff and Jitter*, AWS Architecture Blog, 2015.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Jitter {
    /// The delay as it is.
    #[default]
    None,
    /// Anything from nothing to the delay.
    Full,
    /// Anything from half of the delay to the delay.
    Equal,
    /// Anything from the first delay to three times the one before; never more than the longest delay.
    Decorrelated,
}

/// What is known of an item whose delivery has failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failed {
    /// Which delivery it was that failed: 1 for the first.
    pub attempt: u32,
    /// How long the item had been delayed before that delivery. Only [`Jitter::Decorrelated`] asks for it.
    pub previous: Duration,
    /// How long ago the item was pushed.
    pub age: Duration,
}

/// What becomes of an item whose delivery has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Deliver it again after this time.
    Retry(Duration),
    /// Deliver it no more.
    Dead(Spent),
}

/// Which of the limits of a [`Backoff`] an item has used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Spent {
    /// [`Backoff::max_attempts`].
    Attempts,
    /// [`Backoff::max_age`]: the next attempt would come after it.
    Age,
}

/// A factor by which delays cannot grow: below one, or not a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InvalidFactor(pub f64);

impl Backoff {
    /// Waits longer each time: 10 s, 30 s, 1 min, 2 min, 5 min, 10 min, 30 min, 1 h, 2 h; then 2 h again.
    #[must_use]
    pub fn standard() -> Self {
        const SECONDS: [u64; 9] = [10, 30, 60, 120, 300, 600, 1800, 3600, 7200];
        Backoff::table(SECONDS.map(Duration::from_secs))
    }

    /// Waits the same each time.
    #[must_use]
    pub fn fixed(delay: Duration) -> Self {
        Backoff::table([delay])
    }

    /// Waits as the table says, its first entry after the first failure; after the last one as after that. An empty
    /// table does not wait.
    #[must_use]
    pub fn table(delays: impl Into<Arc<[Duration]>>) -> Self {
        Backoff::new(Delays::Table(delays.into()))
    }

    /// Waits `base` after the first failure and `factor` times as long after each further one, at most `cap`.
    ///
    /// # Errors
    ///
    /// The factor is below one, infinite or not a number.
    pub fn exponential(base: Duration, factor: f64, cap: Duration) -> Result<Self, InvalidFactor> {
        match factor.is_finite() && factor >= 1.0 {
            true => Ok(Backoff::new(Delays::Exponential { base, factor, cap })),
            false => Err(InvalidFactor(factor)),
        }
    }

    fn new(delays: Delays) -> Self {
        Backoff {
            delays,
            jitter: Jitter::None,
            max_attempts: NonZeroU32::MAX,
            max_age: Duration::MAX,
            seed: 0,
        }
    }

    /// Spreads the delays.
    #[must_use]
    pub fn jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// Gives up after so many deliveries; 0 is taken as 1. The default does not give up for it.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = NonZeroU32::new(attempts).unwrap_or(NonZeroU32::MIN);
        self
    }

    /// Gives up when the next delivery would come later than this after the item was pushed. The default does not
    /// give up for it.
    #[must_use]
    pub fn max_age(mut self, age: Duration) -> Self {
        self.max_age = age;
        self
    }

    /// Sets what the spread delays are drawn from: the same seed, the same delays. Give each process its own.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Returns the delay after the delivery `attempt` (1 for the first) has failed, before it is spread. It does not
    /// fall as the attempts rise, unless a table says so.
    #[must_use]
    pub fn delay(&self, attempt: u32) -> Duration {
        let step = attempt.saturating_sub(1);
        match &self.delays {
            Delays::Table(delays) => {
                let step = usize::try_from(step).unwrap_or(usize::MAX);
                delays.get(step).or(delays.last()).copied().unwrap_or_default()
            }
            // As it was given: the longest durations are more exact than a float.
            &Delays::Exponential { base, cap, .. } if step == 0 => base.min(cap),
            &Delays::Exponential { base, factor, cap } => {
                let seconds = base.as_secs_f64() * factor.powf(f64::from(step));
                // Not a number, where nothing was to grow without bound, is nothing.
                match Duration::try_from_secs_f64(seconds) {
                    Ok(delay) => delay.max(base).min(cap),
                    Err(_) if seconds.is_nan() => Duration::ZERO,
                    Err(_) => cap,
                }
            }
        }
    }

    /// Decides about an item after a failure. The same arguments give the same answer; `salt` tells items apart that
    /// have failed together, such as their ids.
    #[must_use]
    pub fn decide(&self, failed: Failed, salt: u64) -> Verdict {
        self.decide_with(failed, || self.spread(failed, salt))
    }

    /// Decides about an item whose delay is given.
    pub(crate) fn decide_with(&self, failed: Failed, delay: impl FnOnce() -> Duration) -> Verdict {
        if failed.attempt >= self.max_attempts.get() {
            return Verdict::Dead(Spent::Attempts);
        }
        let delay = delay();
        match failed.age.saturating_add(delay) > self.max_age {
            true => Verdict::Dead(Spent::Age),
            false => Verdict::Retry(delay),
        }
    }

    fn spread(&self, failed: Failed, salt: u64) -> Duration {
        let delay = self.delay(failed.attempt);
        let (least, most) = match self.jitter {
            Jitter::None => return delay,
            Jitter::Full => (Duration::ZERO, delay),
            Jitter::Equal => (delay / 2, delay),
            Jitter::Decorrelated => {
                let first = self.delay(1);
                let longest = self.delay(u32::MAX).max(first);
                (first, failed.previous.saturating_mul(3).clamp(first, longest))
            }
        };
        // Three numbers become one: each of them must count, and neighbours must not look alike.
        let mut seeds = fastrand::Rng::with_seed(self.seed);
        for part in [salt, u64::from(failed.attempt)] {
            seeds = fastrand::Rng::with_seed(seeds.u64(..) ^ part);
        }
        let span = (most - least).as_nanos();
        least + from_nanos(seeds.u128(0..=span))
    }
}

impl Default for Backoff {
    /// [`Backoff::standard`].
    fn default() -> Self {
        Backoff::standard()
    }
}

impl fmt::Display for InvalidFactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "delays cannot grow by a factor of {}: it must be at least 1 and finite", self.0)
    }
}

impl Error for InvalidFactor {}

/// A duration of so many nanoseconds, of which there are no more than [`Duration::MAX`] has.
fn from_nanos(nanos: u128) -> Duration {
    const SECOND: u128 = 1_000_000_000;
    let seconds = u64::try_from(nanos / SECOND).unwrap_or(u64::MAX);
    Duration::new(seconds, (nanos % SECOND) as u32)
}

#[cfg(test)]
#[path = "backoff_tests.rs"]
mod tests;
