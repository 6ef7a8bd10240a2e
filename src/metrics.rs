//! The books of a purgatory: what was registered and how it ended; and how long things took.

mod histogram;

pub use histogram::{Bucket, Histogram};

use crate::operation::Outcome;

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
    /// Panics of user code that were caught: looks, callbacks, destructors and hooks.
    pub panics: u64,
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
#[derive(Default)]
pub(crate) struct Books {
    registered: u64,
    satisfied: u64,
    expired: u64,
    forced: u64,
    cancelled: u64,
    shut_down: u64,
    panicked: u64,
    clamped: u64,
}

impl Books {
    pub(crate) fn register(&mut self) {
        self.registered += 1;
    }

    pub(crate) fn clamp(&mut self) {
        self.clamped += 1;
    }

    pub(crate) fn end(&mut self, outcome: Outcome) {
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
    }
}
