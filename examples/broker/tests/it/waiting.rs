//! Requests that wait, and what ends the wait.

use std::time::{Duration, Instant};

use ixion_broker::Config;

use crate::client::{
    Client, LONG_WAIT_MS, PATIENCE, batch, eventually, eventually_parked, fetch, produce, sequenced_batch,
    start,
};

/// One node: nobody waits but the clients.
fn alone() -> Config {
    Config { replicas: 1, ..Config::default() }
}

#[tokio::test]
async fn an_empty_fetch_is_answered_when_its_time_is_up_and_never_before() {
    let broker = start(Config::default()).await;
    let mut client = Client::of(&broker).await;
    client.create("t", &[]).await;
    for wait_ms in [1, 20, 150] {
        let start = Instant::now();
        assert_eq!(client.fetch(&fetch("t", 0, wait_ms, 1)).await, (0, 0, 0));
        let waited = start.elapsed();
        assert!(waited >= Duration::from_millis(wait_ms as u64), "{waited:?} of {wait_ms} ms");
        assert!(waited < PATIENCE / 2, "{waited:?} of {wait_ms} ms");
    }
}

#[tokio::test]
async fn with_nothing_to_wait_for_the_answer_comes_at_once() {
    let broker = start(alone()).await;
    let mut client = Client::of(&broker).await;
    client.create("t", &[]).await;
    assert_eq!(client.fetch(&fetch("t", 0, 0, 1)).await, (0, 0, 0), "no time");
    assert_eq!(client.fetch(&fetch("t", 0, LONG_WAIT_MS, 0)).await, (0, 0, 0), "no bytes wanted");
    assert_eq!(client.fetch(&fetch("t", 5, LONG_WAIT_MS, 1)).await.0, 1, "a bad offset");
    assert_eq!(client.fetch(&fetch("unknown", 0, LONG_WAIT_MS, 1)).await.0, 3, "an unknown topic");
    assert_eq!(broker.stats().fetch.registered, 0, "none of them went to the purgatory");
}

#[tokio::test]
async fn an_append_wakes_a_fetch_when_there_are_enough_bytes() {
    let broker = start(alone()).await;
    let (mut consumer, mut producer) = (Client::of(&broker).await, Client::of(&broker).await);
    producer.create("t", &[]).await;
    consumer.send(kafka_protocol::messages::ApiKey::Fetch, 11, &fetch("t", 0, LONG_WAIT_MS, 300)).await;
    eventually_parked(&broker, 1, 0).await;
    for appended in 1..=3 {
        assert_eq!(producer.produce(&produce("t", 1, 1000, &batch(100))).await, (0, appended - 1));
        let stats = broker.stats();
        assert_eq!((stats.parked, stats.fetch.watched), if appended < 3 { (1, 1) } else { (0, 0) });
    }
    assert_eq!(consumer.fetched().await, (0, 3, 300));
}

#[tokio::test]
async fn a_deleted_topic_answers_everybody_who_waits_on_it() {
    let broker = start(Config::default()).await;
    let (mut consumer, mut producer) = (Client::of(&broker).await, Client::of(&broker).await);
    let mut other = Client::of(&broker).await;
    other.create("t", &[]).await;
    broker.pause(None);
    consumer.send(kafka_protocol::messages::ApiKey::Fetch, 11, &fetch("t", 0, LONG_WAIT_MS, 1)).await;
    producer
        .send(kafka_protocol::messages::ApiKey::Produce, 7, &produce("t", -1, LONG_WAIT_MS, &batch(100)))
        .await;
    eventually(&broker, "both wait", |stats| stats.produce.pending == 1 && stats.parked == 2).await;
    assert_eq!(other.delete_within("t", 10).await, 7, "no follower has dropped it");
    assert_eq!(consumer.fetched().await.0, 3);
    assert_eq!(producer.produced().await.0, 3);
    eventually(&broker, "nothing is kept", |stats| stats.produce.watched + stats.fetch.watched == 0).await;
}

