//! A fetch that waits at numbers ends at the same event as one that is asked at every event, and is asked far less often.

use ixion::kafka::fetch::{
    Access, EpochEnd, FetchLimits, FetchPartition, Isolation, OffsetPlace, Offsets, PartitionFetch,
};
use ixion::kafka::{DelayedFetch, ErrorCode};
use ixion::{ManualClock, Outcome, Purgatory, Watch};
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// What a broker does to a log, and how far that is signalled.
#[derive(Clone, Debug)]
enum Change {
    /// So many bytes are appended, on the same segment.
    Append(u64),
    /// The same on a new segment.
    Roll(u64),
    /// A new segment is begun at the end, which is then said to lie there, or not before the next append.
    RollEmpty(bool),
    /// So many appends more are replicated.
    Replicate(usize),
    /// So many appends are taken back.
    Truncate(usize),
    /// The leader is another one, or this one again.
    Lead(bool),
    /// Another leader's epoch begins.
    Epoch,
    /// The follower is throttled, or not any more: nobody signals that.
    Throttle(bool),
}

/// Whom to signal, for one kind of reader.
#[derive(Clone, Copy, PartialEq)]
enum Signal {
    Nobody,
    UpTo(u64),
    All,
}

/// A log: after each append its end.
struct Log {
    ends: Vec<OffsetPlace>,
    segment: i64,
    position: u64,
    replicated: usize,
    leads: bool,
    epoch: i32,
    throttled: bool,
    looks: u64,
}

impl Log {
    fn new() -> Self {
        let ends = vec![OffsetPlace::new(0, 0, 0).with_progress(0)];
        Log {
            ends,
            segment: 0,
            position: 0,
            replicated: 0,
            leads: true,
            epoch: 0,
            throttled: false,
            looks: 0,
        }
    }

    fn end(&self) -> OffsetPlace {
        self.ends[self.ends.len() - 1]
    }

    fn append(&mut self, bytes: u64) {
        let end = self.end();
        self.position += bytes;
        let place = OffsetPlace::new(end.offset() + 1, self.segment, self.position);
        self.ends.push(place.with_progress(end.progress().expect("it has one") + bytes));
    }

    fn roll(&mut self) {
        (self.segment, self.position) = (self.end().offset(), 0);
    }

    /// Makes a change. Returns whom to signal of those who wait for the log's end and for what is replicated.
    fn change(&mut self, change: &Change) -> [Signal; 2] {
        let reached = |place: OffsetPlace| Signal::UpTo(place.progress().expect("it has one"));
        match *change {
            Change::Append(bytes) => {
                let from = self.end();
                self.append(bytes);
                // The first append after an end that lay on an older segment is one to another segment.
                let rolled = from.bytes_before(self.end()).is_none();
                [if rolled { Signal::All } else { reached(self.end()) }, Signal::Nobody]
            }
            Change::Roll(bytes) => {
                self.roll();
                self.append(bytes);
                [Signal::All, Signal::Nobody]
            }
            Change::RollEmpty(seen) => {
                self.roll();
                let last = self.ends.len() - 1;
                if !seen {
                    return [Signal::Nobody; 2];
                }
                let end = self.ends[last];
                let place = OffsetPlace::new(end.offset(), self.segment, 0);
                self.ends[last] = place.with_progress(end.progress().expect("it has one"));
                [Signal::All, if self.replicated == last { Signal::All } else { Signal::Nobody }]
            }
            Change::Replicate(more) => {
                let from = self.ends[self.replicated];
                self.replicated = (self.replicated + more).min(self.ends.len() - 1);
                let to = self.ends[self.replicated];
                [Signal::Nobody, if from.bytes_before(to).is_none() { Signal::All } else { reached(to) }]
            }
            Change::Truncate(back) => {
                self.ends.truncate((self.ends.len() - back.min(self.ends.len() - 1)).max(1));
                self.replicated = self.replicated.min(self.ends.len() - 1);
                self.roll();
                [Signal::All; 2]
            }
            Change::Lead(leads) => {
                self.leads = leads;
                [Signal::All; 2]
            }
            Change::Epoch => {
                self.epoch += 1;
                [Signal::All; 2]
            }
            Change::Throttle(throttled) => {
                self.throttled = throttled;
                [Signal::Nobody; 2]
            }
        }
    }
}

type Logs = Rc<RefCell<Vec<Log>>>;

/// A log as one reader sees it.
#[derive(Clone)]
struct View {
    number: usize,
    start: OffsetPlace,
    logs: Logs,
}

