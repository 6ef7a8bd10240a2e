//! The public behaviour of the crate, held against its models.

mod wheel_field;
mod wheel_kafka;
mod wheel_order;
