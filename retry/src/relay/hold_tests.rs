use super::super::record::{Header, Headers, Names};
use super::*;
use ixion::ManualClock;
use proptest::prelude::*;
use std::collections::BTreeSet;

const MOST: usize = 6;
const ATTEMPTS: u32 = 3;

fn rules() -> Arc<Rules> {
    Arc::new(Rules {
        topics: vec!["retry".into()],
        dead_letter_topic: "dead".into(),
        target: Some("orders".into()),
        backoff: Backoff::fixed(Duration::ZERO).max_attempts(ATTEMPTS),
        max_attempts: ATTEMPTS,
        max_age: None,
        names: Names::default(),
    })
}

fn place(partition: i32) -> TopicPartition {
    TopicPartition { topic: "retry".into(), partition }
}

fn record(partition: i32, offset: u64, attempt: u32, due: Millis) -> Record {
    let header = |name: &str, number: u64| Header {
        name: name.to_owned(),
        value: Some(number.to_string().into_bytes()),
    };
    Record {
        place: place(partition),
        offset,
        timestamp: None,
        key: None,
        value: None,
        headers: Headers::Read(vec![header("retry-attempt", attempt.into()), header("retry-due", due)]),
    }
}

fn start() -> (ManualClock, Hold<ManualClock>) {
    let clock = ManualClock::new();
    let mut hold = Hold::new(clock.clone(), rules(), MOST);
    hold.assign(&place(0), None);
    (clock, hold)
}

fn fails(kind: Kind) -> Result<(), Failure> {
    Err(Failure { kind, error: "no".to_owned() })
}

fn offsets(hold: &mut Hold<ManualClock>) -> Vec<u64> {
    std::iter::from_fn(|| hold.next()).map(|parcel| parcel.record.offset).collect()
}

fn commit(hold: &mut Hold<ManualClock>) -> Option<(u64, String)> {
    hold.commits().pop().map(|commit| (commit.offset, commit.note))
}

/// The note that says that these are done: from, and up to but not.
fn note(base: u64, done: &[(u64, u64)]) -> String {
    let done: Vec<_> = done.iter().map(|(from, to)| *from..*to).collect();
    commit::write(base, &done, commit::LONGEST)
}

fn sent(hold: &mut Hold<ManualClock>, parcel: Parcel, result: Result<(), Failure>) -> Sent {
    let now = hold.clock.elapsed();
    hold.sent(parcel, result, now)
}

#[test]
fn records_come_out_when_they_are_due_and_by_due_time() {
    let (clock, mut hold) = start();
    for (offset, due) in [(0, 300), (1, 100), (2, 200), (3, 0)] {
        hold.read(record(0, offset, 1, due));
    }
    assert_eq!(offsets(&mut hold), [3]);
    assert_eq!(hold.time_to_next(), Some(Duration::from_millis(100)));
    clock.advance(Duration::from_millis(99));
    assert_eq!(offsets(&mut hold), [0; 0]);
    clock.advance(Duration::from_millis(500));
    assert_eq!(hold.time_to_next(), Some(Duration::ZERO));
    assert_eq!(offsets(&mut hold), [1, 2, 0]);
    assert_eq!(hold.time_to_next(), None);
}

#[test]
fn a_commit_never_passes_what_is_not_acknowledged_and_notes_what_is_beyond() {
    let (_, mut hold) = start();
    for (offset, due) in [(7, 99_999), (8, 0), (9, 0), (11, 0)] {
        hold.read(record(0, offset, 1, due));
    }
    assert_eq!(commit(&mut hold), Some((7, note(7, &[(10, 11)]))), "10 is not there");
    let eight = hold.next().unwrap();
    assert_eq!(sent(&mut hold, eight, Ok(())), Sent::Republished(Duration::ZERO));
    assert_eq!(commit(&mut hold), Some((7, note(7, &[(8, 9), (10, 11)]))));
    assert_eq!(commit(&mut hold), None, "nothing is new");
    hold.not_committed(&place(0), false);
    assert_eq!(commit(&mut hold), Some((7, note(7, &[(8, 9), (10, 11)]))), "it failed");
    hold.not_committed(&place(0), true);
    for _ in 0..10 {
        hold.not_committed(&place(0), true);
    }
    assert_eq!(commit(&mut hold), Some((7, String::new())), "it was too long");
    assert_eq!(hold.unfinished(&place(0)), 3);
}

