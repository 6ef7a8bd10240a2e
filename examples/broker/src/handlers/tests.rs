//! Every reply is encoded and decoded at every version that is advertised: the encoder refuses a field that is set
//! but that the version lacks, and that would close the connection. The requests walk over their shapes on the way.

use bytes::{BufMut, BytesMut};
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, StrBytes};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::Config;
use crate::batch::{made_up, made_up_by};
use crate::codec::{SERVED, decode_reply, encode_request};
use crate::shape::{reply_shape_of, shape_of};

#[path = "admin_tests.rs"]
mod admin;
#[path = "group_tests.rs"]
mod group;

/// A broker of one node, called without a network, and a peer that stays connected.
struct Bench {
    session: Session,
    peer: TcpStream,
    _other_end: TcpStream,
}

impl Bench {
    async fn new() -> Bench {
        Bench::of(1).await
    }

    /// With more nodes; but there is no follower that fetches.
    async fn of(replicas: u16) -> Bench {
        let config = Config {
            replicas,
            default_partitions: 2,
            group_initial_rebalance_delay: std::time::Duration::ZERO,
            ..Config::default()
        };
        let nodes = vec![config.listen; usize::from(replicas)];
        let cluster = Cluster::start(config, nodes).expect("a thread can be started");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let (peer, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (peer, (_other_end, _)) = (peer.expect("it listens"), accepted.expect("it was connected"));
        Bench { session: Session { cluster, node: LEADER, leader: None }, peer, _other_end }
    }

    /// Asks at a version. Every request has to walk over its shape, and no beginning of it may.
    async fn ask<Q, A>(&self, key: ApiKey, version: i16, request: &Q) -> A
    where
        Q: Encodable + HeaderVersion,
        A: Decodable + HeaderVersion,
    {
        let frame = frame(key, version, request);
        check_shape(key, version, request);
        let reply = answer(&self.session, &self.peer, frame).await;
        let reply =
            reply.unwrap_or_else(|error| panic!("{key:?} {version}: {error}")).expect("there is a reply");
        let reply = reply.slice(4..);
        if let Some(shape) = reply_shape_of(key) {
            assert_eq!(shape.walk_reply(&reply, version), Some(()), "{key:?} {version}");
            for length in 0..reply.len() {
                let cut = shape.walk_reply(&reply[..length], version);
                assert_eq!(cut, None, "a reply to {key:?} {version} cut to {length} bytes");
            }
        }
        decode_reply(reply, version, 77).unwrap_or_else(|error| panic!("{key:?} {version}: {error}"))
    }

    async fn create(&self, name: &'static str) {
        let topic = CreatableTopic::default()
            .with_name(topic(name))
            .with_num_partitions(2)
            .with_replication_factor(1);
        let request = CreateTopicsRequest::default().with_topics(vec![topic]);
        let reply: CreateTopicsResponse = self.ask(ApiKey::CreateTopics, 7, &request).await;
        assert_eq!(reply.topics[0].error_code, 0);
    }
}

fn frame(key: ApiKey, version: i16, request: &(impl Encodable + HeaderVersion)) -> Bytes {
    let frame = encode_request(key, version, 77, StrBytes::from_static_str("test"), request);
    frame.unwrap_or_else(|error| panic!("{key:?} {version}: {error}")).freeze().slice(4..)
}

fn check_shape(key: ApiKey, version: i16, request: &impl Encodable) {
    let mut body = BytesMut::new();
    request.encode(&mut body, version).expect("it was encoded before");
    let shape = shape_of(key).expect("it is served");
    assert_eq!(shape.walk(&body, version), Some(()), "{key:?} {version}");
    for length in 0..body.len() {
        assert_eq!(shape.walk(&body[..length], version), None, "{key:?} {version} cut to {length} bytes");
    }
}

fn versions_of(key: ApiKey) -> std::ops::RangeInclusive<i16> {
    let (_, min, max) = SERVED.into_iter().find(|(served, _, _)| *served == key).expect("it is served");
    min..=max
}

fn topic(name: &'static str) -> TopicName {
    TopicName(StrBytes::from_static_str(name))
}

fn produce_request(name: &'static str, acks: i16, batch: Vec<u8>) -> ProduceRequest {
    let data = PartitionProduceData::default().with_index(0).with_records(Some(Bytes::from(batch)));
    let topic = TopicProduceData::default().with_name(topic(name)).with_partition_data(vec![data]);
    ProduceRequest::default().with_acks(acks).with_timeout_ms(1000).with_topic_data(vec![topic])
}

fn fetch_request(name: &'static str, offset: i64, max_wait_ms: i32, version: i16) -> FetchRequest {
    let fetch = |index| {
        let fetch = FetchPartition::default()
            .with_partition(index)
            .with_fetch_offset(offset)
            .with_partition_max_bytes(1 << 20);
        let fetch = if version >= 9 { fetch.with_current_leader_epoch(0) } else { fetch };
        if version >= 5 { fetch.with_log_start_offset(-1) } else { fetch }
    };
    let topics =
        vec![FetchTopic::default().with_topic(topic(name)).with_partitions(vec![fetch(0), fetch(1)])];
    let request = FetchRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_max_wait_ms(max_wait_ms)
        .with_min_bytes(1)
        .with_max_bytes(1 << 20)
        .with_topics(topics);
    if version < 7 {
        return request;
    }
    let forgotten = ForgottenTopic::default().with_topic(topic("forgotten")).with_partitions(vec![1, 2]);
    request.with_session_id(5).with_session_epoch(1).with_forgotten_topics_data(vec![forgotten])
}

#[tokio::test]
async fn api_versions_at_every_version() {
    let bench = Bench::new().await;
    for version in versions_of(ApiKey::ApiVersions) {
        let request = match version {
            3 => ApiVersionsRequest::default()
                .with_client_software_name(StrBytes::from_static_str("test"))
                .with_client_software_version(StrBytes::from_static_str("1")),
            _ => ApiVersionsRequest::default(),
        };
        let reply: ApiVersionsResponse = bench.ask(ApiKey::ApiVersions, version, &request).await;
        assert_eq!((reply.error_code, reply.api_keys.len()), (0, SERVED.len()));
        let produce = reply.api_keys.iter().find(|key| key.api_key == 0).expect("served");
        assert_eq!(
            (produce.min_version, produce.max_version),
            (0, 9),
            "0 to 2 are not served, but librdkafka looks for them"
        );
    }
}

#[test]
fn what_is_advertised_is_what_old_and_new_clients_need() {
    let mut served = SERVED.map(|(key, min, max)| (key as i16, min, max));
    served.sort_unstable();
    let expected = [
        (0, 0, 9),  // Produce: from 0 on, for what old clients make of that
        (1, 4, 12), // Fetch: the last without topic ids
        (2, 1, 7),
        (3, 0, 9),
        (8, 2, 8),
        (9, 1, 8),
        (10, 0, 4),
        (11, 0, 7),
        (12, 0, 4),
        (13, 0, 4),
        (14, 0, 5),
        (18, 0, 3),
        (19, 2, 7),
        (20, 1, 6),
        (21, 0, 2),
        (22, 0, 4),
        (32, 1, 4),
        (37, 0, 3),
    ];
    assert_eq!(served, expected);
}

#[tokio::test]
async fn metadata_at_every_version() {
    let bench = Bench::new().await;
    bench.create("known").await;
    for version in versions_of(ApiKey::Metadata) {
        let names = ["known", "a/b", "unknown"];
        let asked = names.map(|name| MetadataRequestTopic::default().with_name(Some(topic(name))));
        let may_create = version < 4;
        let request = MetadataRequest::default()
            .with_topics(Some(asked.to_vec()))
            .with_allow_auto_topic_creation(may_create);
        let request = if may_create { request.with_allow_auto_topic_creation(true) } else { request };
        let reply: MetadataResponse = bench.ask(ApiKey::Metadata, version, &request).await;
        let errors: Vec<i16> = reply.topics.iter().map(|topic| topic.error_code).collect();
        assert_eq!(errors, if may_create { [0, 17, 0] } else { [0, 3, 3] }, "version {version}");
        assert_eq!(reply.topics[0].partitions.len(), 2);
        assert_eq!(reply.topics[0].partitions[1].isr_nodes, [BrokerId(1)]);
        assert_eq!(reply.brokers.len(), 1);
        let _ = bench.session.cluster.catalog.delete("unknown", |_| {});
    }
}

#[tokio::test]
async fn metadata_of_all_topics_is_asked_for_in_two_ways() {
    let bench = Bench::new().await;
    bench.create("known").await;
    for version in versions_of(ApiKey::Metadata) {
        let ask = async |topics: Option<Vec<MetadataRequestTopic>>| {
            let request = MetadataRequest::default().with_topics(topics);
            let reply: MetadataResponse = bench.ask(ApiKey::Metadata, version, &request).await;
            reply.topics.len()
        };
        assert_eq!(ask(Some(Vec::new())).await, usize::from(version == 0), "version {version}");
        if version > 0 {
            assert_eq!(ask(None).await, 1, "version {version}");
        }
    }
}

#[tokio::test]
async fn find_coordinator_at_every_version() {
    let bench = Bench::new().await;
    let name = || StrBytes::from_static_str("group");
    for version in versions_of(ApiKey::FindCoordinator) {
        let request = match version {
            4.. => FindCoordinatorRequest::default().with_coordinator_keys(vec![name(), name()]),
            _ => FindCoordinatorRequest::default().with_key(name()),
        };
        let reply: FindCoordinatorResponse = bench.ask(ApiKey::FindCoordinator, version, &request).await;
        let node = reply.coordinators.first().map_or(reply.node_id, |coordinator| coordinator.node_id);
        assert_eq!(
            (reply.error_code, node, reply.coordinators.len()),
            (0, BrokerId(1), if version < 4 { 0 } else { 2 })
        );
        if version >= 1 {
            let reply: FindCoordinatorResponse =
                bench.ask(ApiKey::FindCoordinator, version, &request.with_key_type(1)).await;
            let error =
                reply.coordinators.first().map_or(reply.error_code, |coordinator| coordinator.error_code);
            assert_eq!(error, 53, "there are no transactions");
        }
    }
}

#[tokio::test]
async fn list_offsets_at_every_version() {
    let bench = Bench::new().await;
    bench.create("t").await;
    for version in versions_of(ApiKey::ListOffsets) {
        let at = |timestamp, index| {
            ListOffsetsPartition::default().with_partition_index(index).with_timestamp(timestamp)
        };
        let partitions = vec![at(-1, 0), at(-2, 0), at(99, 1), at(-1, 9)];
        let asked = ListOffsetsTopic::default().with_name(topic("t")).with_partitions(partitions);
        let request = ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![asked]);
        let reply: ListOffsetsResponse = bench.ask(ApiKey::ListOffsets, version, &request).await;
        let found: Vec<(i16, i64)> = reply.topics[0]
            .partitions
            .iter()
            .map(|partition| (partition.error_code, partition.offset))
            .collect();
        assert_eq!(found, [(0, 0), (0, 0), (0, -1), (3, -1)], "version {version}");
    }
}

