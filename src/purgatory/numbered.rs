//! The watchers of one shard that wait at a number: *when this key's progress reaches 1234*.
//!
//! One ordered map for all lists, by (list, number, registration): an event that has come as far as a number finds those it
//! concerns in a range, and the rest is not touched. A map for each list would allocate for each, and a list that empties
//! leaves nothing here.

use crate::purgatory::pool::Pool;
use crate::purgatory::watch::{Reach, Taken};
use crate::steps;
use std::collections::BTreeMap;

pub(super) struct Numbered<W> {
    order: BTreeMap<Place, u32>,
    entries: Pool<Entry<W>>,
}

/// Where a watcher stands. No two registrations have the same number, so a place is one watcher's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) list: u32,
    pub(super) at: u64,
    pub(super) registration: u64,
}

struct Entry<W> {
    watcher: W,
    place: Place,
    /// The youngest walk with looks that has taken this: see [`Numbered::take_step`].
    taken_by: u64,
}

impl<W: Clone> Numbered<W> {
    pub(super) const fn new() -> Self {
        Numbered { order: BTreeMap::new(), entries: Pool::new() }
    }

    /// O(log n).
    pub(super) fn insert(&mut self, place: Place, watcher: W) -> u32 {
        let entry = self.entries.insert(Entry { watcher, place, taken_by: 0 });
        let before = self.order.insert(place, entry);
        debug_assert!(before.is_none(), "two watchers in one place");
        entry
    }

    /// O(log n).
    pub(super) fn remove(&mut self, entry: u32) -> (W, u32) {
        let Entry { watcher, place, .. } = self.entries.remove(entry);
        let removed = self.order.remove(&place);
        debug_assert_eq!(removed, Some(entry));
        (watcher, place.list)
    }

    /// Lets a watcher wait at a higher number; a lower one is ignored. O(log n).
    pub(super) fn raise(&mut self, entry: u32, at: u64) {
        let place = &mut self.entries[entry].place;
        if at > place.at {
            self.order.remove(place);
            place.at = at;
            self.order.insert(*place, entry);
        }
    }

    /// Clones watchers from `from` on, in order, that are in reach and registered before the walk of this number. Goes past
    /// no more than `limit` of them; returns the place to go on from, if there may be more.
    ///
    /// A watcher that rises comes before the walk again. Where each that is taken is looked at, one that this walk has taken,
    /// or a younger one with looks, is left out: that one's look comes after this walk began, and so sees its event.
    pub(super) fn take_step(
        &mut self,
        from: Place,
        walk: u64,
        reach: Reach,
        limit: usize,
        out: &mut Taken<W>,
    ) -> Option<Place> {
        let last = Place { at: reach.up_to, registration: u64::MAX, ..from };
        if from > last {
            return None;
        }
        for (seen, (place, entry)) in self.order.range(from..=last).enumerate() {
            if seen == limit {
                return Some(*place);
            }
            steps::count(1);
            let entry = &mut self.entries[*entry];
            if place.registration > walk || (reach.looks && entry.taken_by >= walk) {
                continue;
            }
            if reach.looks {
                entry.taken_by = walk;
            }
            out.push(entry.watcher.clone());
        }
        None
    }

    #[cfg(test)]
    pub(super) fn check_invariants(&self) {
        assert_eq!(self.order.len(), self.entries.len());
        for (index, entry) in self.entries.iter() {
            assert_eq!(self.order.get(&entry.place), Some(&index));
        }
    }

    /// How many watchers of a list there are.
    #[cfg(test)]
    pub(super) fn count(&self, list: u32) -> usize {
        self.order.keys().filter(|place| place.list == list).count()
    }
}
