//! An engine for **delayed operations**: requests that cannot be answered when they come.
//!
//! # The problem
//!
//! A long poll waits for bytes, a produce request for its replicas, a job for a free worker, a session for its renewal. Each
//! wait is ended by *another* request, which does not know who waits; and if none comes in time there must be an
//! answer all the same. There may be a hundred thousand of them, most of them end by an event, and many wait on several things.
//!
//! # The simple ways, and where they fail
//!
//! | | what goes wrong |
//! |---|---|
//! | **A thread or a task for each request, with a sleep** | whoever brings the event about must find the sleeper, and wake it before its time, not twice and not too late. That needs a list, a lock, and a flag: the rest of this table |
//! | **A loop that looks every few milliseconds** | late by half the interval for everybody, busy when nothing happens, and each turn costs a look for each request |
//! | **A `Condvar` or a `Notify` for each key** | an event wakes all that wait on the key, to look and sleep again. An event between the look and the sleep is lost, unless both are under the lock of the event. A request on two keys needs two threads |
//! | **A `BinaryHeap` of deadlines** | nearly every request ends before its deadline, and its entry stays, or is searched for. Starting is O(log n) |
//! | **A `DelayQueue` beside a map of what waits by key** | two structures for one fact. The event and the timeout meet, and answer twice; or the one has taken it out and the other panics, or leaks what it did not find |
//! | **Kafka's purgatory** | all of this is solved, at a price: what has ended stays until a purge, an event asks everybody on the key, one slow look stops the expiry of all. See [`guide::from_kafka`] |
//!
//! # This way
//!
//! Operations wait in a [`Purgatory`], watched on any number of keys, with a deadline in a [`TimingWheel`].
//!
//! ```text
//!    a request that must wait                     an event                        time
//!               │                                    │                             │
//!    try_complete_else_watch             check_and_complete(key)     Expirer, or expire() by hand
//!               │                                    │                             │
//!       look, watch, look again           look at those on the key      take out what is due
//!               └───────────────┬────────────────────┴─────────────┬───────────────┘
//!                               │   whoever comes first decides    │
//!                               └───────▶ on_complete(outcome) ◀───┘     once; nothing is kept
//! ```
//!
//! An operation is a value with two methods: [`try_complete`](DelayedOperation::try_complete) says whether what it waits for
//! is there, and [`on_complete`](DelayedOperation::on_complete) answers. Whoever changes the state calls
//! [`check_and_complete`](Purgatory::check_and_complete) afterwards. Event, timeout, cancellation and shutdown may come at the same
//! moment: the first decides, in one atomic step, and takes the operation out of the wheel and of all its lists. Nobody
//! waits for a thread that is inside an operation, and none of your code runs under a lock.
//!
//! # By hand
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
//! let purgatory: Purgatory<&str, Poll> =
//!     Purgatory::builder("Fetch").clock(clock.clone()).build();
//! let log = Arc::new(Mutex::new(Vec::new()));
//!
//! for offset in [0, 1] {
//!     let poll = Poll { log: log.clone(), offset };
//!     let _ = purgatory.try_complete_else_watch(poll, Duration::from_millis(500), ["orders"])?;
//! }
//! log.lock().unwrap().push("first".to_owned()); // First the state,
//! let ended = purgatory.check_and_complete("orders"); // then the signal.
//! assert_eq!(ended, 1); // Prints: Satisfied: ["first"]
//!
//! clock.advance(Duration::from_millis(500));
//! assert_eq!(purgatory.expire().expired, 1); // Prints: Expired: []
//! assert!(purgatory.is_empty() && purgatory.watched() == 0);
//! # Ok::<(), ixion::RejectReason>(())
//! ```
//!
//! [`guide::by_hand`] prints each look of a longer one, and draws the wheel.
//!
//! # What it costs
//!
//! An operation that waits on up to four keys is one allocation. To register it and to end it is O(keys), with a lock for each
//! shard that its keys are in; a timer starts, stops and moves in O(1). An event costs a look for each that waits on its
//! key, or, [at numbers](Watch::at), for each that it reaches. With nothing due the expirer sleeps.
//! [`guide::costs`] has each method; `ci/bench.sh` measures, beside rivals.
//!
//! It is not for one task that waits for one thing: your runtime's timeout does that ([`guide::from_tokio`]). It keeps everything in
//! memory. And it does not make a clock finer than the operating system's.
//!
//! # Guarantees
//!
//! | | |
//! |---|---|
//! | never early | Deadlines go up to the next tick, readings of the clock down to the last. Late by a tick at most, plus the driver's wake-up and the callbacks before it. |
//! | one end | What was accepted is given to `on_complete` once, or handed back once. |
//! | no lost event | Change the state, then signal the key: whatever else happens at that moment, the operation sees it. |
//! | nobody waits | A signal, an expiry or a cancellation does not wait for the thread that is inside an operation. |
//! | no user code under a lock | Callbacks may call everything, on the same key too. The exceptions are `K`'s `Eq`, and its `Clone` in `hottest_keys`. |
//! | nothing is kept | What has ended leaves the wheel and all its lists at once. No purge; every count is exact at a quiet point. |
//! | panics stay put | A panic ends its own operation, is counted and reported, and nothing else notices. |
//! | any duration | Every `Duration` is legal, at any uptime; `Duration::MAX` is never. |
//! | bounded pauses | No lock is held for more than a bounded number of small steps, whatever is due. |
//! | idle is free | With nothing due the expirer sleeps. |
//! | order | By deadline, then, within a shard, by registration or last reset; `shards(1)` makes that all of it. |
//! | the books balance | registered = satisfied + expired + forced + cancelled + shut down + panicked + pending. |
//! | shutdown | Complete everything or have it handed back; it waits for no thread, and nothing is lost. |
//! | no recursion | What a callback causes runs after it. A chain of completions costs no stack. |
//! | many clocks | A test moves a clock by hand; everything else is as it ships. |
//! | no `unsafe` | `#![forbid(unsafe_code)]`. |
//!
//! [`guide::guarantees`] has them in full, with the tests that show each.
//!
//! # Where to go from here
//!
//! * [`guide`]: recipes, costs, coming from Kafka or from tokio, the words.
//! * [`purgatory`]: where operations wait; [`operation`]: what they are; [`expirer`]: the thread that drives.
//! * [`wheel`]: the timing wheel, usable alone; [`tick`] and [`clock`]: time.
//! * [`metrics`]: what a purgatory counts and measures. With the feature `metrics` the module `telemetry` publishes it.
//! * `future` (feature `async`): waiting in a purgatory as a future, on any runtime.
//! * [`kafka`]: the delayed operations of a Kafka-like broker, over traits that the broker implements.
//! * [`design`]: the protocol, its races and their answers, and what was rejected.
//!
//! # Features
//!
//! * `std`, on by default: everything but [`wheel`] and [`tick`]. Without it the crate is `no_std`, needs `alloc`, and depends on
//!   nothing.
//! * `async`: waiting as a future, on any runtime: `Purgatory::wait`.
//! * `metrics`: the module `telemetry`, which publishes the books to the `metrics` facade.
//! * `tracing`: events, and a span for each pass of a drive, with the target `ixion`. At *error* a panic of your code, at *warn* a
//!   pass of 100 ms or more, at *debug* what was rejected or clamped, shutdowns, and expirers that start and stop, at *trace* the spans.
//!   Nothing is told of operations that are accepted and end.
//! * `test-util`: the module `testing`, the oracles that ixion's own tests compare against.
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]
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
#[cfg(feature = "metrics")]
pub mod telemetry;
#[cfg(any(test, feature = "test-util"))]
pub mod testing;
pub mod tick;
#[cfg(feature = "std")]
mod trace;
#[cfg(feature = "std")]
mod trampoline;
pub mod wheel;

// Not above: the documentation lists the methods of a purgatory in this order, and those that wait are not the first.
#[cfg(feature = "async")]
pub mod future;

/// The code of the README is run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

/// For the models, and for what of the workspace they run besides.
#[cfg(any(ixion_loom, ixion_shuttle))]
#[doc(hidden)]
pub use {
    fault::planted,
    sync::modelled::{Mutex as ModelMutex, time as model_time},
};

#[cfg(feature = "std")]
pub use crate::{
    clock::{Clock, ManualClock, SystemClock},
    expirer::Expirer,
    metrics::{Histogram, Stats},
    operation::{BoxedOperation, DelayedOperation, Outcome, defer},
    purgatory::{
        Builder, Cancelled, CaughtPanic, Drive, Equivalent, HandedBack, OperationId, PanicPlace, Purgatory,
        Registration, RejectReason, Rejected, Watch, Watcher,
    },
};
#[cfg(feature = "async")]
pub use future::{Wait, WaitError, Waiting};
pub use tick::{Resolution, Tick};
pub use wheel::{Expired, Step, TimerId, TimingWheel};
