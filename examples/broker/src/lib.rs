//! A memory-only broker that speaks the Kafka protocol.
#![forbid(unsafe_code)]

mod broker;
mod config;
mod stats;

pub use broker::Broker;
pub use config::Config;
pub use stats::{PartitionStats, PurgatoryStats, Stats};