#[tokio::test]
async fn init_producer_id_at_every_version() {
    let bench = Bench::new().await;
    for (version, id) in versions_of(ApiKey::InitProducerId).zip(0..) {
        let request = InitProducerIdRequest::default().with_transactional_id(None);
        let request = if version >= 3 {
            request.with_producer_id(ProducerId(-1)).with_producer_epoch(-1)
        } else {
            request
        };
        let reply: InitProducerIdResponse = bench.ask(ApiKey::InitProducerId, version, &request).await;
        assert_eq!((reply.error_code, reply.producer_id.0, reply.producer_epoch), (0, id, 0));
        let transactional =
            request.with_transactional_id(Some(TransactionalId(StrBytes::from_static_str("x"))));
        let reply: InitProducerIdResponse = bench.ask(ApiKey::InitProducerId, version, &transactional).await;
        assert_eq!((reply.error_code, reply.producer_id.0), (53, -1));
    }
}

#[tokio::test]
async fn produce_at_every_version() {
    let bench = Bench::new().await;
    bench.create("t").await;
    for (version, offset) in versions_of(ApiKey::Produce).skip(3).zip(0..) {
        let ask = async |request| -> (i16, i64) {
            let reply: ProduceResponse = bench.ask(ApiKey::Produce, version, &request).await;
            let partition = &reply.responses[0].partition_responses[0];
            (partition.error_code, partition.base_offset)
        };
        assert_eq!(ask(produce_request("t", -1, made_up(1, 9))).await, (0, offset), "version {version}");
        assert_eq!(ask(produce_request("unknown", -1, made_up(1, 9))).await, (3, -1));
        assert_eq!(ask(produce_request("t", 1, vec![0; 9])).await, (2, -1));
        assert_eq!(ask(produce_request("t", 2, made_up(1, 9))).await, (21, -1));
        assert_eq!(ask(produce_request("t", 1, made_up_by(5, 0, 3, 1, 9))).await, (59, -1));
    }
}

