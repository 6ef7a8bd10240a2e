//! What administrators ask for, and how it waits for the followers.

use std::time::{Duration, Instant};

use ixion_broker::{Broker, Config};
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;

use crate::client::{Client, LONG_WAIT_MS, PATIENCE, batch, eventually, fetch, produce, start, topic};

/// Deletes records of partition 0: (error, low watermark).
async fn delete_records(client: &mut Client, name: &'static str, offset: i64, timeout_ms: i32) -> (i16, i64) {
    let partition = DeleteRecordsPartition::default().with_offset(offset);
    let of = DeleteRecordsTopic::default().with_name(topic(name)).with_partitions(vec![partition]);
    let request = DeleteRecordsRequest::default().with_topics(vec![of]).with_timeout_ms(timeout_ms);
    let reply: DeleteRecordsResponse = client.ask(ApiKey::DeleteRecords, 1, &request).await;
    let partition = &reply.topics[0].partitions[0];
    (partition.error_code, partition.low_watermark)
}

async fn create_partitions(client: &mut Client, name: &'static str, count: i32, timeout_ms: i32) -> i16 {
    let more =
        CreatePartitionsTopic::default().with_name(topic(name)).with_count(count).with_assignments(None);
    let request = CreatePartitionsRequest::default().with_topics(vec![more]).with_timeout_ms(timeout_ms);
    let reply: CreatePartitionsResponse = client.ask(ApiKey::CreatePartitions, 1, &request).await;
    reply.results[0].error_code
}

/// A broker whose followers' fetches wait for longer than any test: they have to be told of everything.
async fn patient() -> Broker {
    let hour = Duration::from_secs(3600);
    start(Config { replica_fetch_wait: hour, replica_lag_time_max: 4 * hour, ..Config::default() }).await
}

fn assert_in_time(begun: Instant, timeout_ms: u64) {
    let waited = begun.elapsed();
    assert!(waited >= Duration::from_millis(timeout_ms), "early: {waited:?} of {timeout_ms} ms");
    assert!(waited < PATIENCE, "late: {waited:?} of {timeout_ms} ms");
}

#[tokio::test]
async fn a_topic_is_created_when_every_follower_fetches_it() {
    let broker = patient().await;
    let mut client = Client::of(&broker).await;
    assert_eq!(client.create_within("t", LONG_WAIT_MS).await, 0);
    assert_eq!(create_partitions(&mut client, "t", 5, LONG_WAIT_MS).await, 0);
    client.delete("t").await;
    assert_eq!(client.create_within("t", LONG_WAIT_MS).await, 0, "again");
    let stats = broker.stats().topic;
    assert_eq!((stats.registered, stats.satisfied, stats.watched), (4, 4, 0));
}

#[tokio::test]
async fn a_follower_with_nothing_to_fetch_waits_for_something() {
    let broker = patient().await;
    eventually(&broker, "both wait", |stats| stats.parked == 2).await;
    let mut client = Client::of(&broker).await;
    client.create("t", &[]).await;
    client.delete("t").await;
    eventually(&broker, "both wait again", |stats| stats.parked == 2).await;
}

#[tokio::test]
async fn with_a_paused_follower_creating_and_deleting_take_their_time_and_are_done_all_the_same() {
    let broker = start(Config::default()).await;
    let mut client = Client::of(&broker).await;
    assert_eq!(client.create_within("old", LONG_WAIT_MS).await, 0);
    broker.pause(Some(3));
    let begun = Instant::now();
    assert_eq!(client.create_within("new", 100).await, 7);
    assert_in_time(begun, 100);
    let begun = Instant::now();
    assert_eq!(create_partitions(&mut client, "old", 2, 100).await, 7);
    assert_in_time(begun, 100);
    let topics: Vec<(String, i32)> = broker
        .stats()
        .partitions
        .into_iter()
        .map(|partition| (partition.topic, partition.partition))
        .collect();
    assert_eq!(topics, [("new".into(), 0), ("old".into(), 0), ("old".into(), 1)]);
    let begun = Instant::now();
    assert_eq!(client.delete_within("old", 100).await, 7);
    assert_in_time(begun, 100);
    assert_eq!(client.delete_within("old", 100).await, 3, "it is gone");
    // What began while it was away goes on when it is back.
    let mut waiting = Client::of(&broker).await;
    let request = DeleteTopicsRequest::default().with_topic_names(vec![topic("new")]);
    waiting.send(ApiKey::DeleteTopics, 4, &request.with_timeout_ms(LONG_WAIT_MS)).await;
    eventually(&broker, "it waits", |stats| stats.topic.pending == 1).await;
    broker.resume(None);
    let reply: DeleteTopicsResponse = waiting.receive(4).await;
    assert_eq!(reply.responses[0].error_code, 0);
    assert_eq!(broker.stats().topic.watched, 0);
}