#[test]
fn what_the_note_has_is_passed_over_and_stays_in_the_note() {
    let (_, mut hold) = start();
    hold.assign(&place(0), Some((7, note(7, &[(8, 10), (11, 13)]))));
    assert_eq!(commit(&mut hold), None, "nothing was read");
    hold.read(record(0, 7, 1, 99_999));
    assert_eq!(commit(&mut hold), None, "it has not changed");
    for offset in 8..13 {
        hold.read(record(0, offset, 1, 0));
    }
    assert_eq!(hold.counts().passed_over, 4);
    assert_eq!(hold.counts().read, 6);
    let ten = hold.next().unwrap();
    assert_eq!(ten.record.offset, 10);
    sent(&mut hold, ten, Ok(()));
    assert_eq!(commit(&mut hold), Some((7, note(7, &[(8, 13)]))));
}

#[test]
fn what_cannot_be_sent_for_now_is_sent_again_later_and_later() {
    let (clock, mut hold) = start();
    hold.read(record(0, 0, 1, 0));
    for pause in [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000] {
        let parcel = hold.next().expect("it is due");
        assert_eq!(sent(&mut hold, parcel, fails(Kind::Transient)), Sent::Again);
        assert_eq!(hold.time_to_next(), Some(Duration::from_millis(pause)));
        clock.advance(Duration::from_millis(pause));
    }
    let parcel = hold.next().unwrap();
    assert_eq!(parcel.plan.purpose, Purpose::Again(2), "that is no attempt");
    assert!(matches!(sent(&mut hold, parcel, Ok(())), Sent::Republished(late) if late.as_millis() == 32_700));
    assert_eq!(hold.counts().failed, 9);
}

#[test]
fn what_the_target_never_takes_is_dead_and_what_the_dead_letter_topic_does_not_take_stays() {
    let (clock, mut hold) = start();
    hold.read(record(0, 0, 1, 0));
    let parcel = hold.next().unwrap();
    assert_eq!(sent(&mut hold, parcel, fails(Kind::Permanent)), Sent::Again);
    for _ in 0..20 {
        let parcel = hold.next().expect("it is due");
        assert_eq!(&*parcel.plan.to, "dead");
        assert_eq!(sent(&mut hold, parcel, fails(Kind::Permanent)), Sent::Again);
        assert_eq!(commit(&mut hold).map(|(offset, _)| offset).unwrap_or(0), 0);
        clock.advance(LONGEST_PAUSE);
    }
    let parcel = hold.next().unwrap();
    assert_eq!(sent(&mut hold, parcel, Ok(())), Sent::Dead(Cause::Refused));
    assert_eq!(commit(&mut hold), Some((1, String::new())));
    assert_eq!(hold.counts().all_dead(), 1);
}

#[test]
fn what_was_in_too_large_a_batch_is_sent_alone_before_it_is_dead() {
    let (_, mut hold) = start();
    hold.read(record(0, 0, 1, 0));
    let parcel = hold.next().unwrap();
    assert!(!parcel.is_alone);
    sent(&mut hold, parcel, fails(Kind::TooLarge));
    let parcel = hold.next().expect("at once");
    assert!(parcel.is_alone && &*parcel.plan.to == "orders");
    sent(&mut hold, parcel, fails(Kind::TooLarge));
    let parcel = hold.next().expect("at once");
    assert!(matches!(parcel.plan.purpose, Purpose::Dead(Cause::Refused, _)));
}

#[test]
fn a_partition_that_was_taken_away_commits_what_is_acknowledged_and_forgets_the_rest() {
    let (clock, mut hold) = start();
    for offset in 0..5 {
        hold.read(record(0, offset, 1, 0));
    }
    let mut taken: Vec<_> = (0..4).map(|_| hold.next().unwrap()).collect();
    sent(&mut hold, taken.remove(0), Ok(()));
    hold.release(&place(0));
    assert_eq!(hold.sending(&place(0)), 4, "4 was due, and is forgotten");
    assert!(hold.next().is_none());
    sent(&mut hold, taken.remove(0), Ok(()));
    assert_eq!(sent(&mut hold, taken.remove(1), fails(Kind::Transient)), Sent::Stale);
    assert_eq!(hold.time_to_next(), None, "it is not sent again");
    let commit = hold.revoke(&place(0)).expect("there is something to commit");
    assert_eq!((commit.offset, &*commit.note), (2, ""));
    assert_eq!(sent(&mut hold, taken.remove(0), Ok(())), Sent::Stale);
    assert!(hold.read(record(0, 4, 1, 0)) && hold.next().is_none(), "it is another's");
    hold.assign(&place(0), Some((2, String::new())));
    for offset in 2..4 {
        hold.read(record(0, offset, 1, 0));
    }
    clock.advance(Duration::from_secs(60));
    assert_eq!(offsets(&mut hold), [2, 3]);
}

