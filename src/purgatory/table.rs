//! A hash table that grows without one large copy: it finds the watch list of a key.
//!
//! Extendible hashing (Fagin, Nievergelt, Pippenger, Strong, 1979): a directory leads from some bits of the hash to one of
//! many small tables. One that is full is split in two by the next bit, and the others stay as they are. A table that
//! doubled as a whole would move every entry under the shard's lock.
//!
//! What is kept is the index of a list; the hash is kept there, and asked for when a table is split.

use crate::steps;
use hashbrown::HashTable;

/// Entries a table, before it is split. To ask for the hash of each is a cache miss, so that is some ten microseconds.
pub(super) const LIMIT: usize = if cfg!(test) { 64 } else { 256 };

/// No more bits than these lead to a table: enough for fifty million keys in one shard. Larger tables are those of keys
/// that have the same hash.
const MAX_BITS: u8 = 18;

/// The directory takes its bits from here on: the tables take the lowest and the highest ones, shards the upper middle.
const FIRST_BIT: u32 = 16;

/// Tables up to this capacity are not shrunk.
const KEPT_CAPACITY: usize = 32;

pub(super) struct KeyTable {
    /// A power of two of them, each the number of a table.
    directory: Vec<u32>,
    tables: Vec<Table>,
    len: usize,
}

struct Table {
    lists: HashTable<u32>,
    /// How many bits of the hash all that is in here have in common.
    bits: u8,
}

impl KeyTable {
    pub(super) fn new() -> Self {
        KeyTable { directory: vec![0], tables: vec![Table { lists: HashTable::new(), bits: 0 }], len: 0 }
    }

    pub(super) fn find(&self, hash: u64, is_it: impl FnMut(&u32) -> bool) -> Option<u32> {
        self.tables[self.table_of(hash)].lists.find(hash, is_it).copied()
    }

    /// Adds a list that is not in the table. `hash_of` is asked for the hashes of other lists.
    pub(super) fn insert(&mut self, hash: u64, list: u32, hash_of: impl Fn(u32) -> u64) {
        let mut at = self.table_of(hash);
        while self.tables[at].lists.len() >= LIMIT && self.tables[at].bits < MAX_BITS {
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
    pub(super) fn remove(&mut self, hash: u64, list: u32, hash_of: impl Fn(u32) -> u64) {
        let at = self.table_of(hash);
        let several = self.tables.len() > 1;
        let lists = &mut self.tables[at].lists;
        let found = lists.find_entry(hash, |&other| other == list);
        found.expect("every list is found by its key").remove();
        self.len -= 1;
        if self.len == 0 && several {
            // No table has memory any more but this one, so this is quick.
            *self = KeyTable::new();
        } else if lists.is_empty() && several {
            *lists = HashTable::new();
        } else if lists.capacity() > KEPT_CAPACITY && lists.len() < lists.capacity() / 8 {
            steps::count(lists.len());
            lists.shrink_to(lists.len() * 2, |&list| hash_of(list));
        }
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
            self.tables[at].bits = MAX_BITS;
            return;
        }
        if bit == self.directory.len() {
            self.directory.extend_from_within(..);
        }
        self.tables[at].bits += 1;
        let full = std::mem::replace(&mut self.tables[at].lists, HashTable::with_capacity(LIMIT / 2));
        let halves = [at, self.tables.len()];
        self.tables.push(Table { lists: HashTable::with_capacity(LIMIT / 2), bits: bits + 1 });
        steps::count(full.len());
        for list in full {
            let hash = hash_of(list);
            let half = halves[usize::from(is_upper(hash))];
            self.tables[half].lists.insert_unique(hash, list, |&list| hash_of(list));
        }
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
            table.remove(hash_of(list), list, hash_of);
        }
        for list in 0..20_000 {
            assert_eq!(found(&table, list).is_some(), list % 100 == 0, "{list}");
        }
        for list in (0..20_000).step_by(100) {
            table.remove(hash_of(list), list, hash_of);
        }
        assert_eq!((table.len(), table.tables.len(), table.directory.len()), (0, 1, 1));
    }

    #[test]
    fn a_table_that_has_lost_most_of_its_lists_is_shrunk() {
        let mut table = KeyTable::new();
        // One table, since all share the bits of the directory.
        let hash_of = |list: u32| u64::from(list % 64) | u64::from(list) << 57;
        for list in 0..10_000 {
            table.insert(hash_of(list), list, hash_of);
        }
        let full = table.capacity();
        assert_eq!(full.1, 10_000, "a poor hash is served all the same");
        assert_eq!(table.directory.len(), 1, "and not split again and again");
        for list in 100..10_000 {
            table.remove(hash_of(list), list, hash_of);
        }
        assert!(table.capacity().0 < full.0 / 8, "{:?} of {full:?}", table.capacity());
        assert!((0..100).all(|list| table.find(hash_of(list), |&other| other == list) == Some(list)));
    }
}
