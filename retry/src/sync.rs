//! The seam to threads: the lock that the queue and its store in memory use. In a build `parking_lot`'s; where
//! `tests/models` runs the queue, that of the model checker, and faults that it plants.

#[cfg(not(any(ixion_loom, ixion_shuttle)))]
pub(crate) use parking_lot::Mutex;

#[cfg(any(ixion_loom, ixion_shuttle))]
pub(crate) use ixion::{ModelMutex as Mutex, planted};

/// Whether the fault of this name is planted: never, in a build.
#[cfg(not(any(ixion_loom, ixion_shuttle)))]
pub(crate) const fn planted(_bug: &str) -> bool {
    false
}
