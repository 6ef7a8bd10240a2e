//! The usual recipe for retries on Redis, as its authors write it: a sorted set scored by due times, and a job that polls.

use redis::{Client, Connection, RedisResult, cmd};
use std::ops::ControlFlow::{self, Continue};
use std::time::Duration;

/// How often the job wakes up.
pub(crate) const PERIOD: Duration = Duration::from_secs(2);

const KEY: &str = "retries";

/// A producer or a job.
pub(crate) struct Recipe(Connection);

/// What a poll does next.
pub(crate) enum Next {
    /// Removes the range of scores that it has read.
    Remove,
    /// Sends one of the payloads that it has read.
    Send(Vec<u8>),
}

impl Recipe {
    pub(crate) fn connect(url: &str) -> RedisResult<Self> {
        Ok(Recipe(Client::open(url)?.get_connection()?))
    }

    /// Adds payloads with the times when they are due.
    pub(crate) fn add<P: AsRef<[u8]>>(&mut self, items: &[(u64, P)]) -> RedisResult<()> {
        let mut add = cmd("ZADD");
        add.arg(KEY);
        for (due, payload) in items {
            add.arg(due).arg(payload.as_ref());
        }
        add.exec(&mut self.0)
    }

    /// One turn of the job. `before` each step it is told which; it may do what others do at that moment, and if it breaks, the
    /// job crashes there.
    pub(crate) fn poll(
        &mut self,
        now: u64,
        mut before: impl FnMut(Next) -> ControlFlow<()>,
    ) -> RedisResult<()> {
        let due: Vec<Vec<u8>> = cmd("ZREVRANGEBYSCORE").arg(KEY).arg(now).arg(0).query(&mut self.0)?;
        if before(Next::Remove).is_break() {
            return Ok(());
        }
        cmd("ZREMRANGEBYSCORE").arg(KEY).arg(0).arg(now).exec(&mut self.0)?;
        let _ = due.into_iter().try_for_each(|payload| before(Next::Send(payload)));
        Ok(())
    }

    /// A turn that nothing disturbs. Returns what it sends, in this order.
    pub(crate) fn poll_all(&mut self, now: u64) -> RedisResult<Vec<Vec<u8>>> {
        let mut sent = Vec::new();
        self.poll(now, |next| {
            if let Next::Send(payload) = next {
                sent.push(payload);
            }
            Continue(())
        })?;
        Ok(sent)
    }
}
