//! A delayed operation, its possible ends, and the boxed form.

pub(crate) mod cell;

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
pub trait DelayedOperation {
    /// Looks whether the condition is met. Called any number of times, never after the outcome is decided.
    ///
    /// Must not signal keys of a purgatory (debug builds assert it; such a call is put off until the look is over
    /// and returns 0). What it takes for the answer, a lock or a share of a quota, is
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

/// How an operation ended. Decided once.
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
