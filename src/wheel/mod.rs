//! A hierarchical timing wheel: timers that start, stop, move and expire in constant time.
//!
//! **The problem.** A server keeps a timer for every request that waits. Nearly all are stopped, because the answer
//! came; few expire. There may be millions, so starting and stopping must not depend on how many there are.
//!
//! **The simple ways, and where they fail.** A sorted list starts a timer in O(n), a heap or a tree in O(log n),
//! each step of it a cache miss. A ring of slots, one for each tick, starts and stops in O(1), but it is as long
//! as the longest timeout; and if deadlines are folded into a shorter ring, each turn walks past all those that
//! are due in a later one.
//!
//! **This way.** Look at time as a clock does: a second hand, a minute hand, an hour hand. Write a tick as a
//! number of eleven digits in base 64. *Level* `l` of the wheel is a ring of 64 *buckets*, one for each value of
//! digit `l`; a bucket of level 0 holds one tick, one of level 1 holds a block of 64, one of level 2 a block of
//! 4096, and eleven levels hold every `u64`. A timer goes to the level of the *highest digit in which its deadline
//! differs from the wheel's position*, in the bucket of the deadline's digit there. When the position reaches the
//! block of a bucket, the bucket is *cascaded*: each of its timers now differs from the position in a lower digit,
//! and moves to that level, until it is in level 0, where it expires.
//!
//! **By hand.** The position is 0, and there are timers at 3, 70, 75 and 5000 (which is `1·64² + 14·64 + 8`):
//!
//! ```text
//!             slot  0   1   2   3   4  ...  8  ...  14 ...
//!   level 0         ^   .   .  (3)  .       .       .        a slot is a tick
//!   level 1         ^ (70,75)   .   .       .       .        a slot is 64 ticks
//!   level 2         ^ (5000).   .   .       .       .        a slot is 4096 ticks
//! ```
//!
//! At 3 the first one expires. Level 0 is then empty, so the next is in level 1, whose first bucket begins at 64.
//! At 64 that is cascaded: 70 is now `64 + 6` and 75 is `64 + 11`, in slots 6 and 11 of level 0. At 4096 level 2
//! follows: 5000 goes to slot 14 of level 1 (its block begins at 4992), and at 4992 to slot 8 of level 0. The page
//! [`by_hand`](crate::guide::by_hand) draws each of these steps.
//!
//! ```
//! use ixion::Tick;
//! use ixion::wheel::TimingWheel;
//!
//! let mut wheel = TimingWheel::new();
//! for deadline in [5000, 75, 3, 70] {
//!     wheel.start_timer(Tick::new(deadline), deadline);
//! }
//! assert_eq!(wheel.next_expiration(), Some(Tick::new(3)));
//! assert_eq!(wheel.pop_expired(Tick::new(64)).map(|it| it.item), Some(3));
//! assert_eq!(wheel.pop_expired(Tick::new(64)), None);
//! assert_eq!(wheel.next_expiration(), Some(Tick::new(70))); // exact, not just the start of a block
//!
//! // One step may be as long as you like; order is kept.
//! let rest: Vec<u64> = std::iter::from_fn(|| wheel.pop_expired(Tick::new(5000))).map(|it| it.item).collect();
//! assert_eq!(rest, [70, 75, 5000]);
//! ```
//!
//! **Why the order is kept.** All of level `l` is due before all of level `l + 1`, because everything in level `l`
//! agrees with the position in digit `l + 1`, and level `l + 1` is ahead of it there; so the next timer is in the first
//! occupied bucket of the lowest occupied level, which is two bit scans away, whatever lies between. And timers with
//! equal deadlines are always in one bucket, in the order in which they were started: as long as the position is
//! outside a bucket's block they can only go to that bucket, and when it enters the block, the bucket is cascaded front
//! to back before anything else can be put into the levels below. No sequence number is needed.
//!
//! **Buckets are lists of arrays**, of chunks of 64 timers: read in a stream when they move or expire, and stopped one by
//! one without a look at the array. How is explained in the private module `chunk`. No call moves more than 64 timers or copies
//! them to a larger table, but a `pop_expired` that cascades; for that one there is [`TimingWheel::pop_expired_within`],
//! which stops half-way.
//!
//! **What it costs.** Starting, stopping and moving a timer: O(1), at most two chunks of work. Expiring: O(1),
//! and at most ten moves before, one for each level; in practice one or two. Memory: for an 8-byte item 16 bytes in
//! its slot and 12 in a chunk whose room is about two thirds in use: 30 to 40.
//!
//! **Source.** G. Varghese, T. Lauck, *Hashed and Hierarchical Timing Wheels*, SOSP 1987, scheme 7. This module is pure:
//! it knows no clock, lock or thread. Whoever owns the wheel tells it what time it is.

