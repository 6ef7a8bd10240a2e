//! A slab that grows without copying: what the watch lists keep their nodes and their lists in.
//!
//! It is cut into segments, each a [`Slab`] of its own. A slab doubles by moving all that is in it to a larger place,
//! and it does so under the shard's lock; a segment never has more than [`SEGMENT`] entries to move. A segment that
//! has emptied gives its memory back, so that after a burst a survivor keeps one segment and not the whole. It gives it
//! to whoever asks for the [waste](Pool::exchange_waste): the allocator may take its time, and the lock is held here.

use crate::steps;
use slab::Slab;
use std::ops::{Index, IndexMut};

/// Entries a segment: about 10 kB of nodes. Larger ones would be copied for longer and kept by fewer survivors, smaller
/// ones would make the table of the segments the largest thing to copy.
pub(super) const SEGMENT: usize = 256;

pub(super) struct Pool<T> {
    segments: Vec<Slab<T>>,
    /// Segments with room; the last one is filled next. Each that has an entry and is not full is in here.
    open: Vec<u32>,
    /// Segments without entries or memory that are not in `open`.
    bare: Vec<u32>,
    len: usize,
    waste: Segments<T>,
}

/// Segments that hold nothing any more, but for their memory.
pub(super) type Segments<T> = Vec<Slab<T>>;

impl<T> Pool<T> {
    pub(super) const fn new() -> Self {
        Pool { segments: Vec::new(), open: Vec::new(), bare: Vec::new(), len: 0, waste: Vec::new() }
    }

    /// Adds an entry and returns its index. O(1), but for the growth of one segment.
    ///
    /// # Panics
    ///
    /// If there are 2^32 - 2^8 entries: with their nodes alone they would need 160 GiB.
    pub(super) fn insert(&mut self, value: T) -> u32 {
        let segment = match self.open.last() {
            Some(&segment) => segment,
            None => self.open_another(),
        };
        let entries = &mut self.segments[segment as usize];
        steps::count(if entries.len() == entries.capacity() { 1 + entries.len() } else { 1 });
        let entry = entries.insert(value);
        if entries.len() == SEGMENT {
            self.open.pop();
        }
        self.len += 1;
        segment * SEGMENT as u32 + entry as u32
    }

    /// Takes an entry out. O(1).
    ///
    /// # Panics
    ///
    /// If there is none.
    pub(super) fn remove(&mut self, index: u32) -> T {
        let (segment, entry) = split(index);
        let entries = &mut self.segments[segment];
        steps::count(1);
        let value = entries.remove(entry);
        self.len -= 1;
        match entries.len() {
            0 => self.close(segment as u32),
            left if left == SEGMENT - 1 => self.open.push(segment as u32),
            _ => {}
        }
        value
    }

    /// Whether there is such an entry.
    pub(super) fn contains(&self, index: u32) -> bool {
        let (segment, entry) = split(index);
        self.segments[segment].contains(entry)
    }

    /// The entry, if there is one.
    pub(super) fn get(&self, index: u32) -> Option<&T> {
        let (segment, entry) = split(index);
        self.segments.get(segment)?.get(entry)
    }

    /// All entries of a segment; `None`: there is no such segment.
    pub(super) fn segment(&self, segment: usize) -> Option<impl Iterator<Item = (u32, &T)>> {
        let entries = self.segments.get(segment)?;
        Some(entries.iter().map(move |(entry, value)| ((segment * SEGMENT + entry) as u32, value)))
    }

    fn open_another(&mut self) -> u32 {
        let segment = self.bare.pop().unwrap_or_else(|| {
            self.segments.push(Slab::new());
            // Room for each of them, so that to take one out allocates nothing.
            self.open.reserve(self.segments.len() - self.open.len());
            self.bare.reserve(self.segments.len() - self.bare.len());
            u32::try_from(self.segments.len() - 1).expect("a vector of slabs this long is not to be had")
        });
        assert!(segment < u32::MAX / SEGMENT as u32, "a pool has fewer than 2^32 entries");
        self.open.push(segment);
        segment
    }

    /// Whether there is waste.
    #[inline]
    pub(super) fn has_waste(&self) -> bool {
        !self.waste.is_empty()
    }

    /// Gives the waste away, and takes an empty place for more of it.
    pub(super) fn exchange_waste(&mut self, empty: &mut Segments<T>) {
        std::mem::swap(&mut self.waste, empty);
    }

