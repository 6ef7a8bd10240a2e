//! ixion's own wheel.

use super::{Peer, Time};
use crate::support::Payload;
use ixion::{Tick, TimerId, TimingWheel};

pub struct Wheel {
    timers: TimingWheel<Payload>,
    now: u64,
}

impl Peer for Wheel {
    const NAME: &'static str = "ixion";
    type Id = TimerId;

    fn new(_: Time) -> Self {
        Wheel { timers: TimingWheel::new(), now: 0 }
    }

    #[inline]
    fn start(&mut self, delay: u64, payload: Payload) -> TimerId {
        self.timers.start_timer(Tick::new(self.now + delay), payload)
    }

    #[inline]
    fn stop(&mut self, id: TimerId) {
        drop(self.timers.stop_timer(id).expect("it waits"));
    }

    #[inline]
    fn restart(&mut self, id: TimerId, delay: u64) -> TimerId {
        assert!(self.timers.restart_timer(id, Tick::new(self.now + delay)), "it waits");
        id
    }

    #[inline]
    fn pass(&mut self, steps: u64, milliseconds: u64, mut fire: impl FnMut(u64, Payload)) {
        for _ in 0..steps {
            self.now += milliseconds;
            while let Some(expired) = self.timers.pop_expired(Tick::new(self.now)) {
                fire(self.now, expired.item);
            }
        }
    }

    fn heap_size(&self) -> Option<usize> {
        Some(self.timers.heap_size())
    }
}
