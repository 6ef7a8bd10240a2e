//! The connections to the server, or to the node of a cluster that has the queue's slot.
//!
//! All keys of a queue lie in one slot, so a cluster is one server here as well: the node that a node sends us to. The client's
//! cluster connection is not used, because it sends again what was sent and not answered: a settlement that was made would be
//! answered with "it does not count".

use super::error::{Fault, RedisError};
use super::fitness::Fitness;
use ixion::{Clock, SystemClock};
use parking_lot::{Condvar, Mutex};
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{
    Client, Connection, ConnectionInfo, ErrorKind, IntoConnectionInfo, RedisResult, ServerErrorKind,
};
use std::collections::VecDeque;
use std::time::Duration;

/// A pool of connections, which are made when they are needed.
pub(super) struct Connections {
    /// Where to ask first. What is there may send us on.
    seeds: Vec<ConnectionInfo>,
    fitness: Fitness,
    clock: SystemClock,
    pool: Mutex<Pool>,
}

#[derive(Default)]
struct Pool {
    /// The node that was the right one last.
    node: Option<ConnectionInfo>,
    /// Connections that nobody uses, and since when.
    idle: Vec<(Connection, Duration)>,
    /// How often all connections were given up. Those from before are not kept.
    generation: u64,
    /// How many bytes the server takes in one argument.
    max_bulk: usize,
}

/// For how long connecting is tried, and how long one try may take.
pub(super) const CONNECT: Duration = Duration::from_secs(2);
/// How long a server may take to answer a step.
pub(super) const ANSWER: Duration = Duration::from_secs(5);
/// The pauses between tries, which double.
const PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// Whether a connection that was idle for longer still lives is asked before a step is sent.
const SURELY_ALIVE: Duration = Duration::from_secs(1);
/// How long an answer is waited for that nobody needs.
const MOMENT: Duration = Duration::from_millis(500);
/// How many connections are kept.
const IDLE: usize = 64;
/// How many nodes may send us on, one to the next.
const HOPS: usize = 5;

impl Connections {
    pub(super) fn new(
        seeds: impl IntoIterator<Item = impl AsRef<str>>,
        fitness: Fitness,
    ) -> Result<Self, RedisError> {
        let seeds: Result<Vec<_>, _> = seeds.into_iter().map(|seed| info(seed.as_ref())).collect();
        let seeds = seeds.map_err(|error| {
            let why = format!("not a URL as redis://HOST:PORT or unix:PATH: {error}");
            RedisError::new(None, Fault::Unfit(why))
        })?;
        if seeds.is_empty() {
            return Err(RedisError::new(None, Fault::Unfit("no address is given".into())));
        }
        Ok(Connections { seeds, fitness, clock: SystemClock::new(), pool: Mutex::default() })
    }

    /// Makes a step. Connecting is tried again for [`CONNECT`], and so is a step that a server has refused because it is not
    /// the right one, or not now; what was sent and not answered is an error.
    pub(super) fn run<R>(
        &self,
        mut step: impl FnMut(&mut Connection) -> RedisResult<R>,
    ) -> Result<R, RedisError> {
        let mut tries = Tries::new(self.clock);
        loop {
            let (mut connection, generation) = self.check_out(&mut tries)?;
            let error = match step(&mut connection) {
                Ok(answer) => {
                    self.check_in(connection, generation);
                    return Ok(answer);
                }
                Err(error) => error,
            };
            if is_elsewhere_or_later(&error) {
                self.give_up(&error);
                if tries.pause() {
                    continue;
                }
                return Err(self.error(Fault::Refused(error)));
            }
            if is_answer(&error) {
                return Err(self.error(Fault::Refused(error)));
            }
            self.give_up(&error);
            return Err(self.error(Fault::Unanswered(error)));
        }
    }