impl FetchPartition for View {
    fn offsets(&self, _: Access) -> Result<Offsets, ErrorCode> {
        let log = &mut self.logs.borrow_mut()[self.number];
        log.looks += 1;
        if !log.leads {
            return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        }
        let replicated = log.ends[log.replicated];
        // Ahead of the high watermark, and not of the log: at the end of what it may see.
        let ahead = (replicated.offset() + 1..=log.end().offset()).contains(&self.start.offset());
        let high_watermark = if ahead { self.start } else { replicated };
        Ok(Offsets { log_end: log.end(), high_watermark, last_stable: high_watermark })
    }

    fn end_of_epoch(&self, _: Access, epoch: i32) -> Result<Option<EpochEnd>, ErrorCode> {
        let log = &self.logs.borrow()[self.number];
        let end_offset = if epoch == log.epoch { log.end().offset() } else { 0 };
        Ok(Some(EpochEnd { epoch, end_offset }))
    }

    fn is_throttled(&self) -> bool {
        self.logs.borrow()[self.number].throttled
    }
}

type Answer = Box<dyn FnOnce(Outcome, Vec<PartitionFetch<View>>)>;
type Fetch = DelayedFetch<View, Answer>;
type Key = (usize, Isolation);

const READERS: [Isolation; 2] = [Isolation::LogEnd, Isolation::HighWatermark];

/// Two purgatories with the same fetches: one waits at numbers, one is asked at every event.
struct Both {
    logs: Logs,
    numbered: Purgatory<Key, Fetch>,
    plain: Purgatory<Key, Fetch>,
    ended: [Rc<RefCell<Vec<usize>>>; 2],
    fetches: Cell<usize>,
}

impl Both {
    fn new(logs: usize) -> Self {
        let purgatory = |name: &str| Purgatory::builder(name).clock(ManualClock::new()).shards(2).build();
        Both {
            logs: Rc::new(RefCell::new((0..logs).map(|_| Log::new()).collect())),
            numbered: purgatory("numbered"),
            plain: purgatory("plain"),
            ended: Default::default(),
            fetches: Cell::new(0),
        }
    }

    fn fetch(&self, limits: FetchLimits, wanted: &[(usize, OffsetPlace, u64, Option<i32>)]) {
        let number = self.fetches.replace(self.fetches.get() + 1);
        let [numbered, plain] = [0, 1].map(|which| {
            let ended = Rc::clone(&self.ended[which]);
            let answer: Answer = Box::new(move |_, _| ended.borrow_mut().push(number));
            let partition =
                |&(number, start, max_bytes, last_fetched_epoch): &(usize, OffsetPlace, u64, _)| {
                    PartitionFetch {
                        partition: View { number, start, logs: Rc::clone(&self.logs) },
                        fetch_offset: start.offset(),
                        start,
                        max_bytes,
                        current_leader_epoch: None,
                        last_fetched_epoch,
                    }
                };
            Fetch::new(limits, wanted.iter().map(partition).collect(), answer)
        });
        let watches: Vec<Watch<Key>> = numbered.watches(|view| (view.number, limits.isolation)).collect();
        let _ = self.numbered.try_complete_else_watch_at(numbered, Duration::MAX, watches).expect("open");
        let keys = wanted.iter().map(|wanted| (wanted.0, limits.isolation));
        let _ = self.plain.try_complete_else_watch(plain, Duration::MAX, keys).expect("open");
    }

    /// Makes a change and signals it. Returns how many looks the numbered ones and the plain ones took at this log.
    fn change(&self, number: usize, change: &Change) -> [u64; 2] {
        let signals = self.logs.borrow_mut()[number].change(change);
        let looks = || std::mem::take(&mut self.logs.borrow_mut()[number].looks);
        looks();
        for (signal, isolation) in signals.into_iter().zip(READERS) {
            match signal {
                Signal::UpTo(progress) => {
                    self.numbered.check_and_complete_up_to(&(number, isolation), progress);
                }
                Signal::All => drop(self.numbered.check_and_complete(&(number, isolation))),
                Signal::Nobody => {}
            }
        }
        let numbered = looks();
        for (signal, isolation) in signals.into_iter().zip(READERS) {
            if signal != Signal::Nobody {
                self.plain.check_and_complete(&(number, isolation));
            }
        }
        [numbered, looks()]
    }

    /// Who has ended, the same in both; since the last call.
    fn ended(&self) -> Vec<usize> {
        let [numbered, plain] = [0, 1].map(|which| {
            let mut ended = self.ended[which].take();
            ended.sort_unstable();
            ended
        });
        assert_eq!(numbered, plain);
        assert_eq!(self.numbered.len(), self.plain.len());
        numbered
    }
}

const LOG_END: Isolation = Isolation::LogEnd;

