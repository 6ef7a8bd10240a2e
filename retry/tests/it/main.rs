//! The public behaviour of `ixion-retry`.

mod faults;
mod file;
mod leases;
mod model;
mod queue;
mod recipe;
mod redis;
mod sorted_set;
mod waiting;
mod waking;
