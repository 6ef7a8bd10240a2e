//! Produce and InitProducerId.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use ixion::Outcome;
use ixion::kafka::ErrorCode;
use ixion::kafka::produce::{DelayedProduce, PartitionStatus, must_wait};
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::{
    InitProducerIdRequest, InitProducerIdResponse, ProduceRequest, ProduceResponse, ProducerId, TopicName,
};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use crate::batch::BatchHead;
use crate::codec::{Request, Unanswerable, own};
use crate::handlers::{Session, milliseconds, park};
use crate::partition::Appended;
use crate::waits::Hosted;

/// What is answered about the partitions of a topic. The statuses of all topics lie behind one another elsewhere.
struct TopicResults {
    name: TopicName,
    partitions: Vec<PartitionResult>,
}

struct PartitionResult {
    index: i32,
    base_offset: i64,
    log_start: i64,
}

/// Appends, and waits for the followers if all acks are wanted. With no acks wanted nothing is answered.
pub(super) async fn answer(
    session: &Session,
    peer: &TcpStream,
    mut request: Request,
) -> Result<Option<BytesMut>, Unanswerable> {
    let asked: ProduceRequest = request.decode()?;
    let acks = asked.acks;
    let timeout = milliseconds(asked.timeout_ms);
    let (topics, statuses) = append_all(session, asked);
    let statuses = if must_wait(acks, &statuses) {
        wait(session, peer, statuses, timeout).await?
    } else {
        now(statuses)
    };
    if acks == 0 {
        // The client expects no byte. That something went wrong it can only learn from the connection's end.
        let failed = statuses.iter().any(|status| !status.error.is_none());
        return if failed { Err(Unanswerable::Silent("produce without acks failed")) } else { Ok(None) };
    }
    request.encode(&reply(topics, &statuses, request.version)).map(Some)
}

pub(super) fn init_producer_id(session: &Session, asked: &InitProducerIdRequest) -> InitProducerIdResponse {
    let response = InitProducerIdResponse::default();
    if asked.transactional_id.is_some() {
        let error = ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED;
        return response
            .with_error_code(error.as_i16())
            .with_producer_id(ProducerId(-1))
            .with_producer_epoch(-1);
    }
    response.with_producer_id(ProducerId(session.cluster.new_producer_id())).with_producer_epoch(0)
}

/// Appends every batch, then signals what has moved.
fn append_all(session: &Session, asked: ProduceRequest) -> (Vec<TopicResults>, Vec<PartitionStatus<Hosted>>) {
    let refusal = if !matches!(asked.acks, -1..=1) {
        Some(ErrorCode::INVALID_REQUIRED_ACKS)
    } else if asked.transactional_id.is_some() {
        Some(ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    } else {
        None
    };
    let mut statuses = Vec::new();
    let mut moved = Vec::new();
    let mut topics = Vec::with_capacity(asked.topic_data.len());
    for topic in asked.topic_data {
        let mut partitions = Vec::with_capacity(topic.partition_data.len());
        for data in topic.partition_data {
            let hosted = Hosted(session.cluster.catalog.partition(&topic.name, data.index));
            let appended = match refusal {
                Some(error) => Err(error),
                None => append(session, &hosted, &data.records.unwrap_or_default(), asked.acks == -1),
            };
            let mut result = PartitionResult { index: data.index, base_offset: -1, log_start: -1 };
            match appended {
                Ok(appended) => {
                    result.base_offset = appended.base_offset;
                    result.log_start = appended.log_start;
                    if let Some(partition) = &hosted.0 {
                        moved.push((partition.clone(), appended.moved));
                    }
                    statuses.push(PartitionStatus::appended(hosted, appended.last_offset));
                }
                Err(error) => statuses.push(PartitionStatus::failed(hosted, error)),
            }
            partitions.push(result);
        }
        topics.push(TopicResults { name: TopicName(own(&topic.name)), partitions });
    }
    for (partition, moved) in moved {
        session.cluster.signal(&partition, moved);
    }
    (topics, statuses)
}

fn append(
    session: &Session,
    hosted: &Hosted,
    records: &Bytes,
    all_acks: bool,
) -> Result<Appended, ErrorCode> {
    if !session.leads() {
        return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER);
    }
    let partition = hosted.0.as_ref().ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let head = BatchHead::check_produced(records, partition.rules.max_message_bytes)?;
    partition.append(&head, records, all_acks)
}

/// What is answered without waiting: what was appended is good.
fn now(mut statuses: Vec<PartitionStatus<Hosted>>) -> Vec<PartitionStatus<Hosted>> {
    for status in statuses.iter_mut().filter(|status| status.pending) {
        status.pending = false;
        status.error = ErrorCode::NONE;
    }
    statuses
}

/// Waits until the followers have it, or the time is up. If the client goes, what was appended stays.
async fn wait(
    session: &Session,
    peer: &TcpStream,
    statuses: Vec<PartitionStatus<Hosted>>,
    timeout: Duration,
) -> Result<Vec<PartitionStatus<Hosted>>, Unanswerable> {
    let (sender, receiver) = oneshot::channel();
    // The callback runs on any thread; all it does is to hand the answer over.
    let operation = DelayedProduce::new(
        statuses,
        Box::new(move |_, statuses| drop(sender.send(statuses))) as Box<dyn FnOnce(Outcome, _) + Send>,
    );
    let watches = operation.watches(|hosted| hosted.0.as_ref().map(|partition| partition.id()));
    park(&session.cluster.produce, peer, operation, timeout, watches, receiver).await
}

fn reply(topics: Vec<TopicResults>, statuses: &[PartitionStatus<Hosted>], version: i16) -> ProduceResponse {
    let mut statuses = statuses.iter();
    let topics = topics.into_iter().map(|topic| {
        let partitions = topic.partitions.into_iter().map(|result| {
            let error = statuses.next().map_or(ErrorCode::UNKNOWN_SERVER_ERROR, |status| status.error);
            let reply = PartitionProduceResponse::default()
                .with_index(result.index)
                .with_error_code(error.as_i16())
                .with_base_offset(result.base_offset)
                .with_log_append_time_ms(-1);
            if version >= 5 { reply.with_log_start_offset(result.log_start) } else { reply }
        });
        TopicProduceResponse::default().with_partition_responses(partitions.collect()).with_name(topic.name)
    });
    ProduceResponse::default().with_responses(topics.collect())
}
