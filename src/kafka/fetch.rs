//! A fetch request, of a consumer or of a follower, that waits until there is enough to read.
//!
//! First the log is read ([`FirstRead`] says whether that is answer enough). A request that waits keeps, for each
//! partition, where that read began; a look compares this place with where the readable part of the log ends now.
//! The rules of a look, which takes the partitions in the order of the request and adds up bytes:
//!
//! * **f1** A partition whose place is unknown adds nothing.
//! * **f2** A partition that cannot be read ends the wait: **f2a/b** not led or not hosted here any more, **f2c**
//!   unknown, **f2d** offline, **f2e** the request's leader epoch is not the current one.
//! * **f3** The end is the log's end for followers, the high watermark for consumers, the last stable offset for
//!   consumers who read committed records.
//! * **f4** A fetch at the end adds nothing. It is never taken for a change of segment: the end may still carry the
//!   place of a segment that was closed since.
//! * **f5** A fetch past the end ends the wait: the log was truncated.
//! * **f6** A fetch before the end: **f6a** on an older segment it ends the wait, **f6b** on the same one it adds the
//!   bytes between, at most the partition's limit; **f6c** if either place is not known it adds nothing. A follower
//!   that is to be throttled adds nothing in either case.
//! * **f7** If the request says which epoch it fetched last, and that epoch ended here before the fetch offset, or is
//!   not known here, the wait ends: the client must truncate.
//! * **f8** The first partition that ends the wait ends the look.
//! * **f9** With `min_bytes` or more in sum, the wait is over. Sums are 64 bits wide and stop at the largest number.
//!
//! A fetch that lacks a megabyte need not be asked at every kilobyte. If the ends that a broker tells carry their
//! [progress](OffsetPlace::with_progress), the fetch [waits at numbers](DelayedFetch::watches) which must be reached before it
//! can have enough; how they are found, and why that is safe, stands in `bound.rs`.
//!
//! The answer is the same whether the wait was satisfied or expired: the log is read again and what is there is sent,
//! as of that moment.

use crate::kafka::ErrorCode;
use crate::kafka::bound::{Bound, Growth};
use crate::{DelayedOperation, Outcome, Watch};

/// What a fetch request asks of a partition. Implemented by the broker; called from looks, so it must not signal keys.
pub trait FetchPartition {
    /// Where the log ends now, read under one lock, if the partition can be read by such a request (f2).
    ///
    /// With ends that carry their [progress](OffsetPlace::with_progress), requests wait at numbers, and the broker promises
    /// to signal so that they are reached:
    ///
    /// * An end that has moved on along its segment is signalled with its progress, by
    ///   [`check_and_complete_up_to`](crate::Purgatory::check_and_complete_up_to). Each of the three ends has a scale of its
    ///   own, so whoever waits for one watches another key than who waits for the other.
    /// * Whatever else can end a wait is signalled to all, by [`check_and_complete`](crate::Purgatory::check_and_complete): an
    ///   end that comes to lie on another segment (f4, f6a), a log that is truncated (f5), a partition that is led, hosted
    ///   or closed otherwise than before, or has another epoch (f2, f7).
    ///
    /// Without a progress a request is looked at by every event on its keys. That is always right.
    ///
    /// # Errors
    ///
    /// The error that the request will be answered with.
    fn offsets(&self, access: Access) -> Result<Offsets, ErrorCode>;

    /// Where an epoch ended in this log: the largest epoch not above `epoch`, and the offset after its last record.
    /// `None` if no such epoch is known.
    ///
    /// # Errors
    ///
    /// The error that the request will be answered with.
    fn end_of_epoch(&self, access: Access, epoch: i32) -> Result<Option<EpochEnd>, ErrorCode>;

    /// Whether this fetch is a follower's whose replication is to be slowed down: not in sync and over its quota.
    fn is_throttled(&self) -> bool {
        false
    }
}

/// Who may read, and by which epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Access {
    /// Whether only the leader may answer: for followers, and for clients that know no follower reads.
    pub leader_only: bool,
    /// The leader epoch that the client believes in, if it says.
    pub current_leader_epoch: Option<i32>,
}

/// Where a log ends, for each kind of reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Offsets {
    /// The log's end: what followers read up to.
    pub log_end: OffsetPlace,
    /// What is replicated: what consumers read up to.
    pub high_watermark: OffsetPlace,
    /// The end of what no open transaction can undo: what consumers of committed records read up to.
    pub last_stable: OffsetPlace,
}

