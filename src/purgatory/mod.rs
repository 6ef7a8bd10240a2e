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

mod aside;
mod builder;
mod callbacks;
mod capacity;
mod drive;
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
use crate::tick::Tick;
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
    #[doc = include_str!("docs/try_complete_else_watch.md")]
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
    #[doc = include_str!("docs/try_complete_else_watch_at.md")]
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
    #[doc = include_str!("docs/check_and_complete.md")]
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
    #[doc = include_str!("docs/check_and_complete_up_to.md")]
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
    #[doc = include_str!("docs/try_complete.md")]
    pub fn try_complete(&self, id: OperationId) -> bool {
        self.engine.try_complete(id)
    }

    /// Completes an operation with `Forced`. Returns whether this call decided that.
    ///
    #[doc = include_str!("docs/force_complete.md")]
    #[doc(alias = "forceComplete")]
    pub fn force_complete(&self, id: OperationId) -> bool {
        self.engine.force_complete(id)
    }

    /// Completes all operations that wait on the key with `Forced`. Returns how many this call decided.
    ///
    #[doc = include_str!("docs/force_complete_for_key.md")]
    pub fn force_complete_for_key<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> usize {
        self.engine.force_complete_for_key(key)
    }

    /// Takes an operation out, without a callback if nobody is inside it.
    ///
    /// A drive that has begun to expire the operation has won: the answer is `Gone`, and it is completed once. A drive
    /// decides what is due in steps, each before the first of its callbacks: a callback that cancels others which are due
    /// at the same tick may be too late for some, and in time for those behind.
    ///
    #[doc = include_str!("docs/cancel.md")]
    #[doc(alias = "remove")]
    pub fn cancel(&self, id: OperationId) -> Cancelled<O> {
        self.engine.cancel(id)
    }

    /// Takes out the operation that waits on the key and was registered first; those at a number come after the others.
    ///
    #[doc = include_str!("docs/cancel_first.md")]
    #[doc(alias = "notify_one")]
    #[doc(alias = "pop")]
    #[doc(alias = "take")]
    pub fn cancel_first<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> Cancelled<O> {
        self.engine.cancel_first(key)
    }

    /// Takes out all operations that wait on the key; from their other keys too.
    ///
    #[doc = include_str!("docs/cancel_for_key.md")]
    #[doc(alias = "cancelForKey")]
    pub fn cancel_for_key<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> HandedBack<O> {
        self.engine.cancel_for_key(key)
    }

    /// Gives an operation a new timeout, counted from now: later or earlier than it had.
    ///
    /// Returns false if the operation has ended or a drive has begun to expire it, and changes nothing then; so in its
    /// own callback, where whoever wants to go on registers again. Where it returns true, the former deadline is void,
    /// even if it has passed.
    ///
    /// Runs no look and no callback: a lock that these take may be held.
    ///
    /// # Complexity
    ///
    /// O(1), with two locks, one after the other.
    ///
    /// # Examples
    ///
    /// A session that each heartbeat moves:
    ///
    /// ```
    /// use ixion::{DelayedOperation, ManualClock, Outcome, Purgatory};
    /// use std::time::Duration;
    ///
    /// const SESSION: Duration = Duration::from_secs(10);
    ///
    /// struct Session;
    ///
    /// impl DelayedOperation for Session {
    ///     fn try_complete(&mut self) -> bool { false }
    ///     fn on_complete(self, outcome: Outcome) { assert_eq!(outcome, Outcome::Expired); }
    /// }
    ///
    /// let clock = ManualClock::new();
    /// let sessions = Purgatory::builder("Heartbeat").clock(clock.clone()).build();
    /// let id = sessions.try_complete_else_watch(Session, SESSION, ["member-1"])?.id().expect("it waits");
    /// for _heartbeat in 0..3 {
    ///     clock.advance(Duration::from_secs(9));
    ///     assert!(sessions.expire().expired == 0 && sessions.reset_timeout(id, SESSION));
    /// }
    /// clock.advance(SESSION);
    /// assert_eq!(sessions.expire().expired, 1);
    /// assert!(!sessions.reset_timeout(id, SESSION)); // too late: it has to join again
    /// # Ok::<(), ixion::RejectReason>(())
    /// ```
    #[doc(alias = "extend")]
    #[doc(alias = "renew")]
    #[doc(alias = "reschedule")]
    pub fn reset_timeout(&self, id: OperationId, timeout: Duration) -> bool {
        self.engine.reset_timeout(id, timeout)
    }

    /// Gives all operations that wait on the key a new timeout. Returns how many took it.
    ///
    /// To keep one timer for a key and arm it again and again, reset the key, and register if the answer is 0; a second
    /// registration is a second timer.
    ///
    #[doc = include_str!("docs/reset_timeout_for_key.md")]
    pub fn reset_timeout_for_key<Q: Hash + Equivalent<K> + ?Sized>(
        &self,
        key: &Q,
        timeout: Duration,
    ) -> usize {
        self.engine.reset_timeout_for_key(key, timeout)
    }

    /// Drives the purgatory once: expires what is due, up to a bounded number, and says when to come again.
    ///
    /// A *drive* is calls of this until [`more`](Drive::more) is false. It expires what was due when it began, by tick,
    /// and within a tick and a shard by registration or last reset; what is registered or reset meanwhile is left for
    /// the next drive. Expiry does not look again.
    ///
    /// Operations are decided in small steps, all of a step before its first callback. A callback that cancels or
    /// resets others that are due has its way with those that are not decided yet; for those that are, and whose
    /// callbacks will run, it is told `Gone` or `false`.
    ///
    /// For tests and event loops; with an [`Expirer`](crate::Expirer) nobody needs to call it. Of a long chain of callbacks
    /// a pass leaves the rest to the next call: then `more` is false and `next` has passed.
    ///
    #[doc = include_str!("docs/expire.md")]
    #[doc(alias = "advanceClock")]
    #[doc(alias = "poll")]
    pub fn expire(&self) -> Drive {
        self.engine.expire()
    }

    /// Returns the tick at which to drive next: when the next operation is due, `None` if none ever is. A tick that has
    /// passed means that there is work now.
    ///
    /// Never too late, and exact as a rule. Where the earliest of more than sixteen thousand operations with deadlines near
    /// each other was stopped, it may be too early, a few times at most: a drive then finds nothing due.
    ///
    #[doc = include_str!("docs/next_expiration.md")]
    #[doc(alias = "next_deadline")]
    #[must_use]
    pub fn next_expiration(&self) -> Option<Tick> {
        self.engine.next_expiration()
    }

    /// Returns the time until [`next_expiration`](Self::next_expiration); zero if that has passed.
    ///
    #[doc = include_str!("docs/time_to_next.md")]
    #[doc(alias = "poll_timeout")]
    #[must_use]
    pub fn time_to_next(&self) -> Option<Duration> {
        self.engine.time_to_next()
    }

    /// Completes everything that waits with `Shutdown`, and accepts nothing more.
    ///
    /// Returns how many operations this call decided. Waits for no thread: an operation that another thread is inside
    /// is completed by that thread. Only the first shutdown finds anything to do.
    ///
    /// So callbacks may still run on other threads after this, of operations that they were inside or that a drive had
    /// decided before; what those register is refused. To wait for them, drop the [`Expirer`](crate::Expirer), which
    /// joins its thread.
    ///
    #[doc = include_str!("docs/shutdown.md")]
    #[doc(alias = "close")]
    pub fn shutdown(&self) -> usize {
        self.engine.shutdown()
    }

    /// Hands back everything that waits, and accepts nothing more.
    ///
    /// An operation that another thread is inside is completed by that thread with `Shutdown` and counted as
    /// [`busy`](HandedBack::busy).
    ///
    #[doc = include_str!("docs/shutdown_and_hand_back.md")]
    #[doc(alias = "drain")]
    pub fn shutdown_and_hand_back(&self) -> HandedBack<O> {
        self.engine.shutdown_and_hand_back()
    }

    /// Whether the purgatory has been shut down.
    ///
    #[doc = include_str!("docs/is_shutdown.md")]
    #[must_use]
    pub fn is_shutdown(&self) -> bool {
        self.engine.closed.load(crate::sync::Ordering::Acquire)
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
