//! The watch lists of one shard: who waits on which key, in order of registration.
//!
//! A list is doubly linked by indices into a pool, so that an operation that ends leaves all its lists in O(keys) and
//! nothing is left to purge. Hashes are computed outside and stored: no table operation hashes a key. The one piece
//! of user code that runs in here is the key's `Eq`. A key that is no longer needed is handed out, to be dropped by
//! the caller outside the lock.
//!
//! Those that wait at a number are in an ordered map instead, and come after the others: see [`numbered`](super::numbered).
//!
//! A long list is walked in steps. Between two steps the walker's place is a node of its own in the list, a
//! *cursor*, since every other node may be gone when it comes back. A walk covers what was on the list when it
//! began: nodes carry a rising number, and it ends before the first one that is younger.

use crate::purgatory::numbered::{Numbered, Place};
use crate::purgatory::pool::Pool;
use crate::purgatory::table::KeyTable;
use crate::steps;
use crate::sync::{MODELLED, planted};
use hashbrown::Equivalent;

/// How many watchers one step takes out under one hold of the lock: at about 10 ns each less than a microsecond.
pub(crate) const WALK_STEP: usize = if MODELLED { 1 } else { 64 };

const NONE: u32 = u32::MAX;

/// `W` is what stands in the lists, and is cloned to a walker.
pub(crate) struct WatchLists<K, W> {
    by_key: KeyTable,
    lists: Pool<List<K>>,
    nodes: Pool<Node<W>>,
    /// Those that wait at a number are in here instead.
    numbered: Numbered<W>,
    /// The number of the next node.
    next_number: u64,
    watchers: usize,
    /// Lists with a watcher; a list that only a cursor keeps does not count.
    watched_keys: usize,
}

struct List<K> {
    hash: u64,
    key: K,
    head: u32,
    tail: u32,
    /// What is linked here: the watchers without a number, and the cursors.
    nodes: u32,
    watchers: u32,
    cursors: u32,
}

impl<K> List<K> {
    const fn has_numbers(&self) -> bool {
        self.watchers + self.cursors > self.nodes
    }
}

struct Node<W> {
    /// `None`: a cursor.
    watcher: Option<W>,
    number: u64,
    list: u32,
    prev: u32,
    next: u32,
}

/// A walk along one list, between two steps.
pub(crate) struct Walk {
    list: u32,
    /// Nodes from this number on are younger than the walk.
    end: u64,
    /// Of those at a number, the ones at no more than this are walked.
    up_to: u64,
    place: At,
}

/// Where a walk has come to. Those without a number come first.
enum At {
    Cursor(u32),
    /// A list that empties meanwhile may be another key's when the walk comes back: then all in it are younger than the
    /// walk.
    Number(Place),
    Over,
}

impl Walk {
    /// Whether there is another step to take. A walk that is not over must be stepped or [`abandoned`].
    ///
    /// [`abandoned`]: WatchLists::abandon
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.place, At::Over)
    }
}

impl<K: Eq, W: Clone> WatchLists<K, W> {
    pub(crate) fn new() -> Self {
        WatchLists {
            by_key: KeyTable::new(),
            lists: Pool::new(),
            nodes: Pool::new(),
            numbered: Numbered::new(),
            next_number: 0,
            watchers: 0,
            watched_keys: 0,
        }
    }

    /// Appends a watcher to a key's list and returns its node. The key comes back if the list had one already.
    ///
    /// O(1), amortised over the growth of the tables.
    pub(crate) fn watch(&mut self, hash: u64, key: K, watcher: W) -> (u32, Option<K>) {
        let (list, spare) = self.join(hash, key);
        (self.append(list, Some(watcher)), spare)
    }

    /// Lets a watcher wait on a key at a number, and returns its entry. O(log n) with n watchers at a number.
    pub(crate) fn watch_at(&mut self, hash: u64, key: K, at: u64, watcher: W) -> (u32, Option<K>) {
        let (list, spare) = self.join(hash, key);
        let place = Place { list, at, registration: self.next_number };
        self.next_number += 1;
        (self.numbered.insert(place, watcher), spare)
    }

