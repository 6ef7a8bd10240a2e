//! The public behaviour of `ixion-retry`.

mod leases;
mod queue;
mod waiting;
