//! `hierarchical_hash_wheel_timer`'s own way to share: a thread that has the wheel, and a queue to it.

use super::{Lane, Shared};
use crate::support::Payload;
use hierarchical_hash_wheel_timer::thread_timer::{TimerRef, TimerWithThread};
use hierarchical_hash_wheel_timer::{ClosureTimer, OneShotClosureState, PeriodicClosureState, Timer};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

type Core = TimerWithThread<u64, OneShotClosureState<u64>, PeriodicClosureState<u64>>;
type Ref = TimerRef<u64, OneShotClosureState<u64>, PeriodicClosureState<u64>>;

pub struct HashedThread {
    core: Option<Core>,
    /// The lanes' references are clones of it.
    timer: Mutex<Ref>,
    lanes: AtomicU64,
}

pub struct Numbered {
    timer: Ref,
    next: u64,
}

impl Shared for HashedThread {
    const NAME: &'static str = "hhwt";
    type Lane<'a> = Numbered;

    fn new() -> Self {
        let core = Core::new().expect("a thread");
        let timer = Mutex::new(core.timer_ref());
        HashedThread { core: Some(core), timer, lanes: AtomicU64::new(0) }
    }

    fn lane(&self) -> Numbered {
        let lane = self.lanes.fetch_add(1, Ordering::Relaxed);
        Numbered { timer: self.timer.lock().clone(), next: lane << 40 }
    }

    fn settle(&self) {
        // What is due at once comes after all that is in the queue.
        let (done, is_done) = mpsc::channel();
        let action = move |_| done.send(()).expect("somebody waits for it");
        self.timer.lock().schedule_action_once(u64::MAX, Duration::ZERO, action);
        is_done.recv().expect("it is called");
    }
}

impl Drop for HashedThread {
    fn drop(&mut self) {
        let core = self.core.take().expect("it is dropped once");
        core.shutdown().expect("its thread ends");
    }
}

impl Lane for Numbered {
    type Id = u64;

    #[inline]
    fn start(&mut self, delay: Duration, payload: Payload) -> u64 {
        self.next += 1;
        self.timer.schedule_action_once(self.next, delay, move |_| drop(payload));
        self.next
    }

    #[inline]
    fn stop(&mut self, id: u64) -> bool {
        self.timer.cancel(&id);
        true
    }
}
