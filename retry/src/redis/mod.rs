//! A store in a Redis server or cluster, which several processes and machines share.
//!
//! Each step is one Lua script: `lua/*.lua`, with `lua/shared.lua` before each. What a step means stands in `books`; the
//! tables are those of the other stores, as hashes and, for the indexes, sorted sets. These lie in the order of their
//! members, which are a time and an id in digits: a score is a double and cannot hold either. All keys have the queue's
//! name for a hash tag, are given to each script, and never more of them is read than a step needs.
//!
//! `connections` finds the server and sends the steps, `fitness` asks whether it can keep a queue, `watch` listens for what
//! others change, `clock` follows the server's time.

mod clock;
mod connections;
mod error;
mod fitness;
mod scripts;
mod watch;

use crate::item::{Counts, DeadLetter, Delivery, Failure, HISTORY, ItemId, Receipt};
use crate::store::{Changed, New, Settlement, Store};
use clock::Follower;
use connections::Connections;
use error::Fault;
use fitness::Fitness;
use ixion::{Clock, Tick};
use redis::{ErrorKind, FromRedisValue, ScriptInvocation};
use scripts::{Given, Noted, Scripts, delay, digits, failure};
use std::fmt;
use std::sync::Arc;
use watch::Watcher;

pub use clock::RedisClock;
pub use error::RedisError;

/// Keeps the items in a Redis server or cluster, for any number of processes and machines: each opens it by the same name,
/// and has a queue on it.
///
/// It takes Redis 7.0 or later, or Valkey. Each step is one script, which happens whole or not at all. A server that has no
/// memory left (`maxmemory`) refuses a push; what is there can be taken and acknowledged all the same.
///
/// Nobody polls: a taker wakes for what another process pushes, gives back or makes room for, and when a worker of another
/// process has not answered in time. With nothing to do, a store sends three commands every half minute.
///
/// Its keys are `{NAME}:id`, `{NAME}:items` and the like, and nothing else there is touched. Of an empty queue `{NAME}:id` is
/// left, so that no id is given twice. To be rid of a queue, delete its keys while no process has it open.
///
/// Each queue goes by its own policy, so give all the same. What is in flight is counted over all of them, and
/// [`max_in_flight`](crate::Builder::max_in_flight) bounds it together.
///
/// Its queues go by the time of the server, unless they are given a clock, so that all agree what is due:
///
/// ```no_run
/// use ixion_retry::{RedisStore, RetryQueue};
/// use std::time::Duration;
///
/// let store = RedisStore::open("redis://127.0.0.1", "orders")?;
/// let queue = RetryQueue::builder(store).start()?;
/// queue.push(b"pay order 17", Duration::from_secs(10))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # What a crash of the server loses
///
/// | the server | loses what it has answered in |
/// |---|---|
/// | `appendonly no` | everything since its last snapshot, if it makes any |
/// | `appendonly yes`, `appendfsync everysec` | up to two seconds, if the machine crashes; next to nothing, if the process does |
/// | `appendonly yes`, `appendfsync always` | nothing |
/// | failover to a replica | what the replica had not received yet; `min-replicas-to-write` bounds that |
///
/// What is lost is undone: an item that was pushed is gone, one that was acknowledged is there again, and is delivered again.
/// Receipts from before change nothing then, or what they were given for.
///
/// # When the server is away
///
/// Connecting is tried again for two seconds, and a step that was not sent yet waits for that. A step that was sent and is
/// not answered within five seconds, or whose connection breaks, is an [error](RedisError::is_unanswered): it may have been
/// made. A server that was restarted costs an error to those steps alone that were under way. Whatever happens, queues go
/// on by themselves.
///
/// # Limits
///
/// A `take` sends payloads of 16 MiB, or 1000 items, a step. A batch of more than 1000 items or 16 MiB is several steps.
pub struct RedisStore {
    connections: Arc<Connections>,
    scripts: Scripts,
    follower: Arc<Follower>,
    watcher: Watcher,
}

/// How many items, and how many bytes of payloads, a script deals with: nobody else is served meanwhile.
const ITEMS: usize = 1000;
const BYTES: usize = 16 << 20;

/// What a script that takes answers: when the next is due or nothing, whether there may be more, and what was taken.
type Taken = (String, bool, Vec<(Given, Vec<u8>)>);

impl RedisStore {
    /// Opens the queue of that name on the server at `redis://[[user]:password@]host[:port][/database]`, or `unix:PATH`.
    /// TLS is not built in: `rediss:` is refused.
    ///
    /// # Errors
    ///
    /// No server is found there within two seconds, or it does not let us in, or it cannot keep a queue: it is too old, a
    /// replica, may evict keys (`maxmemory-policy allkeys-…`), or has something else under the queue's keys. Or the name is
    /// empty or begins with `}`.
    pub fn open(url: &str, name: &str) -> Result<Self, RedisError> {
        RedisStore::open_cluster([url], name)
    }

