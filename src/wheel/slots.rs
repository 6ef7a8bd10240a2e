//! Where the timers' items live: a slab in segments, whose indices are handed out with a generation.
//!
//! It knows where a timer waits, its [`Place`], but not when it is due. The caller's handle is an index in here, which makes the
//! first of the cache misses that stopping a timer costs; the place leads to the others.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::num::NonZeroU32;

use super::chunk::Place;
use super::timer::TimerId;
use crate::fault::planted;

/// Slots a segment. A table that grows by whole segments never copies what it holds, so no call pays for a
/// growth; and a segment is the unit in which memory goes back. 1024 slots keep the tables of segments small
/// (1.3 kB for a million timers) and a burst's rest small.
const SEGMENT: usize = 1024;
const ROWS: usize = SEGMENT / 64;
const _: () = assert!(ROWS <= 16, "the rows are summed up in 16 bits");

/// Free slots at hand. Few, since after a burst each may keep a segment from being given back.
const RECENT: usize = 16;

/// A segment is in `Slots::open` at this position: nowhere.
const CLOSED: u32 = u32::MAX;

/// A slab of items. An index comes with the generation of its slot; a slot whose generations are used up is
/// never used again, so no pair of the two is handed out twice.
#[allow(clippy::vec_box, reason = "see `segments`")]
pub(super) struct Slots<T> {
    /// Segments of slots, each of which grows up to `SEGMENT`. Apart from the rest of a segment, so that the table
    /// through which every call goes is small.
    slots: Vec<Vec<Slot<T>>>,
    /// In boxes, so that a table that doubles copies little.
    segments: Vec<Box<Segment>>,
    /// The segments that have memory and room, the one to use next last.
    open: Vec<u32>,
    /// The segments that gave their memory back.
    blank: Vec<u32>,
    /// Segments that have emptied and kept their memory; some have been taken from since.
    idle: Vec<u32>,
    /// Free slots at hand, the one to use next last: those freed last, which are still in the cache. While timers come
    /// and go in turn, this is all that is touched. To their segments they count as taken.
    recent: [u32; RECENT],
    recent_len: u32,
    /// Memory that segments have given back, where the wheel keeps its [waste](super::waste).
    pub(super) waste: Option<Vec<Vec<Slot<T>>>>,
    /// How many slots hold an item.
    len: usize,
    /// How many slots are free in their segments.
    vacant: usize,
}

struct Segment {
    /// One bit for each free slot, in rows of 64.
    free: [u64; ROWS],
    /// One bit for each row that is not zero.
    rows: u16,
    taken: u32,
    /// Whether it stands in `Slots::idle`.
    is_idle: bool,
    open_at: u32,
    /// The generation at which a new slot starts.
    first: u32,
    /// The least generation that no slot of this segment has used; 0 when they are used up. New slots start
    /// there after the segment gave its memory back, so it needs to remember nothing else.
    fresh: u32,
}

/// A slot. The generation is never 0, and where it is vacant it is the next one to use, or 0: retired.
pub(super) enum Slot<T> {
    Vacant { generation: u32 },
    Taken { generation: NonZeroU32, place: Place, item: T },
}

// The place cannot be zero, and that is where the compiler keeps the variant.
const _: () = assert!(size_of::<Slot<u64>>() == 16);

impl<T> Slots<T> {
    pub(super) fn new() -> Self {
        Slots {
            slots: Vec::new(),
            segments: Vec::new(),
            open: Vec::new(),
            blank: Vec::new(),
            idle: Vec::new(),
            waste: None,
            len: 0,
            vacant: 0,
            recent: [0; RECENT],
            recent_len: 0,
        }
    }

    /// The slot that `occupy` will take.
    ///
    /// # Panics
    ///
    /// If 2^32 slots are taken or retired.
    #[inline]
    pub(super) fn next(&mut self) -> u32 {
        if self.recent_len == 0 {
            self.refill();
        }
        self.recent[(self.recent_len as usize - 1) % RECENT]
    }

    /// Puts an item into the slot that `next` named.
    #[inline]
    pub(super) fn occupy(&mut self, index: u32, place: Place, item: T) -> TimerId {
        debug_assert_eq!(index, self.recent[self.recent_len as usize - 1]);
        self.recent_len -= 1;
        self.len += 1;
        let (at, within) = split(index);
        let slot = &mut self.slots[at][within];
        let generation = match *slot {
            Slot::Vacant { generation } => NonZeroU32::new(generation),
            Slot::Taken { .. } => None,
        };
        let generation = generation.expect("a slot at hand is neither taken nor retired");
        *slot = Slot::Taken { generation, place, item };
        TimerId { index, generation }
    }

