//! Which offsets of a partition are with a worker, which wait for their next attempt, and what may be committed.

use crate::backoff::{Backoff, Failed, Verdict};
use ixion::{Clock, Resolution, Tick, TimerId, TimingWheel};
use std::collections::{BTreeMap, VecDeque};
use std::error::Error;
use std::fmt;
use std::time::Duration;

/// The offsets of one partition that were handed out and are not finished.
///
/// A consumer that hands records to workers must know three things: which are in flight, which of those have failed or
/// were not acknowledged in time and are to be delivered again, and which offset it may commit. The last is
/// [`committable`](Leases::committable): the lowest that is not finished. Nothing is finished but by
/// [`ack`](Leases::ack) and [`buried`](Leases::buried), so a failed offset is never passed.
///
/// Only what is not finished is kept: however long one offset stays, and however many above it are acknowledged
/// meanwhile, there are never more entries than `max_in_flight`.
///
/// An acknowledgement counts if the call comes before the deadline. A lease that runs out has failed at its deadline,
/// whenever that is noticed.
///
/// Records are not kept here, offsets alone: keep a record until its offset is finished, since it may be delivered again.
/// With worker threads, let one thread own this and have the workers send it their leases back, or put it under a mutex. The
/// time of a lease begins with the call, so what waits in front of busy workers spends it: hand out no more than are
/// worked at, or give it that much longer.
///
/// So a record is delivered at least once. `retry/examples/exactly_once.rs` shows how its effect is made once.
///
/// # Examples
///
/// ```
/// use ixion::ManualClock;
/// use ixion_retry::{Backoff, Leases, Next};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let backoff = Backoff::fixed(Duration::from_secs(10)).max_attempts(2);
/// let mut leases = Leases::new(clock.clone(), backoff, 100);
/// leases.assign(40);
///
/// let visibility = Duration::from_secs(60);
/// let forty = leases.deliver(40, visibility)?;
/// let next = leases.deliver(41, visibility)?;
/// assert!(leases.ack(next));
/// assert!(leases.fail(forty));
/// assert_eq!(leases.committable(), 40, "41 is done, but 40 is not");
///
/// clock.advance(Duration::from_secs(10));
/// let Some(Next::Deliver(again)) = leases.next(visibility) else { panic!("40 is due") };
/// assert_eq!((again.offset(), again.attempt()), (40, 2));
/// clock.advance(visibility); // nobody acknowledges it, and it was the last attempt
/// assert_eq!(leases.next(visibility), Some(Next::Bury { offset: 40, attempts: 2 }));
/// // … it is written to a dead-letter topic, and then:
/// assert!(leases.buried(40));
/// assert_eq!(leases.committable(), 42);
/// # Ok::<(), ixion_retry::Refused>(())
/// ```
#[must_use]
pub struct Leases<C> {
    clock: C,
    backoff: Backoff,
    max_in_flight: usize,
    /// The timers of what is leased or waits.
    wheel: TimingWheel<u64>,
    unfinished: BTreeMap<u64, Entry>,
    /// What [`next`](Leases::next) gives out, in the order in which it became due.
    ready: VecDeque<u64>,
    /// The highest offset that was delivered, or finished when the partition was assigned.
    highest: Option<u64>,
    /// How often the partition was assigned.
    assignment: u64,
}

/// The right to one delivery of an offset. It is good until it is used, runs out, or the partition is assigned anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    offset: u64,
    attempt: u32,
    assignment: u64,
}

/// What is to be done next, as [`Leases::next`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Next {
    /// Deliver the offset once more.
    Deliver(Lease),
    /// Bring the offset to the dead letter, then call [`Leases::buried`].
    Bury {
        /// The offset.
        offset: u64,
        /// How often it was delivered.
        attempts: u32,
    },
}

/// Why an offset was not taken up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// `max_in_flight` offsets are not finished.
    Full,
    /// It was delivered and is not finished: it comes out of [`Leases::next`] when its time has come.
    Unfinished,
    /// It lies below one that was delivered, and is finished, or was jumped over.
    Finished,
}

struct Entry {
    state: State,
    attempt: u32,
    delay: Duration,
    first: Duration,
}