#[tokio::test]
async fn produce_below_version_3_is_advertised_but_closes_the_connection() {
    let bench = Bench::new().await;
    for version in 0..3 {
        let mut frame = BytesMut::new();
        frame.put_i16(0);
        frame.put_i16(version);
        frame.put_i32(77);
        let answered = answer(&bench.session, &bench.peer, frame.freeze()).await;
        assert!(matches!(answered, Err(Unanswerable::NotServed { key: 0, .. })));
    }
}

#[tokio::test]
async fn fetch_at_every_version() {
    let bench = Bench::new().await;
    bench.create("t").await;
    let _: ProduceResponse = bench.ask(ApiKey::Produce, 9, &produce_request("t", -1, made_up(1, 9))).await;
    for version in versions_of(ApiKey::Fetch) {
        let ask = async |request: FetchRequest| -> Vec<(i16, Option<usize>)> {
            let reply: FetchResponse = bench.ask(ApiKey::Fetch, version, &request).await;
            assert_eq!((reply.error_code, reply.session_id), (0, 0), "there are no fetch sessions");
            let partitions = reply.responses[0].partitions.iter();
            partitions.map(|data| (data.error_code, data.records.as_ref().map(Bytes::len))).collect()
        };
        // Gotcha 4: records are never null. Gotcha 7: every partition is echoed.
        let found = ask(fetch_request("t", 0, 100, version)).await;
        assert_eq!(found, [(0, Some(70)), (0, Some(0))], "version {version}");
        assert_eq!(ask(fetch_request("unknown", 0, 9000, version)).await, [(3, Some(0)), (3, Some(0))]);
        let mut parked = fetch_request("t", 0, 1, version).with_isolation_level(1);
        parked.topics[0].partitions[0].fetch_offset = 1;
        assert_eq!(ask(parked).await, [(0, Some(0)), (0, Some(0))], "after it has waited");
    }
}

