//! One partition as its leader sees it: the log, how far each follower has come, who is in sync, the high watermark.
//!
//! All of it is behind one lock, which is a leaf: nothing is called while it is held. What a change brings about is
//! returned as [`Moved`], for the caller to signal.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use ixion::kafka::ErrorCode;
use ixion::kafka::delete_records::low_watermark;
use ixion::kafka::fetch::{Access, EpochEnd, Isolation, OffsetPlace, Offsets};
use ixion::kafka::produce::{Standing, effective_min_in_sync};
use parking_lot::{Mutex, MutexGuard};

use crate::FollowerEnd;
use crate::batch::BatchHead;
use crate::log::Log;
use crate::moved::{Moved, Reached};
use crate::producers::{Novelty, Producers};

/// The leader of everything.
pub(crate) const LEADER: i32 = 1;
/// There are no elections, so there is one epoch.
pub(crate) const LEADER_EPOCH: i32 = 0;

/// Names a partition for ever: a topic that is deleted and created again has new ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PartitionId(pub(crate) u64);

/// One partition at its leader.
#[derive(Debug)]
pub(crate) struct Partition {
    id: PartitionId,
    topic: Arc<str>,
    index: i32,
    pub(crate) rules: Rules,
    state: Mutex<State>,
}

/// What does not change about a partition.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) min_insync_replicas: usize,
    pub(crate) max_message_bytes: usize,
    pub(crate) retention_bytes: u64,
    /// The bytes in all logs of the leader, and how many there may be.
    pub(crate) total_bytes: Arc<AtomicU64>,
    pub(crate) retention_total_bytes: u64,
}

#[derive(Debug)]
struct State {
    log: Log,
    high_watermark: i64,
    followers: Vec<Follower>,
    producers: Producers,
    closed: bool,
}

/// How far a follower has come.
#[derive(Debug)]
struct Follower {
    node: i32,
    in_sync: bool,
    /// One past the last offset that it is known to have; nothing before its first fetch.
    log_end: Option<i64>,
    /// Where its log begins, as far as is known.
    log_start: i64,
    /// When it last had all that the leader had.
    caught_up: Duration,
    /// When it last fetched, and where the leader's log ended then.
    last_fetch: (Duration, i64),
}

/// The result of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Appended {
    pub(crate) base_offset: i64,
    pub(crate) last_offset: i64,
    pub(crate) log_start: i64,
    pub(crate) moved: Moved,
}

/// Where the parts of a log begin and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) log_start: i64,
    pub(crate) high_watermark: i64,
    pub(crate) log_end: i64,
}

/// What a reader wants of one partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) offset: i64,
    pub(crate) isolation: Isolation,
    pub(crate) access: Access,
    pub(crate) last_fetched_epoch: Option<i32>,
}

/// How a read of an offset begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) place: OffsetPlace,
    /// What the reader may see ends here.
    pub(crate) end: OffsetPlace,
    /// Set if the reader must truncate to there first.
    pub(crate) diverging: Option<EpochEnd>,
}

impl Partition {
    /// Makes an empty partition. All replicas begin in sync.
    pub(crate) fn new(
        id: PartitionId,
        topic: Arc<str>,
        index: i32,
        followers: &[i32],
        rules: Rules,
        now: Duration,
    ) -> Self {
        let follower = |&node| Follower {
            node,
            in_sync: true,
            log_end: None,
            log_start: 0,
            caught_up: now,
            last_fetch: (now, 0),
        };
        let state = State {
            log: Log::default(),
            high_watermark: 0,
            followers: followers.iter().map(follower).collect(),
            producers: Producers::default(),
            closed: false,
        };
        Partition { id, topic, index, rules, state: Mutex::new(state) }
    }

    /// Appends a producer's batch, unless it is here already.
    ///
    /// # Errors
    ///
    /// What the producer is answered. With `all_acks` that is also `NOT_ENOUGH_REPLICAS`.
    pub(crate) fn append(
        &self,
        head: &BatchHead,
        bytes: &[u8],
        all_acks: bool,
    ) -> Result<Appended, ErrorCode> {
        let mut state = self.open()?;
        if all_acks && state.in_sync() < state.min_in_sync(&self.rules) {
            return Err(ErrorCode::NOT_ENOUGH_REPLICAS);
        }
        if let Novelty::Duplicate { base_offset, last_offset } = state.producers.check(head)? {
            let log_start = state.log.start();
            return Ok(Appended { base_offset, last_offset, log_start, moved: Moved::default() });
        }
        let (low_watermark, former_start) = (state.low_watermark(), state.log.start());
        if !self.make_room(&mut state, bytes.len() as u64) {
            return Err(ErrorCode::KAFKA_STORAGE_ERROR);
        }
        let base_offset = state.log.append(head, bytes, LEADER_EPOCH);
        state.producers.remember(head, base_offset);
        let mut high_watermark = state.raise_high_watermark(&self.rules);
        let last_offset = state.log.end() - 1;
        let log_start = state.log.start();
        let low_watermark = state.low_watermark_above(low_watermark);
        let mut log_end = Reached::to(state.log.place(state.log.end()));
        if state.log.start() > former_start {
            log_end = log_end.with_all_readers();
            high_watermark = Some(state.high_watermark_reached().with_all_readers());
        }
        let moved = Moved { log_end: Some(log_end), high_watermark, low_watermark, served: false };
        Ok(Appended { base_offset, last_offset, log_start, moved })
    }

