//! What a wheel says of its timers and of itself; nothing in here moves it on.

use super::chunk::Place;
use super::{TimerId, TimingWheel, level};
use crate::tick::Tick;

impl<T> TimingWheel<T> {
    /// Returns the item of a timer, to be changed; see [`get`](Self::get).
    #[inline]
    pub fn get_mut(&mut self, id: TimerId) -> Option<&mut T> {
        self.slots.get_mut(id)
    }

    /// Returns the item of a timer; `None` if it has expired or was stopped.
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::{Tick, TimingWheel};
    ///
    /// let mut wheel = TimingWheel::new();
    /// let timer = wheel.start_timer(Tick::new(5), 1);
    /// *wheel.get_mut(timer).unwrap() += 1;
    /// assert_eq!(wheel.get(timer), Some(&2));
    /// ```
    #[must_use]
    #[inline]
    pub fn get(&self, id: TimerId) -> Option<&T> {
        self.slots.get(id)
    }

    /// Returns the deadline of a timer as it was given.
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::{Tick, TimingWheel};
    ///
    /// let mut wheel = TimingWheel::new();
    /// let timer = wheel.start_timer(Tick::new(5), ());
    /// assert_eq!(wheel.deadline(timer), Some(Tick::new(5)));
    /// wheel.stop_timer(timer);
    /// assert_eq!(wheel.deadline(timer), None);
    /// ```
    #[must_use]
    pub fn deadline(&self, id: TimerId) -> Option<Tick> {
        let place = self.slots.place(id)?;
        match place {
            Place::NEVER => Some(Tick::MAX),
            Place::LATE => self.late.deadline(id.index).map(Tick::new),
            place => Some(Tick::new(self.levels.deadline(place))),
        }
    }

    /// Returns the earliest deadline, exactly; one in the past if something is due that was not popped yet. `None`: nothing
    /// waits that will expire.
    ///
    /// # Complexity
    ///
    /// O(1) as a rule: level 0 shows it in its bits, a bucket of a higher level keeps it. If just that timer was
    /// stopped, calls look at the bucket's timers, until a pop has done so; a chunk that was looked at once, and has lost
    /// no earliest one since, is then one look for up to 64.
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::{Tick, TimingWheel};
    ///
    /// let mut wheel = TimingWheel::new();
    /// assert_eq!(wheel.next_expiration(), None);
    /// let first = wheel.start_timer(Tick::new(70), ());
    /// wheel.start_timer(Tick::new(5_000), ());
    /// assert_eq!(wheel.next_expiration(), Some(Tick::new(70)));
    /// wheel.stop_timer(first);
    /// assert_eq!(wheel.next_expiration(), Some(Tick::new(5_000)));
    /// ```
    #[doc(alias = "next_deadline")]
    #[doc(alias = "poll_at")]
    #[must_use]
    pub fn next_expiration(&self) -> Option<Tick> {
        self.earliest(usize::MAX)
    }

    /// When to look again, found in bounded steps: the earliest deadline or, where that would take too long to find, the
    /// start of its bucket's block. A pop moves the bucket down then.
    pub(crate) fn next_look(&self) -> Option<Tick> {
        self.earliest(level::SCAN_STEP)
    }

    /// Returns the tick that the wheel has reached.
    ///
    /// That is the latest `now` for which a pop has found nothing (more) due; while a caller is popping its way there, the
    /// deadline of the latest that it got, or the start of the block that is being moved down. Never runs back.
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::{Tick, TimingWheel};
    ///
    /// let mut wheel = TimingWheel::<()>::new();
    /// assert_eq!(wheel.pop_expired(Tick::new(12)), None);
    /// assert_eq!(wheel.now(), Tick::new(12));
    /// assert_eq!(wheel.pop_expired(Tick::new(3)), None); // a clock that steps back
    /// assert_eq!(wheel.now(), Tick::new(12));
    /// ```
    #[must_use]
    pub fn now(&self) -> Tick {
        Tick::new(self.position)
    }

    /// Returns how many timers wait, those that never expire included.
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::{Tick, TimingWheel};
    ///
    /// let mut wheel = TimingWheel::new();
    /// wheel.start_timer(Tick::new(5), "a");
    /// wheel.start_timer(Tick::MAX, "never");
    /// assert!(wheel.len() == 2 && !wheel.is_empty());
    /// ```
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether no timer waits.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.slots.len() == 0
    }

    /// Returns how many bytes of memory the wheel holds, apart from what the items own elsewhere.
    ///
    /// For an 8-byte item about 30 a timer, 37 to 46 after churn, and up to 30 kB for the buckets. It shrinks after a
    /// burst.
    ///
    /// # Complexity
    ///
    /// O(chunks), one for up to 64 timers.
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::{Tick, TimingWheel};
    ///
    /// let mut wheel = TimingWheel::new();
    /// let timers: Vec<_> = (0..10_000u64).map(|n| wheel.start_timer(Tick::new(n), n)).collect();
    /// let much = wheel.heap_size();
    /// for timer in timers {
    ///     wheel.stop_timer(timer);
    /// }
    /// assert!(wheel.heap_size() < much / 2);
    /// ```
    #[must_use]
    pub fn heap_size(&self) -> usize {
        self.slots.heap_size() + self.levels.heap_size() + self.late.heap_size()
    }
}