    /// Opens the queue of that name on the cluster of which these are some nodes. The queue lies on one node, that of its
    /// slot; while the slot moves to another, steps are refused.
    ///
    /// # Errors
    ///
    /// As [`open`](RedisStore::open).
    pub fn open_cluster(
        urls: impl IntoIterator<Item = impl AsRef<str>>,
        name: &str,
    ) -> Result<Self, RedisError> {
        // The tag would be empty, and the keys lie in several slots.
        if name.is_empty() || name.starts_with('}') {
            let why = format!("{name:?} is no name of a queue: it must not be empty, nor begin with a brace");
            return Err(RedisError::new(None, Fault::Unfit(why)));
        }
        let me = format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
        let fitness = Fitness::new(scripts::keys(name), scripts::channel(name));
        let connections = Arc::new(Connections::new(urls, fitness)?);
        let follower = Arc::new(connections.run(Follower::begin)?);
        let watcher = Watcher::start(&connections, &follower, scripts::channel(name), me.clone())?;
        Ok(RedisStore { connections, scripts: Scripts::new(name, me), follower, watcher })
    }

    /// Returns a clock that shows the server's time.
    #[must_use]
    pub fn clock(&self) -> RedisClock {
        RedisClock::new(&self.follower)
    }

    fn run<R: FromRedisValue>(&self, call: &ScriptInvocation<'_>) -> Result<R, RedisError> {
        self.connections.run(|connection| call.invoke(connection))
    }

    /// Makes a step that has so many answers: others are none of its script's.
    fn run_for<R: FromRedisValue>(
        &self,
        call: &ScriptInvocation<'_>,
        n: usize,
    ) -> Result<Vec<R>, RedisError> {
        self.connections.run(|connection| {
            let answers: Vec<R> = call.invoke(connection)?;
            let all = (answers.len() == n).then_some(answers);
            all.ok_or((ErrorKind::UnexpectedReturnType, "not as many answers as were asked for").into())
        })
    }

    fn take_some(
        &self,
        now: Tick,
        n: usize,
        max_in_flight: usize,
        until: Tick,
    ) -> Result<(Vec<Delivery>, bool), RedisError> {
        let scripts = &self.scripts;
        let mut call = scripts.call(&scripts.take);
        call.arg(digits(now.as_u64())).arg(n).arg(max_in_flight).arg(digits(until.as_u64())).arg(BYTES);
        let (next, is_cut, taken): Taken = self.run(&call)?;
        if let Ok(next) = next.parse() {
            self.watcher.learn(|changed| changed.due(Tick::new(next)));
        }
        let has_more = !taken.is_empty() && (is_cut || taken.len() == n);
        let delivery = |(Given(receipt), payload)| Delivery { payload, receipt };
        Ok((taken.into_iter().map(delivery).collect(), has_more))
    }

    fn settle_some(
        &self,
        settlements: &[(Receipt, Settlement)],
        now: Tick,
        is_over: bool,
    ) -> Result<Vec<bool>, RedisError> {
        let scripts = &self.scripts;
        let mut counted = Vec::with_capacity(settlements.len());
        for some in settlements.chunks(ITEMS) {
            let mut call = scripts.call(&scripts.settle);
            call.arg(digits(now.as_u64())).arg(u8::from(is_over)).arg(HISTORY);
            for (receipt, settlement) in some {
                let (what, at, delay, failure) = written(settlement);
                call.arg(digits(receipt.id.as_u64())).arg(receipt.delivery);
                call.arg(digits(receipt.pushed.as_u64())).arg(what).arg(at).arg(delay).arg(failure);
            }
            counted.extend(self.run_for::<bool>(&call, some.len())?);
        }
        Ok(counted)
    }

    /// A payload that the server would not take breaks the connection, and nobody would know why.
    fn fits(&self, payload: &[u8]) -> Result<(), RedisError> {
        let (bytes, most) = (payload.len(), self.connections.max_bulk());
        if bytes <= most {
            return Ok(());
        }
        let why = format!("the payload has {bytes} bytes, and the server takes {most} (proto-max-bulk-len)");
        Err(self.connections.error(Fault::Unfit(why)))
    }
}

impl Store for RedisStore {
    type Error = RedisError;

    fn push_all(&self, items: &[(&[u8], New)]) -> Result<Vec<ItemId>, RedisError> {
        items.iter().try_for_each(|(payload, _)| self.fits(payload))?;
        let mut ids = Vec::with_capacity(items.len());
        let mut rest = items.iter().peekable();
        while rest.peek().is_some() {
            let mut call = self.scripts.call(&self.scripts.push);
            let (mut count, mut bytes) = (0, 0);
            while let Some((payload, new)) = rest.next_if(|_| count < ITEMS && bytes < BYTES) {
                let due = new.due.map_or_else(String::new, |due| digits(due.as_u64()));
                let failed = new.failure.as_ref().map_or_else(String::new, failure);
                call.arg(payload).arg(digits(new.pushed.as_u64())).arg(due);
                call.arg(new.attempt).arg(delay(new.delay)).arg(failed);
                (count, bytes) = (count + 1, bytes + payload.len());
            }
            ids.extend(self.run_for(&call, count)?.into_iter().map(ItemId::from_u64));
        }
        Ok(ids)
    }

