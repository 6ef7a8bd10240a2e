//! The purgatory: operations that wait for an event on their keys, or for their time to be up.
//!
//! It owns the operations that wait, their deadlines and their watch lists. Any thread may call it. It never runs
//! user code with a lock held, never waits for a thread that is inside an operation, and keeps nothing of an
//! operation that has ended. The protocol behind this is written down in [`design`](crate::design).
//!
//! ```text
//!   Purgatory ──▶ Engine ──▶ shard 0 │ shard 1 │ …        one lock each
//!                             ├ registry and wheel         who is at home here, and until when
//!                             └ watch lists                who waits on the keys that live here
//! ```
//!
//! It needs a driver, an [`Expirer`](crate::Expirer) or somebody who calls [`expire`](Purgatory::expire), even if no operation
//! has a timeout: one that is signalled without a pause is in the end handed on to it.
//!
//! An operation's *home* is the shard of its first key; without keys, one that the registering thread shares with as few
//! others as can be. There it has its place in the registry and its deadline, so an operation on one key takes one lock to
//! register and one to end.

/// The lines that most examples begin with and do not show: an operation that waits until somebody ends it.
macro_rules! setup {
    () => {
        r#"# use ixion::*;
# use std::time::Duration;
# struct Wait;
# impl DelayedOperation for Wait {
#     fn try_complete(&mut self) -> bool { false }
#     fn on_complete(self, _outcome: Outcome) {}
# }
# const MINUTE: Duration = Duration::from_secs(60);
# let clock = ManualClock::new();
# let purgatory: Purgatory<&str, Wait> = Purgatory::builder("waits").clock(clock.clone()).build();"#
    };
}

mod aside;
mod builder;
mod callbacks;
mod capacity;
mod deadlines;
mod drive;
mod ends;
pub(crate) mod engine;
mod event;
mod home;
mod numbered;
mod observe;
mod panics;
mod pool;
mod register;
mod results;
mod since;
mod table;
#[cfg(all(test, not(any(ixion_loom, ixion_shuttle))))]
mod tests;
mod waste;
mod watch;

pub use builder::Builder;
pub use equivalent::Equivalent;
pub use observe::Watcher;
pub use panics::{CaughtPanic, PanicPlace};
pub use results::{Cancelled, Drive, HandedBack, OperationId, Registration, RejectReason, Rejected, Watch};

use crate::operation::{BoxedOperation, DelayedOperation};
use crate::sync::Arc;
use engine::Engine;
use std::fmt;
use std::hash::Hash;
use std::time::Duration;

/// A place where operations wait, watched by keys.
///
/// Whoever brings something about calls [`check_and_complete`](Self::check_and_complete) for the key that it
/// concerns, *after* the state has changed and with no lock held that an operation needs. An operation whose time is
/// up is expired by a drive: by an [`Expirer`](crate::Expirer), or by whoever calls [`expire`](Self::expire).
///
/// `O` is what waits: a type of your own, or, where types differ, the default, a [`BoxedOperation`] of each.
///
/// A purgatory is `Send` and `Sync` where `K` and `O` are `Send`. It is not `Clone`: share it in an `Arc`. Dropping it
/// shuts it down.
///
/// `K`'s `Eq` (and `Equivalent`) runs with a lock held: it must neither panic nor call the engine. All other user code
/// runs without one; a panic of `K`'s `Hash` or of the clock goes through to the caller. `K` is never cloned, but
/// by [`hottest_keys`](Self::hottest_keys), with a lock held.
///
/// Every method may be called from a callback. Such calls decide, unlink and count at once; the callbacks that they
/// cause are queued, and run in that order at the end of the thread's outermost call. So a chain of callbacks costs no
/// stack. One without an end keeps its outermost call for ever, but for a drive, which leaves the rest to the thread's
/// next call.
///
/// Comes from Kafka's `DelayedOperationPurgatory`.
///
/// # Examples
///
/// ```
/// use ixion::{DelayedOperation, ManualClock, Outcome, Purgatory, Registration};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::time::Duration;
///
/// /// Waits until a partition's high watermark has reached an offset.
/// struct Replicated { high_watermark: Arc<AtomicU64>, required: u64 }
///
/// impl DelayedOperation for Replicated {
///     fn try_complete(&mut self) -> bool {
///         self.high_watermark.load(Ordering::Acquire) >= self.required
///     }
///     fn on_complete(self, outcome: Outcome) {
///         println!("offset {}: {outcome:?}", self.required);
///     }
/// }
///
/// let clock = ManualClock::new();
/// let purgatory: Purgatory<(&str, u32), Replicated> =
///     Purgatory::builder("Produce").clock(clock.clone()).build();
/// let high_watermark = Arc::new(AtomicU64::new(0));
///
/// let op = Replicated { high_watermark: high_watermark.clone(), required: 10 };
/// let registration = purgatory.try_complete_else_watch(op, Duration::from_secs(30), [("orders", 0)])?;
/// assert!(matches!(registration, Registration::Watched(_)));
///
/// high_watermark.store(10, Ordering::Release); // first the state,
/// assert_eq!(purgatory.check_and_complete(&("orders", 0)), 1); // then the signal
/// assert!(purgatory.is_empty());
/// # Ok::<(), ixion::RejectReason>(())
/// ```
///
/// Where the example of a method begins in the middle, this stands before it:
///
/// ```
/// use ixion::{Cancelled, DelayedOperation, ManualClock, Outcome, Purgatory, RejectReason, Tick, Watch};
/// use std::time::Duration;
///
/// struct Wait;
/// impl DelayedOperation for Wait {
///     fn try_complete(&mut self) -> bool { false }
///     fn on_complete(self, _outcome: Outcome) {}
/// }
///
/// let clock = ManualClock::new();
/// let purgatory: Purgatory<&str, Wait> = Purgatory::builder("waits").clock(clock.clone()).build();
/// const MINUTE: Duration = Duration::from_secs(60);
/// # drop(purgatory);
/// ```
#[doc(alias = "DelayedOperationPurgatory")]
pub struct Purgatory<K: Hash + Eq + 'static, O: DelayedOperation + 'static = BoxedOperation> {
    engine: Arc<Engine<K, O>>,
}

