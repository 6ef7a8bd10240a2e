//! What the calls of a purgatory return.
//!
//! Plain values. What holds an operation must be used: to drop it in silence would leave a request without its answer.

use crate::operation::Outcome;
use crate::tick::Tick;
use crate::wheel::TimerId;
use std::error::Error;
use std::fmt;

/// A key to wait on: at every event, or only at those that have come as far as a number.
///
/// The number is the progress that is needed: for the record at offset 41 to be replicated a high watermark of 42. Progress
/// that goes back concerns everybody: [`check_and_complete`](crate::Purgatory::check_and_complete) looks at all.
///
/// A key has one scale of numbers, such as the offsets of one partition. Who waits for another thing, a follower for the
/// log's end where consumers wait for the high watermark, waits on another key.
///
/// Kafka's raft layer has a class for such waits, `ThresholdPurgatory`; its broker asks everybody on the key.
///
/// # Examples
///
/// ```
/// use ixion::{BoxedOperation, DelayedOperation, Outcome, Purgatory, Watch};
/// use std::time::Duration;
///
/// struct Wait;
/// impl DelayedOperation for Wait {
///     fn try_complete(&mut self) -> bool { false }
///     fn on_complete(self, _outcome: Outcome) {}
/// }
///
/// let purgatory: Purgatory<&str, Wait> = Purgatory::builder("produce").build();
/// let watch = [Watch::at("orders-0", 1234)];
/// let _ = purgatory.try_complete_else_watch_at(Wait, Duration::from_secs(30), watch)?;
/// purgatory.check_and_complete_up_to("orders-0", 1233); // looks at nothing
/// purgatory.check_and_complete_up_to("orders-0", 1234); // looks
/// # Ok::<(), ixion::RejectReason>(())
/// ```
#[doc(alias = "DelayedOperationKey")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Watch<K> {
    pub(super) key: K,
    pub(super) at: Option<u64>,
}

impl<K> Watch<K> {
    /// Waits on the key at every event.
    pub const fn any(key: K) -> Self {
        Watch { key, at: None }
    }

    /// Waits on the key until its progress has reached the number.
    pub const fn at(key: K, progress: u64) -> Self {
        Watch { key, at: Some(progress) }
    }
}

/// A name for an operation that waits, unique in the process and never reused.
///
/// An id of an operation that has ended, or of another purgatory, is answered with `Gone` or `false`.
///
/// # Examples
///
/// ```
#[doc = setup!()]
/// let register = || purgatory.try_complete_else_watch(Wait, Duration::from_secs(1), ["orders"]);
/// let first = register()?.id().expect("it waits");
/// assert!(purgatory.force_complete(first));
/// let second = register()?.id().expect("it waits");
/// assert_ne!(first, second);
/// assert!(!purgatory.force_complete(first)); // the second one is not meant
/// # Ok::<(), ixion::RejectReason>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId {
    pub(super) purgatory: u64,
    pub(super) home: u32,
    pub(super) timer: TimerId,
}

impl fmt::Debug for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OperationId({}.{}.{:?})", self.purgatory, self.home, self.timer)
    }
}

/// What became of an operation that was accepted.
///
/// # Examples
///
/// ```
#[doc = setup!()]
/// match purgatory.try_complete_else_watch(Wait, Duration::from_secs(1), ["orders"])? {
///     Registration::Completed(outcome) => println!("over: {outcome:?}"),
///     Registration::Watched(id) => assert!(purgatory.reset_timeout(id, Duration::from_secs(2))),
/// }
/// # Ok::<(), ixion::RejectReason>(())
/// ```
#[must_use = "it names the operation, if that waits; `let _ =` where a key names it too"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Registration {
    /// It was over when the call returned. Its callback is still to come where that was made in a callback, or where
    /// callbacks are [jobs](crate::Builder::callbacks_on).
    Completed(Outcome),
    /// It waits.
    Watched(OperationId),
}

impl Registration {
    /// Returns the id of an operation that waits.
    #[must_use]
    pub const fn id(&self) -> Option<OperationId> {
        match self {
            Registration::Completed(_) => None,
            Registration::Watched(id) => Some(*id),
        }
    }

    /// Whether the operation was over when the call returned.
    #[must_use]
    pub const fn is_completed(&self) -> bool {
        matches!(self, Registration::Completed(_))
    }
}

