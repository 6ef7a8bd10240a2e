//! The levels of the wheel: 11 rings of 64 buckets, and which of them are occupied.
//!
//! It owns the buckets, lists of chunks, and answers which is the first that is occupied with two bit scans. When to move the
//! wheel on is for [`turn`](super::turn); no timer is looked at in here but those of a bucket that is moved or searched.

use alloc::boxed::Box;
use alloc::vec;

use super::chunk::{NIL, Place};
use super::pool::Chunks;
use crate::fault::planted;
use crate::steps;

/// Bits of a deadline that a level resolves.
const DIGIT: u32 = 6;
/// Slots a level.
pub(super) const SLOTS: usize = 1 << DIGIT;
/// Eleven digits of 6 bits are all of a 64-bit deadline.
pub(super) const LEVELS: usize = u64::BITS.div_ceil(DIGIT) as usize;

/// How many looks are taken for the earliest deadline of a bucket, where as many as it needs would take too long: with
/// full chunks, sixteen thousand timers; a thousand if all chunks have lost their earliest.
pub(super) const SCAN_STEP: usize = 256;

/// A level and a slot of it: `level * 64 + slot`.
pub(super) type At = u16;

#[inline]
pub(super) fn level(at: At) -> usize {
    usize::from(at) / SLOTS
}

/// The bucket for `deadline` when the wheel is at `position`: the level of the highest digit in which they
/// differ, and the deadline's digit there.
#[inline]
pub(super) fn locate(position: u64, deadline: u64) -> At {
    debug_assert!(position <= deadline, "{position} is past {deadline}");
    // Off by one where just one bit differs: at the boundaries of the levels.
    let wrong = u64::from(planted("wrong-level") && position != deadline);
    let differing = ((position ^ deadline) - wrong) | (SLOTS as u64 - 1);
    let level = (63 - differing.leading_zeros()) / DIGIT;
    let slot = (deadline >> (level * DIGIT)) & (SLOTS as u64 - 1);
    (level * SLOTS as u32) as At + slot as At
}

/// The first tick of a bucket's block.
#[inline]
pub(super) fn start_of(position: u64, at: At) -> u64 {
    let shift = level(at) as u32 * DIGIT;
    let above = u64::MAX.checked_shl(shift + DIGIT).unwrap_or(0);
    (position & above) | ((u64::from(at) & (SLOTS as u64 - 1)) << shift)
}

/// A list of chunks, in the order in which the timers were started.
#[derive(Clone, Copy)]
struct Bucket {
    head: u32,
    /// `NIL` if the bucket is empty. In level 0 it may keep a chunk at its head then, since where timers are few each has
    /// a bucket for itself in the end, which would cost it a chunk taken and given back.
    tail: u32,
    /// The earliest deadline; `NONE` if the bucket is empty, `UNKNOWN` if the earliest one has gone. Either way the
    /// smaller of it and a deadline is what it is when that is added.
    min: u64,
}

impl Bucket {
    const EMPTY: Bucket = Bucket { head: NIL, tail: NIL, min: NONE };
}

/// Not a deadline of a bucket: it is never.
const NONE: u64 = u64::MAX;
/// Not a deadline of a bucket above level 0: that is for tick 0. In level 0 a bucket's slot says what is in it.
const UNKNOWN: u64 = 0;

/// The buckets, and what is in them.
pub(super) struct Levels {
    buckets: Box<[Bucket]>,
    /// One bit for each bucket that is not empty.
    occupied: [u64; LEVELS],
    /// One bit for each level that is not empty.
    levels: u16,
    pub(super) chunks: Chunks,
}

impl Levels {
    pub(super) fn new() -> Self {
        let buckets = vec![Bucket::EMPTY; LEVELS * SLOTS].into_boxed_slice();
        Levels { buckets, occupied: [0; LEVELS], levels: 0, chunks: Chunks::new() }
    }

    /// Appends a timer to a bucket. `moved` is told of the timers that change their place.
    #[inline(always)]
    pub(super) fn push(&mut self, at: At, index: u32, deadline: u64, moved: impl FnMut(u32, Place)) -> Place {
        let bucket = &mut self.buckets[usize::from(at)];
        let (tail, is_earliest) = (bucket.tail, deadline < bucket.min);
        let place = match self.chunks.push(tail, index, deadline) {
            Some(place) => place,
            None => self.push_to_new(at, index, deadline, moved),
        };
        if is_earliest {
            self.buckets[usize::from(at)].min = deadline;
            self.chunks.note_min(place, deadline);
        }
        place
    }

    /// Takes a timer out, whichever bucket it is in. `moved` is told of the timers that change their place. Returns
    /// the bucket, if that may be empty now or its earliest timer gone.
    #[inline]
    pub(super) fn remove(&mut self, place: Place, moved: impl FnMut(u32, Place)) -> Option<At> {
        if self.chunks.remove(place) { Some(self.tidy_up(place, moved)) } else { None }
    }

