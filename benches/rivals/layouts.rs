//! Other layouts of ixion's wheel, that were measured and not taken. They keep numbers only, and drop nothing.

use super::{Peer, Time};
use crate::support::Payload;
use crate::support::lazy::LazyWheel;
use crate::support::linked::LinkedWheel;

macro_rules! layout {
    ($peer:ident, $wheel:ident, $name:literal) => {
        pub struct $peer($wheel, u64);

        impl Peer for $peer {
            const NAME: &'static str = $name;
            type Id = (u32, u32);

            fn new(_: Time) -> Self {
                $peer($wheel::new(), 0)
            }

            #[inline]
            fn start(&mut self, delay: u64, payload: Payload) -> (u32, u32) {
                let item = u64::from(payload.due) << 32 | u64::from(payload.number);
                std::mem::forget(payload);
                self.0.start(self.1 + delay, item)
            }

            #[inline]
            fn stop(&mut self, id: (u32, u32)) {
                drop(unpack(self.0.stop(id).expect("it waits")));
            }

            #[inline]
            fn restart(&mut self, id: (u32, u32), delay: u64) -> (u32, u32) {
                self.0.restart(id, self.1 + delay)
            }

            #[inline]
            fn pass(&mut self, steps: u64, milliseconds: u64, mut fire: impl FnMut(u64, Payload)) {
                for _ in 0..steps {
                    self.1 += milliseconds;
                    while let Some((_, item)) = self.0.pop(self.1) {
                        fire(self.1, unpack(item));
                    }
                }
            }

            fn heap_size(&self) -> Option<usize> {
                Some(self.0.bytes())
            }
        }
    };
}

layout!(Lazy, LazyWheel, "layout-lazy");
layout!(Linked, LinkedWheel, "layout-linked");

#[inline]
fn unpack(item: u64) -> Payload {
    Payload { number: item as u32, due: (item >> 32) as u32 }
}
