//! The requests of administrators, at every version.

use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::CreatableTopicConfig;
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;

use super::*;

#[tokio::test]
async fn create_and_delete_topics_at_every_version() {
    let bench = Bench::new().await;
    for version in versions_of(ApiKey::CreateTopics) {
        let setting = CreatableTopicConfig::default()
            .with_name(StrBytes::from_static_str("retention.bytes"))
            .with_value(Some(StrBytes::from_static_str("1000")));
        let new = |name, partitions| {
            let new = CreatableTopic::default().with_name(topic(name)).with_configs(vec![setting.clone()]);
            new.with_num_partitions(partitions).with_replication_factor(1)
        };
        let topics = vec![new("t", 2), new("zero", 0), new("twice", 1), new("twice", 1)];
        let request = CreateTopicsRequest::default().with_topics(topics);
        let reply: CreateTopicsResponse = bench.ask(ApiKey::CreateTopics, version, &request).await;
        let errors: Vec<i16> = reply.topics.iter().map(|topic| topic.error_code).collect();
        assert_eq!(errors, [0, 37, 42, 42], "version {version}");
        let reply: CreateTopicsResponse = bench.ask(ApiKey::CreateTopics, version, &request).await;
        assert_eq!(reply.topics[0].error_code, 36, "version {version}");

        for version in versions_of(ApiKey::DeleteTopics) {
            let _ = bench.session.cluster.catalog.create(
                &crate::catalog::NewTopic {
                    name: "t",
                    partitions: 1,
                    replication_factor: 1,
                    settings: Vec::new(),
                },
                false,
                std::time::Duration::ZERO,
            );
            let names = vec![topic("t"), topic("unknown")];
            let request = match version {
                6.. => {
                    let state = |name| DeleteTopicState::default().with_name(Some(name));
                    DeleteTopicsRequest::default().with_topics(names.into_iter().map(state).collect())
                }
                _ => DeleteTopicsRequest::default().with_topic_names(names),
            };
            let request = request.with_timeout_ms(5000);
            let reply: DeleteTopicsResponse = bench.ask(ApiKey::DeleteTopics, version, &request).await;
            let errors: Vec<i16> = reply.responses.iter().map(|topic| topic.error_code).collect();
            assert_eq!(errors, [0, 3], "version {version}");
        }
    }
}

/// Fetches as follower 2 does, at once.
async fn follow(bench: &Bench, request: FetchRequest) {
    let request = request.with_replica_id(BrokerId(2)).with_max_wait_ms(0);
    let _: FetchResponse = bench.ask(ApiKey::Fetch, 12, &request).await;
}

#[tokio::test]
async fn a_topic_is_deleted_when_its_followers_name_it_no_more() {
    let bench = Bench::of(2).await;
    let new =
        CreatableTopic::default().with_name(topic("t")).with_num_partitions(2).with_replication_factor(2);
    let create = CreateTopicsRequest::default().with_topics(vec![new]).with_timeout_ms(60_000);
    let has_it = || fetch_request("t", 0, 0, 12);
    let (created, ()) = tokio::join!(
        bench.ask::<_, CreateTopicsResponse>(ApiKey::CreateTopics, 7, &create),
        follow(&bench, has_it())
    );
    assert_eq!(created.topics[0].error_code, 0);

    let delete = DeleteTopicsRequest::default().with_topic_names(vec![topic("t")]).with_timeout_ms(60_000);
    let mut deleted = std::pin::pin!(bench.ask::<_, DeleteTopicsResponse>(ApiKey::DeleteTopics, 5, &delete));
    let at_once = std::time::Duration::ZERO;
    assert!(tokio::time::timeout(at_once, &mut deleted).await.is_err());
    follow(&bench, has_it()).await;
    assert!(tokio::time::timeout(at_once, &mut deleted).await.is_err(), "it has it still");
    follow(&bench, fetch_request("another", 0, 0, 12)).await;
    assert_eq!(deleted.await.responses[0].error_code, 0);
}

#[tokio::test]
async fn with_no_time_to_wait_the_work_begins_and_the_answer_is_that_there_was_none() {
    let bench = Bench::new().await;
    let new =
        CreatableTopic::default().with_name(topic("t")).with_num_partitions(1).with_replication_factor(1);
    let request = CreateTopicsRequest::default().with_topics(vec![new]).with_timeout_ms(0);
    let reply: CreateTopicsResponse = bench.ask(ApiKey::CreateTopics, 7, &request).await;
    assert_eq!(reply.topics[0].error_code, 7);
    assert!(bench.session.cluster.catalog.topic("t").is_some());
    let request =
        DeleteTopicsRequest::default().with_topic_names(vec![topic("t"), topic("u")]).with_timeout_ms(-1);
    let reply: DeleteTopicsResponse = bench.ask(ApiKey::DeleteTopics, 4, &request).await;
    let errors: Vec<i16> = reply.responses.iter().map(|topic| topic.error_code).collect();
    assert_eq!(errors, [7, 3]);
    assert!(bench.session.cluster.catalog.topic("t").is_none());
}

#[tokio::test]
async fn what_is_only_to_be_validated_is_answered_and_not_done() {
    let bench = Bench::of(2).await;
    let new = |name, partitions| {
        let new = CreatableTopic::default().with_name(topic(name));
        new.with_num_partitions(partitions).with_replication_factor(2)
    };
    let request =
        CreateTopicsRequest::default().with_topics(vec![new("t", 1), new("u", 0)]).with_validate_only(true);
    let reply: CreateTopicsResponse = bench.ask(ApiKey::CreateTopics, 7, &request).await;
    let errors: Vec<i16> = reply.topics.iter().map(|topic| topic.error_code).collect();
    assert_eq!(errors, [0, 37]);
    assert!(bench.session.cluster.catalog.topics().is_empty());
}