enum State {
    Leased(TimerId),
    Waiting,
    Due,
    Dying,
    Dead,
}

impl<C: Clock> Leases<C> {
    /// Makes the books of a partition that starts at offset 0, for at most so many offsets that are not finished.
    pub fn new(clock: C, backoff: Backoff, max_in_flight: usize) -> Self {
        let now = clock.resolution().floor(clock.elapsed());
        Leases {
            clock,
            backoff,
            max_in_flight,
            wheel: TimingWheel::starting_at(now),
            unfinished: BTreeMap::new(),
            ready: VecDeque::new(),
            highest: None,
            assignment: 0,
        }
    }

    /// Starts anew from a committed offset: after a restart, or when the partition was taken away and has come back.
    /// What was out is forgotten, and its leases change nothing any more.
    pub fn assign(&mut self, committed: u64) {
        self.wheel = TimingWheel::starting_at(self.wheel.now());
        self.unfinished.clear();
        self.ready.clear();
        self.highest = committed.checked_sub(1);
        self.assignment += 1;
    }

    /// Hands out an offset for the first time, for so long. Offsets rise; some may be missing, as in a compacted topic.
    ///
    /// # Errors
    ///
    /// There is no room, or the offset was delivered before. Nothing has changed then.
    pub fn deliver(&mut self, offset: u64, visibility: Duration) -> Result<Lease, Refused> {
        let now = self.pass_time();
        if self.unfinished.contains_key(&offset) {
            return Err(Refused::Unfinished);
        }
        if Some(offset) <= self.highest {
            return Err(Refused::Finished);
        }
        if self.unfinished.len() >= self.max_in_flight {
            return Err(Refused::Full);
        }
        self.highest = Some(offset);
        let entry = Entry { state: State::Due, attempt: 0, delay: Duration::ZERO, first: now };
        self.unfinished.insert(offset, entry);
        Ok(self.lease(offset, now, visibility))
    }

    /// Finishes the offset. `false`: the lease had run out or was used, and the offset is delivered again.
    pub fn ack(&mut self, lease: Lease) -> bool {
        self.release(lease).is_some_and(|_| self.unfinished.remove(&lease.offset).is_some())
    }

    /// Says that the delivery has failed: the policy decides when there is another. `false` as in [`ack`](Leases::ack).
    pub fn fail(&mut self, lease: Lease) -> bool {
        let Some(now) = self.release(lease) else { return false };
        self.failed(lease.offset, now);
        true
    }

    /// Sets the deadline of a lease to so long from now. `false` as in [`ack`](Leases::ack).
    pub fn extend(&mut self, lease: Lease, visibility: Duration) -> bool {
        let now = self.pass_time();
        let Some(timer) = self.timer_of(lease) else { return false };
        self.wheel.restart_timer(timer, self.after(now, visibility))
    }

    /// Returns what is due, in the order in which it became due; a delivery is leased for so long from now.
    pub fn next(&mut self, visibility: Duration) -> Option<Next> {
        let now = self.pass_time();
        let offset = self.ready.pop_front()?;
        let entry = self.unfinished.get_mut(&offset).expect("what is ready is not finished");
        if let State::Dying = entry.state {
            entry.state = State::Dead;
            return Some(Next::Bury { offset, attempts: entry.attempt });
        }
        Some(Next::Deliver(self.lease(offset, now, visibility)))
    }

    /// Finishes an offset that [`next`](Leases::next) gave out to be buried. `false` for any other.
    pub fn buried(&mut self, offset: u64) -> bool {
        let is_dead = matches!(self.unfinished.get(&offset), Some(Entry { state: State::Dead, .. }));
        is_dead && self.unfinished.remove(&offset).is_some()
    }

    /// Returns the lowest offset that is not finished, or the one after the highest delivered: what to commit.
    #[must_use]
    pub fn committable(&self) -> u64 {
        match self.unfinished.first_key_value() {
            Some((lowest, _)) => *lowest,
            None => self.highest.map_or(0, |highest| highest.saturating_add(1)),
        }
    }

