//! What is held: records that were read, until they are due; and of each partition what may be committed.
//!
//! This is the core of the relay. It knows no client: records come in, what is to be sent comes out, reports of sending come
//! in, and what is to be committed comes out. Its time is an [`ixion::Clock`], since the epoch.
//!
//! A held record is an operation in a purgatory, on the key of its partition: its expiry puts it where
//! [`next`](Hold::next) takes it from, and a partition that is taken away cancels all that are on its key. An offset is not
//! finished from when its record is read until the broker has acknowledged it where it went. What was read in an earlier
//! assignment finishes nothing.

use super::commit;
use super::record::{Cause, Millis, Plan, Purpose, Record, Rules, TopicPartition};
use ixion::{Clock, DelayedOperation, Outcome, Purgatory};
use ixion_retry::Backoff;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Records that wait, and partitions.
pub(crate) struct Hold<C> {
    clock: C,
    rules: Arc<Rules>,
    /// How many records of a partition may be unfinished.
    most: usize,
    /// How long a record waits that could not be sent.
    again: Backoff,
    waiting: Purgatory<TopicPartition, Waiting>,
    due: Due,
    books: BTreeMap<TopicPartition, Books>,
    /// The number of the last parcel.
    last: usize,
    counts: Counts,
}

/// A record on its way, from when it was read until it is acknowledged where it went.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub(crate) record: Record,
    pub(crate) plan: Plan,
    /// No two have the same, and later ones have higher ones.
    pub(crate) number: usize,
    /// How often it could not be sent.
    pub(crate) failures: u32,
    /// Whether it is to be sent in a batch of its own: one that it was in was too large.
    pub(crate) is_alone: bool,
}

/// Why a record could not be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: Kind,
    pub(crate) error: String,
}

/// Whether a record that could not be sent may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// After a while.
    Transient,
    /// After a while, by another producer: this one has failed for good.
    Broken,
    /// Now: a producer that is gone has given it back.
    GivenBack,
    /// The batch that it was in was too large: by itself it may be taken.
    TooLarge,
    /// There it never will be taken.
    Permanent,
}

/// What became of a record that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It is where it should be again, so long after it was due.
    Republished(Duration),
    /// It is in the dead letter topic.
    Dead(Cause),
    /// It is sent again, later or elsewhere.
    Again,
    /// Its partition is another's by now, or was assigned anew.
    Stale,
}

/// An offset to commit, and its note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) place: TopicPartition,
    pub(crate) offset: u64,
    pub(crate) note: String,
}

/// What was done since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) read: u64,
    /// Of these, passed over: they were republished before the restart.
    pub(crate) passed_over: u64,
    pub(crate) republished: u64,
    pub(crate) dead: [u64; Cause::ALL.len()],
    /// Sends that failed.
    pub(crate) failed: u64,
}

/// A partition's books. They stay when it is taken away, and say then that it holds nothing. They are no
/// [`Leases`](ixion_retry::Leases): these take each offset once, and here a log that was cut off gives offsets again while what
/// was held below them is still to be finished.
#[derive(Default)]
struct Books {
    is_ours: bool,
    /// The last number before the partition was taken over or taken away: later parcels are of this assignment.
    since: usize,
    /// Offsets that were read and are not finished, and the numbers of their parcels.
    unfinished: BTreeMap<u64, usize>,
    /// The offset behind the last that was read, or the committed one.
    next: Option<u64>,
    /// What the note of the committed offset had as done.
    restored: VecDeque<Range<u64>>,
    /// What the broker has.
    committed: Option<(u64, String)>,
    /// Whether there may be more to commit: else nobody looks through all that is held.
    has_changed: bool,
    /// How often a note was too long, each time for one of half the length.
    halvings: u32,
}

type Due = Arc<Mutex<VecDeque<Parcel>>>;

/// A record that waits until it is due.
struct Waiting {
    parcel: Parcel,
    due: Due,
}

impl DelayedOperation for Waiting {
    fn try_complete(&mut self) -> bool {
        false
    }

    /// By its expiry: a partition that is taken away gets its records handed back.
    fn on_complete(self, _: Outcome) {
        self.due.lock().push_back(self.parcel);
    }
}

/// Between the attempts to send a record that could not be sent.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

