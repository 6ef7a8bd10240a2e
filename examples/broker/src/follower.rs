//! A follower: its own logs, filled by fetching from the leader over the network, as any client would.
//!
//! It knows nothing but the leader's address. It asks for the metadata to learn which partitions are its own, and does so
//! again whenever a fetch brings nothing: the leader ends a fetch of a follower that does not cover all that it should.
//! Whatever goes wrong is tried again and again; what it is stands in its [`Trouble`].

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use ixion::kafka::ErrorCode;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::{
    ApiKey, BrokerId, FetchRequest, FetchResponse, MetadataRequest, MetadataResponse, TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, StrBytes};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::codec;
use crate::log::Log;
use crate::net::{MAX_REPLY_BYTES, becomes, read_frame};
use crate::partition::LEADER_EPOCH;

/// The version that followers fetch with: the last that names topics.
const FETCH_VERSION: i16 = 12;
const METADATA_VERSION: i16 = 9;
/// How long a follower waits before it tries again after an error.
const BACKOFF: Duration = Duration::from_millis(50);
/// How long the leader may take to answer, besides what a fetch waits there. It may be frozen.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });
/// How old the list of partitions may become while every fetch brings records.
const REFRESH: Duration = Duration::from_millis(500);
/// The most bytes that a follower fetches of one partition and at once.
const PARTITION_MAX_BYTES: i32 = 1 << 20;
const FETCH_MAX_BYTES: i32 = 10 << 20;

/// What is wrong with a follower, in words; nothing, if it copies what the leader has. Told when it changes.
pub(crate) type Trouble = watch::Sender<Option<String>>;

/// A node that copies what the leader has.
pub(crate) struct Follower {
    node: i32,
    leader: SocketAddr,
    /// Where its own clients connect: the leader should know.
    listens: SocketAddr,
    /// What is wrong though it copies: clients are sent elsewhere.
    misplaced: Option<String>,
    trouble: Trouble,
    /// How long a fetch may wait at the leader.
    fetch_wait: Duration,
    /// What it has, by topic and index, for a request to list.
    replicas: BTreeMap<(StrBytes, i32), Log>,
    /// When the partitions were last asked for; never: they are to be.
    listed: Option<Instant>,
    correlation_id: i32,
}

/// What a fetch has brought.
struct Taken {
    /// If there is anything: asking again at once would be a busy loop.
    wrong: Option<String>,
    has_records: bool,
}

impl Follower {
    pub(crate) fn new(
        node: i32,
        leader: SocketAddr,
        listens: SocketAddr,
        fetch_wait: Duration,
        trouble: Trouble,
    ) -> Self {
        Follower {
            node,
            leader,
            listens,
            misplaced: None,
            trouble,
            fetch_wait,
            replicas: BTreeMap::new(),
            listed: None,
            correlation_id: 0,
        }
    }

