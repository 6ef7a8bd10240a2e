//! The public behaviour of the crate, held against its models.

mod guarantees;
mod real_threads;
mod wheel_field;
mod wheel_kafka;
mod wheel_order;
