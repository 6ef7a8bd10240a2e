//! Fetch, for consumers and for followers.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ixion::kafka::fetch::{Access, FetchLimits, FirstRead, Isolation, PartitionFetch, cap_bytes};
use ixion::kafka::{DelayedFetch, ErrorCode};
use ixion::{Outcome, Watch};
use kafka_protocol::messages::fetch_request::FetchPartition;
use kafka_protocol::messages::fetch_response::{EpochEndOffset, FetchableTopicResponse, PartitionData};
use kafka_protocol::messages::{BrokerId, FetchRequest, FetchResponse, TopicName};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use crate::buffers;
use crate::codec::{Request, Unanswerable, own};
use crate::handlers::{Session, milliseconds, park};
use crate::partition::{Ends, Partition, Start, Wanted};
use crate::waits::{Coverage, FetchKey, FetchWait, View, key_for};

/// The most bytes in one reply, whatever is asked for.
const MAX_REPLY_BYTES: u64 = 64 << 20;
/// An offset that no log has.
const NO_OFFSET: i64 = -1;
/// The isolation level of consumers who read committed records only.
const READ_COMMITTED: i8 = 1;

/// A fetch request in terms of the broker. It stays while the request waits, so it holds no part of the frame but
/// the topics' names.
struct Plan {
    topics: Vec<TopicPlan>,
    limits: FetchLimits,
    max_bytes: u64,
    read_committed: bool,
}

struct TopicPlan {
    name: TopicName,
    partitions: Vec<PartitionPlan>,
}

struct PartitionPlan {
    index: i32,
    /// The partition; if it cannot be read, why.
    partition: Result<Arc<Partition>, ErrorCode>,
    wanted: Wanted,
    /// Where the log of a follower begins; the greatest number if it does not say, and for consumers, who have none.
    log_start: i64,
    max_bytes: u64,
}

/// Reads, or waits until there is enough to read.
pub(super) async fn answer(
    session: &Session,
    peer: &TcpStream,
    mut request: Request,
) -> Result<Bytes, Unanswerable> {
    let asked: FetchRequest = request.decode()?;
    let follower = (asked.replica_id.0 >= 0).then_some(asked.replica_id.0);
    let (max_wait_ms, mut plan) = (asked.max_wait_ms, plan(session, asked, follower));
    if let Some(node) = follower {
        acknowledge(session, &mut plan, node)?;
    }
    let (first, fetches) = look_first(&plan);
    // A follower that has nothing to fetch waits for something.
    let waits_for_partitions = follower.is_some() && first.partitions == 0 && max_wait_ms > 0;
    if waits_for_partitions || !first.answers_at_once(max_wait_ms, plan.limits.min_bytes) {
        wait(session, peer, &plan, fetches, follower, milliseconds(max_wait_ms)).await?;
    }
    let (room, share) = session.cluster.buffers.take(plan.max_bytes);
    plan.max_bytes = room;
    let reply = request.encode(&read_all(&plan, request.version))?;
    Ok(buffers::with_share(reply, share))
}

fn plan(session: &Session, asked: FetchRequest, follower: Option<i32>) -> Plan {
    let isolation = match (follower, asked.isolation_level) {
        (Some(_), _) => Isolation::LogEnd,
        (None, READ_COMMITTED) => Isolation::LastStable,
        (None, _) => Isolation::HighWatermark,
    };
    let (min_bytes, max_bytes) = cap_bytes(asked.min_bytes, asked.max_bytes, MAX_REPLY_BYTES);
    let topics = asked.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|fetch| {
            let found = session.cluster.catalog.partition(&topic.topic, fetch.partition);
            let partition = match found {
                _ if !session.leads() => Err(ErrorCode::NOT_LEADER_OR_FOLLOWER),
                None => Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
                Some(partition) => Ok(partition),
            };
            PartitionPlan {
                index: fetch.partition,
                partition,
                wanted: wanted(fetch, isolation),
                log_start: match fetch.log_start_offset {
                    0.. if follower.is_some() => fetch.log_start_offset,
                    _ => i64::MAX,
                },
                max_bytes: u64::try_from(fetch.partition_max_bytes).unwrap_or(0),
            }
        });
        TopicPlan { partitions: partitions.collect(), name: TopicName(own(&topic.topic)) }
    });
    Plan {
        topics: topics.collect(),
        // Followers do not serve reads, so only the leader may answer anybody.
        limits: FetchLimits { min_bytes, isolation, leader_only: true },
        max_bytes,
        read_committed: isolation == Isolation::LastStable,
    }
}

