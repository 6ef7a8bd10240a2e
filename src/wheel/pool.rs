//! All chunks of a wheel, in a pool: what is done to a chunk by its number.
//!
//! It owns the entries, and says when a chunk is worth packing or merging; which bucket a chunk is in is the business of
//! [`level`](super::level). Segments of it are never moved, so nothing is copied when it grows.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::chunk::{Body, CHUNK, Entry, FEW, Head, LOOK, LOST, MERGE, NIL, PACK, Place, bits, deadline};
use crate::steps;

/// Chunks that keep their room for reuse, over an eighth of those in use.
const SPARE: usize = 16;
/// Rooms of chunks that were packed, for the next ones: they are still in the cache.
const ROOMS: usize = 4;

/// All chunks of a wheel, and those that are free.
#[allow(clippy::vec_box, reason = "the table grows by boxes so that what is in them is not copied")]
pub(super) struct Chunks {
    segments: Vec<Box<Segment>>,
    count: u32,
    /// Free chunks that kept their room.
    spare: Vec<u32>,
    /// Free chunks without.
    bare: Vec<u32>,
    /// Rooms for a chunk full, without a chunk.
    rooms: Vec<Box<[Entry]>>,
    /// Rooms that are not needed any more, where the wheel keeps its [waste](super::waste).
    pub(super) waste: Option<Vec<Box<[Entry]>>>,
}

/// Chunks a segment.
const SEGMENT: usize = 64;

/// The two parts of a chunk are found in one look-up, and yet the heads lie close together.
struct Segment {
    heads: [Head; SEGMENT],
    bodies: [Body; SEGMENT],
}

/// What was in a chunk.
pub(super) struct Drained {
    live: u64,
    body: Body,
}

impl Drained {
    /// Index and deadline of all.
    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u64)> {
        bits(self.body.positions(self.live))
            .map(|at| (self.body.entries[at][0], deadline(self.body.entries[at])))
    }
}

impl Chunks {
    pub(super) fn new() -> Self {
        // Chunk 0 stands for none: it has no room.
        let mut chunks = Chunks {
            segments: Vec::new(),
            count: 0,
            spare: Vec::new(),
            bare: Vec::new(),
            rooms: Vec::with_capacity(ROOMS),
            waste: None,
        };
        let nil = chunks.grow();
        debug_assert_eq!(nil, NIL);
        chunks
    }

    #[inline]
    pub(super) fn head(&self, chunk: u32) -> &Head {
        let (segment, at) = split(chunk);
        &self.segments[segment].heads[at]
    }

    #[inline]
    pub(super) fn body(&self, chunk: u32) -> &Body {
        let (segment, at) = split(chunk);
        &self.segments[segment].bodies[at]
    }

    #[inline]
    pub(super) fn body_mut(&mut self, chunk: u32) -> &mut Body {
        self.both(chunk).1
    }

    /// The index and deadline of an entry.
    #[inline]
    pub(super) fn entry(&self, chunk: u32, entry: usize) -> (u32, u64) {
        let entry = self.body(chunk).get(entry);
        (entry[0], deadline(entry))
    }

    /// Entry, index and deadline of all that waits in a chunk.
    #[inline]
    pub(super) fn entries(&self, chunk: u32) -> impl Iterator<Item = (usize, u32, u64)> {
        let (live, body) = (self.head(chunk).live, self.body(chunk));
        let entries = bits(body.positions(live)).map(|at| body.entries[at]);
        bits(live).zip(entries).map(|(number, it)| (number, it[0], deadline(it)))
    }

    /// The timers of a chunk.
    #[inline]
    pub(super) fn indices(&self, chunk: u32) -> impl Iterator<Item = u32> {
        let body = self.body(chunk);
        bits(body.positions(self.head(chunk).live)).map(|at| body.entries[at][0])
    }

    /// Adds an entry to a chunk, if that has room and is not `NIL`.
    #[inline(always)]
    pub(super) fn push(&mut self, chunk: u32, index: u32, deadline: u64) -> Option<Place> {
        let (head, body) = self.both(chunk);
        head.push(body, index, deadline).map(|entry| Place::new(chunk, entry))
    }

    /// Takes an entry out, leaving a hole. Returns whether the chunk needs to be looked at for more: it is empty or
    /// sparse now, or its earliest entry has gone.
    #[inline]
    pub(super) fn remove(&mut self, place: Place) -> bool {
        let (head, entry) = (self.both(place.chunk()).0, place.entry());
        debug_assert!(head.live >> entry & 1 == 1, "entry {entry} of chunk {} is a hole", place.chunk());
        steps::count(1);
        head.live &= !(1 << entry);
        head.count -= 1;
        (LOOK >> (head.count % 64) & 1 == 1) | (usize::from(head.min_at) == entry)
    }