    /// Takes a follower's fetch as what it is: an acknowledgement of everything below its offset, by a log that begins at
    /// `log_start`.
    ///
    /// The first fetch of a replica begins where the log begins. Anything later comes from a log of an earlier topic
    /// of the same name. One that comes back with less than it had has lost its log: it is out of sync until it has caught up.
    ///
    /// # Errors
    ///
    /// `OFFSET_OUT_OF_RANGE` for a log that is none of this partition's: the follower must begin anew.
    pub(crate) fn acknowledge(
        &self,
        node: i32,
        offset: i64,
        log_start: i64,
        now: Duration,
    ) -> Result<Moved, ErrorCode> {
        let mut state = self.open()?;
        let (start, end) = (state.log.start(), state.log.end());
        let (high_watermark, low_watermark) = (state.high_watermark, state.low_watermark());
        let Some(follower) = state.followers.iter_mut().find(|follower| follower.node == node) else {
            return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        };
        if offset > end || offset < start || (follower.log_end.is_none() && offset > start) {
            return Err(ErrorCode::OFFSET_OUT_OF_RANGE);
        }
        let former = follower.log_end.replace(offset);
        follower.log_start = log_start.min(offset);
        // It has all there is now; or all there was when it last fetched, and so was caught up then.
        if offset >= end {
            follower.caught_up = now;
        } else if offset >= follower.last_fetch.1 {
            follower.caught_up = follower.caught_up.max(follower.last_fetch.0);
        }
        follower.last_fetch = (now, end);
        follower.in_sync &= former.is_none_or(|former| offset >= former);
        follower.in_sync |= offset >= high_watermark;
        Ok(Moved {
            log_end: None,
            high_watermark: state.raise_high_watermark(&self.rules),
            low_watermark: state.low_watermark_above(low_watermark),
            served: former.is_none(),
        })
    }

    /// Deletes everything below an offset; -1 stands for the high watermark. Returns the offset and the low watermark,
    /// which follows once the followers have deleted it, too.
    ///
    /// # Errors
    ///
    /// `OFFSET_OUT_OF_RANGE` for an offset that is not below the high watermark.
    pub(crate) fn delete_records(&self, offset: i64) -> Result<(i64, i64, Moved), ErrorCode> {
        let mut state = self.open()?;
        let offset = if offset == -1 { state.high_watermark } else { offset };
        if !(0..=state.high_watermark).contains(&offset) {
            return Err(ErrorCode::OFFSET_OUT_OF_RANGE);
        }
        let (low_watermark, bytes) = (state.low_watermark(), state.log.bytes());
        state.log.drop_below(offset);
        self.rules.total_bytes.fetch_sub(bytes - state.log.bytes(), Ordering::Relaxed);
        // Readers at what is gone must hear of it, and followers delete it, too: all of them look.
        let moved = Moved {
            log_end: Some(Reached::ALL),
            high_watermark: Some(state.high_watermark_reached().with_all_readers()),
            low_watermark: state.low_watermark_above(low_watermark),
            served: false,
        };
        Ok((offset, state.low_watermark(), moved))
    }

    /// Takes those followers out of the in-sync set that were not caught up for longer than `lag`.
    ///
    /// One that has everything but fetches no more leaves, too. In Kafka the lag rule alone would keep it, and the
    /// controller would miss its heartbeats; here the fetches are the heartbeats.
    pub(crate) fn drop_laggards(&self, lag: Duration, now: Duration) -> Moved {
        let Ok(mut state) = self.open() else { return Moved::default() };
        let low_watermark = state.low_watermark();
        for follower in &mut state.followers {
            follower.in_sync &= now.saturating_sub(follower.caught_up) <= lag;
        }
        let high_watermark = state.raise_high_watermark(&self.rules);
        let low_watermark = state.low_watermark_above(low_watermark);
        Moved { log_end: None, high_watermark, low_watermark, served: false }
    }

