//! What the benches share: the generator, the delays, and the sizes of a run.

#![allow(dead_code, unreachable_pub, missing_docs, reason = "each bench uses its part of it")]

pub mod lazy;
pub mod linked;

use criterion::{BenchmarkGroup, Criterion, SamplingMode, measurement::WallTime};
use std::time::Duration;

/// Delays are uniform in 1..=60 000 ticks.
pub const LONGEST: u64 = 60_000;

/// A generator that is the same everywhere: xorshift64*.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
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
pub struct Delays {
    table: Vec<u64>,
    at: usize,
}

impl Delays {
    pub fn uniform() -> Self {
        let mut random = Random::new(7);
        Delays { table: (0..65_536).map(|_| 1 + random.below(LONGEST as usize) as u64).collect(), at: 0 }
    }

    #[inline]
    pub fn next(&mut self) -> u64 {
        self.at = (self.at + 1) % 65_536;
        self.table[self.at]
    }
}

/// Whether this run only shows that the benches work: everything is then small.
pub fn is_smoke() -> bool {
    std::env::args().any(|arg| arg == "--test")
}

/// The sizes to run with, and how they are called.
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
