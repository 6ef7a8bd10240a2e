//! The topics: what a controller would know and tell the nodes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use ixion::kafka::ErrorCode;
use parking_lot::RwLock;

use crate::Config;
use crate::partition::{Partition, PartitionId, Rules};

/// The longest topic name that Kafka allows.
const MAX_NAME: usize = 249;
/// The most partitions of one topic and of all together: each costs memory on every node.
const MAX_PARTITIONS: usize = 10_000;
/// What else may be set in Kafka, and is ignored here.
#[rustfmt::skip]
const IGNORED: [&str; 33] = [
    "cleanup.policy", "compression.gzip.level", "compression.lz4.level", "compression.type", "compression.zstd.level",
    "delete.retention.ms", "file.delete.delay.ms", "flush.messages", "flush.ms",
    "follower.replication.throttled.replicas", "index.interval.bytes", "leader.replication.throttled.replicas",
    "local.retention.bytes", "local.retention.ms", "max.compaction.lag.ms", "message.downconversion.enable",
    "message.format.version", "message.timestamp.after.max.ms", "message.timestamp.before.max.ms",
    "message.timestamp.difference.max.ms", "message.timestamp.type", "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms", "preallocate", "remote.log.copy.disable", "remote.log.delete.on.disable",
    "remote.storage.enable", "retention.ms", "segment.bytes", "segment.index.bytes", "segment.jitter.ms", "segment.ms",
    "unclean.leader.election.enable",
];

/// A topic. One that gets more partitions is replaced.
#[derive(Debug, Clone)]
pub(crate) struct Topic {
    pub(crate) name: Arc<str>,
    pub(crate) partitions: Vec<Arc<Partition>>,
    /// What its creator has set.
    pub(crate) settings: Vec<(String, Option<String>)>,
    pub(crate) rules: Rules,
    replicas: usize,
}

/// What somebody wants created. Numbers of -1 stand for the default.
#[derive(Debug, Clone, Default)]
pub(crate) struct NewTopic<'a> {
    pub(crate) name: &'a str,
    pub(crate) partitions: i32,
    pub(crate) replication_factor: i16,
    pub(crate) settings: Vec<(&'a str, Option<&'a str>)>,
}

/// All topics.
#[derive(Debug)]
pub(crate) struct Catalog {
    config: Config,
    topics: RwLock<BTreeMap<Arc<str>, Arc<Topic>>>,
    /// How many partitions each follower has to fetch; written under the lock of `topics`.
    assigned: HashMap<i32, AtomicUsize>,
    next_id: AtomicU64,
    total_bytes: Arc<AtomicU64>,
}

impl Catalog {
    pub(crate) fn new(config: Config) -> Self {
        let followers = 2..=i32::from(config.replicas);
        Catalog {
            config,
            topics: RwLock::default(),
            assigned: followers.map(|node| (node, AtomicUsize::new(0))).collect(),
            next_id: AtomicU64::new(1),
            total_bytes: Arc::default(),
        }
    }

    /// Creates a topic, or with `validate_only` says what would come of it.
    ///
    /// Whoever holds a fetch of a follower must be told afterwards: it does not cover the new partitions.
    pub(crate) fn create(
        &self,
        new: &NewTopic<'_>,
        validate_only: bool,
        now: Duration,
    ) -> Result<Arc<Topic>, ErrorCode> {
        check_name(new.name)?;
        let partitions = self.partition_count(new.partitions)?;
        let replicas = self.replica_count(new.replication_factor)?;
        let rules = self.rules(&new.settings)?;
        let mut topics = self.topics.write();
        if topics.contains_key(new.name) {
            return Err(ErrorCode::TOPIC_ALREADY_EXISTS);
        }
        if count_partitions(&topics) + partitions > MAX_PARTITIONS {
            return Err(ErrorCode::INVALID_PARTITIONS);
        }
        let name: Arc<str> = Arc::from(new.name);
        let settings =
            new.settings.iter().map(|(name, value)| ((*name).to_owned(), value.map(str::to_owned)));
        let mut topic = Topic { name, partitions: Vec::new(), settings: settings.collect(), rules, replicas };
        self.add_partitions(&mut topic, partitions, now);
        let topic = Arc::new(topic);
        if !validate_only {
            self.count_assigned(&topic.partitions, |count| {
                count.fetch_add(1, Ordering::Release);
            });
            topics.insert(topic.name.clone(), topic.clone());
        }
        Ok(topic)
    }