    /// Ends the partition: its topic was deleted. All who wait on it are to be signalled.
    pub(crate) fn close(&self) -> Moved {
        let mut state = self.state.lock();
        state.closed = true;
        self.rules.total_bytes.fetch_sub(state.log.bytes(), Ordering::Relaxed);
        state.log = Log::default();
        let (all, low_watermark) = (Some(Reached::ALL), Some(u64::MAX));
        Moved { log_end: all, high_watermark: all, low_watermark, served: true }
    }

    /// Looks where a read would begin, without reading.
    ///
    /// # Errors
    ///
    /// What the reader is answered: an offset outside the log, an epoch that is not the current one, a closed partition.
    pub(crate) fn start(&self, wanted: &Wanted) -> Result<Start, ErrorCode> {
        self.start_in(&*self.readable(wanted.access)?, wanted)
    }

    /// Reads from an offset.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start).
    pub(crate) fn read(
        &self,
        wanted: &Wanted,
        max_bytes: u64,
        at_least_one: bool,
    ) -> Result<(Start, Ends, Bytes), ErrorCode> {
        let state = self.readable(wanted.access)?;
        let start = self.start_in(&state, wanted)?;
        let records = match start.diverging {
            Some(_) => Bytes::new(),
            None => state.log.read(wanted.offset, start.end.offset(), max_bytes, at_least_one),
        };
        Ok((start, state.ends(), records))
    }

    /// Where the log ends, for each kind of reader. An error if `from` is not in the log any more.
    pub(crate) fn offsets(&self, access: Access, from: i64) -> Result<Offsets, ErrorCode> {
        let state = self.readable(access)?;
        if from < state.log.start() {
            return Err(ErrorCode::OFFSET_OUT_OF_RANGE);
        }
        let high_watermark = state.log.place(state.high_watermark);
        Ok(Offsets { log_end: state.log.place(state.log.end()), high_watermark, last_stable: high_watermark })
    }

    /// Where an epoch ended: there is one epoch.
    pub(crate) fn end_of_epoch(&self, access: Access, epoch: i32) -> Result<Option<EpochEnd>, ErrorCode> {
        Ok(self.readable(access)?.end_of_epoch(epoch))
    }

    /// How the partition stands for a producer who waits.
    pub(crate) fn standing(&self) -> Standing {
        match self.open() {
            Err(error) => Standing::Absent(error),
            Ok(state) => Standing::Leader {
                high_watermark: state.high_watermark,
                in_sync: state.in_sync(),
                min_in_sync: state.min_in_sync(&self.rules),
            },
        }
    }

    /// What has been deleted by all who are in sync: everything below.
    pub(crate) fn low_watermark(&self) -> Result<i64, ErrorCode> {
        Ok(self.open()?.low_watermark())
    }

    /// Whether its topic is there.
    pub(crate) fn is_open(&self) -> bool {
        !self.state.lock().closed
    }

    /// How many replicas have not fetched yet.
    pub(crate) fn unserved(&self) -> usize {
        self.open()
            .map_or(0, |state| state.followers.iter().filter(|follower| follower.log_end.is_none()).count())
    }

    /// Answers the question for an offset by time; -1 is the end, -2 and -4 the start, -3 the latest time.
    /// Returns (time, offset), -1 each if there is none.
    pub(crate) fn offset_at(
        &self,
        access: Access,
        isolation: Isolation,
        timestamp: i64,
    ) -> Result<(i64, i64), ErrorCode> {
        let state = self.readable(access)?;
        let limit = if isolation == Isolation::LogEnd { state.log.end() } else { state.high_watermark };
        Ok(match timestamp {
            -1 => (-1, limit),
            -2 | -4 => (-1, state.log.start()),
            -3 => state.log.latest_timestamp(limit).unwrap_or((-1, -1)),
            _ => state.log.find_timestamp(timestamp, limit).unwrap_or((-1, -1)),
        })
    }

    /// Where the log begins and ends; all 0 if the partition is closed.
    pub(crate) fn ends(&self) -> Ends {
        self.state.lock().ends()
    }

    /// The nodes in sync, the leader first.
    pub(crate) fn isr(&self) -> Vec<i32> {
        let state = self.state.lock();
        let followers = state.followers.iter().filter(|follower| follower.in_sync);
        std::iter::once(LEADER).chain(followers.map(|follower| follower.node)).collect()
    }

    /// How far the followers have come.
    pub(crate) fn followers(&self) -> Vec<FollowerEnd> {
        let end =
            |follower: &Follower| FollowerEnd { node: follower.node, log_end: follower.log_end.unwrap_or(0) };
        self.state.lock().followers.iter().map(end).collect()
    }

    /// All nodes with a replica, the leader first.
    pub(crate) fn replicas(&self) -> Vec<i32> {
        let state = self.state.lock();
        std::iter::once(LEADER).chain(state.followers.iter().map(|follower| follower.node)).collect()
    }