    /// Takes a watcher out of its list, in O(1). Returns it, and the key if nobody is left on it.
    pub(crate) fn unwatch(&mut self, node: u32) -> (W, Option<K>) {
        let (watcher, list) = self.unlink(node);
        let watcher = watcher.expect("only a walk unlinks its cursor");
        (watcher, self.leave(list))
    }

    /// Takes out a watcher that waits at a number, in O(log n).
    pub(crate) fn unwatch_at(&mut self, entry: u32) -> (W, Option<K>) {
        let (watcher, list) = self.numbered.remove(entry);
        (watcher, self.leave(list))
    }

    /// Lets a watcher wait at a higher number; a lower one is ignored.
    pub(crate) fn raise(&mut self, entry: u32, at: u64) {
        self.numbered.raise(entry, at);
    }

    /// Begins a walk along a key's list, of those at a number only as far as `up_to`, and takes its first step. `None`:
    /// nobody waits on the key.
    #[inline]
    pub(crate) fn walk<Q>(&mut self, hash: u64, key: &Q, up_to: u64, out: &mut impl Extend<W>) -> Option<Walk>
    where
        Q: Equivalent<K> + ?Sized,
    {
        let list = self.find(hash, key)?;
        let mut walk = Walk { list, end: self.next_number, up_to, place: At::Over };
        self.walk_from(self.lists[list].head, &mut walk, out);
        Some(walk)
    }

    /// Takes the next step of a walk. Returns the key if the walk is over and nobody is left on it.
    pub(crate) fn step(&mut self, walk: &mut Walk, out: &mut impl Extend<W>) -> Option<K> {
        match walk.place {
            At::Over => None,
            At::Number(place) => {
                self.walk_numbers(place, walk, out);
                None
            }
            At::Cursor(next) if planted("no-cursor") => {
                // The place is the next watcher itself, which may have gone.
                walk.place = At::Over;
                if self.nodes.contains(next) {
                    self.walk_from(next, walk, out);
                }
                None
            }
            At::Cursor(cursor) => {
                let from = self.nodes[cursor].next;
                let mut next = Walk { place: At::Over, ..*walk };
                self.walk_from(from, &mut next, out);
                let emptied = self.abandon(walk);
                *walk = next;
                emptied
            }
        }
    }

    /// A step from a node on, and on to those at a number if it comes to the end.
    fn walk_from(&mut self, node: u32, walk: &mut Walk, out: &mut impl Extend<W>) {
        if let Some(rest) = self.take_step(node, walk.end, out) {
            walk.place = At::Cursor(self.insert_cursor_before(rest));
        } else if self.lists[walk.list].has_numbers() {
            self.walk_numbers(Place { list: walk.list, at: 0, registration: 0 }, walk, out);
        }
    }

    fn walk_numbers(&self, from: Place, walk: &mut Walk, out: &mut impl Extend<W>) {
        let rest = self.numbered.take_step(from, walk.up_to, walk.end, WALK_STEP, out);
        walk.place = rest.map_or(At::Over, At::Number);
    }

    /// Ends a walk early. Returns the key if nobody is left on it.
    pub(crate) fn abandon(&mut self, walk: &mut Walk) -> Option<K> {
        let At::Cursor(cursor) = std::mem::replace(&mut walk.place, At::Over) else { return None };
        if planted("no-cursor") {
            return None;
        }
        let (_, list) = self.unlink(cursor);
        debug_assert_eq!(list, walk.list, "a cursor stays in its list");
        self.lists[list].cursors -= 1;
        self.remove_if_empty(list)
    }

    pub(crate) fn contains<Q>(&self, hash: u64, key: &Q) -> bool
    where
        Q: Equivalent<K> + ?Sized,
    {
        self.find(hash, key).is_some_and(|list| self.lists[list].watchers > 0)
    }

    /// The number of watchers in all lists.
    pub(crate) fn watchers(&self) -> usize {
        self.watchers
    }

    /// The number of keys with a watcher.
    pub(crate) fn keys(&self) -> usize {
        self.watched_keys
    }

    fn find<Q>(&self, hash: u64, key: &Q) -> Option<u32>
    where
        Q: Equivalent<K> + ?Sized,
    {
        self.by_key.find(hash, |&list| {
            let entry = &self.lists[list];
            entry.hash == hash && key.equivalent(&entry.key)
        })
    }

