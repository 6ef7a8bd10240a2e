//! The seam to threads: the only module of the library that names a lock, a condition variable or an atomic.
//!
//! In a build these are `parking_lot`'s and std's. Under `--cfg ixion_loom` they are loom's, in the same shape, so
//! that the models in `tests/models` check the code that ships and not a copy of it. A cfg and not a feature: a
//! feature of one crate in a tree would switch it on for all.

#[cfg(not(ixion_loom))]
mod real {
    use std::time::Duration;

    pub(crate) use parking_lot::{Mutex, MutexGuard};
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
    pub(crate) use std::thread_local;

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

    /// Whether a fault is planted: never, in a build.
    #[inline(always)]
    pub(crate) const fn planted(_bug: &str) -> bool {
        false
    }
}

#[cfg(ixion_loom)]
mod modelled {
    use std::ops::{Deref, DerefMut};
    use std::time::Duration;

    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
    pub(crate) use loom::thread_local;

    /// loom's thread-locals are made when they are first used.
    macro_rules! thread_constant {
        (static $name:ident: $type:ty = $init:expr) => {
            loom::thread_local! { static $name: $type = $init }
        };
    }
    pub(crate) use thread_constant;

    /// loom's mutex in the shape of `parking_lot`'s: no poison.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Mutex(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(Some(self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)))
        }
    }

    /// `None` only while a condition variable has the lock.
    pub(crate) struct MutexGuard<'a, T>(Option<loom::sync::MutexGuard<'a, T>>);

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;
        fn deref(&self) -> &T {
            self.0.as_ref().expect("the guard holds its lock")
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().expect("the guard holds its lock")
        }
    }

    /// loom has no time: a wait ends by a notification alone, so a missed one is a deadlock that loom reports.
    pub(crate) struct Condvar(loom::sync::Condvar);

    impl Condvar {
        pub(crate) fn new() -> Self {
            Condvar(loom::sync::Condvar::new())
        }

        pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>, _limit: Option<Duration>) {
            let held = guard.0.take().expect("the guard holds its lock");
            guard.0 = Some(self.0.wait(held).unwrap_or_else(std::sync::PoisonError::into_inner));
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    /// Whether the fault of this name is planted. `IXION_PLANTED_BUG` names it, so that one build of the models can
    /// show that each fault is caught.
    pub(crate) fn planted(bug: &str) -> bool {
        static PLANTED: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
        PLANTED.get_or_init(|| std::env::var("IXION_PLANTED_BUG").ok()).as_deref() == Some(bug)
    }
}

#[cfg(ixion_loom)]
pub(crate) use modelled::*;
#[cfg(not(ixion_loom))]
pub(crate) use real::*;

/// A number that no other call in this process gets. A counter of std's in a model too: it takes part in no race.
pub(crate) fn unique_number() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::Ordering;
