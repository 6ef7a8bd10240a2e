//! A client of few words: it encodes a request, sends it and decodes the reply.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use ixion_broker::{Broker, Config};
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, StrBytes};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longer than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// A wait that no test sits out: whoever is answered in less was woken.
pub(crate) const LONG_WAIT_MS: i32 = 60_000;

/// A broker on free ports.
pub(crate) async fn start(config: Config) -> Broker {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    Broker::start(Config { listen, control: Some(listen), ..config }).await.expect("ports are free")
}

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    correlation_id: i32,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).await.expect("the broker listens");
        stream.set_nodelay(true).expect("a socket can do that");
        Client { stream, correlation_id: 0 }
    }

    pub(crate) async fn of(broker: &Broker) -> Client {
        Client::connect(broker.addr()).await
    }

    pub(crate) async fn send<Q: Encodable + HeaderVersion>(
        &mut self,
        key: ApiKey,
        version: i16,
        request: &Q,
    ) {
        self.correlation_id += 1;
        let frame = frame(key, version, self.correlation_id, request);
        self.stream.write_all(&frame).await.expect("the connection is open");
    }

    pub(crate) async fn receive<A: Decodable + HeaderVersion>(&mut self, version: i16) -> A {
        let mut frame = self.receive_frame().await.expect("the connection is open");
        let header = ResponseHeader::decode(&mut frame, A::header_version(version)).expect("a header");
        assert_eq!(header.correlation_id, self.correlation_id);
        A::decode(&mut frame, version).expect("a reply")
    }

    pub(crate) async fn ask<Q, A>(&mut self, key: ApiKey, version: i16, request: &Q) -> A
    where
        Q: Encodable + HeaderVersion,
        A: Decodable + HeaderVersion,
    {
        self.send(key, version, request).await;
        self.receive(version).await
    }

    /// The next frame without its length, or nothing if the broker has closed the connection.
    pub(crate) async fn receive_frame(&mut self) -> Option<Bytes> {
        let read = async {
            let length = self.stream.read_i32().await.ok()?;
            let mut frame = vec![0; usize::try_from(length).expect("a length")];
            self.stream.read_exact(&mut frame).await.ok()?;
            Some(Bytes::from(frame))
        };
        tokio::time::timeout(PATIENCE, read).await.expect("an answer in time")
    }

    /// Whether nothing comes for a while.
    pub(crate) async fn is_silent_for(&mut self, time: Duration) -> bool {
        tokio::time::timeout(time, self.stream.peek(&mut [0])).await.is_err()
    }

    pub(crate) async fn create(&mut self, name: &'static str, settings: &[(&'static str, &'static str)]) {
        assert_eq!(self.create_with(name, settings).await, 0);
    }

    /// Creates a topic of one partition with settings and returns the error.
    pub(crate) async fn create_with(
        &mut self,
        name: &'static str,
        settings: &[(&'static str, &'static str)],
    ) -> i16 {
        let setting = |&(name, value)| {
            CreatableTopicConfig::default()
                .with_name(StrBytes::from_static_str(name))
                .with_value(Some(StrBytes::from_static_str(value)))
        };
        let new = CreatableTopic::default()
            .with_name(topic(name))
            .with_num_partitions(1)
            .with_replication_factor(-1)
            .with_configs(settings.iter().map(setting).collect());
        let request = CreateTopicsRequest::default().with_topics(vec![new]).with_timeout_ms(5000);
        let reply: CreateTopicsResponse = self.ask(ApiKey::CreateTopics, 5, &request).await;
        reply.topics[0].error_code
    }

    /// Creates a topic of one partition and returns the error.
    pub(crate) async fn create_within(&mut self, name: &'static str, timeout_ms: i32) -> i16 {
        let new = CreatableTopic::default()
            .with_name(topic(name))
            .with_num_partitions(1)
            .with_replication_factor(-1);
        let request = CreateTopicsRequest::default().with_topics(vec![new]).with_timeout_ms(timeout_ms);
        let reply: CreateTopicsResponse = self.ask(ApiKey::CreateTopics, 5, &request).await;
        reply.topics[0].error_code
    }

    pub(crate) async fn delete(&mut self, name: &'static str) {
        assert_eq!(self.delete_within(name, LONG_WAIT_MS).await, 0);
    }

    pub(crate) async fn delete_within(&mut self, name: &'static str, timeout_ms: i32) -> i16 {
        let request = DeleteTopicsRequest::default().with_topic_names(vec![topic(name)]);
        let request = request.with_timeout_ms(timeout_ms);
        let reply: DeleteTopicsResponse = self.ask(ApiKey::DeleteTopics, 4, &request).await;
        reply.responses[0].error_code
    }

    /// Produces one batch: (error, base offset).
    pub(crate) async fn produce(&mut self, request: &ProduceRequest) -> (i16, i64) {
        self.send(ApiKey::Produce, 7, request).await;
        self.produced().await
    }

    pub(crate) async fn produced(&mut self) -> (i16, i64) {
        let reply: ProduceResponse = self.receive(7).await;
        let partition = &reply.responses[0].partition_responses[0];
        (partition.error_code, partition.base_offset)
    }

    /// Fetches from one partition: (error, high watermark, bytes).
    pub(crate) async fn fetch(&mut self, request: &FetchRequest) -> (i16, i64, usize) {
        self.send(ApiKey::Fetch, 11, request).await;
        self.fetched().await
    }

    pub(crate) async fn fetched(&mut self) -> (i16, i64, usize) {
        let reply: FetchResponse = self.receive(11).await;
        let data = &reply.responses[0].partitions[0];
        (data.error_code, data.high_watermark, data.records.as_ref().expect("never null").len())
    }
}

