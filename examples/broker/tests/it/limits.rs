//! What a broker does not put up with: too many connections, and those that take too long.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use bytes::Buf;
use ixion_broker::{Broker, Config};
use kafka_protocol::messages::{ApiKey, MetadataRequest};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::client::{Client, LONG_WAIT_MS, PATIENCE, batch, eventually, fetch, produce, start};

const LIMIT: Duration = Duration::from_millis(150);

fn impatient() -> Config {
    Config { replicas: 1, transfer_timeout: LIMIT, ..Config::default() }
}

/// Waits for the end of a connection on which nothing more is read.
async fn closed(client: &mut Client, since: Instant) -> Duration {
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(PATIENCE, client.stream.read_to_end(&mut rest)).await;
    if let Err(error) = ended.expect("it is closed") {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
    since.elapsed()
}

#[tokio::test]
async fn a_request_that_does_not_come_to_its_end_closes_the_connection() {
    let broker = start(impatient()).await;
    for part in [&[0][..], &[0, 0, 1], &[0, 0, 1, 0], &[0, 0, 1, 0, 0, 3, 0, 5]] {
        let mut client = Client::of(&broker).await;
        let since = Instant::now();
        client.stream.write_all(part).await.expect("open");
        let took = closed(&mut client, since).await;
        assert!(took >= LIMIT, "{took:?} with {part:?}");
    }
}

#[tokio::test]
async fn a_request_that_comes_byte_by_byte_is_answered_if_it_is_there_in_time() {
    let broker = start(Config { transfer_timeout: PATIENCE, ..impatient() }).await;
    let mut client = Client::of(&broker).await;
    let request = crate::client::frame(ApiKey::Metadata, 5, 9, &MetadataRequest::default());
    for byte in &request {
        client.stream.write_all(&[*byte]).await.expect("open");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(client.receive_frame().await.expect("a reply").get_i32(), 9);
}

#[tokio::test]
async fn a_connection_without_a_request_is_no_slow_one() {
    let broker = start(impatient()).await;
    let mut client = Client::of(&broker).await;
    client.create("t", &[]).await;
    assert_eq!(
        client.fetch(&fetch("t", 0, 3 * LIMIT.as_millis() as i32, 1)).await.0,
        0,
        "a wait is none either"
    );
    assert!(client.is_silent_for(3 * LIMIT).await);
    assert_eq!(client.produce(&produce("t", 1, 1000, &batch(100))).await, (0, 0));
}

/// Writes sixteen batches of 256 KiB.
async fn fill(broker: &Broker) {
    let mut writer = Client::of(broker).await;
    writer.create("t", &[]).await;
    for offset in 0..16 {
        assert_eq!(writer.produce(&produce("t", 1, 1000, &batch(256 << 10))).await, (0, offset));
    }
}

#[tokio::test]
async fn a_reply_that_is_not_taken_closes_the_connection() {
    let broker = start(impatient()).await;
    fill(&broker).await;
    // Small buffers, so that the reply does not fit into the system's.
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a socket can do that");
    let mut slow = socket.connect(broker.addr()).await.expect("it listens");
    let mut everything = fetch("t", 0, 0, 1).with_max_bytes(64 << 20);
    everything.topics[0].partitions[0].partition_max_bytes = 64 << 20;
    let request = crate::client::frame(ApiKey::Fetch, 11, 1, &everything);
    let mut requests = Vec::new();
    // As many as it takes to fill what the system holds for both ends.
    (0..8).for_each(|_| requests.extend_from_slice(&request));
    eventually(&broker, "only it is left", |stats| stats.connections == 1).await;
    let since = Instant::now();
    slow.write_all(&requests).await.expect("open");
    eventually(&broker, "it is cut off", |stats| stats.connections == 0).await;
    assert!(since.elapsed() >= LIMIT);
    drop(slow);
}

#[tokio::test]
async fn an_answer_of_the_control_port_that_is_not_taken_closes_the_connection() {
    let control = Some(([127, 0, 0, 1], 0).into());
    let broker = start(Config { control, ..impatient() }).await;
    let address = broker.control_addr().expect("it has one");
    let mut client = TcpStream::connect(address).await.expect("it listens");
    let cut_off = async { while client.write_all(&b"stats\n".repeat(1000)).await.is_ok() {} };
    tokio::time::timeout(PATIENCE, cut_off).await.expect("it is cut off");
}

#[tokio::test]
async fn a_reply_is_as_long_as_there_is_memory_for_it_and_at_least_a_batch() {
    let mut read = Vec::new();
    for buffer_total_bytes in [400 << 10, 4 << 20, 1 << 30] {
        let broker = start(Config { buffer_total_bytes, ..impatient() }).await;
        fill(&broker).await;
        let mut client = Client::of(&broker).await;
        let mut everything = fetch("t", 0, LONG_WAIT_MS, 1).with_max_bytes(64 << 20);
        everything.topics[0].partitions[0].partition_max_bytes = 64 << 20;
        read.push(client.fetch(&everything).await.2 >> 18);
    }
    assert_eq!(read, [1, 4, 16], "batches: one whole; what a quarter has room for; all");
}

#[tokio::test]
async fn large_requests_that_come_at_once_share_the_memory_and_come_to_their_ends() {
    let config = Config { replicas: 1, buffer_total_bytes: 1 << 20, ..Config::default() };
    let broker = start(config).await;
    Client::of(&broker).await.create("t", &[]).await;
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let mut client = Client::of(&broker).await;
        clients.spawn(async move {
            let request = produce("t", 1, 1000, &batch(600 << 10));
            let request = crate::client::frame(ApiKey::Produce, 7, 0, &request);
            let (part, rest) = request.split_at(250 << 10);
            client.stream.write_all(part).await.expect("open");
            // Until each has come as far as it can.
            tokio::time::sleep(LIMIT).await;
            client.stream.write_all(rest).await.expect("open");
            client.produced().await
        });
    }
    let mut offsets: Vec<i64> = clients.join_all().await.into_iter().map(|(_, offset)| offset).collect();
    offsets.sort_unstable();
    assert_eq!(offsets, [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[tokio::test]
async fn a_request_that_is_larger_than_all_the_memory_comes_alone() {
    let broker = start(Config { buffer_total_bytes: 300 << 10, ..impatient() }).await;
    let mut client = Client::of(&broker).await;
    client.create("t", &[]).await;
    for (offset, size) in (0..).zip([300 << 10, 400 << 10, 1 << 20]) {
        assert_eq!(client.produce(&produce("t", 1, 1000, &batch(size))).await, (0, offset), "{size}");
    }
}

#[tokio::test]
async fn a_request_that_waits_does_not_keep_its_memory() {
    let config = Config { replicas: 2, buffer_total_bytes: 1 << 20, ..impatient() };
    let broker = start(config).await;
    Client::of(&broker).await.create("t", &[]).await;
    broker.pause(None);
    let mut waiting = Vec::new();
    for requests in 1..=4 {
        let mut client = Client::of(&broker).await;
        client.send(ApiKey::Produce, 7, &produce("t", -1, LONG_WAIT_MS, &batch(600 << 10))).await;
        eventually(&broker, "it waits for the follower", |stats| stats.produce.pending == requests).await;
        waiting.push(client);
    }
    broker.resume(None);
    for (offset, client) in (0..).zip(&mut waiting) {
        assert_eq!(client.produced().await, (0, offset));
    }
}

#[tokio::test]
async fn one_connection_too_many_is_closed_at_once() {
    let broker = start(Config { max_connections: 2, ..impatient() }).await;
    let (mut first, second) = (Client::of(&broker).await, Client::of(&broker).await);
    eventually(&broker, "both are served", |stats| stats.connections == 2).await;
    let mut third = Client::of(&broker).await;
    closed(&mut third, Instant::now()).await;
    first.create("t", &[]).await;
    drop(second);
    eventually(&broker, "there is room", |stats| stats.connections == 1).await;
    let mut fourth = Client::of(&broker).await;
    assert_eq!(fourth.produce(&produce("t", 1, 1000, &batch(100))).await, (0, 0));
}

#[tokio::test]
async fn a_leader_that_does_not_answer_is_not_waited_for_for_ever() {
    // It listens and accepts, and that is all.
    let leader = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = leader.local_addr().expect("it has one");
    let listen = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let follower =
        Broker::follow(address, 2, Config { listen, ..impatient() }).await.expect("a port is free");
    let mut client = Client::of(&follower).await;
    let since = Instant::now();
    client.send(ApiKey::Metadata, 5, &MetadataRequest::default()).await;
    assert!(client.receive_frame().await.is_none());
    let took = since.elapsed();
    assert!(took >= LIMIT && took < PATIENCE / 2, "{took:?}");
    let mut client = Client::of(&follower).await;
    let since = Instant::now();
    let create = kafka_protocol::messages::DeleteTopicsRequest::default().with_timeout_ms(200);
    client.send(ApiKey::DeleteTopics, 4, &create).await;
    assert!(client.receive_frame().await.is_none());
    assert!(since.elapsed() >= LIMIT + Duration::from_millis(200), "the leader may take that long");
    drop(leader);
}
