//! The heap over a slab in a mutex, and a thread that looks every millisecond.

use super::{Lane, Shared, Ticker};
use crate::rivals::heap::Heap;
use crate::rivals::{Peer, Time};
use crate::support::Payload;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub struct LockedHeap {
    heap: Arc<Mutex<Heap>>,
    start: Instant,
    _ticker: Ticker,
}

impl Shared for LockedHeap {
    const NAME: &'static str = "slab + heap";
    type Lane<'a> = &'a LockedHeap;

    fn new() -> Self {
        let (heap, start) = (Arc::new(Mutex::new(Heap::new(Time::Real))), Instant::now());
        let ticked = Arc::clone(&heap);
        let ticker = Ticker::new(move || {
            let mut heap = ticked.lock();
            let ahead = (start.elapsed().as_millis() as u64).saturating_sub(heap.now());
            heap.pass(1, ahead, |_, payload| drop(payload));
        });
        LockedHeap { heap, start, _ticker: ticker }
    }

    fn lane(&self) -> &LockedHeap {
        self
    }
}

impl Lane for &LockedHeap {
    type Id = <Heap as Peer>::Id;

    #[inline]
    fn start(&mut self, delay: Duration, payload: Payload) -> Self::Id {
        let deadline = (self.start.elapsed() + delay).as_millis() as u64 + 1;
        let mut heap = self.heap.lock();
        let delay = deadline.saturating_sub(heap.now());
        heap.start(delay, payload)
    }

    #[inline]
    fn stop(&mut self, id: Self::Id) -> bool {
        self.heap.lock().try_stop(id)
    }
}
