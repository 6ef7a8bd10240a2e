//! Where an operation without keys is at home.
//!
//! Any shard would do. One after the other would spread them well, and make each thread touch the lines and the locks that the
//! others have touched last. So each thread has a shard of its own, as far as there are enough: the thread that came first
//! to a purgatory has shard 0, and the others follow by their age. What one thread does is then in the same order each time.

use crate::sync::{AtomicU64, Numbers, Ordering, thread_constant};
use std::cell::Cell;

static AGES: Numbers = Numbers::new();

thread_constant! {
    // By the order in which threads first register such an operation; 0 before that.
    static AGE: Cell<u64> = Cell::new(0)
}

/// The homes of one purgatory.
#[derive(Default)]
pub(super) struct Homes {
    /// The age of the thread that came first; 0 before that.
    first: AtomicU64,
}

impl Homes {
    /// The calling thread's, among so many shards.
    pub(super) fn of_this_thread(&self, shards: usize) -> u32 {
        let age = AGE.try_with(|age| {
            if age.get() == 0 {
                age.set(AGES.next());
            }
            age.get()
        });
        // In the last destructors of a thread there may be no age.
        let Ok(age) = age else { return 0 };
        // Relaxed: it publishes nothing, and never changes once it is set.
        let mut first = self.first.load(Ordering::Relaxed);
        if first == 0 {
            first = match self.first.compare_exchange(0, age, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => age,
                Err(first) => first,
            };
        }
        // There are fewer than 2^32 shards.
        (age.wrapping_sub(first) % shards as u64) as u32
    }
}

#[cfg(all(test, not(any(ixion_loom, ixion_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn the_first_thread_has_the_first_shard_and_each_keeps_its_own() {
        let homes = [Homes::default(), Homes::default()];
        let here = || homes.each_ref().map(|homes| homes.of_this_thread(8));
        assert_eq!(here(), [0, 0]);
        let there = std::thread::scope(|scope| {
            scope.spawn(|| (here(), here(), Homes::default().of_this_thread(8))).join().expect("no panic")
        });
        assert_eq!((there.0, there.2), (there.1, 0));
        assert_eq!(there.0[0], there.0[1], "as far from the first one everywhere");
        assert_eq!(here(), [0, 0]);
    }
}
