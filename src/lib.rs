//! An engine for **delayed operations**: requests that cannot be answered when they come.
//!
//! A produce request waits for its replicas, a long poll for bytes, a group for its members, a lease for its renewal. Each
//! wait is ended by *another* request; and if none comes in time there must be an answer all the same.
//!
//! **The simple way** is a list of waiting requests, a lock, and a thread that looks every few milliseconds. It loses an
//! event that comes between the look and the entry in the list; it answers twice when the event and the timeout
//! meet; it keeps what is answered until somebody cleans up; it deadlocks when an answer brings about the next event.
//!
//! **This way.** Operations wait in a [`Purgatory`], watched on keys, with a deadline in a [`TimingWheel`]. Whoever changes
//! the state that they wait for calls [`check_and_complete`](Purgatory::check_and_complete) for its key. Whatever comes
//! first, event, timeout, cancellation or shutdown, decides once how an operation ends, and nothing of it is kept.
//!
//! # Example
//!
//! ```
//! use ixion::{DelayedOperation, ManualClock, Outcome, Purgatory};
//! use std::sync::{Arc, Mutex};
//! use std::time::Duration;
//!
//! /// A long poll: waits until the log has grown past an offset.
//! struct Poll { log: Arc<Mutex<Vec<String>>>, offset: usize }
//!
//! impl DelayedOperation for Poll {
//!     fn try_complete(&mut self) -> bool {
//!         self.log.lock().unwrap().len() > self.offset
//!     }
//!     fn on_complete(self, outcome: Outcome) {
//!         println!("{outcome:?}: {:?}", &self.log.lock().unwrap()[self.offset..]);
//!     }
//! }
//!
//! let clock = ManualClock::new(); // or SystemClock, and an Expirer that drives
//! let purgatory: Purgatory<&str, Poll> = Purgatory::builder("Fetch").clock(clock.clone()).build();
//! let log = Arc::new(Mutex::new(Vec::new()));
//!
//! for offset in [0, 1] {
//!     let poll = Poll { log: log.clone(), offset };
//!     let _ = purgatory.try_complete_else_watch(poll, Duration::from_millis(500), ["orders"])?;
//! }
//! log.lock().unwrap().push("first".to_owned());
//! assert_eq!(purgatory.check_and_complete("orders"), 1); // Satisfied: ["first"]
//!
//! clock.advance(Duration::from_millis(500));
//! assert_eq!(purgatory.expire().expired, 1); // Expired: []
//! assert!(purgatory.is_empty() && purgatory.watched() == 0);
//! # Ok::<(), ixion::RejectReason>(())
//! ```
//!
//! # Guarantees
//!
//! | | |
//! |---|---|
//! | never early | Deadlines go up to the next tick, readings of the clock down to the last. Late by a tick at most, plus the driver's wake-up and the callbacks before it. |
//! | one end | What was accepted is given to `on_complete` once, or handed back once. |
//! | no lost event | Change the state, then signal the key: whatever else happens at that moment, the operation sees it. |
//! | nobody waits | A signal, an expiry or a cancellation does not wait for the thread that is inside an operation. |
//! | no user code under a lock | Callbacks may call everything, on the same key too. The exception is `K`'s `Eq`. |
//! | nothing is kept | What has ended leaves the wheel and all its lists at once. No purge; every count is exact at a quiet point. |
//! | panics stay put | A panic ends its own operation, is counted and reported, and nothing else notices. |
//! | any duration | Every `Duration` is legal, at any uptime; `Duration::MAX` is never. |
//! | idle is free | With nothing due the expirer sleeps. |
//! | order | By deadline, then, within a shard, by registration or last reset; `shards(1)` makes that all of it. |
//! | the books balance | registered = satisfied + expired + forced + cancelled + shut down + panicked + pending. |
//! | shutdown | Complete everything or have it handed back; it waits for no thread, and nothing is lost. |
//! | no recursion | What a callback causes runs after it. A chain of completions costs no stack. |
//! | many clocks | A test moves a clock by hand; everything else is as it ships. |
//! | no `unsafe` | `#![forbid(unsafe_code)]`. |
//!
//! # The modules
//!
//! * [`purgatory`]: where operations wait; [`operation`]: what they are; [`expirer`]: the thread that drives.
//! * [`wheel`]: the timing wheel, usable alone; [`tick`] and [`clock`]: time.
//! * [`kafka`]: the delayed operations of a Kafka-like broker, over traits that the broker implements.
//! * [`design`]: the protocol, its races and their answers, and what was rejected.
#![forbid(unsafe_code)]
#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(not(feature = "std"), allow(dead_code, unused_imports, reason = "the purgatory uses the rest"))]
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]
#![cfg_attr(docsrs, feature(doc_cfg), doc(auto_cfg(hide(feature = "std"))))]

extern crate alloc;

#[cfg(feature = "std")]
mod alarm;
#[cfg(feature = "std")]
pub mod clock;
#[cfg(feature = "std")]
pub mod design;
#[cfg(feature = "std")]
pub mod expirer;
mod fault;
#[cfg(feature = "std")]
pub mod guide;
#[cfg(feature = "std")]
pub mod kafka;
#[cfg(feature = "std")]
pub mod metrics;
#[cfg(feature = "std")]
pub mod operation;
#[cfg(feature = "std")]
pub mod purgatory;
mod steps;
#[cfg(feature = "std")]
mod sync;
#[cfg(any(test, feature = "test-util"))]
pub mod testing;
pub mod tick;
#[cfg(feature = "std")]
mod trampoline;
pub mod wheel;

#[cfg(any(ixion_loom, ixion_shuttle))]
#[doc(hidden)]
pub use sync::modelled::time as model_time;

#[cfg(feature = "std")]
pub use clock::{Clock, ManualClock, SystemClock};
#[cfg(feature = "std")]
pub use expirer::Expirer;
#[cfg(feature = "std")]
pub use metrics::Stats;
#[cfg(feature = "std")]
pub use operation::{BoxedOperation, DelayedOperation, Outcome};
#[cfg(feature = "std")]
pub use purgatory::{
    Builder, Cancelled, CaughtPanic, Drive, Equivalent, HandedBack, OperationId, PanicPlace, Purgatory,
    Registration, RejectReason, Rejected, Watch,
};
pub use tick::{Resolution, Tick};
pub use wheel::{Expired, Step, TimerId, TimingWheel};
