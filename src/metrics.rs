//! The books of a purgatory: what was registered, how it ended, and how long things took.
//!
//! All that is counted for each operation is counted under a lock that is held anyway, in the shard's own part of the books;
//! whoever asks adds the parts up. What is kept on top of that, and what it costs, is in [`design`](crate::design).

mod histogram;

pub use histogram::{Bucket, Histogram};

use crate::operation::Outcome;
use std::time::Duration;

/// The counts of a purgatory at one moment, from [`Purgatory::stats`](crate::Purgatory::stats).
///
/// At every quiet point (no call into the purgatory in progress) the books balance:
/// `registered == ended() + pending`. Operations that their first look satisfied count as registered and as
/// satisfied.
///
/// # Examples
///
/// ```
/// # use ixion::{DelayedOperation, ManualClock, Outcome, Purgatory};
/// # use std::time::Duration;
/// # struct Wait;
/// # impl DelayedOperation for Wait {
/// #     fn try_complete(&mut self) -> bool { false }
/// #     fn on_complete(self, _outcome: Outcome) {}
/// # }
/// # let purgatory = Purgatory::builder("waits").clock(ManualClock::new()).build();
/// let _ = purgatory.try_complete_else_watch(Wait, Duration::from_secs(1), ["orders", "payments"])?;
/// let _ = purgatory.try_complete_else_watch(Wait, Duration::from_secs(1), ["orders"])?;
/// purgatory.force_complete_for_key("payments");
///
/// let stats = purgatory.stats();
/// assert_eq!((stats.registered, stats.forced, stats.pending), (2, 1, 1));
/// assert_eq!((stats.watched, stats.keys), (1, 1));
/// assert!(stats.balances());
/// # Ok::<(), ixion::RejectReason>(())
/// ```
#[doc(alias = "PurgatorySize")]
#[doc(alias = "NumDelayedOperations")]
#[doc(alias = "ExpiresPerSec")]
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Operations accepted since the purgatory was built.
    pub registered: u64,
    /// Ended because their condition was met.
    pub satisfied: u64,
    /// Ended because their time was up.
    pub expired: u64,
    /// Ended by a forced completion.
    pub forced: u64,
    /// Cancelled: handed back, or completed with `Cancelled` by the thread that was busy with them.
    pub cancelled: u64,
    /// Ended by the shutdown: completed with `Shutdown` or handed back.
    pub shut_down: u64,
    /// Ended by a panic of their look.
    pub panicked: u64,
    /// Operations that wait now.
    pub pending: usize,
    /// Entries in watch lists now: an operation on three keys is three.
    pub watched: usize,
    /// Keys that somebody waits on now.
    pub keys: usize,
    /// Timeouts that were clamped to the greatest allowed one.
    pub clamped: u64,
    /// Panics of user code that were caught: looks, callbacks, destructors, hooks, and readings of the clock for a figure.
    pub panics: u64,
    /// Of those registered, the ones that were over at their first look: they never waited.
    pub at_once: u64,
    /// Operations that were handed back since the capacity was used up. They are not registered.
    pub rejected_full: u64,
    /// Operations that were handed back since the purgatory had been shut down. They are not registered.
    pub rejected_shutdown: u64,
    /// What the engine has done for all that.
    pub work: Work,
}

/// What a purgatory's engine has done, in [`Stats`].
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Drives that were begun. Each is a pass or more.
    pub drives: u64,
    /// Passes: calls of [`expire`](crate::Purgatory::expire), and those of an expirer.
    pub passes: u64,
    /// How often a deadline was earlier than the one that was promised, so that the driver was woken, or the hook for earlier
    /// deadlines called.
    pub rings: u64,
    /// Timers that moved down a level of the wheel as their time came near: in practice none, one or two for each that
    /// expires, and hardly one for those that are stopped before.
    pub cascaded: u64,
    /// The longest time that a pass took, callbacks included, which is how long it kept the other purgatories of its
    /// expirer. Of the passes that expired something or moved a timer down.
    pub longest_pass: Duration,
}

impl Stats {
    /// Returns the number of operations that have ended, in whatever way.
    #[must_use]
    pub const fn ended(&self) -> u64 {
        self.satisfied + self.expired + self.forced + self.cancelled + self.shut_down + self.panicked
    }

    /// Whether everything that was registered has ended or is pending.
    #[must_use]
    pub const fn balances(&self) -> bool {
        self.registered == self.ended() + self.pending as u64
    }
}

/// One shard's part of the books. Kept under the shard's lock.
pub(crate) struct Books {
    registered: u64,
    satisfied: u64,
    expired: u64,
    forced: u64,
    cancelled: u64,
    shut_down: u64,
    panicked: u64,
    clamped: u64,
    /// Timers that moved down in wheels that the shard has had before.
    cascaded: u64,
    /// How long those that have ended waited, if that is measured.
    waits: Option<Histogram>,
}

impl Books {
    pub(crate) fn new(measures_waits: bool) -> Self {
        Books {
            registered: 0,
            satisfied: 0,
            expired: 0,
            forced: 0,
            cancelled: 0,
            shut_down: 0,
            panicked: 0,
            clamped: 0,
            cascaded: 0,
            waits: measures_waits.then(Histogram::new),
        }
    }

    pub(crate) fn register(&mut self) {
        self.registered += 1;
    }

    pub(crate) fn clamp(&mut self) {
        self.clamped += 1;
    }

    pub(crate) fn cascade(&mut self, timers: u64) {
        self.cascaded += timers;
    }

    pub(crate) fn end(&mut self, outcome: Outcome, waited: Option<Duration>) {
        if let (Some(waits), Some(waited)) = (&mut self.waits, waited) {
            waits.record(waited);
        }
        let count = match outcome {
            Outcome::Satisfied => &mut self.satisfied,
            Outcome::Expired => &mut self.expired,
            Outcome::Forced => &mut self.forced,
            Outcome::Cancelled => &mut self.cancelled,
            Outcome::Shutdown => &mut self.shut_down,
            Outcome::Panicked => &mut self.panicked,
        };
        *count += 1;
        debug_assert!(self.ended() <= self.registered, "{} ended of {}", self.ended(), self.registered);
    }

    fn ended(&self) -> u64 {
        self.satisfied + self.expired + self.forced + self.cancelled + self.shut_down + self.panicked
    }

    pub(crate) fn pending(&self) -> usize {
        usize::try_from(self.registered - self.ended()).expect("what is pending is in memory")
    }

    pub(crate) fn add_to(&self, stats: &mut Stats) {
        stats.registered += self.registered;
        stats.satisfied += self.satisfied;
        stats.expired += self.expired;
        stats.forced += self.forced;
        stats.cancelled += self.cancelled;
        stats.shut_down += self.shut_down;
        stats.panicked += self.panicked;
        stats.clamped += self.clamped;
        stats.pending += self.pending();
        stats.work.cascaded += self.cascaded;
    }

    pub(crate) const fn waits(&self) -> Option<&Histogram> {
        self.waits.as_ref()
    }
}

/// The drives' part of the books.
#[derive(Default)]
pub(crate) struct Pace {
    passes: u64,
    longest_pass: Duration,
    /// How late expiries were decided.
    pub(crate) lateness: Histogram,
}

impl Pace {
    /// Notes a pass, and how long it took if that is known.
    pub(crate) fn pass(&mut self, took: Option<Duration>) {
        self.passes += 1;
        self.longest_pass = self.longest_pass.max(took.unwrap_or_default());
    }

    pub(crate) fn add_to(&self, work: &mut Work) {
        work.passes += self.passes;
        work.longest_pass = self.longest_pass;
    }
}
