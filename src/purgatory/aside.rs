//! What a drive sets aside when the clock steps back in the middle of it.
//!
//! A drive expires what was there when it began, and leaves what is younger. That is due at the drive's present at the
//! earliest, so it comes last; but where the clock has stepped back it may be due before, and hide what is older. Then it
//! is set aside, and put back to its deadline when the drive is over.

use crate::purgatory::engine::Shard;
use crate::tick::Tick;
use crate::wheel::TimerId;
use std::collections::VecDeque;

/// The timers that a drive has set aside in one shard. In the wheel they are due never, and belong to a drive that there is
/// not, one for each time that a timer was set aside: a reset changes both, and it may be set aside again.
pub(super) struct Aside {
    timers: VecDeque<Kept>,
    /// None of the deadlines is earlier.
    pub(super) earliest: Tick,
    no_drive: u64,
}

/// A timer, and what it is to have again.
struct Kept {
    id: TimerId,
    no_drive: u64,
    drive: u64,
    deadline: Tick,
}

impl Default for Aside {
    fn default() -> Self {
        Aside { timers: VecDeque::new(), earliest: Tick::MAX, no_drive: 1 << 63 }
    }
}

impl<K, O> Shard<K, O> {
    /// Puts a timer aside until the drive is over.
    pub(super) fn set_aside(&mut self, id: TimerId, deadline: Tick) {
        let Some(timed) = self.wheel.get_mut(id) else { return };
        let aside = &mut self.aside;
        let drive = std::mem::replace(&mut timed.drive, aside.no_drive);
        aside.timers.push_back(Kept { id, no_drive: aside.no_drive, drive, deadline });
        aside.earliest = aside.earliest.min(deadline);
        aside.no_drive += 1;
        self.wheel.restart_timer(id, Tick::MAX);
    }

    /// Puts up to so many timers back to their deadlines, in order. Returns whether there were any.
    pub(super) fn put_back(&mut self, most: usize) -> bool {
        let some = self.aside.timers.len().min(most);
        for Kept { id, no_drive, drive, deadline } in self.aside.timers.drain(..some) {
            // It may have ended meanwhile, or been reset.
            if let Some(timed) = self.wheel.get_mut(id).filter(|timed| timed.drive == no_drive) {
                timed.drive = drive;
                self.wheel.restart_timer(id, deadline);
            }
        }
        if self.aside.timers.is_empty() {
            self.aside = Aside::default();
        }
        some > 0
    }
}
