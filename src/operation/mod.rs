//! A delayed operation, its possible ends, and the boxed form.
//!
//! What a user implements is in here; what the engine does with it is in the private module `cell`, one for each operation
//! that waits. Nothing in here knows keys, deadlines or locks of the engine.

pub(crate) mod cell;

use crate::trampoline::Call;
use std::any::Any;
use std::fmt;

/// A request that has been accepted but cannot be answered yet.
///
/// An operation waits in a [`Purgatory`](crate::Purgatory) until an event makes its condition true or its time is
/// up. It ends exactly once: [`on_complete`](Self::on_complete) takes it by value. Its methods have exclusive access;
/// they run on whichever thread caused them, without a lock of the engine and without a runtime's context.
///
/// There is no `Send` here: operations that hold an `Rc` can live in a purgatory that stays on one thread.
///
/// Comes from Kafka's `DelayedOperation`.
///
/// # Examples
///
/// ```
/// use ixion::{DelayedOperation, Outcome};
/// use std::sync::mpsc::Sender;
/// use std::sync::{Arc, Mutex};
///
/// /// A job that waits for a place on a worker.
/// struct Job { places: Arc<Mutex<u32>>, has_place: bool, reply: Sender<Result<(), Outcome>> }
///
/// impl DelayedOperation for Job {
///     fn try_complete(&mut self) -> bool {
///         let mut places = self.places.lock().unwrap();
///         if *places > 0 {
///             *places -= 1; // taken here, and given back below if the end is another one
///             self.has_place = true;
///         }
///         self.has_place
///     }
///     fn on_complete(self, outcome: Outcome) {
///         if self.has_place && outcome != Outcome::Satisfied {
///             *self.places.lock().unwrap() += 1;
///         }
///         let _ = self.reply.send(if outcome == Outcome::Satisfied { Ok(()) } else { Err(outcome) });
///     }
/// }
/// ```
pub trait DelayedOperation {
    /// Looks whether the condition is met. Called any number of times, never after the outcome is decided.
    ///
    /// Must not signal keys of a purgatory (debug builds assert it; such a call is put off until the look is over
    /// and returns 0); it can [`defer`] what does. What it takes for the answer, a lock or a share of a quota, is
    /// [`on_complete`](Self::on_complete)'s to give back, however the operation ends.
    ///
    /// # Panics
    ///
    /// A panic ends the operation with [`Outcome::Panicked`] and harms nothing else.
    fn try_complete(&mut self) -> bool;

    /// Says where to wait next, of a watch [at a number](crate::Watch::at): the number of progress before which no look
    /// can succeed. `None`: it stays where it is.
    ///
    /// A lower number than before costs one more look, for the events that the operation would have seen there. So an
    /// operation that waits for a sum over several keys can divide what is missing among them anew.
    ///
    /// Asked after each look that says no, for each such watch; `watch` is its place in the order in which the watches were
    /// given. Compute it from what that look has seen, never from the state as it is by now: an event between the two
    /// would find the operation waiting for more than it has brought. As a look, it must not signal keys.
    ///
    /// # Panics
    ///
    /// As [`try_complete`](Self::try_complete).
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::{DelayedOperation, ManualClock, Outcome, Purgatory, Watch};
    /// use std::cell::Cell;
    /// use std::rc::Rc;
    /// use std::time::Duration;
    ///
    /// /// Waits until so many bytes were written; a look may find that some were deleted again.
    /// struct Bytes { written: Rc<Cell<u64>>, deleted: Rc<Cell<u64>>, wants: u64, needs: u64 }
    ///
    /// impl DelayedOperation for Bytes {
    ///     fn try_complete(&mut self) -> bool {
    ///         self.needs = self.deleted.get() + self.wants;
    ///         self.written.get() >= self.needs
    ///     }
    ///     fn next_progress(&self, _watch: usize) -> Option<u64> {
    ///         Some(self.needs) // what the look has seen
    ///     }
    ///     fn on_complete(self, _outcome: Outcome) {}
    /// }
    ///
    /// let bytes: Purgatory<&str, Bytes> = Purgatory::builder("bytes").clock(ManualClock::new()).build();
    /// let (written, deleted) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(5)));
    /// let op = Bytes { written: written.clone(), deleted, wants: 10, needs: 10 };
    /// let _ = bytes.try_complete_else_watch_at(op, Duration::from_secs(1), [Watch::at("log", 10)])?;
    /// for progress in [10, 14, 15] {
    ///     written.set(progress);
    ///     let ended = bytes.check_and_complete_up_to("log", progress);
    ///     assert_eq!(ended, usize::from(progress == 15)); // it waits at 15: no look at 10, nor at 14
    /// }
    /// # Ok::<(), ixion::RejectReason>(())
    /// ```
    fn next_progress(&self, watch: usize) -> Option<u64> {
        let _ = watch;
        None
    }

    /// Ends the operation: answers the request. Called exactly once for every operation that is not handed back.
    ///
    /// May call every method of the engine, on the same keys too. The callbacks that such calls cause run after
    /// this one has returned. One that registers the operation again should hold its purgatory by a `Weak`: an `Arc` in
    /// what waits keeps the purgatory alive.
    ///
    /// What is periodic registers itself again from here. With its period as the timeout it goes on a period from now;
    /// with what is left until the next point of a grid it does not drift, and with nothing left it makes up for a
    /// point that was missed, one a drive.
    fn on_complete(self, outcome: Outcome);
}