#[tokio::test]
async fn a_client_of_a_newer_epoch_is_told_where_to_truncate() {
    let bench = Bench::new().await;
    bench.create("t").await;
    let mut request = fetch_request("t", 0, 9000, 12);
    request.topics[0].partitions[0].last_fetched_epoch = 7;
    let reply: FetchResponse = bench.ask(ApiKey::Fetch, 12, &request).await;
    let diverging = &reply.responses[0].partitions[0].diverging_epoch;
    assert_eq!((diverging.epoch, diverging.end_offset), (0, 0));
}

#[tokio::test]
async fn a_node_that_leads_nothing_says_so() {
    let mut bench = Bench::new().await;
    bench.create("t").await;
    bench.session.node = 2;
    let reply: ProduceResponse =
        bench.ask(ApiKey::Produce, 9, &produce_request("t", -1, made_up(1, 9))).await;
    assert_eq!(reply.responses[0].partition_responses[0].error_code, 6);
    let reply: FetchResponse = bench.ask(ApiKey::Fetch, 12, &fetch_request("t", 0, 9000, 12)).await;
    assert_eq!(reply.responses[0].partitions[0].error_code, 6);
}

#[tokio::test]
async fn frames_that_announce_more_than_they_hold_are_refused_before_they_are_decoded() {
    let bench = Bench::new().await;
    for (key, _, version) in SERVED {
        for length in [i32::MAX, 1 << 24, 1000, -2] {
            let mut frame = BytesMut::new();
            frame.put_i16(key as i16);
            frame.put_i16(version);
            frame.put_i32(77);
            frame.put_i16(-1);
            // Once in plain form, and once in compact form with a head that has tagged fields.
            let mut compact = frame.clone();
            frame.put_slice(&length.to_be_bytes().repeat(8));
            compact.put_u8(0);
            compact.put_slice(&[0xff, 0xff, 0xff, 0xff, 0x07].repeat(8));
            for frame in [frame, compact] {
                let answered = answer(&bench.session, &bench.peer, frame.freeze()).await;
                assert!(
                    matches!(answered, Err(Unanswerable::Malformed(_)) | Ok(Some(_))),
                    "{key:?}: {answered:?}"
                );
            }
        }
    }
}