#[tokio::test]
async fn a_topic_may_take_smaller_batches_than_the_broker_but_no_larger_ones() {
    let broker = start(Config { max_message_bytes: 200, ..Config::default() }).await;
    let mut client = Client::of(&broker).await;
    client.create("small", &[("max.message.bytes", "100")]).await;
    client.create("large", &[("max.message.bytes", "9999")]).await;
    for (name, size, error) in [("small", 100, 0), ("small", 101, 10), ("large", 200, 0), ("large", 201, 10)]
    {
        let answer = client.produce(&produce(name, 1, LONG_WAIT_MS, &batch(size))).await;
        assert_eq!(answer.0, error, "{size} bytes in {name}");
    }
    for nonsense in ["-1", "many"] {
        assert_eq!(client.create_with("t", &[("max.message.bytes", nonsense)]).await, 40, "{nonsense}");
    }
}

#[tokio::test]
async fn a_setting_that_kafka_does_not_know_is_refused() {
    let broker = start(Config::default()).await;
    let mut client = Client::of(&broker).await;
    assert_eq!(client.create_with("t", &[("min.insync.replica", "2")]).await, 40, "a slip of the pen");
    for ignored in ["cleanup.policy", "retention.ms", "unclean.leader.election.enable"] {
        client.create(ignored, &[(ignored, "1000")]).await;
    }
}

#[tokio::test]
async fn who_sets_something_wrong_is_told_what() {
    let broker = start(Config::default()).await;
    let mut client = Client::of(&broker).await;
    let settings = ["retention.ms", "retention.bytes", "foo"].map(|name| {
        CreatableTopicConfig::default()
            .with_name(StrBytes::from_static_str(name))
            .with_value(Some(StrBytes::from_static_str("many")))
    });
    for (settings, culprit) in [(&settings[..], "retention.bytes"), (&settings[2..], "foo")] {
        let new = CreatableTopic::default().with_name(topic("t")).with_num_partitions(1);
        let new = new.with_replication_factor(1).with_configs(settings.to_vec());
        let request = CreateTopicsRequest::default().with_topics(vec![new]);
        let reply: CreateTopicsResponse = client.ask(ApiKey::CreateTopics, 5, &request).await;
        let (error, message) = (reply.topics[0].error_code, reply.topics[0].error_message.as_deref());
        assert_eq!(error, 40);
        assert!(message.expect("one").starts_with(&format!("INVALID_CONFIG: {culprit} ")), "{message:?}");
    }
}

#[tokio::test]
async fn records_are_deleted_when_every_follower_has_deleted_them() {
    let broker = patient().await;
    let mut client = Client::of(&broker).await;
    client.create("t", &[]).await;
    for offset in 0..5 {
        assert_eq!(client.produce(&produce("t", -1, LONG_WAIT_MS, &batch(100))).await, (0, offset));
    }
    eventually(&broker, "both wait for more", |stats| stats.parked == 2).await;
    assert_eq!(delete_records(&mut client, "t", 3, LONG_WAIT_MS).await, (0, 3));
    assert_eq!(broker.stats().partitions[0].log_start, 3);
    assert_eq!(client.fetch(&fetch("t", 2, LONG_WAIT_MS, 1)).await.0, 1, "out of range");
    assert_eq!(client.fetch(&fetch("t", 3, LONG_WAIT_MS, 1)).await, (0, 5, 200));
    assert_eq!(delete_records(&mut client, "t", -1, LONG_WAIT_MS).await, (0, 5), "everything");
    assert_eq!(delete_records(&mut client, "t", 6, LONG_WAIT_MS).await, (1, -1));
}

