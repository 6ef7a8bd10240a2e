//! The watchers of one shard that wait at a number: *when this key's progress reaches 1234*.
//!
//! One ordered map for all lists, by (list, number, registration): an event that has come as far as a number finds those it
//! concerns in a range, and the rest is not touched. A map for each list would allocate for each, and a list that empties
//! leaves nothing here. What is found is a node of the watch lists.

use crate::purgatory::pool::{Pool, Segments};
use crate::steps;
use crate::sync::planted;
use std::collections::BTreeMap;

pub(super) struct Numbered {
    order: BTreeMap<Place, u32>,
    entries: Pool<Entry>,
}

/// Where a watcher stands. No two registrations have the same number, so a place is one watcher's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Place {
    pub(super) list: u32,
    pub(super) at: u64,
    pub(super) registration: u64,
}

pub(super) struct Entry {
    place: Place,
    node: u32,
    /// The youngest walk that has taken this: see [`Numbered::take_step`].
    taken_by: u64,
}

impl Numbered {
    pub(super) const fn new() -> Self {
        Numbered { order: BTreeMap::new(), entries: Pool::new() }
    }

    /// Makes an entry, whose node must be [set](Self::set_node). O(log n).
    pub(super) fn insert(&mut self, place: Place) -> u32 {
        let entry = self.entries.insert(Entry { place, node: u32::MAX, taken_by: 0 });
        let before = self.order.insert(place, entry);
        debug_assert!(before.is_none(), "two watchers in one place");
        entry
    }

    pub(super) fn set_node(&mut self, entry: u32, node: u32) {
        self.entries[entry].node = node;
    }

    /// The number of an entry.
    pub(super) fn number(&self, entry: u32) -> u64 {
        self.entries[entry].place.at
    }

    /// O(log n).
    pub(super) fn remove(&mut self, entry: u32) {
        let Entry { place, .. } = self.entries.remove(entry);
        let removed = self.order.remove(&place);
        debug_assert_eq!(removed, Some(entry));
    }

    /// Lets a watcher wait at another number. Returns whether that is a lower one. O(log n).
    pub(super) fn move_to(&mut self, entry: u32, at: u64) -> bool {
        let place = &mut self.entries[entry].place;
        let before = place.at;
        if at != before {
            self.order.remove(place);
            place.at = at;
            self.order.insert(*place, entry);
        }
        at < before
    }

    /// Takes the nodes from `from` on, in order, that are at no more than `up_to` and registered before the walk of this
    /// number. Goes past no more than `limit` of them; returns the number of the first of the list from there on, whether in
    /// reach or not, and the place to go on from, if there may be more.
    ///
    /// A watcher that rises comes before the walk again. Each that is taken is looked at, so one that this walk has taken, or
    /// a younger one, is left out: that one's look comes after this walk began, and so sees its event.
    pub(super) fn take_step(
        &mut self,
        from: Place,
        walk: u64,
        up_to: u64,
        limit: usize,
        mut take: impl FnMut(u32),
    ) -> (Option<u64>, Option<Place>) {
        let up_to = if planted("short-of-the-number") { up_to.saturating_sub(1) } else { up_to };
        let mut first = None;
        for (seen, (place, entry)) in self.order.range(from..).enumerate() {
            if place.list != from.list {
                break;
            }
            first.get_or_insert(place.at);
            if place.at > up_to {
                break;
            }
            if seen == limit {
                return (first, Some(*place));
            }
            steps::count(1);
            let entry = &mut self.entries[*entry];
            if place.registration < walk && entry.taken_by < walk {
                entry.taken_by = if planted("taken-again") { 0 } else { walk };
                take(entry.node);
            }
        }
        (first, None)
    }

    /// Whether there is waste.
    #[inline]
    pub(super) fn has_waste(&self) -> bool {
        self.entries.has_waste()
    }

    /// Gives the waste away, and takes an empty place for more of it.
    pub(super) fn exchange_waste(&mut self, empty: &mut Segments<Entry>) {
        self.entries.exchange_waste(empty);
    }

    /// Checks the entry of a node, and returns its number.
    #[cfg(test)]
    pub(super) fn check(&self, entry: u32, node: u32, list: u32, registration: u64) -> u64 {
        let Entry { place, node: own, .. } = self.entries[entry];
        assert_eq!((own, place.list, place.registration), (node, list, registration));
        assert_eq!(self.order.get(&place), Some(&entry));
        place.at
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        assert_eq!(self.order.len(), self.entries.len());
        self.order.len()
    }
}
