//! The watch lists of one shard: who waits on which key, in order of registration.
//!
//! A list is doubly linked by indices into a pool, so that an operation that ends leaves all its lists in O(keys) and
//! nothing is left to purge. Hashes are computed outside and stored: no table operation hashes a key. The one piece
//! of user code that runs in here is the key's `Eq`. A key that is no longer needed is handed out, to be dropped by
//! the caller outside the lock.
//!
//! Those that wait at a number have a chain of their own and come after the others. An event looks for them in an ordered
//! map, by number: see [`numbered`](super::numbered). Any other walk goes along the chain, where nobody moves.
//!
//! A long list is walked in steps. Between two steps the walker's place is a node of its own in the list, a
//! *cursor*, since every other node may be gone when it comes back. A walk covers what was on the list when it
//! began: nodes carry a rising number, and it ends before the first one that is younger.

use crate::purgatory::numbered::{Entry, Numbered, Place};
use crate::purgatory::pool::{Pool, Segments};
use crate::purgatory::table::{self, KeyTable};
use crate::steps;
use crate::sync::{MODELLED, planted};
use equivalent::Equivalent;
use smallvec::SmallVec;

/// How many watchers one step takes out under one hold of the lock: at about 10 ns each less than a microsecond.
pub(crate) const WALK_STEP: usize = if MODELLED { 1 } else { 64 };

const NONE: u32 = u32::MAX;

/// What a step of a walk has taken. With room for all of it, since it is filled under the lock, where nothing should be
/// allocated.
pub(crate) type Taken<W> = SmallVec<[W; 64]>;
const _: () = assert!(WALK_STEP <= 64);

/// `W` is what stands in the lists, and is cloned to a walker.
pub(crate) struct WatchLists<K, W> {
    by_key: KeyTable,
    lists: Pool<List<K>>,
    nodes: Pool<Node<W>>,
    /// Those that wait at a number are in here too.
    numbered: Numbered,
    /// The number of the next node or walk.
    next_number: u64,
    watchers: usize,
    /// Lists with a watcher; a list that only a cursor keeps does not count.
    watched_keys: usize,
}

/// Memory that is not needed any more.
pub(crate) struct Waste<K, W> {
    nodes: Segments<Node<W>>,
    lists: Segments<List<K>>,
    tables: table::Waste,
    numbered: Segments<Entry>,
}

impl<K, W> Waste<K, W> {
    /// An empty place, with room for what one hold leaves.
    pub(crate) fn with_room() -> Self {
        let (nodes, lists) = (Vec::with_capacity(WASTE), Vec::with_capacity(WASTE));
        Waste { nodes, lists, tables: table::Waste::with_room(WASTE), numbered: Vec::with_capacity(WASTE) }
    }
}

/// How many segments and tables of a kind one hold may give up without an allocation: hardly ever more than one.
const WASTE: usize = 2;

struct List<K> {
    hash: u64,
    key: K,
    /// The watchers without a number, and those at one.
    plain: Chain,
    numbered: Chain,
    /// Nobody waits at a lower number than this, so that most events need not search.
    lowest: u64,
    watchers: u32,
    cursors: u32,
}

/// The ends of a chain of nodes.
#[derive(Clone, Copy)]
struct Chain {
    head: u32,
    tail: u32,
}

impl Chain {
    const EMPTY: Chain = Chain { head: NONE, tail: NONE };
}

impl<K> List<K> {
    /// The chain of a node with this entry.
    const fn chain(&mut self, entry: u32) -> &mut Chain {
        if entry == NONE { &mut self.plain } else { &mut self.numbered }
    }
}

struct Node<W> {
    /// `None`: a cursor.
    watcher: Option<W>,
    number: u64,
    list: u32,
    prev: u32,
    next: u32,
    /// At a number: its entry in the map, for a cursor that of the node that it was put before. Else `NONE`.
    entry: u32,
}

/// Whom a walk takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// All of them, in order of registration, for something else than a look.
    All,
    /// For a look: of those at a number the ones at no more than this, by number.
    UpTo(u64),
}

