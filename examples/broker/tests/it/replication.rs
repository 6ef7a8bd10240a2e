//! The leader, its followers, and the control port.

use std::time::Duration;

use ixion_broker::Config;
use kafka_protocol::messages::ApiKey;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::client::{Client, LONG_WAIT_MS, batch, eventually, fetch, produce, start};

#[tokio::test]
async fn all_acks_are_given_when_the_followers_have_it() {
    let broker = start(Config::default()).await;
    let mut client = Client::of(&broker).await;
    client.create("t", &[("min.insync.replicas", "3")]).await;
    for offset in 0..20 {
        assert_eq!(client.produce(&produce("t", -1, LONG_WAIT_MS, &batch(100))).await, (0, offset));
        assert_eq!(broker.stats().partitions[0].high_watermark, offset + 1);
    }
}

#[tokio::test]
async fn a_topic_that_is_new_does_not_wait_for_the_followers_next_round() {
    // The followers' fetches wait for longer than the test: they have to be told.
    let hour = Duration::from_secs(3600);
    let config = Config { replica_fetch_wait: hour, replica_lag_time_max: 4 * hour, ..Config::default() };
    let broker = start(config).await;
    let mut client = Client::of(&broker).await;
    for name in ["a", "b", "c"] {
        client.create(name, &[]).await;
        assert_eq!(client.produce(&produce(name, -1, LONG_WAIT_MS, &batch(100))).await, (0, 0));
    }
    client.delete("b").await;
    client.create("b", &[]).await;
    assert_eq!(client.produce(&produce("b", -1, LONG_WAIT_MS, &batch(100))).await, (0, 0), "a new log");
}

#[tokio::test]
async fn a_paused_follower_acknowledges_nothing_until_it_is_resumed() {
    let broker = start(Config::default()).await;
    let mut client = Client::of(&broker).await;
    client.create("t", &[]).await;
    for round in 0..20 {
        let first = 2 * round;
        assert_eq!(client.produce(&produce("t", -1, LONG_WAIT_MS, &batch(100))).await, (0, first));
        broker.pause(Some(2));
        assert_eq!(client.produce(&produce("t", -1, 10, &batch(100))).await, (7, first + 1));
        assert_eq!(broker.stats().partitions[0].high_watermark, first + 1);
        let unseen = client.fetch(&fetch("t", first + 1, 1, 1)).await;
        assert_eq!(unseen, (0, first + 1, 0), "what is not replicated is not seen");
        broker.resume(Some(2));
        eventually(&broker, "it catches up", |stats| stats.partitions[0].high_watermark == first + 2).await;
    }
}

#[tokio::test]
async fn a_consumer_ahead_of_the_high_watermark_waits_for_it() {
    let broker = start(Config::default()).await;
    let (mut consumer, mut producer) = (Client::of(&broker).await, Client::of(&broker).await);
    producer.create("t", &[]).await;
    broker.pause(None);
    for offset in 0..2 {
        assert_eq!(producer.produce(&produce("t", 1, 1000, &batch(100))).await, (0, offset));
    }
    consumer.send(ApiKey::Fetch, 11, &fetch("t", 1, LONG_WAIT_MS, 1)).await;
    eventually(&broker, "it is parked", |stats| stats.fetch.registered > 0 && stats.parked == 1).await;
    broker.resume(None);
    assert_eq!(consumer.fetched().await, (0, 2, 100));
}

#[tokio::test]
async fn followers_that_lag_leave_the_in_sync_set_and_come_back() {
    let lag = Duration::from_millis(100);
    let broker = start(Config { replica_lag_time_max: lag, ..Config::default() }).await;
    let mut client = Client::of(&broker).await;
    client.create("t", &[("min.insync.replicas", "2")]).await;
    assert_eq!(client.produce(&produce("t", -1, LONG_WAIT_MS, &batch(100))).await, (0, 0));

    broker.pause(Some(3));
    // It waits for node 3 until that is no longer in sync; then two have it, which is enough.
    assert_eq!(client.produce(&produce("t", -1, LONG_WAIT_MS, &batch(100))).await, (0, 1));
    assert_eq!(broker.stats().partitions[0].isr, [1, 2]);

    broker.pause(Some(2));
    // Now the set shrinks below the minimum while the request waits: the high watermark stands still.
    assert_eq!(client.produce(&produce("t", -1, 1000, &batch(100))).await, (7, 2));
    eventually(&broker, "only the leader is in sync", |stats| stats.isr == 1).await;
    assert_eq!(
        client.produce(&produce("t", -1, LONG_WAIT_MS, &batch(100))).await,
        (19, -1),
        "refused at once"
    );
    assert_eq!(client.produce(&produce("t", 1, 1000, &batch(100))).await, (0, 3), "other acks are served");
    assert_eq!(broker.stats().partitions[0].high_watermark, 2);

    broker.resume(None);
    eventually(&broker, "all are back", |stats| stats.isr == 3 && stats.partitions[0].high_watermark == 4)
        .await;
    assert_eq!(client.produce(&produce("t", -1, LONG_WAIT_MS, &batch(100))).await, (0, 4));
}

#[tokio::test]
async fn a_follower_that_fell_out_of_the_log_begins_anew() {
    let config = Config { replica_lag_time_max: Duration::from_millis(50), ..Config::default() };
    let broker = start(config).await;
    let mut client = Client::of(&broker).await;
    client.create("t", &[("retention.bytes", "250")]).await;
    broker.pause(None);
    assert_eq!(client.produce(&produce("t", 1, 1000, &batch(100))).await, (0, 0));
    eventually(&broker, "the leader goes on alone", |stats| stats.isr == 1).await;
    for offset in 1..6 {
        assert_eq!(client.produce(&produce("t", 1, 1000, &batch(100))).await, (0, offset));
    }
    assert_eq!(broker.stats().partitions[0].log_start, 4);
    broker.resume(None);
    eventually(&broker, "they are back", |stats| stats.isr == 3).await;
    assert_eq!(client.produce(&produce("t", -1, LONG_WAIT_MS, &batch(100))).await, (0, 6));
}

#[tokio::test]
async fn the_control_port_answers_a_line_for_a_line() {
    let broker = start(Config::default()).await;
    let stream = TcpStream::connect(broker.control_addr().expect("there is one")).await.expect("it listens");
    let mut control = BufReader::new(stream);
    for (command, answer) in [
        ("pause", "ok"),
        ("resume 2", "ok"),
        ("stats", "{\"produce\":{\"registered\":0,"),
        ("pause 9", "error no such follower"),
        ("halt and catch fire", "error "),
        ("resume", "ok"),
    ] {
        control.write_all(format!("{command}\n").as_bytes()).await.expect("open");
        let mut line = String::new();
        control.read_line(&mut line).await.expect("open");
        assert!(line.starts_with(answer), "{command}: {line}");
    }
    assert!(broker.stats().paused.is_empty());
}
