//! One test or more for each guarantee of the crate, named after what it says.

mod busy;
mod callbacks;
mod clocks;
mod contract;
mod definitions;
mod ends;
mod panics;
mod shutdown;
pub(crate) mod support;
mod time;
