//! The requests that wait in a purgatory, and what they ask of a partition or a topic.

use std::collections::BTreeSet;
use std::sync::Arc;

use ixion::kafka::delete_records::{self, DeletePartition};
use ixion::kafka::fetch::{Access, EpochEnd, FetchPartition, Isolation, OffsetPlace, Offsets};
use ixion::kafka::produce::{PartitionStatus, ProducePartition, Standing};
use ixion::kafka::topics::{TopicStatus, TopicWork};
use ixion::kafka::{DelayedDeleteRecords, DelayedFetch, DelayedProduce, DelayedRequest, ErrorCode};
use ixion::{DelayedOperation, Outcome};

use parking_lot::Mutex;

use crate::catalog::Catalog;
use crate::partition::{Partition, PartitionId};

/// What a fetch request waits for, on the first two at a number: so many bytes that were ever before that end. Consumers
/// and followers wait for different things, so the keys differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FetchKey {
    /// The high watermark of a partition: consumers.
    HighWatermark(PartitionId),
    /// The log end of a partition: followers.
    LogEnd(PartitionId),
    /// The set of partitions that a follower has to fetch.
    Assignment(i32),
}

/// A partition of a produce request: hosted here, or not.
#[derive(Clone, Debug)]
pub(crate) struct Hosted(pub(crate) Option<Arc<Partition>>);

impl ProducePartition for Hosted {
    fn standing(&self) -> Standing {
        match &self.0 {
            Some(partition) => partition.standing(),
            None => Standing::Absent(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        }
    }
}

type ProduceAnswer = Box<dyn FnOnce(Outcome, Vec<PartitionStatus<Hosted>>) + Send>;

/// A produce request that waits for followers.
pub(crate) type ProduceWait = DelayedProduce<Hosted, ProduceAnswer>;

impl DeletePartition for Hosted {
    fn delete_standing(&self) -> delete_records::Standing {
        let partition = self.0.as_ref().ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
        match partition.and_then(|partition| partition.low_watermark()) {
            Ok(low_watermark) => delete_records::Standing::Leader { low_watermark },
            Err(error) => delete_records::Standing::Absent(error),
        }
    }
}

type DeleteAnswer = Box<dyn FnOnce(Outcome, Vec<delete_records::PartitionStatus<Hosted>>) + Send>;

/// A request to delete records that waits until the followers have deleted them, too.
pub(crate) type DeleteRecordsWait = DelayedDeleteRecords<Hosted, DeleteAnswer>;

/// What is to be done about a topic.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// Nothing: it was refused.
    None,
    /// These partitions are new; every replica is to fetch them.
    Serve(Vec<Arc<Partition>>),
    /// These followers are to drop it.
    Drop(Arc<Leftovers>),
}

impl Work {
    /// The topic that it is about.
    pub(crate) fn topic(&self) -> Option<Arc<str>> {
        match self {
            Work::None => None,
            Work::Serve(partitions) => partitions.first().map(|partition| partition.topic().clone()),
            Work::Drop(leftovers) => Some(leftovers.topic.clone()),
        }
    }
}

impl TopicWork for Work {
    fn outstanding(&self) -> usize {
        match self {
            Work::None => 0,
            Work::Serve(partitions) => partitions.iter().filter(|partition| partition.unserved() > 0).count(),
            Work::Drop(leftovers) => leftovers.nodes.lock().len(),
        }
    }
}

/// What is left of a topic that was deleted.
#[derive(Debug)]
pub(crate) struct Leftovers {
    pub(crate) topic: Arc<str>,
    /// The followers that have not said yet that they have dropped it.
    pub(crate) nodes: Mutex<BTreeSet<i32>>,
}

type TopicsAnswer = Box<dyn FnOnce(Outcome, Vec<TopicStatus<Work>>) + Send>;

/// A request to create or delete topics that waits until that is done everywhere.
pub(crate) type TopicsWait = DelayedRequest<TopicStatus<Work>, TopicsAnswer>;

/// A partition as one reader sees it.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) partition: Arc<Partition>,
    /// Where the reader stands.
    pub(crate) start: OffsetPlace,
    /// Where the reader's own log begins, if it is a follower: it is to hear of it when the leader's begins later.
    pub(crate) log_start: i64,
}

impl FetchPartition for View {
    /// A consumer that is ahead of the high watermark, but not of the log, is at the end of what it can see, and
    /// waits. Taken for a fetch past the end it would be answered at once, over and over.
    fn offsets(&self, access: Access) -> Result<Offsets, ErrorCode> {
        let mut offsets = self.partition.offsets(access, self.start.offset().min(self.log_start))?;
        let ahead = offsets.high_watermark.offset() + 1..=offsets.log_end.offset();
        if ahead.contains(&self.start.offset()) {
            offsets.high_watermark = self.start;
            offsets.last_stable = offsets.high_watermark;
        }
        Ok(offsets)
    }

    fn end_of_epoch(&self, access: Access, epoch: i32) -> Result<Option<EpochEnd>, ErrorCode> {
        self.partition.end_of_epoch(access, epoch)
    }
}

type FetchAnswer = Box<dyn FnOnce(Outcome, Vec<ixion::kafka::fetch::PartitionFetch<View>>) + Send>;

/// A fetch request that waits for bytes.
pub(crate) struct FetchWait {
    pub(crate) fetch: DelayedFetch<View, FetchAnswer>,
    /// Set if a follower fetches: its fetch ends when there are partitions that it does not cover.
    pub(crate) coverage: Option<Coverage>,
    /// Not set if the request names a partition twice: it is asked at every event then.
    pub(crate) has_numbers: bool,
}

/// How much of what is assigned to a follower its fetch covers.
#[derive(Debug)]
pub(crate) struct Coverage {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) node: i32,
    pub(crate) partitions: usize,
}

impl DelayedOperation for FetchWait {
    fn try_complete(&mut self) -> bool {
        self.coverage.as_ref().is_some_and(|coverage| !coverage.is_whole()) || self.fetch.try_complete()
    }

    fn next_progress(&self, watch: usize) -> Option<u64> {
        if self.has_numbers { self.fetch.next_progress(watch) } else { None }
    }

    fn on_complete(self, outcome: Outcome) {
        self.fetch.on_complete(outcome);
    }
}

impl Coverage {
    fn is_whole(&self) -> bool {
        self.partitions >= self.catalog.assigned(self.node)
    }
}

/// The key that a reader of this kind watches.
pub(crate) fn key_for(isolation: Isolation, partition: PartitionId) -> FetchKey {
    match isolation {
        Isolation::LogEnd => FetchKey::LogEnd(partition),
        Isolation::HighWatermark | Isolation::LastStable => FetchKey::HighWatermark(partition),
    }
}