impl<C: Clock + Clone + 'static> Hold<C> {
    pub(crate) fn new(clock: C, rules: Arc<Rules>, most: usize) -> Self {
        let again = Backoff::exponential(FIRST_PAUSE, 2.0, LONGEST_PAUSE).expect("2 is a factor");
        // One shard: the order is by due time, and one thread is all that comes.
        let waiting = Purgatory::builder("relay").shards(1).clock(clock.clone()).build();
        Hold {
            clock,
            rules,
            most,
            again,
            waiting,
            due: Due::default(),
            books: BTreeMap::new(),
            last: 0,
            counts: Counts::default(),
        }
    }

    /// Takes over a partition, from the offset that is committed and its note.
    pub(crate) fn assign(&mut self, place: &TopicPartition, committed: Option<(u64, String)>) {
        self.forget(place);
        let books = self.books.entry(place.clone()).or_default();
        books.is_ours = true;
        books.start(self.last, committed);
    }

    /// Holds a record until it is due. Returns whether its partition has room for another: if not, the caller reads no
    /// more of it until [`has_room`](Self::has_room).
    pub(crate) fn read(&mut self, record: Record) -> bool {
        let Some(books) = self.books.get_mut(&record.place).filter(|books| books.is_ours) else {
            return true; // What comes late of a partition that was taken away is another's.
        };
        self.counts.read += 1;
        let offset = record.offset;
        if books.was_done(offset) {
            self.counts.passed_over += 1;
            return true;
        }
        self.last += 1;
        books.unfinished.insert(offset, self.last);
        let plan = self.rules.plan(&record, millis(self.clock.elapsed()));
        let place = record.place.clone();
        let due = Duration::from_millis(plan.due);
        self.wait(&place, Parcel { record, plan, number: self.last, failures: 0, is_alone: false }, due);
        self.has_room(&place)
    }

    /// Takes the next record that is to be sent now, by due time.
    pub(crate) fn next(&mut self) -> Option<Parcel> {
        if self.due.lock().is_empty() {
            while self.waiting.expire().more {}
        }
        self.due.lock().pop_front()
    }

    /// Puts back what [`next`](Self::next) gave out and could not be handed over.
    pub(crate) fn put_back(&mut self, parcel: Parcel) {
        self.due.lock().push_front(parcel);
    }

    /// Enters what became of a record that was sent, and when.
    pub(crate) fn sent(&mut self, mut parcel: Parcel, result: Result<(), Failure>, at: Duration) -> Sent {
        let books = self.books.get_mut(&parcel.record.place);
        let Some(books) = books.filter(|books| parcel.number > books.since) else {
            return Sent::Stale;
        };
        let Err(failure) = result else {
            books.finish(&parcel);
            return match parcel.plan.purpose {
                Purpose::Again(_) => {
                    self.counts.republished += 1;
                    Sent::Republished(at.saturating_sub(Duration::from_millis(parcel.plan.due)))
                }
                Purpose::Dead(cause, _) => {
                    self.counts.dead[cause as usize] += 1;
                    Sent::Dead(cause)
                }
            };
        };
        self.counts.failed += 1;
        if !books.is_ours {
            return Sent::Stale;
        }
        let place = parcel.record.place.clone();
        if failure.kind == Kind::TooLarge && !parcel.is_alone {
            parcel.is_alone = true;
            self.wait(&place, parcel, at);
        } else if failure.kind.is_refusal() && matches!(parcel.plan.purpose, Purpose::Again(_)) {
            parcel.plan.refused(&self.rules, &failure.error);
            self.wait(&place, parcel, at);
        } else {
            parcel.failures = parcel.failures.saturating_add(1);
            let pause = self.again.delay(parcel.failures);
            self.wait(&place, parcel, at.saturating_add(pause));
        }
        Sent::Again
    }

    /// Lets go of what waits of a partition that is taken away. What is being sent may still be acknowledged, until
    /// [`revoke`](Self::revoke).
    pub(crate) fn release(&mut self, place: &TopicPartition) {
        self.forget(place);
        if let Some(books) = self.books.get_mut(place) {
            books.is_ours = false;
        }
    }

    /// Ends the assignment of a partition. Returns what is to be committed before another has it.
    pub(crate) fn revoke(&mut self, place: &TopicPartition) -> Option<Commit> {
        self.release(place);
        let books = self.books.get_mut(place)?;
        let commit = books.commit(place);
        books.start(self.last, None);
        commit
    }

    /// Returns what is to be committed, and takes it for committed.
    pub(crate) fn commits(&mut self) -> Vec<Commit> {
        let ours = self.books.iter_mut().filter(|(_, books)| books.is_ours);
        ours.filter_map(|(place, books)| books.commit(place)).collect()
    }

    /// Says that a commit has failed: it is done again. If its note was too long, the next is shorter.
    pub(crate) fn not_committed(&mut self, place: &TopicPartition, is_too_long: bool) {
        if let Some(books) = self.books.get_mut(place) {
            books.committed = None;
            books.has_changed = true;
            if is_too_long {
                books.halvings += 1;
            }
        }
    }

    /// Whether another record of the partition may be read.
    pub(crate) fn has_room(&self, place: &TopicPartition) -> bool {
        self.unfinished(place) < self.most
    }

    /// Whether so many may be read that it pays to begin again.
    pub(crate) fn has_much_room(&self, place: &TopicPartition) -> bool {
        self.unfinished(place) <= self.most - self.most.div_ceil(8)
    }

    /// How many records of the partition are not finished.
    pub(crate) fn unfinished(&self, place: &TopicPartition) -> usize {
        self.books.get(place).map_or(0, |books| books.unfinished.len())
    }

    /// How many of these do not wait, but are being sent.
    pub(crate) fn sending(&self, place: &TopicPartition) -> usize {
        self.unfinished(place).saturating_sub(self.waiting.watcher_count(place))
    }

    pub(crate) fn is_ours(&self, place: &TopicPartition) -> bool {
        self.books.get(place).is_some_and(|books| books.is_ours)
    }

    /// The partitions that are read.
    pub(crate) fn places(&self) -> impl Iterator<Item = &TopicPartition> {
        self.books.iter().filter(|(_, books)| books.is_ours).map(|(place, _)| place)
    }

    /// How many records are held, of each partition that was ever read.
    pub(crate) fn held(&self) -> impl Iterator<Item = (TopicPartition, usize)> {
        self.books.iter().map(|(place, books)| (place.clone(), books.unfinished.len()))
    }

    /// How long it takes until [`next`](Self::next) may have something.
    pub(crate) fn time_to_next(&self) -> Option<Duration> {
        match self.due.lock().is_empty() {
            true => self.waiting.time_to_next(),
            false => Some(Duration::ZERO),
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// Gives the metrics of the purgatory to the recorder.
    pub(crate) fn publish(&self) {
        ixion::telemetry::publish(&self.waiting);
    }

    fn wait(&self, place: &TopicPartition, parcel: Parcel, until: Duration) {
        let timeout = until.saturating_sub(self.clock.elapsed());
        let waiting = Waiting { parcel, due: self.due.clone() };
        // It has no capacity and is never shut down, so nothing is rejected.
        let rejected = self.waiting.try_complete_else_watch(waiting, timeout, [place.clone()]).err();
        debug_assert!(rejected.is_none(), "the purgatory rejects a record");
    }

    /// Drops what waits of a partition, and what is due.
    fn forget(&mut self, place: &TopicPartition) {
        let _ = self.waiting.cancel_for_key(place);
        self.due.lock().retain(|parcel| parcel.record.place != *place);
    }
}

impl Kind {
    /// Whether it is the record that is not taken.
    pub(crate) fn is_refusal(self) -> bool {
        matches!(self, Kind::TooLarge | Kind::Permanent)
    }
}

impl Counts {
    pub(crate) fn all_dead(&self) -> u64 {
        self.dead.iter().sum()
    }
}

impl Books {
    /// Begins anew from what is committed, if anything. Parcels up to this number finish nothing any more.
    fn start(&mut self, since: usize, committed: Option<(u64, String)>) {
        self.since = since;
        self.unfinished.clear();
        self.next = committed.as_ref().map(|(offset, _)| *offset);
        self.restored = committed.iter().flat_map(|(offset, note)| commit::read(*offset, note)).collect();
        self.committed = committed;
        self.has_changed = false;
    }

    /// Enters that this offset is read. Returns whether its record was done before the assignment.
    fn was_done(&mut self, offset: u64) -> bool {
        if self.next.is_some_and(|next| offset < next) {
            // The log was cut off here, or the topic is a new one of the same name: what is below is still to be finished.
            self.unfinished.split_off(&offset);
            self.restored.clear();
        }
        self.next = Some(offset.saturating_add(1));
        self.has_changed = true;
        // Offsets rise, so what lies below is over.
        while self.restored.pop_front_if(|range| range.end <= offset).is_some() {}
        self.restored.front().is_some_and(|range| range.contains(&offset))
    }

    /// Enters that a parcel is where it should be. If the log was cut off meanwhile its offset is another's, or nobody's.
    fn finish(&mut self, parcel: &Parcel) {
        if self.unfinished.get(&parcel.record.offset) == Some(&parcel.number) {
            self.unfinished.remove(&parcel.record.offset);
            self.has_changed = true;
        }
    }

    /// What is to be committed, if it is not what the broker has.
    fn commit(&mut self, place: &TopicPartition) -> Option<Commit> {
        let next = self.next.filter(|_| mem::take(&mut self.has_changed))?;
        let offset = self.unfinished.first_key_value().map_or(next, |(lowest, _)| *lowest);
        let mut done = commit::between(self.unfinished.keys().copied(), offset, next);
        done.extend(
            self.restored
                .iter()
                .filter(|range| range.end > next)
                .map(|range| range.start.max(next)..range.end),
        );
        let note = commit::write(offset, &join(done), commit::LONGEST >> self.halvings.min(usize::BITS - 1));
        let is_new = self.committed.as_ref().is_none_or(|(at, said)| *at != offset || *said != note);
        is_new.then(|| {
            self.committed = Some((offset, note.clone()));
            Commit { place: place.clone(), offset, note }
        })
    }
}

/// Joins ranges that touch.
fn join(ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => joined.push(range),
        }
    }
    joined
}

fn millis(time: Duration) -> Millis {
    Millis::try_from(time.as_millis()).unwrap_or(Millis::MAX)
}

#[cfg(test)]
#[path = "hold_tests.rs"]
mod tests;
