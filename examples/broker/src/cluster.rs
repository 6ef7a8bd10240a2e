//! What all nodes of the process share: the topics, the purgatories, the clock, the counters.

use std::collections::BTreeSet;
use std::hash::Hash;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use ixion::kafka::ErrorCode;
use ixion::{Clock, DelayedOperation, Expirer, Outcome, Purgatory, SystemClock, Waiting};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::buffers::Buffers;
use crate::catalog::Catalog;
use crate::group::Coordinator;
use crate::moved::Moved;
use crate::partition::{LEADER, Partition, PartitionId};
use crate::waits::{DeleteRecordsWait, FetchKey, FetchWait, Leftovers, ProduceWait, TopicsWait};
use crate::{Config, PartitionStats, PurgatoryStats, Stats};

/// The shared state.
pub(crate) struct Cluster {
    pub(crate) config: Config,
    pub(crate) catalog: Arc<Catalog>,
    /// Where each node listens; node n at n - 1.
    pub(crate) nodes: Vec<SocketAddr>,
    /// Produce requests that wait, by partition.
    pub(crate) produce: Purgatory<PartitionId, ProduceWait>,
    /// Fetch requests that wait.
    pub(crate) fetch: Purgatory<FetchKey, FetchWait>,
    /// Requests to delete records that wait, by partition.
    pub(crate) delete_records: Purgatory<PartitionId, DeleteRecordsWait>,
    /// Requests to create or delete topics that wait, by topic.
    pub(crate) topics: Purgatory<Arc<str>, TopicsWait>,
    /// What is left of deleted topics, while a request waits for its end.
    leftovers: Mutex<Vec<Arc<Leftovers>>>,
    pub(crate) groups: Arc<Coordinator>,
    /// The timers of connections.
    pub(crate) idle: Purgatory<(), Waiting>,
    /// The memory for requests and replies.
    pub(crate) buffers: Buffers,
    pub(crate) counters: Counters,
    /// Timers that are no requests: the check for followers that lag.
    pub(crate) chores: Purgatory<(), LagCheck>,
    /// Whether a follower is paused; follower n at n - 2. See [`Cluster::gate`].
    gates: Vec<watch::Sender<bool>>,
    next_producer_id: AtomicI64,
    clock: Arc<SystemClock>,
    expirer: Expirer,
}

/// What is counted outside the purgatories.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) connections: AtomicU64,
    pub(crate) requests: AtomicU64,
}

impl Cluster {
    /// Builds the shared state and starts the expirer.
    ///
    /// # Errors
    ///
    /// Fails if the expirer's thread cannot be started.
    pub(crate) fn start(config: Config, nodes: Vec<SocketAddr>) -> io::Result<Arc<Cluster>> {
        let clock = Arc::new(SystemClock::new());
        let expirer = Expirer::spawn("expirer")?;
        let produce = driven("Produce", &config, &clock, &expirer);
        let fetch = driven("Fetch", &config, &clock, &expirer);
        let delete_records = driven("DeleteRecords", &config, &clock, &expirer);
        let topics = driven("Topic", &config, &clock, &expirer);
        let idle = driven("Idle", &config, &clock, &expirer);
        let chores = driven("Chores", &config, &clock, &expirer);
        let gates = (2..=config.replicas).map(|_| watch::Sender::new(false)).collect();
        let groups = Arc::new(Coordinator::new(&config, clock.clone()));
        expirer.drive(&groups.rebalance);
        expirer.drive(&groups.heartbeat);
        let cluster = Arc::new(Cluster {
            catalog: Arc::new(Catalog::new(config.clone())),
            buffers: Buffers::new(config.buffer_total_bytes),
            config,
            nodes,
            produce,
            fetch,
            delete_records,
            topics,
            leftovers: Mutex::default(),
            groups,
            idle,
            counters: Counters::default(),
            chores,
            gates,
            next_producer_id: AtomicI64::new(0),
            clock,
            expirer,
        });
        LagCheck::arm(&cluster);
        Ok(cluster)
    }