    /// Counts one more on the key's list, which is made if there is none. The key comes back if it is not needed.
    fn join(&mut self, hash: u64, key: K) -> (u32, Option<K>) {
        let (list, spare) = match self.find(hash, &key) {
            Some(list) => (list, Some(key)),
            None => (self.add_list(hash, key), None),
        };
        let entry = &mut self.lists[list];
        entry.watchers += 1;
        self.watched_keys += usize::from(entry.watchers == 1);
        self.watchers += 1;
        (list, spare)
    }

    /// Counts one less. The key comes back if nobody is left on it.
    fn leave(&mut self, list: u32) -> Option<K> {
        let entry = &mut self.lists[list];
        entry.watchers -= 1;
        self.watched_keys -= usize::from(entry.watchers == 0);
        self.watchers -= 1;
        self.remove_if_empty(list)
    }

    fn add_list(&mut self, hash: u64, key: K) -> u32 {
        let list = List { hash, key, head: NONE, tail: NONE, nodes: 0, watchers: 0, cursors: 0 };
        let index = self.lists.insert(list);
        self.by_key.insert(hash, index, |list| self.lists[list].hash);
        index
    }

    fn append(&mut self, list: u32, watcher: Option<W>) -> u32 {
        let number = self.next_number;
        self.next_number += 1;
        let tail = self.lists[list].tail;
        let node = self.nodes.insert(Node { watcher, number, list, prev: tail, next: NONE });
        match tail {
            NONE => self.lists[list].head = node,
            _ => self.nodes[tail].next = node,
        }
        self.lists[list].tail = node;
        self.lists[list].nodes += 1;
        node
    }

    /// Puts a cursor before a node, with that node's number: whatever lies before it has been taken.
    fn insert_cursor_before(&mut self, next: u32) -> u32 {
        if planted("no-cursor") {
            return next;
        }
        let Node { number, list, prev, .. } = self.nodes[next];
        let cursor = self.nodes.insert(Node { watcher: None, number, list, prev, next });
        self.nodes[next].prev = cursor;
        match prev {
            NONE => self.lists[list].head = cursor,
            _ => self.nodes[prev].next = cursor,
        }
        self.lists[list].cursors += 1;
        self.lists[list].nodes += 1;
        cursor
    }

    fn unlink(&mut self, node: u32) -> (Option<W>, u32) {
        let Node { watcher, list, prev, next, .. } = self.nodes.remove(node);
        match prev {
            NONE => self.lists[list].head = next,
            _ => self.nodes[prev].next = next,
        }
        match next {
            NONE => self.lists[list].tail = prev,
            _ => self.nodes[next].prev = prev,
        }
        self.lists[list].nodes -= 1;
        (watcher, list)
    }

    /// Removes a list that neither a watcher nor a cursor needs. Whoever registers next makes a new one: both
    /// happen under the shard's lock, so nobody can watch a list that is gone.
    fn remove_if_empty(&mut self, list: u32) -> Option<K> {
        let entry = &self.lists[list];
        if entry.watchers > 0 || entry.cursors > 0 {
            return None;
        }
        let hash = entry.hash;
        self.by_key.remove(hash, list, |list| self.lists[list].hash);
        Some(self.lists.remove(list).key)
    }

    /// Clones up to a step's worth of watchers from `node` on. Returns the node to go on with, if any is left that
    /// is not younger than the walk.
    fn take_step(&self, mut node: u32, end: u64, out: &mut impl Extend<W>) -> Option<u32> {
        let mut taken = 0;
        while node != NONE {
            steps::count(1);
            let entry = &self.nodes[node];
            if entry.number >= end {
                return None;
            }
            if let Some(watcher) = &entry.watcher {
                if taken == WALK_STEP {
                    return Some(node);
                }
                out.extend(std::iter::once(watcher.clone()));
                taken += 1;
            }
            node = entry.next;
        }
        None
    }

