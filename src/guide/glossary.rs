//! The words, and what they mean here.
//!
//! | word | meaning | others say |
//! |---|---|---|
//! | **operation** | a request that was accepted and cannot be answered yet: a value with a condition and a callback, [`DelayedOperation`](crate::DelayedOperation) | delayed operation, pending request, waiter |
//! | **purgatory** | where operations wait, [`Purgatory`](crate::Purgatory). The name is Kafka's | wait queue, parking lot, pending map |
//! | **key** | what an operation waits on and an event names: a partition, a session, a lock's name | topic, channel, watch key |
//! | **watch** | one key of one operation. An operation on three keys is three watches: [`watched`](crate::Purgatory::watched) counts them | subscription, entry |
//! | **watch list** | those that wait on a key, in order of registration | watchers |
//! | **look** | a call of [`try_complete`](crate::DelayedOperation::try_complete): is the condition met? | poll, check, probe |
//! | **event** | a change of the state that operations wait for | trigger |
//! | **signal** | to say that an event concerns a key: [`check_and_complete`](crate::Purgatory::check_and_complete) | notify, wake |
//! | **progress** | a number on a key that rises: an offset, a version. An operation may wait *at* a number, [`Watch::at`](crate::Watch::at) | threshold, high watermark |
//! | **timeout** | how long an operation may wait: always a [`Duration`](std::time::Duration), counted from the call | delay, TTL |
//! | **deadline** | when its time is up: always a [`Tick`](crate::Tick) | expiration, due time |
//! | **tick** | a point in time in whole steps of the clock's [`Resolution`](crate::Resolution), a millisecond by default; also such a step | jiffy |
//! | **end** | what happens to an operation once: it is *satisfied*, *expired*, *forced*, *cancelled*, *shut down* or *panicked* | completion |
//! | **outcome** | which of the six it is, [`Outcome`](crate::Outcome) | result, status |
//! | **decide** | to set the outcome. The first who does so wins; the others are told that they came too late | claim, CAS |
//! | **hold** | to be the one thread that may touch an operation. The holder looks, and carries out what was decided | own, lock |
//! | **busy** | held by another thread right now | running, in flight |
//! | **mark** | a note that a thread leaves on a busy operation: *look again before you let go* | dirty flag |
//! | **hand back** | to give an operation to a caller instead of to its callback | drain, take |
//! | **to force** | to end an operation whatever its condition says, [`force_complete`](crate::Purgatory::force_complete) | complete externally |
//! | **pass** | one call of [`expire`](crate::Purgatory::expire): a bounded piece of a drive | tick, poll |
//! | **drive** | passes until one says that there is no more: it expires what was due when it began | advance |
//! | **expirer** | the thread that drives, [`Expirer`](crate::Expirer) | reaper, timer thread |
//! | **alarm, bell** | until when the driver has said it will sleep, and what wakes it earlier | waker, condvar |
//! | **shard** | a part of a purgatory with a lock of its own: some of the keys, and the deadlines of the operations at home there | stripe, bucket, segment |
//! | **home** | the shard of an operation's first key, where its deadline is and where it is counted | |
//! | **level, bucket, slot** | the parts of the wheel; see [`by_hand`](super::by_hand) | ring, hand |
//! | **to cascade** | to move the timers of a bucket down a level, when the position has come to its block | demote, re-insert |
//! | **quiet point** | a moment when no thread is inside a call of the purgatory. All counts are exact then | quiescence |
//! | **the books** | the counts of a purgatory, [`Stats`](crate::Stats): what was registered is what has ended and what waits | metrics |
//! | **never** | [`Duration::MAX`](std::time::Duration::MAX) as a timeout, [`Tick::MAX`](crate::Tick::MAX) as a deadline | infinite |