    /// Takes the first timer out of a bucket of level 0.
    #[inline]
    pub(super) fn pop(&mut self, at: At) -> u32 {
        debug_assert!(level(at) == 0);
        let (index, place) = self.first_in(at);
        if self.chunks.remove(place) && self.chunks.head(place.chunk()).live == 0 {
            self.unlink(place.chunk());
        }
        index
    }

    /// The first timer of a bucket that is occupied.
    #[inline(always)]
    pub(super) fn first_in(&self, at: At) -> (u32, Place) {
        let id = self.buckets[usize::from(at)].head;
        let entry = self.chunks.head(id).first();
        (self.chunks.entry(id, entry).0, Place::new(id, entry))
    }

    /// The timers of the first chunk of a bucket that is occupied.
    #[inline]
    pub(super) fn first_chunk(&self, at: At) -> impl Iterator<Item = u32> {
        self.chunks.indices(self.buckets[usize::from(at)].head)
    }

    /// Moves the first chunk of a bucket down, each timer to where it belongs when the wheel is at `position`,
    /// the start of the bucket's block. Returns how many timers were moved, at most a chunk full.
    pub(super) fn cascade(&mut self, at: At, position: u64, mut moved: impl FnMut(u32, Place)) -> usize {
        debug_assert!(start_of(position, at) == position && level(at) > 0);
        let id = self.buckets[usize::from(at)].head;
        self.forget_min(at, self.chunks.body(id).min);
        let drained = self.chunks.drain(id);
        let mut count = 0;
        for (index, deadline) in drained.iter() {
            let to = locate(position, deadline);
            debug_assert!(level(to) < level(at), "{deadline} moves from {at} to {to}");
            let place = self.push(to, index, deadline, &mut moved);
            moved(index, place);
            count += 1;
        }
        self.chunks.put_back(id, drained);
        self.unlink(id);
        count
    }

    /// The earliest bucket that is occupied: the first of the lowest level.
    #[inline]
    pub(super) fn first(&self) -> Option<At> {
        if self.levels == 0 {
            return None;
        }
        let level = self.levels.trailing_zeros() as usize % LEVELS;
        Some((level * SLOTS) as At + self.occupied[level].trailing_zeros() as At)
    }

    #[inline]
    pub(super) fn is_occupied(&self, at: At) -> bool {
        self.occupied[level(at)] >> (usize::from(at) % SLOTS) & 1 == 1
    }

    /// The earliest deadline of a bucket that is occupied; `None` if it would take a look at more than `limit` chunks.
    pub(super) fn min(&self, at: At, limit: usize) -> Option<u64> {
        match self.buckets[usize::from(at)].min {
            UNKNOWN => self.find_min(at, limit),
            min => Some(min),
        }
    }

    /// Keeps the earliest deadline of a bucket, if it was forgotten and a step is enough to find it.
    #[inline]
    pub(super) fn remember_min(&mut self, at: At) {
        if self.buckets[usize::from(at)].min == UNKNOWN {
            self.look_for_min(at);
        }
    }

    /// Only if each chunk knows its earliest: in one that does not, the bucket's earliest would go unnoticed.
    #[inline(never)]
    fn look_for_min(&mut self, at: At) {
        let (mut min, mut id) = (NONE, self.buckets[usize::from(at)].head);
        let mut looks = 0;
        while id != NIL {
            if looks >= SCAN_STEP {
                return;
            }
            looks += self.chunks.looks(id);
            steps::count(1);
            self.chunks.find_min(id);
            let body = self.chunks.body(id);
            (min, id) = (min.min(body.min), body.next);
        }
        self.buckets[usize::from(at)].min = min;
    }

    pub(super) fn deadline(&self, place: Place) -> u64 {
        self.chunks.entry(place.chunk(), place.entry()).1
    }

    /// Adds how many timers are in up to `most` chunks, from one on, to the counts of their buckets. Returns the chunk to go
    /// on from.
    pub(super) fn add_counts(&self, from: u32, most: u32, counts: &mut [usize]) -> Option<u32> {
        let (heads, next) = self.chunks.heads(from, most);
        for head in heads {
            steps::count(1);
            counts[usize::from(head.bucket)] += usize::from(head.count);
        }
        next
    }

    pub(super) fn heap_size(&self) -> usize {
        size_of_val(&*self.buckets) + self.chunks.heap_size()
    }

    fn find_min(&self, at: At, limit: usize) -> Option<u64> {
        let (mut min, mut id) = (NONE, self.buckets[usize::from(at)].head);
        let mut seen = 0;
        while id != NIL {
            seen += self.chunks.looks(id);
            if seen > limit {
                return None;
            }
            steps::count(1);
            min = min.min(self.chunks.min(id));
            id = self.chunks.body(id).next;
        }
        Some(min)
    }

    #[inline]
    fn forget_min(&mut self, at: At, min: u64) {
        let bucket = &mut self.buckets[usize::from(at)];
        if bucket.min == min {
            bucket.min = UNKNOWN;
        }
    }

