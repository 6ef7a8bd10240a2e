//! The pieces that buckets are made of: chunks of up to 64 timers, in a pool.

use std::num::NonZeroU32;

/// Timers a chunk. One bit of a `u64` for each says which of them still wait.
pub(super) const CHUNK: usize = if cfg!(test) { 4 } else { 64 };
/// Two neighbours that hold no more than this between them become one. It bounds the memory: on average a chunk
/// of a long bucket holds more than three eighths of what it could. It leaves a quarter free, so that a merged
/// chunk is not merged again at once.
const MERGE: u32 = (CHUNK * 3 / 4) as u32;
/// A stop looks for a neighbour to merge with when its own chunk holds no more than this.
const SPARSE: u32 = MERGE / 2;
/// Chunk bodies kept for reuse, over a quarter of those in use.
const SPARE: usize = 32;
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
    pub(super) fn of(chunk: u32, entry: usize) -> Self {
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
/// a near cache (40 bytes for up to 64 timers).
pub(super) struct Chunk {
    /// One bit for each entry that waits. Never zero in a chunk that is in a bucket.
    pub(super) live: u64,
    /// The earliest deadline of those that wait.
    pub(super) min: u64,
    pub(super) next: u32,
    pub(super) prev: u32,
    /// The bucket that the chunk is in.
    pub(super) bucket: u16,
    /// The entries in use, from the first on; later starts come after them.
    len: u8,
    /// An entry whose deadline is `min`.
    min_at: u8,
    body: Option<Box<Body>>,
}

/// The entries, which only starting, moving and expiring touch, and those in order.
struct Body {
    deadlines: [u64; CHUNK],
    indices: [u32; CHUNK],
}

impl Chunk {
    const EMPTY: Chunk =
        Chunk { live: 0, min: u64::MAX, next: NIL, prev: NIL, bucket: 0, len: 0, min_at: 0, body: None };

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        usize::from(self.len) == CHUNK
    }

    #[inline]
    pub(super) fn entry(&self, entry: usize) -> (u32, u64) {
        let body = self.body();
        (body.indices[entry], body.deadlines[entry])
    }

    /// The slot index of the first that waits.
    #[inline]
    pub(super) fn first(&self) -> usize {
        debug_assert!(self.live != 0);
        self.live.trailing_zeros() as usize % CHUNK
    }

    /// Finds the earliest deadline again.
    fn find_min(&mut self) {
        let body = self.body.as_deref().expect("a chunk in use has a body");
        let (mut min, mut min_at, mut rest) = (u64::MAX, 0, self.live);
        while rest != 0 {
            let entry = rest.trailing_zeros() as usize % CHUNK;
            rest &= rest - 1;
            if body.deadlines[entry] < min {
                (min, min_at) = (body.deadlines[entry], entry as u8);
            }
        }
        (self.min, self.min_at) = (min, min_at);
    }

    #[inline]
    fn body(&self) -> &Body {
        self.body.as_deref().expect("a chunk in use has a body")
    }
}

/// What became of a chunk that lost an entry.
pub(super) enum Shrunk {
    /// It still holds others.
    Waits,
    /// It holds no more, and must be taken out of its bucket.
    Empty,
}

/// All chunks of a wheel, and those that are free.
pub(super) struct Chunks {
    /// In segments, so that growing copies nothing.
    segments: Vec<Vec<Chunk>>,
    count: u32,
    /// Free chunks that kept their body.
    spare: Vec<u32>,
    /// Free chunks without.
    bare: Vec<u32>,
}

/// Chunks a segment.
const SEGMENT: u32 = 256;

impl Chunks {
    pub(super) fn new() -> Self {
        // Chunk 0 stands for none. It is never read but by a bug.
        Chunks { segments: vec![vec![Chunk::EMPTY]], count: 1, spare: Vec::new(), bare: Vec::new() }
    }

    #[inline]
    pub(super) fn get(&self, chunk: u32) -> &Chunk {
        &self.segments[(chunk / SEGMENT) as usize][(chunk % SEGMENT) as usize]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, chunk: u32) -> &mut Chunk {
        &mut self.segments[(chunk / SEGMENT) as usize][(chunk % SEGMENT) as usize]
    }

    /// Adds an entry to a chunk that has room.
    #[inline]
    pub(super) fn push(&mut self, chunk: u32, index: u32, deadline: u64) -> Place {
        let it = self.get_mut(chunk);
        let entry = usize::from(it.len) % CHUNK;
        it.len += 1;
        it.live |= 1 << entry;
        if deadline < it.min {
            (it.min, it.min_at) = (deadline, entry as u8);
        }
        let body = it.body.as_deref_mut().expect("a chunk in use has a body");
        body.deadlines[entry] = deadline;
        body.indices[entry] = index;
        Place::of(chunk, entry)
    }

    /// Takes an entry out, leaving a hole. `one_deadline`: all of the chunk have the same.
    #[inline]
    pub(super) fn remove(&mut self, place: Place, one_deadline: bool) -> Shrunk {
        let it = self.get_mut(place.chunk());
        let entry = place.entry();
        debug_assert!(it.live >> entry & 1 == 1, "entry {entry} of chunk {} is a hole", place.chunk());
        it.live &= !(1 << entry);
        if it.live == 0 {
            return Shrunk::Empty;
        }
        if !one_deadline && usize::from(it.min_at) == entry {
            it.find_min();
        }
        Shrunk::Waits
    }