/// An operation that was not accepted, handed back.
///
/// Is an [`Error`], and `?` makes its reason of it where a function returns [`RejectReason`].
///
/// # Examples
///
/// ```
#[doc = setup!()]
/// # let purgatory = Purgatory::builder("waits").clock(ManualClock::new()).capacity(0).build();
/// match purgatory.try_complete_else_watch(Wait, Duration::from_secs(1), ["orders"]) {
///     Ok(_) => unreachable!("nobody may wait"),
///     Err(Rejected { op, reason }) => {
///         assert_eq!(reason.to_string(), "the purgatory is full");
///         op.on_complete(Outcome::Expired); // answered as if its time were up
///     }
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Rejected<O> {
    /// The operation, with its first look behind it at most.
    pub op: O,
    /// Why.
    pub reason: RejectReason,
}

/// Why an operation was not accepted.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RejectReason {
    /// It would have had to wait, and the purgatory holds as many operations as its capacity allows.
    Full,
    /// The purgatory has been shut down.
    Shutdown,
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RejectReason::Full => "the purgatory is full",
            RejectReason::Shutdown => "the purgatory has been shut down",
        })
    }
}

impl Error for RejectReason {}

impl<O> From<Rejected<O>> for RejectReason {
    fn from(rejected: Rejected<O>) -> Self {
        rejected.reason
    }
}

impl<O> fmt::Debug for Rejected<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejected").field("reason", &self.reason).finish_non_exhaustive()
    }
}

impl<O> fmt::Display for Rejected<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl<O> Error for Rejected<O> {}

/// What a cancellation came to.
///
/// # Examples
///
/// ```
/// use ixion::Cancelled;
///
/// assert_eq!(Cancelled::Taken("op").taken(), Some("op"));
/// assert!(Cancelled::<()>::Busy.is_cancelled()); // decided, and completed by the thread inside
/// assert!(!Cancelled::<()>::Gone.is_cancelled());
/// ```
#[must_use = "a cancelled operation is dropped with this value"]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Cancelled<O> {
    /// Cancelled and handed back; its `on_complete` is not called.
    Taken(O),
    /// Cancelled, while a thread is inside it: that thread completes it with [`Outcome::Cancelled`].
    Busy,
    /// There is no such operation: it has ended, or its expiry has begun, or it never was here.
    Gone,
}

impl<O> Cancelled<O> {
    /// Returns the operation, if it was handed back.
    #[must_use]
    pub fn taken(self) -> Option<O> {
        match self {
            Cancelled::Taken(op) => Some(op),
            Cancelled::Busy | Cancelled::Gone => None,
        }
    }

    /// Whether this call cancelled the operation.
    #[must_use]
    pub const fn is_cancelled(&self) -> bool {
        !matches!(self, Cancelled::Gone)
    }
}

impl<O> fmt::Debug for Cancelled<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cancelled::Taken(_) => "Taken(..)",
            Cancelled::Busy => "Busy",
            Cancelled::Gone => "Gone",
        })
    }
}

/// The operations that one call took out of a purgatory.
///
/// # Examples
///
/// ```
#[doc = setup!()]
/// let _ = purgatory.try_complete_else_watch(Wait, Duration::from_secs(1), ["orders"])?;
/// let back = purgatory.cancel_for_key("orders");
/// println!("{} are here, {} are completed elsewhere", back.taken.len(), back.busy);
/// assert_eq!(back.count(), 1);
/// # Ok::<(), ixion::RejectReason>(())
/// ```
#[must_use = "the operations that were handed back are dropped with this value"]
#[derive(Clone, PartialEq, Eq)]
pub struct HandedBack<O> {
    /// Handed back; their `on_complete` is not called.
    pub taken: Vec<O>,
    /// How many more were decided while a thread was inside them: those threads complete them.
    pub busy: usize,
}

impl<O> HandedBack<O> {
    pub(super) const fn none() -> Self {
        HandedBack { taken: Vec::new(), busy: 0 }
    }

    pub(super) fn add(&mut self, cancelled: Cancelled<O>) {
        match cancelled {
            Cancelled::Taken(op) => self.taken.push(op),
            Cancelled::Busy => self.busy += 1,
            Cancelled::Gone => {}
        }
    }

    /// Returns how many operations the call decided.
    #[must_use]
    pub fn count(&self) -> usize {
        self.taken.len() + self.busy
    }
}

impl<O> fmt::Debug for HandedBack<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandedBack")
            .field("taken", &format_args!("[{} operations]", self.taken.len()))
            .field("busy", &self.busy)
            .finish()
    }
}

/// What one pass over a purgatory did, from [`Purgatory::expire`](crate::Purgatory::expire).
#[must_use = "`more` asks for another pass"]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Drive {
    /// How many operations this pass decided to be expired.
    pub expired: usize,
    /// Whether the drive goes on, since a pass is bounded: operations that were due when it began may be left.
    pub more: bool,
    /// When to come again, as [`next_expiration`](crate::Purgatory::next_expiration) says; `None`: nothing is due, ever.
    /// At or before the present where there is work now.
    pub next: Option<Tick>,
}
