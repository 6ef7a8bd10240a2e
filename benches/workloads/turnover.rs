//! Timers that are started at a steady rate, in time: a share of them is stopped before it is due, the rest expires.

use crate::rivals::{Peer, Time};
use crate::support::{Delays, LONGEST, Payload, Random, dropped};

/// The longest delay, and what a late one takes, fit in.
const RING: usize = 1 << 16;

pub struct Turnover<P: Peer> {
    peer: P,
    /// So many are started in a millisecond.
    rate: u64,
    /// So many of a hundred are stopped.
    stopped: usize,
    delays: Delays,
    random: Random,
    now: u64,
    /// By the millisecond in which they are stopped, or in which the caller lets go of them.
    to_stop: Vec<Vec<P::Id>>,
    to_let_go: Vec<Vec<P::Id>>,
    started: u64,
    ended: u64,
}

impl<P: Peer> Turnover<P> {
    #[must_use]
    pub fn new(rate: u64, stopped: usize, delays: Delays) -> Self {
        let ring = || (0..RING).map(|_| Vec::new()).collect();
        Turnover {
            peer: P::new(Time::ByHand),
            rate,
            stopped,
            delays,
            random: Random::new(5),
            now: 0,
            to_stop: ring(),
            to_let_go: ring(),
            started: 0,
            ended: 0,
        }
    }

    /// Goes on for so many milliseconds.
    pub fn run(&mut self, milliseconds: u64) {
        let (ended, _) = dropped(|| (0..milliseconds).for_each(|_| self.step(self.rate)));
        self.ended += ended;
    }

    /// Starts no more, until all have ended.
    pub fn finish(mut self) {
        let (ended, _) = dropped(|| (0..RING).for_each(|_| self.step(0)));
        self.ended += ended;
        assert_eq!(self.ended, self.started, "each has ended, once");
    }

    #[inline]
    fn step(&mut self, rate: u64) {
        self.now += 1;
        self.peer.pass(1, 1, |now, payload| {
            let due = u64::from(payload.due);
            assert!(
                due <= now && now <= due + P::SLACK,
                "{}: it was due at {due} and expired at {now}",
                P::NAME
            );
        });
        let _guard = self.peer.enter();
        let at = |tick: u64| tick as usize % RING;
        self.to_stop[at(self.now)].drain(..).for_each(|id| self.peer.stop(id));
        self.to_let_go[at(self.now)].drain(..).for_each(|id| self.peer.let_go(id));
        for _ in 0..rate {
            let delay = self.delays.next();
            let id = self.peer.start(delay, Payload::due(0, self.now + delay));
            self.started += 1;
            if delay > 1 && self.random.below(100) < self.stopped {
                let wait = 1 + self.random.below(delay as usize - 1) as u64;
                self.to_stop[at(self.now + wait)].push(id);
            } else {
                self.to_let_go[at(self.now + delay + P::SLACK)].push(id);
            }
        }
    }
}

const _: () = assert!(LONGEST + 16 < RING as u64);
