//! Retries and leases on the [`ixion`] engine: the two things that people build on a delay engine, and build wrongly.
//!
//! * [`RetryQueue`]: items that are delivered when they are due, to one worker at a time, until one says that it is done. What
//!   fails, or is not acknowledged in time, comes again by a [`Backoff`], and ends in the dead letter when that has had
//!   enough. At least once, through any crash that its [`Store`] outlives: [`MemoryStore`] none, [`RedbStore`] any, and
//!   [`RedisStore`], which several machines share, what its server does.
//! * [`Leases`]: which offsets of a partition are in flight, what is to be delivered again, and what may be committed.
//!
//! All of it runs on an [`ixion::Clock`]: a test moves an [`ixion::ManualClock`] and drives.
//!
//! The [README](https://github.com/ixion-rs/ixion/blob/main/retry/README.md) says what is promised, and which tests hold it;
//! [`sorted_set`] what is wrong with the usual recipe.
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
pub mod sorted_set;
mod store;
mod sync;
mod takers;

pub use backoff::{Backoff, Failed, InvalidFactor, Jitter, Spent, Verdict};
pub use clock::UnixClock;
pub use item::{Answer, Counts, DeadLetter, Delivery, Failure, HISTORY, ItemId, REASON, Receipt};
pub use ixion::{Clock, ManualClock, Tick};
pub use leases::{Lease, Leases, Next, Refused};
pub use memory::MemoryStore;
pub use queue::{Builder, RetryQueue};
#[cfg(feature = "redb")]
pub use redb::{RedbError, RedbStore};
#[cfg(feature = "redis")]
pub use redis::{RedisClock, RedisError, RedisStore};
pub use store::{Changed, New, Settlement, Store};

/// The code of the README is run as a test.
#[cfg(all(doctest, feature = "redb", feature = "redis"))]
#[doc = include_str!("../README.md")]
mod readme {}
