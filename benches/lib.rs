//! What the benches share: the rivals, each used as its authors would, what is done with them, and what draws, counts and
//! prints.

#![allow(missing_docs, reason = "only benches see it")]
#![allow(
    clippy::len_without_is_empty,
    clippy::new_without_default,
    clippy::should_implement_trait,
    reason = "nobody builds on it"
)]

pub mod rivals;
pub mod support;
pub mod workloads;
