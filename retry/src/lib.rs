//! Retries and leases on the [`ixion`] engine: the two things that people build on a delay engine, and build wrongly.
//!
//! * [`RetryQueue`]: items that are delivered when they are due, to one worker at a time, until one says that it is done. What
//!   fails, or is not acknowledged in time, comes again by a [`Backoff`], and ends in the dead letter when that has had
//!   enough. At least once, through any crash that its [`Store`] outlives: [`MemoryStore`] none, [`RedbStore`] any.
//! * [`Leases`]: which offsets of a partition are in flight, what is to be delivered again, and what may be committed.
//!
//! All of it runs on an [`ixion::Clock`]: a test moves an [`ixion::ManualClock`] and drives.
//!
//! # What it promises
//!
//! | | |
//! |---|---|
//! | at least once | An item leaves by an acknowledgement in time, by the dead letter, or not at all. |
//! | no stale receipt | A receipt that was used or has run out changes nothing, also if nobody has noticed yet. |
//! | every failure counts | Given back or run out, it is one attempt; a half success resets nothing. |
//! | an end | After the last attempt or age an item is in the dead letter at once, with its history, whoever takes. |
//! | a fresh start | A redriven item has a new budget of attempts and of age, and keeps its history. |
//! | order | By due time, then by pushing; each item has a deadline of its own. |
//! | no polling | A taker sleeps until something is due for it; with nothing due nothing runs. |
//! | never too far | [`Leases::committable`] never passes an offset that is not finished; memory is bounded by those in flight. |
//!
//! # The usual recipe, and what is wrong with it
//!
//! A sorted set scored by due time, and a job that wakes up every two seconds, reads all that is due, removes that range,
//! and sends it. Each of its faults is a test here:
//!
//! | the recipe | here |
//! |---|---|
//! | loses what is between removal and sending when it crashes | an item stays until it is acknowledged: `ixion-retry demo` kills its worker |
//! | delivers twice when two pollers run | a taken item is one worker's until its visibility is over |
//! | loses one of two items with the same score and text | items have names: `a_thousand_alike_of_one_moment_are_a_thousand` |
//! | polls, and is late by up to its period | takers wait in a purgatory: `a_taker_wakes_for_a_push_and_for_an_item_that_becomes_due` |
//! | tries for ever, or gives up unseen | `attempts_count_however_they_fail_and_the_last_one_ends_in_the_dead_letter` |
#![forbid(unsafe_code)]

mod backoff;
mod books;
mod clock;
mod item;
mod leases;
mod memory;
mod queue;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "redis")]
mod redis;
mod shared;
mod store;
mod sync;
mod takers;

pub use backoff::{Backoff, Failed, InvalidFactor, Jitter, Spent, Verdict};
pub use clock::UnixClock;
pub use item::{Answer, Counts, DeadLetter, Delivery, Failure, HISTORY, ItemId, REASON, Receipt};
pub use leases::{Lease, Leases, Next, Refused};
pub use memory::MemoryStore;
pub use queue::{Builder, RetryQueue};
#[cfg(feature = "redb")]
pub use redb::{RedbError, RedbStore};
#[cfg(feature = "redis")]
pub use redis::{RedisClock, RedisError, RedisStore};
pub use store::{Changed, New, Settlement, Store};

/// The code of the README is run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
