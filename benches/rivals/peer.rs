//! What a timer must do to be measured, on one thread.

use crate::support::Payload;
use tokio::runtime::{Builder, EnterGuard, Runtime};

/// Whose clock a peer reads, if it reads one: tokio's timers do at each start.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Time {
    /// The machine's. No time is waited for.
    Real,
    /// One that stands still until [`Peer::pass`] moves it.
    ByHand,
}

/// Something that keeps timers of [`Payload`]s. Delays are milliseconds, 1 or more.
pub trait Peer: Sized {
    /// How the tables call it.
    const NAME: &'static str;
    /// By how many milliseconds it may be late: it rounds.
    const SLACK: u64 = 0;
    /// What the caller keeps of a timer, and gives back when it stops it or lets go of it.
    type Id;

    fn new(time: Time) -> Self;

    /// What has to be held while it is used.
    fn enter(&self) -> Option<EnterGuard<'static>> {
        None
    }

    fn start(&mut self, delay: u64, payload: Payload) -> Self::Id;

    /// Stops a timer that waits, and drops its payload.
    fn stop(&mut self, id: Self::Id);

    /// Moves a timer that waits.
    fn restart(&mut self, id: Self::Id, delay: u64) -> Self::Id;

    /// Lets time pass: so many steps, of so many milliseconds each. What expires is given to `fire` with the time,
    /// in milliseconds from the beginning; by a peer that leaves the payloads with the caller, never.
    fn pass(&mut self, steps: u64, milliseconds: u64, fire: impl FnMut(u64, Payload));

    /// Takes back what the caller kept of a timer that has expired.
    fn let_go(&mut self, id: Self::Id) {
        drop(id);
    }

    /// The bytes that it holds, where it says so itself.
    fn heap_size(&self) -> Option<usize> {
        None
    }
}

/// A runtime of tokio's for the timers of one peer: they are used outside of tasks, on the thread that measures. Peers
/// that are moved by hand in turns need a clock each. It is never given back.
#[must_use]
pub fn runtime(time: Time) -> &'static Runtime {
    let runtime = Builder::new_current_thread().enable_time().start_paused(time == Time::ByHand).build();
    Box::leak(Box::new(runtime.expect("a runtime")))
}

/// Calls `work` with the type of each peer, ixion first: `each_peer!(work(arguments))` calls `work::<P>(arguments)`.
#[macro_export]
macro_rules! each_peer {
    ($work:ident $arguments:tt) => {
        [
            $work::<$crate::rivals::wheel::Wheel> $arguments,
            $work::<$crate::rivals::sleep::Sleeps> $arguments,
            $work::<$crate::rivals::delay_queue::Delayed> $arguments,
            $work::<$crate::rivals::hashed::Hashed> $arguments,
            $work::<$crate::rivals::nexus::Nexus> $arguments,
            $work::<$crate::rivals::heap::Heap> $arguments,
            $work::<$crate::rivals::tree::Tree> $arguments,
        ]
    };
}
