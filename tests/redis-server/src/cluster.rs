//! Servers that share the slots of the keys among them.

use crate::{Failure, PATIENCE, Server, free_address};
use std::thread;
use std::time::{Duration, Instant};

/// A cluster, without replicas.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Server>,
}

const SLOTS: usize = 16384;

impl Cluster {
    /// Starts so many nodes, each of which has its part of the slots.
    ///
    /// # Errors
    ///
    /// As [`Server::start`], or they do not find each other.
    pub fn start(nodes: usize) -> Result<Self, Failure> {
        let mut cluster = Cluster { nodes: Vec::new() };
        let mut buses = Vec::new();
        for node in 0..nodes {
            let bus = free_address()?.port().to_string();
            let server = Server::start_with(&["--cluster-enabled", "yes", "--cluster-port", &bus])?;
            let (first, end) = (SLOTS * node / nodes, SLOTS * (node + 1) / nodes);
            server.ask(&format!("CLUSTER ADDSLOTSRANGE {first} {}", end - 1))?;
            cluster.nodes.push(server);
            buses.push(bus);
        }
        for (node, bus) in cluster.nodes.iter().zip(&buses).skip(1) {
            let address = node.address();
            cluster.nodes[0].ask(&format!("CLUSTER MEET {} {} {bus}", address.ip(), address.port()))?;
        }
        let until = Instant::now() + PATIENCE;
        for node in &cluster.nodes {
            while !node.ask("CLUSTER INFO")?.contains("cluster_state:ok") {
                if Instant::now() > until {
                    return Err("the nodes of a cluster do not find each other".into());
                }
                thread::sleep(Duration::from_millis(10));
            }
        }
        Ok(cluster)
    }

    /// Returns its nodes.
    #[must_use]
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// Returns the addresses of its nodes as clients take them.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(Server::url).collect()
    }
}
