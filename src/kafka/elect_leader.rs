//! An ElectLeaders request that waits until everybody can see the leaders that were elected.
//!
//! The election itself is over when the request begins to wait; what is waited for is that this server's metadata shows its
//! result, so that a client that is told of it also finds it. The rules, besides those of every
//! [request](crate::kafka::request):
//!
//! * **e1** Waiting is called for if at least one partition has been given a leader; the deadline is the request's, of
//!   which the election has used up a part ([`time_left`]).
//! * **e2** A partition is done when the metadata shows the leader that was elected. Another leader, or none, does not
//!   count: the metadata may be from before the election.
//! * **e3** A partition whose election failed, or that has the right leader already, is decided from the beginning.
//! * **e4** When the time is up, the partitions that are pending are asked once more; those that still wait are answered
//!   with `REQUEST_TIMED_OUT`.
//! * **e5** Events are updates of the metadata, on the partition's key. Ask nobody first whether somebody waits: who
//!   registers at that moment would be missed.

use crate::Outcome;
use crate::kafka::ErrorCode;
use crate::kafka::request::{DelayedRequest, Part};
use std::time::Duration;

/// What an ElectLeaders request asks of a partition. Implemented by the broker; called from looks, so it must not signal
/// keys.
pub trait ElectedPartition {
    /// The partition's leader, as far as this server's metadata shows one.
    fn leader(&self) -> Option<i32>;
}

/// One partition of a waiting request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionStatus<P> {
    /// The partition as the broker knows it.
    pub partition: P,
    /// The leader that was elected; -1 if there was no election.
    pub elected: i32,
    /// What would be answered if the request ended now.
    pub error: ErrorCode,
    /// Whether the partition is still waited for.
    pub pending: bool,
}

impl<P> PartitionStatus<P> {
    /// Returns the status of a partition for which this leader was elected.
    #[must_use]
    pub fn elected(partition: P, leader: i32) -> Self {
        let error = ErrorCode::REQUEST_TIMED_OUT;
        PartitionStatus { partition, elected: leader, error, pending: true }
    }

    /// Returns the status of a partition for which there was no election (e3).
    #[must_use]
    pub fn decided(partition: P, error: ErrorCode) -> Self {
        PartitionStatus { partition, elected: -1, error, pending: false }
    }
}

/// Returns what is left of a request's time: its deadline less the present, both on any one clock; zero if that has
/// passed (e1).
///
/// # Examples
///
/// ```
/// use ixion::kafka::elect_leader::time_left;
/// use std::time::Duration;
///
/// let (begun, timeout) = (Duration::from_secs(10), Duration::from_secs(30));
/// assert_eq!(time_left(begun + timeout, Duration::from_secs(15)), Duration::from_secs(25));
/// assert_eq!(time_left(begun + timeout, Duration::from_secs(45)), Duration::ZERO);
/// ```
#[must_use]
pub fn time_left(deadline: Duration, now: Duration) -> Duration {
    deadline.saturating_sub(now)
}

/// Decides about one pending partition: whether the leader that is shown is the one that was elected (e2).
///
/// # Examples
///
/// ```
/// use ixion::kafka::elect_leader::decide;
///
/// assert!(!decide(None, 2) && !decide(Some(1), 2) && decide(Some(2), 2));
/// ```
#[must_use]
pub fn decide(shown: Option<i32>, elected: i32) -> bool {
    shown == Some(elected)
}

/// An ElectLeaders request that waits for the metadata.
///
/// # Examples
///
/// ```
/// use ixion::kafka::ErrorCode;
/// use ixion::kafka::elect_leader::{DelayedElectLeader, ElectedPartition, PartitionStatus};
/// use ixion::{DelayedOperation, Outcome};
/// use std::cell::Cell;
/// use std::rc::Rc;
///
/// struct Shown(Rc<Cell<Option<i32>>>);
/// impl ElectedPartition for Shown {
///     fn leader(&self) -> Option<i32> {
///         self.0.get()
///     }
/// }
///
/// let shown = Rc::new(Cell::new(Some(1)));
/// let statuses = vec![PartitionStatus::elected(Shown(shown.clone()), 2)];
/// let mut elect = DelayedElectLeader::new(statuses, |_, statuses: Vec<PartitionStatus<Shown>>| {
///     assert_eq!(statuses[0].error, ErrorCode::NONE);
/// });
/// assert!(!elect.try_complete(), "the metadata is older than the election");
/// shown.set(Some(2));
/// assert!(elect.try_complete());
/// elect.on_complete(Outcome::Satisfied);
/// ```
pub type DelayedElectLeader<P, A> = DelayedRequest<PartitionStatus<P>, A>;

impl<P: ElectedPartition> Part for PartitionStatus<P> {
    type Subject = P;

    fn subject(&self) -> &P {
        &self.partition
    }

    fn is_pending(&self) -> bool {
        self.pending
    }

    fn look(&mut self) {
        if decide(self.partition.leader(), self.elected) {
            self.error = ErrorCode::NONE;
            self.pending = false;
        }
    }

    fn end(&mut self, outcome: Outcome) {
        if outcome == Outcome::Expired {
            self.look(); // e4
        }
    }
}

#[cfg(test)]
#[path = "elect_leader_tests.rs"]
mod tests;
