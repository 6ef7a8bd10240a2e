//! A histogram of times, as it is drawn and as Prometheus takes it: in buckets that double.

use std::time::Duration;

use ixion::Histogram;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

/// How long things took.
#[derive(Debug, Default)]
pub(super) struct Times(pub(super) Histogram);

/// Two to this power of nanoseconds, 66 µs, is the first bound that Prometheus is told, and 37 minutes the last. Always the
/// same ones, or two scrapes could not be compared.
const BOUNDS: std::ops::RangeInclusive<u32> = 16..=41;

/// How many took less than a bound, and at least half of it.
#[derive(Debug, Serialize, PartialEq)]
pub(super) struct Doubling {
    to_ms: f64,
    count: u64,
}

impl Times {
    /// The times by doubling, from the first to the last that there is one of.
    pub(super) fn doublings(&self) -> Vec<Doubling> {
        let mut counts: Vec<(u32, u64)> = Vec::new();
        for bucket in self.0.buckets() {
            let power = power_above(bucket.to);
            match counts.last_mut() {
                Some((last, count)) if *last == power => *count += bucket.count,
                _ => counts.push((power, bucket.count)),
            }
        }
        let (Some((first, _)), Some((last, _))) = (counts.first(), counts.last()) else { return Vec::new() };
        let count_of = |power| counts.iter().find(|(own, _)| *own == power).map_or(0, |(_, count)| *count);
        (*first..=*last).map(|power| Doubling { to_ms: nanos(power) / 1e6, count: count_of(power) }).collect()
    }

    /// Upper bounds in seconds, each with how many took less than that and no less than the one before.
    pub(super) fn buckets(&self) -> Vec<(f64, u64)> {
        let mut buckets: Vec<(f64, u64)> = BOUNDS.map(|power| (nanos(power) / 1e9, 0)).collect();
        buckets.push((f64::INFINITY, 0));
        for bucket in self.0.buckets() {
            let power = power_above(bucket.to).clamp(*BOUNDS.start(), BOUNDS.end() + 1);
            buckets[(power - BOUNDS.start()) as usize].1 += bucket.count;
        }
        buckets
    }
}

/// The least power of two of nanoseconds that a time lies below.
fn power_above(time: Duration) -> u32 {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    u64::BITS - nanos.leading_zeros()
}

fn nanos(power: u32) -> f64 {
    2f64.powi(power as i32)
}

impl Serialize for Times {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let mut times = serializer.serialize_struct("Times", 5)?;
        times.serialize_field("count", &self.0.count())?;
        times.serialize_field("p50_ms", &ms(self.0.quantile(0.5)))?;
        times.serialize_field("p99_ms", &ms(self.0.quantile(0.99)))?;
        times.serialize_field("max_ms", &ms(self.0.max()))?;
        times.serialize_field("doublings", &self.doublings())?;
        times.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(nanos: &[u64]) -> Times {
        let mut histogram = Histogram::new();
        for nanos in nanos {
            histogram.record(Duration::from_nanos(*nanos));
        }
        Times(histogram)
    }

    #[test]
    fn doublings_have_every_column_between_the_first_and_the_last() {
        assert_eq!(times(&[]).doublings(), []);
        let columns = times(&[1 << 20, (1 << 21) - 1, 1 << 22]).doublings();
        let want = [(21, 2), (22, 0), (23, 1)];
        let want = want.map(|(power, count)| Doubling { to_ms: f64::from(1 << power) / 1e6, count });
        assert_eq!(columns, want);
    }

    #[test]
    fn bounds_are_always_the_same_and_hold_everything() {
        let bounds: Vec<f64> = times(&[]).buckets().into_iter().map(|(bound, _)| bound).collect();
        let buckets = times(&[0, 1, 65_535, 65_536, u64::MAX]).buckets();
        assert_eq!(buckets.iter().map(|(bound, _)| *bound).collect::<Vec<_>>(), bounds);
        assert_eq!((buckets[0], buckets[1]), ((65_536e-9, 3), (131_072e-9, 1)));
        assert_eq!(buckets.last(), Some(&(f64::INFINITY, 1)));
    }
}
