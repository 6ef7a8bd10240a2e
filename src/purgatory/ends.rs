//! Ending operations from outside: by force, by taking them out, by shutting down.

use crate::operation::DelayedOperation;
use crate::purgatory::{Cancelled, Equivalent, HandedBack, OperationId, Purgatory};
use crate::sync::Ordering;
use std::hash::Hash;

impl<K: Hash + Eq + 'static, O: DelayedOperation + 'static> Purgatory<K, O> {
    /// Completes an operation with `Forced`. Returns whether this call decided that.
    ///
    /// # Complexity
    ///
    /// O(keys), with a lock to find it and one for each shard that it is in.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = setup!()]
    /// let registration = purgatory.try_complete_else_watch(Wait, MINUTE, ["orders"])?;
    /// let id = registration.id().expect("it waits");
    /// assert!(purgatory.force_complete(id)); // `on_complete` is called with `Outcome::Forced`
    /// assert!(!purgatory.force_complete(id)); // it has ended
    /// # Ok::<(), ixion::RejectReason>(())
    /// ```
    #[doc(alias = "forceComplete")]
    pub fn force_complete(&self, id: OperationId) -> bool {
        self.engine.force_complete(id)
    }

    /// Completes all operations that wait on the key with `Forced`. Returns how many this call decided.
    ///
    /// # Complexity
    ///
    /// O(keys) for each operation, and one hold of a lock for every 64.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = setup!()]
    /// // A partition moves to another server: all that wait for it are answered.
    /// let _ = purgatory.try_complete_else_watch(Wait, MINUTE, ["orders-0"])?;
    /// let _ = purgatory.try_complete_else_watch(Wait, MINUTE, ["orders-0", "orders-1"])?;
    /// assert_eq!(purgatory.force_complete_for_key("orders-0"), 2);
    /// assert!(!purgatory.contains_key("orders-1"));
    /// # Ok::<(), ixion::RejectReason>(())
    /// ```
    pub fn force_complete_for_key<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> usize {
        self.engine.force_complete_for_key(key)
    }

    /// Takes an operation out, without a callback if nobody is inside it.
    ///
    /// A drive that has begun to expire the operation has won: the answer is `Gone`, and it is completed once. A drive
    /// decides what is due in steps, each before the first of its callbacks: a callback that cancels others which are due
    /// at the same tick may be too late for some, and in time for those behind.
    ///
    /// # Complexity
    ///
    /// That of [`force_complete`](Self::force_complete).
    ///
    /// # Examples
    ///
    /// ```
    #[doc = setup!()]
    /// let registration = purgatory.try_complete_else_watch(Wait, MINUTE, ["orders"])?;
    /// let id = registration.id().expect("it waits");
    /// match purgatory.cancel(id) {
    ///     Cancelled::Taken(_op) => {} // it is yours again, and `on_complete` is not called
    ///     Cancelled::Busy => {} // a thread is inside: that one calls `on_complete`, with `Cancelled`
    ///     Cancelled::Gone => {} // too late
    /// }
    /// assert_eq!(purgatory.stats().cancelled, 1);
    /// assert!(!purgatory.cancel(id).is_cancelled());
    /// # Ok::<(), ixion::RejectReason>(())
    /// ```
    #[doc(alias = "remove")]
    pub fn cancel(&self, id: OperationId) -> Cancelled<O> {
        self.engine.cancel(id)
    }