    pub(crate) fn id(&self) -> PartitionId {
        self.id
    }

    pub(crate) fn topic(&self) -> &Arc<str> {
        &self.topic
    }

    pub(crate) fn index(&self) -> i32 {
        self.index
    }

    fn start_in(&self, state: &State, wanted: &Wanted) -> Result<Start, ErrorCode> {
        let (log, offset) = (&state.log, wanted.offset);
        // A client that comes from another log than this one must truncate first, wherever it wants to read.
        let diverging = wanted.last_fetched_epoch.and_then(|epoch| match state.end_of_epoch(epoch) {
            Some(end) if end.epoch >= epoch && end.end_offset >= offset => None,
            Some(end) => Some(end),
            None => Some(EpochEnd { epoch: LEADER_EPOCH, end_offset: log.start() }),
        });
        if diverging.is_none() && (offset < log.start() || offset > log.end()) {
            return Err(ErrorCode::OFFSET_OUT_OF_RANGE);
        }
        let limit = if wanted.isolation == Isolation::LogEnd { log.end() } else { state.high_watermark };
        Ok(Start { place: log.place(offset), end: log.place(limit), diverging })
    }

    /// Drops old batches until `more` bytes fit, and counts them. Says whether they do.
    ///
    /// They are counted first: two partitions that looked whether there is room, and then took it, could both take
    /// the last of it.
    fn make_room(&self, state: &mut State, more: u64) -> bool {
        let rules = &self.rules;
        let before = state.log.bytes();
        let total = more + rules.total_bytes.fetch_add(more, Ordering::Relaxed);
        let dropped = state.log.drop_oldest(state.high_watermark, |bytes| {
            bytes + more > rules.retention_bytes || total - (before - bytes) > rules.retention_total_bytes
        });
        // The bytes of one partition may exceed its share while followers lag; those of all may not.
        let fits = total - dropped <= rules.retention_total_bytes;
        rules.total_bytes.fetch_sub(if fits { dropped } else { dropped + more }, Ordering::Relaxed);
        fits
    }

    fn readable(&self, access: Access) -> Result<MutexGuard<'_, State>, ErrorCode> {
        let state = self.open()?;
        match access.current_leader_epoch {
            Some(epoch) if epoch > LEADER_EPOCH => Err(ErrorCode::UNKNOWN_LEADER_EPOCH),
            Some(epoch) if epoch < LEADER_EPOCH => Err(ErrorCode::FENCED_LEADER_EPOCH),
            _ => Ok(state),
        }
    }

    fn open(&self) -> Result<MutexGuard<'_, State>, ErrorCode> {
        let state = self.state.lock();
        if state.closed { Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION) } else { Ok(state) }
    }
}

impl State {
    /// Raises the high watermark to what all replicas in sync have. It stands still while too few are in sync.
    /// Returns where it is if it was raised.
    fn raise_high_watermark(&mut self, rules: &Rules) -> Option<Reached> {
        if self.in_sync() < self.min_in_sync(rules) {
            return None;
        }
        let followers = self.followers.iter().filter(|follower| follower.in_sync);
        let replicated =
            followers.map(|follower| follower.log_end.unwrap_or(0)).min().unwrap_or(self.log.end());
        if replicated <= self.high_watermark {
            return None;
        }
        self.high_watermark = replicated;
        Some(self.high_watermark_reached())
    }

    fn high_watermark_reached(&self) -> Reached {
        Reached::to(self.log.place(self.high_watermark))
    }

    /// Below it nothing is left, at the leader or at a follower in sync. Others hold nothing up: they may be gone for good.
    fn low_watermark(&self) -> i64 {
        let followers = self.followers.iter().filter(|follower| follower.in_sync);
        low_watermark(self.log.start(), followers.map(|follower| follower.log_start))
    }

    /// The low watermark, if it lies above a former one.
    fn low_watermark_above(&self, former: i64) -> Option<u64> {
        let current = self.low_watermark();
        if current > former { u64::try_from(current).ok() } else { None }
    }

    fn in_sync(&self) -> usize {
        1 + self.followers.iter().filter(|follower| follower.in_sync).count()
    }

    fn min_in_sync(&self, rules: &Rules) -> usize {
        effective_min_in_sync(rules.min_insync_replicas, 1 + self.followers.len())
    }

    fn ends(&self) -> Ends {
        Ends { log_start: self.log.start(), high_watermark: self.high_watermark, log_end: self.log.end() }
    }

    fn end_of_epoch(&self, epoch: i32) -> Option<EpochEnd> {
        (epoch >= LEADER_EPOCH).then(|| EpochEnd { epoch: LEADER_EPOCH, end_offset: self.log.end() })
    }
}

#[cfg(test)]
#[path = "partition_tests.rs"]
mod tests;