mod chunk;
mod invariants;
mod late;
mod level;
mod occupancy;
mod pool;
mod read;
mod slots;
#[cfg(test)]
mod tests;
mod timer;
mod turn;
mod waste;

use core::fmt;

use chunk::Place;
use late::Late;
use level::{At, Levels};
use slots::Slots;
use turn::Due;

use crate::tick::Tick;

pub(crate) use occupancy::COUNT_STEP;
pub use occupancy::Occupancy;
pub(crate) use timer::AtHand;
pub use timer::{Expired, Step, TimerId};
pub(crate) use waste::Waste;

/// A set of timers, each with a deadline and an item that it gives back when the deadline has come.
///
/// See the [module](self). It is scheme 7 of Varghese and Lauck; Kafka has one of the same name, and Netty's
/// `HashedWheelTimer` is their scheme 6. Timers expire by (deadline, order of starting), whatever the size of the step. Two deadlines
/// are special:
///
/// * [`Tick::MAX`] is *never*: the timer is kept, counted and can be stopped, but does not expire.
/// * One in the past (before [`now`](Self::now)) is due at once; it is returned as it was given, and takes its place
///   among the others that are due.
///
/// # Examples
///
/// ```
/// use ixion::Tick;
/// use ixion::wheel::TimingWheel;
///
/// let mut wheel = TimingWheel::new();
/// let tea = wheel.start_timer(Tick::new(300), "tea");
/// let eggs = wheel.start_timer(Tick::new(240), "eggs");
/// assert!(wheel.restart_timer(tea, Tick::new(200)));
/// assert_eq!(wheel.stop_timer(eggs), Some("eggs"));
///
/// let expired = wheel.pop_expired(Tick::new(250)).unwrap();
/// assert_eq!((expired.id, expired.deadline, expired.item), (tea, Tick::new(200), "tea"));
/// assert_eq!(wheel.stop_timer(tea), None);
/// assert!(wheel.is_empty());
/// ```
#[doc(alias = "HashedWheelTimer")]
#[doc(alias = "DelayQueue")]
#[doc(alias = "SystemTimer")]
pub struct TimingWheel<T> {
    slots: Slots<T>,
    levels: Levels,
    late: Late,
    /// No deadline in `levels` is before it.
    position: u64,
    /// The bucket that is being cascaded, if its level is above 0. The position is then the start of its block, and until
    /// it is empty, what is started in that block goes behind what still waits in it.
    cascading: At,
    /// Nothing is due before it. Where timers are few most pops find nothing, and this is all that they look at. It is 0
    /// where a pop has something else to do.
    quiet_until: u64,
    /// How many timers have moved down a level.
    cascaded: u64,
}

impl<T> TimingWheel<T> {
    /// Makes an empty wheel at tick 0.
    #[must_use]
    pub fn new() -> Self {
        TimingWheel::starting_at(Tick::ZERO)
    }

    /// Makes an empty wheel at `now`. ([`Tick::MAX`] is not a time: it is taken as the tick before.)
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::{Tick, TimingWheel};
    ///
    /// let mut wheel = TimingWheel::starting_at(Tick::new(1_000));
    /// wheel.start_timer(Tick::new(1_005), "soon");
    /// assert_eq!(wheel.now(), Tick::new(1_000));
    /// ```
    #[must_use]
    pub fn starting_at(now: Tick) -> Self {
        TimingWheel {
            slots: Slots::new(),
            levels: Levels::new(),
            late: Late::default(),
            position: now.as_u64().min(LAST),
            cascading: 0,
            quiet_until: 0,
            cascaded: 0,
        }
    }