    /// Notes that an entry is the earliest of its chunk.
    #[inline]
    pub(super) fn note_min(&mut self, place: Place, min: u64) {
        let (head, body) = self.both(place.chunk());
        (body.min, head.min_at) = (min, place.entry() as u8);
    }

    /// The earliest deadline of a chunk, which is looked for if it was lost.
    pub(super) fn min(&self, chunk: u32) -> u64 {
        if self.has_lost_min(chunk) { self.look_for_min(chunk).1 } else { self.body(chunk).min }
    }

    /// Finds the earliest deadline of a chunk, if it was lost.
    pub(super) fn find_min(&mut self, chunk: u32) {
        if self.has_lost_min(chunk) {
            let (entry, min) = self.look_for_min(chunk);
            self.note_min(Place::new(chunk, entry), min);
        }
    }

    pub(super) fn has_lost_min(&self, chunk: u32) -> bool {
        self.head(chunk).has_lost_min()
    }

    /// How long it takes to find the earliest deadline of a chunk, in looks at a head or at four entries.
    pub(super) fn looks(&self, chunk: u32) -> usize {
        let count = usize::from(self.head(chunk).count);
        if self.has_lost_min(chunk) { 1 + count / 4 } else { 1 }
    }

    fn look_for_min(&self, chunk: u32) -> (usize, u64) {
        steps::count(self.head(chunk).count.into());
        let least = self.entries(chunk).min_by_key(|it| it.2).expect("a chunk in a bucket is not empty");
        (least.0, least.2)
    }

    /// Notes that an entry is gone.
    pub(super) fn lose(&mut self, place: Place) {
        let (head, body) = self.both(place.chunk());
        if usize::from(head.min_at) == place.entry() {
            (body.min, head.min_at) = (0, LOST);
        }
    }

    /// Packs a chunk that was full, if few enough are left. The last one of a bucket is left alone until it is full.
    pub(super) fn pack(&mut self, chunk: u32) {
        let (head, body) = self.both(chunk);
        if usize::from(head.len) == CHUNK && usize::from(head.count) <= PACK && body.entries.len() == CHUNK {
            head.compact(body);
            let room = body.resize(PACK);
            if self.rooms.len() < ROOMS {
                self.rooms.push(room);
            } else {
                self.discard(room);
            }
        }
    }

    /// The two neighbours to merge, one of them `chunk`, the earlier one first.
    pub(super) fn sparse_pair(&self, chunk: u32) -> Option<(u32, u32)> {
        let (count, body) = (self.head(chunk).count, self.body(chunk));
        let fits = |other: u32| other != NIL && usize::from(self.head(other).count + count) <= MERGE;
        if usize::from(count) >= MERGE {
            None
        } else if fits(body.next) {
            Some((chunk, body.next))
        } else if fits(body.prev) {
            Some((body.prev, chunk))
        } else {
            None
        }
    }

    /// Moves what waits in `from` behind what waits in `into`, without holes. `from` is then empty.
    #[cold]
    pub(super) fn merge(&mut self, into: u32, from: u32, mut moved: impl FnMut(u32, Place)) {
        let known = !self.has_lost_min(into) || !self.has_lost_min(from);
        let drained = self.drain(from);
        let (head, body) = self.both(into);
        head.close_up(body, FEW, |index, entry| moved(index, Place::new(into, entry)));
        for (index, deadline) in drained.iter() {
            let to = head.push(body, index, deadline).expect("both are few");
            moved(index, Place::new(into, to));
        }
        self.put_back(from, drained);
        if known {
            // One of them may be the earliest of the bucket. That must not go unnoticed when it goes.
            self.find_min(into);
        }
    }

    /// Takes all that waits out of a chunk.
    #[inline]
    pub(super) fn drain(&mut self, chunk: u32) -> Drained {
        let (head, body) = self.both(chunk);
        head.count = 0;
        let live = core::mem::take(&mut head.live);
        let (entries, kept) = (core::mem::take(&mut body.entries), body.kept);
        Drained { live, body: Body { entries, kept, ..Body::default() } }
    }

    /// Gives a chunk back the room of what was in it.
    #[inline]
    pub(super) fn put_back(&mut self, chunk: u32, drained: Drained) {
        self.both(chunk).1.entries = drained.body.entries;
    }

