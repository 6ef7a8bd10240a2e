//! The limit on how many operations may wait.
//!
//! One counter for all shards, so that the limit is exact: a place is taken before an operation is shown to anybody, and given
//! back when it has been taken out. Without a limit there is no counter.

use crate::sync::{AtomicUsize, Ordering};
use crossbeam_utils::CachePadded;

/// How many operations may wait, and how many do.
pub(super) struct Capacity {
    limit: usize,
    /// On a line of its own: nearly every call writes it.
    used: CachePadded<AtomicUsize>,
}

impl Capacity {
    pub(super) fn new(limit: usize) -> Self {
        Capacity { limit, used: CachePadded::new(AtomicUsize::new(0)) }
    }

    /// Takes a place. A count, so Relaxed: nothing is published by it.
    pub(super) fn reserve(&self) -> bool {
        let mut used = self.used.load(Ordering::Relaxed);
        while used < self.limit {
            match self.used.compare_exchange(used, used + 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => used = now,
            }
        }
        false
    }

    pub(super) fn release(&self) {
        self.used.fetch_sub(1, Ordering::Relaxed);
    }
}
