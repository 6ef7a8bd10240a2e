//! How many timers are in each bucket, for a picture of the wheel.

use super::TimingWheel;
use super::level::{LEVELS, SLOTS};
use alloc::boxed::Box;
use alloc::vec;

/// How many timers wait in each bucket of a wheel, or of several together; from [`TimingWheel::occupancy`] and
/// [`Purgatory::occupancy`](crate::Purgatory::occupancy).
///
/// A bucket of level 0 holds one tick, one of level 1 a block of 64, and so on. A wheel's hand at level `l` stands at digit `l`
/// of its [`now`](TimingWheel::now) in base 64.
///
/// # Examples
///
/// ```
/// use ixion::{Tick, TimingWheel};
///
/// let mut wheel = TimingWheel::new();
/// for deadline in [3, 70, 75, 5000, u64::MAX] {
///     wheel.start_timer(Tick::new(deadline), ());
/// }
/// let occupancy = wheel.occupancy();
/// let levels: Vec<&[usize]> = occupancy.levels().collect();
/// assert_eq!((levels[0][3], levels[1][1], levels[2][1]), (1, 2, 1));
/// assert_eq!((occupancy.never(), occupancy.total()), (1, 5));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// Level after level.
    buckets: Box<[usize]>,
    overdue: usize,
    total: usize,
}

/// How many chunks are counted under one hold of a shard's lock, at about 10 ns each.
pub(crate) const COUNT_STEP: u32 = 1024;

impl Occupancy {
    /// The levels of a wheel.
    pub const LEVELS: usize = LEVELS;

    /// The buckets of a level.
    pub const SLOTS: usize = SLOTS;

    pub(crate) fn new() -> Self {
        Occupancy { buckets: vec![0; LEVELS * SLOTS].into_boxed_slice(), overdue: 0, total: 0 }
    }

    /// Returns the counts of each level's 64 buckets, from level 0 on.
    pub fn levels(&self) -> impl Iterator<Item = &[usize]> {
        self.buckets.chunks_exact(SLOTS)
    }

    /// Returns how many timers are in no bucket since their deadline lay in the past when they were started.
    #[must_use]
    pub const fn overdue(&self) -> usize {
        self.overdue
    }

    /// Returns how many timers are in no bucket since they never expire.
    #[must_use]
    pub fn never(&self) -> usize {
        let others = self.buckets.iter().sum::<usize>() + self.overdue;
        self.total.saturating_sub(others)
    }

    /// Returns how many timers there are.
    #[must_use]
    pub const fn total(&self) -> usize {
        self.total
    }
}

impl<T> TimingWheel<T> {
    /// Counts the timers of each bucket.
    ///
    /// # Complexity
    ///
    /// O(chunks), one for up to 64 timers and about 10 ns for each.
    #[must_use]
    pub fn occupancy(&self) -> Occupancy {
        let mut occupancy = Occupancy::new();
        self.add_occupancy(0, u32::MAX, &mut occupancy);
        occupancy
    }

    /// Adds what is in up to `most` chunks from one on, and with the last of them all the rest. Returns the chunk to go on
    /// from.
    pub(crate) fn add_occupancy(&self, from: u32, most: u32, occupancy: &mut Occupancy) -> Option<u32> {
        let next = self.levels.add_counts(from, most, &mut occupancy.buckets);
        if next.is_none() {
            occupancy.overdue += self.late.len();
            occupancy.total += self.len();
        }
        next
    }
}
