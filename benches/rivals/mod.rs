//! What ixion is held against: other timers, what somebody writes who needs one this week, and a purgatory of that kind.

pub mod delay_queue;
pub mod harness;
pub mod hashed;
pub mod heap;
pub mod home_made;
pub mod layouts;
pub mod nexus;
pub mod peer;
pub mod purgatories;
pub mod shared;
pub mod sleep;
pub mod tree;
pub mod wheel;

pub use peer::{Peer, Time};