    /// Gives up what an empty segment holds, unless it is the only one with room. The table of the segments stays: a
    /// fifth of a byte for each entry that there has been.
    #[cold]
    fn close(&mut self, segment: u32) {
        if self.open.len() > 1 {
            self.waste.push(std::mem::take(&mut self.segments[segment as usize]));
            // Not to be filled next, or an entry that comes and goes would cost an allocation each time. One that lies
            // deeper is found when its turn comes.
            if self.open.last() == Some(&segment) {
                self.open.pop();
                self.bare.push(segment);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..self.segments.len()).filter_map(|segment| self.segment(segment)).flatten()
    }

    /// For how many entries there is memory.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.segments.iter().map(Slab::capacity).sum()
    }

    #[cfg(test)]
    pub(super) const fn len(&self) -> usize {
        self.len
    }
}

impl<T> Index<u32> for Pool<T> {
    type Output = T;
    #[inline]
    fn index(&self, index: u32) -> &T {
        let (segment, entry) = split(index);
        &self.segments[segment][entry]
    }
}

impl<T> IndexMut<u32> for Pool<T> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        let (segment, entry) = split(index);
        &mut self.segments[segment][entry]
    }
}

#[inline]
const fn split(index: u32) -> (usize, usize) {
    (index as usize / SEGMENT, index as usize % SEGMENT)
}

#[cfg(all(test, not(any(ixion_loom, ixion_shuttle))))]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn an_entry_keeps_its_index_and_an_index_is_never_given_twice() {
        let (mut pool, mut expected, mut seed) = (Pool::new(), HashMap::new(), 1u64);
        for round in 0..100_000u64 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // It fills for a while, then it empties.
            let fill = if round / 20_000 % 2 == 0 { 3 } else { 1 };
            if seed >> 62 < fill {
                assert_eq!(expected.insert(pool.insert(round), round), None);
            } else if let Some(index) =
                expected.keys().nth((seed >> 40) as usize % expected.len().max(1)).copied()
            {
                assert_eq!(Some(pool[index]), expected.remove(&index));
                pool.remove(index);
            }
            assert_eq!(pool.len(), expected.len());
        }
        assert!(pool.iter().all(|(index, value)| expected[&index] == *value));
        assert!(pool.open.len() + pool.bare.len() <= pool.segments.len());
    }

    #[test]
    fn a_survivor_of_a_burst_keeps_one_segment() {
        let mut pool = Pool::new();
        let all: Vec<u32> = (0..1000 * SEGMENT).map(|n| pool.insert(n)).collect();
        for &index in &all[1..] {
            pool.remove(index);
        }
        assert!(pool.capacity() <= 3 * SEGMENT, "{}", pool.capacity());
        assert_eq!(pool[all[0]], 0);
        pool.remove(all[0]);
        assert!(pool.capacity() <= 3 * SEGMENT, "{}", pool.capacity());
    }

    #[test]
    fn what_empties_is_waste_and_is_freed_by_whoever_takes_it() {
        let mut pool = Pool::new();
        let all: Vec<u32> = (0..1000 * SEGMENT).map(|n| pool.insert(n)).collect();
        let lists = (pool.open.capacity(), pool.bare.capacity());
        for &index in &all[1..] {
            pool.remove(index);
        }
        assert!(pool.has_waste());
        let mut waste = Vec::with_capacity(1);
        pool.exchange_waste(&mut waste);
        let wasted: usize = waste.iter().map(Slab::capacity).sum();
        assert_eq!(wasted + pool.capacity(), 1000 * SEGMENT);
        assert_eq!((pool.open.capacity(), pool.bare.capacity()), lists, "nothing is allocated on the way");
        assert!(!pool.has_waste() && pool.waste.capacity() == 1, "and there is room for more");
    }

    #[test]
    fn an_entry_that_comes_and_goes_costs_no_segment_each_time() {
        let mut pool = Pool::new();
        let full: Vec<u32> = (0..SEGMENT).map(|n| pool.insert(n)).collect();
        let beside = pool.insert(1000);
        pool.remove(full[7]);
        pool.remove(beside);
        for _ in 0..10 {
            let again = pool.insert(1001);
            assert_eq!(again as usize / SEGMENT, full[7] as usize / SEGMENT);
            pool.remove(again);
        }
    }
}
