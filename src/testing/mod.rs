//! The oracles: plain models of what the crate does, and runners that hold the crate against them.
//!
//! They are for tests: the crate's own (random, exhaustive, fuzzed, simulated), and those of users who build on it. With
//! the feature `test-util`. They follow what is tested, so a release may change them when its other items stay as they are.

mod purgatory_model;
pub mod purgatory_script;
mod purgatory_waiting;
mod purgatory_world;
pub mod sim;
pub mod wheel_model;

pub use purgatory_script::{Fuse, Panics, Plan, PurgatoryScript, PurgatoryStep};
pub use wheel_model::{Script, Step, WheelModel, When};
