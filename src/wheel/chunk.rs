//! The pieces that buckets are made of: chunks of up to 64 timers.
//!
//! A list that links timer to timer costs a cache miss for each that expires; an array is read in a stream, but to take a
//! timer out of its middle is a problem, and so is growing it. So a bucket is a list of chunks. A timer's slot says in which
//! chunk it is and which number it has there; to stop it is to clear a bit in the chunk's head, without even looking at its
//! entry. When few of a chunk are left, their entries are packed into less memory and keep their numbers, so that no slot
//! has to be told: that would be a cache miss for each. Only when hardly any are left, two neighbours become one.
//!
//! A chunk gives its timers numbers from 0 to 63 in the order in which they are started. When 64 numbers are given it is
//! closed, and from then on only loses timers. It is packed once and takes part in a merger when nearly all are gone;
//! what is copied and renumbered for a timer that is stopped is half an entry and an eighth of a slot.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::num::NonZeroU32;

use crate::steps;

/// Timers a chunk. One bit of a `u64` for each says which of them still wait.
pub(super) const CHUNK: usize = if cfg!(test) { 16 } else { 64 };
/// Room for so many entries is made at first; then for a chunk full.
pub(super) const FEW: usize = CHUNK / 4;
/// When a chunk that was full has no more than this left, the entries are packed.
pub(super) const PACK: usize = CHUNK * 3 / 8;
/// Two neighbours that hold no more than this between them become one.
pub(super) const MERGE: usize = CHUNK * 3 / 16;
/// A stop looks closer at a chunk when it leaves one of these counts in it: then the entries are packed, or a neighbour
/// may be found to merge with, and an empty chunk goes. Looking each time would be a branch that no predictor can guess.
pub(super) const LOOK: u64 = 1 | 1 << (MERGE / 4) | 1 << (MERGE / 2) | 1 << PACK;
const _: () = assert!(MERGE <= FEW && FEW <= PACK && PACK < CHUNK);
const _: () = assert!(CHUNK <= 64 && CHUNK.is_power_of_two());

/// The chunk that does not exist: the end of a list.
pub(super) const NIL: u32 = 0;

/// Where a timer waits: a chunk and an entry of it, or one of two places without a chunk.
///
/// Chunk 0 does not exist, so small values are free for other meanings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place(NonZeroU32);

impl Place {
    /// The deadline is never: in no bucket.
    pub(super) const NEVER: Place = Place(NonZeroU32::new(1).unwrap());
    /// The deadline lay in the past: among the late ones.
    pub(super) const LATE: Place = Place(NonZeroU32::new(2).unwrap());

    #[inline]
    pub(super) fn new(chunk: u32, entry: usize) -> Self {
        debug_assert!(chunk != NIL && entry < CHUNK);
        Place(NonZeroU32::new(chunk * CHUNK as u32 + entry as u32).expect("chunk 0 does not exist"))
    }

    #[inline]
    pub(super) fn chunk(self) -> u32 {
        self.0.get() / CHUNK as u32
    }

    #[inline]
    pub(super) fn entry(self) -> usize {
        self.0.get() as usize % CHUNK
    }
}

/// A chunk without its entries: all that stopping a timer reads and writes, in a table small enough to stay in
/// a near cache.
#[derive(Clone, Copy)]
pub(super) struct Head {
    /// One bit for each entry that waits. Never zero in a chunk that is in a bucket.
    pub(super) live: u64,
    /// The bucket that the chunk is in.
    pub(super) bucket: u16,
    /// The entries in use, from the first on; later starts come after them.
    pub(super) len: u8,
    /// The entries that wait: the bits of `live`, counted.
    pub(super) count: u8,
    /// The entry with the earliest deadline, or `LOST` if that was stopped.
    pub(super) min_at: u8,
}

/// Not an entry: the earliest was stopped, and nobody looks for the next one before somebody asks.
pub(super) const LOST: u8 = CHUNK as u8;

const _: () = assert!(size_of::<Head>() == 16, "a quarter of a cache line");

/// The entries, which only starting, moving and expiring touch, and those in order; and the neighbours.
///
/// An entry keeps its number for life, since that is what its timer's slot says. When many are gone, the others are
/// packed: moved together in memory, which no slot needs to know.
pub(super) struct Body {
    pub(super) next: u32,
    pub(super) prev: u32,
    /// The earliest deadline of those that wait, or 0 if that is `LOST`: nothing that is added is earlier then.
    pub(super) min: u64,
    pub(super) entries: Box<[Entry]>,
    /// The numbers of the entries. All bits are set until the chunk is packed.
    pub(super) kept: u64,
}

/// The index of a timer, and the two halves of its deadline: in three words, so that 64 entries take 768 bytes.
pub(super) type Entry = [u32; 3];