    /// Returns how many offsets are not finished.
    #[must_use]
    pub fn len(&self) -> usize {
        self.unfinished.len()
    }

    /// Whether all that was delivered is finished.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.unfinished.is_empty()
    }

    /// Returns how long it takes until [`next`](Leases::next) may have something that it has not now; `None`: until
    /// another method is called.
    #[must_use]
    pub fn time_to_next(&self) -> Option<Duration> {
        if !self.ready.is_empty() {
            return Some(Duration::ZERO);
        }
        let due = self.wheel.next_expiration().filter(|due| *due < Tick::MAX)?;
        Some(self.resolution().start_of(due).saturating_sub(self.clock.elapsed()))
    }

    fn resolution(&self) -> Resolution {
        self.clock.resolution()
    }

    fn after(&self, now: Duration, span: Duration) -> Tick {
        self.resolution().ceil(now.saturating_add(span))
    }

    /// Lets the leases run out whose time is over, and makes due what has waited long enough. Returns the time.
    fn pass_time(&mut self) -> Duration {
        let now = self.clock.elapsed();
        let tick = self.resolution().floor(now);
        while let Some(expired) = self.wheel.pop_expired(tick) {
            let offset = expired.item;
            match self.unfinished.get_mut(&offset) {
                Some(Entry { state: State::Leased(_), .. }) => {
                    self.failed(offset, self.resolution().start_of(expired.deadline));
                }
                Some(entry) => {
                    entry.state = State::Due;
                    self.ready.push_back(offset);
                }
                None => debug_assert!(false, "offset {offset} is finished and has a timer"),
            }
        }
        now
    }

    fn lease(&mut self, offset: u64, now: Duration, visibility: Duration) -> Lease {
        let timer = self.wheel.start_timer(self.after(now, visibility), offset);
        let entry = self.unfinished.get_mut(&offset).expect("it is not finished");
        entry.state = State::Leased(timer);
        entry.attempt = entry.attempt.saturating_add(1);
        Lease { offset, attempt: entry.attempt, assignment: self.assignment }
    }

    /// The timer of a lease that holds.
    fn timer_of(&self, lease: Lease) -> Option<TimerId> {
        match self.unfinished.get(&lease.offset)? {
            Entry { state: State::Leased(timer), attempt, .. }
                if (*attempt, self.assignment) == (lease.attempt, lease.assignment) =>
            {
                Some(*timer)
            }
            _ => None,
        }
    }

    /// Ends a lease if it holds. Returns the time.
    fn release(&mut self, lease: Lease) -> Option<Duration> {
        let now = self.pass_time();
        self.wheel.stop_timer(self.timer_of(lease)?).map(|_| now)
    }

    /// Decides about an offset whose delivery has failed then, and that no timer holds any more.
    fn failed(&mut self, offset: u64, at: Duration) {
        let entry = self.unfinished.get_mut(&offset).expect("it is not finished");
        let age = at.saturating_sub(entry.first);
        let failed = Failed { attempt: entry.attempt, previous: entry.delay, age };
        match self.backoff.decide(failed, offset) {
            Verdict::Retry(delay) => {
                let due = self.clock.resolution().ceil(at.saturating_add(delay));
                entry.delay = delay;
                entry.state = State::Waiting;
                self.wheel.start_timer(due, offset);
            }
            Verdict::Dead(_) => {
                entry.state = State::Dying;
                self.ready.push_back(offset);
            }
        }
    }
}

impl<C> fmt::Debug for Leases<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leases")
            .field("unfinished", &self.unfinished.len())
            .field("ready", &self.ready.len())
            .field("highest", &self.highest)
            .finish_non_exhaustive()
    }
}

impl Lease {
    /// Returns the offset.
    #[must_use]
    pub fn offset(self) -> u64 {
        self.offset
    }

    /// Returns which delivery this is: 1 for the first.
    #[must_use]
    pub fn attempt(self) -> u32 {
        self.attempt
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::Full => "as many offsets are in flight as may be",
            Refused::Unfinished => "the offset was delivered and is not finished",
            Refused::Finished => "the offset lies below one that was delivered",
        })
    }
}

impl Error for Refused {}