/// The end of a leader epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EpochEnd {
    /// The epoch.
    pub epoch: i32,
    /// One past its last offset.
    pub end_offset: i64,
}

/// What a reader may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// Everything: a follower.
    LogEnd,
    /// What is replicated: a consumer.
    HighWatermark,
    /// What is replicated and committed: a consumer of transactions.
    LastStable,
}

impl Offsets {
    /// Returns the end for one kind of reader (f3).
    #[must_use]
    pub fn end(&self, isolation: Isolation) -> OffsetPlace {
        match isolation {
            Isolation::LogEnd => self.log_end,
            Isolation::HighWatermark => self.high_watermark,
            Isolation::LastStable => self.last_stable,
        }
    }
}

/// An offset and, if known, where its record lies.
///
/// # Examples
///
/// ```
/// use ixion::kafka::fetch::OffsetPlace;
///
/// let start = OffsetPlace::new(50, 0, 250);
/// let end = OffsetPlace::new(100, 0, 500);
/// assert_eq!(start.bytes_before(end), Some(250));
/// assert_eq!(start.bytes_before(OffsetPlace::of_offset(100)), None, "not known where it lies");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OffsetPlace {
    offset: i64,
    place: Option<Place>,
    progress: Option<u64>,
}

/// A segment, by its first offset, and a position in it in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Place {
    segment_base: i64,
    position: u64,
}

impl OffsetPlace {
    /// Nothing is known: the first read did not get to this partition.
    pub const UNKNOWN: OffsetPlace = OffsetPlace { offset: -1, place: None, progress: None };

    /// Makes an offset that says where it lies.
    #[must_use]
    pub const fn new(offset: i64, segment_base: i64, position: u64) -> Self {
        OffsetPlace { offset, place: Some(Place { segment_base, position }), progress: None }
    }

    /// Makes an offset of which only the number is known.
    #[must_use]
    pub const fn of_offset(offset: i64) -> Self {
        OffsetPlace { offset, place: None, progress: None }
    }

    /// Adds the number of the event that reaches it: how many bytes of the log were ever before it, those that
    /// were deleted included. On one segment it grows as positions do.
    #[must_use]
    pub const fn with_progress(self, bytes: u64) -> Self {
        OffsetPlace { progress: Some(bytes), ..self }
    }

    /// Returns how many bytes of the log were ever before it, if that is known.
    #[must_use]
    pub const fn progress(self) -> Option<u64> {
        self.progress
    }

    /// Returns the offset.
    #[must_use]
    pub const fn offset(self) -> i64 {
        self.offset
    }

    /// Returns the bytes from here to `end` if both lie on the same segment and that is known; 0 if `end` lies before.
    #[must_use]
    pub fn bytes_before(self, end: OffsetPlace) -> Option<u64> {
        let (here, there) = (self.place?, end.place?);
        (here.segment_base == there.segment_base).then(|| there.position.saturating_sub(here.position))
    }

    /// Whether this is known to lie on an older segment than `end`.
    #[must_use]
    pub fn is_on_older_segment(self, end: OffsetPlace) -> bool {
        matches!((self.place, end.place), (Some(here), Some(there)) if here.segment_base < there.segment_base)
    }
}

/// One partition of a waiting request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PartitionFetch<P> {
    /// The partition as the broker knows it.
    pub partition: P,
    /// Where the request wants to read.
    pub fetch_offset: i64,
    /// Where the first read began.
    pub start: OffsetPlace,
    /// The most bytes wanted of this partition.
    pub max_bytes: u64,
    /// The leader epoch that the client believes in.
    pub current_leader_epoch: Option<i32>,
    /// The epoch of the last record that the client has.
    pub last_fetched_epoch: Option<i32>,
}

/// What holds for a whole request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FetchLimits {
    /// How many bytes are worth an answer.
    pub min_bytes: u64,
    /// What the reader may see.
    pub isolation: Isolation,
    /// Whether only the leader may answer.
    pub leader_only: bool,
}

/// What the first read found, as far as it matters for the question whether to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct FirstRead {
    /// The partitions of the request.
    pub partitions: usize,
    /// The bytes that can be sent, in sum.
    pub bytes_readable: u64,
    /// Whether any partition was answered with an error.
    pub any_error: bool,
    /// Whether any partition's epoch diverges from the client's.
    pub any_diverging_epoch: bool,
    /// Whether any partition had better be read from another replica.
    pub any_preferred_replica: bool,
}