    /// Starts a timer that expires at `deadline` and gives `item` back.
    ///
    /// Every deadline is legal: a past one is due at once, [`Tick::MAX`] never.
    ///
    /// # Panics
    ///
    /// If the wheel has used up its 2^32 places. With 64 to a chunk and gaps between them, that is at a few hundred
    /// million timers at the earliest.
    ///
    /// # Complexity
    ///
    /// O(1), and O(log l) with l such timers for a deadline in the past.
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::{Tick, TimingWheel};
    ///
    /// let mut wheel = TimingWheel::starting_at(Tick::new(100));
    /// wheel.start_timer(Tick::new(250), "later");
    /// wheel.start_timer(Tick::new(40), "in the past: due at once");
    /// wheel.start_timer(Tick::MAX, "never");
    /// assert_eq!(wheel.pop_expired(Tick::new(100)).unwrap().item, "in the past: due at once");
    /// assert_eq!(wheel.pop_expired(Tick::new(100)), None);
    /// ```
    #[doc(alias = "schedule")]
    #[doc(alias = "insert")]
    #[doc(alias = "add")]
    #[inline]
    pub fn start_timer(&mut self, deadline: Tick, item: T) -> TimerId {
        let index = self.slots.next();
        let place = self.attach(index, deadline.as_u64());
        self.slots.occupy(index, place, item)
    }

    /// Stops a timer and returns its item; `None` if it has expired or was stopped before.
    ///
    /// # Complexity
    ///
    /// O(1): at most two chunks of timers are looked at.
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::{Tick, TimingWheel};
    ///
    /// let mut wheel = TimingWheel::new();
    /// let timer = wheel.start_timer(Tick::new(250), "request 7");
    /// assert_eq!(wheel.stop_timer(timer), Some("request 7"));
    /// assert_eq!(wheel.stop_timer(timer), None); // stopped, or expired: the same answer
    /// ```
    #[doc(alias = "cancel")]
    #[doc(alias = "remove")]
    #[inline]
    pub fn stop_timer(&mut self, id: TimerId) -> Option<T> {
        let (place, item) = self.slots.take(id)?;
        self.detach(id.index, place);
        Some(item)
    }

    /// Moves a timer to another deadline, earlier or later, as if it had been stopped and started again, but it
    /// keeps its id. Returns whether there is such a timer.
    ///
    /// # Complexity
    ///
    /// That of [`stop_timer`](Self::stop_timer) and [`start_timer`](Self::start_timer).
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::{Tick, TimingWheel};
    ///
    /// let mut wheel = TimingWheel::new();
    /// let session = wheel.start_timer(Tick::new(10), "session");
    /// assert!(wheel.restart_timer(session, Tick::new(20))); // a heartbeat
    /// assert_eq!(wheel.pop_expired(Tick::new(19)), None);
    /// assert_eq!(wheel.pop_expired(Tick::new(20)).unwrap().id, session);
    /// assert!(!wheel.restart_timer(session, Tick::new(30)));
    /// ```
    #[doc(alias = "reschedule")]
    #[doc(alias = "reset")]
    #[inline]
    pub fn restart_timer(&mut self, id: TimerId, deadline: Tick) -> bool {
        let Some(place) = self.slots.place(id) else {
            return false;
        };
        self.detach(id.index, place);
        let place = self.attach(id.index, deadline.as_u64());
        self.slots.set_place(id.index, place);
        true
    }

