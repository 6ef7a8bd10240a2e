//! When a driver must look next, and the bell that wakes it earlier.
//!
//! Protocol, one side each:
//!
//! * A driver that wants to sleep (1) raises the alarm to *never*, (2) finds the earliest deadline under the shards'
//!   locks, (3) lowers the alarm to it, and sleeps no longer than the alarm says.
//! * Who registers an earlier deadline lowers the alarm while it holds the shard's lock, and rings if it was the one
//!   that lowered it.
//!
//! Raising *before* the scan is what matters: a deadline that is added to a shard already scanned finds the alarm
//! raised and rings. The other order oversleeps it
//! (`a_deadline_added_while_the_alarm_still_shows_the_past_is_not_overslept` among the models). While a driver is awake
//! the alarm still shows the instant it woke for, which is past, so registrations do not ring. Only a driver promises:
//! whoever merely asks for the next deadline while an expirer drives must leave the alarm alone, or it shows a promise
//! that nobody keeps. The shards' locks order the two sides; the word needs no ordering of its own.

use crate::sync::{Arc, AtomicU64, Condvar, Mutex, Ordering, planted};
use crate::tick::Tick;
use std::time::Duration;

/// The earliest tick at which somebody has promised to drive a purgatory, and who is to be woken.
pub(crate) struct Alarm {
    at: AtomicU64,
    bells: Mutex<Vec<Arc<Bell>>>,
}

impl Alarm {
    pub(crate) fn new() -> Self {
        Alarm { at: AtomicU64::new(Tick::MAX.as_u64()), bells: Mutex::new(Vec::new()) }
    }

    /// Step 1 of a driver that wants to sleep.
    pub(crate) fn raise(&self) {
        self.at.store(Tick::MAX.as_u64(), Ordering::Relaxed);
    }

    /// Lowers the alarm; true if it was later before. By a registration: under the shard's lock, and then the
    /// caller must [`ring`](Self::ring) once it has let go of it. By a driver: step 3.
    pub(crate) fn lower(&self, deadline: Tick) -> bool {
        let deadline = deadline.as_u64();
        // The load saves the common case, a later deadline, the read-modify-write.
        deadline < self.at.load(Ordering::Relaxed)
            && deadline < self.at.fetch_min(deadline, Ordering::Relaxed)
    }

    /// Whether a thread drives this purgatory.
    pub(crate) fn has_bell(&self) -> bool {
        !self.bells.lock().is_empty()
    }

    pub(crate) fn attach(&self, bell: &Arc<Bell>) {
        self.bells.lock().push(Arc::clone(bell));
    }

    pub(crate) fn detach(&self, bell: &Arc<Bell>) {
        self.bells.lock().retain(|other| !Arc::ptr_eq(other, bell));
    }

    /// Wakes every thread that drives this purgatory.
    pub(crate) fn ring(&self) {
        for bell in self.bells.lock().iter() {
            bell.ring();
        }
    }
}

/// What an expirer's thread sleeps on. A ring before the sleep ends it at once.
pub(crate) struct Bell {
    rung: Mutex<bool>,
    heard: Condvar,
}

impl Bell {
    pub(crate) fn new() -> Self {
        Bell { rung: Mutex::new(false), heard: Condvar::new() }
    }

    pub(crate) fn ring(&self) {
        let mut rung = self.rung.lock();
        if !*rung {
            *rung = true;
            self.heard.notify_all();
        }
    }

    /// Sleeps until the bell is rung or `limit` has passed; for less than that if the system wakes it early.
    pub(crate) fn wait(&self, limit: Option<Duration>) {
        let mut rung = self.rung.lock();
        let missed = planted("missed-bell");
        if (!*rung || missed) && limit != Some(Duration::ZERO) {
            self.heard.wait(&mut rung, limit);
        }
        *rung = false;
    }
}

#[cfg(all(test, not(any(ixion_loom, ixion_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn only_an_earlier_deadline_lowers_the_alarm() {
        let alarm = Alarm::new();
        assert!(alarm.lower(Tick::new(10)));
        assert!(!alarm.lower(Tick::new(10)));
        assert!(!alarm.lower(Tick::new(11)));
        assert!(alarm.lower(Tick::new(9)));
        alarm.raise();
        assert!(alarm.lower(Tick::new(11)));
        assert!(!alarm.lower(Tick::MAX));
    }

    #[test]
    fn a_ring_before_the_sleep_is_not_lost() {
        let alarm = Alarm::new();
        let bell = Arc::new(Bell::new());
        alarm.attach(&bell);
        alarm.ring();
        bell.wait(None);
        let other = Arc::new(Bell::new());
        alarm.attach(&other);
        alarm.detach(&bell);
        alarm.ring();
        assert!(!*bell.rung.lock(), "a detached bell is not rung");
        assert!(*other.rung.lock(), "the other one is");
        alarm.detach(&other);
        assert!(!alarm.has_bell());
    }
}
