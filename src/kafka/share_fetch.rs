//! A share group's fetch that waits until there are records which the group may acquire.
//!
//! The consumers of a share group read a partition side by side: each record is *acquired* by one of them, and a lock on the
//! group's view of the partition lets one fetch at a time do so. The rules:
//!
//! * **q1** One wait is watched on two keys for each partition ([`ShareKey`]): one of the group's, where records are
//!   acknowledged, released or timed out, and where the lock is given back; and one of the partition's, where the log grows
//!   and leadership is lost. Keys of different kinds, or of different groups, are never equal.
//! * **q2** A look first asks each partition for the bytes that could be acquired; one that is locked has none.
//! * **q3** A partition that is not to be answered for here any more ends the wait; of the others it takes what locks
//!   there are.
//! * **q4** With `min_bytes` or more in sum, and with one byte at least, the look takes the locks of those partitions.
//!   What it has locked it keeps until the answer, and any lock ends the wait, though others were faster at some. So no
//!   lock is ever taken and given back without an answer: a fetch that found it taken would wait for a signal that
//!   nobody gives.
//! * **q5** If all others were faster the wait goes on.
//! * **q6** A wait that ends by its time, or by force, takes what locks there are by then; no read is called for if there
//!   are none.
//! * **q7** A lock is released exactly once, by dropping it, however the wait ends.
//! * **q8** The answer reads, sends, drops the locks, and *then* signals the group's keys. Signals from a callback run after
//!   it, so fetches that complete one another cost no stack.

use crate::kafka::ErrorCode;
use crate::{DelayedOperation, Outcome};
use std::fmt;

/// What a share fetch waits on (q1).
///
/// # Examples
///
/// ```
/// use ixion::kafka::share_fetch::ShareKey;
///
/// let [group, partition] = ShareKey::both("readers", ("orders", 0));
/// assert_ne!(group, partition);
/// assert_ne!(group, ShareKey::Group("writers", ("orders", 0)));
/// assert_eq!(partition, ShareKey::Partition(("orders", 0)), "whatever the group");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ShareKey<G, P> {
    /// What a group has acquired and released of a partition.
    Group(G, P),
    /// The partition itself, for all groups.
    Partition(P),
}

impl<G, P: Clone> ShareKey<G, P> {
    /// Returns the keys of one partition of a fetch.
    pub fn both(group: G, partition: P) -> [ShareKey<G, P>; 2] {
        [ShareKey::Group(group, partition.clone()), ShareKey::Partition(partition)]
    }
}

/// What a share fetch asks of a partition, as the group sees it. Implemented by the broker; called from looks, so it must
/// neither wait nor signal keys.
pub trait SharePartition {
    /// Who holds this may acquire records. Dropping it gives the lock back.
    type Lock;

    /// The bytes of the records that could be acquired now, read under one lock; 0 if another fetch holds the partition's.
    ///
    /// # Errors
    ///
    /// The partition is unknown, offline, or not led here any more.
    fn acquirable(&self) -> Result<u64, ErrorCode>;

    /// Takes the lock if it is free and there are records to acquire.
    fn try_lock(&self) -> Option<Self::Lock>;
}

/// One partition of a share fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareStatus<P: SharePartition> {
    /// The partition as the broker knows it.
    pub partition: P,
    /// The partition's lock, once it is taken: then it is to be read.
    pub lock: Option<P::Lock>,
}

/// What a look has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// A partition has moved away: answer (q3).
    Answer(ErrorCode),
    /// There is enough: take the locks (q4).
    Lock,
    /// There is not.
    Wait {
        /// The bytes that could be acquired.
        bytes: u64,
    },
}

/// Decides about a share fetch from what each of its partitions has to be acquired (q2 to q4).
///
/// # Examples
///
/// ```
/// use ixion::kafka::ErrorCode;
/// use ixion::kafka::share_fetch::{Decision, decide};
///
/// assert_eq!(decide(100, [Ok(60), Ok(40)]), Decision::Lock);
/// assert_eq!(decide(100, [Ok(60), Ok(0)]), Decision::Wait { bytes: 60 });
/// let moved = Err(ErrorCode::NOT_LEADER_OR_FOLLOWER);
/// assert_eq!(decide(100, [Ok(100), moved]), Decision::Answer(ErrorCode::NOT_LEADER_OR_FOLLOWER));
/// ```
#[must_use]
pub fn decide(min_bytes: u64, acquirable: impl IntoIterator<Item = Result<u64, ErrorCode>>) -> Decision {
    let mut bytes = 0u64;
    for of_partition in acquirable {
        match of_partition {
            Ok(more) => bytes = bytes.saturating_add(more),
            Err(error) => return Decision::Answer(error),
        }
    }
    if bytes >= min_bytes.max(1) { Decision::Lock } else { Decision::Wait { bytes } }
}

