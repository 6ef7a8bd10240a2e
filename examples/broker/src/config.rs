//! What can be set.

use std::hash::Hash;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use ixion::{Clock, DelayedOperation, Purgatory};

/// How a broker is to run.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where node 1, the leader of everything, listens. Port 0 takes any free port.
    pub listen: SocketAddr,
    /// Nodes in all: one leader and `replicas - 1` followers. At least 1.
    pub replicas: u16,
    /// Where the followers listen, if they are processes of their own; then these are all, whatever `replicas` says.
    pub followers: Vec<SocketAddr>,
    /// Where the control port listens, if there is to be one.
    pub control: Option<SocketAddr>,
    /// Where the page and the figures for Prometheus are, if they are to be: a loopback address.
    pub http: Option<SocketAddr>,
    /// Partitions of a topic whose creator does not say.
    pub default_partitions: i32,
    /// Whether asking for the metadata of an unknown topic creates it.
    pub auto_create_topics: bool,
    /// How many replicas must be in sync for a write with acks=all. A topic can set its own.
    pub min_insync_replicas: u16,
    /// How long a follower may lag before it leaves the in-sync set.
    pub replica_lag_time_max: Duration,
    /// How long a follower's fetch may wait at the leader; at most a third of the allowed lag.
    pub replica_fetch_wait: Duration,
    /// How long a connection may be without a request before it is closed.
    pub connections_max_idle: Duration,
    /// The most connections of a node. One more is closed at once.
    pub max_connections: usize,
    /// How long a request may take to come once it has begun, and how long a reply to be taken; of the page, too, and
    /// replies of the control port.
    pub transfer_timeout: Duration,
    /// The bytes of all requests that come and replies that go, beyond 64 KiB of each and the first batch of a reply. One
    /// request at a time may come all the same.
    pub buffer_total_bytes: u64,
    /// The largest request that is read, in bytes. A longer frame closes the connection.
    pub max_request_bytes: usize,
    /// The largest record batch that is accepted, in bytes.
    pub max_message_bytes: usize,
    /// Bytes kept per partition; a topic can set its own. Whole batches below the high watermark are dropped.
    pub retention_bytes: u64,
    /// Bytes kept in all logs of the leader together.
    pub retention_total_bytes: u64,
    /// How long the first rebalance of an empty group waits for more members.
    pub group_initial_rebalance_delay: Duration,
    /// The shortest session that a member of a group may have.
    pub group_min_session_timeout: Duration,
    /// The longest session that a member of a group may have.
    pub group_max_session_timeout: Duration,
    /// The most members of a group.
    pub group_max_size: usize,
    /// The most groups, those included that only have offsets.
    pub max_groups: usize,
    /// The most members of all groups together, those included who have been told an id and have not joined yet.
    pub max_members: usize,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 9092)),
            replicas: 3,
            followers: Vec::new(),
            control: None,
            http: None,
            default_partitions: 3,
            auto_create_topics: true,
            min_insync_replicas: 1,
            replica_lag_time_max: Duration::from_secs(30),
            replica_fetch_wait: Duration::from_millis(500),
            connections_max_idle: Duration::from_mins(10),
            max_connections: 20_000,
            transfer_timeout: Duration::from_secs(30),
            buffer_total_bytes: 256 << 20,
            max_request_bytes: 100 << 20,
            max_message_bytes: 1_048_588,
            retention_bytes: 256 << 20,
            retention_total_bytes: 1 << 30,
            group_initial_rebalance_delay: Duration::from_secs(3),
            group_min_session_timeout: Duration::from_secs(6),
            group_max_session_timeout: Duration::from_mins(30),
            group_max_size: 10_000,
            max_groups: 10_000,
            max_members: 100_000,
        }
    }
}

impl Config {
    /// Builds a purgatory. How long its operations wait is measured where the page shows it.
    pub(crate) fn purgatory<K, O>(&self, name: &str, clock: impl Clock + 'static) -> Purgatory<K, O>
    where
        K: Hash + Eq + 'static,
        O: DelayedOperation + 'static,
    {
        Purgatory::builder(name).clock(clock).measure_waits(self.http.is_some()).build()
    }
}
