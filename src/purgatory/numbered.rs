//! The watchers of one shard that wait at a number: *when this key's progress reaches 1234*.
//!
//! One ordered map for all lists, by (list, number, registration): an event that has come as far as a number finds those it
//! concerns in a range, and the rest is not touched. A map for each list would allocate for each, and a list that empties
//! leaves nothing here.

use crate::purgatory::pool::Pool;
use crate::steps;
use std::collections::BTreeMap;

pub(super) struct Numbered<W> {
    order: BTreeMap<Place, u32>,
    entries: Pool<Entry<W>>,
}

/// Where a watcher stands. Registrations are numbered without gaps or repetition, so a place is one watcher's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) list: u32,
    pub(super) at: u64,
    pub(super) registration: u64,
}

struct Entry<W> {
    watcher: W,
    place: Place,
}

impl<W: Clone> Numbered<W> {
    pub(super) const fn new() -> Self {
        Numbered { order: BTreeMap::new(), entries: Pool::new() }
    }

    /// O(log n).
    pub(super) fn insert(&mut self, place: Place, watcher: W) -> u32 {
        let entry = self.entries.insert(Entry { watcher, place });
        let before = self.order.insert(place, entry);
        debug_assert!(before.is_none(), "two watchers in one place");
        entry
    }

    /// O(log n).
    pub(super) fn remove(&mut self, entry: u32) -> (W, u32) {
        let Entry { watcher, place } = self.entries.remove(entry);
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

    /// Clones watchers from `from` on, in order, that wait at no more than `up_to` and registered before `end`. Looks
    /// at no more than `limit` of them; returns the place to go on from, if there may be more.
    pub(super) fn take_step(
        &self,
        from: Place,
        up_to: u64,
        end: u64,
        limit: usize,
        out: &mut impl Extend<W>,
    ) -> Option<Place> {
        let last = Place { at: up_to, registration: u64::MAX, ..from };
        if from > last {
            return None;
        }
        for (seen, (place, entry)) in self.order.range(from..=last).enumerate() {
            if seen == limit {
                return Some(*place);
            }
            steps::count(1);
            if place.registration < end {
                out.extend(std::iter::once(self.entries[*entry].watcher.clone()));
            }
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
