//! Numbers as people read them, and how much a run is to do.

use super::{is_short, is_smoke};
use std::time::Duration;

/// One of three: for a run that only shows that it works, for a short one, for a whole one.
#[must_use]
pub fn pick<T>(smoke: T, short: T, whole: T) -> T {
    match (is_smoke(), is_short()) {
        (true, _) => smoke,
        (_, true) => short,
        _ => whole,
    }
}

/// A time in the largest unit of which there is one at least.
#[must_use]
pub fn time(of: Duration) -> String {
    in_units(of.as_nanos() as f64, &[(" ns", 1.0), (" us", 1e3), (" ms", 1e6), (" s", 1e9)])
}

/// A count in thousands or millions, if it is one of many.
#[must_use]
pub fn count(of: f64) -> String {
    in_units(of, &[("", 1.0), ("k", 1e3), ("M", 1e6)])
}

/// Bytes in millions.
#[must_use]
pub fn megabytes(of: u64) -> String {
    format!("{:.1}", of as f64 / 1e6)
}

fn in_units(of: f64, units: &[(&str, f64)]) -> String {
    let (unit, size) = units.iter().rev().find(|(_, size)| of >= *size).unwrap_or(&units[0]);
    let value = of / size;
    let digits = usize::from(value < 100.0 && value.fract() != 0.0);
    format!("{value:.digits$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_a_unit_that_fits() {
        let times = [0, 999, 1500, 25_000_000, 3_000_000_000].map(|ns| time(Duration::from_nanos(ns)));
        assert_eq!(times, ["0 ns", "999 ns", "1.5 us", "25 ms", "3 s"]);
        assert_eq!([3.0, 10_000.0, 2_500_000.0].map(count), ["3", "10k", "2.5M"]);
    }
}