/// Runs a job when the outermost call into an engine that this thread is in is about to return, behind the callbacks that
/// wait for that already; at once, if it is in none.
///
/// For what a look causes: a signal, or the call of a waker, which is code of others. There it runs neither inside the
/// look, where signals are not allowed, nor with a lock held. A panic of the job is caught, and told by std's hook alone.
///
/// # Examples
///
/// A look that signals another purgatory:
///
/// ```
/// use ixion::{DelayedOperation, Outcome, Purgatory, defer};
/// use std::sync::Arc;
///
/// struct Relay { next: Arc<Purgatory<u32>> }
/// impl DelayedOperation for Relay {
///     fn try_complete(&mut self) -> bool {
///         let next = Arc::clone(&self.next);
///         defer(move || _ = next.check_and_complete(&7));
///         false
///     }
///     fn on_complete(self, _outcome: Outcome) {}
/// }
/// ```
///
/// # Complexity
///
/// One allocation, inside a call.
pub fn defer(job: impl FnOnce() + 'static) {
    Call::enter().put_off(job);
}

/// How an operation ended. Decided once.
///
/// # Examples
///
/// ```
/// use ixion::Outcome;
///
/// fn status(outcome: Outcome) -> u16 {
///     match outcome {
///         Outcome::Satisfied => 200,
///         Outcome::Expired => 204,   // nothing new: ask again
///         Outcome::Forced => 410,    // what it waited for is gone
///         Outcome::Shutdown => 503,
///         _ => 500,                  // panicked, cancelled, or one that a later version adds
///     }
/// }
/// assert_eq!(status(Outcome::Expired), 204);
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Its condition was met.
    Satisfied,
    /// Its time was up.
    Expired,
    /// [`force_complete`](crate::Purgatory::force_complete) ended it.
    Forced,
    /// It was cancelled while a thread was busy with it; that thread ended it.
    Cancelled,
    /// The purgatory was shut down.
    Shutdown,
    /// Its [`try_complete`](DelayedOperation::try_complete) or [`next_progress`](DelayedOperation::next_progress) panicked.
    Panicked,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Outcome::Satisfied => "satisfied",
            Outcome::Expired => "expired",
            Outcome::Forced => "forced",
            Outcome::Cancelled => "cancelled",
            Outcome::Shutdown => "shut down",
            Outcome::Panicked => "panicked",
        })
    }
}

/// A [`DelayedOperation`] of any `Send` type: the default operation of a [`Purgatory`](crate::Purgatory).
///
/// # Examples
///
/// ```
/// use ixion::{BoxedOperation, DelayedOperation, Outcome};
///
/// struct Wait(u32);
/// impl DelayedOperation for Wait {
///     fn try_complete(&mut self) -> bool { self.0 == 0 }
///     fn on_complete(self, _outcome: Outcome) {}
/// }
///
/// let boxed = BoxedOperation::new(Wait(7));
/// let wait: Box<Wait> = boxed.downcast().expect("it is a Wait");
/// assert_eq!(wait.0, 7);
/// ```
pub struct BoxedOperation(Box<dyn ErasedOperation>);

impl BoxedOperation {
    /// Boxes an operation. One allocation.
    #[must_use]
    pub fn new(op: impl DelayedOperation + Send + 'static) -> Self {
        BoxedOperation(Box::new(op))
    }

    /// Returns the operation if it is a `T`.
    ///
    /// # Errors
    ///
    /// Hands the boxed operation back if it is of another type.
    pub fn downcast<T: DelayedOperation + Send + 'static>(self) -> Result<Box<T>, BoxedOperation> {
        if (*self.0).concrete_type() != std::any::TypeId::of::<T>() {
            return Err(self);
        }
        Ok(self.0.into_any().downcast().expect("the type was compared"))
    }
}

impl DelayedOperation for BoxedOperation {
    fn try_complete(&mut self) -> bool {
        self.0.try_complete()
    }

    fn next_progress(&self, watch: usize) -> Option<u64> {
        self.0.next_progress(watch)
    }

    fn on_complete(self, outcome: Outcome) {
        self.0.on_complete(outcome);
    }
}

impl fmt::Debug for BoxedOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoxedOperation").finish_non_exhaustive()
    }
}

/// [`DelayedOperation`] in a form that a trait object can have.
trait ErasedOperation: Send {
    fn try_complete(&mut self) -> bool;
    fn next_progress(&self, watch: usize) -> Option<u64>;
    fn on_complete(self: Box<Self>, outcome: Outcome);
    fn concrete_type(&self) -> std::any::TypeId;
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

impl<T: DelayedOperation + Send + 'static> ErasedOperation for T {
    fn try_complete(&mut self) -> bool {
        DelayedOperation::try_complete(self)
    }

    fn next_progress(&self, watch: usize) -> Option<u64> {
        DelayedOperation::next_progress(self, watch)
    }

    fn on_complete(self: Box<Self>, outcome: Outcome) {
        DelayedOperation::on_complete(*self, outcome);
    }

    fn concrete_type(&self) -> std::any::TypeId {
        std::any::TypeId::of::<T>()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