impl FirstRead {
    /// Whether the request is answered at once, with what was read.
    ///
    /// That is so with nothing to wait (`max_wait_ms` of 0 or less) or nothing to wait for, with enough bytes, and
    /// with anything that the client should hear of now.
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::kafka::fetch::FirstRead;
    ///
    /// let mut read = FirstRead::default();
    /// (read.partitions, read.bytes_readable) = (1, 200);
    /// assert!(!read.answers_at_once(500, 1024)); // it waits for more
    /// assert!(read.answers_at_once(500, 100) && read.answers_at_once(0, 1024));
    /// read.any_error = true;
    /// assert!(read.answers_at_once(500, 1024));
    /// ```
    #[must_use]
    pub fn answers_at_once(&self, max_wait_ms: i32, min_bytes: u64) -> bool {
        max_wait_ms <= 0
            || self.partitions == 0
            || self.bytes_readable >= min_bytes
            || self.any_error
            || self.any_diverging_epoch
            || self.any_preferred_replica
    }
}

/// Caps what a client asks for: `max_bytes` to `quota`, `min_bytes` to that. Negative numbers count as 0.
///
/// Returns (`min_bytes`, `max_bytes`).
///
/// # Examples
///
/// ```
/// use ixion::kafka::fetch::cap_bytes;
///
/// assert_eq!(cap_bytes(1, 50 << 20, 1 << 20), (1, 1 << 20));
/// assert_eq!(cap_bytes(2 << 20, 50 << 20, 1 << 20), (1 << 20, 1 << 20)); // more would never come
/// ```
#[must_use]
pub fn cap_bytes(min_bytes: i32, max_bytes: i32, quota: u64) -> (u64, u64) {
    let positive = |bytes: i32| u64::try_from(bytes).unwrap_or(0);
    let max = positive(max_bytes).min(quota);
    (positive(min_bytes).min(max), max)
}

/// What a look has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// The request is to be answered now.
    Answer(Reason),
    /// It has to wait on.
    Wait {
        /// The bytes that could be sent.
        bytes: u64,
    },
}

impl Decision {
    /// Whether the request is to be answered now.
    #[must_use]
    pub fn is_answer(self) -> bool {
        matches!(self, Decision::Answer(_))
    }
}

/// Why a wait ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A partition cannot be read any more (f2, f7).
    Unreadable(ErrorCode),
    /// The fetch offset is past the end (f5).
    Truncated,
    /// The fetch offset lies on an older segment than the end (f6a).
    OlderSegment,
    /// The client's log has diverged from this one (f7).
    Diverging,
    /// There are enough bytes (f9).
    EnoughBytes,
}

/// Decides about a waiting request; see the rules f1 to f9 at the head of the module.
#[must_use]
pub fn decide<P: FetchPartition>(limits: &FetchLimits, partitions: &[PartitionFetch<P>]) -> Decision {
    look(limits, partitions, |_| ())
}

/// Decides, and tells of each partition what it may add yet.
fn look<P: FetchPartition>(
    limits: &FetchLimits,
    partitions: &[PartitionFetch<P>],
    mut tell: impl FnMut(Growth),
) -> Decision {
    let mut bytes = 0u64;
    for fetch in partitions {
        match look_at(limits, fetch) {
            Ok((available, growth)) => {
                bytes = bytes.saturating_add(available); // f9
                tell(growth);
            }
            Err(reason) => return Decision::Answer(reason), // f8
        }
    }
    if bytes >= limits.min_bytes {
        return Decision::Answer(Reason::EnoughBytes);
    }
    Decision::Wait { bytes }
}

/// The bytes that one partition adds and what it may add yet, or why it ends the wait.
fn look_at<P: FetchPartition>(
    limits: &FetchLimits,
    fetch: &PartitionFetch<P>,
) -> Result<(u64, Growth), Reason> {
    if fetch.start == OffsetPlace::UNKNOWN {
        return Ok((0, Growth::Nothing)); // f1
    }
    let access = Access { leader_only: limits.leader_only, current_leader_epoch: fetch.current_leader_epoch };
    // f2. Kafka lets a leader epoch that is too new, and whatever it did not think of, fly out of the look; here every
    // error ends the wait, and the read that follows reports it.
    let end = fetch.partition.offsets(access).map_err(Reason::Unreadable)?.end(limits.isolation);
    let available = available_bytes(fetch, end)?;
    check_epoch(fetch, access)?;
    Ok((available, growth(fetch, end, available)))
}

