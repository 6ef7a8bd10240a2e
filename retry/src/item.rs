//! What the queue speaks of: items, receipts, failures, dead letters.

use ixion::Tick;
use std::fmt;
use std::time::Duration;

/// Names an item of a store for ever, but for a Redis that loses what it has answered: it gives those ids again. Ids rise in
/// the order of pushing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemId(u64);

/// An item in a worker's hands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delivery {
    /// What was pushed.
    pub payload: Vec<u8>,
    /// With which the worker says what has become of it.
    pub receipt: Receipt,
}

/// The right to say what has become of one delivery of an item. It is good until it is used or its time runs out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Receipt {
    pub(crate) id: ItemId,
    /// Which delivery of the item it is, of all that there ever were. A receipt is good by this, its item's name and the time of
    /// its pushing.
    pub(crate) delivery: u64,
    pub(crate) attempt: u32,
    pub(crate) previous: Duration,
    pub(crate) round: u32,
    pub(crate) pushed: Tick,
}

/// What a worker says of a delivery, in a [batch](crate::RetryQueue::settle_all).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// As [`ack`](crate::RetryQueue::ack).
    Ack,
    /// As [`nack`](crate::RetryQueue::nack), with the reason.
    Nack(String),
    /// As [`nack_after`](crate::RetryQueue::nack_after), with the delay and the reason.
    NackAfter(Duration, String),
    /// As [`extend`](crate::RetryQueue::extend).
    Extend(Duration),
}

/// How a delivery failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// How often the item had been brought back from the dead letter before.
    pub round: u32,
    /// Which delivery of that round it was: 1 for the first.
    pub attempt: u32,
    /// When, by the queue's clock: with [`UnixClock`](crate::UnixClock) and the clock of a Redis,
    /// [`as_u64`](Tick::as_u64) is in milliseconds since 1970.
    pub at: Tick,
    /// What the worker said of it, cut off after [`REASON`] bytes; or that its time ran out.
    pub reason: String,
}

/// An item that is delivered no more, until it is redriven.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetter {
    /// Its name.
    pub id: ItemId,
    /// What was pushed.
    pub payload: Vec<u8>,
    /// How often it was delivered since it was pushed or last redriven.
    pub attempts: u32,
    /// Its failures, the latest last: no more than [`HISTORY`], the earliest are forgotten.
    pub history: Vec<Failure>,
}

/// How many items are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Wait to be delivered, due or not.
    pub waiting: usize,
    /// Are with a worker.
    pub in_flight: usize,
    /// Are dead.
    pub dead: usize,
}

/// How many failures of an item are kept.
pub const HISTORY: usize = 32;

/// How many bytes of a reason are kept: enough for a line or two. Each failure writes the whole history again, and what is
/// given as a reason may be somebody's error page.
pub const REASON: usize = 1024;

impl Failure {
    pub(crate) fn new(round: u32, attempt: u32, at: Tick, mut reason: String) -> Self {
        reason.truncate(reason.floor_char_boundary(REASON));
        Failure { round, attempt, at, reason }
    }
}

impl ItemId {
    /// Makes an id of its number, such as one that was printed.
    #[must_use]
    pub const fn from_u64(id: u64) -> Self {
        ItemId(id)
    }

    /// Returns the id as a number.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Receipt {
    /// Returns the item's name.
    #[must_use]
    pub fn id(&self) -> ItemId {
        self.id
    }

    /// Returns which delivery this is since the item was pushed or last redriven: 1 for the first.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }
}