#[tokio::test]
async fn a_client_that_goes_away_takes_its_waiting_fetch_with_it() {
    let broker = start(alone()).await;
    let mut client = Client::of(&broker).await;
    client.create("t", &[]).await;
    client.send(kafka_protocol::messages::ApiKey::Fetch, 11, &fetch("t", 0, LONG_WAIT_MS, 1)).await;
    eventually_parked(&broker, 1, 0).await;
    drop(client);
    eventually_parked(&broker, 0, 0).await;
    let stats = broker.stats();
    assert_eq!(
        (stats.fetch.cancelled, stats.fetch.watched, stats.timers),
        (1, 0, 1 + stats.connections),
        "but for the lag check, and those of connections"
    );
}

#[tokio::test]
async fn a_shutdown_answers_what_waits() {
    let broker = start(Config::default()).await;
    let (mut consumer, mut producer) = (Client::of(&broker).await, Client::of(&broker).await);
    producer.create("t", &[]).await;
    broker.pause(None);
    consumer.send(kafka_protocol::messages::ApiKey::Fetch, 11, &fetch("t", 0, LONG_WAIT_MS, 1)).await;
    producer
        .send(kafka_protocol::messages::ApiKey::Produce, 7, &produce("t", -1, LONG_WAIT_MS, &batch(100)))
        .await;
    eventually(&broker, "both wait", |stats| stats.produce.pending == 1 && stats.parked == 2).await;
    let start = Instant::now();
    broker.shutdown().await;
    assert!(start.elapsed() < Duration::from_secs(4), "nobody had to be cut off");
    assert_eq!(consumer.fetched().await, (0, 0, 0));
    assert_eq!(producer.produced().await, (7, 0), "not replicated, and nobody will know");
    assert!(consumer.receive_frame().await.is_none());
}

#[tokio::test]
async fn a_batch_that_is_sent_again_after_a_timeout_is_there_once() {
    let broker = start(Config::default()).await;
    let mut client = Client::of(&broker).await;
    client.create("t", &[]).await;
    broker.pause(Some(3));
    let request = produce("t", -1, 30, &sequenced_batch(100, 5, 0));
    assert_eq!(client.produce(&request).await, (7, 0));
    assert_eq!(client.produce(&request).await, (7, 0), "the second try waits like the first");
    broker.resume(Some(3));
    let patient = produce("t", -1, LONG_WAIT_MS, &sequenced_batch(100, 5, 0));
    assert_eq!(client.produce(&patient).await, (0, 0));
    assert_eq!(client.fetch(&fetch("t", 0, LONG_WAIT_MS, 1)).await, (0, 1, 100));
}

#[tokio::test]
async fn the_books_balance_after_a_crowd() {
    let broker = start(Config::default()).await;
    let address = broker.addr();
    Client::of(&broker).await.create("t", &[]).await;
    let client = |number: i64| async move {
        let mut client = Client::connect(address).await;
        for round in 0..20 {
            if (number + round) % 3 == 0 {
                assert_eq!(client.produce(&produce("t", -1, LONG_WAIT_MS, &batch(100))).await.0, 0);
            } else {
                assert_eq!(client.fetch(&fetch("t", 0, 5, 1 << 20)).await.0, 0);
            }
        }
    };
    let crowd: Vec<_> = (0..30).map(|number| tokio::spawn(client(number))).collect();
    for member in crowd {
        member.await.expect("it was served");
    }
    broker.pause(None);
    eventually(&broker, "nobody waits", |stats| stats.parked == 0).await;
    let stats = broker.stats();
    for books in [stats.produce, stats.fetch] {
        let ended = books.satisfied
            + books.expired
            + books.forced
            + books.cancelled
            + books.shut_down
            + books.panicked;
        assert_eq!((books.registered, books.pending, books.watched), (ended, 0, 0), "{stats}");
    }
    assert_eq!(stats.partitions[0].log_end, 200);
}
