//! A hash table that grows without one large copy: it finds the watch list of a key.
//!
//! Extendible hashing (Fagin, Nievergelt, Pippenger, Strong, 1979): a directory leads from some bits of the hash to one of
//! many small tables. One that is full is split in two by the next bit, and the others stay as they are. A table that
//! doubled as a whole would move every entry under the shard's lock.
//!
//! What is kept is the index of a list; the hash is kept there, and asked for when a table is split.

use crate::steps;
use hashbrown::HashTable;

/// Entries a table, before it is split. To ask for the hash of each is a cache miss, so that is some ten microseconds. As
/// many as fit in 128 places, so that all blocks are small ones to an allocator, and nothing is copied before a split.
pub(super) const LIMIT: usize = 112;

/// No more bits than these lead to a table: enough for twenty million keys in one shard. Larger tables are those of keys
/// that have the same hash.
const MAX_BITS: u8 = 18;

/// The directory takes its bits from here on: the tables take the lowest and the highest ones, shards the upper middle.
const FIRST_BIT: u32 = 16;

/// A table that empties keeps no more room than this: enough for a key that comes and goes to cost no allocation.
const KEPT: usize = 14;

pub(super) struct KeyTable {
    /// A power of two of them, each the number of a table.
    directory: Vec<u32>,
    tables: Vec<Table>,
    len: usize,
    waste: Waste,
}

/// Memory that is not needed any more.
pub(super) struct Waste {
    tables: Vec<HashTable<u32>>,
    /// The table of the tables; until that is given up, the one that comes after it.
    all: Vec<Table>,
}

struct Table {
    lists: HashTable<u32>,
    /// How many bits of the hash all that is in here have in common.
    bits: u8,
    /// Whether no bit would part those that are in here. Until it has emptied.
    is_one_hash: bool,
}

impl KeyTable {
    pub(super) fn new() -> Self {
        KeyTable { directory: vec![0], tables: vec![Table::EMPTY], len: 0, waste: Waste::with_room(0) }
    }

    pub(super) fn find(&self, hash: u64, is_it: impl FnMut(&u32) -> bool) -> Option<u32> {
        self.tables[self.table_of(hash)].lists.find(hash, is_it).copied()
    }

    /// Adds a list that is not in the table. `hash_of` is asked for the hashes of other lists.
    pub(super) fn insert(&mut self, hash: u64, list: u32, hash_of: impl Fn(u32) -> u64) {
        let mut at = self.table_of(hash);
        while self.tables[at].can_be_split() && self.tables[at].lists.len() >= LIMIT {
            self.split(at, hash, &hash_of);
            at = self.table_of(hash);
        }
        let lists = &mut self.tables[at].lists;
        steps::count(if lists.len() == lists.capacity() { 1 + lists.len() } else { 1 });
        lists.insert_unique(hash, list, |&list| hash_of(list));
        self.len += 1;
    }

    /// Takes a list out.
    ///
    /// # Panics
    ///
    /// If it is not there.
    pub(super) fn remove(&mut self, hash: u64, list: u32) {
        let at = self.table_of(hash);
        let lists = &mut self.tables[at].lists;
        let found = lists.find_entry(hash, |&other| other == list);
        found.expect("every list is found by its key").remove();
        self.len -= 1;
        if lists.is_empty() && (lists.capacity() > KEPT || self.len == 0) {
            self.tables[at].is_one_hash = false;
            self.give_up(at);
        }
    }

    /// Gives up the memory of an empty table, or all there is if that was the last entry. A table that is only sparse
    /// keeps its own: to make a smaller one takes memory, and whoever is in it keeps more of it elsewhere.
    #[cold]
    fn give_up(&mut self, at: usize) {
        if self.len > 0 || self.tables.len() == 1 {
            let lists = &mut self.tables[at].lists;
            if lists.capacity() > KEPT {
                self.waste.tables.push(std::mem::take(lists));
            }
        } else if self.waste.all.len() == 1 {
            std::mem::swap(&mut self.tables, &mut self.waste.all);
            self.directory.truncate(1);
            self.directory[0] = 0;
        }
    }

    /// Whether there is waste.
    #[inline]
    pub(super) fn has_waste(&self) -> bool {
        !self.waste.tables.is_empty() || self.waste.all.len() > 1
    }

    /// Gives the waste away, and takes an empty place for more of it.
    pub(super) fn exchange_waste(&mut self, empty: &mut Waste) {
        std::mem::swap(&mut self.waste, empty);
    }

    #[inline]
    fn table_of(&self, hash: u64) -> usize {
        // Never empty, and a power of two.
        self.directory[(hash >> FIRST_BIT) as usize & (self.directory.len() - 1)] as usize
    }

    /// Splits the table of this hash by the next bit, if any bit can.
    #[cold]
    fn split(&mut self, at: usize, hash: u64, hash_of: impl Fn(u32) -> u64) {
        let bits = self.tables[at].bits;
        let bit = 1usize << bits;
        let is_upper = |hash: u64| (hash >> FIRST_BIT) as usize & bit != 0;
        steps::count(self.tables[at].lists.len());
        if self.tables[at].lists.iter().all(|list| is_upper(hash_of(*list)) == is_upper(hash)) {
            // A full table of keys that agree in a bit is one of keys with the same hash. No bit will part them.
            self.tables[at].is_one_hash = true;
            return;
        }
        if bit == self.directory.len() {
            self.directory.extend_from_within(..);
        }
        self.tables[at].bits += 1;
        let full = std::mem::replace(&mut self.tables[at].lists, HashTable::with_capacity(LIMIT));
        let halves = [at, self.tables.len()];
        self.tables.push(Table { lists: self.waste.room(), bits: bits + 1, is_one_hash: false });
        steps::count(full.len());
        for &list in &full {
            let hash = hash_of(list);
            let half = halves[usize::from(is_upper(hash))];
            self.tables[half].lists.insert_unique(hash, list, |&list| hash_of(list));
        }
        self.waste.tables.push(full);
        // Every place of the directory whose lower bits are these.
        let first = (hash >> FIRST_BIT) as usize & (bit - 1) | bit;
        let new = u32::try_from(halves[1]).expect("there are fewer tables than places in the directory");
        for place in (first..self.directory.len()).step_by(2 * bit) {
            self.directory[place] = new;
        }
    }

