//! Groups over the wire: what a closed connection means, and what does not.

use std::time::{Duration, Instant};

use ixion_broker::{Broker, Config};
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;

use crate::client::{Client, eventually, start};

const SESSION: Duration = Duration::from_millis(400);

async fn broker() -> Broker {
    let config = Config {
        replicas: 1,
        group_initial_rebalance_delay: Duration::ZERO,
        group_min_session_timeout: Duration::from_millis(1),
        ..Config::default()
    };
    start(config).await
}

fn group() -> GroupId {
    GroupId(StrBytes::from_static_str("g"))
}

fn join(member_id: &StrBytes, session: Duration) -> JoinGroupRequest {
    let protocol = JoinGroupRequestProtocol::default().with_name(StrBytes::from_static_str("range"));
    JoinGroupRequest::default()
        .with_group_id(group())
        .with_session_timeout_ms(session.as_millis() as i32)
        .with_rebalance_timeout_ms(60_000)
        .with_member_id(member_id.clone())
        .with_protocol_type(StrBytes::from_static_str("consumer"))
        .with_protocols(vec![protocol])
}

/// Joins with a version that takes one request.
async fn joins(client: &mut Client, session: Duration) -> JoinGroupResponse {
    let joined: JoinGroupResponse =
        client.ask(ApiKey::JoinGroup, 3, &join(&StrBytes::default(), session)).await;
    assert_eq!(joined.error_code, 0);
    joined
}

async fn beats(client: &mut Client, joined: &JoinGroupResponse) -> i16 {
    let request = HeartbeatRequest::default()
        .with_group_id(group())
        .with_generation_id(joined.generation_id)
        .with_member_id(joined.member_id.clone());
    let reply: HeartbeatResponse = client.ask(ApiKey::Heartbeat, 3, &request).await;
    reply.error_code
}

#[tokio::test]
async fn a_closed_connection_evicts_nobody_before_its_session_is_over() {
    let broker = broker().await;
    let mut client = Client::of(&broker).await;
    let joined = joins(&mut client, Duration::from_secs(600)).await;
    drop(client);
    eventually(&broker, "the connection is closed", |stats| stats.connections == 0).await;
    assert_eq!(broker.stats().members, 1);
    let mut client = Client::of(&broker).await;
    assert_eq!(beats(&mut client, &joined).await, 0, "it goes on over another connection");
}

#[tokio::test]
async fn a_member_whose_connection_is_closed_is_evicted_after_its_session() {
    let broker = broker().await;
    let mut client = Client::of(&broker).await;
    let begun = Instant::now();
    joins(&mut client, SESSION).await;
    drop(client);
    eventually(&broker, "it is evicted", |stats| stats.members == 0).await;
    assert!(begun.elapsed() >= SESSION, "after {:?}", begun.elapsed());
}

#[tokio::test]
async fn a_member_that_hangs_up_while_it_joins_stays_in_its_group() {
    let broker = broker().await;
    let (mut first, mut second) = (Client::of(&broker).await, Client::of(&broker).await);
    let leader = joins(&mut first, Duration::from_secs(600)).await;
    second.send(ApiKey::JoinGroup, 3, &join(&StrBytes::default(), SESSION)).await;
    eventually(&broker, "there are two", |stats| stats.members == 2).await;
    drop(second);
    eventually(&broker, "it has hung up", |stats| stats.connections == 1).await;
    assert_eq!(beats(&mut first, &leader).await, 27, "the rebalance goes on");
    let again: JoinGroupResponse =
        first.ask(ApiKey::JoinGroup, 3, &join(&leader.member_id, Duration::from_secs(600))).await;
    assert_eq!((again.generation_id, again.members.len()), (2, 2), "and it counts");
    // From the answer that nobody reads its session counts, like any other.
    eventually(&broker, "it is evicted", |stats| stats.members == 1).await;
    assert_eq!(beats(&mut first, &again).await, 27);
}

#[tokio::test]
async fn a_shutdown_answers_those_who_join() {
    let broker = broker().await;
    let (mut first, mut second) = (Client::of(&broker).await, Client::of(&broker).await);
    joins(&mut first, Duration::from_secs(600)).await;
    second.send(ApiKey::JoinGroup, 3, &join(&StrBytes::default(), SESSION)).await;
    eventually(&broker, "there are two", |stats| stats.members == 2).await;
    let begun = Instant::now();
    broker.shutdown().await;
    assert!(begun.elapsed() < Duration::from_secs(4), "nobody had to be cut off");
    let refused: JoinGroupResponse = second.receive(3).await;
    assert_eq!(refused.error_code, 15);
}

#[tokio::test]
async fn heartbeats_without_a_pause_need_one_timer() {
    let broker = broker().await;
    let mut client = Client::of(&broker).await;
    let joined = joins(&mut client, Duration::from_secs(600)).await;
    for _ in 0..100 {
        assert_eq!(beats(&mut client, &joined).await, 0);
    }
    let stats = broker.stats();
    assert_eq!((stats.heartbeat.registered, stats.heartbeat.pending), (1, 1));
}

/// Joins, synchronizes, sends a heartbeat and leaves, whatever is answered.
async fn comes_and_goes(address: std::net::SocketAddr, group: &'static str) {
    let group = || GroupId(StrBytes::from_static_str(group));
    let mut client = Client::connect(address).await;
    for _ in 0..5 {
        // Whoever is not back in time is dropped, so nobody waits for long.
        let request = join(&StrBytes::default(), Duration::from_millis(500));
        let request = request.with_group_id(group()).with_rebalance_timeout_ms(50);
        let joined: JoinGroupResponse = client.ask(ApiKey::JoinGroup, 3, &request).await;
        let id = || joined.member_id.clone();
        let request = SyncGroupRequest::default().with_group_id(group()).with_member_id(id());
        let request = request.with_generation_id(joined.generation_id);
        let synced: SyncGroupResponse = client.ask(ApiKey::SyncGroup, 2, &request).await;
        let request = HeartbeatRequest::default().with_group_id(group()).with_member_id(id());
        let request = request.with_generation_id(joined.generation_id);
        let beat: HeartbeatResponse = client.ask(ApiKey::Heartbeat, 2, &request).await;
        let request = LeaveGroupRequest::default().with_group_id(group()).with_member_id(id());
        let left: LeaveGroupResponse = client.ask(ApiKey::LeaveGroup, 2, &request).await;
        for error in [joined.error_code, synced.error_code, beat.error_code, left.error_code] {
            assert!([0, 22, 25, 27].contains(&error), "error {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_books_balance_after_a_crowd_of_members() {
    let broker = broker().await;
    let address = broker.addr();
    let crowd: Vec<_> =
        (0..24).map(|number| tokio::spawn(comes_and_goes(address, ["a", "b", "c"][number % 3]))).collect();
    for member in crowd {
        member.await.expect("it was served");
    }
    eventually(&broker, "nothing is kept", |stats| (stats.groups, stats.members) == (0, 0)).await;
    eventually(&broker, "nobody waits", |stats| stats.rebalance.pending + stats.heartbeat.pending == 0).await;
    let stats = broker.stats();
    for books in [stats.rebalance, stats.heartbeat] {
        let ended = books.satisfied + books.expired;
        assert_eq!((books.registered, books.watched), (ended, 0), "{stats}");
    }
}