fn limits(min_bytes: u64, isolation: Isolation) -> FetchLimits {
    FetchLimits { min_bytes, isolation, leader_only: true }
}

#[derive(Clone, Debug)]
struct Wanted {
    log: usize,
    /// From which append on, counted from the last one.
    back: usize,
    max_bytes: u64,
    epoch: bool,
    /// Whether the place, and the progress, are known.
    known: [bool; 2],
}

#[derive(Clone, Debug)]
enum Step {
    Fetch { min_bytes: u64, consumer: bool, wanted: Vec<Wanted> },
    Change(usize, Change),
}

const LOGS: usize = 3;

fn step() -> impl Strategy<Value = Step> {
    let often = || prop::bool::weighted(0.93);
    let wanted = (0..LOGS, 0..4usize, prop_oneof![4 => Just(1u64 << 20), 1 => 0..80u64], any::<bool>());
    let wanted = (wanted, often(), often()).prop_map(|((log, back, max_bytes, epoch), place, progress)| {
        Wanted { log, back, max_bytes, epoch, known: [place, progress] }
    });
    let change = prop_oneof![
        30 => (0..60u64).prop_map(Change::Append),
        2 => (0..60u64).prop_map(Change::Roll),
        2 => any::<bool>().prop_map(Change::RollEmpty),
        20 => (0..4usize).prop_map(Change::Replicate),
        1 => (0..4usize).prop_map(Change::Truncate),
        1 => any::<bool>().prop_map(Change::Lead),
        1 => Just(Change::Epoch),
        2 => any::<bool>().prop_map(Change::Throttle),
    ];
    prop_oneof![
        1 => (1..300u64, any::<bool>(), prop::collection::vec(wanted, 1..4))
            .prop_map(|(min_bytes, consumer, wanted)| Step::Fetch { min_bytes, consumer, wanted }),
        3 => (0..LOGS, change).prop_map(|(log, change)| Step::Change(log, change)),
    ]
}

proptest! {
    /// After each event the same fetches have ended.
    #[test]
    fn a_fetch_at_numbers_ends_at_the_event_at_which_one_that_is_always_asked_does(
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let both = Both::new(LOGS);
        for step in steps {
            match step {
                Step::Fetch { min_bytes, consumer, wanted } => {
                    let mut starts: Vec<(usize, OffsetPlace, u64, Option<i32>)> = Vec::new();
                    for Wanted { log, back, max_bytes, epoch, known } in wanted {
                        if starts.iter().any(|(other, ..)| *other == log) {
                            continue;
                        }
                        let it = &both.logs.borrow()[log];
                        let place = it.ends[it.ends.len().saturating_sub(1 + back)];
                        let start = match known {
                            [true, true] => place,
                            [true, false] => OffsetPlace::of_offset(place.offset()),
                            _ => OffsetPlace::UNKNOWN,
                        };
                        starts.push((log, start, max_bytes, epoch.then_some(it.epoch)));
                    }
                    both.fetch(limits(min_bytes, READERS[usize::from(consumer)]), &starts);
                }
                Step::Change(log, change) => drop(both.change(log, &change)),
            }
            both.ended();
        }
    }
}

#[test]
fn ten_thousand_fetches_are_not_asked_until_their_bytes_have_come() {
    let both = Both::new(1);
    let start = both.logs.borrow()[0].end();
    for _ in 0..10_000 {
        both.fetch(limits(100 * 1000, LOG_END), &[(0, start, 1 << 20, None)]);
    }
    for _ in 0..99 {
        assert_eq!(both.change(0, &Change::Append(1000)), [0, 10_000]);
    }
    assert!(both.ended().is_empty());
    assert_eq!(both.change(0, &Change::Append(1000))[0], 10_000);
    assert_eq!(both.ended().len(), 10_000);
}

#[test]
fn a_fetch_of_ten_partitions_is_asked_a_few_times_whoever_brings_the_bytes() {
    const APPENDS: u64 = 1000;
    for active in [1, 3, 10] {
        let both = Both::new(10);
        let starts: Vec<_> = (0..10).map(|log| (log, both.logs.borrow()[log].end(), 1 << 30, None)).collect();
        both.fetch(limits(APPENDS * 1000, LOG_END), &starts);
        let mut looks = [0; 2];
        for n in 0..APPENDS {
            assert!(both.ended().is_empty());
            let more = both.change(n as usize % active, &Change::Append(1000));
            looks = [looks[0] + more[0], looks[1] + more[1]];
        }
        assert_eq!(both.ended(), [0]);
        assert!(looks[0] <= 150 && looks[1] == APPENDS, "{active} active: {looks:?}");
    }
}
