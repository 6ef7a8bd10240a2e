//! What the benches share: the generator, the delays, what a timer carries, and the sizes of a run.

pub mod lazy;
pub mod linked;
mod payload;
pub mod process;
mod quantiles;
mod stopwatch;
mod table;
mod units;

pub use payload::{Payload, dropped};
pub use quantiles::{median, quantiles};
pub use stopwatch::Stopwatch;
pub use table::{Table, figure};
pub use units::{count, megabytes, pick, time};

use criterion::{BenchmarkGroup, Criterion, SamplingMode, measurement::WallTime};
use std::time::Duration;

/// Delays are uniform in 1..=60 000 ticks.
pub const LONGEST: u64 = 60_000;

/// A generator that is the same everywhere: xorshift64*.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    #[inline]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `bound`, by multiplying: no division in the measured loop.
    #[inline]
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

/// Delays drawn beforehand, read round and round.
#[derive(Clone)]
pub struct Delays {
    table: Vec<u64>,
    at: usize,
}

impl Delays {
    /// Each from 1 to [`LONGEST`] is as likely as the other.
    #[must_use]
    pub fn uniform() -> Self {
        Delays::drawn(|random| 1 + random.below(LONGEST as usize) as u64)
    }

    /// Each *order* of magnitude from 1 to [`LONGEST`] is as likely as the other: a millisecond to a minute.
    #[must_use]
    pub fn log_uniform() -> Self {
        Delays::drawn(|random| {
            let share = random.below(1 << 52) as f64 / (1u64 << 52) as f64;
            ((LONGEST as f64).powf(share) as u64).max(1)
        })
    }

    fn drawn(mut draw: impl FnMut(&mut Random) -> u64) -> Self {
        let mut random = Random::new(7);
        Delays { table: (0..65_536).map(|_| draw(&mut random)).collect(), at: 0 }
    }

    #[inline]
    pub fn next(&mut self) -> u64 {
        self.at = (self.at + 1) % 65_536;
        self.table[self.at]
    }
}

/// Whether this run only shows that the benches work: everything is then small.
#[must_use]
pub fn is_smoke() -> bool {
    std::env::args().any(|arg| arg == "--test")
}

/// Whether this run is to be over in less than a minute: fewer rows, fewer rounds.
#[must_use]
pub fn is_short() -> bool {
    std::env::args().any(|arg| arg == "--short")
}

/// Whether this run has rows of ten million timers, too: minutes, and some gigabytes.
#[must_use]
pub fn is_huge() -> bool {
    std::env::args().any(|arg| arg == "--huge")
}

/// Whether this run has a row of such a title: it has all, or those with the words that it was given.
#[must_use]
pub fn is_wanted(title: &str) -> bool {
    let mut words = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).peekable();
    words.peek().is_none() || words.any(|word| title.contains(&word))
}

/// The sizes to run with, and how they are called.
#[must_use]
pub fn sizes() -> &'static [(usize, &'static str)] {
    if is_smoke() {
        &[(1_000, "1k"), (10_000, "10k")]
    } else {
        &[(10_000, "10k"), (100_000, "100k"), (1_000_000, "1M")]
    }
}

/// A group whose benchmarks take a few seconds each: ten samples, and no curve is fitted.
pub fn group<'a>(criterion: &'a mut Criterion, name: &str) -> BenchmarkGroup<'a, WallTime> {
    let mut group = criterion.benchmark_group(name);
    group.sample_size(10).warm_up_time(Duration::from_millis(700));
    group.measurement_time(Duration::from_secs(2)).sampling_mode(SamplingMode::Flat);
    group
}
