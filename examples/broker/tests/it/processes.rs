//! A leader and its followers, each for itself, as if in processes of their own.

use std::net::SocketAddr;
use std::time::Duration;

use ixion_broker::{Broker, Config};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;
use tokio::net::TcpSocket;

use crate::client::{Client, LONG_WAIT_MS, PATIENCE, batch, eventually, fetch, produce, start};

/// A leader whose followers are elsewhere. Where they listen is not tried here.
async fn leader(config: Config) -> Broker {
    let elsewhere = |port| SocketAddr::from(([127, 0, 0, 1], port));
    start(Config { followers: vec![elsewhere(1), elsewhere(2)], ..config }).await
}

async fn follower(leader: &Broker, node: u16) -> Broker {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    Broker::follow(leader.addr(), node, Config { listen, ..Config::default() }).await.expect("a port is free")
}

#[tokio::test]
async fn followers_elsewhere_copy_and_acknowledge_like_those_here() {
    let leader = leader(Config::default()).await;
    let (second, third) = (follower(&leader, 2).await, follower(&leader, 3).await);
    let mut client = Client::of(&leader).await;
    client.create("t", &[("min.insync.replicas", "3")]).await;
    for offset in 0..20 {
        assert_eq!(client.produce(&produce("t", -1, LONG_WAIT_MS, &batch(100))).await, (0, offset));
    }
    client.delete("t").await;
    client.create("t", &[]).await;
    assert_eq!(client.produce(&produce("t", -1, LONG_WAIT_MS, &batch(100))).await, (0, 0), "a new log");
    drop((second, third));
}

#[tokio::test]
async fn a_follower_that_ends_leaves_the_in_sync_set_and_one_that_begins_anew_comes_back() {
    let lag = Duration::from_millis(200);
    let leader = leader(Config { replica_lag_time_max: lag, ..Config::default() }).await;
    let (_second, third) = (follower(&leader, 2).await, follower(&leader, 3).await);
    let mut client = Client::of(&leader).await;
    client.create("t", &[("min.insync.replicas", "2")]).await;
    assert_eq!(client.produce(&produce("t", -1, LONG_WAIT_MS, &batch(100))).await, (0, 0));
    drop(third);
    eventually(&leader, "it is out of sync", |stats| stats.partitions[0].isr == [1, 2]).await;
    assert_eq!(client.produce(&produce("t", -1, LONG_WAIT_MS, &batch(100))).await, (0, 1));
    // It has lost everything, so it begins where the leader's log begins.
    let _third = follower(&leader, 3).await;
    eventually(&leader, "it has caught up", |stats| stats.isr == 3).await;
    assert_eq!(client.produce(&produce("t", -1, LONG_WAIT_MS, &batch(100))).await, (0, 2));
}

#[tokio::test]
async fn the_leader_can_pause_a_follower_elsewhere() {
    let leader = leader(Config::default()).await;
    let _followers = (follower(&leader, 2).await, follower(&leader, 3).await);
    let mut client = Client::of(&leader).await;
    client.create("t", &[]).await;
    assert_eq!(client.produce(&produce("t", -1, LONG_WAIT_MS, &batch(100))).await, (0, 0));
    leader.pause(Some(2));
    assert_eq!(client.produce(&produce("t", -1, 50, &batch(100))).await, (7, 1));
    leader.resume(Some(2));
    assert_eq!(client.produce(&produce("t", -1, LONG_WAIT_MS, &batch(100))).await, (0, 2));
}

