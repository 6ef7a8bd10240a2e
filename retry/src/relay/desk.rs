//! What the loop and the client's callbacks share: what is held, what is being sent, and the troubles.

use super::hold::{Commit, Counts, Failure, Hold, Kind, Parcel, Sent};
use super::kafka::{self, Report};
use super::record::{Purpose, Record, Rules, TopicPartition};
use super::trouble::Troubles;
use super::{complain, figures, note};
use ixion::Clock as _;
use ixion_retry::UnixClock;
use parking_lot::Mutex;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// See the module. Its locks are taken from the last to the first, if several are.
pub(crate) struct Desk {
    pub(crate) rules: Arc<Rules>,
    clock: UnixClock,
    troubles: Mutex<Troubles>,
    /// Whether the producer has failed for good.
    broken: AtomicBool,
    state: Mutex<State>,
    /// Who has it commits. Taken before the others.
    turn: Mutex<()>,
}

struct State {
    hold: Hold<UnixClock>,
    /// By their numbers.
    sending: HashMap<usize, Parcel>,
    reports: Receiver<Report>,
    commits: u64,
    failed_commits: u64,
}

/// How things stand.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub(crate) counts: Counts,
    /// Of each partition that was ever read.
    pub(crate) held: Vec<(TopicPartition, usize)>,
    pub(crate) partitions: usize,
    pub(crate) sending: usize,
    pub(crate) commits: u64,
    pub(crate) failed_commits: u64,
    pub(crate) next_due: Option<Duration>,
}

/// The subjects of troubles that are no topic's.
const BROKERS: &str = "brokers";
const CLIENT: &str = "client";
const COMMITS: &str = "commits";
const PRODUCER: &str = "producer";
/// How long one look at the reports takes that wait for more.
const LOOK: Duration = Duration::from_millis(10);

impl Desk {
    pub(crate) fn new(rules: Arc<Rules>, most: usize, reports: Receiver<Report>) -> Self {
        let clock = UnixClock::new();
        let state = State {
            hold: Hold::new(clock, rules.clone(), most),
            sending: HashMap::new(),
            reports,
            commits: 0,
            failed_commits: 0,
        };
        Desk {
            rules,
            clock,
            state: Mutex::new(state),
            troubles: Mutex::default(),
            broken: AtomicBool::new(false),
            turn: Mutex::default(),
        }
    }

    /// Holds a record. Returns whether its partition has room for another.
    pub(crate) fn read(&self, record: Record) -> bool {
        self.is_well(CLIENT);
        self.state.lock().hold.read(record)
    }

