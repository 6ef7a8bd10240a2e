//! Timers without std. Under `--cfg ixion_no_std` they have a panic handler, of which there can be one: where `ixion` or what
//! it depends on links std, that does not compile. In a build of the whole workspace others ask for std, so it has none.
#![no_std]

extern crate alloc;

use alloc::vec::Vec;
use core::time::Duration;
use ixion::{Expired, Resolution, Step, Tick, TimerId, TimingWheel};

#[cfg(ixion_no_std)]
#[panic_handler]
fn halt(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// Runs a device's timers on a count of microseconds.
pub fn run(micros: impl Iterator<Item = u64>) -> Vec<Expired<u16>> {
    let mut wheel: TimingWheel<u16> = TimingWheel::starting_at(Tick::ZERO);
    let deadline = Resolution::MILLISECOND.deadline(Duration::ZERO, Duration::from_micros(1500));
    let timers: Vec<TimerId> = (0..4).map(|pin| wheel.start_timer(deadline, pin)).collect();
    let _ = wheel.stop_timer(timers[0]);
    let _ = wheel.restart_timer(timers[1], Tick::MAX);
    let mut expired = Vec::new();
    for micros in micros {
        let now = Resolution::MILLISECOND.floor(Duration::from_micros(micros));
        expired.extend(core::iter::from_fn(|| wheel.pop_expired(now)));
        if let Step::Expired(timer) = wheel.pop_expired_within(now, &mut 10) {
            expired.push(timer);
        }
    }
    expired
}