#[test]
fn a_full_partition_has_room_with_one_less_and_much_room_with_an_eighth_less() {
    let clock = ManualClock::new();
    let mut hold = Hold::new(clock.clone(), rules(), 16);
    hold.assign(&place(0), None);
    for offset in 0..16 {
        assert_eq!(hold.read(record(0, offset, 1, offset)), offset < 15, "{offset}");
    }
    clock.advance(Duration::from_secs(1));
    for (has_room, has_much_room) in [(false, false), (true, false), (true, true)] {
        assert_eq!(hold.has_room(&place(0)), has_room);
        assert_eq!(hold.has_much_room(&place(0)), has_much_room);
        let parcel = hold.next().unwrap();
        sent(&mut hold, parcel, Ok(()));
    }
}

#[test]
fn a_report_that_comes_after_the_partition_is_back_changes_nothing() {
    let (clock, mut hold) = start();
    hold.read(record(0, 0, 1, 0));
    hold.read(record(0, 1, 1, 0));
    let (one, two) = (hold.next().unwrap(), hold.next().unwrap());
    assert_eq!(hold.revoke(&place(0)).map(|commit| commit.offset), Some(0));
    hold.assign(&place(0), Some((0, String::new())));
    hold.read(record(0, 0, 1, 0));
    hold.read(record(0, 1, 1, 0));
    assert_eq!(sent(&mut hold, one, Ok(())), Sent::Stale);
    assert_eq!(sent(&mut hold, two, fails(Kind::Transient)), Sent::Stale);
    assert_eq!(commit(&mut hold), None);
    clock.advance(Duration::from_secs(60));
    assert_eq!(offsets(&mut hold), [0, 1], "once each");
}

#[test]
fn a_log_that_begins_again_is_read_again_and_what_was_held_is_not_lost() {
    let (clock, mut hold) = start();
    hold.assign(&place(0), Some((1000, note(1000, &[(1001, 1501)]))));
    hold.read(record(0, 1000, 1, 50));
    hold.read(record(0, 3, 1, 0));
    hold.read(record(0, 4, 1, 0));
    assert_eq!(offsets(&mut hold), [3, 4]);
    clock.advance(Duration::from_secs(1));
    let old = hold.next().expect("it was held");
    assert_eq!(sent(&mut hold, old, fails(Kind::Transient)), Sent::Again, "it is not dropped");
    clock.advance(Duration::from_secs(1));
    let old = hold.next().expect("it is sent again");
    assert!(matches!(sent(&mut hold, old, Ok(())), Sent::Republished(_)));
    assert_eq!(commit(&mut hold), Some((3, String::new())), "and counts for nothing in the new log");
}

#[test]
fn a_log_that_is_cut_off_is_not_committed_beyond_what_was_held_before_the_cut() {
    let (clock, mut hold) = start();
    hold.assign(&place(0), Some((0, note(0, &[(5, 9)]))));
    for offset in 0..3 {
        hold.read(record(0, offset, 1, 50));
    }
    // From 1 on the log is another one.
    for offset in [1, 2, 3, 4, 5] {
        hold.read(record(0, offset, 1, 0));
    }
    assert_eq!(hold.counts().passed_over, 0, "the note was about the old log");
    for offset in [1, 2, 3, 4, 5] {
        let parcel = hold.next().expect("it is due");
        assert_eq!(parcel.record.offset, offset);
        sent(&mut hold, parcel, Ok(()));
    }
    assert_eq!(commit(&mut hold), Some((0, note(0, &[(1, 6)]))), "0 is still held");
    clock.advance(Duration::from_secs(1));
    hold.read(record(0, 6, 1, 99_999));
    let held: Vec<Parcel> = std::iter::from_fn(|| hold.next()).collect();
    assert_eq!(held.iter().map(|parcel| parcel.record.offset).collect::<Vec<_>>(), [0, 1, 2]);
    for parcel in held {
        assert!(matches!(sent(&mut hold, parcel, Ok(())), Sent::Republished(_)));
    }
    assert_eq!(commit(&mut hold), Some((6, String::new())));
}