    /// The two neighbours to merge after `chunk` has lost an entry, the earlier one first.
    #[inline]
    pub(super) fn sparse_pair(&self, chunk: u32) -> Option<(u32, u32)> {
        let it = self.get(chunk);
        let count = it.live.count_ones();
        if count > SPARSE {
            return None;
        }
        let fits = |other: u32| other != NIL && self.get(other).live.count_ones() + count <= MERGE;
        if fits(it.next) {
            Some((chunk, it.next))
        } else if fits(it.prev) {
            Some((it.prev, chunk))
        } else {
            None
        }
    }

    /// Moves what waits in `from` behind what waits in `into`, without holes. `from` is then empty.
    pub(super) fn merge(&mut self, into: u32, from: u32, mut moved: impl FnMut(u32, Place)) {
        let tail = self.get_mut(from);
        let (mut rest, min) = (std::mem::take(&mut tail.live), tail.min);
        let body = tail.body.take().expect("a chunk in use has a body");
        let it = self.get_mut(into);
        it.close_holes(into, &mut moved);
        it.min = it.min.min(min);
        let target = it.body.as_deref_mut().expect("a chunk in use has a body");
        while rest != 0 {
            let entry = rest.trailing_zeros() as usize % CHUNK;
            rest &= rest - 1;
            let to = usize::from(it.len) % CHUNK;
            it.len += 1;
            it.live |= 1 << to;
            (target.deadlines[to], target.indices[to]) = (body.deadlines[entry], body.indices[entry]);
            if body.deadlines[entry] == it.min {
                it.min_at = to as u8;
            }
            moved(body.indices[entry], Place::of(into, to));
        }
        self.get_mut(from).body = Some(body);
    }

    /// A chunk with no entries and no neighbours.
    ///
    /// # Panics
    ///
    /// If places for more than 2^32 entries would be needed.
    pub(super) fn allocate(&mut self, bucket: u16) -> u32 {
        let chunk = self.spare.pop().or_else(|| self.bare.pop()).unwrap_or_else(|| self.grow());
        let it = self.get_mut(chunk);
        debug_assert!(it.live == 0);
        let body =
            it.body.take().unwrap_or_else(|| Box::new(Body { deadlines: [0; CHUNK], indices: [0; CHUNK] }));
        *it = Chunk { bucket, body: Some(body), ..Chunk::EMPTY };
        chunk
    }

    /// Takes back a chunk that is in no bucket.
    pub(super) fn release(&mut self, chunk: u32) {
        debug_assert!(self.get(chunk).live == 0);
        self.spare.push(chunk);
        // Two at most for each that comes back, so that a call's work is bounded, and yet the spare ones go as
        // those in use do.
        let used = self.count as usize - 1 - self.spare.len() - self.bare.len();
        for _ in 0..2 {
            if self.spare.len() <= used / 4 + SPARE {
                break;
            }
            // The oldest one is the coldest, but taking the last is O(1).
            if let Some(bare) = self.spare.pop() {
                self.get_mut(bare).body = None;
                self.bare.push(bare);
            }
        }
    }

    /// How many chunks are in buckets.
    pub(super) fn used(&self) -> usize {
        self.count as usize - 1 - self.spare.len() - self.bare.len()
    }

    pub(super) fn heap_size(&self) -> usize {
        let heads: usize = self.segments.iter().map(Vec::capacity).sum();
        let numbers = self.spare.capacity() + self.bare.capacity();
        let bodies = self.used() + self.spare.len();
        heads * size_of::<Chunk>() + self.segments.capacity() * 24 + numbers * 4 + bodies * size_of::<Body>()
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        let chunk = self.count;
        assert!((chunk as usize) < (1 << 32) / CHUNK, "2^32 timers are the most that a wheel can hold");
        self.count += 1;
        match self.segments.last_mut() {
            Some(last) if last.len() < SEGMENT as usize => last.push(Chunk::EMPTY),
            _ => {
                let mut segment = Vec::with_capacity(SEGMENT as usize);
                segment.push(Chunk::EMPTY);
                self.segments.push(segment);
            }
        }
        chunk
    }
}

impl Chunk {
    fn close_holes(&mut self, chunk: u32, moved: &mut impl FnMut(u32, Place)) {
        let body = self.body.as_deref_mut().expect("a chunk in use has a body");
        let (mut rest, mut to) = (self.live, 0);
        while rest != 0 {
            let entry = rest.trailing_zeros() as usize % CHUNK;
            rest &= rest - 1;
            if entry != to {
                (body.deadlines[to], body.indices[to]) = (body.deadlines[entry], body.indices[entry]);
                moved(body.indices[to], Place::of(chunk, to));
            }
            if body.deadlines[to] == self.min {
                self.min_at = to as u8;
            }
            to += 1;
        }
        self.len = to as u8;
        self.live = if to == 64 { u64::MAX } else { (1 << to) - 1 };
    }

    pub(super) fn check_invariants(&self) {
        assert!(self.live != 0, "an empty chunk is in no bucket");
        let len = u32::from(self.len);
        assert!(len <= CHUNK as u32 && 64 - self.live.leading_zeros() <= len, "{len} {:b}", self.live);
        assert!(self.live >> self.min_at & 1 == 1 || self.bucket < 64, "the earliest waits");
        let waiting = (0..CHUNK).filter(|entry| self.live >> entry & 1 == 1);
        let min = waiting.map(|entry| self.body().deadlines[entry]).min();
        assert_eq!(min, Some(self.min), "the earliest deadline");
    }
}
