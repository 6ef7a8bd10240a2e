//! A consumer's fetch that waits for reads from remote storage.
//!
//! Old records lie in remote storage, and reading there takes longer than a consumer cares to wait for an answer. So there
//! are two deadlines. A fetch answered with nothing would be sent again for the same offset, its read begun anew, and so for
//! ever. The rules; the reads are [jobs on behalf of partitions](crate::kafka::future):
//!
//! * **m1** Waiting is called for if the first read of the log found that an offset lies in remote storage: a read is begun
//!   there for each such partition. Followers copy segments and never wait like this.
//! * **m2** The wait is over when each read is done.
//! * **m3** A read that fails ends the wait, and so does a partition that is unknown, offline, or not led here any more:
//!   the consumer should hear of it now. That holds for every partition of the fetch: one whose read is done, which then
//!   has that error for a result, and one that was [read locally](RemoteFetch::with_local). So does, with m2, a wait that
//!   began with nothing to read.
//! * **m4** The first deadline is the request's longest wait. If there is anything to send by then, bytes of local
//!   partitions or a result, the wait is over. If not it goes on.
//! * **m5** Past the first deadline the first result ends the wait.
//! * **m6** The second deadline is the longest time for a remote read, never before the first. It ends the wait whatever
//!   there is.
//! * **m7** At the end the reads that are not done are cancelled before the answer, which never interrupts a thread: see
//!   [`Job::cancel`]. Nothing is cancelled at a first deadline after which the wait goes on.
//! * **m8** The answer is what the first read found in local partitions and the results of the others.
//! * **m9** Whoever finishes a read delivers first and then signals; the loss of a partition is a signal as well.

use crate::kafka::future::{Job, JobPartition, JobStatus, PartitionJob};
use crate::kafka::request::Part;
use crate::{DelayedOperation, Outcome};
use std::fmt;
use std::time::Duration;

/// The reads of a fetch, and what holds for all of it.
pub struct RemoteFetch<P: JobPartition, J: Job> {
    /// The remote reads.
    pub reads: Vec<JobStatus<PartitionJob<P, J>>>,
    /// The partitions that need no remote read.
    pub local: Vec<P>,
    /// The bytes of local partitions that could be sent, in sum.
    pub local_bytes: u64,
    timeout: Duration,
    /// The time from the first deadline to the second, before the first has passed.
    rest: Option<Duration>,
}

impl<P: JobPartition, J: Job> RemoteFetch<P, J> {
    /// Takes the reads that have begun, the bytes that could be sent without them, how long the request may wait, and
    /// how long a remote read may take.
    #[must_use]
    pub fn new(
        reads: Vec<JobStatus<PartitionJob<P, J>>>,
        local_bytes: u64,
        max_wait: Duration,
        remote_max_wait: Duration,
    ) -> Self {
        let rest = Some(remote_max_wait.saturating_sub(max_wait)); // m6
        RemoteFetch { reads, local: Vec::new(), local_bytes, timeout: max_wait, rest }
    }

    /// Adds the partitions that were read locally: the loss of one of them ends the wait, too (m3).
    #[must_use]
    pub fn with_local(mut self, partitions: Vec<P>) -> Self {
        self.local = partitions;
        self
    }

    /// Returns the timeout with which to register the fetch now.
    #[must_use]
    pub const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns how the reads stand, as far as looks have seen.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let count = |is: fn(&JobStatus<PartitionJob<P, J>>) -> bool| {
            self.reads.iter().filter(|read| is(read)).count()
        };
        Progress {
            pending: count(|read| read.pending),
            arrived: count(|read| read.result.is_ok()),
            failed: count(|read| !read.pending && read.result.is_err()),
            lost: self.local.iter().filter(|partition| partition.error().is_some()).count(),
            is_past_first: self.rest.is_none(),
        }
    }

    /// The first deadline has passed: whether the wait goes on to the second (m4).
    fn go_on(&mut self) -> bool {
        let Some(rest) = self.rest else { return false };
        if self.local_bytes > 0 || self.progress().arrived > 0 || rest.is_zero() {
            return false;
        }
        (self.timeout, self.rest) = (rest, None);
        true
    }
}

/// How the reads of a fetch stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Progress {
    /// Those that are not done.
    pub pending: usize,
    /// Those that have brought something.
    pub arrived: usize,
    /// Those that have failed, or whose partition is lost.
    pub failed: usize,
    /// The partitions without a read that are lost.
    pub lost: usize,
    /// Whether the first deadline has passed.
    pub is_past_first: bool,
}

/// Decides whether a fetch is over (m2, m3, m5).
///
/// # Examples
///
/// ```
/// use ixion::kafka::remote_fetch::{Progress, decide};
///
/// let reads = |pending, arrived, is_past_first| Progress { pending, arrived, failed: 0, lost: 0, is_past_first };
/// assert!(!decide(reads(1, 1, false))); // the other one may still come
/// assert!(decide(reads(1, 1, true)) && decide(reads(0, 2, false)));
/// assert!(!decide(reads(2, 0, true))); // there is nothing to send
/// ```
#[must_use]
pub fn decide(progress: Progress) -> bool {
    progress.pending == 0
        || progress.failed + progress.lost > 0
        || (progress.is_past_first && progress.arrived > 0)
}

