//! What somebody writes who needs a purgatory this week.

#![allow(unreachable_pub, missing_docs, reason = "only benches see it")]

pub mod home_made;
