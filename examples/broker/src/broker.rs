//! The running broker: its listeners and its tasks.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::cluster::Cluster;
use crate::follower::Follower;
use crate::{Config, Stats, control, net};

/// How long a shutdown waits for clients to take their last answers.
const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(5);

/// A running broker: a leader and its followers, in this process.
///
/// It needs a tokio runtime with its network and its time enabled, of several threads or of one. Dropping it stops
/// everything at once; [`shutdown`](Self::shutdown) lets clients take their answers first.
pub struct Broker {
    cluster: Arc<Cluster>,
    control: Option<SocketAddr>,
    closing: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Broker {
    /// Starts a broker. Its listeners are bound when this returns.
    ///
    /// # Errors
    ///
    /// Fails if a listener cannot be bound or a thread cannot be started, or without a single node.
    pub async fn start(config: Config) -> io::Result<Broker> {
        if config.replicas == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a broker needs at least one node"));
        }
        let mut listeners = vec![net::listen(config.listen)?];
        for _ in 2..=config.replicas {
            listeners.push(net::listen(SocketAddr::new(config.listen.ip(), 0))?);
        }
        let nodes =
            listeners.iter().map(tokio::net::TcpListener::local_addr).collect::<io::Result<Vec<_>>>()?;
        let control_listener = config.control.map(net::listen).transpose()?;
        let control = control_listener.as_ref().map(tokio::net::TcpListener::local_addr).transpose()?;
        let followers = 2..=i32::from(config.replicas);
        let cluster = Cluster::start(config, nodes)?;

        let (closing, closed) = watch::channel(false);
        let mut tasks = JoinSet::new();
        for (node, listener) in (1..).zip(listeners) {
            let (cluster, closed) = (cluster.clone(), closed.clone());
            tasks.spawn(net::accept(listener, closed.clone(), move |stream| {
                net::serve(stream, cluster.clone(), node, closed.clone())
            }));
        }
        if let Some(listener) = control_listener {
            let (cluster, closed) = (cluster.clone(), closed.clone());
            tasks.spawn(net::accept(listener, closed.clone(), move |stream| {
                control::serve(stream, cluster.clone(), closed.clone())
            }));
        }
        for node in followers {
            tasks.spawn(Follower::new(node, cluster.clone()).run(closed.clone()));
        }
        Ok(Broker { cluster, control, closing, tasks })
    }

    /// The address of node 1: what clients are told to bootstrap from.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.cluster.nodes[0]
    }

    /// The address of the control port, if there is one.
    #[must_use]
    pub fn control_addr(&self) -> Option<SocketAddr> {
        self.control
    }

    /// Takes a snapshot of the counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.cluster.stats()
    }

    /// Stops a follower's fetching, or all followers'. When this returns no further acknowledgement of theirs counts.
    /// A node that is no follower is ignored.
    pub fn pause(&self, node: Option<u16>) {
        self.cluster.set_paused(node, true);
    }

    /// Lets a follower fetch again, or all of them.
    pub fn resume(&self, node: Option<u16>) {
        self.cluster.set_paused(node, false);
    }

    /// Answers what waits, closes the listeners and connections, and ends all tasks and threads. Returns the last
    /// counters.
    pub async fn shutdown(mut self) -> Stats {
        // The flag first: a connection that has sent its last answer must find it set.
        self.closing.send_replace(true);
        self.cluster.shut_down();
        let all_ended = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(SHUTDOWN_PATIENCE, all_ended).await.is_err() {
            self.tasks.shutdown().await;
        }
        self.cluster.stats()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.cluster.shut_down();
    }
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broker")
            .field("addr", &self.addr())
            .field("control", &self.control)
            .finish_non_exhaustive()
    }
}