    /// Checks the whole structure; for tests.
    #[cfg(test)]
    pub(crate) fn check_invariants(&self) {
        assert_eq!(self.by_key.len(), self.lists.len());
        let (mut watchers, mut keys, mut nodes) = (0, 0, 0);
        for (index, list) in self.lists.iter() {
            assert!(list.watchers > 0 || list.cursors > 0, "an empty list is kept");
            let (mut prev, mut node, mut seen, mut cursors) = (NONE, list.head, 0, 0);
            let mut last = None;
            while node != NONE {
                let entry = &self.nodes[node];
                assert_eq!((entry.list, entry.prev), (index, prev));
                assert!(last <= Some(entry.number), "numbers rise along a list");
                last = Some(entry.number);
                seen += u32::from(entry.watcher.is_some());
                cursors += u32::from(entry.watcher.is_none());
                nodes += 1;
                (prev, node) = (node, entry.next);
            }
            assert_eq!((list.tail, list.nodes, list.cursors), (prev, seen + cursors, cursors));
            let numbered = self.numbered.count(index) as u32;
            assert_eq!((list.watchers, list.has_numbers()), (seen + numbered, numbered > 0));
            seen += numbered;
            watchers += seen as usize;
            keys += usize::from(seen > 0);
        }
        assert_eq!((self.watchers, self.watched_keys, self.nodes.len()), (watchers, keys, nodes));
        self.numbered.check_invariants();
    }
}

#[cfg(all(test, not(any(ixion_loom, ixion_shuttle))))]
mod tests {
    use super::*;
    use crate::purgatory::pool::SEGMENT;

    fn all(lists: &mut WatchLists<u64, u32>, key: u64) -> Vec<u32> {
        let mut out = Vec::new();
        let Some(mut walk) = lists.walk(key, &key, u64::MAX, &mut out) else { return out };
        while !walk.is_over() {
            assert_eq!(lists.step(&mut walk, &mut out), None);
            lists.check_invariants();
        }
        out
    }

    #[test]
    fn a_list_is_walked_in_order_of_registration_whatever_its_length() {
        for len in [0, 1, 2, WALK_STEP - 1, WALK_STEP, WALK_STEP + 1, 5 * WALK_STEP + 7] {
            let mut lists = WatchLists::new();
            let len = len as u32;
            let nodes: Vec<u32> = (0..len).map(|w| lists.watch(9, 9, w).0).collect();
            assert_eq!(all(&mut lists, 9), (0..len).collect::<Vec<_>>());
            assert_eq!(lists.watchers(), len as usize);
            for (w, node) in nodes.into_iter().enumerate() {
                let (watcher, emptied) = lists.unwatch(node);
                assert_eq!(watcher as usize, w);
                assert_eq!(emptied, (w as u32 == len - 1).then_some(9), "the key goes with the last watcher");
                lists.check_invariants();
            }
            assert_eq!((lists.watchers(), lists.keys(), lists.contains(9, &9)), (0, 0, false));
        }
    }

    #[test]
    fn a_walk_covers_what_was_there_when_it_began_and_survives_every_removal() {
        let mut lists = WatchLists::new();
        let len = 3 * WALK_STEP as u32;
        let nodes: Vec<u32> = (0..len).map(|w| lists.watch(1, 1, w).0).collect();
        let mut out = Vec::new();
        let mut walk = lists.walk(1, &1, 0, &mut out).expect("somebody waits");
        assert_eq!(out.len(), WALK_STEP);
        // What was taken goes, what comes next goes, and younger ones come: none of it disturbs the walk.
        for node in &nodes[..WALK_STEP + 10] {
            assert_eq!(lists.unwatch(*node).1, None);
        }
        lists.watch(1, 1, 1000);
        lists.check_invariants();
        while !walk.is_over() {
            assert_eq!(lists.step(&mut walk, &mut out), None);
        }
        let expected: Vec<u32> = (0..WALK_STEP as u32).chain(WALK_STEP as u32 + 10..len).collect();
        assert_eq!(out, expected);
    }

