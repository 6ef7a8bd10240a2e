//! What is always true of a wheel: each timer lies where its deadline and the position say, once, and all counts are right.
//!
//! For tests, which ask after every step.

use alloc::vec::Vec;

use super::chunk::Place;
use super::{LAST, TimingWheel, level};

impl<T> TimingWheel<T> {
    /// Checks that the wheel is what the module says it is. For tests: takes as long as the wheel is large.
    ///
    /// # Panics
    ///
    /// If it is not, which is a bug of the wheel.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        self.slots.check_invariants();
        let mut places: Vec<(u32, Place)> = Vec::new();
        let cascading = level::level(self.cascading);
        self.levels.check_invariants(|at, place, index, deadline| {
            assert!(deadline >= self.position && deadline <= LAST, "{deadline} at {}", self.position);
            let expected = level::locate(self.position, deadline);
            let waits_to_move = at == self.cascading && level::level(expected) < cascading;
            assert!(at == expected || waits_to_move, "{deadline} is in {at}, not {expected}");
            places.push((index, place));
        });
        if cascading > 0 {
            assert!(self.levels.is_occupied(self.cascading), "an empty bucket is cascaded");
            assert_eq!(level::start_of(self.position, self.cascading), self.position);
        }
        let first = self.levels.first().map_or(u64::MAX, |at| level::start_of(self.position, at));
        assert!(self.quiet_until <= first, "{first} is before {}", self.quiet_until);
        let (mut never, mut late) = (0, 0);
        places.sort_unstable_by_key(|it| it.0);
        let mut in_buckets = places.into_iter();
        for (index, place) in self.slots.places() {
            match place {
                Place::NEVER => never += 1,
                Place::LATE => {
                    late += 1;
                    let deadline = self.late.deadline(index).expect("a late timer is among the late ones");
                    assert!(deadline < self.position, "{deadline} is late at {}", self.position);
                }
                place => assert_eq!(in_buckets.next(), Some((index, place)), "slot and bucket agree"),
            }
        }
        assert_eq!(in_buckets.next(), None, "in a bucket, but in no slot");
        assert_eq!(late, self.late.len());
        assert!(never <= self.len());
    }
}
