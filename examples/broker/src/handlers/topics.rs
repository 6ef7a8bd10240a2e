//! CreateTopics, CreatePartitions and DeleteTopics. With a timeout they wait until the followers have done it, too.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::BytesMut;
use ixion::kafka::ErrorCode;
use ixion::kafka::topics::{TopicStatus, must_wait};
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest, CreateTopicsResponse,
    DeleteTopicsRequest, DeleteTopicsResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use crate::catalog::{NewTopic, Topic};
use crate::cluster::Cluster;
use crate::codec::{Request, Unanswerable, own};
use crate::handlers::{Session, milliseconds, park};
use crate::waits::{TopicsWait, Work};

pub(super) async fn create_topics(
    session: &Session,
    peer: &TcpStream,
    mut request: Request,
) -> Result<BytesMut, Unanswerable> {
    let asked: CreateTopicsRequest = request.decode()?;
    let twice = named_twice(asked.topics.iter().map(|topic| topic.name.as_str()));
    let mut results = Vec::with_capacity(asked.topics.len());
    let mut statuses = Vec::with_capacity(asked.topics.len());
    for topic in &asked.topics {
        let created = if twice.contains(topic.name.as_str()) {
            Err(ErrorCode::INVALID_REQUEST)
        } else {
            create(session, topic, asked.validate_only)
        };
        results.push(created_result(&topic.name, created.as_deref(), request.version));
        statuses.push(status(created.map(|topic| topic.partitions.clone()), asked.validate_only));
    }
    session.cluster.signal_assignments();
    let timeout_ms = asked.timeout_ms;
    let refused = asked
        .topics
        .iter()
        .map(|topic| session.cluster.catalog.refused(&settings_of(topic)).map(str::to_owned));
    let refused: Vec<Option<String>> = refused.collect();
    drop(asked);
    let statuses = settle(session, peer, statuses, timeout_ms).await?;
    for ((refused, result), TopicStatus { error, .. }) in refused.into_iter().zip(&mut results).zip(statuses)
    {
        result.error_code = error.as_i16();
        result.error_message = match refused {
            Some(name) if error == ErrorCode::INVALID_CONFIG => Some(StrBytes::from_string(format!(
                "{error}: {name} is unknown, or has a value that it can't have"
            ))),
            _ => message(error),
        };
    }
    request.encode(&CreateTopicsResponse::default().with_topics(results))
}

pub(super) async fn create_partitions(
    session: &Session,
    peer: &TcpStream,
    mut request: Request,
) -> Result<BytesMut, Unanswerable> {
    let asked: CreatePartitionsRequest = request.decode()?;
    let twice = named_twice(asked.topics.iter().map(|topic| topic.name.as_str()));
    let grow = |topic: &CreatePartitionsTopic| {
        if twice.contains(topic.name.as_str()) {
            return Err(ErrorCode::INVALID_REQUEST);
        }
        if topic.assignments.as_ref().is_some_and(|assignments| !assignments.is_empty()) {
            return Err(ErrorCode::INVALID_REPLICA_ASSIGNMENT);
        }
        session.cluster.catalog.grow(&topic.name, topic.count, asked.validate_only, session.cluster.now())
    };
    let statuses = asked.topics.iter().map(|topic| status(grow(topic), asked.validate_only)).collect();
    session.cluster.signal_assignments();
    let names: Vec<TopicName> = asked.topics.iter().map(|topic| own_name(&topic.name)).collect();
    let timeout_ms = asked.timeout_ms;
    drop(asked);
    let statuses = settle(session, peer, statuses, timeout_ms).await?;
    let results = names.into_iter().zip(statuses).map(|(name, TopicStatus { error, .. })| {
        CreatePartitionsTopicResult::default()
            .with_name(name)
            .with_error_code(error.as_i16())
            .with_error_message(message(error))
    });
    request.encode(&CreatePartitionsResponse::default().with_results(results.collect()))
}

