//! A model checker's locks, atomics and threads in the shape of those of a build, and the time of a model.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

#[cfg(ixion_loom)]
use loom as checker;
#[cfg(ixion_shuttle)]
use shuttle as checker;

pub(crate) use checker::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
pub(crate) use checker::{thread, thread_local};

/// The checkers' thread-locals are made when they are first used.
macro_rules! thread_constant {
    (static $name:ident: $type:ty = $init:expr) => {
        $crate::sync::thread_local! { static $name: $type = $init }
    };
}
pub(crate) use thread_constant;

/// The checker's mutex in the shape of `parking_lot`'s: no poison.
#[derive(Debug, Default)]
pub struct Mutex<T>(Arc<checker::sync::Mutex<T>>);

impl<T> Mutex<T> {
    /// As `parking_lot`'s.
    pub fn new(value: T) -> Self {
        Mutex(Arc::new(checker::sync::Mutex::new(value)))
    }

    /// As `parking_lot`'s.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        MutexGuard { mutex: &self.0, held: Some(held) }
    }
}

/// As `parking_lot`'s.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    mutex: &'a Arc<checker::sync::Mutex<T>>,
    /// `None` only while a condition variable has the lock.
    held: Option<checker::sync::MutexGuard<'a, T>>,
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.held.as_ref().expect("the guard holds its lock")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect("the guard holds its lock")
    }
}

/// The checker's condition variable. Its own waits never time out; those with a limit are ended by [`time`].
pub(crate) struct Condvar(Arc<checker::sync::Condvar>);

impl Condvar {
    pub(crate) fn new() -> Self {
        Condvar(Arc::new(checker::sync::Condvar::new()))
    }

    pub(crate) fn wait<T: Send + 'static>(&self, guard: &mut MutexGuard<'_, T>, limit: Option<Duration>) {
        let sleeper = limit.map(|limit| {
            let (condvar, mutex) = (Arc::clone(&self.0), Arc::clone(guard.mutex));
            time::fall_asleep(limit, move || {
                // With the lock: whoever falls asleep holds it until it sleeps, so this cannot come too early.
                let _lock = mutex.lock().unwrap_or_else(PoisonError::into_inner);
                condvar.notify_all();
            })
        });
        self.wait_on(guard);
        if let Some(sleeper) = sleeper {
            time::wake_up(sleeper);
        }
    }

    fn wait_on<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.held.take().expect("the guard holds its lock");
        guard.held = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// The time of a model: it stands still until a thread of the model [`run`](time::run)s it, and then it passes only
/// while somebody sleeps.
pub mod time {
    use super::{Condvar, Mutex, checker};
    use std::time::Duration;

    /// Who sleeps until when, and how that ends.
    struct Sleeper {
        number: u64,
        until: Duration,
        end: Box<dyn FnOnce() + Send>,
    }

    #[derive(Default)]
    struct State {
        now: Duration,
        stopped: bool,
        sleepers: Vec<Sleeper>,
        last: u64,
    }

    struct Time {
        state: Mutex<State>,
        changed: Condvar,
    }

    // The checker makes a new one for each execution.
    checker::lazy_static! {
        static ref TIME: Time = Time { state: Mutex::new(State::default()), changed: Condvar::new() };
    }

    /// Returns the time since the execution began.
    #[must_use]
    pub fn now() -> Duration {
        TIME.state.lock().now
    }

    /// Is the clock until [`stop`] is called: moves time on to where the next sleep ends, and ends it. A sleep beyond
    /// `horizon` is one for ever: if it was wrong to begin it, everybody waits, and the checker sees a deadlock.
    pub fn run(horizon: Duration) {
        let mut state = TIME.state.lock();
        while !state.stopped {
            let next = (0..state.sleepers.len()).min_by_key(|&at| state.sleepers[at].until);
            let Some(next) = next.filter(|&at| state.sleepers[at].until <= horizon) else {
                TIME.changed.wait_on(&mut state);
                continue;
            };
            let sleeper = state.sleepers.swap_remove(next);
            state.now = state.now.max(sleeper.until);
            drop(state);
            (sleeper.end)();
            state = TIME.state.lock();
        }
    }

    /// Ends [`run`], now or as it begins.
    pub fn stop() {
        TIME.state.lock().stopped = true;
        TIME.changed.notify_all();
    }

    /// Waits until somebody has fallen asleep so many times.
    pub fn wait_for_sleep(times: u64) {
        let mut state = TIME.state.lock();
        while state.last < times {
            TIME.changed.wait_on(&mut state);
        }
    }

    pub(super) fn fall_asleep(limit: Duration, end: impl FnOnce() + Send + 'static) -> u64 {
        let mut state = TIME.state.lock();
        state.last += 1;
        let (number, until) = (state.last, state.now.saturating_add(limit));
        state.sleepers.push(Sleeper { number, until, end: Box::new(end) });
        TIME.changed.notify_all();
        number
    }

    pub(super) fn wake_up(number: u64) {
        TIME.state.lock().sleepers.retain(|sleeper| sleeper.number != number);
    }
}
