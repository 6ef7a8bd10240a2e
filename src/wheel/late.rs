//! The timers that were started with a deadline that the wheel had already passed.

use alloc::collections::BTreeMap;

use crate::steps;

/// Timers whose deadline lies before the wheel's position, by (deadline, order of starting).
///
/// There is no bucket for the past. Such timers are rare and do not stay: the next pop takes them. So this is
/// the plain thing, an ordered map with a sequence number, and a second one that finds a timer's key.
#[derive(Default)]
pub(super) struct Late {
    queue: BTreeMap<(u64, u64), u32>,
    keys: BTreeMap<u32, (u64, u64)>,
    /// The number of the next timer. 2^64 of them do not happen.
    next: u64,
}

impl Late {
    pub(super) fn push(&mut self, deadline: u64, index: u32) {
        steps::count(1);
        let key = (deadline, self.next);
        self.next += 1;
        self.queue.insert(key, index);
        let before = self.keys.insert(index, key);
        debug_assert!(before.is_none(), "timer {index} was late twice");
    }

    pub(super) fn remove(&mut self, index: u32) {
        steps::count(1);
        let key = self.keys.remove(&index);
        let removed = key.and_then(|key| self.queue.remove(&key));
        debug_assert_eq!(removed, Some(index));
    }

    /// Deadline and index of the first.
    #[inline]
    pub(super) fn first(&self) -> Option<(u64, u32)> {
        // It is empty nearly always: one load then, and no call.
        if self.queue.is_empty() { None } else { self.first_of_some() }
    }

    #[cold]
    fn first_of_some(&self) -> Option<(u64, u32)> {
        self.queue.first_key_value().map(|(key, index)| (key.0, *index))
    }

    pub(super) fn deadline(&self, index: u32) -> Option<u64> {
        self.keys.get(&index).map(|key| key.0)
    }

    pub(super) fn len(&self) -> usize {
        debug_assert_eq!(self.queue.len(), self.keys.len());
        self.queue.len()
    }

    /// About: a tree's nodes are at least half full.
    pub(super) fn heap_size(&self) -> usize {
        self.queue.len() * 2 * (size_of::<(u64, u64)>() + size_of::<u32>()) * 3 / 2
    }
}
