//! An answer that waits until several jobs are done, such as changes of access rights, or look-ups in remote storage.
//!
//! The rules, besides those of every [request](crate::kafka::request), whose parts are jobs here:
//!
//! * **u1** A job that is done gives its result once; a failure is a result too. A job that is done already when the wait
//!   begins is never waited for.
//! * **u2** The wait is over when the last result is there. A job that fails ends nothing, the others go on.
//! * **u3** When the time is up, or the wait ends otherwise, the jobs that are not done are *cancelled before the answer*,
//!   and have `REQUEST_TIMED_OUT` for a result.
//! * **u4** To cancel is to ask: a flag that the job looks at. It never interrupts a thread. Kafka interrupted the one that
//!   read, after the answer, and so closed the file under everybody else's reads.
//! * **u5** A job on behalf of a partition ([`PartitionJob`]) is void when the partition is not to be answered for here any
//!   more: it is cancelled, and its result is that error, whether it was done or not.
//! * **u6** Whoever finishes a job delivers its result first and then signals its key; whoever moves a partition away
//!   signals the partition's. One wait is watched on both.

use crate::Outcome;
use crate::kafka::ErrorCode;
use crate::kafka::request::{DelayedRequest, Part};

/// Something that is being done elsewhere. Called from looks, so it must neither wait nor signal keys.
pub trait Job {
    /// What comes out of it.
    type Output;

    /// Takes the result, if it is there. Not called again after that.
    ///
    /// # Errors
    ///
    /// What comes out is an error if the job has failed.
    fn poll(&mut self) -> Option<Result<Self::Output, ErrorCode>>;

    /// Nobody wants the result any more: asks whoever works on it to stop. Must not wait for that.
    fn cancel(&mut self) {}
}

/// One job of a waiting request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobStatus<J: Job> {
    /// The job.
    pub job: J,
    /// What would be answered if the request ended now.
    pub result: Result<J::Output, ErrorCode>,
    /// Whether the job is still waited for.
    pub pending: bool,
}

impl<J: Job> JobStatus<J> {
    /// Returns the status of a job that has begun.
    #[must_use]
    pub fn begun(job: J) -> Self {
        JobStatus { job, result: Err(ErrorCode::REQUEST_TIMED_OUT), pending: true }
    }

    /// Returns the status of a job that could not begin, or need not.
    #[must_use]
    pub fn decided(job: J, result: Result<J::Output, ErrorCode>) -> Self {
        JobStatus { job, result, pending: false }
    }
}

/// An answer that waits for the results of several jobs.
///
/// # Examples
///
/// ```
/// use ixion::kafka::future::{DelayedFuture, Job, JobStatus};
/// use ixion::kafka::ErrorCode;
/// use ixion::{ManualClock, Outcome, Purgatory};
/// use std::sync::mpsc::{Receiver, channel};
/// use std::time::Duration;
///
/// struct Change(Receiver<Result<u32, ErrorCode>>);
/// impl Job for Change {
///     type Output = u32;
///     fn poll(&mut self) -> Option<Result<u32, ErrorCode>> {
///         self.0.try_recv().ok()
///     }
/// }
///
/// let purgatory = Purgatory::builder("AlterAcls").clock(ManualClock::new()).build();
/// let (first, second) = (channel(), channel());
/// let jobs = [first.1, second.1].map(|receiver| JobStatus::begun(Change(receiver)));
/// let wait = DelayedFuture::new(jobs.into(), |outcome, jobs: Vec<JobStatus<Change>>| {
///     assert_eq!(outcome, Outcome::Satisfied);
///     assert_eq!(jobs.iter().map(|job| job.result.unwrap()).sum::<u32>(), 41);
/// });
/// let _ = purgatory.try_complete_else_watch(wait, Duration::from_secs(2), ["request 7"])?;
/// first.0.send(Ok(20)).unwrap();
/// assert_eq!(purgatory.check_and_complete("request 7"), 0);
/// second.0.send(Ok(21)).unwrap();
/// assert_eq!(purgatory.check_and_complete("request 7"), 1);
/// # Ok::<(), ixion::RejectReason>(())
/// ```
pub type DelayedFuture<J, A> = DelayedRequest<JobStatus<J>, A>;

impl<J: Job> Part for JobStatus<J> {
    type Subject = J;

    fn subject(&self) -> &J {
        &self.job
    }

    fn is_pending(&self) -> bool {
        self.pending
    }

    fn look(&mut self) {
        if let Some(result) = self.job.poll() {
            self.result = result;
            self.pending = false;
        }
    }

    fn end(&mut self, _outcome: Outcome) {
        self.job.cancel(); // u3
    }
}

/// A partition on whose behalf a job is done. Implemented by the broker; called from looks, so it must not signal keys.
pub trait JobPartition {
    /// Why the job is void: the partition is unknown here, offline, or not led here any more. `None` if it is not.
    fn error(&self) -> Option<ErrorCode>;
}

/// A job on behalf of a partition (u5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionJob<P, J> {
    /// The partition as the broker knows it.
    pub partition: P,
    /// The job.
    pub job: J,
}

impl<P: JobPartition, J: Job> Job for PartitionJob<P, J> {
    type Output = J::Output;

    fn poll(&mut self) -> Option<Result<J::Output, ErrorCode>> {
        match self.partition.error() {
            Some(error) => {
                self.job.cancel();
                Some(Err(error))
            }
            None => self.job.poll(),
        }
    }

    fn cancel(&mut self) {
        self.job.cancel();
    }
}

/// A ListOffsets request that waits until remote storage has found each partition's offset. A partition that fails, or
/// moves away, has its error, and the others are not held up by it.
///
/// # Examples
///
/// ```
/// use ixion::kafka::future::{DelayedRemoteListOffsets, Job, JobPartition, JobStatus, PartitionJob};
/// use ixion::kafka::ErrorCode;
/// use ixion::{DelayedOperation, Outcome};
///
/// struct Partition { is_led_here: bool }
/// impl JobPartition for Partition {
///     fn error(&self) -> Option<ErrorCode> {
///         (!self.is_led_here).then_some(ErrorCode::NOT_LEADER_OR_FOLLOWER)
///     }
/// }
/// struct LookUp(i64);
/// impl Job for LookUp {
///     type Output = i64;
///     fn poll(&mut self) -> Option<Result<i64, ErrorCode>> {
///         Some(Ok(self.0))
///     }
/// }
///
/// let jobs = [true, false].map(|is_led_here| {
///     JobStatus::begun(PartitionJob { partition: Partition { is_led_here }, job: LookUp(100) })
/// });
/// let mut list = DelayedRemoteListOffsets::new(jobs.into(), |_, jobs: Vec<JobStatus<PartitionJob<_, _>>>| {
///     assert_eq!(jobs[0].result, Ok(100));
///     assert_eq!(jobs[1].result, Err(ErrorCode::NOT_LEADER_OR_FOLLOWER));
/// });
/// assert!(list.try_complete());
/// list.on_complete(Outcome::Satisfied);
/// ```
pub type DelayedRemoteListOffsets<P, J, A> = DelayedFuture<PartitionJob<P, J>, A>;

#[cfg(test)]
#[path = "future_tests.rs"]
mod tests;
