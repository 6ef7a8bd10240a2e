//! The server's time, so that machines agree.

use ixion::{Clock, SystemClock};
use redis::{Connection, RedisResult};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The time of the Redis server since 1970, in ticks of a millisecond: so that queues on several machines agree when an
/// item is due and a lease is over, however wrong their own clocks are.
///
/// It is asked for when the store is opened and twice a minute after that; between, and while the server is away, this
/// machine's monotonic clock goes on. Half of the round trip is not known, so machines agree to that. It never runs
/// backwards: if the server's time was set back, or another server with another time has taken over, it stands still until
/// that has caught up.
///
/// With [`UnixClock`](crate::UnixClock) on machines whose clocks differ nothing is lost either, but a lease ends early for
/// whom it was given by as much as the clock of another is ahead, and then the item is delivered twice; and delayed items
/// come early or late by as much.
#[derive(Clone)]
pub struct RedisClock(Arc<Follower>);

pub(super) struct Follower {
    local: SystemClock,
    /// What is added to the local time, and the latest time that was shown; in nanoseconds, which last until 2554.
    offset: AtomicU64,
    latest: AtomicU64,
}

impl RedisClock {
    pub(super) fn new(follower: &Arc<Follower>) -> Self {
        RedisClock(Arc::clone(follower))
    }
}

impl Clock for RedisClock {
    fn elapsed(&self) -> Duration {
        let Follower { local, offset, latest } = &*self.0;
        let now = nanos(local.elapsed()).saturating_add(offset.load(Ordering::Relaxed));
        // Relaxed: each is a number by itself, and all changes of one lie in an order.
        Duration::from_nanos(latest.fetch_max(now, Ordering::Relaxed).max(now))
    }
}

impl fmt::Debug for RedisClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisClock").field("elapsed", &self.elapsed()).finish()
    }
}

impl Follower {
    /// Asks for the server's time, a few times: the offset is as good as the fastest answer.
    pub(super) fn begin(connection: &mut Connection) -> RedisResult<Self> {
        const TIMES: usize = 3;
        let local = SystemClock::new();
        let (sent, server, received) = measure(local, connection)?;
        let offset = server.saturating_sub(sent + (received - sent) / 2);
        let follower = Follower { local, offset: AtomicU64::new(nanos(offset)), latest: AtomicU64::new(0) };
        for _ in 1..TIMES {
            follower.follow(connection)?;
        }
        Ok(follower)
    }

    /// Asks for the server's time, and goes by it.
    pub(super) fn follow(&self, connection: &mut Connection) -> RedisResult<()> {
        let (sent, server, received) = measure(self.local, connection)?;
        let old = Duration::from_nanos(self.offset.load(Ordering::Relaxed));
        self.offset.store(nanos(corrected(old, sent, server, received)), Ordering::Relaxed);
        Ok(())
    }
}

/// The offset of a server whose time was read somewhere between two local times: the old one, as far as that is possible.
/// So a slow answer, which tells little, changes little.
fn corrected(old: Duration, sent: Duration, server: Duration, received: Duration) -> Duration {
    old.clamp(server.saturating_sub(received), server.saturating_sub(sent))
}

fn measure(local: SystemClock, connection: &mut Connection) -> RedisResult<(Duration, Duration, Duration)> {
    let sent = local.elapsed();
    let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(connection)?;
    let received = local.elapsed();
    Ok((sent, Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros)), received))
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn clock(offset: Duration) -> RedisClock {
        let offset = AtomicU64::new(nanos(offset));
        RedisClock(Arc::new(Follower { local: SystemClock::new(), offset, latest: AtomicU64::new(0) }))
    }

    #[test]
    fn an_answer_corrects_the_offset_by_no_more_than_it_proves() {
        let corrected = |old| corrected(s(old), s(10), s(1012), s(14));
        assert_eq!((corrected(1000), corrected(998), corrected(1002)), (s(1000), s(998), s(1002)));
        assert_eq!((corrected(900), corrected(2000)), (s(998), s(1002)));
    }

    #[test]
    fn a_server_whose_time_is_before_ours_gives_no_offset() {
        assert_eq!(corrected(s(5), s(10), s(3), s(11)), Duration::ZERO);
    }

    #[test]
    fn the_time_never_runs_backwards() {
        let clock = clock(s(1_000_000));
        let before = clock.elapsed();
        assert!(before >= s(1_000_000));
        clock.0.offset.store(nanos(s(900_000)), Ordering::Relaxed);
        assert_eq!(clock.elapsed(), before, "it stands still");
        clock.0.offset.store(nanos(s(2_000_000)), Ordering::Relaxed);
        assert!(clock.elapsed() >= s(2_000_000));
    }
}
