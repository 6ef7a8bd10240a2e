//! Those who wait for something to take, and who of them is woken.
//!
//! What may be taken wakes one of them and not all, or each would look at the store, and all but one in vain: with 64 that
//! wait an item costs one look, or three if they take one item at a time, and it is not late by that. So that nothing is
//! left lying: *while there is something to take and somebody is in line, somebody who was woken has yet to look.*
//!
//! 1. A step that brings something wakes the first in line, which leaves the line by that.
//! 2. A taker gets into line before it looks. What comes after its look finds it there.
//! 3. One that goes wakes others if it was woken after its last look, whatever it goes for; or if it got all that it had
//!    asked for, as there may be more. If it got less, nothing was left.
//!
//! A first look, before one waits, has no part in this: nobody was woken for it. A look that the store refuses is made up
//! for by the alarm that follows. The races are modelled in `tests/models/tests/retry.rs`.

use crate::item::Delivery;
use crate::shared::{Shared, Waits};
use crate::store::Store;
use crate::sync::{Mutex, planted};
use std::collections::BTreeSet;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How many one wakes that got all it had asked for: two, so that many items that are due at once are out in few rounds.
const PASSED_ON: usize = 2;

/// Those who wait and were not woken since they looked, in the order in which they came.
#[derive(Default)]
pub(crate) struct Line {
    waiting: Mutex<BTreeSet<u64>>,
    /// The number of the last who came. Std's in a model too: no race is about it.
    last: AtomicU64,
}

/// One that takes, and waits if there is nothing.
pub(crate) struct Taker<'a, S: Store> {
    shared: &'a Arc<Shared<S>>,
    number: u64,
    has_looked: bool,
    /// It has got into line, and may have been woken since.
    is_waiting: bool,
    /// There may be more to take than it has taken.
    may_be_more: bool,
}

impl Line {
    /// Takes out the one that is to be woken.
    pub(crate) fn pop(&self) -> Option<u64> {
        self.waiting.lock().pop_first()
    }
}

impl<'a, S: Store> Taker<'a, S> {
    pub(crate) fn new(shared: &'a Arc<Shared<S>>) -> Self {
        let number = shared.line.last.fetch_add(1, Ordering::Relaxed);
        Taker { shared, number, has_looked: false, is_waiting: false, may_be_more: false }
    }

    pub(crate) fn key(&self) -> Waits {
        Waits::Taker(self.number)
    }

    /// Takes up to `n` items, or waits on.
    pub(crate) fn look(&mut self, n: usize, visibility: Duration) -> Option<Result<Vec<Delivery>, S::Error>> {
        self.is_waiting = mem::replace(&mut self.has_looked, true);
        let get_into_line = |is_now: bool| {
            if self.is_waiting && is_now {
                self.shared.line.waiting.lock().insert(self.number);
            }
        };
        get_into_line(!planted("in-line-after-the-look"));
        // Until the store has answered: it may panic.
        self.may_be_more = true;
        let taken = self.shared.try_take(n, visibility);
        get_into_line(planted("in-line-after-the-look"));
        self.may_be_more = matches!(&taken, Ok(all) if all.len() >= n) && !planted("takes-all-and-goes");
        match taken {
            Ok(none) if none.is_empty() => None,
            taken => Some(taken),
        }
    }
}

impl<S: Store> Drop for Taker<'_, S> {
    fn drop(&mut self) {
        if !self.is_waiting {
            return;
        }
        let was_woken = !self.shared.line.waiting.lock().remove(&self.number);
        if (was_woken && !planted("woken-and-gone")) || self.may_be_more {
            self.shared.wake_takers(PASSED_ON);
        }
    }
}