    /// Fetches until `closing` is set. While the follower is paused it has no connection.
    pub(crate) async fn run(mut self, mut paused: watch::Receiver<bool>, mut closing: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                _ = becomes(&mut closing, true) => return,
                cut_off = self.fetch_all_the_time() => {
                    let Err(wrong) = cut_off;
                    self.tell(Some(wrong));
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

    async fn fetch_all_the_time(&mut self) -> Result<Infallible, String> {
        let leader = self.leader;
        let cannot = |error| format!("cannot reach the leader at {leader}: {error}");
        let connected = tokio::time::timeout(PATIENCE, TcpStream::connect(leader)).await;
        let mut stream = connected.map_err(|_| self.no_answer())?.map_err(cannot)?;
        stream.set_nodelay(true).map_err(cannot)?;
        self.listed = None;
        loop {
            if self.listed.is_none_or(|listed| listed.elapsed() > REFRESH) {
                let all = MetadataRequest::default().with_topics(None).with_allow_auto_topic_creation(false);
                let metadata = self.exchange(&mut stream, ApiKey::Metadata, METADATA_VERSION, &all).await?;
                self.find_itself(&metadata)?;
                self.list_replicas(&metadata);
                self.listed = Some(Instant::now());
            }
            let request = self.request();
            let response = self.exchange(&mut stream, ApiKey::Fetch, FETCH_VERSION, &request).await?;
            let taken = self.take(response);
            if !taken.has_records {
                self.listed = None;
            }
            let is_well = taken.wrong.is_none();
            self.tell(taken.wrong.or_else(|| self.misplaced.clone()));
            if !is_well {
                tokio::time::sleep(BACKOFF).await;
            }
        }
    }

    /// Says what is wrong, or that nothing is; but only once.
    fn tell(&self, trouble: Option<String>) {
        self.trouble.send_if_modified(|told| std::mem::replace(told, trouble) != *told);
    }

    fn no_answer(&self) -> String {
        format!("the leader at {} does not answer", self.leader)
    }

    /// Looks whether the leader knows this node, and where.
    fn find_itself(&mut self, metadata: &MetadataResponse) -> Result<(), String> {
        let (leader, node, listens) = (self.leader, self.node, self.listens);
        let Some(known) = metadata.brokers.iter().find(|broker| broker.node_id.0 == node) else {
            let nodes: Vec<String> =
                metadata.brokers.iter().map(|broker| broker.node_id.0.to_string()).collect();
            let nodes = nodes.join(", ");
            return Err(format!("the leader at {leader} has no node {node}; its nodes are {nodes}"));
        };
        // Of the host each may have its own view.
        let is_here = known.port == i32::from(listens.port());
        self.misplaced = (!is_here).then(|| {
            let (host, port) = (&known.host, known.port);
            format!("the leader at {leader} has been told that node {node} is at {host}:{port}, and this is {listens}")
        });
        Ok(())
    }

    /// Makes a log for each partition that is new and drops those that are gone.
    fn list_replicas(&mut self, metadata: &MetadataResponse) {
        let mut listed = BTreeMap::new();
        for topic in &metadata.topics {
            let Some(name) = &topic.name else { continue };
            let is_own = |nodes: &[BrokerId]| nodes.contains(&BrokerId(self.node));
            for partition in topic.partitions.iter().filter(|partition| is_own(&partition.replica_nodes)) {
                // A copy, so that it does not keep the reply.
                let key = (StrBytes::from_string(name.to_string()), partition.partition_index);
                let log = self.replicas.remove(&key).unwrap_or_default();
                listed.insert(key, log);
            }
        }
        self.replicas = listed;
    }

    async fn exchange<Q, A>(
        &mut self,
        stream: &mut TcpStream,
        key: ApiKey,
        version: i16,
        request: &Q,
    ) -> Result<A, String>
    where
        Q: Encodable + HeaderVersion,
        A: Decodable + HeaderVersion,
    {
        self.correlation_id = self.correlation_id.wrapping_add(1);
        let client = StrBytes::from_string(format!("follower-{}", self.node));
        let request = codec::encode_request(key, version, self.correlation_id, client, request)
            .map_err(|error| format!("a request cannot be sent: {error}"))?;
        let exchange = async {
            stream.write_all(&request).await?;
            read_frame(stream, MAX_REPLY_BYTES).await
        };
        let answered = tokio::time::timeout(self.fetch_wait.saturating_add(PATIENCE), exchange).await;
        let leader = self.leader;
        let frame = match answered.map_err(|_| self.no_answer())? {
            Ok(Some(frame)) => frame,
            Ok(None) => return Err(format!("the leader at {leader} has hung up")),
            Err(error) => return Err(format!("the connection to the leader at {leader} is broken: {error}")),
        };
        codec::decode_checked_reply(key, frame, version, self.correlation_id)
            .map_err(|error| format!("what the leader at {leader} answers cannot be read: {error}"))
    }

    /// Asks for every partition from the end of its log on. That is the acknowledgement, too; what it does not name it
    /// does not have.
    fn request(&self) -> FetchRequest {
        let mut topics: Vec<FetchTopic> = Vec::new();
        for ((name, index), log) in &self.replicas {
            let fetch = FetchPartition::default()
                .with_partition(*index)
                .with_current_leader_epoch(LEADER_EPOCH)
                .with_fetch_offset(log.end())
                .with_last_fetched_epoch(-1)
                .with_log_start_offset(log.start())
                .with_partition_max_bytes(PARTITION_MAX_BYTES);
            match topics.last_mut().filter(|topic| topic.topic.0 == *name) {
                Some(topic) => topic.partitions.push(fetch),
                None => {
                    let topic = FetchTopic::default().with_topic(TopicName(name.clone()));
                    topics.push(topic.with_partitions(vec![fetch]));
                }
            }
        }
        FetchRequest::default()
            .with_replica_id(BrokerId(self.node))
            .with_max_wait_ms(i32::try_from(self.fetch_wait.as_millis()).unwrap_or(i32::MAX))
            .with_min_bytes(1)
            .with_max_bytes(FETCH_MAX_BYTES)
            .with_topics(topics)
    }

    /// Appends what has come.
    fn take(&mut self, response: FetchResponse) -> Taken {
        let leader = self.leader;
        let error = Some(response.error_code).filter(|error| *error != 0);
        let refused = |error| format!("the leader at {leader} refuses fetches with error {error}");
        let mut taken = Taken { wrong: error.map(refused), has_records: false };
        for topic in &response.responses {
            for data in &topic.partitions {
                let key = (topic.topic.0.clone(), data.partition_index);
                let Some(log) = self.replicas.get_mut(&key) else { continue };
                if let Err(wrong) = take(log, data) {
                    taken.wrong = Some(format!("{}-{} of the leader at {leader}: {wrong}", key.0, key.1));
                }
                taken.has_records |= data.records.as_ref().is_some_and(|records| !records.is_empty());
            }
        }
        taken
    }
}

/// Appends what has come for one partition; or says why not.
fn take(log: &mut Log, data: &PartitionData) -> Result<(), String> {
    match ErrorCode::new(data.error_code) {
        ErrorCode::NONE => {
            let appended = log.append_copy(data.records.as_deref().unwrap_or_default());
            log.drop_below(data.log_start_offset);
            appended.map_err(|error| format!("what came cannot be appended: error {}", error.as_i16()))
        }
        // The leader has dropped what this log lacks, or it is the log of an earlier topic of the same name. It can only
        // begin anew where the leader's log begins.
        ErrorCode::OFFSET_OUT_OF_RANGE => {
            *log = Log::starting_at(data.log_start_offset);
            Ok(())
        }
        // The topic was deleted: the next list of partitions is without it.
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => Ok(()),
        error => Err(format!("refused with error {}", error.as_i16())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_follower_does_not_wait_for_ever_on_a_leader_that_is_frozen() {
        // The system accepts connections for it, but nobody reads what comes.
        let frozen = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let leader = frozen.local_addr().expect("it is bound");
        let (trouble, mut told) = watch::channel(None);
        let (_gate, paused) = watch::channel(false);
        let (closing, closed) = watch::channel(false);
        let run = tokio::spawn(Follower::new(2, leader, leader, Duration::ZERO, trouble).run(paused, closed));
        let begun = Instant::now();
        let told = tokio::time::timeout(PATIENCE * 20, told.wait_for(Option::is_some)).await;
        let said = told.expect("it says something").expect("it is there").clone();
        assert_eq!(said, Some(format!("the leader at {leader} does not answer")));
        assert!(begun.elapsed() >= PATIENCE);
        closing.send_replace(true);
        run.await.expect("it ends");
    }
}
