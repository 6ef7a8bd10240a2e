//! The pieces that buckets are made of: chunks of up to 64 timers, in a pool.

use std::num::NonZeroU32;

use crate::steps;

/// Timers a chunk. One bit of a `u64` for each says which of them still wait.
pub(super) const CHUNK: usize = if cfg!(test) { 4 } else { 64 };
/// Two neighbours that hold no more than this between them can become one. A quarter stays free, so that a merged
/// chunk has room, or something to lose before it is looked at again.
const MERGE: u32 = (CHUNK * 3 / 4) as u32;
/// A stop looks for a neighbour to merge with when it leaves one of these counts in its chunk: three quarters of
/// `MERGE`, a half, a quarter (or nothing, and then the chunk goes). Looking each time would be a branch that no
/// predictor can guess, which costs more than all the rest of a stop: it made stop and start 1.5 to 2 times as slow. Two
/// neighbours still hold 38 of 128 or more.
const LOOK: u64 = 1 | 1 << (MERGE / 4) | 1 << (MERGE / 2) | 1 << (MERGE * 3 / 4);
/// A full chunk that holds no more than this is closed up instead of followed by another one.
const CLOSE_UP: u32 = (CHUNK / 2) as u32;
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
#[repr(align(32))]
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
    /// The entries that wait: the bits of `live`, counted.
    pub(super) count: u8,
    /// An entry whose deadline is `min`.
    min_at: u32,
}

const _: () = assert!(size_of::<Chunk>() == 32, "half a cache line");

/// The entries, which only starting, moving and expiring touch, and those in order.
pub(super) struct Body {
    deadlines: [u64; CHUNK],
    indices: [u32; CHUNK],
}

impl Chunk {
    const EMPTY: Chunk =
        Chunk { live: 0, min: u64::MAX, next: NIL, prev: NIL, bucket: 0, len: 0, count: 0, min_at: 0 };

    /// The entry of the first that waits.
    #[inline]
    pub(super) fn first(&self) -> usize {
        debug_assert!(self.live != 0);
        self.live.trailing_zeros() as usize % CHUNK
    }

    #[inline]
    fn push(&mut self, body: &mut Body, index: u32, deadline: u64) -> usize {
        steps::count(1);
        let entry = usize::from(self.len) % CHUNK;
        self.len += 1;
        self.count += 1;
        self.live |= 1 << entry;
        self.min_at = if deadline < self.min { entry as u32 } else { self.min_at };
        self.min = self.min.min(deadline);
        body.deadlines[entry] = deadline;
        body.indices[entry] = index;
        entry
    }

    /// Forgets what waits, and returns the bits of it.
    pub(super) fn drain(&mut self) -> u64 {
        self.count = 0;
        std::mem::take(&mut self.live)
    }

    /// Finds the earliest deadline again.
    fn find_min(&mut self, body: &Body) {
        steps::count(CHUNK);
        let (mut min, mut min_at) = (u64::MAX, 0);
        for entry in bits(self.live) {
            if body.deadlines[entry] < min {
                (min, min_at) = (body.deadlines[entry], entry as u32);
            }
        }
        (self.min, self.min_at) = (min, min_at);
    }

    /// Moves what waits to the front.
    fn close_up(&mut self, body: &mut Body, mut moved: impl FnMut(u32, usize)) {
        let live = std::mem::take(&mut self.live);
        (self.len, self.count, self.min) = (0, 0, u64::MAX);
        for entry in bits(live) {
            let index = body.indices[entry];
            let to = self.push(body, index, body.deadlines[entry]);
            if to != entry {
                moved(index, to);
            }
        }
    }

    fn check_invariants(&self, body: &Body) {
        assert!(self.live != 0, "an empty chunk is in no bucket");
        let len = u32::from(self.len);
        assert_eq!(self.live.count_ones(), self.count.into());
        assert!(len <= CHUNK as u32 && 64 - self.live.leading_zeros() <= len, "{len} {:b}", self.live);
        assert!(self.live >> self.min_at & 1 == 1 || self.bucket < 64, "the earliest waits");
        let min = bits(self.live).map(|entry| body.deadlines[entry]).min();
        assert_eq!(min, Some(self.min), "the earliest deadline");
    }
}