    /// Makes room in the last chunk of a bucket, if it can grow or few are left in it.
    pub(super) fn make_room(&mut self, chunk: u32, mut moved: impl FnMut(u32, Place)) -> bool {
        let (head, body) = self.both(chunk);
        if usize::from(head.len) < CHUNK {
            steps::count(body.entries.len());
            body.resize(CHUNK);
        } else if usize::from(head.count) <= FEW {
            head.close_up(body, CHUNK, |index, entry| moved(index, Place::new(chunk, entry)));
        }
        let has_room = usize::from(head.len) < body.entries.len();
        if !has_room {
            self.pack(chunk);
        }
        has_room
    }

    /// A chunk with no entries and no neighbours, and with room for a few or, if it will be crowded, for all.
    ///
    /// # Panics
    ///
    /// If there are as many chunks as a place can tell apart.
    pub(super) fn allocate(&mut self, bucket: u16, crowded: bool) -> u32 {
        let chunk = self.spare.pop().or_else(|| self.bare.pop()).unwrap_or_else(|| self.grow());
        self.reset(chunk, bucket);
        let room = self.body(chunk).entries.len();
        if crowded && room < CHUNK {
            match self.rooms.pop() {
                Some(room) => self.body_mut(chunk).entries = room,
                None => _ = self.body_mut(chunk).resize(CHUNK),
            }
        } else if room < FEW {
            self.body_mut(chunk).resize(FEW);
        }
        chunk
    }

    /// Makes an empty chunk like new. Returns whether it has room for just a few.
    pub(super) fn reset(&mut self, chunk: u32, bucket: u16) -> bool {
        let (head, body) = self.both(chunk);
        debug_assert!(head.live == 0);
        *head = Head { bucket, ..Head::EMPTY };
        (body.next, body.prev, body.min, body.kept) = (NIL, NIL, u64::MAX, u64::MAX);
        body.entries.len() == FEW
    }

    /// Takes back a chunk that is in no bucket.
    pub(super) fn release(&mut self, chunk: u32) {
        debug_assert!(self.head(chunk).live == 0);
        self.spare.push(chunk);
        // Two at most for each that comes back, so that a call's work is bounded, and yet the spare ones go as
        // those in use do.
        let limit = self.used() / 8 + SPARE;
        for _ in 0..2 {
            if self.spare.len() <= limit {
                break;
            }
            if let Some(bare) = self.spare.pop() {
                let room = core::mem::take(&mut self.both(bare).1.entries);
                self.discard(room);
                self.bare.push(bare);
            }
        }
    }

    /// Gives up a room that nobody needs.
    fn discard(&mut self, room: Box<[Entry]>) {
        if let Some(waste) = &mut self.waste {
            waste.push(room);
        }
    }

    /// The heads of up to `most` chunks from one on, those that are free too: nothing waits in these. And the chunk that comes
    /// after, if there is one.
    pub(super) fn heads(&self, from: u32, most: u32) -> (impl Iterator<Item = &Head>, Option<u32>) {
        let end = from.saturating_add(most).min(self.count);
        ((from..end).map(|chunk| self.head(chunk)), (end < self.count).then_some(end))
    }

    /// How many chunks are in buckets.
    pub(super) fn used(&self) -> usize {
        self.count as usize - 1 - self.spare.len() - self.bare.len()
    }

    pub(super) fn heap_size(&self) -> usize {
        let numbers = self.spare.capacity() + self.bare.capacity();
        let bodies = self.segments.iter().flat_map(|segment| &segment.bodies);
        let entries: usize = bodies.map(|body| body.entries.len()).sum::<usize>() + self.rooms.len() * CHUNK;
        self.segments.len() * size_of::<Segment>()
            + self.segments.capacity() * 8
            + numbers * 4
            + entries * size_of::<Entry>()
    }

    pub(super) fn check_invariants(&self, chunk: u32) {
        self.head(chunk).check_invariants(self.body(chunk));
    }

    #[inline]
    fn both(&mut self, chunk: u32) -> (&mut Head, &mut Body) {
        let (segment, at) = split(chunk);
        let segment = &mut *self.segments[segment];
        (&mut segment.heads[at], &mut segment.bodies[at])
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        let chunk = self.count;
        assert!((chunk as usize) < (1 << 32) / CHUNK, "the wheel holds as many timers as it can");
        self.count += 1;
        if self.segments.len() == split(chunk).0 {
            let bodies = core::array::from_fn(|_| Body::default());
            self.segments.push(Box::new(Segment { heads: [Head::EMPTY; SEGMENT], bodies }));
            // Room for each of them, so that to take one back allocates nothing.
            let all = self.segments.len() * SEGMENT;
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
