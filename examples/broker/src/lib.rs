//! A memory-only broker that speaks the Kafka protocol: an example of what [`ixion`] is for.
//!
//! **It keeps everything in memory; a restart loses it; it is not for production.**
//!
//! Node 1 leads every partition and coordinates every group. The other nodes are followers, here or in processes of
//! their own, each with a listener and logs of its own, and they fetch from node 1 over the network like any client. A
//! produce request with `acks=all` waits in one purgatory until the followers have its records, a fetch request in
//! another until there is enough to read; and so do rebalances, sessions, and what administrators ask for.
//!
//! ```text
//!  net ──▶ handlers ──▶ partition (log, producers: one lock each) ──▶ moved ──▶ cluster.signal ──▶ purgatories
//!                │                                                                                     │
//!                └──────── awaits a oneshot ◀───────────── callback, on any thread ◀───────────────────┘
//! ```
#![forbid(unsafe_code)]

mod batch;
mod broker;
mod buffers;
mod catalog;
mod cluster;
mod codec;
mod config;
mod control;
mod follower;
mod group;
mod handlers;
mod http;
mod idle;
mod log;
mod moved;
mod net;
mod partition;
mod producers;
mod shape;
mod stats;
#[cfg(feature = "test-util")]
pub mod testing;
mod waits;

pub use broker::Broker;
pub use config::Config;
pub use stats::{FollowerEnd, PartitionStats, PurgatoryStats, Stats};
