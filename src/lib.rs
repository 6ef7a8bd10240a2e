//! A delayed-operation engine.
#![forbid(unsafe_code)]

pub mod clock;
pub mod operation;
mod sync;
pub mod tick;

pub use clock::{Clock, ManualClock, SystemClock};
pub use operation::{BoxedOperation, DelayedOperation, Outcome};
pub use tick::{Resolution, Tick};
