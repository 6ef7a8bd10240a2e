//! A produce request that waits until its records are replicated.
//!
//! The rules, in the words of this module:
//!
//! * **p1** Waiting is called for only with `acks=-1`, with at least one partition, and if at least one partition was
//!   appended to. Otherwise the request is answered at once ([`must_wait`]).
//! * **p2** A partition's required offset is one past the last offset that was appended.
//! * **p3** A partition that was appended to begins as pending, with the provisional error `REQUEST_TIMED_OUT`; one
//!   that failed keeps its error and is not pending.
//! * **p4** Before the append, a partition with fewer replicas in sync than the effective minimum is refused with
//!   `NOT_ENOUGH_REPLICAS` ([`effective_min_in_sync`]).
//! * **p5** A partition that is not hosted here any more, or is offline, gets that error.
//! * **p6** A partition that another server leads by now gets `NOT_LEADER_OR_FOLLOWER`.
//! * **p7** A partition whose high watermark has reached the required offset is done: **p7a** with success if enough
//!   replicas are in sync, **p7b** else with `NOT_ENOUGH_REPLICAS_AFTER_APPEND`. Below it, the partition stays pending.
//! * **p8** A decision sticks; later looks skip the partition.
//! * **p9** The request is complete when no partition is pending.
//! * **p10** The answer holds every partition's status. On expiry it mixes successes, errors and, for those still
//!   pending, `REQUEST_TIMED_OUT`. Their records stay in the log.
//! * **p11** A broker whose high watermark stands still while too few replicas are in sync makes such requests time
//!   out; p7b remains for a watermark that had passed before the replicas fell out.
//! * **p12** A smaller in-sync set is no event of its own; the watermark that it may raise is.
//! * **p13** A timeout of zero is legal: the request is watched and expires at the next turn of the timer.

use crate::kafka::ErrorCode;
use crate::kafka::request::{DelayedRequest, Part};

/// What a produce request asks of a partition: how it stands now.
///
/// Implemented by the broker; called from looks, so it must not signal keys.
pub trait ProducePartition {
    /// How the partition stands on this server at this moment, read under one lock.
    fn standing(&self) -> Standing;
}

/// How a partition stands on this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// Not hosted, offline or not assigned; the error says which.
    Absent(ErrorCode),
    /// Hosted, but another server leads it.
    Follower,
    /// Led by this server.
    Leader {
        /// What is replicated: all offsets below this.
        high_watermark: i64,
        /// The replicas in sync, those that are about to be in the set included.
        in_sync: usize,
        /// What [`effective_min_in_sync`] says.
        min_in_sync: usize,
    },
}

/// One partition of a waiting request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionStatus<P> {
    /// The partition as the broker knows it.
    pub partition: P,
    /// One past the last offset that was appended; 0 if the append failed.
    pub required_offset: i64,
    /// What would be answered if the request ended now.
    pub error: ErrorCode,
    /// Whether the partition is still waited for.
    pub pending: bool,
}

impl<P> PartitionStatus<P> {
    /// Returns the status of a partition that was appended to, up to and including `last_offset`.
    #[must_use]
    pub fn appended(partition: P, last_offset: i64) -> Self {
        // p2, p3
        let required_offset = last_offset.saturating_add(1);
        PartitionStatus { partition, required_offset, error: ErrorCode::REQUEST_TIMED_OUT, pending: true }
    }

    /// Returns the status of a partition that could not be appended to.
    #[must_use]
    pub fn failed(partition: P, error: ErrorCode) -> Self {
        // p3
        PartitionStatus { partition, required_offset: 0, error, pending: false }
    }
}

/// Whether a request must wait (p1).
///
/// # Examples
///
/// ```
/// use ixion::kafka::produce::{PartitionStatus, must_wait};
/// use ixion::kafka::ErrorCode;
///
/// let appended = [PartitionStatus::appended("orders-0", 41)];
/// assert!(must_wait(-1, &appended) && !must_wait(1, &appended));
/// let failed = [PartitionStatus::failed("orders-0", ErrorCode::NOT_LEADER_OR_FOLLOWER)];
/// assert!(!must_wait(-1, &failed)); // there is nothing to wait for
/// ```
#[must_use]
pub fn must_wait<P>(required_acks: i16, statuses: &[PartitionStatus<P>]) -> bool {
    required_acks == -1 && statuses.iter().any(|status| status.pending)
}