fn wanted(fetch: &FetchPartition, isolation: Isolation) -> Wanted {
    let given = |epoch: i32| (epoch != -1).then_some(epoch);
    Wanted {
        offset: fetch.fetch_offset,
        isolation,
        access: Access { leader_only: true, current_leader_epoch: given(fetch.current_leader_epoch) },
        last_fetched_epoch: given(fetch.last_fetched_epoch),
    }
}

/// Counts a follower's fetch as acknowledgement, then signals what that has moved.
fn acknowledge(session: &Session, plan: &mut Plan, node: i32) -> Result<(), Unanswerable> {
    let cluster = &session.cluster;
    let gate = cluster.gate(node).ok_or(Unanswerable::Silent("a fetch of a node that is no follower"))?;
    let now = cluster.now();
    let mut moved = Vec::new();
    {
        let paused = gate.borrow();
        if *paused {
            return Err(Unanswerable::Silent("a fetch of a paused follower"));
        }
        for partition_plan in plan.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
            let Ok(partition) = &partition_plan.partition else { continue };
            let (offset, log_start) = (partition_plan.wanted.offset, partition_plan.log_start);
            match partition.acknowledge(node, offset, log_start, now) {
                Ok(acknowledged) => moved.push((partition.clone(), acknowledged)),
                // It has the log of another partition, or has lost its own; the read will tell it to begin anew.
                Err(ErrorCode::OFFSET_OUT_OF_RANGE) => partition_plan.wanted.offset = NO_OFFSET,
                // One that was deleted meanwhile has nothing to acknowledge; the read will say so.
                Err(_) => {}
            }
        }
        cluster.drop_leftovers(node, |topic| plan.has_deleted(topic));
    }
    for (partition, moved) in moved {
        cluster.signal(&partition, moved);
    }
    Ok(())
}

impl Plan {
    /// Whether it names a topic that was deleted.
    fn has_deleted(&self, topic: &str) -> bool {
        let named = self.topics.iter().filter(|named| named.name.as_str() == topic);
        let is_open =
            |plan: &PartitionPlan| plan.partition.as_ref().is_ok_and(|partition| partition.is_open());
        named.flat_map(|named| &named.partitions).any(|partition| !is_open(partition))
    }
}

/// Looks how much could be sent, without reading it.
fn look_first(plan: &Plan) -> (FirstRead, Vec<PartitionFetch<View>>) {
    let mut first = FirstRead::default();
    let mut fetches = Vec::with_capacity(plan.topics.iter().map(|topic| topic.partitions.len()).sum());
    for partition_plan in plan.topics.iter().flat_map(|topic| &topic.partitions) {
        first.partitions += 1;
        let wanted = &partition_plan.wanted;
        let started = partition_plan
            .partition
            .as_ref()
            .map_err(|error| *error)
            .and_then(|partition| partition.start(wanted));
        match (started, &partition_plan.partition) {
            (Ok(start), Ok(partition)) => {
                let available =
                    start.place.bytes_before(start.end).unwrap_or(0).min(partition_plan.max_bytes);
                first.bytes_readable = first.bytes_readable.saturating_add(available);
                first.any_diverging_epoch |= start.diverging.is_some();
                fetches.push(PartitionFetch {
                    partition: View {
                        partition: partition.clone(),
                        start: start.place,
                        log_start: partition_plan.log_start,
                    },
                    fetch_offset: wanted.offset,
                    start: start.place,
                    max_bytes: partition_plan.max_bytes,
                    current_leader_epoch: wanted.access.current_leader_epoch,
                    last_fetched_epoch: wanted.last_fetched_epoch,
                });
            }
            _ => first.any_error = true,
        }
    }
    (first, fetches)
}