/// A log, what its broker knows, and a relay that may be killed.
struct World {
    clock: ManualClock,
    hold: Hold<ManualClock>,
    partitions: [Partition; 2],
    in_flight: Vec<(Parcel, u64)>,
    /// How often the relay was killed or a partition changed hands.
    life: u64,
}

#[derive(Default)]
struct Partition {
    /// Offset, failed attempt and due time.
    log: Vec<(u64, u32, Millis)>,
    read: usize,
    committed: Option<(u64, String)>,
    acknowledged: BTreeSet<u64>,
    /// How often each may come out in this life, and what must not.
    may_come: BTreeMap<u64, i64>,
    is_assigned: bool,
    life: u64,
}

#[derive(Clone, Debug)]
enum Step {
    Write { partition: usize, gap: u64, attempt: u32, due: Millis },
    Read { partition: usize },
    Pass(u64),
    Take,
    Report { which: prop::sample::Index, result: Option<Kind> },
    Commit { fails: bool },
    Rebalance { partition: usize, is_lost: bool },
    Kill,
}

fn step() -> impl Strategy<Value = Step> {
    let kind = prop::sample::select(vec![
        Kind::Transient,
        Kind::Broken,
        Kind::GivenBack,
        Kind::TooLarge,
        Kind::Permanent,
    ]);
    let result = prop_oneof![4 => Just(None), 1 => kind.prop_map(Some)];
    prop_oneof![
        6 => (0..2_usize, 1..4_u64, 0..5_u32, 0..2000_u64)
            .prop_map(|(partition, gap, attempt, due)| Step::Write { partition, gap, attempt, due }),
        6 => (0..2_usize).prop_map(|partition| Step::Read { partition }),
        3 => (1..500_u64).prop_map(Step::Pass),
        5 => Just(Step::Take),
        5 => (any::<prop::sample::Index>(), result).prop_map(|(which, result)| Step::Report { which, result }),
        3 => any::<bool>().prop_map(|fails| Step::Commit { fails }),
        1 => (0..2_usize, any::<bool>()).prop_map(|(partition, is_lost)| Step::Rebalance { partition, is_lost }),
        1 => Just(Step::Kill),
    ]
}

impl World {
    fn new() -> Self {
        let clock = ManualClock::new();
        let hold = Hold::new(clock.clone(), rules(), MOST);
        let mut world = World { clock, hold, partitions: Default::default(), in_flight: Vec::new(), life: 0 };
        (0..2).for_each(|partition| world.assign(partition));
        world
    }

    fn assign(&mut self, partition: usize) {
        self.life += 1;
        let state = &mut self.partitions[partition];
        let from = state.committed.as_ref().map_or(0, |(offset, _)| *offset);
        let done = state.committed.as_ref().map_or(Vec::new(), |(offset, note)| commit::read(*offset, note));
        state.life = self.life;
        state.is_assigned = true;
        state.read = state.log.iter().take_while(|(offset, ..)| *offset < from).count();
        let rest = state.log.iter().map(|(offset, ..)| *offset).filter(|offset| *offset >= from);
        state.may_come = rest
            .map(|offset| (offset, i64::from(!done.iter().any(|range| range.contains(&offset)))))
            .collect();
        self.hold.assign(&place(partition as i32), state.committed.clone());
    }

    fn enter(&mut self, commit: Commit) {
        let state = &mut self.partitions[commit.place.partition as usize];
        let done = commit::read(commit.offset, &commit.note);
        for (offset, ..) in &state.log {
            let is_passed = *offset < commit.offset || done.iter().any(|range| range.contains(offset));
            assert!(!is_passed || state.acknowledged.contains(offset), "{offset} is passed by {commit:?}");
        }
        assert!(commit.note.len() <= commit::LONGEST);
        state.committed = Some((commit.offset, commit.note));
    }

    fn take(&mut self) -> bool {
        let Some(parcel) = self.hold.next() else { return false };
        let (partition, offset) = (parcel.record.place.partition as usize, parcel.record.offset);
        let state = &mut self.partitions[partition];
        let (_, attempt, due) = *state.log.iter().find(|(at, ..)| *at == offset).expect("it was written");
        let left = state.may_come.get_mut(&offset).expect("it is of this life");
        *left -= 1;
        assert!(*left >= 0, "{offset} comes out once more");
        let is_sent_back = attempt < ATTEMPTS;
        match &parcel.plan.purpose {
            Purpose::Again(next) => {
                assert!(is_sent_back && *next == attempt + 1 && &*parcel.plan.to == "orders");
                assert!(self.clock.elapsed() >= Duration::from_millis(due), "{offset} is early");
            }
            Purpose::Dead(cause, _) => {
                assert_eq!(*cause == Cause::Attempts, !is_sent_back);
                assert_eq!(&*parcel.plan.to, "dead");
            }
        }
        self.in_flight.push((parcel, state.life));
        true
    }

