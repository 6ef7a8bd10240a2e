//! N timers that wait while single ones are replaced or moved.

use super::drops_all;
use crate::rivals::{Peer, Time};
use crate::support::{Delays, Payload, Random};

/// Pairs to a millisecond, where time goes on.
const PAIRS: u64 = 1000;

pub struct Waiting<P: Peer> {
    pub peer: P,
    /// By the payload's number.
    ids: Vec<Option<P::Id>>,
    delays: Delays,
    random: Random,
    expired: Vec<u32>,
}

impl<P: Peer> Waiting<P> {
    #[must_use]
    pub fn new(n: usize, delays: Delays, time: Time) -> Self {
        let mut waiting = Waiting::empty(n, delays, time);
        waiting.fill();
        waiting
    }

    /// With room for `n` handles, and no timer yet.
    #[must_use]
    pub fn empty(n: usize, delays: Delays, time: Time) -> Self {
        let ids = (0..n).map(|_| None).collect();
        Waiting { peer: P::new(time), ids, delays, random: Random::new(1), expired: Vec::with_capacity(1024) }
    }

    pub fn fill(&mut self) {
        let _guard = self.peer.enter();
        for (j, id) in self.ids.iter_mut().enumerate() {
            *id = Some(self.peer.start(self.delays.next(), Payload::new(j as u32)));
        }
    }

    #[inline]
    pub fn replace_one(&mut self) {
        let j = self.pick();
        self.stop(j);
        self.start(j);
    }

    /// Chooses one of them.
    #[inline]
    pub fn pick(&mut self) -> usize {
        let j = self.random.below(self.ids.len());
        assert!(self.ids[j].is_some(), "it waits");
        j
    }

    /// Stops that one. It must then be started before anything else.
    #[inline]
    pub fn stop(&mut self, j: usize) {
        let id = self.ids[j].take().expect("it waits");
        self.peer.stop(id);
    }

    #[inline]
    pub fn start(&mut self, j: usize) {
        self.ids[j] = Some(self.peer.start(self.delays.next(), Payload::new(j as u32)));
    }

    #[inline]
    pub fn restart_one(&mut self) {
        let j = self.random.below(self.ids.len());
        let id = self.ids[j].take().expect("it waits");
        self.ids[j] = Some(self.peer.restart(id, self.delays.next()));
    }

    pub fn replace(&mut self, pairs: u64) {
        let _guard = self.peer.enter();
        (0..pairs).for_each(|_| self.replace_one());
    }

    pub fn restart(&mut self, times: u64) {
        let _guard = self.peer.enter();
        (0..times).for_each(|_| self.restart_one());
    }

    /// As `replace`, and a millisecond passes after every thousand pairs. What expires is started again.
    pub fn replace_in_time(&mut self, pairs: u64) {
        for _ in 0..pairs.div_ceil(PAIRS) {
            self.replace(PAIRS);
            self.tick();
        }
    }

    /// Lets a millisecond pass, and starts again what expires.
    pub fn tick(&mut self) {
        self.pass();
        self.renew();
    }

    /// Lets a millisecond pass; what expires must then be renewed.
    #[inline]
    pub fn pass(&mut self) {
        let expired = &mut self.expired;
        self.peer.pass(1, 1, |_, payload| expired.push(payload.number));
    }

    pub fn renew(&mut self) {
        let _guard = self.peer.enter();
        for j in self.expired.drain(..) {
            let id = &mut self.ids[j as usize];
            self.peer.let_go(id.take().expect("it waited"));
            *id = Some(self.peer.start(self.delays.next(), Payload::new(j)));
        }
    }

    /// Stops them all, in order of their numbers. Their handles' places stay.
    pub fn stop_all(&mut self) {
        let _guard = self.peer.enter();
        drops_all(self.ids.len(), || {
            self.ids.iter_mut().for_each(|id| self.peer.stop(id.take().expect("it waits")));
        });
    }
}