    /// Moves the item out, if the timer is still there, and frees its slot.
    #[inline]
    pub(super) fn take(&mut self, id: TimerId) -> Option<(Place, T)> {
        let (at, within) = split(id.index);
        let slot = self.slots.get_mut(at)?.get_mut(within)?;
        match *slot {
            Slot::Taken { generation, .. } if generation == id.generation => {}
            _ => return None,
        }
        let (_, place, item) = slot.vacate();
        self.recycle(id);
        Some((place, item))
    }

    /// Moves out the item of a slot that is known to be taken, and frees the slot.
    #[inline]
    pub(super) fn remove(&mut self, index: u32) -> (TimerId, T) {
        let (at, within) = split(index);
        let (generation, _, item) = self.slots[at][within].vacate();
        let id = TimerId { index, generation };
        self.recycle(id);
        (id, item)
    }

    /// Keeps a slot that was vacated at hand, or gives it back.
    #[inline]
    fn recycle(&mut self, id: TimerId) {
        let next = next_generation(id.generation);
        self.len -= 1;
        if (self.recent_len as usize) < RECENT && next != 0 {
            self.recent[self.recent_len as usize] = id.index;
            self.recent_len += 1;
        } else {
            self.free(id.index, next);
        }
        if self.len == 0 && self.open.len() > 1 {
            self.free_recent();
        }
    }

    /// Reads slots that are about to be written. Nothing waits for what is read, so the cache misses overlap.
    #[inline]
    pub(super) fn touch(&self, indices: impl Iterator<Item = u32>) {
        let taken =
            indices.filter(|index| self.slot(*index).is_some_and(|it| matches!(it, Slot::Taken { .. })));
        core::hint::black_box(taken.count());
    }

    #[inline]
    pub(super) fn set_place(&mut self, index: u32, new: Place) {
        let (at, within) = split(index);
        match &mut self.slots[at][within] {
            Slot::Taken { place, .. } => *place = new,
            Slot::Vacant { .. } => unreachable!("only a taken slot has a place"),
        }
    }

