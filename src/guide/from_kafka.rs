//! Coming from Kafka: each class and method of its purgatory and timers, and the counterpart.
//!
//! *Kafka* here is its source of October 2024; where a later version differs, the version is named. The classes are
//! `kafka.server.DelayedOperation` and `DelayedOperationPurgatory` (in 4.x `org.apache.kafka.server.purgatory`) and those of
//! `org.apache.kafka.server.util.timer`. Its own operations, `DelayedProduce`, `DelayedFetch` and the others, are in
//! [`kafka`](crate::kafka), with their rules numbered.
//!
//! # The same in both
//!
//! A request waits on keys with a timeout. Whoever changes the state calls `checkAndComplete` for the key afterwards, with no
//! lock held that the condition takes. `tryComplete` may be called many times. `onComplete` is called once, and the first who
//! comes wins.
//!
//! ```
//! use ixion::{DelayedOperation, Expirer, Outcome, Purgatory, Registration};
//! use std::time::Duration;
//!
//! struct DelayedThing;
//!
//! impl DelayedOperation for DelayedThing {           // class … extends DelayedOperation(ms)
//!     fn try_complete(&mut self) -> bool {           // def tryComplete(): Boolean =
//!         false                                      //   if (met) forceComplete() else false
//!     }
//!     fn on_complete(self, outcome: Outcome) {       // def onComplete()
//!         if outcome == Outcome::Expired {}          // def onExpiration()
//!     }
//! }
//!
//! // val purgatory = DelayedOperationPurgatory[DelayedThing]("Thing", brokerId = 0)
//! let purgatory: Purgatory<(String, i32), DelayedThing> = Purgatory::builder("Thing").build();
//! let reaper = Expirer::spawn("ExpirationReaper")?;  // one for all purgatories
//! reaper.drive(&purgatory);
//!
//! let key = ("orders".to_string(), 0);
//! // purgatory.tryCompleteElseWatch(new DelayedThing(30000), Seq(key))
//! match purgatory.try_complete_else_watch(DelayedThing, Duration::from_secs(30), [key.clone()])? {
//!     Registration::Completed(_) => {}               // true
//!     Registration::Watched(_id) => {}               // false
//! }
//! let _completed: usize = purgatory.check_and_complete(&key); // purgatory.checkAndComplete(key)
//! assert_eq!(purgatory.cancel_for_key(&key).count(), 1); // purgatory.cancelForKey(key).size
//! purgatory.shutdown();                              // purgatory.shutdown()
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # `DelayedOperation`
//!
//! | Kafka | here | what differs, and why |
//! |---|---|---|
//! | `delayMs` of the constructor | an argument of [`try_complete_else_watch`](crate::Purgatory::try_complete_else_watch) | a [`Duration`](std::time::Duration). Every one is legal, `MAX` is never; in Kafka `now + delay` wraps |
//! | `tryComplete()` | [`try_complete`](crate::DelayedOperation::try_complete) | it only answers, and does not call `forceComplete` itself. It is never called after the end (Kafka: since 4.x) |
//! | `onComplete()` | [`on_complete`](crate::DelayedOperation::on_complete) | takes the operation by value, so the compiler holds *once* |
//! | `onExpiration()` | `on_complete` with [`Outcome::Expired`](crate::Outcome::Expired) | Kafka calls `onComplete` first and `onExpiration` after. One call with the reason lets an operation cancel what it waits for *before* it answers |
//! | `forceComplete()` on the operation | [`force_complete`](crate::Purgatory::force_complete) with its id | the purgatory owns the operation. What ends so leaves its lists at once, not at a purge |
//! | the `Boolean` of `forceComplete()` | the `bool` of `force_complete`: *by this call* | the same |
//! | `isCompleted` | none | the answer would be old when you have it; the end itself is told to `on_complete` |
//! | `cancel()` (of `TimerTask`: no timeout any more, still watched) | [`reset_timeout`](crate::Purgatory::reset_timeout) to `Duration::MAX` | [`cancel`](crate::Purgatory::cancel) here takes the operation out of everything |
//! | `safeTryComplete()` on the operation | [`try_complete`](crate::Purgatory::try_complete) of the purgatory, with its id | |
//! | `safeTryCompleteOrElse(f)`, before 2.7 `maybeTryComplete()` | none | what they guard is the engine's business |
//! | `lock`, `lockOpt` | none | see [*No lock of the operation*](#no-lock-of-the-operation) |
//!
//! # `DelayedOperationPurgatory`
//!
//! | Kafka | here | what differs, and why |
//! |---|---|---|
//! | `new(name, timer, brokerId, purgeInterval, reaperEnabled, timerEnabled)` | [`Purgatory::builder`](crate::Purgatory::builder) | |
//! | `purgatoryName`, `brokerId` | the name | it shows in reports of panics and in `Debug` |
//! | `purgeInterval` | none | what ends unlinks itself from all its keys, in time proportional to their number |
//! | `reaperEnabled = false` | no [`Expirer`](crate::Expirer): call [`expire`](crate::Purgatory::expire) | |
//! | `timerEnabled = false` | a timeout of `Duration::MAX` | it needs a driver all the same |
//! | 512 shards | [`shards`](crate::Builder::shards), 16 if not set | a shard here has the deadlines too |
//! | a key of any type; 4.x: `DelayedOperationKey`, `keyLabel()` | any `K: Hash + Eq` | is asked for by any borrowed form, [`Equivalent`](crate::Equivalent), without making one |
//! | `tryCompleteElseWatch(op, keys)` | [`try_complete_else_watch`](crate::Purgatory::try_complete_else_watch) | no keys is legal: a timer. Keys given twice count once. The answer is the outcome or an id, where Kafka's `false` may also mean *completed by somebody else* |
//! | `watchForOperation(key, op)` | none: a part of registering | an operation is on all its keys, and armed, before its second look; in Kafka it is armed last |
//! | `Watchers`, `estimatedTotalOperations`, `purgeCompleted()` | none | a watch list holds what waits, and nothing else |
//! | `checkAndComplete(key)` | [`check_and_complete`](crate::Purgatory::check_and_complete) | a panic ends one operation, and not the walk. It waits for nobody |
//! | `cancelForKey(key)` | [`cancel_for_key`](crate::Purgatory::cancel_for_key) | takes them off their other keys too. Those that a thread is inside are completed by it with [`Cancelled`](crate::Outcome::Cancelled), and counted in [`busy`](crate::HandedBack::busy) |
//! | `watched` | [`watched`](crate::Purgatory::watched) | exact: nothing that is completed is in it |
//! | `numDelayed` | [`len`](crate::Purgatory::len) | the operations that wait, also those without a timeout. In Kafka the size of the timer, whoever else uses it |
//! | `shutdown()` | [`shutdown`](crate::Purgatory::shutdown), [`shutdown_and_hand_back`](crate::Purgatory::shutdown_and_hand_back) | in Kafka what waits is neither completed nor expired. May be called twice |
//! | `ExpiredOperationReaper`, `advanceExpiration` | [`Expirer`](crate::Expirer) | one thread for any number of purgatories, and it sleeps until something is due; Kafka has two for each, and one wakes up every 200 ms |
//! | `PurgatorySize` | [`Stats::watched`](crate::Stats::watched) | |
//! | `NumDelayedOperations` | [`Stats::pending`](crate::Stats::pending) | |
//! | `ExpiresPerSec` of produce, fetch and others | [`Stats::expired`](crate::Stats::expired), one counter for each way to end | a rate is what your metrics system makes of a counter. By topic: count in `on_complete` |
//! | none | [`lateness`](crate::Purgatory::lateness), [`waits`](crate::Purgatory::waits), [`hottest_keys`](crate::Purgatory::hottest_keys) | |
//! | none | [`check_and_complete_up_to`](crate::Purgatory::check_and_complete_up_to), [`Watch::at`](crate::Watch::at) | an event asks those it can concern, and not all. What raft's `ThresholdPurgatory` is for |
//! | none | [`reset_timeout`](crate::Purgatory::reset_timeout), [`capacity`](crate::Builder::capacity), [`max_timeout`](crate::Builder::max_timeout) | a heartbeat moves a deadline, where Kafka makes a new operation for each |
//!
//! # The timer
//!
//! | Kafka | here | what differs, and why |
//! |---|---|---|
//! | `TimingWheel(tickMs, wheelSize, …)` | [`TimingWheel`](crate::TimingWheel) | 64 slots and 11 levels, always: all of `u64` fits. Usable alone, by one thread |
//! | overflow wheels, made on demand | the levels | |
//! | `TimingWheel.add` | [`start_timer`](crate::TimingWheel::start_timer) | any deadline; one in the past is due at once |
//! | `TimerTaskEntry`, `TimerTaskList` | [`TimerId`](crate::TimerId) and chunks of 64 timers, see [`wheel`](crate::wheel) | |
//! | the `DelayQueue` of buckets | a bit for each slot | the next deadline is two bit scans away |
//! | a deadline rounded down: early by up to a tick | rounded up: never early | |
//! | tasks of one moment in any order | by deadline, then by order of starting | |
//! | `SystemTimer(executorName, tickMs, wheelSize, startMs)` | a `Purgatory` whose operations have no keys | tick: [`Resolution`](crate::Resolution) of the clock |
//! | `Timer.add(task)` | `try_complete_else_watch(op, timeout, [])` | |
//! | `Timer.advanceClock(timeoutMs)` | [`expire`](crate::Purgatory::expire), [`time_to_next`](crate::Purgatory::time_to_next) | never sleeps; says how many it expired and when to come again |
//! | `Timer.size` | [`len`](crate::Purgatory::len) | |
//! | `Timer.close()` | `shutdown`, or drop | |
//! | `TimerTask.run` | `on_complete` with `Expired` | on the driver; on an executor with [`callbacks_on`](crate::Builder::callbacks_on) |
//! | `TimerTask.cancel` | [`cancel`](crate::Purgatory::cancel) | hands the task back |
//! | `SystemTimerReaper` | [`Expirer`](crate::Expirer) | |
//! | `MockTimer`, `MockTime` | [`ManualClock`](crate::ManualClock) | the timer under test is the real one. Expires *at* the deadline, not one past it |
//! | `CoordinatorTimer.schedule(key, …)`, `cancel(key)` | [`reset_timeout_for_key`](crate::Purgatory::reset_timeout_for_key) and, if that is 0, a registration; `cancel_for_key` | |
//! | `ExpirationService.failAfter` | an operation without keys | |
//!
//! # `ActionQueue`
//!
//! It has two jobs in Kafka.
//!
//! * *Completions must not nest.* Here each thread has such a queue inside: what a callback causes runs after it, in order,
//!   before the thread's outermost call returns. There is nothing to drain and nothing to forget.
//!   A look, which must not signal, can [`defer`](crate::defer) it to there.
//! * *A signal must come after the locks are released.* That stays your business, and the rule is the same: change the state under
//!   your lock, let go of it, then signal. Collect the keys in a `Vec` while you hold the lock.
//!
//! # No lock of the operation
//!
//! Before 2.7 Kafka tried the operation's lock and went on if it was taken: an event could be lost (KAFKA-6653, KAFKA-8334). Since
//! then it waits for the lock, and since 4.1 its expiry thread does too (KAFKA-19312): one slow `tryComplete` stops all
//! expiries. Here a thread that meets a busy operation leaves a mark in an atomic word and goes; the thread inside finds the
//! mark before it can let go. No event is lost, and nobody waits. How is in [`design`](crate::design#the-protocol).
//!
//! If an operation needs a lock of your own (a group's, say), take it in the look. If you must not wait for it there, answer
//! `false` where it is taken, and signal the key once it is released.
//!
//! # Traps of a port
//!
//! * *The look takes a lock that the signalling thread holds.* In Kafka its lock may be re-entrant, and it works. Rust's are not:
//!   let go first.
//! * *`forceComplete` inside `tryComplete`.* Return `true`.
//! * *Signals inside `tryComplete`.* Not allowed: debug builds say so. Signal in `on_complete`, or [`defer`](crate::defer) it.
//! * *A heartbeat as a new operation.* Reset the deadline of the one that waits: [`kafka::heartbeat`](crate::kafka::heartbeat).
//! * *Decisions by `numDelayed != 0`*, to save a signal. A signal on a key that nobody waits on is one lock; asking first
//!   misses what is just being registered.
//! * *Followers and consumers on one key.* What they wait for moves apart: see [`kafka`](crate::kafka#how-a-broker-uses-them).