/// A share group's fetch that waits for records to acquire.
///
/// Ends by calling `answer`, without a lock of the engine, with the outcome and the partitions.
///
/// # Examples
///
/// ```
/// use ixion::kafka::ErrorCode;
/// use ixion::kafka::share_fetch::{DelayedShareFetch, ShareKey, SharePartition, ShareStatus};
/// use ixion::{ManualClock, Purgatory};
/// use std::cell::Cell;
/// use std::rc::Rc;
/// use std::time::Duration;
///
/// struct Records { bytes: Cell<u64>, is_locked: Cell<bool> }
/// #[derive(Clone)]
/// struct View(Rc<Records>);
/// struct Lock(Rc<Records>);
/// impl Drop for Lock {
///     fn drop(&mut self) {
///         self.0.is_locked.set(false);
///     }
/// }
/// impl SharePartition for View {
///     type Lock = Lock;
///     fn acquirable(&self) -> Result<u64, ErrorCode> {
///         Ok(if self.0.is_locked.get() { 0 } else { self.0.bytes.get() })
///     }
///     fn try_lock(&self) -> Option<Lock> {
///         let is_free = self.0.bytes.get() > 0 && !self.0.is_locked.replace(true);
///         is_free.then(|| Lock(self.0.clone()))
///     }
/// }
///
/// let purgatory = Purgatory::builder("ShareFetch").clock(ManualClock::new()).build();
/// let view = View(Rc::new(Records { bytes: Cell::new(0), is_locked: Cell::new(false) }));
/// let fetch = DelayedShareFetch::new(1, [view.clone()], |_, partitions: Vec<ShareStatus<View>>| {
///     assert!(partitions[0].lock.is_some(), "it is to be read");
/// });
/// let keys = ShareKey::both("readers", ("orders", 0));
/// let _ = purgatory.try_complete_else_watch(fetch, Duration::from_millis(500), keys)?;
///
/// view.0.bytes.set(100); // another consumer has released what it had acquired
/// assert_eq!(purgatory.check_and_complete(&ShareKey::Group("readers", ("orders", 0))), 1);
/// assert!(!view.0.is_locked.get() && purgatory.watched() == 0);
/// # Ok::<(), ixion::RejectReason>(())
/// ```
pub struct DelayedShareFetch<P: SharePartition, A> {
    min_bytes: u64,
    partitions: Vec<ShareStatus<P>>,
    answer: A,
}

impl<P: SharePartition, A: FnOnce(Outcome, Vec<ShareStatus<P>>)> DelayedShareFetch<P, A> {
    /// Makes the operation; its timeout is the request's longest wait.
    #[must_use]
    pub fn new(min_bytes: u64, partitions: impl IntoIterator<Item = P>, answer: A) -> Self {
        let partitions = partitions.into_iter().map(|partition| ShareStatus { partition, lock: None });
        DelayedShareFetch { min_bytes, partitions: partitions.collect(), answer }
    }
}

impl<P: SharePartition, A> DelayedShareFetch<P, A> {
    /// Takes each lock that is free where there are records. Returns whether one was.
    fn lock(&mut self) -> bool {
        for status in self.partitions.iter_mut().filter(|status| status.lock.is_none()) {
            status.lock = status.partition.try_lock();
        }
        self.partitions.iter().any(|status| status.lock.is_some())
    }
}

impl<P: SharePartition, A: FnOnce(Outcome, Vec<ShareStatus<P>>)> DelayedOperation
    for DelayedShareFetch<P, A>
{
    fn try_complete(&mut self) -> bool {
        match decide(self.min_bytes, self.partitions.iter().map(|status| status.partition.acquirable())) {
            Decision::Answer(_) => {
                self.lock();
                true
            }
            Decision::Lock => self.lock(),
            Decision::Wait { .. } => false,
        }
    }

    fn on_complete(mut self, outcome: Outcome) {
        if matches!(outcome, Outcome::Expired | Outcome::Forced) {
            self.lock(); // q6
        }
        (self.answer)(outcome, self.partitions);
    }
}

impl<P: SharePartition, A> fmt::Debug for DelayedShareFetch<P, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let locked = self.partitions.iter().filter(|status| status.lock.is_some()).count();
        f.debug_struct("DelayedShareFetch")
            .field("min_bytes", &self.min_bytes)
            .field("partitions", &self.partitions.len())
            .field("locked", &locked)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "share_fetch_tests.rs"]
mod tests;
