//! OffsetCommit and OffsetFetch: where the members of a group have come to.

use ixion::kafka::ErrorCode;
use kafka_protocol::messages::offset_commit_request::OffsetCommitRequestPartition;
use kafka_protocol::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use kafka_protocol::messages::{
    OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;

use crate::codec::own;
use crate::group::offsets::{Committed, MAX_NOTE};
use crate::handlers::{Session, group};

/// The first version that asks for several groups at once.
const SEVERAL_GROUPS: i16 = 8;

pub(super) fn offset_commit(session: &Session, asked: &OffsetCommitRequest) -> OffsetCommitResponse {
    let generation = asked.generation_id_or_member_epoch;
    let identity = group::identity(&asked.member_id, asked.group_instance_id.as_ref(), generation);
    let is_legal = |topic: &TopicName, partition: &OffsetCommitRequestPartition| {
        if session.cluster.catalog.partition(topic, partition.partition_index).is_none() {
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
        } else if partition.committed_metadata.as_ref().is_some_and(|note| note.len() > MAX_NOTE) {
            ErrorCode::OFFSET_METADATA_TOO_LARGE
        } else {
            ErrorCode::NONE
        }
    };
    let mut errors: Vec<Vec<ErrorCode>> = Vec::with_capacity(asked.topics.len());
    for topic in &asked.topics {
        errors.push(topic.partitions.iter().map(|partition| is_legal(&topic.name, partition)).collect());
    }
    let refusal = if session.leads() {
        session.cluster.groups.commit(&asked.group_id, &identity, |offsets| {
            for (topic, errors) in asked.topics.iter().zip(&errors) {
                for (partition, _) in topic.partitions.iter().zip(errors).filter(|(_, error)| error.is_none())
                {
                    offsets.commit(&topic.name, partition.partition_index, committed(partition));
                }
            }
        })
    } else {
        ErrorCode::NOT_COORDINATOR
    };
    let topics = asked.topics.iter().zip(errors).map(|(topic, errors)| {
        let partitions = topic.partitions.iter().zip(errors).map(|(partition, error)| {
            let error = if refusal.is_none() { error } else { refusal };
            OffsetCommitResponsePartition::default()
                .with_partition_index(partition.partition_index)
                .with_error_code(error.as_i16())
        });
        OffsetCommitResponseTopic::default()
            .with_name(topic.name.clone())
            .with_partitions(partitions.collect())
    });
    OffsetCommitResponse::default().with_topics(topics.collect())
}

pub(super) fn offset_fetch(
    session: &Session,
    asked: &OffsetFetchRequest,
    version: i16,
) -> OffsetFetchResponse {
    let error = if session.leads() { ErrorCode::NONE } else { ErrorCode::NOT_COORDINATOR };
    if version < SEVERAL_GROUPS {
        let wanted = asked.topics.as_ref().map(|topics| {
            topics.iter().map(|topic| (topic.name.clone(), topic.partition_indexes.clone())).collect()
        });
        let topics = found(session, &asked.group_id, wanted).into_iter().map(|(name, partitions)| {
            let partitions =
                partitions.into_iter().map(|(index, committed)| old_reply(index, committed, error, version));
            OffsetFetchResponseTopic::default().with_name(name).with_partitions(partitions.collect())
        });
        let reply = OffsetFetchResponse::default().with_topics(topics.collect());
        return if version >= 2 { reply.with_error_code(error.as_i16()) } else { reply };
    }
    let groups = asked.groups.iter().map(|group| {
        let wanted = group.topics.as_ref().map(|topics| {
            topics.iter().map(|topic| (topic.name.clone(), topic.partition_indexes.clone())).collect()
        });
        let topics = found(session, &group.group_id, wanted).into_iter().map(|(name, partitions)| {
            let partitions = partitions.into_iter().map(|(index, committed)| reply(index, committed, error));
            OffsetFetchResponseTopics::default().with_name(name).with_partitions(partitions.collect())
        });
        OffsetFetchResponseGroup::default()
            .with_group_id(group.group_id.clone())
            .with_topics(topics.collect())
            .with_error_code(error.as_i16())
    });
    OffsetFetchResponse::default().with_groups(groups.collect())
}

/// What a group has committed: of these partitions, or of all that there are.
fn found(
    session: &Session,
    group: &str,
    wanted: Option<Vec<(TopicName, Vec<i32>)>>,
) -> Vec<(TopicName, Vec<(i32, Option<Committed>)>)> {
    let groups = &session.cluster.groups;
    let Some(wanted) = wanted else {
        let all = if session.leads() { groups.all_committed(group) } else { Vec::new() };
        let some = |partitions: Vec<(i32, Committed)>| {
            partitions.into_iter().map(|(index, committed)| (index, Some(committed))).collect()
        };
        return all.into_iter().map(|(topic, partitions)| (TopicName(topic), some(partitions))).collect();
    };
    let find = |topic: &TopicName, index: i32| {
        session.leads().then(|| groups.committed(group, topic, index)).flatten()
    };
    let of_topic = |(topic, indexes): (TopicName, Vec<i32>)| {
        let partitions = indexes.into_iter().map(|index| (index, find(&topic, index))).collect();
        (topic, partitions)
    };
    wanted.into_iter().map(of_topic).collect()
}

fn committed(partition: &OffsetCommitRequestPartition) -> Committed {
    Committed {
        offset: partition.committed_offset,
        leader_epoch: partition.committed_leader_epoch,
        note: partition.committed_metadata.as_ref().map(own).unwrap_or_default(),
    }
}

/// What is answered where nothing was committed.
fn or_nothing(committed: Option<Committed>) -> Committed {
    committed.unwrap_or(Committed { offset: -1, leader_epoch: -1, note: StrBytes::default() })
}

fn old_reply(
    index: i32,
    committed: Option<Committed>,
    error: ErrorCode,
    version: i16,
) -> OffsetFetchResponsePartition {
    let committed = or_nothing(committed);
    let reply = OffsetFetchResponsePartition::default()
        .with_partition_index(index)
        .with_committed_offset(committed.offset)
        .with_metadata(Some(committed.note))
        .with_error_code(error.as_i16());
    if version >= 5 { reply.with_committed_leader_epoch(committed.leader_epoch) } else { reply }
}

fn reply(index: i32, committed: Option<Committed>, error: ErrorCode) -> OffsetFetchResponsePartitions {
    let committed = or_nothing(committed);
    OffsetFetchResponsePartitions::default()
        .with_partition_index(index)
        .with_committed_offset(committed.offset)
        .with_committed_leader_epoch(committed.leader_epoch)
        .with_metadata(Some(committed.note))
        .with_error_code(error.as_i16())
}