    /// Gives a topic more partitions, or with `validate_only` says what would come of it. Returns the new ones.
    ///
    /// Whoever holds a fetch of a follower must be told afterwards: it does not cover them.
    pub(crate) fn grow(
        &self,
        name: &str,
        count: i32,
        validate_only: bool,
        now: Duration,
    ) -> Result<Vec<Arc<Partition>>, ErrorCode> {
        let mut topics = self.topics.write();
        let topic = topics.get(name).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
        let (former, existing) = (topic.partitions.len(), count_partitions(&topics));
        let count = usize::try_from(count).map_err(|_| ErrorCode::INVALID_PARTITIONS)?;
        if count <= former || existing - former + count > MAX_PARTITIONS {
            return Err(ErrorCode::INVALID_PARTITIONS);
        }
        let mut topic = Topic::clone(topic);
        self.add_partitions(&mut topic, count, now);
        let new = topic.partitions[former..].to_vec();
        if !validate_only {
            self.count_assigned(&new, |count| {
                count.fetch_add(1, Ordering::Release);
            });
            topics.insert(topic.name.clone(), Arc::new(topic));
        }
        Ok(new)
    }

    /// Deletes a topic. `end` is called with it before anybody can see that it is not listed any more.
    pub(crate) fn delete(&self, name: &str, end: impl FnOnce(&Topic)) -> Result<(), ErrorCode> {
        let mut topics = self.topics.write();
        let topic = topics.remove(name).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
        end(&topic);
        self.count_assigned(&topic.partitions, |count| {
            count.fetch_sub(1, Ordering::Release);
        });
        Ok(())
    }

    pub(crate) fn topic(&self, name: &str) -> Option<Arc<Topic>> {
        self.topics.read().get(name).cloned()
    }

    pub(crate) fn partition(&self, topic: &str, index: i32) -> Option<Arc<Partition>> {
        let topics = self.topics.read();
        topics.get(topic)?.partitions.get(usize::try_from(index).ok()?).cloned()
    }

    /// All topics, by name.
    pub(crate) fn topics(&self) -> Vec<Arc<Topic>> {
        self.topics.read().values().cloned().collect()
    }

    /// How many partitions a follower has to fetch.
    pub(crate) fn assigned(&self, node: i32) -> usize {
        self.assigned.get(&node).map_or(0, |count| count.load(Ordering::Acquire))
    }

    fn add_partitions(&self, topic: &mut Topic, up_to: usize, now: Duration) {
        for index in topic.partitions.len()..up_to {
            let followers = self.followers_of(index, topic.replicas);
            let id = PartitionId(self.next_id.fetch_add(1, Ordering::Relaxed));
            let (name, rules) = (topic.name.clone(), topic.rules.clone());
            topic.partitions.push(Arc::new(Partition::new(id, name, index as i32, &followers, rules, now)));
        }
    }

    fn count_assigned(&self, partitions: &[Arc<Partition>], change: impl Fn(&AtomicUsize)) {
        for node in partitions.iter().flat_map(|partition| partition.replicas()) {
            if let Some(count) = self.assigned.get(&node) {
                change(count);
            }
        }
    }

    /// The followers of a partition: the leader is node 1, the others take turns.
    fn followers_of(&self, index: usize, replicas: usize) -> Vec<i32> {
        let followers = usize::from(self.config.replicas) - 1;
        (0..replicas - 1).map(|nth| 2 + ((index + nth) % followers) as i32).collect()
    }

    fn partition_count(&self, wanted: i32) -> Result<usize, ErrorCode> {
        let count = if wanted == -1 { self.config.default_partitions } else { wanted };
        match usize::try_from(count) {
            Ok(count @ 1..=MAX_PARTITIONS) => Ok(count),
            _ => Err(ErrorCode::INVALID_PARTITIONS),
        }
    }

    fn replica_count(&self, wanted: i16) -> Result<usize, ErrorCode> {
        let nodes = usize::from(self.config.replicas);
        match usize::try_from(wanted) {
            Err(_) if wanted == -1 => Ok(nodes),
            Ok(count) if (1..=nodes).contains(&count) => Ok(count),
            _ => Err(ErrorCode::INVALID_REPLICATION_FACTOR),
        }
    }

    /// The settings that are honoured. Those of Kafka's that are not are accepted; any other is a mistake.
    fn rules(&self, settings: &[(&str, Option<&str>)]) -> Result<Rules, ErrorCode> {
        let mut rules = Rules {
            min_insync_replicas: usize::from(self.config.min_insync_replicas),
            max_message_bytes: self.config.max_message_bytes,
            retention_bytes: self.config.retention_bytes,
            total_bytes: self.total_bytes.clone(),
            retention_total_bytes: self.config.retention_total_bytes,
        };
        for (name, value) in settings {
            let number =
                || value.and_then(|value| value.parse::<i64>().ok()).ok_or(ErrorCode::INVALID_CONFIG);
            match *name {
                "min.insync.replicas" => match number()? {
                    count @ 1.. => rules.min_insync_replicas = count as usize,
                    _ => return Err(ErrorCode::INVALID_CONFIG),
                },
                "max.message.bytes" => {
                    let bytes = usize::try_from(number()?).map_err(|_| ErrorCode::INVALID_CONFIG)?;
                    // The limits of a request and of all buffers are made for no larger ones.
                    rules.max_message_bytes = bytes.min(self.config.max_message_bytes);
                }
                // -1: no limit but that of all logs together
                "retention.bytes" => rules.retention_bytes = u64::try_from(number()?).unwrap_or(u64::MAX),
                name if IGNORED.contains(&name) => {}
                _ => return Err(ErrorCode::INVALID_CONFIG),
            }
        }
        Ok(rules)
    }

