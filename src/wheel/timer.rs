//! What a caller sees of a timer: its name, and what it comes to.

use core::fmt;
use core::num::NonZeroU32;

use crate::tick::Tick;

/// The name of a timer: which slot, and which of those that used the slot one after the other.
///
/// Never given out twice by the same wheel. It means something only to the wheel that gave it: another one
/// answers for a timer of its own, or for none.
#[doc(alias = "TimerTaskEntry")]
#[doc(alias = "TimerHandle")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerId {
    pub(super) index: u32,
    pub(super) generation: NonZeroU32,
}

/// A timer whose deadline has come.
///
/// Whoever answers each with a new one that is due as well does not come to an end. Take all that is due first, and
/// start what is periodic again afterwards.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Expired<T> {
    /// The name that it had. It is no longer valid.
    pub id: TimerId,
    /// The deadline that it was given.
    pub deadline: Tick,
    /// What it kept.
    pub item: T,
}

/// What a bounded pop came to; see [`pop_expired_within`](super::TimingWheel::pop_expired_within).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Step<T> {
    /// A timer has expired.
    Expired(Expired<T>),
    /// The budget is used up. There may be more that is due.
    Paused,
    /// Nothing more is due.
    Done,
}

/// What is at hand; see [`bring_to_hand`](super::TimingWheel::bring_to_hand).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AtHand {
    /// A timer with this deadline. It may be after the `now` that was asked for, if the wheel has been later than that
    /// and the timer was started with a deadline in between.
    Due(Tick),
    /// The budget was used up before that was known.
    Paused,
    /// Nothing is due.
    Nothing,
}

impl TimerId {
    /// The id that [`as_u64`](Self::as_u64) made a number of. Any other number gives an id that names nothing.
    pub(crate) const fn from_u64(number: u64) -> Self {
        let generation = match NonZeroU32::new((number >> 32) as u32) {
            Some(generation) => generation,
            None => NonZeroU32::MAX,
        };
        TimerId { index: number as u32, generation }
    }

    /// Returns the id as a number.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        (self.generation.get() as u64) << 32 | self.index as u64
    }
}

impl fmt::Debug for TimerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TimerId({}.{})", self.index, self.generation)
    }
}