impl<K: Hash + Eq + 'static, O: DelayedOperation + 'static> Purgatory<K, O> {
    /// Begins to build a purgatory. The name shows in reports and in `Debug`.
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::Purgatory;
    ///
    /// let fetches: Purgatory<(String, u32)> = Purgatory::builder("Fetch").build();
    /// # drop(fetches);
    /// ```
    pub fn builder(name: impl Into<Arc<str>>) -> Builder<K, O> {
        Builder::new(name.into())
    }

    fn from_engine(engine: Engine<K, O>) -> Self {
        Purgatory { engine: Arc::new(engine) }
    }

    pub(crate) fn engine(&self) -> &Arc<Engine<K, O>> {
        &self.engine
    }

    /// Completes an operation if its condition is met, else lets it wait on its keys until `timeout` has passed.
    ///
    /// The first look runs at once, on the caller's thread, before `keys` is consumed; an operation that it satisfies
    /// is over when the call returns and has allocated nothing. Otherwise the operation is watched on all keys and
    /// armed, and looked at once more, so that no event is lost that came meanwhile.
    ///
    /// So hold no lock that a look or a callback takes. And expect an operation that waits to end, on another thread,
    /// before you have stored its id: whoever keeps ids where a callback removes them may store one that is
    /// [`Gone`](Cancelled::Gone). A key of the operation's own, and the calls that take a key, need no id.
    ///
    /// Every timeout is legal. [`Duration::MAX`] means never. With zero the operation is due at the next drive; until
    /// then events still win; one that a callback of a drive registers is left for the drive after that, so it ends
    /// once a drive, and whoever drives is called again at once. Where time itself ends, at a clock of
    /// [`Duration::MAX`], every other timeout is never. An operation without keys is a timer. A key that is given
    /// twice is watched once.
    ///
    /// # Errors
    ///
    /// Hands the operation back if the purgatory has been shut down, or if it would have to wait and the capacity is
    /// used up.
    ///
    /// # Panics
    ///
    /// Only with a panic of `keys`, of `K`'s `Hash` or of the clock; the operation is dropped then and was not accepted.
    ///
    /// # Complexity
    ///
    /// O(keys), with one hold of a lock for those of the first sixteen keys that live in the first one's shard, and one for each
    /// other key.
    ///
    /// An operation that waits on up to four keys is one allocation, and its end is none. With five keys it is three, and a
    /// fourth when it ends; with more keys its lists of them grow as vectors do. Tables grow with the number of operations
    /// and shrink after a burst.
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::{DelayedOperation, ManualClock, Outcome, Purgatory, Registration, RejectReason};
    /// use std::time::Duration;
    ///
    /// struct Door { is_open: bool }
    ///
    /// impl DelayedOperation for Door {
    ///     fn try_complete(&mut self) -> bool { self.is_open }
    ///     fn on_complete(self, _outcome: Outcome) {}
    /// }
    ///
    /// let doors = Purgatory::builder("doors").clock(ManualClock::new()).capacity(1).build();
    /// let register = |is_open| {
    ///     doors.try_complete_else_watch(Door { is_open }, Duration::from_secs(1), ["front"])
    /// };
    ///
    /// assert_eq!(register(true)?, Registration::Completed(Outcome::Satisfied));
    /// assert!(matches!(register(false)?, Registration::Watched(_)));
    ///
    /// // One more may not wait. What need not wait is served all the same.
    /// let rejected = register(false).expect_err("it is full");
    /// assert_eq!(rejected.reason, RejectReason::Full);
    /// assert!(!rejected.op.is_open, "and here it is again");
    /// assert!(register(true)?.is_completed());
    /// # Ok::<(), ixion::RejectReason>(())
    /// ```
    #[doc(alias = "tryCompleteElseWatch")]
    pub fn try_complete_else_watch(
        &self,
        op: O,
        timeout: Duration,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Registration, Rejected<O>> {
        self.engine.register(op, timeout, keys.into_iter().map(Watch::any))
    }

    /// Does what [`try_complete_else_watch`](Self::try_complete_else_watch) does, with keys that may be watched at a number.
    /// A key that is given twice is watched once, at the lowest number.
    ///
    /// A watch at a number is for an operation that knows how far an event must have come to concern it: a produce request
    /// that waits for offset 1234 need not be asked at 1233. With [`next_progress`](DelayedOperation::next_progress) it
    /// can move to another number after a look.
    ///
    /// # Errors
    ///
    /// As [`try_complete_else_watch`](Self::try_complete_else_watch).
    ///
    /// # Panics
    ///
    /// As [`try_complete_else_watch`](Self::try_complete_else_watch).
    ///
    /// # Complexity
    ///
    /// O(keys), and O(log n) for each key that is watched at a number, with n such watches in a shard.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = setup!()]
    /// // A request that waits for two partitions, each to have reached an offset of its own.
    /// let watches = [Watch::at("orders-0", 1234), Watch::at("orders-1", 87)];
    /// let _ = purgatory.try_complete_else_watch_at(Wait, MINUTE, watches)?;
    /// purgatory.check_and_complete_up_to("orders-1", 86); // looks at nothing
    /// purgatory.check_and_complete_up_to("orders-1", 87); // looks
    /// # Ok::<(), ixion::RejectReason>(())
    /// ```
    pub fn try_complete_else_watch_at(
        &self,
        op: O,
        timeout: Duration,
        watches: impl IntoIterator<Item = Watch<K>>,
    ) -> Result<Registration, Rejected<O>> {
        self.engine.register(op, timeout, watches)
    }

    /// Looks at all operations that wait on the key, in order of registration, those at a number last and by number, and
    /// completes those whose condition is met.
    ///
    /// Returns how many operations ended by a look of this call. Zero does not mean that nobody waits, nor that nobody
    /// will complete: an operation that another thread is inside is left a mark, and that thread looks again.
    ///
    /// # Complexity
    ///
    /// One look for each operation on the key. If nobody waits: one uncontended lock and no allocation.
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::{DelayedOperation, ManualClock, Outcome, Purgatory};
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// use std::sync::Arc;
    /// use std::time::Duration;
    ///
    /// struct Wait { there: Arc<AtomicU32>, wants: u32 }
    ///
    /// impl DelayedOperation for Wait {
    ///     fn try_complete(&mut self) -> bool { self.there.load(Ordering::Relaxed) >= self.wants }
    ///     fn on_complete(self, _outcome: Outcome) {}
    /// }
    ///
    /// let waits = Purgatory::builder("waits").clock(ManualClock::new()).build();
    /// let there = Arc::new(AtomicU32::new(0));
    /// for wants in [1, 2, 3] {
    ///     let wait = Wait { there: there.clone(), wants };
    ///     let _ = waits.try_complete_else_watch(wait, Duration::from_secs(1), ["records"])?;
    /// }
    /// there.store(2, Ordering::Relaxed); // first the state, in any ordering,
    /// assert_eq!(waits.check_and_complete("records"), 2); // then the signal
    /// assert_eq!(waits.len(), 1);
    /// # Ok::<(), ixion::RejectReason>(())
    /// ```
    #[doc(alias = "checkAndComplete")]
    #[doc(alias = "notify")]
    #[doc(alias = "signal")]
    #[doc(alias = "wake")]
    pub fn check_and_complete<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> usize {
        self.engine.check_and_complete(key, u64::MAX)
    }

    /// Looks at the operations that wait on the key at every event, in order of registration, and at those that wait at a
    /// number which `progress` has reached, by (number, registration); completes those whose condition is met.
    ///
    /// Returns what [`check_and_complete`](Self::check_and_complete) does, which looks at all of them.
    ///
    /// # Complexity
    ///
    /// O(log n) and one look for each operation that is reached, however many wait for more.
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::{DelayedOperation, ManualClock, Outcome, Purgatory, Watch};
    /// use std::cell::Cell;
    /// use std::rc::Rc;
    /// use std::time::Duration;
    ///
    /// struct Wait { progress: Rc<Cell<u64>>, needs: u64, looks: Rc<Cell<u32>> }
    ///
    /// impl DelayedOperation for Wait {
    ///     fn try_complete(&mut self) -> bool {
    ///         self.looks.set(self.looks.get() + 1);
    ///         self.progress.get() >= self.needs
    ///     }
    ///     fn on_complete(self, _outcome: Outcome) {}
    /// }
    ///
    /// let waits: Purgatory<&str, Wait> = Purgatory::builder("waits").clock(ManualClock::new()).build();
    /// let (progress, looks) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    /// for needs in 1..=100 {
    ///     let wait = Wait { progress: progress.clone(), needs, looks: looks.clone() };
    ///     let watch = [Watch::at("log", needs)];
    ///     let _ = waits.try_complete_else_watch_at(wait, Duration::from_secs(1), watch)?;
    /// }
    /// looks.set(0);
    /// progress.set(2);
    /// assert_eq!(waits.check_and_complete_up_to("log", 2), 2);
    /// assert_eq!(looks.get(), 2); // and not a hundred
    /// # Ok::<(), ixion::RejectReason>(())
    /// ```
    #[doc(alias = "ThresholdPurgatory")]
    #[doc(alias = "maybeComplete")]
    pub fn check_and_complete_up_to<Q: Hash + Equivalent<K> + ?Sized>(
        &self,
        key: &Q,
        progress: u64,
    ) -> usize {
        self.engine.check_and_complete(key, progress)
    }

    /// Looks at one operation, whatever it waits on, and completes it if its condition is met: for who has changed what
    /// concerns just this one. Called in a look, it is put off until that is over.
    ///
    /// Returns whether it ended by a look of this call. As for a key, false does not mean that it goes on waiting.
    ///
    /// # Complexity
    ///
    /// A look, with a lock to find it; O(keys) if that ends it.
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::{DelayedOperation, ManualClock, Outcome, Purgatory};
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// use std::time::Duration;
    ///
    /// struct Answered(Arc<AtomicBool>);
    ///
    /// impl DelayedOperation for Answered {
    ///     fn try_complete(&mut self) -> bool { self.0.load(Ordering::Acquire) }
    ///     fn on_complete(self, _outcome: Outcome) {}
    /// }
    ///
    /// let calls: Purgatory<u32, Answered> = Purgatory::builder("calls").clock(ManualClock::new()).build();
    /// let answered = Arc::new(AtomicBool::new(false));
    /// let call = calls.try_complete_else_watch(Answered(answered.clone()), Duration::from_secs(1), [])?;
    /// let id = call.id().expect("it waits");
    /// assert!(!calls.try_complete(id));
    /// answered.store(true, Ordering::Release);
    /// assert!(calls.try_complete(id));
    /// # Ok::<(), ixion::RejectReason>(())
    /// ```
    pub fn try_complete(&self, id: OperationId) -> bool {
        self.engine.try_complete(id)
    }
}

impl<K: Hash + Eq + 'static, O: DelayedOperation + 'static> Drop for Purgatory<K, O> {
    fn drop(&mut self) {
        self.engine.shutdown();
    }
}

impl<K: Hash + Eq + 'static, O: DelayedOperation + 'static> fmt::Debug for Purgatory<K, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Purgatory")
            .field("name", &self.engine.name)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
