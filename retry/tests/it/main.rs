//! The public behaviour of `ixion-retry`.

mod faults;
mod file;
mod leases;
mod queue;
mod waiting;