/// f4 to f6: what lies between the fetch and the end.
fn available_bytes<P: FetchPartition>(fetch: &PartitionFetch<P>, end: OffsetPlace) -> Result<u64, Reason> {
    if fetch.fetch_offset == end.offset() {
        return Ok(0); // f4
    }
    if fetch.fetch_offset > end.offset() {
        return Err(Reason::Truncated); // f5
    }
    if fetch.start.is_on_older_segment(end) {
        return if fetch.partition.is_throttled() { Ok(0) } else { Err(Reason::OlderSegment) }; // f6a
    }
    match fetch.start.bytes_before(end) {
        Some(bytes) if !fetch.partition.is_throttled() => Ok(bytes.min(fetch.max_bytes)), // f6b
        _ => Ok(0), // f6b throttled, f6c
    }
}

/// What a partition that adds so many bytes may add yet.
fn growth<P: FetchPartition>(fetch: &PartitionFetch<P>, end: OffsetPlace, bytes: u64) -> Growth {
    let is_known = fetch.start.bytes_before(end).is_some() && !fetch.partition.is_throttled();
    match end.progress {
        Some(_) if is_known && bytes >= fetch.max_bytes => Growth::Nothing, // b1
        // Bytes before the start do not count.
        Some(progress) if is_known => Growth::From(progress.max(fetch.start.progress.unwrap_or(0))),
        _ => Growth::Unknown, // b2
    }
}

/// f7: whether the client's last epoch is one that this log knows, and not past its end.
fn check_epoch<P: FetchPartition>(fetch: &PartitionFetch<P>, access: Access) -> Result<(), Reason> {
    let Some(last_fetched) = fetch.last_fetched_epoch else { return Ok(()) };
    let end = fetch.partition.end_of_epoch(access, last_fetched).map_err(Reason::Unreadable)?;
    match end {
        Some(end) if end.epoch >= last_fetched && end.end_offset >= fetch.fetch_offset => Ok(()),
        _ => Err(Reason::Diverging),
    }
}

/// A fetch request that waits for bytes.
///
/// Ends by calling `answer` with the outcome and the partitions. The answer reads the log again, so that what is sent
/// is what was there at the end; a second read must not count as a follower's acknowledgement.
#[derive(Debug)]
pub struct DelayedFetch<P, A> {
    limits: FetchLimits,
    partitions: Vec<PartitionFetch<P>>,
    bound: Bound,
    answer: A,
}

impl<P: FetchPartition, A: FnOnce(Outcome, Vec<PartitionFetch<P>>)> DelayedFetch<P, A> {
    /// Makes the operation from what the first read found.
    #[must_use]
    pub fn new(limits: FetchLimits, partitions: Vec<PartitionFetch<P>>, answer: A) -> Self {
        DelayedFetch { limits, partitions, bound: Bound::default(), answer }
    }

    /// Returns what to wait on: for each partition its key, at a number that the looks then raise. They come in the order of the
    /// partitions and before any other watch of the operation, and no two partitions may have one key. The events of a key
    /// tell the progress of the end that this request [waits for](FetchLimits::isolation); see [`FetchPartition::offsets`].
    pub fn watches<K>(&self, key: impl Fn(&P) -> K) -> impl Iterator<Item = Watch<K>> {
        self.partitions.iter().map(move |fetch| Watch::at(key(&fetch.partition), 0))
    }

    /// Returns what a look finds now.
    #[must_use]
    pub fn decide(&self) -> Decision {
        decide(&self.limits, &self.partitions)
    }
}

impl<P: FetchPartition, A: FnOnce(Outcome, Vec<PartitionFetch<P>>)> DelayedOperation for DelayedFetch<P, A> {
    fn try_complete(&mut self) -> bool {
        let DelayedFetch { limits, partitions, bound, .. } = self;
        bound.begin();
        let decision = look(limits, partitions, |growth| bound.add(growth));
        if let Decision::Wait { bytes } = decision {
            bound.end(limits.min_bytes - bytes);
        }
        decision.is_answer()
    }

    fn next_progress(&self, watch: usize) -> Option<u64> {
        self.bound.number(watch)
    }

    fn on_complete(self, outcome: Outcome) {
        (self.answer)(outcome, self.partitions);
    }
}

#[cfg(test)]
#[path = "fetch_tests.rs"]
mod tests;
