//! How long things took, in buckets whose width grows with the time: fixed memory, and a bounded error.

use std::fmt;
use std::time::Duration;

/// Bits of a time that are kept below its highest one: 16 buckets for each doubling.
const KEPT: u32 = 4;
/// Buckets for each doubling; below so many nanoseconds, one for each.
const STEPS: usize = 1 << KEPT;
/// As many as all 64-bit numbers of nanoseconds take.
const BUCKETS: usize = STEPS * (u64::BITS - KEPT + 1) as usize;

/// How often which time was taken, to within 6.25 per cent.
///
/// The scale is log-linear: each doubling of time is cut into 16 buckets of equal width, from a nanosecond to 584 years, so a
/// bucket is no wider than a sixteenth of the times in it. Count, sum and maximum are exact. It takes 8 kB, whatever is
/// recorded. Histograms can be [merged](Self::merge), of several purgatories or processes, and what they say is then what one
/// would have said that had seen everything.
///
/// # Examples
///
/// ```
/// use ixion::metrics::Histogram;
/// use std::time::Duration;
///
/// let mut late = Histogram::new();
/// for ms in 1..=100 {
///     late.record(Duration::from_millis(ms));
/// }
/// assert_eq!((late.count(), late.max()), (100, Duration::from_millis(100)));
/// let median = late.quantile(0.5); // 50 ms, or up to 6.25 per cent more
/// assert!(median >= Duration::from_millis(50) && median <= Duration::from_micros(53_125));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: Box<[u64]>,
    count: u64,
    /// In nanoseconds. In 128 bits: 64 are full after 584 years, which a million that wait for half a minute take a
    /// quarter of an hour for.
    sum: u128,
    max: u64,
}

/// A bucket of a [`Histogram`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The shortest time that belongs here.
    pub from: Duration,
    /// The longest one.
    pub to: Duration,
    /// How many were recorded.
    pub count: u64,
}

impl Histogram {
    /// Makes an empty histogram.
    #[must_use]
    pub fn new() -> Self {
        Histogram { counts: vec![0; BUCKETS].into_boxed_slice(), count: 0, sum: 0, max: 0 }
    }

    /// Records a time; one of more than 584 years as that.
    pub fn record(&mut self, time: Duration) {
        self.record_many(time, 1);
    }

    /// Records the same time so many times.
    pub fn record_many(&mut self, time: Duration, count: u64) {
        if count > 0 {
            self.record_nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), count);
        }
    }

    #[inline]
    fn record_nanos(&mut self, nanos: u64, count: u64) {
        let in_bucket = &mut self.counts[bucket_of(nanos)];
        *in_bucket = in_bucket.saturating_add(count);
        self.count = self.count.saturating_add(count);
        self.sum = self.sum.saturating_add(u128::from(nanos) * u128::from(count));
        self.max = self.max.max(nanos);
    }

    /// Adds all that another histogram has recorded.
    pub fn merge(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
    }

    /// Returns what was recorded since an earlier state of the same histogram: the figures of a minute, from two that were taken
    /// a minute apart. Its maximum is that of its bucket or, if it is the greatest of all, exact.
    #[must_use]
    pub fn since(&self, earlier: &Histogram) -> Histogram {
        let mut since = Histogram::new();
        let counts = self.counts.iter().zip(&earlier.counts).map(|(now, then)| now.saturating_sub(*then));
        for (at, count) in counts.enumerate().filter(|(_, count)| *count > 0) {
            since.counts[at] = count;
            since.count = since.count.saturating_add(count);
            since.max = last_of(at).min(self.max);
        }
        since.sum = self.sum.saturating_sub(earlier.sum);
        since
    }

    /// Returns how many times were recorded.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the sum of all recorded times, exactly.
    #[must_use]
    pub fn sum(&self) -> Duration {
        const SECOND: u128 = 1_000_000_000;
        u64::try_from(self.sum / SECOND)
            .map_or(Duration::MAX, |secs| Duration::new(secs, (self.sum % SECOND) as u32))
    }

    /// Returns the mean of all recorded times; zero if there are none.
    #[must_use]
    pub fn mean(&self) -> Duration {
        // No greater than the greatest, which has 64 bits; not even where the count has come to its end.
        let mean = self.sum.checked_div(self.count.into()).unwrap_or(0);
        Duration::from_nanos(mean.min(self.max.into()) as u64)
    }

    /// Returns the longest recorded time, exactly; zero if there is none.
    #[must_use]
    pub const fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }

    /// Returns the time that a share `q` of all recorded times did not exceed: `quantile(0.99)` is the 99th percentile.
    ///
    /// Never too short, and at most 6.25 per cent too long. Zero if nothing was recorded; `q` is taken as 0 below 0 and as 1
    /// above 1.
    ///
    /// # Complexity
    ///
    /// One look at each of a thousand buckets.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Duration {
        // The cast takes what is no number as zero.
        let rank = ((self.count as f64 * q.clamp(0.0, 1.0)).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0u64;
        let at = self.counts.iter().position(|count| {
            seen = seen.saturating_add(*count);
            seen >= rank
        });
        Duration::from_nanos(at.map_or(0, |at| last_of(at).min(self.max)))
    }

    /// Returns how many of the recorded times were no longer than `limit`, but for those in the bucket that `limit` is in, if
    /// that reaches further: what a histogram with a bound there would show, or a little less.
    #[must_use]
    pub fn count_within(&self, limit: Duration) -> u64 {
        let within = self.buckets().take_while(|bucket| bucket.to <= limit);
        within.map(|bucket| bucket.count).fold(0, u64::saturating_add)
    }

    /// Returns the buckets that have something in them, from the shortest times on.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> {
        self.counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(at, &count)| Bucket {
            from: Duration::from_nanos(first_of(at)),
            to: Duration::from_nanos(last_of(at)),
            count,
        })
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram::new()
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count)
            .field("mean", &self.mean())
            .field("p50", &self.quantile(0.5))
            .field("p99", &self.quantile(0.99))
            .field("max", &self.max())
            .finish()
    }
}

/// The bucket of a time: below [`STEPS`] the time itself; from there on its highest bit says which doubling it belongs to,
/// and the [`KEPT`] bits below that which step of it.
#[inline]
const fn bucket_of(nanos: u64) -> usize {
    let shift = (nanos | STEPS as u64).ilog2() - KEPT;
    // The highest bit is in the second number, and adds one to that of the doubling.
    shift as usize * STEPS + (nanos >> shift) as usize
}

/// The shortest time of a bucket.
const fn first_of(at: usize) -> u64 {
    if at < 2 * STEPS {
        return at as u64;
    }
    let shift = at / STEPS - 1;
    ((STEPS + at % STEPS) as u64) << shift
}

/// The longest time of a bucket.
const fn last_of(at: usize) -> u64 {
    if at + 1 == BUCKETS { u64::MAX } else { first_of(at + 1) - 1 }
}

const _: () = assert!(bucket_of(u64::MAX) == BUCKETS - 1 && bucket_of(0) == 0);

#[cfg(all(test, not(any(ixion_loom, ixion_shuttle))))]
#[path = "histogram_tests.rs"]
mod tests;
