//! One test or more for each guarantee of the crate, named after what it says.

mod busy;
mod callbacks;
mod contract;
mod ends;
mod panics;
mod shutdown;
mod support;
mod time;