#[inline]
pub(super) fn entry(index: u32, deadline: u64) -> Entry {
    [index, deadline as u32, (deadline >> 32) as u32]
}

#[inline]
pub(super) fn deadline([_, low, high]: Entry) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

impl Body {
    /// Where the entries lie whose bits are set, as bits again.
    #[inline]
    pub(super) fn positions(&self, live: u64) -> u64 {
        if self.kept == u64::MAX {
            return live;
        }
        let numbers = bits(self.kept).enumerate();
        numbers.fold(0, |positions, (at, number)| positions | (live >> number & 1) << at)
    }

    #[inline]
    pub(super) fn get(&self, number: usize) -> Entry {
        self.entries[self.positions(1 << number).trailing_zeros() as usize]
    }

    /// Makes room for so many entries, and keeps the first of them. Returns the room that there was.
    pub(super) fn resize(&mut self, room: usize) -> Box<[Entry]> {
        if self.entries.len() == room {
            return Box::default();
        }
        // Not `vec!`: that asks the allocator for zeroes, which is a slower way.
        let mut entries = Vec::with_capacity(room);
        entries.extend_from_slice(&self.entries[..room.min(self.entries.len())]);
        entries.resize(room, [0; 3]);
        core::mem::replace(&mut self.entries, entries.into_boxed_slice())
    }
}

impl Default for Body {
    fn default() -> Self {
        Body { next: NIL, prev: NIL, min: 0, entries: Box::default(), kept: u64::MAX }
    }
}

impl Head {
    pub(super) const EMPTY: Head = Head { live: 0, bucket: 0, len: 0, count: 0, min_at: LOST };

    /// The entry of the first that waits.
    #[inline]
    pub(super) fn first(&self) -> usize {
        debug_assert!(self.live != 0);
        self.live.trailing_zeros() as usize % CHUNK
    }

    /// Adds an entry, if the room of the chunk is not used up.
    #[inline(always)]
    pub(super) fn push(&mut self, body: &mut Body, index: u32, deadline: u64) -> Option<usize> {
        let at = usize::from(self.len);
        // Once it is packed a chunk has fewer entries than it has given numbers.
        *body.entries.get_mut(at)? = entry(index, deadline);
        steps::count(1);
        self.len += 1;
        self.count += 1;
        self.live |= 1 << at;
        if deadline < body.min {
            (body.min, self.min_at) = (deadline, at as u8);
        }
        Some(at)
    }

    #[inline]
    pub(super) fn has_lost_min(&self) -> bool {
        self.min_at == LOST
    }

    /// Moves what waits together in memory, and keeps its numbers.
    pub(super) fn compact(&self, body: &mut Body) {
        steps::count(self.count.into());
        for (to, from) in bits(body.positions(self.live)).enumerate() {
            body.entries[to] = body.entries[from];
        }
        body.kept = self.live;
    }

    /// Gives what waits new numbers, from the first on, and makes room for so many in all.
    pub(super) fn close_up(&mut self, body: &mut Body, room: usize, mut moved: impl FnMut(u32, usize)) {
        self.compact(body);
        for (to, (entry, of)) in body.entries.iter().zip(bits(self.live)).enumerate() {
            if to != of {
                moved(entry[0], to);
            }
            if of == self.min_at.into() {
                self.min_at = to as u8;
            }
        }
        body.kept = u64::MAX;
        body.resize(room);
        self.len = self.count;
        self.live = (1 << self.count) - 1;
    }

    pub(super) fn check_invariants(&self, body: &Body) {
        assert!(self.live != 0, "an empty chunk is in no bucket");
        let (len, room) = (u32::from(self.len), body.entries.len());
        assert_eq!(self.live.count_ones(), self.count.into());
        assert!(len <= CHUNK as u32 && 64 - self.live.leading_zeros() <= len, "{len} {:b}", self.live);
        assert_eq!(self.live & !body.kept, 0, "what waits is kept");
        if body.kept == u64::MAX {
            assert!(room >= len as usize, "room for {room}, not for {len}");
        } else {
            assert_eq!((room, len), (PACK, CHUNK as u32), "it is packed");
        }
        let min = bits(self.live).map(|number| deadline(body.get(number))).min().expect("there is one");
        // In level 0 all deadlines are the same, and a pop does not look which entry goes.
        if self.has_lost_min() {
            assert_eq!(body.min, 0, "nothing is earlier");
        } else if self.bucket >= 64 {
            assert_eq!((body.min, self.live >> self.min_at & 1), (min, 1), "the earliest waits");
        }
    }
}

/// The numbers of the bits that are set, from the lowest on.
#[inline]
pub(super) fn bits(mut rest: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let bit = rest.trailing_zeros() as usize;
        (rest != 0).then(|| {
            rest &= rest - 1;
            bit % CHUNK
        })
    })
}
