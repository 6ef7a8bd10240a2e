//! The oracles: plain models of what the crate does, and runners that hold the crate against them.
//!
//! They are for tests: the crate's own (random, exhaustive, fuzzed), and those of users who build on it. With the
//! feature `test-util`.

pub mod purgatory_model;
pub mod wheel_model;

pub use purgatory_model::{PurgatoryScript, PurgatoryStep, Then};
pub use wheel_model::{Script, Step, WheelModel, When};