/// The numbers of the bits that are set, from the lowest on.
#[inline]
pub(super) fn bits(mut rest: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = rest.trailing_zeros() as usize;
        (rest != 0).then(|| {
            rest &= rest - 1;
            bit % CHUNK
        })
    })
}

/// All chunks of a wheel, and those that are free.
#[allow(clippy::vec_box, reason = "the tables grow by boxes so that what is in them is not copied")]
pub(super) struct Chunks {
    /// In segments, so that growing copies nothing.
    heads: Vec<Box<[Chunk; SEGMENT]>>,
    bodies: Vec<Box<[Option<Box<Body>>; SEGMENT]>>,
    count: u32,
    /// Free chunks that kept their body.
    spare: Vec<u32>,
    /// Free chunks without.
    bare: Vec<u32>,
    /// Bodies that are not needed any more, where the wheel keeps its [waste](super::waste).
    pub(super) waste: Option<Vec<Box<Body>>>,
}

/// Chunks a segment.
const SEGMENT: usize = 32;

impl Chunks {
    pub(super) fn new() -> Self {
        // Chunk 0 stands for none: it has no body.
        let mut chunks = Chunks {
            heads: Vec::new(),
            bodies: Vec::new(),
            count: 0,
            spare: Vec::new(),
            bare: Vec::new(),
            waste: None,
        };
        let nil = chunks.grow();
        debug_assert_eq!(nil, NIL);
        chunks
    }

    #[inline]
    pub(super) fn get(&self, chunk: u32) -> &Chunk {
        let (segment, at) = split(chunk);
        &self.heads[segment][at]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, chunk: u32) -> &mut Chunk {
        let (segment, at) = split(chunk);
        &mut self.heads[segment][at]
    }

    /// The index and deadline of an entry.
    #[inline]
    pub(super) fn entry(&self, chunk: u32, entry: usize) -> (u32, u64) {
        let (segment, at) = split(chunk);
        let body = self.bodies[segment][at].as_deref().expect("a chunk in use has a body");
        (body.indices[entry], body.deadlines[entry])
    }

    /// Adds an entry to a chunk, if that has room and is not `NIL`.
    #[inline]
    pub(super) fn push(&mut self, chunk: u32, index: u32, deadline: u64) -> Option<Place> {
        let (segment, at) = split(chunk);
        let head = &mut self.heads[segment][at];
        if usize::from(head.len) == CHUNK {
            return None;
        }
        // `NIL` is the only one without a body that anyone asks for.
        let body = self.bodies[segment][at].as_deref_mut()?;
        Some(Place::new(chunk, head.push(body, index, deadline)))
    }

    /// Takes an entry out, leaving a hole. Returns whether the chunk needs to be looked at for more: it is empty or
    /// sparse now, or its earliest entry has gone.
    #[inline]
    pub(super) fn remove(&mut self, place: Place) -> bool {
        let (head, entry) = (self.get_mut(place.chunk()), place.entry());
        debug_assert!(head.live >> entry & 1 == 1, "entry {entry} of chunk {} is a hole", place.chunk());
        steps::count(1);
        head.live &= !(1 << entry);
        head.count -= 1;
        (LOOK >> (head.count % 64) & 1 == 1) | (head.min_at as usize == entry)
    }

    /// Finds the earliest deadline of a chunk again.
    pub(super) fn find_min(&mut self, chunk: u32) {
        let (head, body) = self.both(chunk);
        head.find_min(body);
    }

    /// Whether a chunk that lost this entry has lost the one whose deadline it knows to be the earliest.
    pub(super) fn has_lost_min(&self, place: Place) -> bool {
        self.get(place.chunk()).min_at as usize == place.entry()
    }

    /// The two neighbours to merge, one of them `chunk`, the earlier one first.
    pub(super) fn sparse_pair(&self, chunk: u32) -> Option<(u32, u32)> {
        let head = self.get(chunk);
        if LOOK >> (head.count % 64) & 1 == 0 {
            return None;
        }
        let fits = |other: u32| other != NIL && u32::from(self.get(other).count + head.count) <= MERGE;
        if fits(head.next) {
            Some((chunk, head.next))
        } else if fits(head.prev) {
            Some((head.prev, chunk))
        } else {
            None
        }
    }

