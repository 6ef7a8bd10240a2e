//! The store in a Redis server: what is kept there, and what it does with servers that cannot keep it.

use ixion_redis_server::{Cluster, Server};
use ixion_retry::RedisStore;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The server of those tests that leave it as it is.
pub(crate) fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start().unwrap())
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
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    let cluster = CLUSTER.get_or_init(|| Cluster::start(3).unwrap());
    run(RedisStore::open_cluster(cluster.urls(), &new_name()).unwrap());
}
