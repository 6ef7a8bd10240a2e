//! std's `BinaryHeap` over a slab: stopping a timer leaves its entry in the heap, marked by the generation, and once more
//! entries are stale than live, they are all thrown out at once.

use super::{Peer, Time};
use crate::support::Payload;
use slab::Slab;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub struct Heap {
    /// Deadline, number and place.
    entries: BinaryHeap<Reverse<(u64, u32, u32)>>,
    timers: Slab<Timer>,
    /// The entries' numbers: what is started later comes later, until they wrap.
    started: u32,
    now: u64,
}

struct Timer {
    payload: Payload,
    /// Of the entry that counts.
    number: u32,
}

impl Heap {
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Stops a timer, if it still waits.
    #[inline]
    pub fn try_stop(&mut self, (place, number): (u32, u32)) -> bool {
        let is_live = is_live(&self.timers, number, place);
        if is_live {
            drop(self.timers.remove(place as usize));
        }
        is_live
    }

    #[inline]
    fn push(&mut self, delay: u64, place: u32) {
        self.entries.push(Reverse((self.now + delay, self.started, place)));
        let (entries, timers) = (&mut self.entries, &self.timers);
        if entries.len() > 64 && entries.len() > 2 * timers.len() {
            entries.retain(|entry| is_live(timers, entry.0.1, entry.0.2));
        }
    }
}

#[inline]
fn is_live(timers: &Slab<Timer>, number: u32, place: u32) -> bool {
    timers.get(place as usize).is_some_and(|timer| timer.number == number)
}

impl Peer for Heap {
    const NAME: &'static str = "slab + heap";
    /// Place and number.
    type Id = (u32, u32);

    fn new(_: Time) -> Self {
        Heap { entries: BinaryHeap::new(), timers: Slab::new(), started: 0, now: 0 }
    }

    #[inline]
    fn start(&mut self, delay: u64, payload: Payload) -> Self::Id {
        self.started = self.started.wrapping_add(1);
        let place = self.timers.insert(Timer { payload, number: self.started }) as u32;
        self.push(delay, place);
        (place, self.started)
    }

    #[inline]
    fn stop(&mut self, id: Self::Id) {
        assert!(self.try_stop(id), "it waits");
    }

    #[inline]
    fn restart(&mut self, (place, number): Self::Id, delay: u64) -> Self::Id {
        assert!(is_live(&self.timers, number, place), "it waits");
        self.started = self.started.wrapping_add(1);
        self.timers[place as usize].number = self.started;
        self.push(delay, place);
        (place, self.started)
    }

    #[inline]
    fn pass(&mut self, steps: u64, milliseconds: u64, mut fire: impl FnMut(u64, Payload)) {
        for _ in 0..steps {
            self.now += milliseconds;
            while let Some(Reverse((deadline, number, place))) = self.entries.peek().copied() {
                if deadline > self.now {
                    break;
                }
                self.entries.pop();
                if is_live(&self.timers, number, place) {
                    fire(self.now, self.timers.remove(place as usize).payload);
                }
            }
        }
    }
}
