//! How the wheel turns: from one timer that is due to the next, and down the levels.
//!
//! The only place where the position moves. It goes from one occupied bucket to the next, never tick by tick, and never
//! back; within a budget of moves, so that a crowded bucket can be moved down in several calls.

use super::level;
use super::{LAST, TimingWheel};
use crate::tick::Tick;

/// The timer that expires next.
pub(super) enum Due {
    Late(u64, u32),
    Tick(level::At),
    Nothing,
    Paused,
}

impl<T> TimingWheel<T> {
    /// Returns how many timers have moved down a level since the wheel was made: one that came down three levels counts three
    /// times.
    #[must_use]
    pub const fn cascaded(&self) -> u64 {
        self.cascaded
    }

    /// Whether nothing can be due at `now`. The position is then there.
    #[inline]
    pub(super) fn is_quiet(&mut self, now: Tick) -> bool {
        let now = now.as_u64().min(LAST).max(self.position);
        let is_quiet = now < self.quiet_until;
        if is_quiet {
            self.position = now;
        }
        is_quiet
    }

    /// Moves the position to the next timer that is due at `now`, or else to `now`.
    #[inline]
    pub(super) fn advance(&mut self, now: Tick, budget: &mut usize) -> Due {
        // Time does not go back, and does not reach never.
        let now = now.as_u64().min(LAST).max(self.position);
        loop {
            if *budget == 0 {
                return Due::Paused;
            }
            if let Some((deadline, index)) = self.late.first() {
                return Due::Late(deadline, index);
            }
            if level::level(self.cascading) > 0 {
                self.cascade_some(budget);
                continue;
            }
            let Some(at) = self.levels.first() else {
                (self.position, self.quiet_until) = (now, u64::MAX);
                return Due::Nothing;
            };
            let start = level::start_of(self.position, at);
            if start > now {
                // Up to `now` nothing is occupied, so no digit of a deadline is passed.
                (self.position, self.quiet_until) = (now, start);
                self.levels.remember_min(at);
                return Due::Nothing;
            }
            self.position = start;
            if level::level(at) == 0 {
                return Due::Tick(at);
            }
            self.cascading = at;
        }
    }

    /// Moves a chunk of the bucket that is being cascaded.
    #[inline(never)]
    fn cascade_some(&mut self, budget: &mut usize) {
        let slots = &mut self.slots;
        if slots.len() > NEAR {
            slots.touch(self.levels.first_chunk(self.cascading));
        }
        let moved = self.levels.cascade(self.cascading, self.position, |index, place| {
            slots.set_place(index, place);
        });
        *budget = budget.saturating_sub(moved);
        self.cascaded += moved as u64;
        self.note_cascaded();
    }

    #[inline]
    pub(super) fn note_cascaded(&mut self) {
        if !self.levels.is_occupied(self.cascading) {
            self.cascading = 0;
        }
    }
}

/// So few timers stay in a near cache. With more, a chunk's slots are all read before the first of them is written: the
/// misses overlap, and a million timers expire in about 0.7 of the time. With fewer it costs a few instructions more.
const NEAR: usize = 1 << 16;