#[test]
fn arrays_are_bounded_even_if_their_elements_are_there() {
    let shape = shape_of(ApiKey::FindCoordinator).expect("served");
    let mut body = vec![0, 0x80, 0x89, 0x7a]; // group, and 1,999,999 names of one byte each
    body.resize(body.len() + 2_000_000, 1);
    body.push(0);
    assert_eq!(shape.walk(&body, 4), None);
}

#[test]
fn whatever_is_changed_in_a_frame_it_is_decoded_or_refused() {
    let frames = [
        frame(ApiKey::Produce, 3, &produce_request("t", 1, made_up(1, 9))),
        frame(ApiKey::Produce, 9, &produce_request("t", 1, made_up(1, 9))),
        frame(ApiKey::Fetch, 4, &fetch_request("t", 0, 1, 4)),
        frame(ApiKey::Fetch, 11, &fetch_request("t", 0, 1, 11)),
        frame(ApiKey::Fetch, 12, &fetch_request("t", 0, 1, 12)),
        frame(ApiKey::Metadata, 1, &MetadataRequest::default()),
        frame(ApiKey::Metadata, 9, &MetadataRequest::default()),
    ];
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    };
    let mut decoded = 0;
    for round in 0..20_000 {
        let mut bytes = frames[round % frames.len()].to_vec();
        for _ in 0..=next(3) {
            // The key and the version stay, so that something is decoded.
            let at = 4 + next(bytes.len() - 4);
            bytes[at] = [0, 1, 0x7f, 0x80, 0xff, next(256) as u8][next(6)];
        }
        bytes.truncate(bytes.len() - next(2) * next(bytes.len()));
        let Ok(Frame::Request(mut request)) = Frame::parse(Bytes::from(bytes)) else { continue };
        let is_right = match request.key {
            ApiKey::Produce => request.decode::<ProduceRequest>().is_ok(),
            ApiKey::Fetch => request.decode::<FetchRequest>().is_ok(),
            _ => request.decode::<MetadataRequest>().is_ok(),
        };
        decoded += usize::from(is_right);
    }
    assert!(decoded > 1000, "only {decoded} were decoded: the changes are too coarse to try the decoder");
}
