//! What clients stumble over, found with real ones.

use std::time::Duration;

use bytes::Buf;
use ixion_broker::Config;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;
use tokio::io::AsyncWriteExt;

use crate::client::{Client, LONG_WAIT_MS, batch, eventually, fetch, frame, produce, start, topic};

/// The request for the versions, at version 3.
fn api_versions() -> ApiVersionsRequest {
    ApiVersionsRequest::default()
        .with_client_software_name(StrBytes::from_static_str("test"))
        .with_client_software_version(StrBytes::from_static_str("1"))
}

#[tokio::test]
async fn api_versions_has_no_tagged_fields_and_produce_begins_at_0() {
    let broker = start(Config::default()).await;
    let mut client = Client::of(&broker).await;
    client.send(ApiKey::ApiVersions, 3, &api_versions()).await;
    let mut reply = client.receive_frame().await.expect("a reply");
    assert_eq!(
        (reply.get_i32(), reply.get_i16()),
        (1, 0),
        "correlation id, then error: the header has no tags"
    );
    let keys = reply.get_u8() - 1;
    for _ in 0..keys {
        let (key, min, _max) = (reply.get_i16(), reply.get_i16(), reply.get_i16());
        assert!(
            key != 0 || min == 0,
            "librdkafka before 2.1 compresses only for brokers that know Produce 0"
        );
        assert_eq!(reply.get_u8(), 0, "no tagged field in a key");
    }
    assert_eq!(reply.get_i32(), 0, "throttle time");
    assert_eq!((reply.get_u8(), reply.remaining()), (0, 0), "no tagged field at the end");
}

#[tokio::test]
async fn empty_records_are_empty_and_not_null() {
    let broker = start(Config::default()).await;
    let mut client = Client::of(&broker).await;
    client.create("t", &[]).await;
    for offset in [0, 99] {
        // The helper panics at null.
        let (error, _, bytes) = client.fetch(&fetch("t", offset, 0, 1)).await;
        assert_eq!((error, bytes), (i16::from(offset == 99), 0));
    }
}

#[tokio::test]
async fn an_unknown_version_of_api_versions_is_answered_in_version_0_with_the_keys() {
    let broker = start(Config::default()).await;
    let mut client = Client::of(&broker).await;
    for version in [4, 99] {
        let mut request = vec![0, 0, 0, 10, 0, 18, 0, version, 0, 0, 0, 5];
        request.extend([0xff, 0xff]); // no client id; what follows in such a version nobody knows
        client.stream.write_all(&request).await.expect("open");
        let mut reply = client.receive_frame().await.expect("a reply");
        assert_eq!((reply.get_i32(), reply.get_i16()), (5, 35));
        let keys = reply.get_i32();
        assert!(keys >= 9);
        assert_eq!(reply.remaining(), keys as usize * 6, "version 0: three numbers a key and nothing else");
    }
    let versions: ApiVersionsResponse = client.ask(ApiKey::ApiVersions, 3, &api_versions()).await;
    assert_eq!(versions.error_code, 0, "and the client goes on over the same connection");
}

#[tokio::test]
async fn another_unknown_version_closes_the_connection() {
    let broker = start(Config::default()).await;
    for (key, version) in
        [(ApiKey::Fetch, 13u8), (ApiKey::Fetch, 3), (ApiKey::Produce, 2), (ApiKey::JoinGroup, 99)]
    {
        let mut client = Client::of(&broker).await;
        let request = [0, 0, 0, 10, 0, key as u8, 0, version, 0, 0, 0, 1, 0xff, 0xff];
        client.stream.write_all(&request).await.expect("open");
        assert!(client.receive_frame().await.is_none(), "{key:?} {version}");
    }
}

#[tokio::test]
async fn requests_sent_together_are_answered_one_after_the_other() {
    let broker = start(Config::default()).await;
    let mut client = Client::of(&broker).await;
    client.create("t", &[]).await;
    // A long poll and two quick requests in one write: the quick ones wait for it.
    let mut together = frame(ApiKey::Fetch, 11, 101, &fetch("t", 0, 300, 1));
    together.unsplit(frame(ApiKey::ApiVersions, 3, 102, &api_versions()));
    together.unsplit(frame(ApiKey::Metadata, 5, 103, &MetadataRequest::default()));
    client.stream.write_all(&together).await.expect("open");
    for correlation_id in [101, 102, 103] {
        let mut reply = client.receive_frame().await.expect("a reply");
        assert_eq!(reply.get_i32(), correlation_id);
    }
}

#[tokio::test]
async fn there_are_no_fetch_sessions_and_every_partition_is_echoed() {
    let broker = start(Config::default()).await;
    let mut client = Client::of(&broker).await;
    client.create("t", &[]).await;
    let mut request = fetch("t", 0, 0, 1).with_session_id(77).with_session_epoch(3);
    let mut unknown = request.topics[0].partitions[0].clone();
    unknown.partition = 9;
    request.topics[0].partitions.push(unknown);
    let reply: FetchResponse = client.ask(ApiKey::Fetch, 11, &request).await;
    assert_eq!(reply.session_id, 0);
    let echoed: Vec<(i32, i16)> =
        reply.responses[0].partitions.iter().map(|data| (data.partition_index, data.error_code)).collect();
    assert_eq!(echoed, [(0, 0), (9, 3)]);
}

