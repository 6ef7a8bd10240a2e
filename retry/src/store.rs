//! Where the items of a queue are kept. What each step means is in `books`; a store says only how it is kept.

use crate::item::{Counts, DeadLetter, Delivery, Failure, ItemId, Receipt};
use ixion::{Clock, Tick};
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Keeps the items of a [`RetryQueue`](crate::RetryQueue).
///
/// Each method is one step: it happens whole or not at all, and what it has answered outlives a crash as far as the
/// store promises. Times are ticks of the queue's clock; a store reads no clock.
///
/// A store of one's own wraps one of those that are here, say to count its steps: what a receipt holds is theirs.
///
/// # Errors
///
/// After an error the step may have been made or not: the queue looks again a second later.
pub trait Store: Send + Sync + 'static {
    /// Why a step was not made.
    type Error: Error + Send + Sync + 'static;

    /// Adds items, in this order, and returns the name of each.
    fn push_all(&self, items: &[(&[u8], New)]) -> Result<Vec<ItemId>, Self::Error>;

    /// Hands out up to `n` of the items that are due, by (due, pushed), until `until`; no more than leaves
    /// `max_in_flight` in flight. If it is fewer than `n`, nothing is left to hand out.
    fn take(
        &self,
        now: Tick,
        n: usize,
        max_in_flight: usize,
        until: Tick,
    ) -> Result<Vec<Delivery>, Self::Error>;

    /// Does with delivered items, in this order, what the worker says. Says of each whether it was done: `false`, and nothing
    /// has changed, if the receipt is used or its time is over.
    fn settle_all(
        &self,
        settlements: Vec<(Receipt, Settlement)>,
        now: Tick,
    ) -> Result<Vec<bool>, Self::Error>;

    /// Returns up to `n` receipts whose time is over and when it was, the earliest first. They are to be
    /// [`reap`](Store::reap)ed.
    fn overdue(&self, now: Tick, n: usize) -> Result<Vec<(Receipt, Tick)>, Self::Error>;

    /// Does with items whose receipts have run out, in this order, what the policy says. Says of each whether it was done:
    /// `false`, and nothing has changed, if it has not run out, or was reaped.
    fn reap(&self, settlements: Vec<(Receipt, Settlement)>, now: Tick) -> Result<Vec<bool>, Self::Error>;

    /// Returns when, after `now`, the next item becomes due or the next receipt runs out.
    fn next_change(&self, now: Tick) -> Result<Option<Tick>, Self::Error>;

    /// Returns up to `n` of the dead, by id, from after the given one on.
    fn dead_letters(&self, after: Option<ItemId>, n: usize) -> Result<Vec<DeadLetter>, Self::Error>;

    /// Makes a dead item due, with a fresh budget of attempts and of age. `false` if it is not dead.
    fn redrive(&self, id: ItemId, now: Tick) -> Result<bool, Self::Error>;

    /// Forgets a dead item. `false` if it is not dead.
    fn purge(&self, id: ItemId) -> Result<bool, Self::Error>;

    /// Returns how many items there are.
    fn counts(&self) -> Result<Counts, Self::Error>;

    /// Returns the clock of all who share the store: a queue goes by it that was given [no other](crate::Builder::clock).
    ///
    /// What is provided returns none: for a store that is one process's.
    fn own_clock(&self) -> Option<Arc<dyn Clock>> {
        None
    }

    /// Is called once, when the queue is made. A store that others change too [tells](Changed) the queue of it; with one that
    /// does not, what others add is taken, but wakes nobody here.
    ///
    /// What is provided does nothing: for a store that is one process's.
    fn watch(&self, changed: Changed) {
        drop(changed);
    }

    /// [Adds](Store::push_all) an item.
    fn push(&self, payload: &[u8], new: New) -> Result<ItemId, Self::Error> {
        Ok(self.push_all(&[(payload, new)])?[0])
    }

    /// [Settles](Store::settle_all) a delivery.
    fn settle(&self, receipt: &Receipt, now: Tick, settlement: Settlement) -> Result<bool, Self::Error> {
        Ok(self.settle_all(vec![(*receipt, settlement)], now)?.contains(&true))
    }
}

/// With which a store tells its queue of what others have changed: those that wait look, or an alarm is set for when they
/// shall.
///
/// It holds nothing of the queue. It asks the store nothing before it returns, and may be called by any thread; in a queue
/// that its owner [drives](crate::RetryQueue::drive) the time to the next drive may be shorter afterwards.
#[derive(Clone)]
pub struct Changed(Arc<dyn Fn(Effect) + Send + Sync>);

/// What becomes of a delivered item.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settlement {
    /// It is done, and forgotten.
    Done,
    /// It stays with the worker until then.
    Extend(Tick),
    /// It is delivered again.
    Retry {
        /// When.
        due: Tick,
        /// How long the policy, or the worker, made it wait.
        delay: Duration,
        /// What went wrong.
        failure: Failure,
    },
    /// It is delivered no more.
    Bury(Failure),
}

/// What those who wait must know of a step.
#[derive(Clone, Copy)]
pub(crate) struct Effect {
    /// One less is in flight.
    pub(crate) makes_room: bool,
    /// From when on an item may be taken.
    pub(crate) due: Option<Tick>,
    /// When an item is to be taken back.
    pub(crate) runs_out: Option<Tick>,
}

/// How an item begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct New {
    /// When it was pushed.
    pub pushed: Tick,
    /// When it becomes due; `None`: it is dead.
    pub due: Option<Tick>,
    /// How often it was delivered elsewhere.
    pub attempt: u32,
    /// How long it is delayed.
    pub delay: Duration,
    /// How its last delivery elsewhere has failed.
    pub failure: Option<Failure>,
}

impl Changed {
    pub(crate) fn new(tell: impl Fn(Effect) + Send + Sync + 'static) -> Self {
        Changed(Arc::new(tell))
    }

    /// An item may be taken from then on: one that waits looks. For [`Tick::ZERO`], or any time that is past, it looks at once,
    /// as it must when there is room in flight.
    pub fn due(&self, at: Tick) {
        (self.0)(Effect { makes_room: false, due: Some(at), runs_out: None });
    }

    /// A receipt may run out then: the queue looks for what has, and lets one that waits look. For [`Tick::ZERO`] it does so at
    /// its next drive: this is for a store that does not know what has changed.
    pub fn runs_out(&self, at: Tick) {
        (self.0)(Effect { makes_room: false, due: None, runs_out: Some(at) });
    }
}

impl fmt::Debug for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changed").finish_non_exhaustive()
    }
}

impl New {
    /// An item that is due when it is pushed, and was not delivered before.
    #[must_use]
    pub fn at(pushed: Tick) -> Self {
        New { pushed, due: Some(pushed), attempt: 0, delay: Duration::ZERO, failure: None }
    }

    pub(crate) fn effect(&self) -> Effect {
        Effect { makes_room: false, due: self.due, runs_out: None }
    }
}

impl Settlement {
    pub(crate) fn effect(&self) -> Effect {
        let done = Effect { makes_room: true, due: None, runs_out: None };
        match self {
            Settlement::Done | Settlement::Bury(_) => done,
            Settlement::Extend(until) => Effect { makes_room: false, due: None, runs_out: Some(*until) },
            Settlement::Retry { due, .. } => Effect { due: Some(*due), ..done },
        }
    }
}
