//! Metadata and FindCoordinator: who is there and who leads what.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ixion::kafka::ErrorCode;
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{
    BrokerId, FindCoordinatorRequest, FindCoordinatorResponse, MetadataRequest, MetadataResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;

use crate::catalog::{NewTopic, Topic};
use crate::handlers::Session;
use crate::partition::{LEADER, LEADER_EPOCH, Partition};

/// The key type of a transaction's coordinator.
const TRANSACTION: i8 = 1;

pub(super) fn metadata(session: &Session, asked: &MetadataRequest, version: i16) -> MetadataResponse {
    let catalog = &session.cluster.catalog;
    let topics = match &asked.topics {
        // In version 0 an empty list means all, later it means none.
        Some(names) if version > 0 || !names.is_empty() => names
            .iter()
            .filter_map(|topic| topic.name.as_ref())
            .map(|name| match find_or_create(session, name, asked.allow_auto_topic_creation || version < 4) {
                Ok(topic) => describe(&topic, version),
                Err(error) => MetadataResponseTopic::default()
                    .with_name(Some(name.clone()))
                    .with_error_code(error.as_i16()),
            })
            .collect(),
        _ => catalog.topics().iter().map(|topic| describe(topic, version)).collect(),
    };
    let response = MetadataResponse::default().with_brokers(brokers(session)).with_topics(topics);
    let response = if version >= 1 { response.with_controller_id(BrokerId(LEADER)) } else { response };
    if version >= 2 { response.with_cluster_id(Some(StrBytes::from_static_str("ixion"))) } else { response }
}

pub(super) fn find_coordinator(
    session: &Session,
    asked: &FindCoordinatorRequest,
    version: i16,
) -> FindCoordinatorResponse {
    let (host, port) = address(session, LEADER);
    let response = FindCoordinatorResponse::default();
    if asked.key_type == TRANSACTION {
        // There are no transactions, and there will be none: the one error that all clients give up at.
        let error = ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED.as_i16();
        let message = StrBytes::from_static_str("there are no transactions here");
        if version < 4 {
            let response = response.with_error_code(error).with_node_id(BrokerId(-1)).with_port(-1);
            return if version >= 1 { response.with_error_message(Some(message)) } else { response };
        }
        let refuse = |key: &StrBytes| {
            let coordinator = Coordinator::default().with_key(key.clone()).with_error_code(error);
            coordinator.with_node_id(BrokerId(-1)).with_port(-1).with_error_message(Some(message.clone()))
        };
        return response.with_coordinators(asked.coordinator_keys.iter().map(refuse).collect());
    }
    if version < 4 {
        return response.with_node_id(BrokerId(LEADER)).with_host(host).with_port(port);
    }
    let coordinator = |key: &StrBytes| {
        let coordinator = Coordinator::default().with_key(key.clone());
        coordinator.with_node_id(BrokerId(LEADER)).with_host(host.clone()).with_port(port)
    };
    response.with_coordinators(asked.coordinator_keys.iter().map(coordinator).collect())
}

fn find_or_create(session: &Session, name: &TopicName, may_create: bool) -> Result<Arc<Topic>, ErrorCode> {
    let cluster = &session.cluster;
    if let Some(topic) = cluster.catalog.topic(name) {
        return Ok(topic);
    }
    if !may_create || !cluster.config.auto_create_topics {
        return Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    }
    let new = NewTopic { name, partitions: -1, replication_factor: -1, settings: Vec::new() };
    match cluster.catalog.create(&new, false, cluster.now()) {
        Ok(topic) => {
            cluster.signal_assignments();
            Ok(topic)
        }
        // Somebody else was faster.
        Err(ErrorCode::TOPIC_ALREADY_EXISTS) => {
            cluster.catalog.topic(name).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
        }
        Err(error) => Err(error),
    }
}

fn describe(topic: &Topic, version: i16) -> MetadataResponseTopic {
    let partitions =
        topic.partitions.iter().map(|partition| describe_partition(partition, version)).collect();
    let name = TopicName(StrBytes::from_string(topic.name.to_string()));
    MetadataResponseTopic::default().with_name(Some(name)).with_partitions(partitions)
}

fn describe_partition(partition: &Partition, version: i16) -> MetadataResponsePartition {
    let nodes = |nodes: Vec<i32>| nodes.into_iter().map(BrokerId).collect();
    let described = MetadataResponsePartition::default()
        .with_partition_index(partition.index())
        .with_leader_id(BrokerId(LEADER))
        .with_replica_nodes(nodes(partition.replicas()))
        .with_isr_nodes(nodes(partition.isr()));
    if version >= 7 { described.with_leader_epoch(LEADER_EPOCH) } else { described }
}

fn brokers(session: &Session) -> Vec<MetadataResponseBroker> {
    (1..=i32::from(session.cluster.config.replicas))
        .map(|node| {
            let (host, port) = address(session, node);
            MetadataResponseBroker::default().with_node_id(BrokerId(node)).with_host(host).with_port(port)
        })
        .collect()
}

fn address(session: &Session, node: i32) -> (StrBytes, i32) {
    let address = session.cluster.nodes[node as usize - 1];
    // Nobody can connect to "every address".
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    (StrBytes::from_string(ip.to_string()), i32::from(address.port()))
}