    #[test]
    fn a_list_that_empties_under_a_walk_gives_up_its_key_when_the_walk_ends() {
        for abandon in [false, true] {
            let mut lists = WatchLists::new();
            let nodes: Vec<u32> = (0..2 * WALK_STEP as u32).map(|w| lists.watch(1, 1, w).0).collect();
            let mut out = Vec::new();
            let mut walk = lists.walk(1, &1, 0, &mut out).expect("somebody waits");
            for node in nodes {
                assert_eq!(lists.unwatch(node).1, None, "the cursor keeps the list");
            }
            assert_eq!((lists.keys(), lists.contains(1, &1)), (0, false));
            lists.check_invariants();
            let emptied = if abandon { lists.abandon(&mut walk) } else { lists.step(&mut walk, &mut out) };
            assert_eq!((emptied, walk.is_over(), out.len()), (Some(1), true, WALK_STEP));
            lists.check_invariants();
        }
    }

    #[test]
    fn those_at_a_number_are_walked_by_number_as_far_as_it_goes_after_those_without() {
        let mut lists = WatchLists::new();
        let far = 10 * WALK_STEP as u64;
        let entries: Vec<u32> = (0..far).rev().map(|at| lists.watch_at(1, 1, at / 2, at as u32).0).collect();
        let (plain, _) = lists.watch(1, 1, 100_000);
        let (other, _) = lists.watch_at(2, 2, 0, 200_000);
        lists.check_invariants();
        // Of two at the same number the first to register comes first.
        let in_order = |up_to: u64| (0..=up_to).flat_map(|n| [2 * n as u32 + 1, 2 * n as u32]);
        for up_to in [0, 1, WALK_STEP as u64, far / 2 - 1] {
            let mut out = Vec::new();
            let mut walk = lists.walk(1, &1, up_to, &mut out).expect("somebody waits");
            while !walk.is_over() {
                // Younger ones are not for this walk, wherever they stand.
                let (young, _) = lists.watch_at(1, 1, far, 7);
                assert_eq!(lists.step(&mut walk, &mut out), None);
                lists.unwatch_at(young);
            }
            assert_eq!(out, [100_000].into_iter().chain(in_order(up_to)).collect::<Vec<_>>());
        }
        // The one at 0 waits higher now; lower does nothing.
        lists.raise(entries[far as usize - 1], 1);
        lists.raise(entries[far as usize - 2], 0);
        let mut out = Vec::new();
        assert!(lists.walk(1, &1, 0, &mut out).expect("somebody waits").is_over());
        assert_eq!(out, [100_000, 1]);
        lists.check_invariants();
        assert_eq!(lists.unwatch(plain), (100_000, None));
        for (n, entry) in entries.into_iter().enumerate() {
            assert_eq!(lists.unwatch_at(entry).1, (n as u64 == far - 1).then_some(1));
        }
        assert_eq!((lists.watchers(), lists.keys()), (1, 1));
        assert_eq!(lists.unwatch_at(other), (200_000, Some(2)));
        lists.check_invariants();
    }

    #[test]
    fn keys_with_the_same_hash_have_lists_of_their_own() {
        let mut lists = WatchLists::new();
        let (a, _) = lists.watch(7, 1u64, 10u32);
        lists.watch(7, 2, 20);
        assert_eq!(lists.watch(7, 2, 21).1, Some(2), "the second key of a list comes back");
        assert_eq!(lists.keys(), 2);
        assert_eq!(lists.unwatch(a), (10, Some(1)));
        let mut out = Vec::new();
        assert!(lists.walk(7, &2, 0, &mut out).is_some_and(|walk| walk.is_over()));
        assert_eq!(out, [20, 21]);
        assert!(lists.walk(7, &1, 0, &mut out).is_none());
    }

    #[test]
    fn capacity_is_given_back_after_a_burst_though_one_stays() {
        let mut lists = WatchLists::new();
        let hash = |key: u32| u64::from(key).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let nodes: Vec<u32> = (0..100_000u32).map(|w| lists.watch(hash(w), w, w).0).collect();
        for node in nodes.into_iter().skip(1) {
            lists.unwatch(node);
        }
        lists.check_invariants();
        assert!(lists.nodes.capacity() <= 3 * SEGMENT && lists.lists.capacity() <= 3 * SEGMENT);
        assert!(lists.by_key.capacity().0 <= 1000, "{:?}", lists.by_key.capacity());
        assert!(lists.contains(hash(0), &0) && !lists.contains(hash(1), &1));
    }
}