#[tokio::test]
async fn create_partitions_at_every_version() {
    let bench = Bench::new().await;
    bench.create("t").await;
    for (version, count) in versions_of(ApiKey::CreatePartitions).zip(3..) {
        let more = |name, count| {
            let more = CreatePartitionsTopic::default().with_name(topic(name)).with_count(count);
            more.with_assignments(None)
        };
        let topics = vec![more("t", count), more("unknown", 9), more("twice", 9), more("twice", 9)];
        let ask = async |validate_only| -> Vec<i16> {
            let request = CreatePartitionsRequest::default()
                .with_topics(topics.clone())
                .with_timeout_ms(5000)
                .with_validate_only(validate_only);
            let reply: CreatePartitionsResponse =
                bench.ask(ApiKey::CreatePartitions, version, &request).await;
            reply.results.iter().map(|topic| topic.error_code).collect()
        };
        assert_eq!(ask(true).await, [0, 3, 42, 42], "version {version}");
        assert_eq!(ask(false).await, [0, 3, 42, 42], "version {version}");
        assert_eq!(ask(false).await, [37, 3, 42, 42], "no more than before, version {version}");
        let topic = bench.session.cluster.catalog.topic("t").expect("there");
        assert_eq!(topic.partitions.len(), count as usize);
    }
}

#[tokio::test]
async fn delete_records_at_every_version() {
    let bench = Bench::new().await;
    bench.create("t").await;
    for _ in 0..5 {
        let _: ProduceResponse =
            bench.ask(ApiKey::Produce, 9, &produce_request("t", -1, made_up(1, 9))).await;
    }
    for (version, offset) in versions_of(ApiKey::DeleteRecords).zip(1..) {
        let to =
            |index, offset| DeleteRecordsPartition::default().with_partition_index(index).with_offset(offset);
        let topics = vec![
            DeleteRecordsTopic::default().with_name(topic("t")).with_partitions(vec![
                to(0, offset),
                to(0, 6),
                to(1, -1),
                to(9, 0),
            ]),
            DeleteRecordsTopic::default().with_name(topic("unknown")).with_partitions(vec![to(0, 0)]),
        ];
        let request = DeleteRecordsRequest::default().with_topics(topics).with_timeout_ms(5000);
        let reply: DeleteRecordsResponse = bench.ask(ApiKey::DeleteRecords, version, &request).await;
        let results: Vec<(i16, i64)> = reply
            .topics
            .iter()
            .flat_map(|topic| &topic.partitions)
            .map(|partition| (partition.error_code, partition.low_watermark))
            .collect();
        assert_eq!(results, [(0, offset), (1, -1), (0, 0), (3, -1), (3, -1)], "version {version}");
    }
}

#[tokio::test]
async fn describe_configs_at_every_version() {
    let bench = Bench::new().await;
    let setting = |name, value| {
        CreatableTopicConfig::default()
            .with_name(StrBytes::from_static_str(name))
            .with_value(Some(StrBytes::from_static_str(value)))
    };
    let new = CreatableTopic::default()
        .with_name(topic("t"))
        .with_num_partitions(1)
        .with_replication_factor(1)
        .with_configs(vec![setting("retention.bytes", "-1"), setting("cleanup.policy", "compact")]);
    let request = CreateTopicsRequest::default().with_topics(vec![new]);
    let _: CreateTopicsResponse = bench.ask(ApiKey::CreateTopics, 7, &request).await;
    for version in versions_of(ApiKey::DescribeConfigs) {
        let of = |kind, name: &'static str, keys: Option<&[&'static str]>| {
            let keys = keys.map(|keys| keys.iter().map(|key| StrBytes::from_static_str(key)).collect());
            DescribeConfigsResource::default()
                .with_resource_type(kind)
                .with_resource_name(StrBytes::from_static_str(name))
                .with_configuration_keys(keys)
        };
        let resources = vec![
            of(2, "t", None),
            of(2, "t", Some(&["min.insync.replicas", "nonsense"])),
            of(4, "1", Some(&["message.max.bytes"])),
            of(2, "unknown", None),
            of(4, "7", None),
            of(8, "t", None),
        ];
        let request = DescribeConfigsRequest::default().with_resources(resources);
        let reply: DescribeConfigsResponse = bench.ask(ApiKey::DescribeConfigs, version, &request).await;
        let errors: Vec<i16> = reply.results.iter().map(|result| result.error_code).collect();
        assert_eq!(errors, [0, 0, 0, 3, 42, 42], "version {version}");
        let listed = |nth: usize| -> Vec<(&str, &str, i8)> {
            let configs = reply.results[nth].configs.iter();
            configs
                .map(|one| (one.name.as_str(), one.value.as_deref().unwrap_or("null"), one.config_source))
                .collect()
        };
        let of_topic = [
            ("max.message.bytes", "1048588", 5),
            ("min.insync.replicas", "1", 5),
            ("retention.bytes", "-1", 1),
            ("cleanup.policy", "compact", 1),
        ];
        assert_eq!(listed(0), of_topic);
        assert_eq!(listed(1), of_topic[1..2]);
        assert_eq!(listed(2), [("message.max.bytes", "1048588", 4)]);
    }
}