    /// Makes a connection of its own, which is not given back. Tries once.
    pub(super) fn connect(&self) -> Result<Connection, RedisError> {
        let (seeds, node) = (self.seeds.iter(), self.pool.lock().node.clone());
        let others =
            seeds.filter(|seed| node.as_ref().is_none_or(|node| node.addr() != seed.addr())).cloned();
        let mut nodes: VecDeque<_> = node.iter().cloned().chain(others).collect();
        let (mut hops, mut first_error) = (0, None);
        while let Some(node) = nodes.pop_front() {
            match self.connect_to(&node) {
                Ok(connection) => {
                    self.pool.lock().node = Some(node);
                    return Ok(connection);
                }
                Err(error) => {
                    let next = error.client().and_then(|error| moved_to(&node, error));
                    if let Some(next) = next.filter(|_| hops < HOPS) {
                        hops += 1;
                        nodes.push_front(next);
                    } else {
                        first_error.get_or_insert(error);
                    }
                }
            }
        }
        Err(first_error.expect("there is a seed"))
    }

    /// Says something at the end, if anybody is there to hear it soon.
    pub(super) fn say_goodbye(&self, step: impl Fn(&mut Connection) -> RedisResult<()>) {
        let say = |mut connection: Connection| {
            connection.set_read_timeout(Some(MOMENT))?;
            step(&mut connection)
        };
        let idle = self.pool.lock().idle.pop();
        // One that was idle may be of a server that was restarted since.
        if idle.is_none_or(|(connection, _)| say(connection).is_err())
            && let Ok(connection) = self.connect()
        {
            let _ = say(connection);
        }
    }

    /// How many bytes the server takes in one argument.
    pub(super) fn max_bulk(&self) -> usize {
        self.pool.lock().max_bulk
    }

    /// An error of the server that is, or was, the right one.
    pub(super) fn error(&self, fault: Fault) -> RedisError {
        let node = self.pool.lock().node.as_ref().unwrap_or(&self.seeds[0]).addr().to_string();
        RedisError::new(Some(&node), fault)
    }

    fn connect_to(&self, node: &ConnectionInfo) -> Result<Connection, RedisError> {
        let refused = |error| RedisError::new(Some(&node.addr().to_string()), Fault::Refused(error));
        let connect = || {
            let mut connection = Client::open(node.clone())?.get_connection_with_timeout(CONNECT)?;
            connection.set_read_timeout(Some(CONNECT))?;
            connection.set_write_timeout(Some(ANSWER))?;
            let found = self.fitness.ask(&mut connection)?;
            connection.set_read_timeout(Some(ANSWER))?;
            Ok((connection, found))
        };
        let (connection, found) = connect().map_err(refused)?;
        let max_bulk =
            found.map_err(|why| RedisError::new(Some(&node.addr().to_string()), Fault::Unfit(why)))?;
        self.pool.lock().max_bulk = max_bulk;
        Ok(connection)
    }

    fn check_out(&self, tries: &mut Tries) -> Result<(Connection, u64), RedisError> {
        let (idle, generation) = {
            let mut pool = self.pool.lock();
            (pool.idle.pop(), pool.generation)
        };
        if let Some((mut connection, since)) = idle {
            let is_fresh = self.clock.elapsed().saturating_sub(since) < SURELY_ALIVE;
            if is_fresh || redis::cmd("PING").exec(&mut connection).is_ok() {
                return Ok((connection, generation));
            }
            self.forget();
        }
        loop {
            let generation = self.pool.lock().generation;
            match self.connect() {
                Ok(connection) => return Ok((connection, generation)),
                Err(error) => {
                    let may_pass = error.client().is_some_and(may_pass);
                    if !may_pass || !tries.pause() {
                        return Err(error);
                    }
                }
            }
        }
    }

    fn check_in(&self, connection: Connection, generation: u64) {
        let mut pool = self.pool.lock();
        if pool.generation == generation && pool.idle.len() < IDLE {
            pool.idle.push((connection, self.clock.elapsed()));
        }
    }

    /// After an error that concerns all connections: a server that was restarted costs one error.
    fn give_up(&self, error: &redis::RedisError) {
        self.forget();
        let mut pool = self.pool.lock();
        let next = pool.node.as_ref().and_then(|node| moved_to(node, error));
        pool.node = next.or_else(|| pool.node.take());
    }

    fn forget(&self) {
        let idle = {
            let mut pool = self.pool.lock();
            pool.generation += 1;
            std::mem::take(&mut pool.idle)
        };
        drop(idle);
    }
}

