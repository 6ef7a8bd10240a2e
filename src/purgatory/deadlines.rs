//! Moving deadlines, and driving the purgatory to expire what has reached its own.

use crate::operation::DelayedOperation;
use crate::purgatory::{Drive, Equivalent, OperationId, Purgatory};
use crate::tick::Tick;
use std::hash::Hash;
use std::time::Duration;

impl<K: Hash + Eq + 'static, O: DelayedOperation + 'static> Purgatory<K, O> {
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
    /// # Complexity
    ///
    /// O(1) for each, with one hold of a lock for it, and one for every 64 on the key.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = setup!()]
    /// // A lease that is renewed, or begins.
    /// let renew = |holder| match purgatory.reset_timeout_for_key(&holder, MINUTE) {
    ///     0 => purgatory.try_complete_else_watch(Wait, MINUTE, [holder]).map(|_| ()),
    ///     _ => Ok(()),
    /// };
    /// renew("a")?;
    /// clock.advance(MINUTE / 2);
    /// renew("a")?;
    /// clock.advance(MINUTE / 2);
    /// assert_eq!(purgatory.expire().expired, 0);
    /// clock.advance(MINUTE / 2);
    /// assert_eq!(purgatory.expire().expired, 1);
    /// # Ok::<(), ixion::RejectReason>(())
    /// ```
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
    /// # Complexity
    ///
    /// O(shards) if nothing is due, and O(keys) for each operation that is; some 1024 of them at most. No lock is held for more than 64
    /// expiries or 128 moves from level to level.
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::{DelayedOperation, ManualClock, Outcome, Purgatory};
    /// use std::time::Duration;
    ///
    /// struct Wait;
    ///
    /// impl DelayedOperation for Wait {
    ///     fn try_complete(&mut self) -> bool { false }
    ///     fn on_complete(self, _outcome: Outcome) {}
    /// }
    ///
    /// let clock = ManualClock::new();
    /// let waits: Purgatory<u32, Wait> = Purgatory::builder("waits").clock(clock.clone()).build();
    /// for ms in [10, 10, 20] {
    ///     let _ = waits.try_complete_else_watch(Wait, Duration::from_millis(ms), [])?;
    /// }
    /// clock.advance(Duration::from_millis(10));
    /// let drive = waits.expire();
    /// assert_eq!((drive.expired, drive.more), (2, false));
    /// assert_eq!(drive.next.map(|tick| tick.as_u64()), Some(20));
    /// // A whole drive, however much is due:
    /// while waits.expire().more {}
    /// # Ok::<(), ixion::RejectReason>(())
    /// ```
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
    /// # Complexity
    ///
    /// O(shards), one lock after the other.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = setup!()]
    /// assert_eq!(purgatory.next_expiration(), None);
    /// let _ = purgatory.try_complete_else_watch(Wait, Duration::from_millis(300), [])?;
    /// let _ = purgatory.try_complete_else_watch(Wait, Duration::from_micros(1500), [])?;
    /// assert_eq!(purgatory.next_expiration(), Some(Tick::new(2))); // rounded up: never early
    /// # Ok::<(), ixion::RejectReason>(())
    /// ```
    #[doc(alias = "next_deadline")]
    #[must_use]
    pub fn next_expiration(&self) -> Option<Tick> {
        self.engine.next_expiration()
    }

    /// Returns the time until [`next_expiration`](Self::next_expiration); zero if that has passed.
    ///
    /// # Complexity
    ///
    /// That of [`next_expiration`](Self::next_expiration).
    ///
    /// # Examples
    ///
    /// ```
    #[doc = setup!()]
    /// assert_eq!(purgatory.time_to_next(), None); // sleep until somebody calls the hook
    /// let _ = purgatory.try_complete_else_watch(Wait, Duration::from_millis(300), [])?;
    /// clock.advance(Duration::from_millis(100));
    /// assert_eq!(purgatory.time_to_next(), Some(Duration::from_millis(200)));
    /// clock.advance(MINUTE);
    /// assert_eq!(purgatory.time_to_next(), Some(Duration::ZERO)); // drive now
    /// # Ok::<(), ixion::RejectReason>(())
    /// ```
    #[doc(alias = "poll_timeout")]
    #[must_use]
    pub fn time_to_next(&self) -> Option<Duration> {
        self.engine.time_to_next()
    }
}
