//! The requests of groups, at every version.

use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;

use super::*;

fn group(name: &'static str) -> GroupId {
    GroupId(StrBytes::from_static_str(name))
}

fn join_request(version: i16, member_id: &StrBytes) -> JoinGroupRequest {
    let protocol = JoinGroupRequestProtocol::default()
        .with_name(StrBytes::from_static_str("range"))
        .with_metadata(Bytes::from_static(b"about"));
    let request = JoinGroupRequest::default()
        .with_group_id(group("g"))
        .with_session_timeout_ms(10_000)
        .with_member_id(member_id.clone())
        .with_protocol_type(StrBytes::from_static_str("consumer"))
        .with_protocols(vec![protocol]);
    if version >= 1 { request.with_rebalance_timeout_ms(20_000) } else { request }
}

impl Bench {
    async fn join(&self, version: i16) -> JoinGroupResponse {
        let request = join_request(version, &StrBytes::default());
        let reply: JoinGroupResponse = self.ask(ApiKey::JoinGroup, version, &request).await;
        if version < 4 {
            return reply;
        }
        assert_eq!((reply.error_code, reply.generation_id), (79, -1), "its id first, version {version}");
        assert!(reply.member_id.starts_with("test-"), "{}", reply.member_id);
        self.ask(ApiKey::JoinGroup, version, &join_request(version, &reply.member_id)).await
    }

    async fn sync(&self, version: i16, joined: &JoinGroupResponse) -> SyncGroupResponse {
        let assignment = SyncGroupRequestAssignment::default()
            .with_member_id(joined.member_id.clone())
            .with_assignment(Bytes::from_static(b"all of it"));
        let request = SyncGroupRequest::default()
            .with_group_id(group("g"))
            .with_generation_id(joined.generation_id)
            .with_member_id(joined.member_id.clone())
            .with_assignments(vec![assignment]);
        let request = if version >= 5 {
            request
                .with_protocol_type(Some(StrBytes::from_static_str("consumer")))
                .with_protocol_name(Some(StrBytes::from_static_str("range")))
        } else {
            request
        };
        self.ask(ApiKey::SyncGroup, version, &request).await
    }

    async fn beat(&self, version: i16, joined: &JoinGroupResponse) -> i16 {
        let request = HeartbeatRequest::default()
            .with_group_id(group("g"))
            .with_generation_id(joined.generation_id)
            .with_member_id(joined.member_id.clone());
        let reply: HeartbeatResponse = self.ask(ApiKey::Heartbeat, version, &request).await;
        reply.error_code
    }

    async fn leave(&self, version: i16, joined: &JoinGroupResponse) -> i16 {
        let request = LeaveGroupRequest::default().with_group_id(group("g"));
        let request = if version < 3 {
            request.with_member_id(joined.member_id.clone())
        } else {
            let member = MemberIdentity::default().with_member_id(joined.member_id.clone());
            request.with_members(vec![member])
        };
        let reply: LeaveGroupResponse = self.ask(ApiKey::LeaveGroup, version, &request).await;
        reply.members.first().map_or(reply.error_code, |member| member.error_code)
    }

    async fn commit(&self, version: i16, name: &'static str, offset: i64) -> Vec<i16> {
        let partition = |index| {
            let partition = OffsetCommitRequestPartition::default()
                .with_partition_index(index)
                .with_committed_offset(offset)
                .with_committed_metadata(Some(StrBytes::from_static_str("note")));
            if version >= 6 { partition.with_committed_leader_epoch(0) } else { partition }
        };
        let topic = OffsetCommitRequestTopic::default()
            .with_name(topic(name))
            .with_partitions(vec![partition(0), partition(9)]);
        let request = OffsetCommitRequest::default()
            .with_group_id(group("g"))
            .with_generation_id_or_member_epoch(-1)
            .with_topics(vec![topic]);
        let reply: OffsetCommitResponse = self.ask(ApiKey::OffsetCommit, version, &request).await;
        reply.topics[0].partitions.iter().map(|partition| partition.error_code).collect()
    }

