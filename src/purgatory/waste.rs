//! Memory that a shard's tables do not need any more, on its way out of the lock.
//!
//! To free a large block may take an allocator milliseconds: glibc's then goes through all the small blocks that were
//! freed since it last did so, which after a burst are hundreds of thousands. So the tables keep what they give up
//! until the hold is over, and it is freed then.

use crate::operation::DelayedOperation;
use crate::purgatory::engine::{Engine, Shard, Timed, Waiter};
use crate::purgatory::watch;
use crate::sync::Arc;
use crate::wheel;
use std::hash::Hash;

/// What a shard's tables have given up.
struct Waste<K, O> {
    wheel: wheel::Waste<Timed<O>>,
    watch: watch::Waste<K, Arc<Waiter<O>>>,
}

/// A block so large that glibc's allocator puts its books in order before it gives one out: then they are not put in order
/// under a lock, by the next registration for which a table must grow; and as often as there is waste, so that it
/// never takes long.
const TIDYING: usize = 2048;

impl<K: Eq, O> Shard<K, O> {
    /// Whether there is something to carry off.
    #[inline]
    pub(super) fn has_waste(&self) -> bool {
        self.wheel.has_waste() || self.watch.has_waste()
    }
}

impl<K: Hash + Eq + 'static, O: DelayedOperation + 'static> Engine<K, O> {
    /// Takes something out of a shard, and frees what that has given up then.
    #[inline]
    pub(super) fn take_from<R>(&self, index: u32, take: impl FnOnce(&mut Shard<K, O>) -> R) -> R {
        let (taken, has_waste) = {
            let mut shard = self.shard(index);
            (take(&mut shard), shard.has_waste())
        };
        if has_waste {
            self.carry_off_waste(index);
        }
        taken
    }

    /// Frees what a shard has given up. It takes a hold of its own to bring an empty place for the next waste: so
    /// no hold allocates room for it.
    #[cold]
    pub(super) fn carry_off_waste(&self, shard: u32) {
        let mut waste = Waste { wheel: wheel::Waste::with_room(), watch: watch::Waste::with_room() };
        {
            let mut shard = self.shard(shard);
            shard.wheel.exchange_waste(&mut waste.wheel);
            shard.watch.exchange_waste(&mut waste.watch);
        }
        drop(waste);
        drop(std::hint::black_box(Vec::<u8>::with_capacity(TIDYING)));
    }
}
