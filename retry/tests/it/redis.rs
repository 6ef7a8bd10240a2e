//! The store in a Redis server or cluster.

mod kept;
mod servers;
mod shared;
mod unwell;

use ixion_redis_server::{Cluster, Server};
use ixion_retry::{Backoff, RedisStore, RetryQueue};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The server of those tests that leave it as it is.
pub(crate) fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start().unwrap())
}

fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| Cluster::start(3).unwrap())
}

/// A name that no queue had before.
pub(crate) fn new_name() -> String {
    static NAMES: AtomicUsize = AtomicUsize::new(0);
    format!("queue {}", NAMES.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn in_redis(run: impl FnOnce(RedisStore)) {
    run(RedisStore::open(&server().url(), &new_name()).unwrap());
}

pub(crate) fn in_a_cluster(run: impl FnOnce(RedisStore)) {
    run(RedisStore::open_cluster(cluster().urls(), &new_name()).unwrap());
}

/// A queue on the server's time that drives itself, and gives out again at once what has failed.
fn started(store: RedisStore, max_in_flight: usize) -> RetryQueue<RedisStore> {
    let builder = RetryQueue::builder(store).backoff(Backoff::fixed(Duration::ZERO));
    builder.max_in_flight(max_in_flight).on_error(|_| {}).start().unwrap()
}

fn connect(server: &Server) -> ::redis::Connection {
    ::redis::Client::open(server.url()).unwrap().get_connection().unwrap()
}
