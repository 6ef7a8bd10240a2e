//! A delayed-operation engine.
#![forbid(unsafe_code)]

mod alarm;
pub mod clock;
pub mod expirer;
pub mod metrics;
pub mod operation;
pub mod purgatory;
mod sync;
pub mod tick;
mod trampoline;
pub mod wheel;

pub use clock::{Clock, ManualClock, SystemClock};
pub use expirer::Expirer;
pub use metrics::Stats;
pub use operation::{BoxedOperation, DelayedOperation, Outcome};
pub use purgatory::{
    Builder, Cancelled, CaughtPanic, Drive, Equivalent, HandedBack, OperationId, PanicPlace, Purgatory,
    Registration, RejectReason, Rejected,
};
pub use tick::{Resolution, Tick};
pub use wheel::{Expired, TimerId, TimingWheel};
