//! `nexus-timer`: a wheel of seven levels on a slab, in its default settings.

use super::{Peer, Time};
use crate::support::Payload;
use nexus_timer::{TimerHandle, Wheel};
use std::time::{Duration, Instant};

pub struct Nexus {
    timers: Wheel<Payload>,
    /// Where its time begins, and where it is. It is told the time, so that it reads no clock.
    start: Instant,
    now: Instant,
    fired: Vec<Payload>,
}

impl Peer for Nexus {
    const NAME: &'static str = "nexus-timer";
    type Id = TimerHandle<Payload>;

    fn new(_: Time) -> Self {
        let start = Instant::now();
        // The size of a chunk is the one of its documentation.
        Nexus { timers: Wheel::unbounded(4096, start), start, now: start, fired: Vec::new() }
    }

    #[inline]
    fn start(&mut self, delay: u64, payload: Payload) -> Self::Id {
        self.timers.schedule(self.now + Duration::from_millis(delay), payload)
    }

    #[inline]
    fn stop(&mut self, id: Self::Id) {
        drop(self.timers.cancel(id).expect("it waits"));
    }

    #[inline]
    fn restart(&mut self, id: Self::Id, delay: u64) -> Self::Id {
        self.timers.reschedule(id, self.now + Duration::from_millis(delay))
    }

    #[inline]
    fn pass(&mut self, steps: u64, milliseconds: u64, mut fire: impl FnMut(u64, Payload)) {
        for _ in 0..steps {
            self.now += Duration::from_millis(milliseconds);
            self.timers.poll_and_rebalance(self.now, &mut self.fired);
            let now = (self.now - self.start).as_millis() as u64;
            self.fired.drain(..).for_each(|payload| fire(now, payload));
        }
    }

    #[inline]
    fn let_go(&mut self, id: Self::Id) {
        self.timers.free(id);
    }
}