    /// (topic, partition, error, offset) of what was committed: of partitions 0 and 1, or of all that there are.
    async fn committed(&self, version: i16, name: Option<&'static str>) -> Vec<(String, i32, i16, i64)> {
        let request = if version >= 8 {
            let topics = name.map(|name| {
                let topic = OffsetFetchRequestTopics::default().with_name(topic(name));
                vec![topic.with_partition_indexes(vec![0, 1])]
            });
            let of = OffsetFetchRequestGroup::default().with_group_id(group("g")).with_topics(topics);
            OffsetFetchRequest::default().with_groups(vec![of]).with_topics(Some(Vec::new()))
        } else {
            let topics = name.map(|name| {
                let topic = OffsetFetchRequestTopic::default().with_name(topic(name));
                vec![topic.with_partition_indexes(vec![0, 1])]
            });
            OffsetFetchRequest::default().with_group_id(group("g")).with_topics(topics)
        };
        let reply: OffsetFetchResponse = self.ask(ApiKey::OffsetFetch, version, &request).await;
        let expected = if self.session.node == LEADER { 0 } else { 16 };
        assert_eq!(reply.error_code, if (2..8).contains(&version) { expected } else { 0 });
        assert!(reply.groups.iter().all(|group| group.error_code == expected));
        let mut found = Vec::new();
        for topic in reply.topics {
            found.extend(topic.partitions.iter().map(|partition| {
                let name = topic.name.to_string();
                (name, partition.partition_index, partition.error_code, partition.committed_offset)
            }));
        }
        for topic in reply.groups.into_iter().flat_map(|group| group.topics) {
            found.extend(topic.partitions.iter().map(|partition| {
                let name = topic.name.to_string();
                (name, partition.partition_index, partition.error_code, partition.committed_offset)
            }));
        }
        found
    }
}

#[tokio::test]
async fn join_group_at_every_version() {
    let bench = Bench::new().await;
    for version in versions_of(ApiKey::JoinGroup) {
        let joined = bench.join(version).await;
        assert_eq!((joined.error_code, joined.generation_id), (0, 1), "version {version}");
        assert_eq!(joined.protocol_name.as_deref(), Some("range"));
        assert_eq!((&joined.leader, joined.members.len()), (&joined.member_id, 1));
        assert_eq!(joined.members[0].metadata[..], b"about"[..]);
        assert_eq!(joined.protocol_type.is_some(), version >= 7);
        let unknown = join_request(version, &StrBytes::from_static_str("nobody"));
        let refused: JoinGroupResponse = bench.ask(ApiKey::JoinGroup, version, &unknown).await;
        assert_eq!((refused.error_code, refused.member_id.as_str()), (25, "nobody"));
        // Null only from version 7 on.
        assert_eq!(refused.protocol_name.as_deref(), if version < 7 { Some("") } else { None });
        assert_eq!(bench.leave(0, &joined).await, 0);
    }
}

#[test]
fn a_rebalance_takes_as_long_as_a_member_says_or_else_its_session() {
    let request = |version| join_request(version, &StrBytes::default());
    let timeout = |version| crate::handlers::group::rebalance_timeout(&request(version)).as_millis();
    assert_eq!([0, 1, 7].map(timeout), [10_000, 20_000, 20_000]);
}

#[tokio::test]
async fn an_instance_id_is_passed_through_by_the_versions_that_have_one() {
    let bench = Bench::new().await;
    for version in 5..=*versions_of(ApiKey::JoinGroup).end() {
        let request = join_request(version, &StrBytes::default())
            .with_group_instance_id(Some(StrBytes::from_static_str("instance")));
        let joined: JoinGroupResponse = bench.ask(ApiKey::JoinGroup, version, &request).await;
        assert_eq!((joined.error_code, joined.members.len()), (0, 1));
        assert_eq!(joined.members[0].group_instance_id.as_deref(), Some("instance"));
    }
}

#[tokio::test]
async fn sync_group_at_every_version() {
    let bench = Bench::new().await;
    for version in versions_of(ApiKey::SyncGroup) {
        let joined = bench.join(0).await;
        let synced = bench.sync(version, &joined).await;
        assert_eq!((synced.error_code, &synced.assignment[..]), (0, &b"all of it"[..]), "version {version}");
        assert_eq!(synced.protocol_name.as_deref(), (version >= 5).then_some("range"));
        assert_eq!(bench.leave(0, &joined).await, 0);
        assert_eq!(bench.sync(version, &joined).await.error_code, 25);
    }
}

#[tokio::test]
async fn heartbeat_at_every_version() {
    let bench = Bench::new().await;
    let joined = bench.join(7).await;
    for version in versions_of(ApiKey::Heartbeat) {
        assert_eq!(bench.beat(version, &joined).await, 0, "version {version}");
        let former = joined.clone().with_generation_id(7);
        assert_eq!(bench.beat(version, &former).await, 22, "version {version}");
    }
}

