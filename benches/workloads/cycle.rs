//! N timers that are started one after the other in an empty peer, and then expire, or are stopped.

use super::drops_all;
use crate::rivals::{Peer, Time};
use crate::support::{Delays, LONGEST, Payload, Stopwatch};
use std::time::Duration;

pub struct Cycle<P: Peer> {
    peer: P,
    n: usize,
    ids: Vec<P::Id>,
    delays: Delays,
    now: u64,
}

impl<P: Peer> Cycle<P> {
    #[must_use]
    pub fn new(n: usize, delays: Delays, time: Time) -> Self {
        Cycle { peer: P::new(time), n, ids: Vec::with_capacity(n), delays, now: 0 }
    }

    /// Starts all and lets time pass, in steps of so many milliseconds, until all have expired. Asserts that none was
    /// early, late or missing.
    pub fn expire(&mut self, step: u64) {
        let (n, longest) = (self.n, LONGEST + P::SLACK);
        drops_all(n, || {
            self.start();
            let steps = longest.div_ceil(step);
            self.peer.pass(steps, step, |now, payload| {
                let due = u64::from(payload.due);
                assert!(
                    due <= now && now < due + step + P::SLACK,
                    "{}: it was due at {due} and expired at {now}",
                    P::NAME
                );
            });
            self.now += steps * step;
            self.ids.drain(..).for_each(|id| self.peer.let_go(id));
        });
    }

    /// Starts all, which is timed, and stops all.
    pub fn burst(&mut self) -> Duration {
        let _guard = self.peer.enter();
        let watch = Stopwatch::start();
        self.start();
        let took = watch.elapsed();
        drops_all(self.n, || self.ids.drain(..).for_each(|id| self.peer.stop(id)));
        took
    }

    #[inline]
    fn start(&mut self) {
        let _guard = self.peer.enter();
        for number in 0..self.n as u32 {
            let delay = self.delays.next();
            self.ids.push(self.peer.start(delay, Payload::due(number, self.now + delay)));
        }
    }
}