    /// Where the timer with this id waits, if it does.
    #[inline]
    pub(super) fn place(&self, id: TimerId) -> Option<Place> {
        match self.slot(id.index)? {
            Slot::Taken { generation, place, .. } if *generation == id.generation => Some(*place),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn get(&self, id: TimerId) -> Option<&T> {
        match self.slot(id.index)? {
            Slot::Taken { generation, item, .. } if *generation == id.generation => Some(item),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: TimerId) -> Option<&mut T> {
        let (at, within) = split(id.index);
        match self.slots.get_mut(at)?.get_mut(within)? {
            Slot::Taken { generation, item, .. } if *generation == id.generation => Some(item),
            _ => None,
        }
    }

    /// The item of a slot that is known to be taken.
    pub(super) fn item(&self, index: u32) -> Option<&T> {
        match self.slot(index)? {
            Slot::Taken { item, .. } => Some(item),
            Slot::Vacant { .. } => None,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn heap_size(&self) -> usize {
        let slots: usize = self.slots.iter().map(Vec::capacity).sum();
        let numbers = self.open.capacity() + self.blank.capacity() + self.idle.capacity();
        slots * size_of::<Slot<T>>() + self.segments.len() * (size_of::<Segment>() + 32) + numbers * 4
    }

    /// Index and place of everything that is taken.
    pub(super) fn places(&self) -> impl Iterator<Item = (u32, Place)> {
        self.slots.iter().enumerate().flat_map(|(at, slots)| {
            slots.iter().enumerate().filter_map(move |(within, slot)| match slot {
                Slot::Taken { place, .. } => Some(((at * SEGMENT + within) as u32, *place)),
                Slot::Vacant { .. } => None,
            })
        })
    }

    pub(super) fn into_items(self) -> impl Iterator<Item = T> {
        self.slots.into_iter().flatten().filter_map(|slot| match slot {
            Slot::Taken { item, .. } => Some(item),
            Slot::Vacant { .. } => None,
        })
    }

    pub(super) fn check_invariants(&self) {
        let recent = &self.recent[..self.recent_len as usize];
        let (mut len, mut vacant) = (0, 0);
        for (at, (segment, slots)) in self.segments.iter().zip(&self.slots).enumerate() {
            let mut taken = 0;
            for (within, slot) in slots.iter().enumerate() {
                let free = segment.free[within / 64] >> (within % 64) & 1 == 1;
                match *slot {
                    Slot::Taken { .. } => {
                        (taken, len) = (taken + 1, len + 1);
                        assert!(!free, "segment {at}, slot {within}: taken and free");
                    }
                    Slot::Vacant { generation } => {
                        let index = (at * SEGMENT + within) as u32;
                        let at_hand = recent.contains(&index);
                        taken += u32::from(at_hand);
                        assert!(!(free && at_hand), "segment {at}, slot {within}: free twice");
                        assert_eq!(free || at_hand, generation != 0, "segment {at}, slot {within}");
                        assert!(segment.fresh == 0 || at_hand || generation <= segment.fresh);
                        vacant += usize::from(free);
                    }
                }
            }
            assert_eq!(taken, segment.taken, "segment {at}");
            for (row, bits) in segment.free.iter().enumerate() {
                assert_eq!(*bits != 0, segment.rows >> row & 1 == 1, "segment {at}, row {row}");
            }
            let open = self.open.iter().filter(|open| **open as usize == at).count();
            let blank = self.blank.iter().filter(|blank| **blank as usize == at).count();
            let room = segment.rows != 0 || (slots.len() < SEGMENT && slots.capacity() > 0);
            assert_eq!(open, usize::from(room), "segment {at} is open where it has room");
            assert_eq!(blank, usize::from(slots.capacity() == 0 && segment.fresh != 0));
            let idle = self.idle.iter().filter(|idle| **idle as usize == at).count();
            assert_eq!(idle, usize::from(segment.is_idle));
            assert!(idle == 1 || segment.taken > 0 || slots.is_empty(), "segment {at} is idle");
            if room {
                assert_eq!(self.open[segment.open_at as usize] as usize, at);
            }
        }
        assert_eq!((len, vacant), (self.len, self.vacant));
    }

    #[inline]
    fn slot(&self, index: u32) -> Option<&Slot<T>> {
        let (at, within) = split(index);
        self.slots.get(at)?.get(within)
    }

    /// Takes free slots of one segment to hand.
    #[inline(never)]
    fn refill(&mut self) {
        let at = match self.open.last() {
            Some(&at) => at,
            None => self.open_segment(),
        };
        let segment = &mut self.segments[at as usize];
        let slots = &mut self.slots[at as usize];
        let base = at * SEGMENT as u32;
        while (self.recent_len as usize) < RECENT {
            let within = if segment.rows != 0 {
                self.vacant -= 1;
                segment.take_free()
            } else if slots.len() < SEGMENT {
                slots.push(Slot::Vacant { generation: segment.first });
                slots.len() - 1
            } else {
                break;
            };
            segment.taken += 1;
            self.recent[self.recent_len as usize] = base + within as u32;
            self.recent_len += 1;
        }
        // From the first on: a burst then goes through memory in one direction.
        self.recent[..self.recent_len as usize].reverse();
        if segment.rows == 0 && slots.len() == SEGMENT {
            segment.open_at = CLOSED;
            self.open.pop();
        }
    }

    /// Gives a slot back to its segment; `next` is its generation, or 0.
    #[inline(never)]
    fn free(&mut self, index: u32, next: u32) {
        let (at, within) = split(index);
        let segment = &mut self.segments[at];
        segment.taken -= 1;
        if segment.fresh != 0 && (next == 0 || next > segment.fresh) {
            segment.fresh = next;
        }
        if next != 0 {
            segment.free[within / 64] |= 1 << (within % 64);
            segment.rows |= 1 << (within / 64);
            self.vacant += 1;
            if segment.open_at == CLOSED {
                segment.open_at = self.open.len() as u32;
                self.open.push(at as u32);
            }
        }
        if segment.taken == 0 && !segment.is_idle {
            segment.is_idle = true;
            self.idle.push(at as u32);
        }
        // Two at most for each slot that comes back, so that a call's work is bounded.
        for _ in 0..2 {
            if self.vacant <= self.len + 2 * SEGMENT {
                break;
            }
            let Some(at) = self.idle.pop() else { break };
            self.segments[at as usize].is_idle = false;
            if self.segments[at as usize].taken == 0 {
                self.give_back(at as usize);
            }
        }
    }

    #[cold]
    fn free_recent(&mut self) {
        while self.recent_len > 0 {
            self.recent_len -= 1;
            let index = self.recent[self.recent_len as usize];
            let (at, within) = split(index);
            match self.slots[at][within] {
                Slot::Vacant { generation } => self.free(index, generation),
                Slot::Taken { .. } => unreachable!("a slot at hand is vacant"),
            }
        }
    }

    /// Gives memory to a segment that has none and makes it the one to use next.
    #[cold]
    fn open_segment(&mut self) -> u32 {
        let at = match self.blank.pop() {
            Some(at) => at as usize,
            None => {
                let at = self.segments.len();
                assert!(at < (1 << 32) / SEGMENT, "2^32 timers are the most that a wheel can hold");
                self.segments.push(Box::new(Segment::new()));
                self.slots.push(Vec::new());
                // Room for each of them, so that to free a slot allocates nothing.
                for list in [&mut self.open, &mut self.blank, &mut self.idle] {
                    list.reserve(self.segments.len() - list.len());
                }
                at
            }
        };
        // The first segment grows as a vector does, so that a wheel of a few timers is small.
        let capacity = if at == 0 { RECENT } else { SEGMENT };
        let segment = &mut self.segments[at];
        self.slots[at].reserve_exact(capacity);
        segment.open_at = self.open.len() as u32;
        self.open.push(at as u32);
        at as u32
    }

    /// Frees the memory of a segment that nothing is taken of.
    #[cold]
    fn give_back(&mut self, at: usize) {
        let segment = &mut self.segments[at];
        debug_assert_eq!(segment.taken, 0);
        self.vacant -= segment.free.iter().map(|row| row.count_ones() as usize).sum::<usize>();
        let slots = core::mem::take(&mut self.slots[at]);
        if let Some(waste) = &mut self.waste {
            waste.push(slots);
        }
        segment.free = [0; ROWS];
        segment.rows = 0;
        segment.first = segment.fresh;
        let open_at = core::mem::replace(&mut segment.open_at, CLOSED);
        // A segment with a slot that is retired is retired as a whole: 1024 of 2^32 indices are lost for every
        // 2^32 uses of one of them.
        if segment.fresh != 0 {
            self.blank.push(at as u32);
        }
        if open_at != CLOSED {
            self.open.swap_remove(open_at as usize);
            if let Some(&moved) = self.open.get(open_at as usize) {
                self.segments[moved as usize].open_at = open_at;
            }
        }
    }
}

impl<T> Slots<T> {
    /// Pretends that the slots of the first segment have been used until `generation`.
    #[cfg(test)]
    pub(super) fn age(&mut self, generation: u32) {
        assert!(self.segments.is_empty());
        self.segments.push(Box::new(Segment { first: generation, fresh: generation, ..Segment::new() }));
        self.slots.push(Vec::new());
        self.blank.push(0);
    }
}

impl<T> Slot<T> {
    /// Moves out what a taken slot holds, and leaves the next generation.
    #[inline]
    fn vacate(&mut self) -> (NonZeroU32, Place, T) {
        let next = match *self {
            Slot::Taken { generation, .. } => next_generation(generation),
            Slot::Vacant { .. } => unreachable!("only a taken slot is vacated"),
        };
        match core::mem::replace(self, Slot::Vacant { generation: next }) {
            Slot::Taken { generation, place, item } => (generation, place, item),
            Slot::Vacant { .. } => unreachable!("it was taken a moment ago"),
        }
    }
}

impl Segment {
    fn new() -> Self {
        Segment { free: [0; ROWS], rows: 0, taken: 0, is_idle: false, open_at: CLOSED, first: 1, fresh: 1 }
    }

    #[inline]
    fn take_free(&mut self) -> usize {
        let row = self.rows.trailing_zeros() as usize;
        let bit = self.free[row].trailing_zeros() as usize;
        self.free[row] &= self.free[row] - 1;
        if self.free[row] == 0 {
            self.rows &= !(1 << row);
        }
        row * 64 + bit
    }
}

#[inline]
fn split(index: u32) -> (usize, usize) {
    (index as usize / SEGMENT, index as usize % SEGMENT)
}

/// The generation after this one, or 0 if there is none.
#[inline]
fn next_generation(generation: NonZeroU32) -> u32 {
    generation.get().wrapping_add(if planted("same-generation") { 0 } else { 1 })
}