    /// The first setting that is refused.
    pub(crate) fn refused<'a>(&self, settings: &[(&'a str, Option<&str>)]) -> Option<&'a str> {
        settings.iter().find(|&&setting| self.rules(&[setting]).is_err()).map(|&(name, _)| name)
    }
}

fn count_partitions(topics: &BTreeMap<Arc<str>, Arc<Topic>>) -> usize {
    topics.values().map(|topic| topic.partitions.len()).sum()
}

fn check_name(name: &str) -> Result<(), ErrorCode> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let is_legal =
        !name.is_empty() && name.len() <= MAX_NAME && name != "." && name != ".." && name.chars().all(legal);
    if is_legal { Ok(()) } else { Err(ErrorCode::INVALID_TOPIC_EXCEPTION) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog() -> Catalog {
        Catalog::new(Config { min_insync_replicas: 2, ..Config::default() })
    }

    fn new(name: &str) -> NewTopic<'_> {
        NewTopic { name, partitions: 1, replication_factor: 3, settings: Vec::new() }
    }

    fn create(catalog: &Catalog, new: &NewTopic<'_>) -> Result<usize, ErrorCode> {
        catalog.create(new, false, Duration::ZERO).map(|topic| topic.partitions.len())
    }

    #[test]
    fn numbers_of_minus_one_are_the_defaults() {
        let catalog = catalog();
        let topic = NewTopic { partitions: -1, replication_factor: -1, ..new("t") };
        assert_eq!(create(&catalog, &topic), Ok(3));
        assert_eq!(catalog.partition("t", 2).expect("there").replicas(), [1, 2, 3]);
        assert!(catalog.partition("t", 3).is_none());
        assert!(catalog.partition("t", -1).is_none());
    }

    #[test]
    fn illegal_wishes_have_their_own_errors() {
        let catalog = catalog();
        for name in ["", ".", "..", "a/b", "ä", "a b", "a\"b", &"x".repeat(250)] {
            assert_eq!(create(&catalog, &new(name)), Err(ErrorCode::INVALID_TOPIC_EXCEPTION), "{name:?}");
        }
        for partitions in [0, -2, i32::MAX, i32::MIN] {
            let topic = NewTopic { partitions, ..new("t") };
            assert_eq!(create(&catalog, &topic), Err(ErrorCode::INVALID_PARTITIONS), "{partitions}");
        }
        for replication_factor in [0, 4, -2, i16::MAX] {
            let topic = NewTopic { replication_factor, ..new("t") };
            assert_eq!(
                create(&catalog, &topic),
                Err(ErrorCode::INVALID_REPLICATION_FACTOR),
                "{replication_factor}"
            );
        }
        for value in [None, Some("0"), Some("x")] {
            let topic = NewTopic { settings: vec![("min.insync.replicas", value)], ..new("t") };
            assert_eq!(create(&catalog, &topic), Err(ErrorCode::INVALID_CONFIG), "{value:?}");
        }
        assert_eq!(create(&catalog, &new("t")), Ok(1));
        assert_eq!(create(&catalog, &new("t")), Err(ErrorCode::TOPIC_ALREADY_EXISTS));
    }

    #[test]
    fn validating_creates_nothing() {
        let catalog = catalog();
        assert!(catalog.create(&new("t"), true, Duration::ZERO).is_ok());
        assert!(catalog.topic("t").is_none());
        assert_eq!(catalog.assigned(2), 0);
    }

    #[test]
    fn followers_take_turns_and_their_partitions_are_counted() {
        let catalog = catalog();
        let topic = NewTopic { partitions: 3, replication_factor: 2, ..new("t") };
        assert_eq!(create(&catalog, &topic), Ok(3));
        assert_eq!((catalog.assigned(1), catalog.assigned(2), catalog.assigned(3)), (0, 2, 1));
        catalog.delete("t", |_| {}).expect("there");
        assert_eq!((catalog.assigned(2), catalog.assigned(3)), (0, 0));
        assert_eq!(catalog.delete("t", |_| {}).err(), Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
    }

    #[test]
    fn a_topic_created_again_has_new_partitions() {
        let catalog = catalog();
        create(&catalog, &new("t")).expect("new");
        let first = catalog.partition("t", 0).expect("there").id();
        catalog.delete("t", |_| {}).expect("there");
        create(&catalog, &new("t")).expect("new again");
        assert_ne!(catalog.partition("t", 0).expect("there").id(), first);
    }
}