/// A walk along one list, between two steps.
pub(crate) struct Walk {
    list: u32,
    /// Its own: nodes with a higher number are younger than the walk.
    number: u64,
    reach: Reach,
    place: At,
}

/// Where a walk has come to. Those without a number come first.
enum At {
    Cursor(u32),
    /// In the map. A list that empties meanwhile may be another key's when the walk comes back: then all in it are younger
    /// than the walk.
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
        let mut lists = WatchLists {
            by_key: KeyTable::new(),
            lists: Pool::new(),
            nodes: Pool::new(),
            numbered: Numbered::new(),
            next_number: 1,
            watchers: 0,
            watched_keys: 0,
        };
        lists.exchange_waste(&mut Waste::with_room());
        lists
    }

    /// Appends a watcher to a key's list and returns its node. The key comes back if the list had one already.
    ///
    /// O(1), amortised over the growth of the tables.
    pub(crate) fn watch(&mut self, hash: u64, key: K, watcher: W) -> (u32, Option<K>) {
        let (list, spare) = self.join(hash, key);
        (self.append(list, watcher, NONE), spare)
    }

    /// Lets a watcher wait on a key at a number, and returns its node. O(log n) with n watchers at a number.
    pub(crate) fn watch_at(&mut self, hash: u64, key: K, at: u64, watcher: W) -> (u32, Option<K>) {
        let (list, spare) = self.join(hash, key);
        self.note_lowest(list, at);
        let entry = self.numbered.insert(Place { list, at, registration: self.next_number });
        let node = self.append(list, watcher, entry);
        self.numbered.set_node(entry, node);
        (node, spare)
    }

    /// Takes a watcher out of its list, in O(1), or O(log n) if it waits at a number. Returns it, and the key if nobody is
    /// left on it.
    pub(crate) fn unwatch(&mut self, node: u32) -> (W, Option<K>) {
        let Node { watcher, list, entry, .. } = self.unlink(node);
        if entry != NONE {
            self.numbered.remove(entry);
        }
        let watcher = watcher.expect("only a walk unlinks its cursor");
        (watcher, self.leave(list))
    }

    /// Lets a watcher that waits at a number wait at another one. Returns whether that is a lower one.
    pub(crate) fn move_to(&mut self, node: u32, at: u64) -> bool {
        let Node { list, entry, .. } = self.nodes[node];
        let lower = self.numbered.move_to(entry, at);
        if lower {
            self.note_lowest(list, at);
        }
        lower
    }

    /// Somebody waits at this number.
    fn note_lowest(&mut self, list: u32, at: u64) {
        let lowest = &mut self.lists[list].lowest;
        *lowest = at.min(*lowest);
    }

    /// Begins a walk along a key's list and takes its first step. `None`: nobody on it is in reach.
    #[inline]
    pub(crate) fn walk<Q>(&mut self, hash: u64, key: &Q, reach: Reach, out: &mut Taken<W>) -> Option<Walk>
    where
        Q: Equivalent<K> + ?Sized,
    {
        let list = self.find(hash, key)?;
        let List { plain, lowest, .. } = self.lists[list];
        if plain.head == NONE && matches!(reach, Reach::UpTo(up_to) if up_to < lowest) {
            return None;
        }
        let mut walk = Walk { list, number: self.next_number, reach, place: At::Over };
        self.next_number += 1;
        self.walk_from(plain.head, false, &mut walk, out);
        Some(walk)
    }

    /// Takes the next step of a walk. Returns the key if the walk is over and nobody is left on it.
    pub(crate) fn step(&mut self, walk: &mut Walk, out: &mut Taken<W>) -> Option<K> {
        match walk.place {
            At::Over => None,
            At::Number(place) => {
                let _ = self.walk_numbers(place, walk, out);
                None
            }
            At::Cursor(next) if planted("no-cursor") => {
                // The place is the next watcher itself, which may have gone.
                walk.place = At::Over;
                if self.nodes.contains(next) {
                    self.walk_from(next, self.nodes[next].entry != NONE, walk, out);
                }
                None
            }
            At::Cursor(cursor) => {
                let Node { next: from, entry, .. } = self.nodes[cursor];
                let mut next = Walk { place: At::Over, ..*walk };
                self.walk_from(from, entry != NONE, &mut next, out);
                let emptied = self.abandon(walk);
                *walk = next;
                emptied
            }
        }
    }

    /// A step along a chain from a node on, and on to those at a number if it comes to the end of the others.
    fn walk_from(&mut self, node: u32, is_numbered: bool, walk: &mut Walk, out: &mut Taken<W>) {
        let List { numbered: Chain { head: first_at_a_number, .. }, lowest, .. } = self.lists[walk.list];
        if let Some(rest) = self.take_step(node, walk.number, out) {
            walk.place = At::Cursor(self.insert_cursor_before(rest));
        } else if first_at_a_number == NONE || is_numbered {
            walk.place = At::Over;
        } else {
            match walk.reach {
                Reach::All => self.walk_from(first_at_a_number, true, walk, out),
                Reach::UpTo(up_to) if up_to < lowest => walk.place = At::Over,
                Reach::UpTo(_) => {
                    let from = Place { list: walk.list, at: 0, registration: 0 };
                    self.lists[walk.list].lowest = self.walk_numbers(from, walk, out);
                }
            }
        }
    }

    /// A step along the map. Returns the first number that it has found, whether in reach or not.
    fn walk_numbers(&mut self, from: Place, walk: &mut Walk, out: &mut Taken<W>) -> u64 {
        let Reach::UpTo(up_to) = walk.reach else { unreachable!("other walks go along the chains") };
        let nodes = &self.nodes;
        let take = |node: u32| out.extend(nodes[node].watcher.clone());
        let (first, rest) = self.numbered.take_step(from, walk.number, up_to, WALK_STEP, take);
        walk.place = rest.map_or(At::Over, At::Number);
        first.unwrap_or(u64::MAX)
    }

    /// Ends a walk early. Returns the key if nobody is left on it.
    pub(crate) fn abandon(&mut self, walk: &mut Walk) -> Option<K> {
        let At::Cursor(cursor) = std::mem::replace(&mut walk.place, At::Over) else { return None };
        if planted("no-cursor") {
            return None;
        }
        let Node { list, .. } = self.unlink(cursor);
        debug_assert_eq!(list, walk.list, "a cursor stays in its list");
        self.lists[list].cursors -= 1;
        self.remove_if_empty(list)
    }

    /// Whether there is waste.
    #[inline]
    pub(crate) fn has_waste(&self) -> bool {
        self.nodes.has_waste()
            || self.lists.has_waste()
            || self.by_key.has_waste()
            || self.numbered.has_waste()
    }

    /// Gives the waste away, and takes an empty place for more of it.
    pub(crate) fn exchange_waste(&mut self, empty: &mut Waste<K, W>) {
        self.nodes.exchange_waste(&mut empty.nodes);
        self.lists.exchange_waste(&mut empty.lists);
        self.by_key.exchange_waste(&mut empty.tables);
        self.numbered.exchange_waste(&mut empty.numbered);
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
    #[inline]
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
    #[inline]
    fn leave(&mut self, list: u32) -> Option<K> {
        let entry = &mut self.lists[list];
        entry.watchers -= 1;
        self.watchers -= 1;
        if entry.watchers > 0 {
            return None;
        }
        self.watched_keys -= 1;
        self.remove_if_empty(list)
    }

    fn add_list(&mut self, hash: u64, key: K) -> u32 {
        let list = List {
            hash,
            key,
            plain: Chain::EMPTY,
            numbered: Chain::EMPTY,
            lowest: u64::MAX,
            watchers: 0,
            cursors: 0,
        };
        let index = self.lists.insert(list);
        self.by_key.insert(hash, index, |list| self.lists[list].hash);
        index
    }

    #[inline]
    fn append(&mut self, list: u32, watcher: W, entry: u32) -> u32 {
        let number = self.next_number;
        self.next_number += 1;
        let chain = self.lists[list].chain(entry);
        let prev = chain.tail;
        let node = self.nodes.insert(Node { watcher: Some(watcher), number, list, prev, next: NONE, entry });
        chain.tail = node;
        match prev {
            NONE => chain.head = node,
            _ => self.nodes[prev].next = node,
        }
        node
    }

    /// Puts a cursor before a node, with that node's number: whatever lies before it has been taken.
    fn insert_cursor_before(&mut self, next: u32) -> u32 {
        if planted("no-cursor") {
            return next;
        }
        let Node { number, list, prev, entry, .. } = self.nodes[next];
        let cursor = self.nodes.insert(Node { watcher: None, number, list, prev, next, entry });
        self.nodes[next].prev = cursor;
        let list = &mut self.lists[list];
        list.cursors += 1;
        match prev {
            NONE => list.chain(entry).head = cursor,
            _ => self.nodes[prev].next = cursor,
        }
        cursor
    }

    #[inline]
    fn unlink(&mut self, node: u32) -> Node<W> {
        let node = self.nodes.remove(node);
        let chain = self.lists[node.list].chain(node.entry);
        match node.prev {
            NONE => chain.head = node.next,
            prev => self.nodes[prev].next = node.next,
        }
        match node.next {
            NONE => chain.tail = node.prev,
            next => self.nodes[next].prev = node.prev,
        }
        node
    }

    /// Removes a list that neither a watcher nor a cursor needs. Whoever registers next makes a new one: both
    /// happen under the shard's lock, so nobody can watch a list that is gone.
    fn remove_if_empty(&mut self, list: u32) -> Option<K> {
        let entry = &self.lists[list];
        if entry.watchers > 0 || entry.cursors > 0 {
            return None;
        }
        let hash = entry.hash;
        self.by_key.remove(hash, list);
        Some(self.lists.remove(list).key)
    }

    /// Clones up to a step's worth of watchers from `node` on. Returns the node to go on with, if any is left that
    /// is not younger than the walk.
    fn take_step(&self, mut node: u32, end: u64, out: &mut Taken<W>) -> Option<u32> {
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
                out.push(watcher.clone());
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
        let (mut watchers, mut keys, mut nodes, mut entries) = (0, 0, 0, 0);
        for (index, list) in self.lists.iter() {
            assert!(list.watchers > 0 || list.cursors > 0, "an empty list is kept");
            let (mut seen, mut cursors) = (0, 0);
            for (is_numbered, chain) in [(false, list.plain), (true, list.numbered)] {
                let (mut prev, mut node, mut last) = (NONE, chain.head, None);
                while node != NONE {
                    let entry = &self.nodes[node];
                    assert_eq!((entry.list, entry.prev, entry.entry != NONE), (index, prev, is_numbered));
                    assert!(last <= Some(entry.number), "numbers rise along a chain");
                    last = Some(entry.number);
                    seen += u32::from(entry.watcher.is_some());
                    cursors += u32::from(entry.watcher.is_none());
                    entries += usize::from(is_numbered && entry.watcher.is_some());
                    if is_numbered && entry.watcher.is_some() {
                        let at = self.numbered.check(entry.entry, node, index, entry.number);
                        assert!(list.lowest <= at);
                    }
                    nodes += 1;
                    (prev, node) = (node, entry.next);
                }
                assert_eq!(chain.tail, prev);
            }
            assert_eq!((list.watchers, list.cursors), (seen, cursors));
            watchers += seen as usize;
            keys += usize::from(seen > 0);
        }
        assert_eq!((self.watchers, self.watched_keys, self.nodes.len()), (watchers, keys, nodes));
        assert_eq!(self.numbered.len(), entries);
    }
}

mod read;
#[cfg(all(test, not(any(ixion_loom, ixion_shuttle))))]
#[path = "watch_tests.rs"]
mod tests;