/// How a [`DelayedRemoteFetch`] ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RemoteEnd {
    /// Not at all: register it again, with its new [`timeout`](RemoteFetch::timeout) (m4).
    Again,
    /// It is over: answer.
    Over(Outcome),
}

/// A consumer's fetch that waits for remote reads.
///
/// Ends by calling `answer`, without a lock, with how it ended and the fetch.
///
/// # Examples
///
/// ```
/// use ixion::kafka::future::{Job, JobPartition, JobStatus, PartitionJob};
/// use ixion::kafka::remote_fetch::{DelayedRemoteFetch, RemoteEnd, RemoteFetch};
/// use ixion::kafka::ErrorCode;
/// use ixion::{ManualClock, Outcome, Purgatory};
/// use std::cell::Cell;
/// use std::rc::Rc;
/// use std::time::Duration;
///
/// struct Partition;
/// impl JobPartition for Partition {
///     fn error(&self) -> Option<ErrorCode> {
///         None
///     }
/// }
/// struct Read;
/// impl Job for Read {
///     type Output = Vec<u8>;
///     fn poll(&mut self) -> Option<Result<Vec<u8>, ErrorCode>> {
///         None // remote storage is slow
///     }
/// }
/// type Answer = Box<dyn FnOnce(RemoteEnd, RemoteFetch<Partition, Read>)>;
/// struct Server { fetches: Purgatory<&'static str, DelayedRemoteFetch<Partition, Read, Answer>>, empty: Cell<u32> }
///
/// fn wait(server: &Rc<Server>, fetch: RemoteFetch<Partition, Read>) {
///     let (timeout, this) = (fetch.timeout(), Rc::clone(server));
///     let answer: Answer = Box::new(move |end, fetch| match end {
///         RemoteEnd::Again => wait(&this, fetch),
///         RemoteEnd::Over(_) => this.empty.set(this.empty.get() + 1),
///     });
///     let fetch = DelayedRemoteFetch::new(fetch, answer);
///     let _ = server.fetches.try_complete_else_watch(fetch, timeout, ["orders-0"]);
/// }
///
/// let clock = ManualClock::new();
/// let fetches = Purgatory::builder("RemoteFetch").clock(clock.clone()).build();
/// let server = Rc::new(Server { fetches, empty: Cell::new(0) });
/// let reads = vec![JobStatus::begun(PartitionJob { partition: Partition, job: Read })];
/// wait(&server, RemoteFetch::new(reads, 0, Duration::from_millis(500), Duration::from_secs(5)));
/// for (time, answers) in [(500, 0), (4999, 0), (5000, 1)] {
///     clock.advance_to(Duration::from_millis(time));
///     while server.fetches.expire().more {}
///     assert_eq!(server.empty.get(), answers, "after {time} ms");
/// }
/// ```
pub struct DelayedRemoteFetch<P: JobPartition, J: Job, A> {
    fetch: RemoteFetch<P, J>,
    answer: A,
}

impl<P: JobPartition, J: Job, A: FnOnce(RemoteEnd, RemoteFetch<P, J>)> DelayedRemoteFetch<P, J, A> {
    /// Makes the operation; register it with the fetch's [`timeout`](RemoteFetch::timeout).
    #[must_use]
    pub fn new(fetch: RemoteFetch<P, J>, answer: A) -> Self {
        DelayedRemoteFetch { fetch, answer }
    }
}

impl<P: JobPartition, J: Job, A: FnOnce(RemoteEnd, RemoteFetch<P, J>)> DelayedOperation
    for DelayedRemoteFetch<P, J, A>
{
    fn try_complete(&mut self) -> bool {
        for read in &mut self.fetch.reads {
            if read.pending {
                read.look();
            } else if let Some(error) = read.job.partition.error() {
                read.result = Err(error); // m3: the job is not asked again
            }
        }
        decide(self.fetch.progress())
    }

    fn on_complete(mut self, outcome: Outcome) {
        if outcome == Outcome::Expired && self.fetch.go_on() {
            return (self.answer)(RemoteEnd::Again, self.fetch);
        }
        for read in self.fetch.reads.iter_mut().filter(|read| read.pending) {
            read.end(outcome); // m7
        }
        (self.answer)(RemoteEnd::Over(outcome), self.fetch);
    }
}

impl<P: JobPartition, J: Job> fmt::Debug for RemoteFetch<P, J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteFetch")
            .field("progress", &self.progress())
            .field("local_bytes", &self.local_bytes)
            .field("timeout", &self.timeout)
            .field("rest", &self.rest)
            .finish_non_exhaustive()
    }
}

impl<P: JobPartition, J: Job, A> fmt::Debug for DelayedRemoteFetch<P, J, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DelayedRemoteFetch").field(&self.fetch).finish()
    }
}

#[cfg(test)]
#[path = "remote_fetch_tests.rs"]
mod tests;
