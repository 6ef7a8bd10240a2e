//! The public behaviour of `ixion-retry`.

mod faults;
mod leases;
mod queue;
mod waiting;
