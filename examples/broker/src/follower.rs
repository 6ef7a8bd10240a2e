//! A follower: its own logs, filled by fetching from the leader over the network, as any client would.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ixion::kafka::ErrorCode;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::{ApiKey, BrokerId, FetchRequest, FetchResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::cluster::Cluster;
use crate::codec;
use crate::log::Log;
use crate::net::{becomes, read_frame};
use crate::partition::{LEADER, LEADER_EPOCH, Partition, PartitionId};

/// The version that followers fetch with: the last that names topics.
const FETCH_VERSION: i16 = 12;
/// How long a follower waits before it tries again after an error.
const BACKOFF: Duration = Duration::from_millis(50);
/// The most bytes that a follower fetches of one partition and at once.
const PARTITION_MAX_BYTES: i32 = 1 << 20;
const FETCH_MAX_BYTES: i32 = 10 << 20;
/// The largest reply that a follower reads: a fetch's bytes, or one batch, and what is around them.
const MAX_REPLY_BYTES: usize = 128 << 20;

/// A node that copies what the leader has.
pub(crate) struct Follower {
    node: i32,
    cluster: Arc<Cluster>,
    /// What it has, by topic and index, for a request to list.
    replicas: BTreeMap<(Arc<str>, i32), Replica>,
    correlation_id: i32,
}

struct Replica {
    id: PartitionId,
    log: Log,
}

impl Follower {
    pub(crate) fn new(node: i32, cluster: Arc<Cluster>) -> Self {
        Follower { node, cluster, replicas: BTreeMap::new(), correlation_id: 0 }
    }

    /// Fetches until `closing` is set. While the follower is paused it has no connection.
    pub(crate) async fn run(mut self, mut closing: watch::Receiver<bool>) {
        let Some(gate) = self.cluster.gate(self.node) else { return };
        let mut paused = gate.subscribe();
        loop {
            tokio::select! {
                _ = becomes(&mut closing, true) => return,
                refused = self.fetch_all_the_time() => {
                    let Err(_) = refused;
                    // Refused by the leader or cut off. Nothing to tell: it tries again.
                }
                // To drop the connection is to drop what is on its way: nothing more is acknowledged.
                _ = becomes(&mut paused, true) => {
                    tokio::select! {
                        _ = becomes(&mut paused, false) => continue,
                        _ = becomes(&mut closing, true) => return,
                    }
                }
            }
            tokio::time::sleep(BACKOFF).await;
        }
    }

    async fn fetch_all_the_time(&mut self) -> io::Result<std::convert::Infallible> {
        let mut stream = TcpStream::connect(self.cluster.nodes[LEADER as usize - 1]).await?;
        stream.set_nodelay(true)?;
        let mut changes = self.cluster.catalog.changes();
        changes.mark_changed();
        loop {
            if changes.has_changed().map_err(io::Error::other)? {
                // Marked as seen before the partitions are listed, so that no change falls in between.
                changes.mark_unchanged();
                self.list_replicas();
            }
            if self.replicas.is_empty() {
                changes.changed().await.map_err(io::Error::other)?;
                changes.mark_changed();
                continue;
            }
            let response = self.exchange(&mut stream).await?;
            if !self.take(response) {
                tokio::time::sleep(BACKOFF).await;
            }
        }
    }

    /// Makes a log for each partition that is new and drops those that are gone.
    fn list_replicas(&mut self) {
        let topics = self.cluster.catalog.topics();
        let partitions = topics.iter().flat_map(|topic| &topic.partitions);
        let assigned: Vec<&Arc<Partition>> =
            partitions.filter(|partition| partition.replicas().contains(&self.node)).collect();
        let mut listed = BTreeMap::new();
        for partition in assigned {
            let key = (partition.topic().clone(), partition.index());
            let known = self.replicas.remove(&key).filter(|replica| replica.id == partition.id());
            let fresh = || Replica { id: partition.id(), log: Log::default() };
            listed.insert(key, known.unwrap_or_else(fresh));
        }
        self.replicas = listed;
    }

    async fn exchange(&mut self, stream: &mut TcpStream) -> io::Result<FetchResponse> {
        self.correlation_id = self.correlation_id.wrapping_add(1);
        let client = StrBytes::from_string(format!("follower-{}", self.node));
        let request =
            codec::encode_request(ApiKey::Fetch, FETCH_VERSION, self.correlation_id, client, &self.request());
        stream.write_all(&request.map_err(|error| io::Error::other(error.to_string()))?).await?;
        let Some(frame) = read_frame(stream, MAX_REPLY_BYTES).await? else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        codec::decode_reply(frame, FETCH_VERSION, self.correlation_id)
            .map_err(|error| io::Error::other(error.to_string()))
    }

    /// Asks for every partition from the end of its log on. That is the acknowledgement, too.
    fn request(&self) -> FetchRequest {
        let mut topics: Vec<FetchTopic> = Vec::new();
        for ((name, index), replica) in &self.replicas {
            let fetch = FetchPartition::default()
                .with_partition(*index)
                .with_current_leader_epoch(LEADER_EPOCH)
                .with_fetch_offset(replica.log.end())
                .with_last_fetched_epoch(-1)
                .with_log_start_offset(replica.log.start())
                .with_partition_max_bytes(PARTITION_MAX_BYTES);
            match topics.last_mut().filter(|topic| topic.topic.as_str() == &**name) {
                Some(topic) => topic.partitions.push(fetch),
                None => {
                    let name = TopicName(StrBytes::from_string(name.to_string()));
                    topics.push(FetchTopic::default().with_topic(name).with_partitions(vec![fetch]));
                }
            }
        }
        // Its fetches show that it is there: it must not sit one out for so long that it seems to lag.
        let config = &self.cluster.config;
        let wait = config.replica_fetch_wait.min(config.replica_lag_time_max / 3).as_millis();
        FetchRequest::default()
            .with_replica_id(BrokerId(self.node))
            .with_max_wait_ms(i32::try_from(wait).unwrap_or(i32::MAX))
            .with_min_bytes(1)
            .with_max_bytes(FETCH_MAX_BYTES)
            .with_topics(topics)
    }

    /// Appends what has come. Says whether all went well; otherwise asking again at once would be a busy loop.
    fn take(&mut self, response: FetchResponse) -> bool {
        let mut all_well = response.error_code == 0;
        for topic in &response.responses {
            for data in &topic.partitions {
                let key = (Arc::from(topic.topic.as_str()), data.partition_index);
                let Some(replica) = self.replicas.get_mut(&key) else { continue };
                all_well &= replica.take(data);
            }
        }
        all_well
    }
}

impl Replica {
    fn take(&mut self, data: &PartitionData) -> bool {
        match ErrorCode::new(data.error_code) {
            ErrorCode::NONE => {
                let appended = self.log.append_copy(data.records.as_deref().unwrap_or_default());
                self.log.drop_below(data.log_start_offset);
                appended.is_ok()
            }
            // The leader has dropped what this log lacks: it can only begin anew where the leader's log begins.
            ErrorCode::OFFSET_OUT_OF_RANGE if data.log_start_offset > self.log.end() => {
                self.log = Log::starting_at(data.log_start_offset);
                true
            }
            // The topic was deleted: the next list of partitions is without it.
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => true,
            _ => false,
        }
    }
}
