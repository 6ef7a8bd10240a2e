//! All that the page shows, at one moment.

use serde::Serialize;

use crate::Stats;
use crate::cluster::Cluster;

/// The broker at one moment.
#[derive(Debug, Serialize)]
pub(super) struct Picture {
    /// How long the broker has run.
    pub(super) uptime_ms: u64,
    /// What the control port's `stats` says.
    pub(super) stats: Stats,
}

impl Picture {
    pub(super) fn of(cluster: &Cluster) -> Self {
        let uptime_ms = u64::try_from(cluster.now().as_millis()).unwrap_or(u64::MAX);
        Picture { uptime_ms, stats: cluster.stats() }
    }

    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers and names have a form in JSON")
    }
}
