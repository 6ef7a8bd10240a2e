//! DescribeConfigs: the few settings that are honoured, and those that were set and are not.

use ixion::kafka::ErrorCode;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult,
};
use kafka_protocol::messages::{DescribeConfigsRequest, DescribeConfigsResponse};
use kafka_protocol::protocol::StrBytes;

use crate::Config;
use crate::catalog::Topic;
use crate::handlers::Session;

/// The kinds of things that have settings.
const TOPIC: i8 = 2;
const BROKER: i8 = 4;

/// Where a setting comes from.
const OF_THE_TOPIC: i8 = 1;
const OF_THE_COMMAND_LINE: i8 = 4;
const DEFAULT: i8 = 5;

/// What kind of value a setting has.
const BOOLEAN: i8 = 1;
const STRING: i8 = 2;
const INT: i8 = 3;
const LONG: i8 = 5;

struct Setting {
    name: String,
    value: Option<String>,
    source: i8,
    kind: i8,
}

pub(super) fn describe_configs(
    session: &Session,
    asked: &DescribeConfigsRequest,
    version: i16,
) -> DescribeConfigsResponse {
    let results = asked.resources.iter().map(|resource| {
        let result = DescribeConfigsResult::default()
            .with_resource_type(resource.resource_type)
            .with_resource_name(resource.resource_name.clone());
        match settings_of(session, resource) {
            Err(error) => {
                let message = StrBytes::from_string(error.to_string());
                result.with_error_code(error.as_i16()).with_error_message(Some(message))
            }
            Ok(settings) => {
                let is_asked_for = |setting: &Setting| match &resource.configuration_keys {
                    Some(keys) => keys.iter().any(|key| key.as_str() == setting.name),
                    None => true,
                };
                let configs =
                    settings.into_iter().filter(is_asked_for).map(|setting| reply(setting, version));
                result.with_error_message(None).with_configs(configs.collect())
            }
        }
    });
    DescribeConfigsResponse::default().with_results(results.collect())
}

fn settings_of(session: &Session, resource: &DescribeConfigsResource) -> Result<Vec<Setting>, ErrorCode> {
    let cluster = &session.cluster;
    match resource.resource_type {
        TOPIC => match cluster.catalog.topic(&resource.resource_name) {
            Some(topic) => Ok(of_topic(&topic)),
            None => Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        },
        // Without a name it is the default of all nodes.
        BROKER if resource.resource_name.is_empty() || cluster.has_node(&resource.resource_name) => {
            Ok(of_broker(&cluster.config))
        }
        _ => Err(ErrorCode::INVALID_REQUEST),
    }
}

fn of_topic(topic: &Topic) -> Vec<Setting> {
    let source = |name: &str| {
        if topic.settings.iter().any(|(set, _)| set == name) { OF_THE_TOPIC } else { DEFAULT }
    };
    let honoured = |name: &str, value: String, kind| Setting {
        name: name.to_owned(),
        value: Some(value),
        source: source(name),
        kind,
    };
    let mut settings = vec![
        honoured("max.message.bytes", topic.rules.max_message_bytes.to_string(), INT),
        honoured("min.insync.replicas", topic.rules.min_insync_replicas.to_string(), INT),
        honoured("retention.bytes", retention(topic.rules.retention_bytes), LONG),
    ];
    for (name, value) in &topic.settings {
        if !settings.iter().any(|setting| setting.name == *name) {
            let (name, value) = (name.clone(), value.clone());
            settings.push(Setting { name, value, source: OF_THE_TOPIC, kind: STRING });
        }
    }
    settings
}

fn of_broker(config: &Config) -> Vec<Setting> {
    let setting = |name: &str, value: String, kind| Setting {
        name: name.to_owned(),
        value: Some(value),
        source: OF_THE_COMMAND_LINE,
        kind,
    };
    let ms = |duration: std::time::Duration| duration.as_millis().to_string();
    vec![
        setting("auto.create.topics.enable", config.auto_create_topics.to_string(), BOOLEAN),
        setting("connections.max.idle.ms", ms(config.connections_max_idle), LONG),
        setting("default.replication.factor", config.replicas.to_string(), INT),
        setting("group.initial.rebalance.delay.ms", ms(config.group_initial_rebalance_delay), INT),
        setting("group.max.session.timeout.ms", ms(config.group_max_session_timeout), INT),
        setting("group.max.size", config.group_max_size.to_string(), INT),
        setting("group.min.session.timeout.ms", ms(config.group_min_session_timeout), INT),
        setting("log.retention.bytes", retention(config.retention_bytes), LONG),
        setting("message.max.bytes", config.max_message_bytes.to_string(), INT),
        setting("min.insync.replicas", config.min_insync_replicas.to_string(), INT),
        setting("num.partitions", config.default_partitions.to_string(), INT),
        setting("replica.fetch.wait.max.ms", ms(config.replica_fetch_wait), INT),
        setting("replica.lag.time.max.ms", ms(config.replica_lag_time_max), LONG),
        setting("socket.request.max.bytes", config.max_request_bytes.to_string(), INT),
    ]
}

/// No limit is written as -1.
fn retention(bytes: u64) -> String {
    i64::try_from(bytes).unwrap_or(-1).to_string()
}

fn reply(setting: Setting, version: i16) -> DescribeConfigsResourceResult {
    let reply = DescribeConfigsResourceResult::default()
        .with_name(StrBytes::from_string(setting.name))
        .with_value(setting.value.map(StrBytes::from_string))
        // Nothing can be set while it runs.
        .with_read_only(true)
        .with_config_source(setting.source);
    if version >= 3 { reply.with_config_type(setting.kind).with_documentation(None) } else { reply }
}