    #[cfg(test)]
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// For how many entries there is memory, and the longest table.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> (usize, usize) {
        let lists = || self.tables.iter().map(|table| &table.lists);
        (lists().map(HashTable::capacity).sum(), lists().map(HashTable::len).max().unwrap_or(0))
    }
}

impl Waste {
    /// An empty place for so much that nothing is allocated when it comes.
    pub(super) fn with_room(tables: usize) -> Self {
        Waste { tables: Vec::with_capacity(tables), all: vec![Table::EMPTY] }
    }

    /// An empty table with room for a full one: what an earlier split has left, since where keys only come nobody carries
    /// that off.
    fn room(&mut self) -> HashTable<u32> {
        match self.tables.pop_if(|table| table.capacity() >= LIMIT) {
            Some(mut table) => {
                table.clear();
                table
            }
            None => HashTable::with_capacity(LIMIT),
        }
    }
}

impl Table {
    const EMPTY: Table = Table { lists: HashTable::new(), bits: 0, is_one_hash: false };

    const fn can_be_split(&self) -> bool {
        self.bits < MAX_BITS && !self.is_one_hash
    }
}

#[cfg(all(test, not(any(ixion_loom, ixion_shuttle))))]
mod tests {
    use super::*;

    /// Any hash will do that spreads.
    fn hash_of(list: u32) -> u64 {
        u64::from(list).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17)
    }

    #[test]
    fn each_list_is_found_until_it_is_removed_and_no_table_is_large() {
        let mut table = KeyTable::new();
        let found = |table: &KeyTable, list: u32| table.find(hash_of(list), |&other| other == list);
        for list in 0..20_000 {
            table.insert(hash_of(list), list, hash_of);
        }
        assert!(table.capacity().1 <= LIMIT && table.len() == 20_000);
        assert!((0..20_000).all(|list| found(&table, list) == Some(list)));
        for list in (0..20_000).filter(|list| list % 100 != 0) {
            table.remove(hash_of(list), list);
        }
        for list in 0..20_000 {
            assert_eq!(found(&table, list).is_some(), list % 100 == 0, "{list}");
        }
        for list in (0..20_000).step_by(100) {
            table.remove(hash_of(list), list);
        }
        assert_eq!((table.len(), table.tables.len(), table.directory.len()), (0, 1, 1));
    }

    #[test]
    fn keys_of_one_hash_are_served_all_the_same() {
        let mut table = KeyTable::new();
        // One table, since all share the bits of the directory.
        let hash_of = |list: u32| u64::from(list % 64) | u64::from(list) << 57;
        for list in 0..10_000 {
            table.insert(hash_of(list), list, hash_of);
        }
        assert_eq!((table.capacity().1, table.directory.len()), (10_000, 1), "not split again and again");
        for list in 100..10_000 {
            table.remove(hash_of(list), list);
        }
        assert!((0..100).all(|list| table.find(hash_of(list), |&other| other == list) == Some(list)));
    }

    #[test]
    fn keys_of_one_hash_that_are_gone_keep_nothing_together() {
        let mut table = KeyTable::new();
        (0..200).for_each(|list| table.insert(7, list, |_| 7));
        (0..200).for_each(|list| table.remove(7, list));
        (0..20_000).for_each(|list| table.insert(hash_of(list), list, hash_of));
        assert!(table.capacity().1 <= LIMIT, "{:?}", table.capacity());
    }

    #[test]
    fn what_empties_is_waste_and_a_key_that_comes_and_goes_makes_none() {
        let mut table = KeyTable::new();
        (0..20_000).for_each(|list| table.insert(hash_of(list), list, hash_of));
        assert!(table.waste.tables.len() <= 1, "a split takes what an earlier one has left");
        let full = table.capacity().0;
        let take_waste = |table: &mut KeyTable| {
            let mut waste = Waste::with_room(1);
            table.exchange_waste(&mut waste);
            waste
        };
        take_waste(&mut table);
        (1..20_000).for_each(|list| table.remove(hash_of(list), list));
        let waste: usize = take_waste(&mut table).tables.iter().map(HashTable::capacity).sum();
        assert_eq!(
            waste + table.capacity().0,
            full,
            "all of it is handed out, and the lock's holder frees none"
        );
        assert!(table.capacity().0 <= LIMIT + table.tables.len() * KEPT, "{:?}", table.capacity());
        for list in 20_000..20_100 {
            table.insert(hash_of(list), list, hash_of);
            table.remove(hash_of(list), list);
        }
        assert!(!table.has_waste());
        table.remove(hash_of(0), 0);
        assert!(
            table.tables.len() == 1 && take_waste(&mut table).all.len() > 1,
            "the last one leaves nothing"
        );
    }
}