#[tokio::test]
async fn leave_group_at_every_version() {
    let bench = Bench::new().await;
    for version in versions_of(ApiKey::LeaveGroup) {
        let joined = bench.join(7).await;
        assert_eq!(bench.leave(version, &joined).await, 0, "version {version}");
        assert_eq!(bench.leave(version, &joined).await, 25, "version {version}");
    }
}

#[tokio::test]
async fn offsets_at_every_version() {
    let bench = Bench::new().await;
    bench.create("t").await;
    for (version, offset) in versions_of(ApiKey::OffsetCommit).zip(100..) {
        assert_eq!(bench.commit(version, "t", offset).await, [0, 3], "version {version}");
        for version in versions_of(ApiKey::OffsetFetch) {
            let of = |index, offset| ("t".to_owned(), index, 0, offset);
            assert_eq!(bench.committed(version, Some("t")).await, [of(0, offset), of(1, -1)]);
            let unknown = bench.committed(version, Some("unknown")).await;
            assert_eq!(unknown[0], ("unknown".to_owned(), 0, 0, -1), "version {version}");
            if version >= 2 {
                assert_eq!(bench.committed(version, None).await, [of(0, offset)], "all, version {version}");
            }
        }
    }
}

#[tokio::test]
async fn a_note_that_is_too_long_is_refused() {
    let bench = Bench::new().await;
    bench.create("t").await;
    for (length, expected) in [(4096, 0), (4097, 12)] {
        let partition = OffsetCommitRequestPartition::default()
            .with_committed_metadata(Some(StrBytes::from_string("x".repeat(length))));
        let topic =
            OffsetCommitRequestTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
        let request = OffsetCommitRequest::default()
            .with_group_id(group("g"))
            .with_generation_id_or_member_epoch(-1)
            .with_topics(vec![topic]);
        let reply: OffsetCommitResponse = bench.ask(ApiKey::OffsetCommit, 8, &request).await;
        assert_eq!(reply.topics[0].partitions[0].error_code, expected);
    }
}

#[tokio::test]
async fn a_node_that_coordinates_nothing_says_so_at_every_version() {
    let mut bench = Bench::new().await;
    bench.session.node = 2;
    let nobody = JoinGroupResponse::default();
    for version in versions_of(ApiKey::JoinGroup) {
        let request = join_request(version, &StrBytes::default());
        let joined: JoinGroupResponse = bench.ask(ApiKey::JoinGroup, version, &request).await;
        assert_eq!(joined.error_code, 16);
    }
    for version in versions_of(ApiKey::SyncGroup) {
        assert_eq!(bench.sync(version, &nobody).await.error_code, 16);
    }
    for version in versions_of(ApiKey::Heartbeat) {
        assert_eq!(bench.beat(version, &nobody).await, 16);
    }
    for version in versions_of(ApiKey::LeaveGroup) {
        assert_eq!(bench.leave(version, &nobody).await, 16);
    }
    for version in versions_of(ApiKey::OffsetCommit) {
        assert_eq!(bench.commit(version, "t", 1).await, [16, 16]);
    }
    for version in versions_of(ApiKey::OffsetFetch) {
        // The errors of the request are where the version has them: in each partition, for all of it, for each group.
        let found = bench.committed(version, Some("t")).await;
        assert!(found.iter().all(|(_, _, error, offset)| (*error, *offset) == (16, -1)), "version {version}");
    }
}

#[tokio::test]
async fn more_than_is_kept_of_a_member_is_refused() {
    let bench = Bench::new().await;
    let mut request = join_request(3, &StrBytes::default());
    request.protocols[0].metadata = Bytes::from(vec![0; 1 << 20]);
    let refused: JoinGroupResponse = bench.ask(ApiKey::JoinGroup, 3, &request).await;
    assert_eq!(refused.error_code, 42);

    let joined = bench.join(3).await;
    let assignment = SyncGroupRequestAssignment::default()
        .with_member_id(joined.member_id.clone())
        .with_assignment(Bytes::from(vec![0; (1 << 20) + 1]));
    let request = SyncGroupRequest::default()
        .with_group_id(group("g"))
        .with_generation_id(joined.generation_id)
        .with_member_id(joined.member_id.clone())
        .with_assignments(vec![assignment]);
    let refused: SyncGroupResponse = bench.ask(ApiKey::SyncGroup, 3, &request).await;
    assert_eq!(refused.error_code, 42);
    assert_eq!(bench.sync(3, &joined).await.error_code, 0, "it can still say it in less");
}