#[tokio::test]
async fn with_a_paused_follower_deleting_records_takes_its_time_and_is_done_here_all_the_same() {
    let broker = start(Config::default()).await;
    let mut client = Client::of(&broker).await;
    client.create("t", &[]).await;
    for offset in 0..4 {
        assert_eq!(client.produce(&produce("t", -1, LONG_WAIT_MS, &batch(100))).await, (0, offset));
    }
    broker.pause(Some(2));
    let begun = Instant::now();
    assert_eq!(delete_records(&mut client, "t", 2, 100).await, (7, 0));
    assert_in_time(begun, 100);
    assert_eq!(broker.stats().partitions[0].log_start, 2);
    broker.resume(None);
    assert_eq!(delete_records(&mut client, "t", 3, LONG_WAIT_MS).await, (0, 3));
}

#[tokio::test]
async fn a_poll_at_deleted_records_is_answered_at_once() {
    let broker = start(Config { replicas: 1, ..Config::default() }).await;
    let (mut consumer, mut client) = (Client::of(&broker).await, Client::of(&broker).await);
    client.create("t", &[]).await;
    for offset in 0..2 {
        assert_eq!(client.produce(&produce("t", -1, LONG_WAIT_MS, &batch(100))).await, (0, offset));
    }
    consumer.send(ApiKey::Fetch, 11, &fetch("t", 0, LONG_WAIT_MS, 1 << 20)).await;
    eventually(&broker, "it is parked", |stats| stats.fetch.pending == 1).await;
    assert_eq!(delete_records(&mut client, "t", 1, LONG_WAIT_MS).await, (0, 1));
    assert_eq!(consumer.fetched().await.0, 1);
}

#[tokio::test]
async fn a_client_that_goes_away_takes_whatever_it_waits_for_with_it() {
    let broker = start(Config::default()).await;
    let mut other = Client::of(&broker).await;
    other.create("t", &[]).await;
    assert_eq!(other.produce(&produce("t", -1, LONG_WAIT_MS, &batch(100))).await, (0, 0));
    broker.pause(None);
    eventually(&broker, "the followers are gone", |stats| stats.parked == 0).await;
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(Client::of(&broker).await);
    }
    let batch = produce("t", -1, LONG_WAIT_MS, &batch(100));
    clients[0].send(ApiKey::Produce, 7, &batch).await;
    let partition = DeleteRecordsPartition::default().with_offset(1);
    let of = DeleteRecordsTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
    let request = DeleteRecordsRequest::default().with_topics(vec![of]).with_timeout_ms(LONG_WAIT_MS);
    clients[1].send(ApiKey::DeleteRecords, 1, &request).await;
    let more = CreatePartitionsTopic::default().with_name(topic("t")).with_count(2).with_assignments(None);
    let request = CreatePartitionsRequest::default().with_topics(vec![more]).with_timeout_ms(LONG_WAIT_MS);
    clients[2].send(ApiKey::CreatePartitions, 1, &request).await;
    clients[3].send(ApiKey::Fetch, 11, &fetch("t", 1, LONG_WAIT_MS, 1)).await;
    eventually(&broker, "all four wait", |stats| stats.parked == 4).await;
    drop(clients);
    eventually(&broker, "none waits", |stats| stats.parked == 0).await;
    let stats = broker.stats();
    for books in [stats.produce, stats.delete_records, stats.topic] {
        assert_eq!((books.cancelled, books.watched), (1, 0), "{stats}");
    }
    assert_eq!(stats.partitions[0].log_end, 2, "what was appended stays");
}

#[tokio::test]
async fn an_idle_connection_is_closed_but_not_one_that_waits() {
    let limit = Duration::from_millis(200);
    let broker = start(Config { replicas: 1, connections_max_idle: limit, ..Config::default() }).await;
    let mut client = Client::of(&broker).await;
    client.create("t", &[]).await;
    // Its wait is longer than the limit, and after it the client has the whole time again.
    assert_eq!(client.fetch(&fetch("t", 0, 500, 1)).await, (0, 0, 0));
    let begun = Instant::now();
    assert_eq!(client.fetch(&fetch("t", 0, 0, 1)).await, (0, 0, 0));
    assert!(client.receive_frame().await.is_none(), "closed");
    assert_in_time(begun, limit.as_millis() as u64);
    eventually(&broker, "its timer is gone", |stats| (stats.connections, stats.timers) == (0, 1)).await;
}
