//! A second reading of Kafka's rules for a fetch that waits, written from the rules and not from `ixion::kafka::fetch`: a
//! picture of partitions as plain data, one long function, sums that cannot overflow.

use std::collections::BTreeMap;

use ixion::kafka::ErrorCode;
use ixion::kafka::fetch::{Decision, FirstRead, Isolation, Reason};

/// A partition as a broker may find it. Nothing is ruled out, not even what no broker should come to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replica {
    pub(crate) hosting: Hosting,
    pub(crate) leads: bool,
    pub(crate) leader_epoch: i32,
    pub(crate) log_end: Spot,
    pub(crate) high_watermark: Spot,
    pub(crate) last_stable: Spot,
    /// Where each epoch ended.
    pub(crate) epochs: BTreeMap<i32, i64>,
    /// Whether the epochs cannot be read.
    pub(crate) epochs_lost: bool,
    pub(crate) throttled: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Hosting {
    #[default]
    Here,
    Unknown,
    Offline,
}

/// An offset, and the segment and position where it lies if that is known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spot {
    pub(crate) offset: i64,
    pub(crate) place: Option<(i64, u64)>,
}

/// What a request wants of one partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) replica: usize,
    pub(crate) fetch_offset: i64,
    pub(crate) start: Spot,
    pub(crate) max_bytes: u64,
    pub(crate) leader_epoch: Option<i32>,
    pub(crate) last_fetched_epoch: Option<i32>,
}

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) min_bytes: u64,
    pub(crate) isolation: Isolation,
    pub(crate) leader_only: bool,
    pub(crate) wanted: Vec<Wanted>,
}

impl Replica {
    /// The error that such a request gets, if it does.
    pub(crate) fn refuses(&self, leader_only: bool, leader_epoch: Option<i32>) -> Option<ErrorCode> {
        match self.hosting {
            Hosting::Unknown => return Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            Hosting::Offline => return Some(ErrorCode::KAFKA_STORAGE_ERROR),
            Hosting::Here => {}
        }
        if leader_only && !self.leads {
            return Some(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        }
        match leader_epoch {
            Some(epoch) if epoch < self.leader_epoch => Some(ErrorCode::FENCED_LEADER_EPOCH),
            Some(epoch) if epoch > self.leader_epoch => Some(ErrorCode::UNKNOWN_LEADER_EPOCH),
            _ => None,
        }
    }
}

/// The decision, and the replicas that were asked for it, in order.
pub(crate) fn decision(request: &Request, replicas: &[Replica]) -> (Decision, Vec<usize>) {
    let mut asked = Vec::new();
    let mut sum = 0u128;
    for wanted in &request.wanted {
        // The first read did not get so far.
        if wanted.start.offset == -1 && wanted.start.place.is_none() {
            continue;
        }
        asked.push(wanted.replica);
        let replica = &replicas[wanted.replica];
        if let Some(error) = replica.refuses(request.leader_only, wanted.leader_epoch) {
            return (Decision::Answer(Reason::Unreadable(error)), asked);
        }
        let end = match request.isolation {
            Isolation::LogEnd => replica.log_end,
            Isolation::HighWatermark => replica.high_watermark,
            Isolation::LastStable => replica.last_stable,
        };
        let mut adds = 0u128;
        if wanted.fetch_offset > end.offset {
            return (Decision::Answer(Reason::Truncated), asked);
        }
        if wanted.fetch_offset < end.offset
            && let (Some((segment, from)), Some((end_segment, to))) = (wanted.start.place, end.place)
            && !replica.throttled
        {
            if segment < end_segment {
                return (Decision::Answer(Reason::OlderSegment), asked);
            }
            if segment == end_segment && to > from {
                adds = u128::from(to - from).min(u128::from(wanted.max_bytes));
            }
        }
        if let Some(reason) = wanted.last_fetched_epoch.and_then(|epoch| parted(replica, epoch, wanted)) {
            return (Decision::Answer(reason), asked);
        }
        sum += adds;
    }
    if sum >= u128::from(request.min_bytes) {
        return (Decision::Answer(Reason::EnoughBytes), asked);
    }
    (Decision::Wait { bytes: u64::try_from(sum).expect("less than the least") }, asked)
}

/// Why the client's log is not the beginning of this one, or why that cannot be known.
fn parted(replica: &Replica, last_fetched: i32, wanted: &Wanted) -> Option<Reason> {
    if replica.epochs_lost {
        return Some(Reason::Unreadable(ErrorCode::KAFKA_STORAGE_ERROR));
    }
    // Only the epoch itself will do: a smaller one in its place means that this log never had it.
    let reaches = replica.epochs.get(&last_fetched).is_some_and(|&end| end >= wanted.fetch_offset);
    (!reaches).then_some(Reason::Diverging)
}

/// Whether a first read is answer enough.
pub(crate) fn at_once(read: &FirstRead, max_wait_ms: i32, min_bytes: u64) -> bool {
    let may_wait = max_wait_ms > 0 && read.partitions > 0;
    let news = read.any_error | read.any_diverging_epoch | read.any_preferred_replica;
    !may_wait || news || min_bytes <= read.bytes_readable
}

/// The least and the most bytes of a request: the least is no more than the most, the most no more than the quota.
pub(crate) fn capped(min_bytes: i32, max_bytes: i32, quota: u64) -> (u64, u64) {
    let most = i128::from(max_bytes).clamp(0, i128::from(quota));
    let least = i128::from(min_bytes).clamp(0, most);
    (least as u64, most as u64)
}