    /// Returns the next timer whose deadline `now` has reached, by (deadline, order of starting).
    ///
    /// Call it until it returns `None`; then nothing is due. Between the calls timers may be started, moved and stopped:
    /// what is then due takes its place. A `now` before [`now`](Self::now) counts as that: time does not go back.
    /// [`Tick::MAX`] counts as the tick before it, so *never* is not reached.
    ///
    /// # Complexity
    ///
    /// O(1) for a timer, whatever the size of the step, plus, amortised over its life, one move for each level that it
    /// comes down, ten at most. A call that enters the block of a crowded bucket moves all that is in it; see
    /// [`pop_expired_within`](Self::pop_expired_within).
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::{Tick, TimingWheel};
    ///
    /// let mut wheel = TimingWheel::new();
    /// for (deadline, item) in [(7, 'c'), (5, 'a'), (5, 'b'), (9, 'd')] {
    ///     wheel.start_timer(Tick::new(deadline), item);
    /// }
    /// let mut due = String::new();
    /// while let Some(expired) = wheel.pop_expired(Tick::new(8)) {
    ///     due.push(expired.item);
    /// }
    /// assert_eq!(due, "abc");
    /// ```
    #[doc(alias = "poll")]
    #[doc(alias = "advance")]
    #[inline]
    pub fn pop_expired(&mut self, now: Tick) -> Option<Expired<T>> {
        let mut budget = usize::MAX;
        match self.pop_expired_within(now, &mut budget) {
            Step::Expired(expired) => Some(expired),
            Step::Done | Step::Paused => None,
        }
    }

    /// Does what [`pop_expired`](Self::pop_expired) does, but not more of it than `budget` allows.
    ///
    /// A timer that expires costs one, and so does each that is moved down a level; the last step may overdraw the budget
    /// by less than a chunk of timers (64). With a budget of 0 nothing is done. After [`Step::Paused`] the wheel is ready
    /// for every call, and order is kept.
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::Tick;
    /// use ixion::wheel::{Step, TimingWheel};
    ///
    /// let mut wheel = TimingWheel::new();
    /// for n in 0..1000 {
    ///     wheel.start_timer(Tick::new(100), n); // all in one bucket of level 1
    /// }
    /// let (mut fired, mut passes) = (0, 0);
    /// loop {
    ///     let mut budget = 256; // one hold of a lock, say
    ///     passes += 1;
    ///     let last = loop {
    ///         match wheel.pop_expired_within(Tick::new(100), &mut budget) {
    ///             Step::Expired(_) => fired += 1,
    ///             last => break last,
    ///         }
    ///     };
    ///     if last == Step::Done {
    ///         break;
    ///     }
    /// }
    /// assert_eq!(fired, 1000);
    /// assert!(passes >= 8); // 1000 moves and 1000 expiries
    /// ```
    #[inline]
    pub fn pop_expired_within(&mut self, now: Tick, budget: &mut usize) -> Step<T> {
        if *budget > 0 && self.is_quiet(now) {
            return Step::Done;
        }
        self.pop_due(now, budget)
    }

    #[inline(never)]
    fn pop_due(&mut self, now: Tick, budget: &mut usize) -> Step<T> {
        let (index, deadline) = match self.advance(now, budget) {
            Due::Nothing => return Step::Done,
            Due::Paused => return Step::Paused,
            Due::Late(deadline, index) => {
                self.late.remove(index);
                (index, deadline)
            }
            Due::Tick(at) => (self.levels.pop(at), self.position),
        };
        *budget -= 1;
        let (id, item) = self.slots.remove(index);
        Step::Expired(Expired { id, deadline: Tick::new(deadline), item })
    }

    /// Brings the first timer that is due at `now` to hand, within a budget of moves; a pop or peek that follows moves
    /// nothing more.
    pub(crate) fn bring_to_hand(&mut self, now: Tick, budget: &mut usize) -> AtHand {
        if *budget > 0 && self.is_quiet(now) {
            return AtHand::Nothing;
        }
        match self.advance(now, budget) {
            Due::Nothing => AtHand::Nothing,
            Due::Paused => AtHand::Paused,
            Due::Late(deadline, _) => AtHand::Due(Tick::new(deadline)),
            Due::Tick(_) => AtHand::Due(Tick::new(self.position)),
        }
    }

