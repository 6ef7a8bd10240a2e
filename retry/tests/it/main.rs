//! The public behaviour of `ixion-retry`.

mod faults;
mod file;
mod leases;
mod model;
mod queue;
mod redis;
mod waiting;
mod waking;
