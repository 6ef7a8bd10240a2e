//! The seam to threads: the only module of the library that names a lock, a condition variable or an atomic.
//!
//! In a build these are `parking_lot`'s and std's. Under `--cfg ixion_loom` or `--cfg ixion_shuttle` they are those of
//! the model checker of that name, in the same shape, so that the models in `tests/models` check the code that ships and
//! not a copy of it. A cfg and not a feature: a feature of one crate in a tree would switch it on for all.

#[cfg(not(any(ixion_loom, ixion_shuttle)))]
mod real {
    use std::time::Duration;

    pub(crate) use parking_lot::{Mutex, MutexGuard};
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
    pub(crate) use std::{thread, thread_local};

    /// A thread-local made of a constant, with nothing to drop: it is there from the thread's start to its very end, and
    /// reading it costs what a static does.
    macro_rules! thread_constant {
        (static $name:ident: $type:ty = $init:expr) => {
            std::thread_local! { static $name: $type = const { $init } }
        };
    }
    pub(crate) use thread_constant;

    /// A condition variable whose wait takes an optional limit.
    #[derive(Default)]
    pub(crate) struct Condvar(parking_lot::Condvar);

    impl Condvar {
        pub(crate) fn new() -> Self {
            Condvar(parking_lot::Condvar::new())
        }

        /// Waits for a notification, or until `limit` has passed. May wake for no reason.
        pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>, limit: Option<Duration>) {
            match limit {
                Some(limit) => {
                    self.0.wait_for(guard, limit);
                }
                None => self.0.wait(guard),
            }
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}

#[cfg(any(ixion_loom, ixion_shuttle))]
pub(crate) mod modelled;

#[cfg(any(ixion_loom, ixion_shuttle))]
pub(crate) use modelled::*;
#[cfg(not(any(ixion_loom, ixion_shuttle)))]
pub(crate) use real::*;

pub(crate) use crate::fault::{MODELLED, planted};

/// Numbers from 1 on, each given out once. A counter of std's in a model too: it takes part in no race.
pub(crate) struct Numbers(std::sync::atomic::AtomicU64);

impl Numbers {
    pub(crate) const fn new() -> Self {
        Numbers(std::sync::atomic::AtomicU64::new(1))
    }

    pub(crate) fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::Ordering;
