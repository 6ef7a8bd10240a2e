//! For an owner that holds a lock while it uses the wheel: what segments give back is kept until the owner takes it, and
//! is freed where no lock is held. An allocator may take milliseconds to take back a large block.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::TimingWheel;
use super::chunk::Entry;
use super::slots::Slot;

/// Memory that is not needed any more.
#[allow(clippy::vec_box, reason = "they were boxes: the entries are not copied under the lock")]
pub(crate) struct Waste<T> {
    slots: Vec<Vec<Slot<T>>>,
    rooms: Vec<Box<[Entry]>>,
}

/// How many segments of slots and how many rooms of chunks one hold may give up without an allocation.
const ROOM: (usize, usize) = (2, 64);

impl<T> Waste<T> {
    /// An empty place, with room for what one hold leaves.
    pub(crate) fn with_room() -> Self {
        Waste { slots: Vec::with_capacity(ROOM.0), rooms: Vec::with_capacity(ROOM.1) }
    }
}

impl<T> TimingWheel<T> {
    /// Lets the wheel keep what it gives back until that is [taken](Self::exchange_waste).
    pub(crate) fn keeping_waste(mut self) -> Self {
        let Waste { slots, rooms } = Waste::with_room();
        self.slots.waste = Some(slots);
        self.levels.chunks.waste = Some(rooms);
        self
    }

    /// Whether there is something to take.
    #[inline]
    pub(crate) fn has_waste(&self) -> bool {
        has(&self.slots.waste) || has(&self.levels.chunks.waste)
    }

    /// Gives the waste away, and takes an empty place for more of it.
    pub(crate) fn exchange_waste(&mut self, empty: &mut Waste<T>) {
        if let (Some(slots), Some(rooms)) = (&mut self.slots.waste, &mut self.levels.chunks.waste) {
            core::mem::swap(slots, &mut empty.slots);
            core::mem::swap(rooms, &mut empty.rooms);
        }
    }
}

#[inline]
fn has<S>(waste: &Option<Vec<S>>) -> bool {
    waste.as_ref().is_some_and(|waste| !waste.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tick::Tick;

    #[test]
    fn what_a_wheel_gives_back_is_kept_for_who_takes_it_if_it_is_asked_to() {
        for keeps in [false, true] {
            let wheel = TimingWheel::new();
            let mut wheel = if keeps { wheel.keeping_waste() } else { wheel };
            let ids: Vec<_> = (0..20_000u64).map(|n| wheel.start_timer(Tick::new(1 + n % 5000), n)).collect();
            let full = wheel.heap_size();
            assert!(ids.into_iter().all(|id| wheel.stop_timer(id).is_some()) && wheel.heap_size() * 2 < full);
            assert_eq!(wheel.has_waste(), keeps);
            let mut waste = Waste::with_room();
            wheel.exchange_waste(&mut waste);
            let bytes = |slots: &Vec<Slot<u64>>| slots.capacity() * size_of::<Slot<u64>>();
            let rooms = waste.rooms.iter().map(|room| size_of_val(&**room)).sum::<usize>();
            let wasted = waste.slots.iter().map(bytes).sum::<usize>() + rooms;
            assert!(!wheel.has_waste() && wasted <= full);
            assert_eq!(wasted * 2 > full, keeps, "{wasted} of {full} bytes");
        }
    }
}