#[tokio::test]
async fn a_follower_elsewhere_lets_the_leader_answer_and_refuses_what_only_the_leader_can_do() {
    let leader = leader(Config::default()).await;
    let (second, _third) = (follower(&leader, 2).await, follower(&leader, 3).await);
    Client::of(&leader).await.create("t", &[]).await;
    let mut client = Client::of(&second).await;
    let metadata: MetadataResponse =
        client.ask(ApiKey::Metadata, 5, &MetadataRequest::default().with_topics(None)).await;
    assert_eq!((metadata.brokers.len(), metadata.topics.len()), (3, 1));
    let group = FindCoordinatorRequest::default().with_key(StrBytes::from_static_str("group"));
    let coordinator: FindCoordinatorResponse = client.ask(ApiKey::FindCoordinator, 2, &group).await;
    assert_eq!((coordinator.node_id, coordinator.port), (BrokerId(1), i32::from(leader.addr().port())));
    assert_eq!(client.produce(&produce("t", -1, 1000, &batch(100))).await, (6, -1));
    assert_eq!(client.fetch(&fetch("t", 0, LONG_WAIT_MS, 1)).await, (6, -1, 0));
    let heartbeat = HeartbeatRequest::default().with_member_id(StrBytes::from_static_str("m"));
    let refused: HeartbeatResponse = client.ask(ApiKey::Heartbeat, 3, &heartbeat).await;
    assert_eq!(refused.error_code, 16);
    // Without a leader it has no answer, and says so by closing the connection.
    leader.shutdown().await;
    client.send(ApiKey::Metadata, 5, &MetadataRequest::default()).await;
    assert!(client.receive_frame().await.is_none());
}

#[tokio::test]
async fn node_1_can_be_no_follower() {
    let leader = leader(Config::default()).await;
    assert!(Broker::follow(leader.addr(), 1, Config::default()).await.is_err());
}

/// An address where nobody listens, and only who is told it will.
fn reserved() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_reuseaddr(true).expect("a socket can do that");
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port is free");
    let address = socket.local_addr().expect("it is bound");
    (socket, address)
}

/// Waits until a follower says that something is wrong, in such words; or that nothing is.
async fn told(follower: &Broker, words: Option<&str>) {
    let mut trouble = follower.trouble();
    let is_told = |trouble: &Option<String>| match (trouble, words) {
        (Some(trouble), Some(words)) => trouble.contains(words),
        (None, None) => true,
        _ => false,
    };
    let told = tokio::time::timeout(PATIENCE, trouble.wait_for(is_told)).await;
    assert!(matches!(told, Ok(Ok(_))), "not {words:?}: {:?}", *follower.trouble().borrow());
}

#[tokio::test]
async fn a_follower_says_what_keeps_it_from_its_leader_and_when_all_is_well() {
    let ((_first, serves), (_second, listens)) = (reserved(), reserved());
    let config = Config { listen: listens, ..Config::default() };
    let follower = Broker::follow(serves, 2, config).await.expect("the port is free");
    told(&follower, Some(&format!("cannot reach the leader at {serves}"))).await;
    let config = Config { listen: serves, followers: vec![listens], ..Config::default() };
    let leader = Broker::start(config).await.expect("the port is free");
    told(&follower, None).await;
    leader.pause(None);
    told(&follower, Some("has hung up")).await;
    leader.resume(None);
    told(&follower, None).await;
    leader.shutdown().await;
    told(&follower, Some("cannot reach")).await;
}

#[tokio::test]
async fn a_follower_says_the_same_trouble_once() {
    let (_socket, serves) = reserved();
    let (_other, listens) = reserved();
    let config = Config { listen: listens, ..Config::default() };
    let follower = Broker::follow(serves, 2, config).await.expect("the port is free");
    let mut trouble = follower.trouble();
    trouble.changed().await.expect("it is there");
    // It tries many times in this while.
    assert!(tokio::time::timeout(Duration::from_millis(500), trouble.changed()).await.is_err());
}

#[tokio::test]
async fn a_follower_with_a_number_or_an_address_that_the_leader_does_not_know_says_so() {
    let leader = leader(Config::default()).await;
    let ninth = follower(&leader, 9).await;
    told(&ninth, Some("has no node 9; its nodes are 1, 2, 3")).await;
    let second = follower(&leader, 2).await;
    told(&second, Some("has been told that node 2 is at 127.0.0.1:1")).await;
}