    fn report(&mut self, which: usize, result: Option<Kind>) {
        let (parcel, life) = self.in_flight.swap_remove(which);
        let state = &mut self.partitions[parcel.record.place.partition as usize];
        let (offset, is_stale) = (parcel.record.offset, life != state.life);
        if result.is_none() {
            state.acknowledged.insert(offset);
        } else if !is_stale {
            *state.may_come.entry(offset).or_default() += 1;
        }
        let sent = self.hold.sent(parcel, result.map_or(Ok(()), fails), self.clock.elapsed());
        assert_eq!(sent == Sent::Stale, is_stale);
        assert_eq!(sent == Sent::Again, !is_stale && result.is_some());
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Write { partition, gap, attempt, due } => {
                let due = due + self.clock.elapsed().as_millis() as u64;
                let state = &mut self.partitions[partition];
                let offset = state.log.last().map_or(0, |(last, ..)| last + gap);
                state.log.push((offset, attempt, due));
                state.may_come.insert(offset, 1);
            }
            Step::Read { partition } => self.read(partition),
            Step::Pass(millis) => self.clock.advance(Duration::from_millis(millis)),
            Step::Take => drop(self.take()),
            Step::Report { which, result } if !self.in_flight.is_empty() => {
                self.report(which.index(self.in_flight.len()), result);
            }
            Step::Report { .. } => {}
            Step::Commit { fails } => {
                for commit in self.hold.commits() {
                    match fails {
                        true => self.hold.not_committed(&commit.place, false),
                        false => self.enter(commit),
                    }
                }
            }
            Step::Rebalance { partition, is_lost } => {
                let commit = self.hold.revoke(&place(partition as i32));
                if let Some(commit) = commit.filter(|_| !is_lost) {
                    self.enter(commit);
                }
                self.assign(partition);
            }
            Step::Kill => {
                self.hold = Hold::new(self.clock.clone(), rules(), MOST);
                // What was on its way may have come to its end, or not: nobody hears of it.
                for (parcel, _) in self.in_flight.drain(..) {
                    let state = &mut self.partitions[parcel.record.place.partition as usize];
                    state.acknowledged.insert(parcel.record.offset);
                }
                (0..2).for_each(|partition| self.assign(partition));
            }
        }
        let held: usize = (0..2).map(|partition| self.hold.unfinished(&place(partition))).sum();
        assert!(held <= 2 * MOST, "{held} are held");
    }

    fn read(&mut self, partition: usize) {
        let state = &mut self.partitions[partition];
        let Some((offset, attempt, due)) = state.log.get(state.read).copied() else { return };
        if self.hold.has_room(&place(partition as i32)) {
            state.read += 1;
            let has_room = self.hold.read(record(partition as i32, offset, attempt, due));
            assert_eq!(has_room, self.hold.has_room(&place(partition as i32)));
        }
    }

    /// All goes well until nothing is left.
    fn finish(&mut self) {
        for _ in 0..10_000 {
            (0..2).for_each(|partition| self.read(partition));
            self.clock.advance(Duration::from_millis(100));
            while self.take() {}
            while !self.in_flight.is_empty() {
                self.report(0, None);
            }
            if self.partitions.iter().all(|state| state.read == state.log.len())
                && self.hold.time_to_next().is_none()
            {
                break;
            }
        }
        self.run(Step::Commit { fails: false });
        for state in &self.partitions {
            let all: BTreeSet<u64> = state.log.iter().map(|(offset, ..)| *offset).collect();
            assert_eq!(state.acknowledged, all, "each record has come to its end");
            let behind = state.log.last().map(|(offset, ..)| offset + 1);
            assert_eq!(state.committed.as_ref().map(|(offset, _)| *offset), behind);
        }
        assert_eq!(self.hold.held().map(|(_, held)| held).sum::<usize>(), 0);
    }
}

proptest! {
    #[test]
    fn whatever_happens_no_record_is_passed_lost_early_or_sent_once_too_often(
        steps in prop::collection::vec(step(), 0..120),
    ) {
        let mut world = World::new();
        steps.into_iter().for_each(|step| world.run(step));
        world.finish();
    }
}