/// Counts the time for which something is tried.
struct Tries {
    clock: SystemClock,
    until: Duration,
    pause: Duration,
}

impl Tries {
    fn new(clock: SystemClock) -> Self {
        Tries { clock, until: clock.elapsed() + CONNECT, pause: PAUSE }
    }

    /// Waits for the next try; `false`: there is none.
    fn pause(&mut self) -> bool {
        if self.clock.elapsed() + self.pause > self.until {
            return false;
        }
        // Nobody rings: a sleep that is nobody's token to unpark.
        Condvar::new().wait_for(&mut Mutex::new(()).lock(), self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        true
    }
}

fn info(url: &str) -> RedisResult<ConnectionInfo> {
    // The other end may go without a word; the system asks then.
    let keepalive =
        TcpKeepalive::new().with_time(Duration::from_secs(30)).with_interval(Duration::from_secs(10));
    let settings = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
    let info = url.into_connection_info()?;
    let redis = info.redis_settings().clone().set_skip_set_lib_name();
    Ok(info.set_tcp_settings(settings).set_redis_settings(redis))
}

/// Where a node says that the slot is.
fn moved_to(node: &ConnectionInfo, error: &redis::RedisError) -> Option<ConnectionInfo> {
    use redis::ConnectionAddr::{Tcp, TcpTls};
    if error.kind() != ErrorKind::Server(ServerErrorKind::Moved) {
        return None;
    }
    let (host, port) = error.redirect_node()?.0.rsplit_once(':')?;
    let port = port.parse().ok()?;
    let mut address = node.addr().clone();
    match &mut address {
        Tcp(old_host, old_port) | TcpTls { host: old_host, port: old_port, .. } => {
            // A node that does not know its own name means the one at which it was asked.
            if !host.is_empty() && host != "?" {
                host.clone_into(old_host);
            }
            *old_port = port;
        }
        _ => address = Tcp(host.to_owned(), port),
    }
    Some(node.clone().set_addr(address))
}

/// Whether the server has answered.
pub(super) fn is_answer(error: &redis::RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension)
}

/// Whether the server has answered that it did nothing, because it is another's part or not the time.
fn is_elsewhere_or_later(error: &redis::RedisError) -> bool {
    use ServerErrorKind::{Ask, BusyLoading, ClusterDown, MasterDown, Moved, ReadOnly, TryAgain};
    let ErrorKind::Server(kind) = error.kind() else { return false };
    matches!(kind, Moved | Ask | TryAgain | ClusterDown | MasterDown | ReadOnly | BusyLoading)
}

/// Whether connecting may succeed a moment later.
fn may_pass(error: &redis::RedisError) -> bool {
    error.is_io_error() || is_elsewhere_or_later(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where a node at `a:1` sends us with this answer.
    fn sent_on(answer: &str) -> Option<String> {
        let error = redis::parse_redis_value(answer.as_bytes()).unwrap().extract_error().unwrap_err();
        let next = moved_to(&info("redis://user:password@a:1/2").unwrap(), &error)?;
        assert_eq!(next.redis_settings().password(), Some("password"));
        Some(next.addr().to_string())
    }

    #[test]
    fn a_node_is_followed_where_it_says_that_the_slot_is() {
        assert_eq!(sent_on("-MOVED 3999 10.0.0.1:6381\r\n").as_deref(), Some("10.0.0.1:6381"));
        assert_eq!(sent_on("-MOVED 3999 ::1:6381\r\n").as_deref(), Some("::1:6381"));
        for nameless in ["-MOVED 3999 :6381\r\n", "-MOVED 3999 ?:6381\r\n"] {
            assert_eq!(sent_on(nameless).as_deref(), Some("a:6381"), "it means its own host");
        }
        for other in ["-ASK 3999 10.0.0.1:6381\r\n", "-MOVED\r\n", "-MOVED 1 b:x\r\n", "-ERR no\r\n"] {
            assert_eq!(sent_on(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_tried_ends() {
        let mut tries = Tries::new(SystemClock::new());
        tries.until = Duration::ZERO;
        assert!(!tries.pause());
    }
}