    /// The time that all of the broker goes by.
    pub(crate) fn now(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Signals what a change has moved. Call it with no lock held: the looks take the partitions' locks.
    pub(crate) fn signal(&self, partition: &Partition, moved: Moved) {
        let id = partition.id();
        if let Some(log_end) = moved.log_end {
            self.fetch.check_and_complete_up_to(&FetchKey::LogEnd(id), log_end.bytes);
        }
        if let Some(high_watermark) = moved.high_watermark {
            self.produce.check_and_complete_up_to(&id, high_watermark.offset);
            self.fetch.check_and_complete_up_to(&FetchKey::HighWatermark(id), high_watermark.bytes);
        }
        if let Some(low_watermark) = moved.low_watermark {
            self.delete_records.check_and_complete_up_to(&id, low_watermark);
        }
        if moved.served {
            self.topics.check_and_complete(partition.topic());
        }
    }

    /// Deletes a topic and answers everybody who waits on its partitions. Returns what is left of it at followers; when
    /// nobody waits for that any more it is to be [forgotten](Self::forget_leftovers).
    pub(crate) fn delete(&self, name: &str) -> Result<Arc<Leftovers>, ErrorCode> {
        let mut moved = Vec::new();
        let mut nodes = BTreeSet::new();
        // A follower may drop it as soon as it is not listed any more. So before that its partitions are closed, since
        // a fetch that is under way may still have them, and what is left is watched.
        let mut leftovers = None;
        self.catalog.delete(name, |topic| {
            for partition in &topic.partitions {
                moved.push((partition.clone(), partition.close()));
                nodes.extend(partition.replicas().into_iter().filter(|node| *node != LEADER));
            }
            let left = Arc::new(Leftovers { topic: topic.name.clone(), nodes: Mutex::new(nodes) });
            self.leftovers.lock().push(left.clone());
            leftovers = Some(left);
        })?;
        for (partition, moved) in moved {
            self.signal(&partition, moved);
        }
        self.groups.forget(name);
        Ok(leftovers.expect("it was deleted"))
    }

    /// Nobody waits for these any more.
    pub(crate) fn forget_leftovers(&self, forgotten: &Arc<Leftovers>) {
        self.leftovers.lock().retain(|leftovers| !Arc::ptr_eq(leftovers, forgotten));
    }

    /// A follower has said what it has: of other topics it has dropped what was left.
    pub(crate) fn drop_leftovers(&self, node: i32, has: impl Fn(&str) -> bool) {
        let is_dropped =
            |leftovers: &&Arc<Leftovers>| !has(&leftovers.topic) && leftovers.nodes.lock().remove(&node);
        let dropped: Vec<Arc<Leftovers>> = self.leftovers.lock().iter().filter(is_dropped).cloned().collect();
        for leftovers in dropped {
            self.topics.check_and_complete(&leftovers.topic);
        }
    }

    /// Tells the followers' waiting fetches that there are partitions which they do not cover.
    pub(crate) fn signal_assignments(&self) {
        for node in 2..=i32::from(self.config.replicas) {
            self.fetch.check_and_complete(&FetchKey::Assignment(node));
        }
    }

    /// The gate of a follower: true while it is paused.
    ///
    /// Who counts an acknowledgement holds the borrow of it meanwhile, so that pausing waits for what is under way
    /// and nothing counts afterwards.
    pub(crate) fn gate(&self, node: i32) -> Option<&watch::Sender<bool>> {
        self.gates.get(usize::try_from(node).ok()?.checked_sub(2)?)
    }

    /// Pauses a follower or lets it go on; `None` is all of them. Says whether there is such a follower.
    pub(crate) fn set_paused(&self, node: Option<u16>, paused: bool) -> bool {
        let gates = match node {
            None => &self.gates[..],
            Some(node) => match self.gate(i32::from(node)) {
                Some(gate) => std::slice::from_ref(gate),
                None => return false,
            },
        };
        for gate in gates {
            gate.send_replace(paused);
        }
        true
    }

    /// Whether a node has this number, in digits.
    pub(crate) fn has_node(&self, number: &str) -> bool {
        number.parse().is_ok_and(|number: usize| (1..=self.nodes.len()).contains(&number))
    }

    /// A producer id that was not given out before.
    pub(crate) fn new_producer_id(&self) -> i64 {
        self.next_producer_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Answers everything that waits; nothing waits from here on.
    pub(crate) fn shut_down(&self) {
        self.chores.shutdown();
        self.produce.shutdown();
        self.fetch.shutdown();
        self.delete_records.shutdown();
        self.topics.shutdown();
        self.groups.shut_down();
        self.idle.shutdown();
    }

    /// Takes a snapshot of the counters.
    pub(crate) fn stats(&self) -> Stats {
        let (produce, fetch) = (self.produce.stats(), self.fetch.stats());
        let (delete_records, topic) = (self.delete_records.stats(), self.topics.stats());
        let (rebalance, heartbeat) = (self.groups.rebalance.stats(), self.groups.heartbeat.stats());
        let (idle, chores) = (self.idle.stats(), self.chores.stats());
        let (groups, members) = self.groups.sizes();
        let topics = self.catalog.topics();
        let partitions: Vec<PartitionStats> = topics
            .iter()
            .flat_map(|topic| topic.partitions.iter().map(|partition| stats_of(partition)))
            .collect();
        let paused =
            (2..).zip(&self.gates).filter(|(_, gate)| *gate.borrow()).map(|(node, _)| node).collect();
        let smallest = partitions.iter().map(|partition| partition.isr.len()).min();
        let parked = produce.pending + fetch.pending + delete_records.pending + topic.pending;
        Stats {
            parked: parked as u64,
            timers: (parked + rebalance.pending + heartbeat.pending + chores.pending + idle.pending) as u64,
            delete_records: books_of(&delete_records),
            topic: books_of(&topic),
            rebalance: books_of(&rebalance),
            heartbeat: books_of(&heartbeat),
            idle: books_of(&idle),
            chores: books_of(&chores),
            groups: groups as u64,
            members: members as u64,
            produce: books_of(&produce),
            fetch: books_of(&fetch),
            connections: self.counters.connections.load(Ordering::Relaxed),
            wake_ups: self.expirer.wake_ups(),
            requests: self.counters.requests.load(Ordering::Relaxed),
            isr: smallest.unwrap_or(usize::from(self.config.replicas)) as u64,
            nodes: self.nodes.clone(),
            paused,
            partitions,
        }
    }
}

/// A purgatory on the broker's clock, driven by its expirer.
fn driven<K, O>(name: &str, config: &Config, clock: &Arc<SystemClock>, expirer: &Expirer) -> Purgatory<K, O>
where
    K: Hash + Eq + Send + 'static,
    O: DelayedOperation + Send + 'static,
{
    let purgatory = config.purgatory(name, clock.clone());
    expirer.drive(&purgatory);
    purgatory
}

fn stats_of(partition: &Partition) -> PartitionStats {
    let ends = partition.ends();
    PartitionStats {
        topic: partition.topic().to_string(),
        partition: partition.index(),
        log_end: ends.log_end,
        high_watermark: ends.high_watermark,
        log_start: ends.log_start,
        isr: partition.isr(),
        followers: partition.followers(),
    }
}

fn books_of(stats: &ixion::Stats) -> PurgatoryStats {
    PurgatoryStats {
        registered: stats.registered,
        satisfied: stats.satisfied,
        expired: stats.expired,
        forced: stats.forced,
        cancelled: stats.cancelled,
        shut_down: stats.shut_down,
        panicked: stats.panicked,
        pending: stats.pending as u64,
        watched: stats.watched as u64,
        keys: stats.keys as u64,
        at_once: stats.at_once,
        rejected: stats.rejected_full + stats.rejected_shutdown,
        clamped: stats.clamped,
        panics: stats.panics,
        passes: stats.work.passes,
        rings: stats.work.rings,
        cascaded: stats.work.cascaded,
        longest_pass_us: u64::try_from(stats.work.longest_pass.as_micros()).unwrap_or(u64::MAX),
    }
}

/// A timer that takes followers which lag out of the in-sync sets and arms itself again.
///
/// It looks at half the allowed lag, so that none stays in for longer than one and a half times that. It keeps the
/// cluster alive until the shutdown, which ends it like any other operation.
pub(crate) struct LagCheck(Arc<Cluster>);

impl LagCheck {
    fn arm(cluster: &Arc<Cluster>) {
        let every = (cluster.config.replica_lag_time_max / 2).max(Duration::from_millis(1));
        // Refused only by a shutdown, and then there is nothing to check any more.
        let _ = cluster.chores.try_complete_else_watch(LagCheck(Arc::clone(cluster)), every, []);
    }
}

impl DelayedOperation for LagCheck {
    fn try_complete(&mut self) -> bool {
        false
    }

    fn on_complete(self, outcome: Outcome) {
        let LagCheck(cluster) = self;
        if outcome != Outcome::Expired {
            return;
        }
        let now = cluster.now();
        for topic in cluster.catalog.topics() {
            for partition in &topic.partitions {
                let moved = partition.drop_laggards(cluster.config.replica_lag_time_max, now);
                cluster.signal(partition, moved);
            }
        }
        LagCheck::arm(&cluster);
    }
}