#[tokio::test]
async fn no_acks_no_bytes() {
    let broker = start(Config::default()).await;
    let mut client = Client::of(&broker).await;
    client.create("t", &[]).await;
    client.send(ApiKey::Produce, 7, &produce("t", 0, 1000, &batch(100))).await;
    assert!(client.is_silent_for(Duration::from_millis(50)).await);
    let (error, _, bytes) = Client::of(&broker).await.fetch(&fetch("t", 0, LONG_WAIT_MS, 1)).await;
    assert_eq!((error, bytes), (0, 100), "it was appended all the same");
    client.send(ApiKey::Produce, 7, &produce("unknown", 0, 1000, &batch(100))).await;
    assert!(client.receive_frame().await.is_none(), "an error can only be told by closing the connection");
}

#[tokio::test]
async fn many_clients_may_come_at_once() {
    let broker = start(Config::default()).await;
    let before = broker.stats().connections;
    let address = broker.addr();
    let clients: Vec<_> = (0..500).map(|_| tokio::spawn(Client::connect(address))).collect();
    let mut open = Vec::new();
    for client in clients {
        open.push(client.await.expect("it was accepted"));
    }
    eventually(&broker, "all are accepted", |stats| stats.connections >= before + 500).await;
    for client in &mut open {
        let versions: ApiVersionsResponse = client.ask(ApiKey::ApiVersions, 3, &api_versions()).await;
        assert_eq!(versions.error_code, 0);
    }
    drop(open);
    eventually(&broker, "all are gone", |stats| stats.connections < 10).await;
}

#[tokio::test]
async fn followers_tell_about_the_cluster_and_refuse_what_only_the_leader_can_do() {
    let broker = start(Config::default()).await;
    let mut client = Client::of(&broker).await;
    client.create("t", &[]).await;
    let metadata: MetadataResponse =
        client.ask(ApiKey::Metadata, 5, &MetadataRequest::default().with_topics(None)).await;
    assert_eq!(metadata.brokers.len(), 3);
    for node in &metadata.brokers[1..] {
        let address = format!("{}:{}", node.host, node.port).parse().expect("an address");
        let mut follower = Client::connect(address).await;
        let versions: ApiVersionsResponse = follower.ask(ApiKey::ApiVersions, 3, &api_versions()).await;
        assert_eq!(versions.error_code, 0);
        let same: MetadataResponse =
            follower.ask(ApiKey::Metadata, 5, &MetadataRequest::default().with_topics(None)).await;
        assert_eq!(same.topics[0].partitions[0].leader_id, BrokerId(1));
        let group = FindCoordinatorRequest::default().with_key(StrBytes::from_static_str("group"));
        let coordinator: FindCoordinatorResponse = follower.ask(ApiKey::FindCoordinator, 2, &group).await;
        assert_eq!((coordinator.node_id, coordinator.port), (BrokerId(1), i32::from(broker.addr().port())));

        assert_eq!(follower.produce(&produce("t", -1, 1000, &batch(100))).await, (6, -1));
        assert_eq!(follower.fetch(&fetch("t", 0, LONG_WAIT_MS, 1)).await, (6, -1, 0));
        let asked = ListOffsetsPartition::default().with_timestamp(-1);
        let asked = ListOffsetsTopic::default().with_name(topic("t")).with_partitions(vec![asked]);
        let request = ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![asked]);
        let offsets: ListOffsetsResponse = follower.ask(ApiKey::ListOffsets, 3, &request).await;
        assert_eq!(offsets.topics[0].partitions[0].error_code, 6);
    }
}

#[tokio::test]
async fn junk_closes_its_own_connection_and_hurts_nobody() {
    let broker = start(Config { max_request_bytes: 1 << 20, ..Config::default() }).await;
    let mut bystander = Client::of(&broker).await;
    bystander.create("t", &[]).await;
    let too_long = (1i32 << 20) + 1;
    let announced = [&3000i32.to_be_bytes()[..], &[0, 1, 0, 11]].concat();
    for junk in [
        &[0xff; 64][..],
        &i32::MAX.to_be_bytes(),
        &too_long.to_be_bytes(),
        &[0, 0, 0, 0],
        &[0, 0, 0, 4, 1, 2, 3, 4],
        &announced,
        // Metadata with two thousand million topics in it
        &[0, 0, 0, 14, 0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff],
    ] {
        let mut client = Client::of(&broker).await;
        client.stream.write_all(junk).await.expect("open");
        client.stream.shutdown().await.expect("open");
        assert!(client.receive_frame().await.is_none(), "{junk:?}");
    }
    assert_eq!(bystander.produce(&produce("t", -1, 9000, &batch(100))).await, (0, 0));
}
