//! A layout that was measured and not taken: a bucket is one array of entries, and stopping leaves the entry there.
//!
//! Stopping bumps a stamp; an entry with another stamp is stale. A bucket that is stale by more than half is
//! compacted. Small, for timers of `u64`; deadlines never lie in the past.

const SLOTS: usize = 64;
const LEVELS: usize = 11;

#[derive(Clone, Copy)]
struct Entry {
    deadline: u64,
    index: u32,
    stamp: u32,
}

#[derive(Default)]
struct Bucket {
    entries: Vec<Entry>,
    stale: usize,
    next: usize,
}

#[derive(Default)]
pub struct LazyWheel {
    stamps: Vec<u32>,
    /// Deadline and item.
    records: Vec<(u64, u64)>,
    free: Vec<u32>,
    buckets: Vec<Bucket>,
    occupied: [u64; LEVELS],
    position: u64,
}

impl LazyWheel {
    pub fn new() -> Self {
        let buckets = (0..SLOTS * LEVELS).map(|_| Bucket::default()).collect();
        LazyWheel { buckets, ..LazyWheel::default() }
    }

    #[inline]
    pub fn start(&mut self, deadline: u64, item: u64) -> (u32, u32) {
        let index = match self.free.pop() {
            Some(index) => {
                self.records[index as usize] = (deadline, item);
                index
            }
            None => {
                self.stamps.push(0);
                self.records.push((deadline, item));
                self.stamps.len() as u32 - 1
            }
        };
        let stamp = self.stamps[index as usize];
        self.push(Entry { deadline, index, stamp });
        (index, stamp)
    }

    #[inline]
    pub fn stop(&mut self, (index, stamp): (u32, u32)) -> Option<u64> {
        if self.stamps[index as usize] != stamp {
            return None;
        }
        let (deadline, item) = self.records[index as usize];
        self.stamps[index as usize] += 1;
        self.free.push(index);
        self.forget(deadline);
        Some(item)
    }

    #[inline]
    pub fn restart(&mut self, (index, stamp): (u32, u32), deadline: u64) -> (u32, u32) {
        assert_eq!(self.stamps[index as usize], stamp);
        self.stamps[index as usize] += 1;
        let before = std::mem::replace(&mut self.records[index as usize].0, deadline);
        self.forget(before);
        self.push(Entry { deadline, index, stamp: stamp + 1 });
        (index, stamp + 1)
    }

    #[inline]
    pub fn pop(&mut self, now: u64) -> Option<(u64, u64)> {
        loop {
            let level = self.occupied.iter().position(|bits| *bits != 0)?;
            let slot = self.occupied[level].trailing_zeros() as usize;
            let shift = 6 * level as u32;
            let above = u64::MAX.checked_shl(shift + 6).unwrap_or(0);
            let start = (self.position & above) | (slot as u64) << shift;
            if start > now {
                self.position = now;
                return None;
            }
            self.position = start;
            let at = level * SLOTS + slot;
            if level > 0 {
                let mut bucket = std::mem::take(&mut self.buckets[at]);
                self.occupied[level] &= !(1 << slot);
                for entry in bucket.entries.drain(..) {
                    if self.stamps[entry.index as usize] == entry.stamp {
                        self.push(entry);
                    }
                }
                if bucket.entries.capacity() <= 256 {
                    bucket.stale = 0;
                    self.buckets[at] = bucket;
                }
                continue;
            }
            let bucket = &mut self.buckets[at];
            while let Some(entry) = bucket.entries.get(bucket.next).copied() {
                bucket.next += 1;
                if self.stamps[entry.index as usize] == entry.stamp {
                    self.stamps[entry.index as usize] += 1;
                    self.free.push(entry.index);
                    return Some((entry.deadline, self.records[entry.index as usize].1));
                }
            }
            bucket.entries.clear();
            (bucket.next, bucket.stale) = (0, 0);
            self.occupied[0] &= !(1 << slot);
        }
    }

    pub fn bytes(&self) -> usize {
        let entries: usize = self.buckets.iter().map(|bucket| bucket.entries.capacity()).sum();
        entries * 16 + self.stamps.capacity() * 4 + self.records.capacity() * 16 + self.free.capacity() * 4
    }

    #[inline]
    fn push(&mut self, entry: Entry) {
        let at = locate(self.position, entry.deadline);
        self.buckets[at].entries.push(entry);
        self.occupied[at / SLOTS] |= 1 << (at % SLOTS);
    }

    #[inline]
    fn forget(&mut self, deadline: u64) {
        let bucket = &mut self.buckets[locate(self.position, deadline)];
        bucket.stale += 1;
        if bucket.stale > 64 && bucket.stale * 2 > bucket.entries.len() && bucket.next == 0 {
            bucket.entries.retain(|entry| self.stamps[entry.index as usize] == entry.stamp);
            bucket.stale = 0;
        }
    }
}

#[inline]
pub fn locate(position: u64, deadline: u64) -> usize {
    let level = (63 - ((position ^ deadline) | 63).leading_zeros()) / 6;
    level as usize * SLOTS + ((deadline >> (6 * level)) & 63) as usize
}
