//! Where a fetch that waits need not be asked: a lower bound on what must happen before it can have enough bytes.
//!
//! A look finds for each partition how many bytes it adds, and the *progress* of its end: how many bytes of its log were
//! ever before it. Let `missing` be what the sum lacks, and `k` how many partitions can still add to it. The fetch then
//! waits on each of these at the progress that was found plus `ceil(missing / k)`.
//!
//! That is safe. What a partition adds grows by no more than its progress does: on one segment both count the same
//! bytes, those before the fetch count for the progress only, and what is cut off at the partition's limit counts for
//! nothing. So as long as no partition has reached its number, each has added at most `ceil(missing / k) - 1` bytes
//! since, together at most `k * (ceil(missing / k) - 1) < missing`. The first event that reaches a number asks again, and
//! what is missing then is divided anew: some numbers fall, which the purgatory allows for.
//!
//! * **b1** A partition whose place is unknown (f1), or that adds all that is wanted of it, is waited for no more.
//! * **b2** One of which it is not known what it will add or when it may end the wait has the fetch asked at every event, on
//!   all its partitions: with it the other numbers would be wrong. That is so if a place or a progress is not known, if the
//!   fetch is at the end of a segment that is not the last (f4), and for a throttled follower: nobody signals the end of that.
//! * **b3** What is no matter of bytes is none of a number: a segment rolled, a log truncated, a leader lost are signalled
//!   to all who wait, and all are asked.

use smallvec::SmallVec;

/// What a partition may still add to the sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    /// Nothing, as long as bytes are all that comes (b1).
    Nothing,
    /// As many bytes as its progress goes beyond this.
    From(u64),
    /// It is not known (b2).
    Unknown,
}

/// The number that a fetch waits at for each of its partitions, as of its last look.
#[derive(Debug, Default)]
pub(super) struct Bound {
    numbers: SmallVec<[u64; 1]>,
    growing: u64,
    is_known: bool,
}

impl Bound {
    /// Begins with a look.
    pub(super) fn begin(&mut self) {
        self.numbers.clear();
        self.growing = 0;
        self.is_known = true;
    }

    /// Takes the next partition, in order.
    pub(super) fn add(&mut self, growth: Growth) {
        self.numbers.push(match growth {
            Growth::Nothing => u64::MAX,
            Growth::From(progress) => progress,
            Growth::Unknown => 0,
        });
        self.growing += u64::from(matches!(growth, Growth::From(_)));
        self.is_known &= growth != Growth::Unknown;
    }

    /// Ends with a look that lacks so many bytes.
    pub(super) fn end(&mut self, missing: u64) {
        let share = missing.div_ceil(self.growing.max(1));
        let at = |progress: u64| if self.is_known { progress.saturating_add(share) } else { 0 };
        self.numbers.iter_mut().for_each(|number| *number = at(*number));
    }

    /// Where to wait for a partition.
    pub(super) fn number(&self, partition: usize) -> Option<u64> {
        self.numbers.get(partition).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(missing: u64, growths: &[Growth]) -> Vec<u64> {
        let mut bound = Bound::default();
        // What an earlier look has left is forgotten.
        bound.add(Growth::Unknown);
        bound.begin();
        growths.iter().for_each(|growth| bound.add(*growth));
        bound.end(missing);
        assert_eq!(bound.number(growths.len()), None);
        (0..growths.len()).map(|partition| bound.number(partition).expect("it was added")).collect()
    }

    #[test]
    fn what_is_missing_is_divided_among_those_that_can_add_and_rounded_up() {
        use Growth::{From, Nothing};
        assert_eq!(numbers(100, &[From(1000)]), [1100]);
        assert_eq!(numbers(100, &[From(1000), From(7), From(0)]), [1034, 41, 34]);
        assert_eq!(numbers(100, &[From(1000), Nothing, From(7)]), [1050, u64::MAX, 57]);
        assert_eq!(numbers(1, &[From(1000), From(7), From(0)]), [1001, 8, 1]);
        assert_eq!(numbers(1, &[Nothing]), [u64::MAX]);
        assert_eq!(numbers(u64::MAX, &[From(1000)]), [u64::MAX]);
        assert_eq!(numbers(5, &[]), [0; 0]);
    }

    #[test]
    fn one_that_is_not_known_has_all_asked_at_every_event() {
        use Growth::{From, Nothing, Unknown};
        assert_eq!(numbers(100, &[From(1000), Unknown, Nothing]), [0, 0, 0]);
    }

    #[test]
    fn below_every_number_the_sum_is_always_short_and_at_one_it_may_be_enough() {
        for missing in 1..40u64 {
            for growing in 1..8usize {
                let numbers = numbers(missing, &vec![Growth::From(0); growing]);
                let most: u64 = numbers.iter().map(|number| number - 1).sum();
                assert!(most < missing, "{missing} among {growing}");
                assert!(most + growing as u64 >= missing, "{missing} among {growing}: no lower than need be");
            }
        }
    }
}
