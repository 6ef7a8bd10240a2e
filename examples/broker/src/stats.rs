//! What the broker counts, as plain numbers and as one line of JSON.

use std::fmt;
use std::net::SocketAddr;

use serde::Serialize;

/// The books of one purgatory.
///
/// At every quiet point `registered` is the sum of all the ends and `pending`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PurgatoryStats {
    /// Operations accepted so far, those that the first look satisfied included.
    pub registered: u64,
    /// Operations whose condition was met.
    pub satisfied: u64,
    /// Operations whose time was up.
    pub expired: u64,
    /// Operations that were completed whatever their condition.
    pub forced: u64,
    /// Operations that were taken back.
    pub cancelled: u64,
    /// Operations that a shutdown ended.
    pub shut_down: u64,
    /// Operations that panicked.
    pub panicked: u64,
    /// Operations that wait now.
    pub pending: u64,
    /// Entries in watch lists now: an operation on three keys counts three.
    pub watched: u64,
    /// Keys that somebody waits on now.
    pub keys: u64,
    /// Of those registered, the ones that were over at their first look.
    pub at_once: u64,
    /// Operations that were not accepted.
    pub rejected: u64,
    /// Timeouts that were clamped to the greatest allowed.
    pub clamped: u64,
    /// Panics that were caught.
    pub panics: u64,
    /// How often the expirer has looked at this purgatory.
    pub passes: u64,
    /// How often a deadline came before the one that the expirer slept for.
    pub rings: u64,
    /// Timers that have moved down a level of the wheel.
    pub cascaded: u64,
    /// The longest time that the expirer was busy here at once, in microseconds.
    pub longest_pass_us: u64,
}

/// One partition's replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PartitionStats {
    /// The topic's name.
    pub topic: String,
    /// The partition's index.
    pub partition: i32,
    /// One past the last offset in the leader's log.
    pub log_end: i64,
    /// What consumers may read up to.
    pub high_watermark: i64,
    /// The first offset that is still kept.
    pub log_start: i64,
    /// The nodes that are in sync, the leader included.
    pub isr: Vec<i32>,
    /// Where the followers' logs end, as far as the leader knows.
    pub followers: Vec<FollowerEnd>,
}

/// How far a follower of a partition has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FollowerEnd {
    /// The follower.
    pub node: i32,
    /// One past the last offset that it is known to have.
    pub log_end: i64,
}

/// A snapshot of the whole broker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Produce requests that wait for followers.
    pub produce: PurgatoryStats,
    /// Fetch requests that wait for bytes, the followers' own included.
    pub fetch: PurgatoryStats,
    /// Requests to delete records that wait for followers.
    pub delete_records: PurgatoryStats,
    /// Requests to create or delete topics that wait for followers.
    pub topic: PurgatoryStats,
    /// What groups wait for: that all join, that all synchronize.
    pub rebalance: PurgatoryStats,
    /// The sessions of the members of groups.
    pub heartbeat: PurgatoryStats,
    /// The timers of connections without a request.
    pub idle: PurgatoryStats,
    /// The check for followers that lag.
    pub chores: PurgatoryStats,
    /// Consumer groups that have members or offsets.
    pub groups: u64,
    /// The members of all groups.
    pub members: u64,
    /// Open client connections, the followers' included.
    pub connections: u64,
    /// Requests that wait in a purgatory now.
    pub parked: u64,
    /// Timers armed on the wheel now, those that are not requests included.
    pub timers: u64,
    /// How often the expirer's thread has looked what is due.
    pub wake_ups: u64,
    /// Requests read so far.
    pub requests: u64,
    /// The smallest in-sync set of any partition; the number of nodes if there is no partition.
    pub isr: u64,
    /// Where each node listens, node 1 first.
    pub nodes: Vec<SocketAddr>,
    /// The nodes whose fetching is paused.
    pub paused: Vec<u16>,
    /// Every partition, by topic and index.
    pub partitions: Vec<PartitionStats>,
}

impl Stats {
    /// All purgatories by the names that they have here.
    pub(crate) fn purgatories(&self) -> [(&'static str, &PurgatoryStats); 8] {
        [
            ("produce", &self.produce),
            ("fetch", &self.fetch),
            ("delete_records", &self.delete_records),
            ("topic", &self.topic),
            ("rebalance", &self.rebalance),
            ("heartbeat", &self.heartbeat),
            ("idle", &self.idle),
            ("chores", &self.chores),
        ]
    }

    /// Writes the snapshot as one line of JSON, without a newline.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers and names have a form in JSON")
    }
}

impl PurgatoryStats {
    /// How many operations ended in each way.
    pub(crate) fn ends(&self) -> [(&'static str, u64); 6] {
        [
            ("satisfied", self.satisfied),
            ("expired", self.expired),
            ("forced", self.forced),
            ("cancelled", self.cancelled),
            ("shut_down", self.shut_down),
            ("panicked", self.panicked),
        ]
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_json())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_one_line_of_json() {
        let partition = PartitionStats { topic: "a-b".into(), isr: vec![1, 2], ..Default::default() };
        let stats =
            Stats { parked: 3, paused: vec![2, 3], partitions: vec![partition], ..Default::default() };
        let json = stats.to_json();
        assert!(!json.contains('\n'), "{json}");
        assert!(json.contains("\"parked\":3"), "{json}");
        assert!(json.contains("\"paused\":[2,3]"), "{json}");
        assert!(json.contains("\"topic\":\"a-b\""), "{json}");
        assert!(json.contains("\"isr\":[1,2]"), "{json}");
        assert_eq!(json.matches('{').count(), json.matches('}').count());
    }
}
