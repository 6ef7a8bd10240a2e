//! The public behaviour of the crate, held against its models.

mod callbacks_on;
mod field_reports;
mod future;
mod guarantees;
mod jobs;
mod kafka_delayed_operation;
mod kafka_elsewhere;
mod kafka_fetch_numbers;
mod kafka_groups;
mod kafka_replica_manager;
mod known_faults;
mod observe;
mod progress;
mod purgatory_order;
mod real_threads;
mod simulation;
mod telemetry;
mod traced;
mod types;
mod uptime;
mod wheel_field;
mod wheel_kafka;
mod wheel_order;
