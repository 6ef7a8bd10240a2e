//! All that the page shows, at one moment.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use ixion::wheel::Occupancy;
use ixion::{DelayedOperation, Purgatory};
use serde::Serialize;

use super::times::Times;
use crate::Stats;
use crate::cluster::Cluster;
use crate::group::RebalanceKey;
use crate::partition::{Partition, PartitionId};
use crate::waits::FetchKey;

/// How many of the hottest keys of each purgatory are shown.
const HOTTEST: usize = 10;

/// The broker at one moment.
#[derive(Debug, Serialize)]
pub(super) struct Picture {
    /// How long the broker has run.
    pub(super) uptime_ms: u64,
    /// What the control port's `stats` says.
    pub(super) stats: Stats,
    /// What is inside each purgatory, by its name in the stats.
    pub(super) engines: BTreeMap<&'static str, Engine>,
    /// All of them together, but for the keys.
    all: Engine,
}

/// What is inside a purgatory.
#[derive(Debug, Default, Serialize)]
pub(super) struct Engine {
    /// How many timers each bucket of the wheel has, level by level, up to the last level that has any.
    pub(super) levels: Vec<Vec<usize>>,
    /// How many timers are in no bucket: they were overdue when they were started, or never expire.
    pub(super) outside: usize,
    pub(super) lateness: Times,
    /// How long operations waited, if that is measured.
    pub(super) waiting: Times,
    pub(super) hottest: Vec<HotKey>,
}

/// A key on which many wait.
#[derive(Debug, Serialize)]
pub(super) struct HotKey {
    key: String,
    waiting: usize,
}

impl Picture {
    pub(super) fn of(cluster: &Cluster) -> Self {
        let names = Names::of(cluster);
        let (rebalance, heartbeat) = (&cluster.groups.rebalance, &cluster.groups.heartbeat);
        let engines = BTreeMap::from([
            ("produce", Engine::of(&cluster.produce, |id| names.partition(*id))),
            ("fetch", Engine::of(&cluster.fetch, |key| names.fetch(*key))),
            ("delete_records", Engine::of(&cluster.delete_records, |id| names.partition(*id))),
            ("topic", Engine::of(&cluster.topics, |topic| topic.to_string())),
            ("rebalance", Engine::of(rebalance, |key| names.rebalance(*key))),
            ("heartbeat", Engine::of(heartbeat, |(group, id)| format!("{}, {id}", names.group(*group)))),
            ("idle", Engine::of(&cluster.idle, |()| String::new())),
            ("chores", Engine::of(&cluster.chores, |()| String::new())),
        ]);
        let uptime_ms = u64::try_from(cluster.now().as_millis()).unwrap_or(u64::MAX);
        let mut all = Engine::default();
        engines.values().for_each(|engine| all.add(engine));
        Picture { uptime_ms, stats: cluster.stats(), engines, all }
    }

    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers and names have a form in JSON")
    }
}

impl Engine {
    fn of<K, O>(purgatory: &Purgatory<K, O>, name: impl Fn(&K) -> String) -> Self
    where
        K: Hash + Eq + Clone + 'static,
        O: DelayedOperation + 'static,
    {
        let occupancy = purgatory.occupancy();
        let hottest = purgatory.hottest_keys(HOTTEST).into_iter();
        Engine {
            levels: levels_of(&occupancy),
            outside: occupancy.overdue() + occupancy.never(),
            lateness: Times(purgatory.lateness()),
            waiting: Times(purgatory.waits().unwrap_or_default()),
            hottest: hottest.map(|(key, waiting)| HotKey { key: name(&key), waiting }).collect(),
        }
    }

    fn add(&mut self, other: &Engine) {
        let depth = self.levels.len().max(other.levels.len());
        self.levels.resize_with(depth, || vec![0; Occupancy::SLOTS]);
        for (slots, more) in self.levels.iter_mut().zip(&other.levels) {
            slots.iter_mut().zip(more).for_each(|(count, more)| *count += more);
        }
        self.outside += other.outside;
        self.lateness.0.merge(&other.lateness.0);
        self.waiting.0.merge(&other.waiting.0);
    }
}

fn levels_of(occupancy: &Occupancy) -> Vec<Vec<usize>> {
    let mut levels: Vec<Vec<usize>> = occupancy.levels().map(<[usize]>::to_vec).collect();
    let used = levels.iter().rposition(|slots| slots.iter().any(|count| *count > 0));
    levels.truncate(used.map_or(0, |last| last + 1));
    levels
}

/// What the numbers in keys stand for.
struct Names {
    partitions: HashMap<PartitionId, String>,
    groups: HashMap<u64, Arc<str>>,
}

impl Names {
    fn of(cluster: &Cluster) -> Self {
        let topics = cluster.catalog.topics();
        let partitions = topics.iter().flat_map(|topic| &topic.partitions);
        let name = |partition: &Arc<Partition>| format!("{}-{}", partition.topic(), partition.index());
        Names {
            partitions: partitions.map(|partition| (partition.id(), name(partition))).collect(),
            groups: cluster.groups.names(),
        }
    }

    /// What has gone meanwhile has its number only.
    fn partition(&self, id: PartitionId) -> String {
        self.partitions.get(&id).cloned().unwrap_or_else(|| format!("partition {}", id.0))
    }

    fn group(&self, number: u64) -> String {
        self.groups.get(&number).map_or_else(|| format!("group {number}"), ToString::to_string)
    }

    fn fetch(&self, key: FetchKey) -> String {
        match key {
            FetchKey::HighWatermark(id) => format!("{}, high watermark", self.partition(id)),
            FetchKey::LogEnd(id) => format!("{}, log end", self.partition(id)),
            FetchKey::Assignment(node) => format!("partitions of node {node}"),
        }
    }

    fn rebalance(&self, key: RebalanceKey) -> String {
        match key {
            RebalanceKey::Joins(group) => format!("{}, joins", self.group(group)),
            RebalanceKey::Syncs(group) => format!("{}, syncs", self.group(group)),
        }
    }
}
