//! DeleteRecords: moves the start of logs up, and waits until the followers have done it, too.

use bytes::BytesMut;
use ixion::kafka::ErrorCode;
use ixion::kafka::delete_records::{PartitionStatus, must_wait};
use kafka_protocol::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsTopicResult,
};
use kafka_protocol::messages::{DeleteRecordsRequest, DeleteRecordsResponse, TopicName};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use crate::codec::{Request, Unanswerable, own};
use crate::handlers::{Session, milliseconds, park};
use crate::waits::{DeleteRecordsWait, Hosted};

pub(super) async fn delete_records(
    session: &Session,
    peer: &TcpStream,
    mut request: Request,
) -> Result<BytesMut, Unanswerable> {
    let asked: DeleteRecordsRequest = request.decode()?;
    let timeout = milliseconds(asked.timeout_ms);
    let mut statuses = Vec::new();
    let mut topics: Vec<(TopicName, Vec<i32>)> = Vec::with_capacity(asked.topics.len());
    for topic in asked.topics {
        for partition in &topic.partitions {
            statuses.push(delete(session, &topic.name, partition.partition_index, partition.offset));
        }
        let indexes = topic.partitions.iter().map(|partition| partition.partition_index).collect();
        topics.push((TopicName(own(&topic.name)), indexes));
    }
    if must_wait(&statuses) {
        let (sender, receiver) = oneshot::channel();
        let wait = DeleteRecordsWait::new(statuses, Box::new(move |_, statuses| drop(sender.send(statuses))));
        let watches = wait.watches(|hosted| hosted.0.as_ref().map(|partition| partition.id()));
        statuses = park(&session.cluster.delete_records, peer, wait, timeout, watches, receiver).await?;
    }
    let mut statuses = statuses.into_iter();
    let topics = topics.into_iter().map(|(name, indexes)| {
        let partitions = indexes.into_iter().zip(&mut statuses).map(|(index, status)| {
            DeleteRecordsPartitionResult::default()
                .with_partition_index(index)
                .with_low_watermark(status.low_watermark)
                .with_error_code(status.error.as_i16())
        });
        DeleteRecordsTopicResult::default().with_partitions(partitions.collect()).with_name(name)
    });
    request.encode(&DeleteRecordsResponse::default().with_topics(topics.collect()))
}

/// Deletes here, and says what is still to be waited for.
fn delete(session: &Session, topic: &str, index: i32, offset: i64) -> PartitionStatus<Hosted> {
    let hosted = Hosted(session.cluster.catalog.partition(topic, index));
    if !session.leads() {
        return PartitionStatus::failed(hosted, ErrorCode::NOT_LEADER_OR_FOLLOWER);
    }
    let Some(partition) = hosted.0.clone() else {
        return PartitionStatus::failed(hosted, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    };
    match partition.delete_records(offset) {
        Err(error) => PartitionStatus::failed(hosted, error),
        Ok((offset, low_watermark, moved)) => {
            session.cluster.signal(&partition, moved);
            PartitionStatus::deleted(hosted, offset, low_watermark)
        }
    }
}
