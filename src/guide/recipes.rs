//! Recipes. Each is as small as it gets; larger ones, to run and to copy from, are the
//! [examples](https://github.com/ixion-rs/ixion/blob/main/examples/README.md) of the repository, and are named where they belong.
//!
//! # A long poll
//!
//! The condition reads the state under its lock, the callback answers. One look is enough for each request that an event
//! concerns; a request that wants several partitions has several keys. In an async task it is one `await`:
//! [*coming from tokio*](super::from_tokio#together). Over HTTP, with clients that hang up:
//! [`long_poll_http`](https://github.com/ixion-rs/ixion/blob/main/examples/long_poll_http/src/main.rs).
//!
//! ```
//! use ixion::{DelayedOperation, ManualClock, Outcome, Purgatory};
//! use std::sync::{Arc, Mutex, mpsc};
//! use std::time::Duration;
//!
//! type Log = Arc<Mutex<Vec<&'static str>>>;
//!
//! struct Poll { log: Log, from: usize, reply: mpsc::Sender<Vec<&'static str>> }
//!
//! impl DelayedOperation for Poll {
//!     fn try_complete(&mut self) -> bool {
//!         self.log.lock().unwrap().len() > self.from
//!     }
//!     fn on_complete(self, _outcome: Outcome) {
//!         // In time or not: what there is. An empty answer tells the client to ask again.
//!         let _ = self.reply.send(self.log.lock().unwrap()[self.from..].to_vec());
//!     }
//! }
//!
//! let clock = ManualClock::new();
//! let polls: Purgatory<&str, Poll> = Purgatory::builder("polls").clock(clock.clone()).build();
//! let (log, (reply, answers)) = (Log::default(), mpsc::channel());
//!
//! let poll = Poll { log: log.clone(), from: 0, reply };
//! let _ = polls.try_complete_else_watch(poll, Duration::from_secs(30), ["orders"])?;
//! log.lock().unwrap().push("first"); // the guard is dropped here,
//! polls.check_and_complete("orders"); // and then comes the signal
//! assert_eq!(answers.try_recv(), Ok(vec!["first"]));
//! # Ok::<(), ixion::RejectReason>(())
//! ```
//!
//! # Many on one key
//!
//! Ten thousand produce requests wait for the replicas of one partition, each for an offset. Let each wait *at* its offset, and
//! tell the event how far it has come: it then asks only those that it reaches. To run: [`acks_all`](https://github.com/ixion-rs/ixion/blob/main/examples/acks_all.rs).
//!
//! ```
//! use ixion::{DelayedOperation, ManualClock, Outcome, Purgatory, Watch};
//! use std::cell::Cell;
//! use std::rc::Rc;
//! use std::time::Duration;
//!
//! struct Replicated { high_watermark: Rc<Cell<u64>>, required: u64, looks: Rc<Cell<u32>> }
//!
//! impl DelayedOperation for Replicated {
//!     fn try_complete(&mut self) -> bool {
//!         self.looks.set(self.looks.get() + 1);
//!         self.high_watermark.get() >= self.required
//!     }
//!     fn on_complete(self, _outcome: Outcome) {}
//! }
//!
//! let produces: Purgatory<&str, Replicated> = Purgatory::builder("produce").clock(ManualClock::new()).build();
//! let (high_watermark, looks) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
//! for required in 1..=10_000 {
//!     let op = Replicated { high_watermark: high_watermark.clone(), required, looks: looks.clone() };
//!     let watch = [Watch::at("orders-0", required)];
//!     let _ = produces.try_complete_else_watch_at(op, Duration::from_secs(30), watch)?;
//! }
//! looks.set(0);
//! high_watermark.set(3);
//! assert_eq!(produces.check_and_complete_up_to("orders-0", 3), 3);
//! assert_eq!(looks.get(), 3);
//! // What has nothing to do with progress, such as the loss of the partition, concerns all.
//! produces.force_complete_for_key("orders-0");
//! # Ok::<(), ixion::RejectReason>(())
//! ```
//!
//! # Sessions and leases
//!
//! The operation *is* the session: it ends when nobody has renewed it. A renewal moves its deadline, by its key, and runs no
//! code of yours; so it may be made under the lock of the group. With logging out, here and everywhere, and how long
//! those of a user have left: [`sessions`](https://github.com/ixion-rs/ixion/blob/main/examples/sessions.rs).
//!
//! ```
//! use ixion::{DelayedOperation, ManualClock, Outcome, Purgatory};
//! use std::time::Duration;
//!
//! struct Session { member: &'static str }
//!
//! impl DelayedOperation for Session {
//!     fn try_complete(&mut self) -> bool {
//!         false
//!     }
//!     fn on_complete(self, outcome: Outcome) {
//!         if outcome == Outcome::Expired {
//!             // Take the group's lock, look again, and remove the member.
//!             println!("{} has gone silent", self.member);
//!         }
//!     }
//! }
//!
//! let clock = ManualClock::new();
//! let sessions: Purgatory<&str, Session> = Purgatory::builder("sessions").clock(clock.clone()).build();
//! const LIMIT: Duration = Duration::from_secs(10);
//! fn heartbeat(sessions: &Purgatory<&'static str, Session>, member: &'static str) -> bool {
//!     // False: it has ended, or its expiry has begun.
//!     sessions.reset_timeout_for_key(member, LIMIT) == 1
//! }
//!
//! let _ = sessions.try_complete_else_watch(Session { member: "m1" }, LIMIT, ["m1"])?;
//! clock.advance(Duration::from_secs(9));
//! assert!(heartbeat(&sessions, "m1"));
//! clock.advance(Duration::from_secs(9));
//! assert_eq!(sessions.expire().expired, 0);
//! // What is left of a session.
//! let session = sessions.watchers("m1")[0];
//! assert_eq!(sessions.time_to(session.deadline), Duration::from_secs(1));
//! // A member that leaves: taken out, without a callback.
//! let session = sessions.cancel_first("m1").taken();
//! assert!(session.is_some() && !heartbeat(&sessions, "m1"));
//! # Ok::<(), ixion::RejectReason>(())
//! ```
//!
//! # Retries
//!
//! A job that fails registers itself again, from its callback, with a longer timeout. Hold the purgatory by a `Weak` in what
//! waits in it: an `Arc` would keep it alive. With a rate limit and dead letters:
//! [`rate_limited_retries`](https://github.com/ixion-rs/ixion/blob/main/examples/rate_limited_retries.rs).
//!
//! A call over a connection is the other way round: its deadline waits, and the answer takes it out, or a broken connection
//! forces all. See [`rpc_deadlines`](https://github.com/ixion-rs/ixion/blob/main/examples/rpc_deadlines.rs).
//!
//! ```
//! use ixion::{DelayedOperation, ManualClock, Outcome, Purgatory};
//! use std::sync::{Arc, Weak};
//! use std::time::Duration;
//!
//! struct Retry { attempt: u32, retries: Weak<Purgatory<u64, Retry>> }
//!
//! impl DelayedOperation for Retry {
//!     fn try_complete(&mut self) -> bool {
//!         false
//!     }
//!     fn on_complete(mut self, outcome: Outcome) {
//!         let (Outcome::Expired, Some(retries)) = (outcome, self.retries.upgrade()) else { return };
//!         let has_failed = self.attempt < 3; // the attempt
//!         if has_failed {
//!             let backoff = Duration::from_millis(100) * 2u32.pow(self.attempt);
//!             self.attempt += 1;
//!             // Refused after a shutdown: it is dropped then.
//!             let _ = retries.try_complete_else_watch(self, backoff, []);
//!         }
//!     }
//! }
//!
//! let clock = ManualClock::new();
//! let retries = Arc::new(Purgatory::builder("retries").clock(clock.clone()).build());
//! let first = Retry { attempt: 0, retries: Arc::downgrade(&retries) };
//! let _ = retries.try_complete_else_watch(first, Duration::ZERO, []);
//! let mut at = Vec::new();
//! while let Some(wait) = retries.time_to_next() {
//!     clock.advance(wait);
//!     while retries.expire().more {}
//!     at.push(clock.now().as_u64());
//! }
//!
//! assert_eq!(at, [0, 100, 300, 700]);
//! ```
//!
//! # A client that hangs up
//!
//! Keep the id with the connection, and cancel. What is handed back is dropped, and nothing of it stays. Or add a key for the
//! connection to each of its operations, and cancel by that: then there is no list of ids to keep.
//!
//! ```
//! use ixion::{DelayedOperation, ManualClock, Outcome, Purgatory};
//! use std::time::Duration;
//!
//! struct Wait;
//! impl DelayedOperation for Wait {
//!     fn try_complete(&mut self) -> bool { false }
//!     fn on_complete(self, _outcome: Outcome) {}
//! }
//!
//! #[derive(PartialEq, Eq, Hash)]
//! enum Key { Topic(&'static str), Connection(u64) }
//!
//! let polls: Purgatory<Key, Wait> = Purgatory::builder("polls").clock(ManualClock::new()).build();
//! for topic in ["orders", "payments"] {
//!     let keys = [Key::Topic(topic), Key::Connection(7)];
//!     let _ = polls.try_complete_else_watch(Wait, Duration::from_secs(30), keys)?;
//! }
//!
//! assert_eq!(polls.cancel_for_key(&Key::Connection(7)).count(), 2);
//! assert_eq!(polls.key_count(), 0);
//! # Ok::<(), ixion::RejectReason>(())
//! ```
//!
//! # Shutdown
//!
//! In this order: accept no more requests; shut the purgatories down, which answers all that waits; drop the expirer, which waits
//! for the callback that its thread is in. A registration that comes meanwhile gets its operation back.
//!
//! ```
//! use ixion::{DelayedOperation, Expirer, Outcome, Purgatory, RejectReason};
//! use std::sync::mpsc;
//! use std::time::Duration;
//!
//! struct Wait(mpsc::Sender<Outcome>);
//! impl DelayedOperation for Wait {
//!     fn try_complete(&mut self) -> bool { false }
//!     fn on_complete(self, outcome: Outcome) { let _ = self.0.send(outcome); }
//! }
//!
//! let polls: Purgatory<u32, Wait> = Purgatory::builder("polls").build();
//! let expirer = Expirer::spawn("expirer")?;
//! expirer.drive(&polls);
//! let (reply, answers) = mpsc::channel();
//! let _ = polls.try_complete_else_watch(Wait(reply.clone()), Duration::from_secs(30), [1])?;
//! assert_eq!(polls.shutdown(), 1);
//! assert_eq!(answers.recv()?, Outcome::Shutdown);
//! let late = polls.try_complete_else_watch(Wait(reply), Duration::from_secs(30), [1]);
//! assert!(late.is_err_and(|rejected| rejected.reason == RejectReason::Shutdown));
//! drop(expirer);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! To hand over what waits, to a file or another server, take it with
//! [`shutdown_and_hand_back`](crate::Purgatory::shutdown_and_hand_back): no callback runs, but for those that were busy.
//!
//! # Slow callbacks
//!
//! A callback runs where the end was decided. One that writes to a disk, or needs a runtime's context, goes to an executor: see
//! the example of [`callbacks_on`](crate::Builder::callbacks_on). Decisions and counts stay where they were made.
//!
//! # Not too many
//!
//! [`capacity`](crate::Builder::capacity) limits how many wait. One too many is handed back with its first look behind it:
//! answer it at once, as if its time were up.
//!
//! # An event loop
//!
//! No thread: the loop asks how long it may sleep, and drives when it wakes up. Where other threads register too, the hook
//! tells it to wake up earlier. With mio: [`event_loop`](https://github.com/ixion-rs/ixion/blob/main/examples/event_loop.rs).
//!
//! ```
//! use ixion::{DelayedOperation, Outcome, Purgatory};
//! use std::sync::mpsc;
//! use std::time::Duration;
//!
//! struct Wait;
//! impl DelayedOperation for Wait {
//!     fn try_complete(&mut self) -> bool { false }
//!     fn on_complete(self, _outcome: Outcome) {}
//! }
//!
//! let (wake, woken) = mpsc::channel(); // a pipe, an eventfd, an mio::Waker
//! let waits: Purgatory<u32, Wait> =
//!     Purgatory::builder("waits").on_earlier_deadline(move || _ = wake.send(())).build();
//! let _ = waits.try_complete_else_watch(Wait, Duration::from_millis(1), [])?;
//!
//! loop {
//!     let drive = waits.expire();
//!     if drive.more {
//!         continue; // a pass is bounded: a loop with sockets sees to them in between
//!     }
//!     // `None`: nothing is due, ever. A loop with sockets then sleeps without a limit.
//!     let Some(limit) = waits.time_to_next() else { break };
//!     let _ = woken.recv_timeout(limit); // epoll, kqueue, …
//! }
//!
//! assert!(waits.is_empty());
//! # Ok::<(), ixion::RejectReason>(())
//! ```
//!
//! # A purgatory for each thread
//!
//! An operation need not be `Send`: with an `Rc` in it, its purgatory stays on one thread, as in the example of
//! [`by_hand`](super::by_hand). Take [`shards(1)`](crate::Builder::shards), and drive it from that thread's loop, as
//! [`thread_per_core`](https://github.com/ixion-rs/ixion/blob/main/examples/thread_per_core.rs) does.
//!
//! # A look-up by borrowed keys
//!
//! A key of the map is a `String` and a number, and what comes in is a `&str` and a number. `Borrow` cannot make one of the
//! other; [`Equivalent`](crate::Equivalent) needs not: no allocation to ask. Only the hashes must be the same.
//!
//! ```
//! use ixion::{DelayedOperation, Equivalent, ManualClock, Outcome, Purgatory};
//! use std::time::Duration;
//!
//! #[derive(Hash, PartialEq, Eq)]
//! struct Partition { topic: String, index: u32 }
//!
//! #[derive(Hash)] // the same fields in the same order: the same hash
//! struct PartitionRef<'a> { topic: &'a str, index: u32 }
//!
//! impl Equivalent<Partition> for PartitionRef<'_> {
//!     fn equivalent(&self, key: &Partition) -> bool {
//!         self.topic == key.topic && self.index == key.index
//!     }
//! }
//!
//! struct Wait;
//! impl DelayedOperation for Wait {
//!     fn try_complete(&mut self) -> bool { false }
//!     fn on_complete(self, _outcome: Outcome) {}
//! }
//!
//! let waits: Purgatory<Partition, Wait> = Purgatory::builder("waits").clock(ManualClock::new()).build();
//! let key = Partition { topic: "orders".to_owned(), index: 3 };
//! let _ = waits.try_complete_else_watch(Wait, Duration::from_secs(1), [key])?;
//! assert!(waits.contains_key(&PartitionRef { topic: "orders", index: 3 }));
//! assert!(!waits.contains_key(&PartitionRef { topic: "orders", index: 4 }));
//! # Ok::<(), ixion::RejectReason>(())
//! ```
//!
//! # Figures for a dashboard
//!
//! [`stats`](crate::Purgatory::stats) gives counters that only rise, one for each way to end, and gauges of what waits now. Ask
//! as often as a monitor does: it takes each shard's lock once.
//!
//! | figure | from | look closer when |
//! |---|---|---|
//! | how many wait | `pending` | it only rises: nobody signals, or timeouts are too long |
//! | how many run out of time | rate of `expired` | it rises beside `satisfied`: what they wait for is late |
//! | entries for each | `watched / pending` | many: large requests |
//! | how far the keys spread | `watched / keys` | many on one key: watch [at a number](#many-on-one-key) |
//! | how late expiries are | [`lateness`](crate::Purgatory::lateness) | callbacks are slow, or the driver has too much to do |
//! | how long operations wait | [`waits`](crate::Purgatory::waits), if [measured](crate::Builder::measure_waits) | |
//! | which keys are hot | [`hottest_keys`](crate::Purgatory::hottest_keys), [`watchers`](crate::Purgatory::watchers) | one has most of them |
//! | refused ones | `rejected_full` | the [capacity](crate::Builder::capacity) is too small, or a client asks too often |
//! | the longest pass | `work.longest_pass` | it keeps the other purgatories of the expirer waiting |
//! | panics | `panics`, and the hook [`on_panic`](crate::Builder::on_panic) | ever |
//! | clamped timeouts | `clamped` | clients ask for more than [`max_timeout`](crate::Builder::max_timeout) |
//! | how often the driver wakes up | [`wake_ups`](crate::Expirer::wake_ups) | it rises while nothing is due |
//!
//! By topic, or by client: count in [`on_complete`](crate::DelayedOperation::on_complete), which knows the operation and its
//! outcome.
//!
//! # A test
//!
//! Give the purgatory a [`ManualClock`](crate::ManualClock), move it, drive. To make everything happen in the same order each time,
//! set [`shards`](crate::Builder::shards) and [`hash_seed`](crate::Builder::hash_seed). What a service does in ten thousand random
//! steps can then be held against a model, and a seed replays it: [`simulation`](https://github.com/ixion-rs/ixion/blob/main/examples/simulation/main.rs).
//!
//! ```
//! use ixion::{DelayedOperation, ManualClock, Outcome, Purgatory};
//! use std::time::Duration;
//!
//! struct Wait;
//! impl DelayedOperation for Wait {
//!     fn try_complete(&mut self) -> bool { false }
//!     fn on_complete(self, _outcome: Outcome) {}
//! }
//!
//! let clock = ManualClock::new();
//! let waits = Purgatory::builder("waits").clock(clock.clone()).shards(1).hash_seed(7).build();
//! let _ = waits.try_complete_else_watch(Wait, Duration::from_millis(300), ["key"])?;
//! clock.advance(Duration::from_millis(299));
//! assert_eq!(waits.expire().expired, 0);
//! clock.advance(Duration::from_millis(1));
//! assert_eq!(waits.expire().expired, 1);
//! # Ok::<(), ixion::RejectReason>(())
//! ```