    /// Takes out the operation that waits on the key and was registered first; those at a number come after the others.
    ///
    /// For whoever has something for the first in line, or the answer to a call whose number is the key: it is given to what
    /// was taken out, and needs no other place. Where a thread is inside the operation at that moment,
    /// [`Busy`](Cancelled::Busy), there is nothing to give it to. So if others signal its keys, put the answer where its look
    /// finds it, and signal as well.
    ///
    /// # Complexity
    ///
    /// That of [`cancel`](Self::cancel): O(1) to find the first.
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::{DelayedOperation, Outcome, Purgatory};
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    ///
    /// struct Call { reply: mpsc::Sender<Result<String, Outcome>> }
    ///
    /// impl DelayedOperation for Call {
    ///     fn try_complete(&mut self) -> bool { false }
    ///     fn on_complete(self, outcome: Outcome) { let _ = self.reply.send(Err(outcome)); }
    /// }
    ///
    /// let calls = Purgatory::builder("calls").build();
    /// let (reply, answer) = mpsc::channel();
    /// let _ = calls.try_complete_else_watch(Call { reply }, Duration::from_secs(5), [17])?;
    ///
    /// let call = calls.cancel_first(&17).taken().expect("its time is not up");
    /// call.reply.send(Ok("forty-two".to_owned()))?;
    /// assert_eq!(answer.recv()?, Ok("forty-two".to_owned()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "notify_one")]
    #[doc(alias = "pop")]
    #[doc(alias = "take")]
    pub fn cancel_first<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> Cancelled<O> {
        self.engine.cancel_first(key)
    }

    /// Takes out all operations that wait on the key; from their other keys too.
    ///
    /// # Complexity
    ///
    /// That of [`force_complete_for_key`](Self::force_complete_for_key).
    ///
    /// # Examples
    ///
    /// ```
    #[doc = setup!()]
    /// let _ = purgatory.try_complete_else_watch(Wait, MINUTE, ["connection 7", "orders"])?;
    /// let _ = purgatory.try_complete_else_watch(Wait, MINUTE, ["connection 7", "payments"])?;
    /// let _ = purgatory.try_complete_else_watch(Wait, MINUTE, ["connection 8", "orders"])?;
    /// let back = purgatory.cancel_for_key("connection 7");
    /// assert_eq!((back.taken.len(), back.busy), (2, 0));
    /// assert_eq!((purgatory.len(), purgatory.watched()), (1, 2));
    /// # Ok::<(), ixion::RejectReason>(())
    /// ```
    #[doc(alias = "cancelForKey")]
    pub fn cancel_for_key<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> HandedBack<O> {
        self.engine.cancel_for_key(key)
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
    /// # Complexity
    ///
    /// O(keys) for each operation that waits. No lock is held for longer than it takes to set the wheel of a shard aside.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = setup!()]
    /// let _ = purgatory.try_complete_else_watch(Wait, MINUTE, ["orders"])?;
    /// assert_eq!(purgatory.shutdown(), 1); // `on_complete` is called with `Outcome::Shutdown`
    /// assert_eq!(purgatory.shutdown(), 0);
    /// let late = purgatory.try_complete_else_watch(Wait, MINUTE, ["orders"]);
    /// assert_eq!(late.expect_err("too late").reason, RejectReason::Shutdown);
    /// # Ok::<(), ixion::RejectReason>(())
    /// ```
    #[doc(alias = "close")]
    pub fn shutdown(&self) -> usize {
        self.engine.shutdown()
    }

    /// Hands back everything that waits, and accepts nothing more.
    ///
    /// An operation that another thread is inside is completed by that thread with `Shutdown` and counted as
    /// [`busy`](HandedBack::busy).
    ///
    /// # Complexity
    ///
    /// That of [`shutdown`](Self::shutdown).
    ///
    /// # Examples
    ///
    /// ```
    #[doc = setup!()]
    /// for _ in 0..3 {
    ///     let _ = purgatory.try_complete_else_watch(Wait, MINUTE, ["orders"])?;
    /// }
    /// let back = purgatory.shutdown_and_hand_back();
    /// assert_eq!(back.taken.len(), 3); // to be written down, or sent elsewhere
    /// assert!(purgatory.is_empty() && purgatory.is_shutdown());
    /// # Ok::<(), ixion::RejectReason>(())
    /// ```
    #[doc(alias = "drain")]
    pub fn shutdown_and_hand_back(&self) -> HandedBack<O> {
        self.engine.shutdown_and_hand_back()
    }

    /// Whether the purgatory has been shut down.
    ///
    /// # Complexity
    ///
    /// O(1), no lock.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = setup!()]
    /// assert!(!purgatory.is_shutdown());
    /// purgatory.shutdown();
    /// assert!(purgatory.is_shutdown());
    /// ```
    #[must_use]
    pub fn is_shutdown(&self) -> bool {
        self.engine.closed.load(Ordering::Acquire)
    }
}
