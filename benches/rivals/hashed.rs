//! `hierarchical_hash_wheel_timer`: four wheels of 256 slots, and a map to find and cancel what waits. What is cancelled
//! leaves a stub in its slot until that is due.

use super::{Peer, Time};
use crate::support::Payload;
use hierarchical_hash_wheel_timer::wheels::Skip;
use hierarchical_hash_wheel_timer::wheels::cancellable::{CancellableTimerEntry, QuadWheelWithOverflow};
use std::rc::Rc;
use std::time::Duration;

pub struct Hashed {
    timers: QuadWheelWithOverflow<Entry>,
    started: u64,
    now: u64,
}

#[derive(Debug)]
struct Entry {
    id: u64,
    payload: Payload,
}

impl CancellableTimerEntry for Entry {
    type Id = u64;

    #[inline]
    fn id(&self) -> &u64 {
        &self.id
    }
}

impl Hashed {
    #[inline]
    fn insert(&mut self, delay: u64, payload: Payload) -> u64 {
        self.started += 1;
        let entry = Rc::new(Entry { id: self.started, payload });
        self.timers.insert_ref_with_delay(entry, Duration::from_millis(delay)).expect("it is not due yet");
        self.started
    }

    #[inline]
    fn tick(&mut self, fire: &mut impl FnMut(u64, Payload)) {
        self.now += 1;
        for entry in self.timers.tick() {
            fire(self.now, Rc::into_inner(entry).expect("nobody else has it").payload);
        }
    }
}

impl Peer for Hashed {
    const NAME: &'static str = "hhwt";
    /// With the payload's number.
    type Id = (u64, u32);

    fn new(_: Time) -> Self {
        Hashed { timers: QuadWheelWithOverflow::new(), started: 0, now: 0 }
    }

    #[inline]
    fn start(&mut self, delay: u64, payload: Payload) -> Self::Id {
        let number = payload.number;
        (self.insert(delay, payload), number)
    }

    #[inline]
    fn stop(&mut self, (id, _): Self::Id) {
        self.timers.cancel(&id).expect("it waits");
    }

    #[inline]
    fn restart(&mut self, (id, number): Self::Id, delay: u64) -> Self::Id {
        // It can neither move a timer nor give back its payload.
        self.timers.cancel(&id).expect("it waits");
        (self.insert(delay, Payload::new(number)), number)
    }

    #[inline]
    fn pass(&mut self, steps: u64, milliseconds: u64, mut fire: impl FnMut(u64, Payload)) {
        for _ in 0..steps {
            let until = self.now + milliseconds;
            while self.now < until {
                match self.timers.can_skip() {
                    // The last tick is not skipped: what it brings is wanted.
                    Skip::Millis(empty) if self.now + 1 < until => {
                        let skipped = u64::from(empty).min(until - self.now - 1);
                        self.timers.skip(skipped as u32);
                        self.now += skipped;
                    }
                    _ => self.tick(&mut fire),
                }
            }
        }
    }
}