    fn take(
        &self,
        now: Tick,
        n: usize,
        max_in_flight: usize,
        until: Tick,
    ) -> Result<Vec<Delivery>, RedisError> {
        let mut taken = Vec::new();
        while taken.len() < n {
            match self.take_some(now, (n - taken.len()).min(ITEMS), max_in_flight, until) {
                Ok((some, has_more)) => {
                    taken.extend(some);
                    if !has_more {
                        break;
                    }
                }
                Err(error) if taken.is_empty() => return Err(error),
                Err(_) => {
                    // What was taken is not kept from the worker; there may be more.
                    self.watcher.learn(|changed| changed.runs_out(Tick::ZERO));
                    break;
                }
            }
        }
        Ok(taken)
    }

    fn settle_all(
        &self,
        settlements: Vec<(Receipt, Settlement)>,
        now: Tick,
    ) -> Result<Vec<bool>, RedisError> {
        self.settle_some(&settlements, now, false)
    }

    fn overdue(&self, now: Tick, n: usize) -> Result<Vec<(Receipt, Tick)>, RedisError> {
        let mut call = self.scripts.call(&self.scripts.overdue);
        call.arg(digits(now.as_u64())).arg(n.min(ITEMS));
        let overdue: Vec<(u64, Given)> = self.run(&call)?;
        Ok(overdue.into_iter().map(|(until, Given(receipt))| (receipt, Tick::new(until))).collect())
    }

    fn reap(&self, settlements: Vec<(Receipt, Settlement)>, now: Tick) -> Result<Vec<bool>, RedisError> {
        self.settle_some(&settlements, now, true)
    }

    fn next_change(&self, now: Tick) -> Result<Option<Tick>, RedisError> {
        let mut call = self.scripts.call(&self.scripts.next);
        let next: String = self.run(call.arg(digits(now.as_u64())))?;
        Ok(next.parse().ok().map(Tick::new))
    }

    fn dead_letters(&self, after: Option<ItemId>, n: usize) -> Result<Vec<DeadLetter>, RedisError> {
        let mut letters: Vec<DeadLetter> = Vec::new();
        while letters.len() < n {
            let some = (n - letters.len()).min(ITEMS);
            let after = letters.last().map(|letter| letter.id).or(after);
            let mut call = self.scripts.call(&self.scripts.dead);
            call.arg(after.map_or_else(String::new, |id| digits(id.as_u64()))).arg(some).arg(BYTES);
            let (is_cut, found): (bool, Vec<(u64, u32, Vec<u8>, Vec<Noted>)>) = self.run(&call)?;
            let has_more = !found.is_empty() && (is_cut || found.len() == some);
            letters.extend(found.into_iter().map(|(id, attempts, payload, history)| DeadLetter {
                id: ItemId::from_u64(id),
                payload,
                attempts,
                history: history.into_iter().map(|Noted(failure)| failure).collect(),
            }));
            if !has_more {
                break;
            }
        }
        Ok(letters)
    }

    fn redrive(&self, id: ItemId, now: Tick) -> Result<bool, RedisError> {
        let mut call = self.scripts.call(&self.scripts.redrive);
        self.run(call.arg(digits(id.as_u64())).arg(digits(now.as_u64())))
    }

    fn purge(&self, id: ItemId) -> Result<bool, RedisError> {
        let mut call = self.scripts.call(&self.scripts.purge);
        self.run(call.arg(digits(id.as_u64())))
    }

    fn counts(&self) -> Result<Counts, RedisError> {
        let (waiting, in_flight, dead) = self.run(&self.scripts.call(&self.scripts.counts))?;
        Ok(Counts { waiting, in_flight, dead })
    }

    fn own_clock(&self) -> Option<Arc<dyn Clock>> {
        Some(Arc::new(self.clock()))
    }

    fn watch(&self, changed: Changed) {
        self.watcher.tell(changed);
    }
}

/// A settlement as the script knows it: what, a time, a delay and a failure, as far as there are.
fn written(settlement: &Settlement) -> (&'static str, String, String, String) {
    let none = String::new;
    let failed = |failed: &Failure| failure(failed);
    match settlement {
        Settlement::Done => ("done", none(), none(), none()),
        Settlement::Extend(until) => ("extend", digits(until.as_u64()), none(), none()),
        Settlement::Retry { due, delay: waits, failure } => {
            ("retry", digits(due.as_u64()), delay(*waits), failed(failure))
        }
        Settlement::Bury(failure) => ("bury", none(), none(), failed(failure)),
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").finish_non_exhaustive()
    }
}