pub(super) async fn delete_topics(
    session: &Session,
    peer: &TcpStream,
    mut request: Request,
) -> Result<BytesMut, Unanswerable> {
    let asked: DeleteTopicsRequest = request.decode()?;
    let version = request.version;
    let names: Vec<Option<TopicName>> = if version >= 6 {
        asked.topics.iter().map(|topic| topic.name.as_ref().map(own_name)).collect()
    } else {
        asked.topic_names.iter().map(|name| Some(own_name(name))).collect()
    };
    let timeout_ms = asked.timeout_ms;
    drop(asked);
    let statuses: Vec<TopicStatus<Work>> = names.iter().map(|name| delete(session, name.as_ref())).collect();
    let _watched = Watched(&session.cluster, statuses.iter().map(|status| status.topic.clone()).collect());
    let statuses = settle(session, peer, statuses, timeout_ms).await?;
    let results = names.into_iter().zip(statuses).map(|(name, TopicStatus { error, .. })| {
        let result = DeletableTopicResult::default().with_name(name).with_error_code(error.as_i16());
        if version >= 5 { result.with_error_message(message(error)) } else { result }
    });
    request.encode(&DeleteTopicsResponse::default().with_responses(results.collect()))
}

/// The leftovers that a request waits for, until it is over.
struct Watched<'a>(&'a Cluster, Vec<Work>);

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        for work in &self.1 {
            if let Work::Drop(leftovers) = work {
                self.0.forget_leftovers(leftovers);
            }
        }
    }
}

/// Waits until the followers have done it, if there is time to.
async fn settle(
    session: &Session,
    peer: &TcpStream,
    statuses: Vec<TopicStatus<Work>>,
    timeout_ms: i32,
) -> Result<Vec<TopicStatus<Work>>, Unanswerable> {
    if !must_wait(timeout_ms, &statuses) {
        return Ok(statuses);
    }
    let (sender, receiver) = oneshot::channel();
    let wait = TopicsWait::new(statuses, Box::new(move |_, statuses| drop(sender.send(statuses))));
    let watches = wait.watches(Work::topic);
    park(&session.cluster.topics, peer, wait, milliseconds(timeout_ms), watches, receiver).await
}

fn status(
    begun: Result<Vec<Arc<crate::partition::Partition>>, ErrorCode>,
    validate_only: bool,
) -> TopicStatus<Work> {
    match begun {
        Err(error) => TopicStatus::decided(Work::None, error),
        Ok(_) if validate_only => TopicStatus::decided(Work::None, ErrorCode::NONE),
        Ok(partitions) => TopicStatus::begun(Work::Serve(partitions)),
    }
}

fn create(session: &Session, topic: &CreatableTopic, validate_only: bool) -> Result<Arc<Topic>, ErrorCode> {
    if !topic.assignments.is_empty() {
        // Node 1 leads everything: there is nothing to assign.
        return Err(ErrorCode::INVALID_REPLICA_ASSIGNMENT);
    }
    let new = NewTopic {
        name: topic.name.as_str(),
        partitions: topic.num_partitions,
        replication_factor: topic.replication_factor,
        settings: settings_of(topic),
    };
    session.cluster.catalog.create(&new, validate_only, session.cluster.now())
}

fn settings_of(topic: &CreatableTopic) -> Vec<(&str, Option<&str>)> {
    topic.configs.iter().map(|setting| (setting.name.as_str(), setting.value.as_deref())).collect()
}

fn created_result(
    name: &TopicName,
    created: Result<&Topic, &ErrorCode>,
    version: i16,
) -> CreatableTopicResult {
    let result = CreatableTopicResult::default().with_name(own_name(name));
    match created {
        Ok(topic) if version >= 5 => {
            let replicas = topic.partitions.first().map_or(0, |partition| partition.replicas().len());
            result
                .with_num_partitions(topic.partitions.len() as i32)
                .with_replication_factor(replicas as i16)
                .with_configs(Some(Vec::new()))
        }
        _ => result,
    }
}

fn delete(session: &Session, name: Option<&TopicName>) -> TopicStatus<Work> {
    // By id alone no topic is known: clients never learn of one.
    let deleted = name.ok_or(ErrorCode::UNKNOWN_TOPIC_ID).and_then(|name| session.cluster.delete(name));
    match deleted {
        Ok(leftovers) => TopicStatus::begun(Work::Drop(leftovers)),
        Err(error) => TopicStatus::decided(Work::None, error),
    }
}

fn own_name(name: &TopicName) -> TopicName {
    TopicName(own(name))
}

fn named_twice<'a>(names: impl Iterator<Item = &'a str>) -> HashSet<&'a str> {
    let mut seen = HashSet::new();
    names.filter(|name| !seen.insert(*name)).collect()
}

fn message(error: ErrorCode) -> Option<StrBytes> {
    (!error.is_none()).then(|| StrBytes::from_string(error.to_string()))
}
