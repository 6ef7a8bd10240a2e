//! The purgatory's half of a wait, what it shares with the task's, and how a wait can fail.

use crate::defer;
use crate::operation::{BoxedOperation, DelayedOperation, Outcome};
use crate::purgatory::RejectReason;
use crate::sync::{Mutex, planted};
use std::error::Error;
use std::fmt;
use std::mem;
use std::sync::Arc;
use std::task::Waker;

/// The operation that stands in a purgatory for a future: an event wakes its task.
///
/// It ends with its future. Whoever takes it out of the purgatory and drops it ends the future with
/// [`WaitError::Cancelled`].
///
/// # Examples
///
/// Futures and callbacks in one purgatory, without boxes:
///
/// ```
/// use ixion::{DelayedOperation, Outcome, Purgatory, Waiting};
///
/// enum Op { Callback(Box<dyn FnOnce(Outcome)>), Wait(Waiting) }
///
/// impl From<Waiting> for Op {
///     fn from(waiting: Waiting) -> Self { Op::Wait(waiting) }
/// }
///
/// impl DelayedOperation for Op {
///     fn try_complete(&mut self) -> bool {
///         match self { Op::Callback(_) => false, Op::Wait(waiting) => waiting.try_complete() }
///     }
///     fn on_complete(self, outcome: Outcome) {
///         match self { Op::Callback(run) => run(outcome), Op::Wait(waiting) => waiting.on_complete(outcome) }
///     }
/// }
///
/// let purgatory: Purgatory<u32, Op> = Purgatory::builder("both").build();
/// let _wait = purgatory.wait(std::time::Duration::MAX, [1], || None::<()>);
/// ```
pub struct Waiting(
    /// `None`: there is nothing to wait for.
    Option<Arc<Slot>>,
);

impl Waiting {
    pub(super) fn at(slot: &Arc<Slot>) -> Self {
        Waiting(Some(Arc::clone(slot)))
    }

    /// One whose task has its value.
    pub(super) fn over() -> Self {
        Waiting(None)
    }
}

impl DelayedOperation for Waiting {
    fn try_complete(&mut self) -> bool {
        self.0.as_ref().is_none_or(|slot| slot.notify())
    }

    fn on_complete(self, outcome: Outcome) {
        if let Some(slot) = &self.0 {
            slot.end(WaitError::of(outcome));
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(slot) = &self.0 {
            // Too late, if it was completed.
            slot.end(WaitError::Cancelled);
        }
    }
}

impl From<Waiting> for BoxedOperation {
    fn from(waiting: Waiting) -> Self {
        BoxedOperation::new(waiting)
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").finish_non_exhaustive()
    }
}

/// What a task and its operation share. Of the user's code nothing runs with it locked.
#[derive(Default)]
pub(super) struct Slot(Mutex<Shared>);

#[derive(Default)]
struct Shared {
    /// `None` while the task has been woken and has not been polled yet.
    waker: Option<Waker>,
    standing: Standing,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Standing {
    #[default]
    Waits,
    /// The purgatory has ended it.
    Ended(WaitError),
    /// The task has.
    Left,
}

impl Shared {
    fn ended(&self) -> Option<WaitError> {
        match self.standing {
            Standing::Ended(error) => Some(error),
            Standing::Waits | Standing::Left => None,
        }
    }
}

impl Slot {
    /// Puts a waker in, for a task that is about to look. How the purgatory has ended the wait, if it has.
    pub(super) fn listen(&self, waker: &Waker) -> Option<WaitError> {
        let shared = self.0.lock();
        if shared.waker.as_ref().is_some_and(|there| there.will_wake(waker)) {
            return shared.ended();
        }
        drop(shared);
        let mut waker = Some(waker.clone());
        let mut shared = self.0.lock();
        mem::swap(&mut shared.waker, &mut waker);
        let ended = shared.ended();
        drop(shared);
        drop(waker);
        ended
    }

    /// An event, or a look that the engine makes of itself. Returns whether the task has left.
    fn notify(&self) -> bool {
        let mut shared = self.0.lock();
        let waker = shared.waker.take();
        let has_left = shared.standing == Standing::Left;
        drop(shared);
        if let Some(waker) = waker {
            // This runs in a look, and whatever the waker does may signal.
            defer(|| waker.wake());
        }
        has_left
    }

    /// Ends the wait from the purgatory's side, if nothing has ended it yet.
    fn end(&self, error: WaitError) {
        let mut shared = self.0.lock();
        if shared.standing != Standing::Waits {
            return;
        }
        let waker = shared.waker.take();
        if !planted("end-after-wake") {
            shared.standing = Standing::Ended(error);
        }
        drop(shared);
        if let Some(waker) = waker {
            waker.wake();
        }
        if planted("end-after-wake") {
            self.0.lock().standing = Standing::Ended(error);
        }
    }

    /// Ends the wait from the task's side, and gives its waker back.
    pub(super) fn leave(&self) -> Option<Waker> {
        let mut shared = self.0.lock();
        shared.standing = Standing::Left;
        shared.waker.take()
    }
}

/// Why a wait is over without a value.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitError {
    /// Its time is up, and the look that was made after that said no.
    Elapsed,
    /// [`force_complete`](crate::Purgatory::force_complete) ended it.
    Forced,
    /// Its operation was taken out of the purgatory.
    Cancelled,
    /// The purgatory is shut down.
    Shutdown,
    /// It would have had to wait, and the purgatory holds as many operations as its capacity allows.
    Full,
}

impl WaitError {
    /// How a wait has ended whose operation came to this. A look of the operation's own neither satisfies it, before the
    /// task has left, nor panics: what does is the operation that it was made part of.
    pub(super) const fn of(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Expired => WaitError::Elapsed,
            Outcome::Forced => WaitError::Forced,
            Outcome::Shutdown => WaitError::Shutdown,
            Outcome::Cancelled | Outcome::Satisfied | Outcome::Panicked => WaitError::Cancelled,
        }
    }
}

impl From<RejectReason> for WaitError {
    fn from(reason: RejectReason) -> Self {
        match reason {
            RejectReason::Full => WaitError::Full,
            RejectReason::Shutdown => WaitError::Shutdown,
        }
    }
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WaitError::Elapsed => "the time is up",
            WaitError::Forced => "the wait was ended by force",
            WaitError::Cancelled => "the wait was cancelled",
            WaitError::Shutdown => "the purgatory has been shut down",
            WaitError::Full => "the purgatory is full",
        })
    }
}

impl Error for WaitError {}