/// Waits until there is enough, or the time is up, or the client has gone.
async fn wait(
    session: &Session,
    peer: &TcpStream,
    plan: &Plan,
    fetches: Vec<PartitionFetch<View>>,
    follower: Option<i32>,
    timeout: Duration,
) -> Result<(), Unanswerable> {
    let cluster = &session.cluster;
    let isolation = plan.limits.isolation;
    let coverage =
        follower.map(|node| Coverage { catalog: cluster.catalog.clone(), node, partitions: fetches.len() });
    let (sender, receiver) = oneshot::channel();
    // The callback runs on any thread; all it does is to wake this task, which then reads.
    let answer = Box::new(move |_, _| {
        // Nobody listens if the client has gone.
        let _ = sender.send(());
    }) as Box<dyn FnOnce(Outcome, _) + Send>;
    let mut seen = HashSet::new();
    let any_twice = !fetches.iter().all(|fetch| seen.insert(fetch.partition.partition.id()));
    let fetch = DelayedFetch::new(plan.limits, fetches, answer);
    let watches = fetch.watches(|view: &View| key_for(isolation, view.partition.id()));
    let watches: Vec<_> =
        watches.chain(follower.map(|node| Watch::any(FetchKey::Assignment(node)))).collect();
    let operation = FetchWait { fetch, coverage, has_numbers: !any_twice };
    park(&cluster.fetch, peer, operation, timeout, watches, receiver).await
}

/// Reads every partition, in the order of the request, as long as there is room.
fn read_all(plan: &Plan, version: i16) -> FetchResponse {
    let mut room = plan.max_bytes;
    let mut is_empty = true;
    let topics = plan.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition_plan| {
            let limit = room.min(partition_plan.max_bytes);
            // The first batch is sent whole, however large, or its reader would be stuck.
            let read = partition_plan
                .partition
                .as_ref()
                .map_err(|error| *error)
                .and_then(|partition| partition.read(&partition_plan.wanted, limit, is_empty));
            if let Ok((_, _, records)) = &read {
                is_empty &= records.is_empty();
                room = room.saturating_sub(records.len() as u64);
            }
            reply(plan, partition_plan, read, version)
        });
        FetchableTopicResponse::default().with_partitions(partitions.collect()).with_topic(topic.name.clone())
    });
    // Session 0: no sessions, so every request names all its partitions.
    FetchResponse::default().with_responses(topics.collect())
}

fn reply(
    plan: &Plan,
    partition_plan: &PartitionPlan,
    read: Result<(Start, Ends, Bytes), ErrorCode>,
    version: i16,
) -> PartitionData {
    // Records are empty, never null: librdkafka takes null for an error.
    let data =
        PartitionData::default().with_partition_index(partition_plan.index).with_records(Some(Bytes::new()));
    let data = if plan.read_committed { data.with_aborted_transactions(Some(Vec::new())) } else { data };
    let (start, ends, records) = match read {
        Ok(read) => read,
        Err(error) => {
            let data =
                data.with_error_code(error.as_i16()).with_high_watermark(-1).with_last_stable_offset(-1);
            let data = data.with_aborted_transactions(None).with_preferred_read_replica(BrokerId(-1));
            // Where a reader that has fallen out of the log can go on.
            return match &partition_plan.partition {
                Ok(partition) if version >= 5 => data.with_log_start_offset(partition.ends().log_start),
                _ => data,
            };
        }
    };
    let data = data
        .with_high_watermark(ends.high_watermark)
        .with_last_stable_offset(ends.high_watermark)
        .with_records(Some(records));
    let data = if version >= 5 { data.with_log_start_offset(ends.log_start) } else { data };
    match start.diverging {
        Some(end) if version >= 12 => {
            let end = EpochEndOffset::default().with_epoch(end.epoch).with_end_offset(end.end_offset);
            data.with_diverging_epoch(end)
        }
        _ => data,
    }
}
