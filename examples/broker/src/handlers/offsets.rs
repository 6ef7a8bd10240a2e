//! ListOffsets: which offset a log has at its ends or at a time.

use ixion::kafka::ErrorCode;
use ixion::kafka::fetch::{Access, Isolation};
use kafka_protocol::messages::list_offsets_request::ListOffsetsPartition;
use kafka_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kafka_protocol::messages::{ListOffsetsRequest, ListOffsetsResponse};

use crate::handlers::Session;
use crate::partition::LEADER_EPOCH;

pub(super) fn list_offsets(
    session: &Session,
    asked: &ListOffsetsRequest,
    version: i16,
) -> ListOffsetsResponse {
    let isolation = if asked.replica_id.0 >= 0 { Isolation::LogEnd } else { Isolation::HighWatermark };
    let topics = asked.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            let found = find(session, &topic.name, partition, isolation);
            reply(partition.partition_index, found, version)
        });
        ListOffsetsTopicResponse::default()
            .with_name(topic.name.clone())
            .with_partitions(partitions.collect())
    });
    ListOffsetsResponse::default().with_topics(topics.collect())
}

fn find(
    session: &Session,
    topic: &str,
    asked: &ListOffsetsPartition,
    isolation: Isolation,
) -> Result<(i64, i64), ErrorCode> {
    if !session.leads() {
        return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER);
    }
    let partition = session.cluster.catalog.partition(topic, asked.partition_index);
    let partition = partition.ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let epoch = (asked.current_leader_epoch != -1).then_some(asked.current_leader_epoch);
    partition.offset_at(Access { leader_only: true, current_leader_epoch: epoch }, isolation, asked.timestamp)
}

fn reply(index: i32, found: Result<(i64, i64), ErrorCode>, version: i16) -> ListOffsetsPartitionResponse {
    let reply = ListOffsetsPartitionResponse::default().with_partition_index(index);
    match found {
        Err(error) => reply.with_error_code(error.as_i16()),
        Ok((timestamp, offset)) => {
            let reply = reply.with_timestamp(timestamp).with_offset(offset);
            // Below version 4 there is no such field, and the encoder refuses one that is set.
            if version >= 4 && offset >= 0 { reply.with_leader_epoch(LEADER_EPOCH) } else { reply }
        }
    }
}
