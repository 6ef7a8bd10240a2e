//! A DeleteRecords request that waits until all live replicas have deleted.
//!
//! The leader moves its log's start at once; followers learn of it with their next fetch and say so with the one after
//! that. A partition's *low watermark* is the least log start of its leader and its live replicas: what is below it is gone
//! for good, whoever leads next. The rules, besides those of every [request](crate::kafka::request):
//!
//! * **d1** A partition whose records were deleted here, and whose low watermark has reached the requested offset by then,
//!   is done from the beginning. Waiting is called for if for at least one it has not ([`must_wait`]).
//! * **d2** The low watermark counts the leader and the replicas that are alive; one that is down holds nothing up
//!   ([`low_watermark`]).
//! * **d3** A partition that is not hosted here any more, or is offline, gets that error; **d3a** one that another server
//!   leads by now gets `NOT_LEADER_OR_FOLLOWER`. Either has no low watermark.
//! * **d4** A partition whose low watermark has reached the requested offset is done, and answered with that low
//!   watermark. Below it, the partition stays pending.
//! * **d5** On expiry a pending partition has the low watermark that it had in the beginning.
//! * **d6** Events are a low watermark that has risen, which is told by number, and the loss of leadership, which concerns
//!   all. Kafka looks for the second but gives no signal of it: its requests wait for their whole timeout.

use crate::kafka::ErrorCode;
use crate::kafka::request::{DelayedRequest, Part};

/// The low watermark of a partition of which none is known (d3).
pub const NO_LOW_WATERMARK: i64 = -1;

/// What a DeleteRecords request asks of a partition: how it stands now.
///
/// Implemented by the broker; called from looks, so it must not signal keys.
pub trait DeletePartition {
    /// How the partition stands on this server at this moment, read under one lock.
    fn delete_standing(&self) -> Standing;
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
        /// What [`low_watermark`] says.
        low_watermark: i64,
    },
}

/// One partition of a waiting request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionStatus<P> {
    /// The partition as the broker knows it.
    pub partition: P,
    /// The offset below which everything is to be deleted.
    pub requested_offset: i64,
    /// The low watermark that would be answered if the request ended now.
    pub low_watermark: i64,
    /// The error that would be answered.
    pub error: ErrorCode,
    /// Whether the partition is still waited for.
    pub pending: bool,
}

impl<P> PartitionStatus<P> {
    /// Returns the status of a partition whose records were deleted here, with its low watermark then.
    #[must_use]
    pub fn deleted(partition: P, requested_offset: i64, low_watermark: i64) -> Self {
        let pending = low_watermark < requested_offset; // d1
        let error = if pending { ErrorCode::REQUEST_TIMED_OUT } else { ErrorCode::NONE };
        PartitionStatus { partition, requested_offset, low_watermark, error, pending }
    }

    /// Returns the status of a partition whose records could not be deleted.
    #[must_use]
    pub fn failed(partition: P, error: ErrorCode) -> Self {
        let low_watermark = NO_LOW_WATERMARK;
        PartitionStatus { partition, requested_offset: 0, low_watermark, error, pending: false }
    }
}

/// Whether a request must wait (d1).
///
/// # Examples
///
/// ```
/// use ixion::kafka::ErrorCode;
/// use ixion::kafka::delete_records::{PartitionStatus, must_wait};
///
/// assert!(must_wait(&[PartitionStatus::deleted("orders-0", 100, 80)]));
/// assert!(!must_wait(&[PartitionStatus::failed("orders-0", ErrorCode::OFFSET_OUT_OF_RANGE)]));
/// ```
#[must_use]
pub fn must_wait<P>(statuses: &[PartitionStatus<P>]) -> bool {
    statuses.iter().any(|status| status.pending)
}

/// Returns the low watermark of a partition: the least of the log starts of its leader and of its live replicas (d2).
///
/// # Examples
///
/// ```
/// use ixion::kafka::delete_records::low_watermark;
///
/// assert_eq!(low_watermark(100, [80, 100]), 80); // a follower has not deleted them yet
/// assert_eq!(low_watermark(100, []), 100);
/// ```
#[must_use]
pub fn low_watermark(leader: i64, live_replicas: impl IntoIterator<Item = i64>) -> i64 {
    live_replicas.into_iter().fold(leader, i64::min)
}

/// Decides about one pending partition: its error and low watermark, or `None` if it has to wait on (d3, d4).
///
/// # Examples
///
/// ```
/// use ixion::kafka::ErrorCode;
/// use ixion::kafka::delete_records::{Standing, decide};
///
/// assert_eq!(decide(Standing::Leader { low_watermark: 80 }, 100), None);
/// assert_eq!(decide(Standing::Leader { low_watermark: 100 }, 100), Some((ErrorCode::NONE, 100)));
/// ```
#[must_use]
pub fn decide(standing: Standing, requested_offset: i64) -> Option<(ErrorCode, i64)> {
    match standing {
        Standing::Absent(error) => Some((error, NO_LOW_WATERMARK)),
        Standing::Follower => Some((ErrorCode::NOT_LEADER_OR_FOLLOWER, NO_LOW_WATERMARK)),
        Standing::Leader { low_watermark } => {
            (low_watermark >= requested_offset).then_some((ErrorCode::NONE, low_watermark))
        }
    }
}

/// A DeleteRecords request that waits for the replicas of its partitions.
///
/// # Examples
///
/// ```
/// use ixion::kafka::delete_records::{DelayedDeleteRecords, DeletePartition, PartitionStatus, Standing};
/// use ixion::{ManualClock, Outcome, Purgatory};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicI64, Ordering};
/// use std::time::Duration;
///
/// struct Partition(Arc<AtomicI64>);
/// impl DeletePartition for Partition {
///     fn delete_standing(&self) -> Standing {
///         Standing::Leader { low_watermark: self.0.load(Ordering::Acquire) }
///     }
/// }
///
/// let purgatory = Purgatory::builder("DeleteRecords").clock(ManualClock::new()).build();
/// let low_watermark = Arc::new(AtomicI64::new(0)); // a follower still has everything
/// let statuses = vec![PartitionStatus::deleted(Partition(low_watermark.clone()), 100, 0)];
/// let delete = DelayedDeleteRecords::new(statuses, |outcome, statuses: Vec<PartitionStatus<Partition>>| {
///     assert_eq!((outcome, statuses[0].low_watermark), (Outcome::Satisfied, 100));
/// });
/// let watches = delete.watches(|_| Some("orders-0"));
/// let _ = purgatory.try_complete_else_watch_at(delete, Duration::from_secs(30), watches)?;
///
/// low_watermark.store(100, Ordering::Release); // the follower has said where its log starts,
/// assert_eq!(purgatory.check_and_complete_up_to("orders-0", 100), 1); // and then the key is signalled
/// # Ok::<(), ixion::RejectReason>(())
/// ```
pub type DelayedDeleteRecords<P, A> = DelayedRequest<PartitionStatus<P>, A>;

impl<P: DeletePartition> Part for PartitionStatus<P> {
    type Subject = P;

    fn subject(&self) -> &P {
        &self.partition
    }

    fn is_pending(&self) -> bool {
        self.pending
    }

    fn look(&mut self) {
        if let Some((error, low_watermark)) = decide(self.partition.delete_standing(), self.requested_offset)
        {
            (self.error, self.low_watermark) = (error, low_watermark);
            self.pending = false;
        }
    }

    fn required_progress(&self) -> Option<u64> {
        Some(u64::try_from(self.requested_offset).unwrap_or(0))
    }
}

#[cfg(test)]
#[path = "delete_records_tests.rs"]
mod tests;
