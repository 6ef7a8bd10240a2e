//! The running broker: its listeners and its tasks.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::cluster::Cluster;
use crate::follower::{Follower, Trouble};
use crate::handlers::Session;
use crate::partition::LEADER;
use crate::{Config, Stats, control, http, net};

/// How long a shutdown waits for clients to take their last answers.
const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(5);
/// A follower that did not wait at all would fetch without a pause.
const MIN_FETCH_WAIT: Duration = Duration::from_millis(1);
/// The most clients of the control port.
const MAX_CONTROL_CONNECTIONS: usize = 100;
/// The most browsers' connections.
const MAX_HTTP_CONNECTIONS: usize = 100;

/// A running broker: a leader and its followers, in this process; or a leader alone, or one follower alone.
///
/// It needs a tokio runtime with its network and its time enabled, of several threads or of one. Dropping it stops
/// everything at once; [`shutdown`](Self::shutdown) lets clients take their answers first.
pub struct Broker {
    cluster: Arc<Cluster>,
    addr: SocketAddr,
    control: Option<SocketAddr>,
    http: Option<SocketAddr>,
    closing: watch::Sender<bool>,
    /// What is wrong with the followers here.
    trouble: Trouble,
    tasks: JoinSet<()>,
}

impl Broker {
    /// Starts a broker. Its listeners are bound when this returns.
    ///
    /// # Errors
    ///
    /// Fails if a listener cannot be bound or a thread cannot be started, or without a single node.
    pub async fn start(mut config: Config) -> io::Result<Broker> {
        if !config.followers.is_empty() {
            config.replicas = u16::try_from(1 + config.followers.len()).unwrap_or(u16::MAX);
        }
        if config.replicas == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a broker needs at least one node"));
        }
        let mut listeners = vec![listen(config.listen, "cannot serve")?];
        let own_followers = if config.followers.is_empty() { config.replicas - 1 } else { 0 };
        for _ in 0..own_followers {
            listeners.push(listen(SocketAddr::new(config.listen.ip(), 0), "cannot serve")?);
        }
        let mut nodes = listeners.iter().map(TcpListener::local_addr).collect::<io::Result<Vec<_>>>()?;
        nodes.extend(&config.followers);
        let control = config.control.map(|address| listen(address, "cannot open the control port"));
        let control = control.transpose()?;
        let http = config.http.map(listen_for_page).transpose()?;
        let addr = nodes[0];
        let cluster = Cluster::start(config, nodes.clone())?;
        let mut broker = Broker::new(cluster, addr);
        for ((node, listener), listens) in (LEADER..).zip(listeners).zip(nodes) {
            broker.serve(listener, node, None);
            if node != LEADER {
                broker.follow_leader(node, addr, listens);
            }
        }
        if let Some(listener) = control {
            broker.control = Some(listener.local_addr()?);
            let (cluster, closed) = (broker.cluster.clone(), broker.closing.subscribe());
            broker.tasks.spawn(net::accept(
                listener,
                MAX_CONTROL_CONNECTIONS,
                closed.clone(),
                move |stream| control::serve(stream, cluster.clone(), closed.clone()),
            ));
        }
        if let Some(listener) = http {
            broker.http = Some(listener.local_addr()?);
            let (cluster, closed) = (broker.cluster.clone(), broker.closing.subscribe());
            broker.tasks.spawn(net::accept(listener, MAX_HTTP_CONNECTIONS, closed.clone(), move |stream| {
                http::serve(stream, cluster.clone(), closed.clone())
            }));
        }
        Ok(broker)
    }

    /// Starts a follower of a leader that is another process, and was told where this one listens. Of the settings it
    /// takes where to listen, how long its fetches wait, and the limits of connections.
    ///
    /// # Errors
    ///
    /// Fails if the listener cannot be bound or a thread cannot be started, or for a node that can be no follower.
    pub async fn follow(leader: SocketAddr, node: u16, config: Config) -> io::Result<Broker> {
        if node < 2 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "followers are nodes from 2 on"));
        }
        let listener = listen(config.listen, "cannot serve")?;
        let addr = listener.local_addr()?;
        let config = Config { replicas: node, replica_lag_time_max: Duration::MAX, ..config };
        let cluster = Cluster::start(config, vec![leader; usize::from(node)])?;
        let mut broker = Broker::new(cluster, addr);
        broker.serve(listener, i32::from(node), Some(leader));
        broker.follow_leader(i32::from(node), leader, addr);
        Ok(broker)
    }

    fn new(cluster: Arc<Cluster>, addr: SocketAddr) -> Broker {
        let (closing, trouble) = (watch::Sender::new(false), watch::Sender::new(None));
        Broker { cluster, addr, control: None, http: None, closing, trouble, tasks: JoinSet::new() }
    }

    /// Serves clients of a node.
    fn serve(&mut self, listener: TcpListener, node: i32, leader: Option<SocketAddr>) {
        let session = Session { cluster: self.cluster.clone(), node, leader };
        let closed = self.closing.subscribe();
        let most = self.cluster.config.max_connections;
        self.tasks.spawn(net::accept(listener, most, closed.clone(), move |stream| {
            net::serve(stream, session.clone(), closed.clone())
        }));
    }

    /// Lets a node copy what the leader has.
    fn follow_leader(&mut self, node: i32, leader: SocketAddr, listens: SocketAddr) {
        // Its fetches show that it is there: it must not sit one out for so long that it seems to lag.
        let config = &self.cluster.config;
        let wait = config.replica_fetch_wait.min(config.replica_lag_time_max / 3).max(MIN_FETCH_WAIT);
        let paused = self.cluster.gate(node).expect("every follower has one").subscribe();
        let follower = Follower::new(node, leader, listens, wait, self.trouble.clone());
        self.tasks.spawn(follower.run(paused, self.closing.subscribe()));
    }

    /// What keeps a [follower](Self::follow) from copying what the leader has, or clients from finding it; nothing, while
    /// all is well. A trouble that is there already counts as a change.
    #[must_use]
    pub fn trouble(&self) -> watch::Receiver<Option<String>> {
        let mut trouble = self.trouble.subscribe();
        if trouble.borrow().is_some() {
            trouble.mark_changed();
        }
        trouble
    }

    /// Where clients connect: the address of node 1, or of the follower that this is.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The address of the control port, if there is one.
    #[must_use]
    pub fn control_addr(&self) -> Option<SocketAddr> {
        self.control
    }

    /// The address of the page and of the figures for Prometheus, if there is one.
    #[must_use]
    pub fn http_addr(&self) -> Option<SocketAddr> {
        self.http
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

fn listen(address: SocketAddr, what_fails: &str) -> io::Result<TcpListener> {
    net::listen(address)
        .map_err(|error| io::Error::new(error.kind(), format!("{what_fails} on {address}: {error}")))
}

/// Whoever reaches the page may give commands, so it is on loopback only.
fn listen_for_page(address: SocketAddr) -> io::Result<TcpListener> {
    if !address.ip().is_loopback() {
        let refused = format!("cannot open the page on {address}: it must be a loopback address");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, refused));
    }
    listen(address, "cannot open the page")
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
            .field("http", &self.http)
            .finish_non_exhaustive()
    }
}