    /// Returns the item that the next [`pop_expired`](Self::pop_expired) with this `now` returns, and leaves it.
    ///
    /// # Complexity
    ///
    /// That of `pop_expired`, which it does all but the last step of.
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::{Tick, TimingWheel};
    ///
    /// let mut wheel = TimingWheel::new();
    /// wheel.start_timer(Tick::new(5), "a");
    /// assert_eq!(wheel.peek_expired(Tick::new(4)), None);
    /// assert_eq!(wheel.peek_expired(Tick::new(5)), Some(&"a"));
    /// assert_eq!(wheel.len(), 1);
    /// ```
    #[doc(alias = "peek")]
    pub fn peek_expired(&mut self, now: Tick) -> Option<&T> {
        let index = match self.advance(now, &mut { usize::MAX }) {
            Due::Nothing | Due::Paused => return None,
            Due::Late(_, index) => index,
            Due::Tick(at) => self.levels.first_in(at).0,
        };
        self.slots.item(index)
    }

    /// Returns the items of all timers that wait, in no particular order, those that never expire included.
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::{Tick, TimingWheel};
    ///
    /// let mut wheel = TimingWheel::new();
    /// wheel.start_timer(Tick::new(5), 1);
    /// wheel.start_timer(Tick::MAX, 2);
    /// assert_eq!(wheel.into_items().sum::<i32>(), 3);
    /// ```
    #[doc(alias = "drain")]
    pub fn into_items(self) -> impl Iterator<Item = T> {
        self.slots.into_items()
    }

    /// Finds a timer its place.
    #[inline(always)]
    fn attach(&mut self, index: u32, deadline: u64) -> Place {
        if deadline > LAST {
            return Place::NEVER;
        }
        if deadline < self.position {
            self.late.push(deadline, index);
            self.quiet_until = 0;
            return Place::LATE;
        }
        let mut at = level::locate(self.position, deadline);
        if level::level(at) < level::level(self.cascading) {
            // Its block is being moved down. It must not overtake those that still wait to be moved.
            at = self.cascading;
        }
        if deadline < self.quiet_until {
            self.quiet_until = level::start_of(self.position, at);
        }
        let slots = &mut self.slots;
        self.levels.push(at, index, deadline, |index, place| slots.set_place(index, place))
    }

    /// Takes a timer out of its place.
    #[inline(always)]
    fn detach(&mut self, index: u32, place: Place) {
        match place {
            Place::NEVER => {}
            Place::LATE => self.late.remove(index),
            place => {
                let slots = &mut self.slots;
                let tidied = self.levels.remove(place, |index, place| slots.set_place(index, place));
                if let Some(at) = tidied {
                    // The earliest deadline may have to be found again, which a pop does.
                    self.quiet_until = 0;
                    if at == self.cascading {
                        self.note_cascaded();
                    }
                }
            }
        }
    }

    #[inline]
    fn earliest(&self, limit: usize) -> Option<Tick> {
        if let Some((deadline, _)) = self.late.first() {
            return Some(Tick::new(deadline));
        }
        let first = self.levels.first()?;
        let mut deadline = self.earliest_in(first, limit);
        if level::level(self.cascading) > 0 {
            // A part of the block has moved down already: both parts are candidates.
            deadline = deadline.min(self.earliest_in(self.cascading, limit));
        }
        Some(Tick::new(deadline))
    }

    /// The earliest deadline in an occupied bucket, or the start of its block.
    #[inline]
    fn earliest_in(&self, at: At, limit: usize) -> u64 {
        let start = level::start_of(self.position, at);
        if level::level(at) == 0 { start } else { self.levels.min(at, limit).unwrap_or(start) }
    }
}

impl<T> Default for TimingWheel<T> {
    fn default() -> Self {
        TimingWheel::new()
    }
}

impl<T> fmt::Debug for TimingWheel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimingWheel")
            .field("now", &self.now())
            .field("len", &self.len())
            .field("next_expiration", &self.next_expiration())
            .finish()
    }
}

/// The last tick that a clock can show; the next one is never.
const LAST: u64 = u64::MAX - 1;