pub(crate) fn frame(
    key: ApiKey,
    version: i16,
    correlation_id: i32,
    request: &(impl Encodable + HeaderVersion),
) -> BytesMut {
    let header = RequestHeader::default()
        .with_request_api_key(key as i16)
        .with_request_api_version(version)
        .with_correlation_id(correlation_id)
        .with_client_id(Some(StrBytes::from_static_str("test")));
    let mut body = BytesMut::new();
    header.encode(&mut body, key.request_header_version(version)).expect("a header");
    request.encode(&mut body, version).expect("a request");
    let mut frame = BytesMut::new();
    frame.put_i32(body.len() as i32);
    frame.put_slice(&body);
    frame
}

pub(crate) fn topic(name: &'static str) -> TopicName {
    TopicName(StrBytes::from_static_str(name))
}

pub(crate) fn produce(name: &'static str, acks: i16, timeout_ms: i32, batch: &[u8]) -> ProduceRequest {
    let data = PartitionProduceData::default().with_records(Some(Bytes::copy_from_slice(batch)));
    let topic = TopicProduceData::default().with_name(topic(name)).with_partition_data(vec![data]);
    ProduceRequest::default()
        .with_transactional_id(None)
        .with_acks(acks)
        .with_timeout_ms(timeout_ms)
        .with_topic_data(vec![topic])
}

pub(crate) fn fetch(name: &'static str, offset: i64, max_wait_ms: i32, min_bytes: i32) -> FetchRequest {
    let fetch = FetchPartition::default()
        .with_current_leader_epoch(-1)
        .with_log_start_offset(-1)
        .with_fetch_offset(offset)
        .with_partition_max_bytes(1 << 20);
    FetchRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_max_wait_ms(max_wait_ms)
        .with_min_bytes(min_bytes)
        .with_max_bytes(1 << 20)
        .with_topics(vec![FetchTopic::default().with_topic(topic(name)).with_partitions(vec![fetch])])
}

/// A batch of one record: its head, and bytes that only its reader would understand.
pub(crate) fn batch(size: usize) -> Vec<u8> {
    sequenced_batch(size, -1, -1)
}

/// A batch of one record of an idempotent producer.
pub(crate) fn sequenced_batch(size: usize, producer_id: i64, sequence: i32) -> Vec<u8> {
    let mut bytes = vec![0; size];
    bytes[8..12].copy_from_slice(&(size as i32 - 12).to_be_bytes());
    bytes[16] = 2;
    bytes[43..51].copy_from_slice(&producer_id.to_be_bytes());
    bytes[51..53].copy_from_slice(&(if producer_id < 0 { -1i16 } else { 0 }).to_be_bytes());
    bytes[53..57].copy_from_slice(&sequence.to_be_bytes());
    bytes[60] = 1;
    let crc = crc32c::crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    bytes
}

/// Waits until something holds of the broker's counters.
pub(crate) async fn eventually(broker: &Broker, what: &str, holds: impl Fn(&ixion_broker::Stats) -> bool) {
    let start = Instant::now();
    while !holds(&broker.stats()) {
        assert!(start.elapsed() < PATIENCE, "{what}: {}", broker.stats());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Waits until so many requests of consumers are parked, besides those of the followers.
pub(crate) async fn eventually_parked(broker: &Broker, requests: u64, followers: u64) {
    let what = format!("{requests} parked besides {followers}");
    eventually(broker, &what, |stats| stats.parked == requests + followers).await;
}