    /// Moves what waits in `from` behind what waits in `into`, without holes. `from` is then empty.
    #[cold]
    pub(super) fn merge(&mut self, into: u32, from: u32, mut moved: impl FnMut(u32, Place)) {
        let live = self.get_mut(from).drain();
        let (segment, at) = split(from);
        let source = self.bodies[segment][at].take().expect("a chunk in use has a body");
        let (head, body) = self.both(into);
        head.close_up(body, |index, entry| moved(index, Place::new(into, entry)));
        for entry in bits(live) {
            let index = source.indices[entry];
            let to = head.push(body, index, source.deadlines[entry]);
            moved(index, Place::new(into, to));
        }
        self.bodies[segment][at] = Some(source);
    }

    /// Makes room in a full chunk, if enough of it are holes.
    pub(super) fn close_up(&mut self, chunk: u32, mut moved: impl FnMut(u32, Place)) -> bool {
        let (head, body) = self.both(chunk);
        let sparse = u32::from(head.count) <= CLOSE_UP;
        if sparse {
            head.close_up(body, |index, entry| moved(index, Place::new(chunk, entry)));
        }
        sparse
    }

    /// A chunk with no entries and no neighbours.
    ///
    /// # Panics
    ///
    /// If places for more than 2^32 entries would be needed.
    pub(super) fn allocate(&mut self, bucket: u16) -> u32 {
        let chunk = self.spare.pop().or_else(|| self.bare.pop()).unwrap_or_else(|| self.grow());
        let (segment, at) = split(chunk);
        debug_assert!(self.heads[segment][at].live == 0);
        self.heads[segment][at] = Chunk { bucket, ..Chunk::EMPTY };
        self.bodies[segment][at]
            .get_or_insert_with(|| Box::new(Body { deadlines: [0; CHUNK], indices: [0; CHUNK] }));
        chunk
    }

    /// Takes back a chunk that is in no bucket.
    pub(super) fn release(&mut self, chunk: u32) {
        debug_assert!(self.get(chunk).live == 0);
        self.spare.push(chunk);
        // Two at most for each that comes back, so that a call's work is bounded, and yet the spare ones go as
        // those in use do.
        let limit = self.used() / 4 + SPARE;
        for _ in 0..2 {
            if self.spare.len() <= limit {
                break;
            }
            if let Some(bare) = self.spare.pop() {
                let (segment, at) = split(bare);
                let body = self.bodies[segment][at].take();
                if let Some(waste) = &mut self.waste {
                    waste.extend(body);
                }
                self.bare.push(bare);
            }
        }
    }

    /// How many chunks are in buckets.
    pub(super) fn used(&self) -> usize {
        self.count as usize - 1 - self.spare.len() - self.bare.len()
    }

    pub(super) fn heap_size(&self) -> usize {
        let heads = self.heads.len() * SEGMENT * (size_of::<Chunk>() + 8);
        let numbers = self.spare.capacity() + self.bare.capacity();
        let bodies = self.used() + self.spare.len();
        heads + self.heads.capacity() * 16 + numbers * 4 + bodies * size_of::<Body>()
    }

    pub(super) fn check_invariants(&self, chunk: u32) {
        let (segment, at) = split(chunk);
        let body = self.bodies[segment][at].as_deref().expect("a chunk in use has a body");
        self.heads[segment][at].check_invariants(body);
    }

    #[inline]
    fn both(&mut self, chunk: u32) -> (&mut Chunk, &mut Body) {
        let (segment, at) = split(chunk);
        let body = self.bodies[segment][at].as_deref_mut().expect("a chunk in use has a body");
        (&mut self.heads[segment][at], body)
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        let chunk = self.count;
        assert!((chunk as usize) < (1 << 32) / CHUNK, "2^32 timers are the most that a wheel can hold");
        self.count += 1;
        if self.heads.len() == split(chunk).0 {
            self.heads.push(Box::new([Chunk::EMPTY; SEGMENT]));
            self.bodies.push(Box::new([const { None }; SEGMENT]));
            // Room for each of them, so that to take one back allocates nothing.
            let all = self.heads.len() * SEGMENT;
            self.spare.reserve(all - self.spare.len());
            self.bare.reserve(all - self.bare.len());
        }
        chunk
    }
}

#[inline]
fn split(chunk: u32) -> (usize, usize) {
    (chunk as usize / SEGMENT, chunk as usize % SEGMENT)
}
