//! What a timer carries: eight bytes with a destructor.

use std::cell::Cell;

thread_local! {
    static DROPPED: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

#[derive(Debug)]
pub struct Payload {
    /// The caller's name for it.
    pub number: u32,
    /// When it is due, in milliseconds from the beginning; 0 where nobody looks.
    pub due: u32,
}

impl Payload {
    #[inline]
    #[must_use]
    pub fn new(number: u32) -> Self {
        Payload { number, due: 0 }
    }

    #[inline]
    #[must_use]
    pub fn due(number: u32, due: u64) -> Self {
        Payload { number, due: due as u32 }
    }
}

impl Drop for Payload {
    #[inline]
    fn drop(&mut self) {
        DROPPED.with(|dropped| {
            let (count, sum) = dropped.get();
            dropped.set((count + 1, sum + u64::from(self.number)));
        });
    }
}

/// How many payloads `work` drops on this thread, and the sum of their numbers.
pub fn dropped(work: impl FnOnce()) -> (u64, u64) {
    let before = DROPPED.get();
    work();
    let after = DROPPED.get();
    (after.0 - before.0, after.1 - before.1)
}
