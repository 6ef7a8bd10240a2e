//! std's `BTreeMap` by deadline and number: the first thing that comes to mind.

use super::{Peer, Time};
use crate::support::Payload;
use std::collections::BTreeMap;

pub struct Tree {
    timers: BTreeMap<(u64, u64), Payload>,
    started: u64,
    now: u64,
}

impl Peer for Tree {
    const NAME: &'static str = "btreemap";
    type Id = (u64, u64);

    fn new(_: Time) -> Self {
        Tree { timers: BTreeMap::new(), started: 0, now: 0 }
    }

    #[inline]
    fn start(&mut self, delay: u64, payload: Payload) -> (u64, u64) {
        self.started += 1;
        let id = (self.now + delay, self.started);
        self.timers.insert(id, payload);
        id
    }

    #[inline]
    fn stop(&mut self, id: (u64, u64)) {
        drop(self.timers.remove(&id).expect("it waits"));
    }

    #[inline]
    fn restart(&mut self, id: (u64, u64), delay: u64) -> (u64, u64) {
        let payload = self.timers.remove(&id).expect("it waits");
        self.start(delay, payload)
    }

    #[inline]
    fn pass(&mut self, steps: u64, milliseconds: u64, mut fire: impl FnMut(u64, Payload)) {
        for _ in 0..steps {
            self.now += milliseconds;
            while let Some(first) = self.timers.first_entry().filter(|first| first.key().0 <= self.now) {
                fire(self.now, first.remove());
            }
        }
    }
}
