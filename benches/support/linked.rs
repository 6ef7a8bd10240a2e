//! A layout that was measured and not taken: a bucket is a doubly linked list through the timers' slots.
//!
//! Small, for timers of `u64`; deadlines never lie in the past.

use super::lazy::locate;

const SLOTS: usize = 64;
const LEVELS: usize = 11;
const NIL: u32 = u32::MAX;

struct Node {
    deadline: u64,
    item: u64,
    next: u32,
    prev: u32,
    generation: u32,
    bucket: u32,
}

pub struct LinkedWheel {
    nodes: Vec<Node>,
    free: Vec<u32>,
    /// First and last of each bucket.
    ends: Vec<(u32, u32)>,
    occupied: [u64; LEVELS],
    position: u64,
}

impl LinkedWheel {
    pub fn new() -> Self {
        LinkedWheel {
            nodes: Vec::new(),
            free: Vec::new(),
            ends: vec![(NIL, NIL); SLOTS * LEVELS],
            occupied: [0; LEVELS],
            position: 0,
        }
    }

    #[inline]
    pub fn start(&mut self, deadline: u64, item: u64) -> (u32, u32) {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.nodes.push(Node {
                    deadline: 0,
                    item: 0,
                    next: NIL,
                    prev: NIL,
                    generation: 0,
                    bucket: 0,
                });
                self.nodes.len() as u32 - 1
            }
        };
        let node = &mut self.nodes[index as usize];
        (node.deadline, node.item) = (deadline, item);
        let generation = node.generation;
        self.link(index, deadline);
        (index, generation)
    }

    #[inline]
    pub fn stop(&mut self, (index, generation): (u32, u32)) -> Option<u64> {
        if self.nodes[index as usize].generation != generation {
            return None;
        }
        self.unlink(index);
        self.free.push(index);
        self.nodes[index as usize].generation += 1;
        Some(self.nodes[index as usize].item)
    }

    #[inline]
    pub fn restart(&mut self, (index, generation): (u32, u32), deadline: u64) -> (u32, u32) {
        assert_eq!(self.nodes[index as usize].generation, generation);
        self.unlink(index);
        self.nodes[index as usize].deadline = deadline;
        self.link(index, deadline);
        (index, generation)
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
            if level == 0 {
                let index = self.ends[at].0;
                let node = &self.nodes[index as usize];
                let due = (node.deadline, index, node.generation);
                return self.stop((due.1, due.2)).map(|item| (due.0, item));
            }
            let mut index = self.ends[at].0;
            self.ends[at] = (NIL, NIL);
            self.occupied[level] &= !(1 << slot);
            while index != NIL {
                let node = &self.nodes[index as usize];
                let (next, deadline) = (node.next, node.deadline);
                self.link(index, deadline);
                index = next;
            }
        }
    }

    pub fn bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>() + self.free.capacity() * 4
    }

    #[inline]
    fn link(&mut self, index: u32, deadline: u64) {
        let at = locate(self.position, deadline);
        let last = std::mem::replace(&mut self.ends[at].1, index);
        let node = &mut self.nodes[index as usize];
        (node.next, node.prev, node.bucket) = (NIL, last, at as u32);
        if last == NIL {
            self.ends[at].0 = index;
            self.occupied[at / SLOTS] |= 1 << (at % SLOTS);
        } else {
            self.nodes[last as usize].next = index;
        }
    }

    #[inline]
    fn unlink(&mut self, index: u32) {
        let node = &self.nodes[index as usize];
        let (next, prev, at) = (node.next, node.prev, node.bucket as usize);
        if prev == NIL {
            self.ends[at].0 = next;
        } else {
            self.nodes[prev as usize].next = next;
        }
        if next == NIL {
            self.ends[at].1 = prev;
        } else {
            self.nodes[next as usize].prev = prev;
        }
        if self.ends[at].0 == NIL {
            self.occupied[at / SLOTS] &= !(1 << (at % SLOTS));
        }
    }
}