    /// Gives the client what is due, and as much as it takes. Returns whether something is left.
    pub(crate) fn send(&self, send: impl Fn(&Parcel) -> KafkaResult<()>) -> bool {
        let state = &mut *self.state.lock();
        while let Some(parcel) = state.hold.next() {
            match send(&parcel) {
                Ok(()) => {
                    state.sending.insert(parcel.number, parcel);
                }
                Err(error) if error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull) => {
                    state.hold.put_back(parcel);
                    return true;
                }
                Err(error) => self.enter(state, parcel, Err(kafka::failure(&error)), self.now()),
            }
        }
        false
    }

    /// Enters what has become of what was sent; waits so long for a first report.
    pub(crate) fn reports(&self, wait: Duration) {
        let state = &mut *self.state.lock();
        let mut report = state.reports.recv_timeout(wait).ok();
        while let Some(Report { number, result, at }) = report {
            if let Some(parcel) = state.sending.remove(&number) {
                self.enter(state, parcel, result, at);
            }
            report = state.reports.try_recv().ok();
        }
    }

    fn enter(&self, state: &mut State, parcel: Parcel, result: Result<(), Failure>, at: Duration) {
        let to = parcel.plan.to.clone();
        let is_dead = matches!(parcel.plan.purpose, Purpose::Dead(..));
        let (place, offset) = (&parcel.record.place, parcel.record.offset);
        match &result {
            Ok(()) => {
                for subject in [BROKERS, PRODUCER, &to] {
                    self.is_well(subject);
                }
                if parcel.failures > 0 {
                    self.is_well(&format!("{to} and {place}"));
                }
            }
            Err(Failure { kind: Kind::TooLarge, .. }) if !parcel.is_alone => {}
            Err(Failure { kind: Kind::GivenBack, .. }) => {}
            Err(Failure { kind: Kind::Broken, error }) => self.is_broken(error),
            Err(Failure { kind: Kind::Transient, error }) => {
                self.is_ill(&to, &format!("what is sent there fails, and is sent again: {error}"));
            }
            Err(Failure { error, .. }) if is_dead => {
                // That others are taken does not end it: only that one is that was not.
                let what = format!("what is at {offset} is not taken, stays, and is sent again: {error}");
                self.is_ill(&format!("{to} and {place}"), &what);
            }
            // Said once: that others are taken does not end it.
            Err(Failure { error, .. }) => {
                let dead = &self.rules.dead_letter_topic;
                self.is_ill(&format!("{to} ({error})"), &format!("what it does not take goes to {dead}"));
            }
        }
        if let Sent::Republished(late) = state.hold.sent(parcel, result, at) {
            figures::late(late);
        }
    }

    pub(crate) fn assign(&self, offsets: Vec<(TopicPartition, Option<(u64, String)>)>) {
        let mut names = Vec::new();
        let state = &mut *self.state.lock();
        for (place, committed) in offsets {
            self.is_well(&place.topic);
            names.push(place.to_string());
            state.hold.assign(&place, committed);
        }
        for subject in [BROKERS, CLIENT] {
            self.is_well(subject);
        }
        note(&format!("assigned: {}", names.join(", ")));
    }

    /// Takes partitions away: waits up to so long for what is being sent from them. Returns what is to be committed.
    pub(crate) fn revoke(&self, places: &[TopicPartition], wait: Duration) -> Vec<Commit> {
        let until = Instant::now() + wait;
        self.with(|hold| places.iter().for_each(|place| hold.release(place)));
        while self.with(|hold| places.iter().any(|place| hold.sending(place) > 0)) && Instant::now() < until {
            self.reports(LOOK);
        }
        if !places.is_empty() {
            let names: Vec<_> = places.iter().map(TopicPartition::to_string).collect();
            note(&format!("revoked: {}", names.join(", ")));
        }
        self.with(|hold| places.iter().filter_map(|place| hold.revoke(place)).collect())
    }

    /// Commits what there is, one after the other: an earlier commit must not come after a later one.
    pub(crate) fn commit_all(&self, commit: impl Fn(&[Commit]) -> KafkaResult<()>) {
        let _turn = self.turn.lock();
        let commits = self.with(|hold| hold.commits());
        self.commit_now(&commits, &commit);
    }

    /// Commits this.
    pub(crate) fn commit(&self, commits: &[Commit], commit: impl Fn(&[Commit]) -> KafkaResult<()>) {
        let _turn = self.turn.lock();
        self.commit_now(commits, &commit);
    }

    fn commit_now(&self, commits: &[Commit], commit: &impl Fn(&[Commit]) -> KafkaResult<()>) {
        if commits.is_empty() {
            return;
        }
        match commit(commits) {
            // The answer does not say whose fault it is.
            Err(_) if commits.len() > 1 => {
                commits.chunks(1).for_each(|one| self.commit_now(one, commit));
            }
            result => self.committed(commits, result.err().as_ref()),
        }
    }

    /// Enters how a commit has ended.
    fn committed(&self, commits: &[Commit], error: Option<&KafkaError>) {
        let state = &mut *self.state.lock();
        match error {
            None => {
                state.commits += commits.len() as u64;
                self.is_well(COMMITS);
            }
            Some(error) => {
                let code = error.rdkafka_error_code();
                let is_too_long = code == Some(RDKafkaErrorCode::OffsetMetadataTooLarge);
                commits.iter().for_each(|one| state.hold.not_committed(&one.place, is_too_long));
                // It is made again in the next generation, as a matter of course.
                if code != Some(RDKafkaErrorCode::RebalanceInProgress) {
                    state.failed_commits += commits.len() as u64;
                    self.is_ill(COMMITS, &format!("they fail, and are made again: {}", kafka::text(error)));
                }
            }
        }
    }

    /// Enters what librdkafka says of itself.
    pub(crate) fn client_error(&self, error: &KafkaError, reason: &str) {
        match error.rdkafka_error_code() {
            // One broker alone: there may be others.
            Some(RDKafkaErrorCode::BrokerTransportFailure) => {}
            Some(RDKafkaErrorCode::AllBrokersDown | RDKafkaErrorCode::Resolve) => {
                self.is_ill(BROKERS, &format!("none can be reached, waiting: {reason}"));
            }
            Some(RDKafkaErrorCode::UnknownTopicOrPartition) => {
                let topic = self.rules.topics.iter().find(|topic| reason.contains(&format!(": {topic}:")));
                let subject = topic.map_or(CLIENT, |topic| topic);
                self.is_ill(subject, &format!("there is no such topic, waiting: {reason}"));
            }
            _ => self.is_ill(CLIENT, &format!("{}: {reason}", kafka::text(error))),
        }
    }

    pub(crate) fn is_ill(&self, subject: &str, what: &str) {
        if self.troubles.lock().ill(subject, self.now()) {
            complain(&format!("{subject}: {what}"));
        }
    }

    fn is_well(&self, subject: &str) {
        let mut troubles = self.troubles.lock();
        if !troubles.is_empty() {
            troubles.well(subject);
        }
    }

    /// Says what is over.
    pub(crate) fn say_what_is_over(&self) {
        let lines = self.troubles.lock().over(self.now());
        lines.iter().for_each(|line| complain(line));
    }

    pub(crate) fn standing(&self) -> Standing {
        let state = self.state.lock();
        Standing {
            counts: state.hold.counts(),
            held: state.hold.held().collect(),
            partitions: state.hold.places().count(),
            sending: state.sending.len(),
            commits: state.commits,
            failed_commits: state.failed_commits,
            next_due: state.hold.time_to_next(),
        }
    }

    pub(crate) fn now(&self) -> Duration {
        self.clock.elapsed()
    }

    /// How many records are being sent.
    pub(crate) fn sending(&self) -> usize {
        self.state.lock().sending.len()
    }

    /// Enters that the producer has failed for good.
    pub(crate) fn is_broken(&self, reason: &str) {
        self.broken.store(true, Ordering::Relaxed);
        self.is_ill(PRODUCER, &format!("it has failed for good, and is made anew: {reason}"));
    }

    /// Returns whether there must be another producer, and takes it that there will be.
    pub(crate) fn take_broken(&self) -> bool {
        self.broken.swap(false, Ordering::Relaxed)
    }

    /// Gives up on what the producer that is gone was sending: it is sent again.
    pub(crate) fn abandon(&self) {
        self.reports(Duration::ZERO);
        let state = &mut *self.state.lock();
        let left: Vec<Parcel> = state.sending.drain().map(|(_, parcel)| parcel).collect();
        for parcel in left {
            let failure = Failure { kind: Kind::GivenBack, error: String::new() };
            self.enter(state, parcel, Err(failure), self.now());
        }
        // What it has said last.
        self.take_broken();
    }

    /// Calls with what is held.
    pub(crate) fn with<T>(&self, call: impl FnOnce(&mut Hold<UnixClock>) -> T) -> T {
        call(&mut self.state.lock().hold)
    }
}
