//! The offsets that a group has committed. In memory, like everything here.

use std::collections::BTreeMap;

use kafka_protocol::protocol::StrBytes;

/// The longest note that may be kept beside an offset, as in Kafka.
pub(crate) const MAX_NOTE: usize = 4096;

/// A committed offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Committed {
    pub(crate) offset: i64,
    pub(crate) leader_epoch: i32,
    pub(crate) note: StrBytes,
}

/// The committed offsets of a group, by topic and partition.
#[derive(Debug, Default)]
pub(crate) struct Offsets {
    topics: BTreeMap<StrBytes, BTreeMap<i32, Committed>>,
}

impl Offsets {
    pub(crate) fn commit(&mut self, topic: &StrBytes, partition: i32, committed: Committed) {
        // Not `entry`: the name is part of a request, and only a copy may be kept.
        if let Some(partitions) = self.topics.get_mut(topic) {
            partitions.insert(partition, committed);
        } else {
            let topic = StrBytes::from_string(topic.to_string());
            self.topics.insert(topic, BTreeMap::from([(partition, committed)]));
        }
    }

    pub(crate) fn get(&self, topic: &StrBytes, partition: i32) -> Option<Committed> {
        self.topics.get(topic)?.get(&partition).cloned()
    }

    /// Everything that was committed.
    pub(crate) fn all(&self) -> Vec<(StrBytes, Vec<(i32, Committed)>)> {
        let partitions = |partitions: &BTreeMap<i32, Committed>| {
            partitions.iter().map(|(&index, committed)| (index, committed.clone())).collect()
        };
        self.topics.iter().map(|(topic, of)| (topic.clone(), partitions(of))).collect()
    }

    /// Forgets a topic that was deleted.
    pub(crate) fn forget(&mut self, topic: &str) {
        self.topics.retain(|name, _| name.as_str() != topic);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }
}
