//! CreateTopics and DeleteTopics.

use std::collections::HashSet;
use std::sync::Arc;

use ixion::kafka::ErrorCode;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::{
    CreateTopicsRequest, CreateTopicsResponse, DeleteTopicsRequest, DeleteTopicsResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;

use crate::catalog::{NewTopic, Topic};
use crate::handlers::Session;

pub(super) fn create_topics(
    session: &Session,
    asked: &CreateTopicsRequest,
    version: i16,
) -> CreateTopicsResponse {
    let mut seen = HashSet::new();
    let twice: HashSet<&str> =
        asked.topics.iter().map(|topic| topic.name.as_str()).filter(|name| !seen.insert(*name)).collect();
    let results = asked.topics.iter().map(|topic| {
        let created = if twice.contains(topic.name.as_str()) {
            Err(ErrorCode::INVALID_REQUEST)
        } else {
            create(session, topic, asked.validate_only)
        };
        result(&topic.name, created, version)
    });
    let results = results.collect();
    session.cluster.signal_assignments();
    CreateTopicsResponse::default().with_topics(results)
}

pub(super) fn delete_topics(
    session: &Session,
    asked: &DeleteTopicsRequest,
    version: i16,
) -> DeleteTopicsResponse {
    let results = if version >= 6 {
        asked.topics.iter().map(|topic| delete(session, topic.name.as_ref(), version)).collect()
    } else {
        asked.topic_names.iter().map(|name| delete(session, Some(name), version)).collect()
    };
    DeleteTopicsResponse::default().with_responses(results)
}

fn create(session: &Session, topic: &CreatableTopic, validate_only: bool) -> Result<Arc<Topic>, ErrorCode> {
    if !topic.assignments.is_empty() {
        // Node 1 leads everything: there is nothing to assign.
        return Err(ErrorCode::INVALID_REPLICA_ASSIGNMENT);
    }
    let settings = topic.configs.iter().map(|setting| (setting.name.as_str(), setting.value.as_deref()));
    let new = NewTopic {
        name: topic.name.as_str(),
        partitions: topic.num_partitions,
        replication_factor: topic.replication_factor,
        settings: settings.collect(),
    };
    session.cluster.catalog.create(&new, validate_only, session.cluster.now())
}

fn result(name: &TopicName, created: Result<Arc<Topic>, ErrorCode>, version: i16) -> CreatableTopicResult {
    let result = CreatableTopicResult::default().with_name(name.clone());
    match created {
        Err(error) => {
            let message = StrBytes::from_string(error.to_string());
            result.with_error_code(error.as_i16()).with_error_message(Some(message))
        }
        Ok(topic) if version >= 5 => {
            let replicas = topic.partitions.first().map_or(0, |partition| partition.replicas().len());
            result
                .with_num_partitions(topic.partitions.len() as i32)
                .with_replication_factor(replicas as i16)
                .with_configs(Some(Vec::new()))
        }
        Ok(_) => result,
    }
}

fn delete(session: &Session, name: Option<&TopicName>, version: i16) -> DeletableTopicResult {
    let result = DeletableTopicResult::default().with_name(name.cloned());
    // By id alone no topic is known: clients never learn of one.
    let deleted = match name {
        Some(name) => session.cluster.catalog.delete(name),
        None => Err(ErrorCode::UNKNOWN_TOPIC_ID),
    };
    match deleted {
        Ok(topic) => {
            session.cluster.close(&topic);
            session.cluster.groups.forget(&topic.name);
            result
        }
        Err(error) if version >= 5 => {
            let message = StrBytes::from_string(error.to_string());
            result.with_error_code(error.as_i16()).with_error_message(Some(message))
        }
        Err(error) => result.with_error_code(error.as_i16()),
    }
}
