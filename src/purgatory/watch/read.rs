//! What the watch lists answer to somebody who only wants to know.

use super::{NONE, WatchLists};
use crate::steps;
use equivalent::Equivalent;

impl<K: Eq, W: Clone> WatchLists<K, W> {
    /// How many watch a key.
    pub(crate) fn watchers_of<Q>(&self, hash: u64, key: &Q) -> usize
    where
        Q: Equivalent<K> + ?Sized,
    {
        self.find(hash, key).map_or(0, |list| self.lists[list].watchers as usize)
    }

    /// Tells of the first `most` watchers of a key, in order of registration, those at a number, with it, after the others.
    pub(crate) fn first_watchers<Q>(
        &self,
        hash: u64,
        key: &Q,
        most: usize,
        mut tell: impl FnMut(&W, Option<u64>),
    ) where
        Q: Equivalent<K> + ?Sized,
    {
        let Some(list) = self.find(hash, key) else { return };
        let list = &self.lists[list];
        let mut told = 0;
        for chain in [list.plain, list.numbered] {
            let mut node = chain.head;
            while node != NONE && told < most {
                steps::count(1);
                let entry = &self.nodes[node];
                if let Some(watcher) = &entry.watcher {
                    let number = (entry.entry != NONE).then(|| self.numbered.number(entry.entry));
                    tell(watcher, number);
                    told += 1;
                }
                node = entry.next;
            }
        }
    }

    /// Adds the lists of a [`SEGMENT`](crate::purgatory::pool::SEGMENT) of their memory, each after how many watch. False:
    /// there is no such segment.
    pub(crate) fn lengths(&self, segment: usize, out: &mut Vec<(u32, u32)>) -> bool {
        let Some(lists) = self.lists.segment(segment) else { return false };
        for (index, list) in lists {
            steps::count(1);
            out.push((list.watchers, index));
        }
        true
    }

    /// The key of a list, and how many watch it. `None`: the list is gone. It may be another key's meanwhile.
    pub(crate) fn key_of(&self, list: u32) -> Option<(&K, usize)> {
        let list = self.lists.get(list)?;
        (list.watchers > 0).then_some((&list.key, list.watchers as usize))
    }
}