    /// Does what is left to do after an entry was taken out of a chunk, if anything.
    #[inline(never)]
    fn tidy_up(&mut self, place: Place, moved: impl FnMut(u32, Place)) -> At {
        let id = place.chunk();
        let (head, min) = (self.chunks.head(id), self.chunks.body(id).min);
        let (at, is_empty) = (head.bucket, head.live == 0);
        self.chunks.lose(place);
        if self.chunks.has_lost_min(id) {
            self.forget_min(at, min);
        }
        if is_empty {
            self.unlink(id);
        } else if let Some((into, from)) = self.chunks.sparse_pair(id) {
            self.chunks.merge(into, from, moved);
            self.unlink(from);
        } else {
            self.chunks.pack(id);
        }
        at
    }

    /// Appends a timer to a bucket whose last chunk is full: that is closed up, or another one added.
    #[inline(never)]
    fn push_to_new(&mut self, at: At, index: u32, deadline: u64, moved: impl FnMut(u32, Place)) -> Place {
        let mut chunk = self.buckets[usize::from(at)].tail;
        if chunk == NIL || !self.chunks.make_room(chunk, moved) {
            chunk = self.append_chunk(at);
        }
        self.chunks.push(chunk, index, deadline).expect("there is room now")
    }

    /// Adds an empty chunk to a bucket, which the caller fills at once.
    fn append_chunk(&mut self, at: At) -> u32 {
        let Bucket { head, tail: last, .. } = self.buckets[usize::from(at)];
        let is_kept = last == NIL && head != NIL;
        let id = if is_kept { head } else { self.chunks.allocate(at, last != NIL) };
        let bucket = &mut self.buckets[usize::from(at)];
        bucket.tail = id;
        if last == NIL {
            bucket.head = id;
            self.occupied[level(at)] |= 1 << (usize::from(at) % SLOTS);
            self.levels |= 1 << level(at);
        } else {
            self.chunks.body_mut(last).next = id;
            self.chunks.body_mut(id).prev = last;
        }
        id
    }

    /// Takes an empty chunk out of its bucket, unless the bucket keeps it.
    fn unlink(&mut self, id: u32) {
        let (at, body) = (self.chunks.head(id).bucket, self.chunks.body(id));
        let (next, prev) = (body.next, body.prev);
        let bucket = &mut self.buckets[usize::from(at)];
        if prev == NIL {
            bucket.head = next;
        } else {
            self.chunks.body_mut(prev).next = next;
        }
        if next == NIL {
            bucket.tail = prev;
        } else {
            self.chunks.body_mut(next).prev = prev;
        }
        if bucket.head == NIL {
            bucket.min = NONE;
            let level = level(at);
            self.occupied[level] &= !(1 << (usize::from(at) % SLOTS));
            if self.occupied[level] == 0 {
                self.levels &= !(1 << level);
            }
            if level == 0 && self.chunks.reset(id, at) {
                bucket.head = id;
                return;
            }
        }
        self.chunks.release(id);
    }

    /// Checks that it is noticed when the earliest of a bucket goes: a chunk that knows its own has it.
    fn check_earliest_is_noticed(&self, at: At) {
        let Bucket { head: mut id, min, .. } = self.buckets[usize::from(at)];
        while id != NIL && (self.chunks.has_lost_min(id) || self.chunks.min(id) != min) {
            id = self.chunks.body(id).next;
        }
        assert!(id != NIL, "bucket {at}");
    }

    /// Calls `visit` with bucket, place, index and deadline of everything, bucket by bucket in order.
    pub(super) fn check_invariants(&self, mut visit: impl FnMut(At, Place, u32, u64)) {
        let mut used = 0;
        for at in 0..(LEVELS * SLOTS) as At {
            let bucket = self.buckets[usize::from(at)];
            assert_eq!(bucket.tail != NIL, self.is_occupied(at), "bucket {at}");
            if bucket.tail == NIL {
                assert!(bucket.head == NIL || level(at) == 0, "bucket {at}");
                assert_eq!(self.chunks.head(bucket.head).live, 0, "bucket {at}");
                used += usize::from(bucket.head != NIL);
                continue;
            }
            let (mut id, mut prev) = (bucket.head, NIL);
            while id != NIL {
                used += 1;
                assert_eq!((self.chunks.head(id).bucket, self.chunks.body(id).prev), (at, prev));
                self.chunks.check_invariants(id);
                for (entry, index, deadline) in self.chunks.entries(id) {
                    visit(at, Place::new(id, entry), index, deadline);
                }
                (prev, id) = (id, self.chunks.body(id).next);
            }
            assert_eq!(prev, bucket.tail, "bucket {at}");
            if bucket.min != UNKNOWN && level(at) > 0 {
                assert_eq!(Some(bucket.min), self.find_min(at, usize::MAX), "bucket {at}");
                self.check_earliest_is_noticed(at);
            }
        }
        for level in 0..LEVELS {
            assert_eq!(self.occupied[level] != 0, self.levels >> level & 1 == 1, "level {level}");
        }
        assert_eq!(used, self.chunks.used(), "chunks that are neither in a bucket nor free");
    }
}