/// Returns how many replicas must be in sync: what is configured, but never more than there are (p4).
///
/// # Examples
///
/// ```
/// use ixion::kafka::produce::effective_min_in_sync;
///
/// assert_eq!(effective_min_in_sync(2, 3), 2);
/// assert_eq!(effective_min_in_sync(2, 1), 1); // or nothing could be written at all
/// ```
#[must_use]
pub fn effective_min_in_sync(configured: usize, replicas: usize) -> usize {
    configured.min(replicas)
}

/// Decides about one pending partition; `None` if it has to wait on (p5 to p7).
///
/// # Examples
///
/// ```
/// use ixion::kafka::ErrorCode;
/// use ixion::kafka::produce::{Standing, decide};
///
/// let led = |high_watermark, in_sync| Standing::Leader { high_watermark, in_sync, min_in_sync: 2 };
/// assert_eq!(decide(led(41, 3), 42), None);
/// assert_eq!(decide(led(42, 3), 42), Some(ErrorCode::NONE));
/// assert_eq!(decide(led(42, 1), 42), Some(ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND));
/// assert_eq!(decide(Standing::Follower, 42), Some(ErrorCode::NOT_LEADER_OR_FOLLOWER));
/// ```
#[must_use]
pub fn decide(standing: Standing, required_offset: i64) -> Option<ErrorCode> {
    match standing {
        Standing::Absent(error) => Some(error),
        Standing::Follower => Some(ErrorCode::NOT_LEADER_OR_FOLLOWER),
        Standing::Leader { high_watermark, .. } if high_watermark < required_offset => None,
        Standing::Leader { in_sync, min_in_sync, .. } if in_sync >= min_in_sync => Some(ErrorCode::NONE),
        Standing::Leader { .. } => Some(ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND),
    }
}

/// A produce request with `acks=-1` that waits for its partitions.
///
/// Ends by calling `answer` with the outcome and every partition's status. Statuses that are still `pending` then
/// carry `REQUEST_TIMED_OUT`: a broker counts them as expired.
///
/// # Examples
///
/// ```
/// use ixion::kafka::ErrorCode;
/// use ixion::kafka::produce::{DelayedProduce, PartitionStatus, ProducePartition, Standing};
/// use ixion::{DelayedOperation, Outcome};
/// use std::cell::Cell;
/// use std::rc::Rc;
///
/// struct Replicated(Rc<Cell<i64>>);
/// impl ProducePartition for Replicated {
///     fn standing(&self) -> Standing {
///         Standing::Leader { high_watermark: self.0.get(), in_sync: 3, min_in_sync: 2 }
///     }
/// }
///
/// let high_watermark = Rc::new(Cell::new(5));
/// let statuses = vec![PartitionStatus::appended(Replicated(high_watermark.clone()), 9)];
/// let mut produce = DelayedProduce::new(statuses, |outcome, statuses| {
///     assert_eq!((outcome, statuses[0].error), (Outcome::Satisfied, ErrorCode::NONE));
/// });
/// assert!(!produce.try_complete(), "records 5 to 9 are not replicated yet");
/// high_watermark.set(10);
/// assert!(produce.try_complete());
/// produce.on_complete(Outcome::Satisfied);
/// ```
pub type DelayedProduce<P, A> = DelayedRequest<PartitionStatus<P>, A>;

impl<P: ProducePartition> Part for PartitionStatus<P> {
    type Subject = P;

    fn subject(&self) -> &P {
        &self.partition
    }

    fn is_pending(&self) -> bool {
        self.pending
    }

    fn look(&mut self) {
        if let Some(error) = decide(self.partition.standing(), self.required_offset) {
            self.error = error;
            self.pending = false;
        }
    }

    fn required_progress(&self) -> Option<u64> {
        Some(u64::try_from(self.required_offset).unwrap_or(0))
    }
}

#[cfg(test)]
#[path = "produce_tests.rs"]
mod tests;
