//! Requests that create or delete topics, or add partitions to them, and wait until that is done everywhere.
//!
//! The server that decides about topics does so at once; the others follow. A request with a timeout is answered when they
//! have. The rules, besides those of every [request](crate::kafka::request):
//!
//! * **t1** Waiting is called for with a timeout above zero, if the work has begun for at least one topic
//!   ([`must_wait`]). Otherwise the answer is what the statuses say at once: with no time to wait that is
//!   `REQUEST_TIMED_OUT` for what has begun.
//! * **t2** A request that is only to be validated begins nothing: each topic is decided, with success if it would do.
//! * **t3** A new topic, or one with more partitions, is done when each of the new partitions is served: it has a leader, or
//!   all its replicas have it. A topic that is deleted is done when no server has it any more.
//! * **t4** When the time is up, the topics that are pending are asked once more: what was done without a signal yet is
//!   done. The others are answered with `REQUEST_TIMED_OUT`, and may still appear or disappear.
//! * **t5** A topic that is done stays done, whatever happens to it before the answer.
//! * **t6** Events are whatever a server says that it now serves, or has dropped, on the topic's key.

use crate::Outcome;
use crate::kafka::ErrorCode;
use crate::kafka::request::{DelayedRequest, Part};

/// What a request about topics asks of each: how much is left to do.
///
/// Implemented by the broker; called from looks, so it must not signal keys.
pub trait TopicWork {
    /// Of a new topic the new partitions that are not served yet, of a deleted one the servers that still have it, at this
    /// moment (t3).
    fn outstanding(&self) -> usize;
}

/// One topic of a waiting request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicStatus<T> {
    /// The topic as the broker knows it.
    pub topic: T,
    /// What would be answered if the request ended now.
    pub error: ErrorCode,
    /// Whether the topic is still waited for.
    pub pending: bool,
}

impl<T> TopicStatus<T> {
    /// Returns the status of a topic for which the work has begun.
    #[must_use]
    pub fn begun(topic: T) -> Self {
        TopicStatus { topic, error: ErrorCode::REQUEST_TIMED_OUT, pending: true }
    }

    /// Returns the status of a topic for which nothing is to be done: it was refused, or only validated (t2).
    #[must_use]
    pub fn decided(topic: T, error: ErrorCode) -> Self {
        TopicStatus { topic, error, pending: false }
    }
}

/// Whether a request must wait (t1).
///
/// # Examples
///
/// ```
/// use ixion::kafka::topics::{TopicStatus, must_wait};
///
/// assert!(must_wait(30_000, &[TopicStatus::begun("orders")]));
/// assert!(!must_wait(0, &[TopicStatus::begun("orders")])); // answered at once, as timed out
/// ```
#[must_use]
pub fn must_wait<T>(timeout_ms: i32, statuses: &[TopicStatus<T>]) -> bool {
    timeout_ms > 0 && statuses.iter().any(|status| status.pending)
}

/// A request that creates topics or adds partitions to them, and waits until these are served.
///
/// # Examples
///
/// ```
/// use ixion::kafka::ErrorCode;
/// use ixion::kafka::topics::{DelayedCreatePartitions, TopicStatus, TopicWork};
/// use ixion::{DelayedOperation, Outcome};
/// use std::cell::Cell;
/// use std::rc::Rc;
///
/// struct Topic { unserved: Rc<Cell<usize>> }
/// impl TopicWork for Topic {
///     fn outstanding(&self) -> usize {
///         self.unserved.get()
///     }
/// }
///
/// let unserved = Rc::new(Cell::new(3));
/// let statuses = vec![TopicStatus::begun(Topic { unserved: unserved.clone() })];
/// let mut create = DelayedCreatePartitions::new(statuses, |outcome, statuses: Vec<TopicStatus<Topic>>| {
///     assert_eq!((outcome, statuses[0].error), (Outcome::Satisfied, ErrorCode::NONE));
/// });
/// assert!(!create.try_complete(), "no partition is served yet");
/// unserved.set(0);
/// assert!(create.try_complete());
/// create.on_complete(Outcome::Satisfied);
/// ```
pub type DelayedCreatePartitions<T, A> = DelayedRequest<TopicStatus<T>, A>;

/// A request that deletes topics, and waits until no server has them any more.
///
/// # Examples
///
/// ```
/// use ixion::kafka::ErrorCode;
/// use ixion::kafka::topics::{DelayedDeleteTopics, TopicStatus, TopicWork};
/// use ixion::{ManualClock, Outcome, Purgatory};
/// use std::time::Duration;
///
/// struct Topic { servers: usize }
/// impl TopicWork for Topic {
///     fn outstanding(&self) -> usize {
///         self.servers
///     }
/// }
///
/// let clock = ManualClock::new();
/// let purgatory = Purgatory::builder("topic").clock(clock.clone()).build();
/// let statuses = vec![TopicStatus::begun(Topic { servers: 1 }), TopicStatus::begun(Topic { servers: 0 })];
/// let delete = DelayedDeleteTopics::new(statuses, |outcome, statuses: Vec<TopicStatus<Topic>>| {
///     let errors: Vec<ErrorCode> = statuses.iter().map(|status| status.error).collect();
///     assert_eq!(errors, [ErrorCode::REQUEST_TIMED_OUT, ErrorCode::NONE]);
/// });
/// let _ = purgatory.try_complete_else_watch(delete, Duration::from_secs(5), ["orders", "payments"])?;
/// clock.advance(Duration::from_secs(5));
/// assert_eq!(purgatory.expire().expired, 1);
/// # Ok::<(), ixion::RejectReason>(())
/// ```
pub type DelayedDeleteTopics<T, A> = DelayedRequest<TopicStatus<T>, A>;

impl<T: TopicWork> Part for TopicStatus<T> {
    type Subject = T;

    fn subject(&self) -> &T {
        &self.topic
    }

    fn is_pending(&self) -> bool {
        self.pending
    }

    fn look(&mut self) {
        if self.topic.outstanding() == 0 {
            self.error = ErrorCode::NONE;
            self.pending = false;
        }
    }

    fn end(&mut self, outcome: Outcome) {
        if outcome == Outcome::Expired {
            self.look(); // t4
        }
    }
}

#[cfg(test)]
#[path = "topics_tests.rs"]
mod tests;
