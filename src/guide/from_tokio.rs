//! Coming from tokio: when a `select!` with a sleep is enough, and when not.
//!
//! # When you need nothing of this
//!
//! *One task waits for one thing, with a timeout.* `tokio::time::timeout(limit, receiver).await`, or a `select!` with a
//! `sleep`, is right and clear. The task is the operation, its local variables are the state, and dropping the future
//! is the cancellation. tokio's timer is a hierarchical wheel too. Stay there while
//!
//! * whoever ends the wait knows the one who waits, and has a `oneshot::Sender` for it;
//! * there is a task for each wait anyway;
//! * all of it is inside one runtime.
//!
//! # Where it fails
//!
//! Somebody writes a record, and does not know who waits for it: perhaps nobody, perhaps ten thousand, each for another amount and
//! on several partitions.
//!
//! | what you write | what happens |
//! |---|---|
//! | `select! { _ = notify.notified() => …, _ = sleep => … }` in a loop, a `Notify` for each key | check the condition *before* you wait, and an event in between is lost, unless the `Notified` was made before the check. Each event wakes *every* task of the key: a switch and a check for each, also for those who need ten more. Somebody must remove a key's `Notify` when nobody waits, in a race with whoever begins to |
//! | `notify_one` instead | wakes one, perhaps one for whom it is not enough. The others sleep |
//! | `watch::channel` for each key, and `wait_for` | no lost event. The rest stays: all wake for each change; a task on several keys selects over all of them |
//! | a map of `oneshot::Sender`s by key, and a `sleep` in each task | a request on three partitions is in three lists. Who ends it in one must find it in the others. The timeout takes the task away and leaves the entries: that is the leak. Event and timeout at once: the answer was sent, and nobody receives it |
//! | a `DelayQueue` beside that map | two structures for one fact. Event and expiry race for the entry, under a lock that you write; and `remove` with a key that was returned already panics |
//! | a polling loop | late by half the interval, and busy when nothing happens |
//!
//! What is missing each time is *one* place that decides which of the two came first, and takes the rest away. That is what
//! a [`Purgatory`](crate::Purgatory) is.
//!
//! # The counterparts
//!
//! | tokio | here | what differs |
//! |---|---|---|
//! | `time::sleep`, `sleep_until` | an operation without keys | is not a future. Nothing is woken but at the deadline |
//! | `time::timeout(limit, future)` | [`wait`](../../purgatory/struct.Purgatory.html#method.wait), with the feature `async`; else the timeout of a registration | the end is told with its reason, [`Outcome`](crate::Outcome) |
//! | `Sleep::reset` | [`reset_timeout`](crate::Purgatory::reset_timeout) | from any thread, by id or by key |
//! | `time::pause`, `advance` | [`ManualClock`](crate::ManualClock) | a value that you pass, not a mode of the runtime. Works on any number of threads |
//! | `time::interval` | register again in [`on_complete`](crate::DelayedOperation::on_complete) | |
//! | `Notify::notified` | [`wait`](../../purgatory/struct.Purgatory.html#method.wait) on a key: looks once more when it is on it, so no event is lost | the condition is part of it, and it has a deadline |
//! | `Notify::notify_waiters` | [`check_and_complete`](crate::Purgatory::check_and_complete) | the condition is checked where the event is, so only those who are done are woken |
//! | `Notify::notify_one` | [`cancel_first`](crate::Purgatory::cancel_first), or a condition that one can win | |
//! | `oneshot` to answer | a `oneshot::Sender` in the operation, used in `on_complete` | |
//! | `spawn_blocking` for what may block | [`callbacks_on`](crate::Builder::callbacks_on) | callbacks are handed to an executor |
//! | dropping a future | dropping a [`wait`](../../purgatory/struct.Purgatory.html#method.wait); of a callback [`cancel`](crate::Purgatory::cancel) with its id | see [*A client that hangs up*](super::recipes#a-client-that-hangs-up) |
//! | `CancellationToken` | [`force_complete_for_key`](crate::Purgatory::force_complete_for_key) on a key of the connection | one more key of each of its operations |
//! | `Semaphore` | [`capacity`](crate::Builder::capacity) | counts what waits; refuses, and does not wait |
//!
//! | tokio-util's `DelayQueue` | here | what differs |
//! |---|---|---|
//! | `DelayQueue<T>` | [`TimingWheel<T>`](crate::TimingWheel) | both belong to one owner. The wheel is no stream and knows no clock: you tell it the time |
//! | `insert(value, timeout)`, `insert_at` | [`start_timer`](crate::TimingWheel::start_timer) | a [`Tick`](crate::Tick) of any size; `DelayQueue` panics when it is too far (about two years) |
//! | `remove(&key)`: panics if it is gone | [`stop_timer`](crate::TimingWheel::stop_timer): `None` if it is gone | ids are not reused |
//! | `try_remove` | `stop_timer` | |
//! | `reset`, `reset_at`: panic if it is gone | [`restart_timer`](crate::TimingWheel::restart_timer): `false` if it is gone | |
//! | `poll_expired`, `next().await` | [`pop_expired`](crate::TimingWheel::pop_expired) | by deadline, then by order of starting |
//! | `peek` | [`peek_expired`](crate::TimingWheel::peek_expired), [`next_expiration`](crate::TimingWheel::next_expiration) | the next deadline is exact |
//! | many tasks on one queue | a [`Purgatory`](crate::Purgatory) | any thread may call it |
//!
//! How they compare in time and memory is printed by `cargo bench --bench ratios -- --short`; the last print is in the README.
//!
//! # Together
//!
//! A purgatory needs no runtime and gets on with any. With the feature `async` a task waits with [`wait`](../../purgatory/struct.Purgatory.html#method.wait): the condition is a
//! closure that runs on the task and may borrow, the purgatory holds a waker, and dropping the future takes it out: a handler
//! whose client hangs up needs no more. Say the purgatory's type, `Purgatory<K>`; `build` alone leaves open what waits in it.
//!
#![cfg_attr(feature = "async", doc = "```")]
#![cfg_attr(not(feature = "async"), doc = "```ignore")]
//! use ixion::{Expirer, Purgatory, WaitError};
//! use std::sync::Mutex;
//! use std::time::Duration;
//!
//! struct Server { log: Mutex<Vec<String>>, polls: Purgatory<String> }
//!
//! impl Server {
//!     /// What comes after the first `from` messages. Empty if nothing has come in half a minute.
//!     async fn poll(&self, from: usize) -> Result<Vec<String>, WaitError> {
//!         let news = || self.log.lock().unwrap().get(from..).filter(|news| !news.is_empty()).map(<[_]>::to_vec);
//!         match self.polls.wait(Duration::from_secs(30), ["orders".to_owned()], news).await {
//!             Err(WaitError::Elapsed) => Ok(Vec::new()),
//!             answer => answer, // the news; or it is full, or shut down
//!         }
//!     }
//!
//!     fn publish(&self, message: String) {
//!         self.log.lock().unwrap().push(message); // the guard is dropped here,
//!         self.polls.check_and_complete("orders"); // and then comes the signal
//!     }
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let server = Server { log: Mutex::default(), polls: Purgatory::builder("polls").build() };
//!     let expirer = Expirer::spawn("expirer")?; // dropped, it stops: keep it as long as the server
//!     expirer.drive(&server.polls);
//!
//!     let (news, ()) = tokio::join!(server.poll(0), async { server.publish("first".to_owned()) });
//!     assert_eq!(news?, ["first"]);
//!     Ok(())
//! }
//! ```
//!
//! Without it the operation holds the sending end, the task awaits the receiving one, and the condition is checked by whoever
//! signals: a task is woken only when it is done. With tokio's `oneshot` for the channel of this example the handler's last line
//! is `receiver.await`:
//!
//! ```
//! use ixion::{DelayedOperation, Expirer, Outcome, Purgatory};
//! use std::sync::atomic::{AtomicUsize, Ordering};
//! use std::sync::{Arc, mpsc};
//! use std::time::Duration;
//!
//! struct Poll { length: Arc<AtomicUsize>, past: usize, reply: mpsc::Sender<Option<usize>> }
//!
//! impl DelayedOperation for Poll {
//!     fn try_complete(&mut self) -> bool {
//!         self.length.load(Ordering::Acquire) > self.past
//!     }
//!     fn on_complete(self, outcome: Outcome) {
//!         // `send` does not block, so it may run wherever the end was decided.
//!         let length = self.length.load(Ordering::Acquire);
//!         let _ = self.reply.send((outcome == Outcome::Satisfied).then_some(length));
//!     }
//! }
//!
//! let (polls, length) = (Purgatory::builder("polls").build(), Arc::new(AtomicUsize::new(0)));
//! let expirer = Expirer::spawn("expirer")?;
//! expirer.drive(&polls);
//!
//! // The handler of a request.
//! let (reply, answer) = mpsc::channel();
//! let poll = Poll { length: length.clone(), past: 0, reply };
//! let _ = polls.try_complete_else_watch(poll, Duration::from_secs(30), ["orders"])?;
//!
//! // The handler of another one.
//! length.store(1, Ordering::Release);
//! polls.check_and_complete("orders");
//!
//! assert_eq!(answer.recv()?, Some(1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Three rules:
//!
//! 1. [`on_complete`](crate::DelayedOperation::on_complete) runs where the end was decided: in the task that signalled, or on the
//!    expirer's thread, where no runtime's context is. It must not block and cannot `.await`. Send on a channel, keep a
//!    `Handle` in the operation and spawn, or give the callbacks to the runtime with [`callbacks_on`](crate::Builder::callbacks_on).
//! 2. Looks are short, and take `std` or `parking_lot` locks. A lock of tokio's cannot be awaited in there.
//! 3. Signal after the guard of your lock is dropped. A guard that lives across an `.await` is trouble already.
//!
//! With the expirer's thread there is a second timer beside tokio's, one thread for the whole process, which sleeps while
//! nothing is due. To do without it, let a task drive: [*An event loop*](super::recipes#an-event-loop).
