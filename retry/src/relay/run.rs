//! The loop: reads, sends what is due, commits, and says how it goes.

use super::config::Config;
use super::desk::{Desk, Standing};
use super::kafka::{self, Reader, Reading, Report, Writer, Writing};
use super::record::{Rules, TopicPartition};
use super::{complain, figures, note};
use crate::Failure;
use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, KafkaResult};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long the loop sleeps at most: so soon it hears of a signal.
const TURN: Duration = Duration::from_millis(100);
/// How many records it reads before it looks at what is due.
const BATCH: usize = 500;
/// Between commits: what was republished since the last is republished again after a crash.
const COMMIT: Duration = Duration::from_millis(200);
/// Between looks at how things stand.
const LOOK: Duration = Duration::from_secs(1);
/// So long a full partition of which most is on its way is not paused, and nothing is read: pausing drops what the client has
/// fetched ahead.
const STALL: Duration = Duration::from_millis(200);
/// So long one that is paused waits for much room. Then little is enough: what it holds may be due in hours.
const PAUSE: Duration = Duration::from_secs(1);
/// How long the end waits for what is being sent.
const LAST: Duration = Duration::from_secs(10);
/// Lines of progress under each head.
const LINES: u32 = 20;

/// All that the loop has.
struct Relay<'a> {
    config: &'a Config,
    reports: Sender<Report>,
    reader: Arc<Reader>,
    committer: Committer,
    writer: Writer,
    /// For records that were too large for a batch with others.
    alone: Writer,
    desk: Arc<Desk>,
    /// Partitions that are paused, and since when.
    paused: BTreeMap<TopicPartition, Instant>,
    /// Those that are full and not paused, and since when.
    full: BTreeMap<TopicPartition, Instant>,
}

/// Relays until a signal.
pub(crate) fn run(config: &Config) -> Result<(), Failure> {
    kafka::hush();
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        // The second one does not wait.
        flag::register_conditional_shutdown(signal, 1, stop.clone())?;
        flag::register(signal, stop.clone())?;
    }
    let mut relay = Relay::start(config)?;
    introduce(config);
    if let Some(http) = config.http {
        let http =
            figures::serve(http).map_err(|error| format!("cannot serve metrics on {http}: {error}"))?;
        note(&format!("metrics on http://{http}/metrics"));
    }
    let topics: Vec<&str> = config.rules.topics.iter().map(|topic| &**topic).collect();
    relay.reader.subscribe(&topics)?;
    let ended = relay.turn_until(&stop, config.progress_interval);
    relay.end();
    ended
}

/// Says what it is going to do.
fn introduce(config: &Config) {
    let rules: &Rules = &config.rules;
    let target = match &rules.target {
        Some(target) => format!("{target}, or to what {} says", rules.names.target),
        None => format!("what {} says", rules.names.target),
    };
    let age = match rules.max_age {
        Some(age) => format!(", or {} s,", age.as_secs_f64()),
        None => String::new(),
    };
    note(&format!(
        "relays {} from {} in group {} to {target}\nafter {} attempts{age} to {}",
        rules.topics.join(", "),
        config.brokers,
        config.group,
        rules.max_attempts,
        rules.dead_letter_topic,
    ));
}

impl<'a> Relay<'a> {
    fn start(config: &'a Config) -> KafkaResult<Self> {
        let (sender, reports) = mpsc::channel();
        let desk = Arc::new(Desk::new(config.rules.clone(), config.max_in_flight, reports));
        let writing = || Writing { desk: desk.clone(), reports: sender.clone() };
        let (writer, alone) =
            (kafka::writer(config, writing(), false)?, kafka::writer(config, writing(), true)?);
        let reader = Arc::new(kafka::reader(config, Reading { desk: desk.clone() })?);
        Ok(Relay {
            committer: Committer::start(&reader, &desk),
            reader,
            writer,
            alone,
            config,
            reports: sender,
            desk,
            paused: BTreeMap::new(),
            full: BTreeMap::new(),
        })
    }

    fn turn_until(&mut self, stop: &AtomicBool, interval: Duration) -> Result<(), Failure> {
        let mut progress = Progress::new(interval);
        let mut last = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let has_more = self.send();
            self.make_room()?;
            if self.full.is_empty() {
                self.read(if has_more { Duration::ZERO } else { self.wait() })?;
            }
            if has_more || !self.full.is_empty() {
                self.desk.reports(Duration::from_millis(1));
            }
            if last.elapsed() >= LOOK {
                last = Instant::now();
                if self.desk.take_broken() {
                    self.renew()?;
                }
                self.desk.say_what_is_over();
                let standing = self.desk.standing();
                self.desk.with(|hold| hold.publish());
                figures::publish(&standing);
                progress.look(&standing);
            }
        }
        Ok(())
    }

    /// Replaces a producer that has failed for good, as an idempotent one does when the broker has lost its state.
    fn renew(&mut self) -> KafkaResult<()> {
        let writing = || Writing { desk: self.desk.clone(), reports: self.reports.clone() };
        // What the old ones have not sent they give back when they are dropped.
        self.writer = kafka::writer(self.config, writing(), false)?;
        self.alone = kafka::writer(self.config, writing(), true)?;
        self.desk.abandon();
        Ok(())
    }

    /// Sends what is due. Returns whether the client takes no more.
    fn send(&mut self) -> bool {
        self.desk.reports(Duration::ZERO);
        let (writer, alone, rules) = (&self.writer, &self.alone, &self.desk.rules);
        self.desk.send(|parcel| kafka::send(if parcel.is_alone { alone } else { writer }, rules, parcel))
    }

    /// How long there is nothing to be sent.
    fn wait(&self) -> Duration {
        let next = self.desk.with(|hold| hold.time_to_next()).unwrap_or(TURN);
        // The client counts in whole milliseconds, and one of nothing would let this spin.
        if next.is_zero() { next } else { next.clamp(Duration::from_millis(1), TURN) }
    }

    /// Reads what is there; waits so long for a first record.
    fn read(&mut self, wait: Duration) -> KafkaResult<()> {
        let mut wait = wait;
        for _ in 0..BATCH {
            match self.reader.poll(wait) {
                None => break,
                Some(Ok(message)) => {
                    let record = kafka::record(&self.desk.rules, &message);
                    let place = record.place.clone();
                    if !self.desk.read(record) {
                        self.full.insert(place, Instant::now());
                        break;
                    }
                }
                Some(Err(error @ KafkaError::MessageConsumptionFatal(_))) => return Err(error),
                // The callback has heard of it.
                Some(Err(_)) => {}
            }
            wait = Duration::ZERO;
        }
        Ok(())
    }

    /// Pauses partitions that are full, and resumes those that have room.
    fn make_room(&mut self) -> KafkaResult<()> {
        let desk = self.desk.clone();
        self.full.retain(|place, _| desk.with(|hold| hold.is_ours(place) && !hold.has_room(place)));
        self.paused.retain(|place, _| desk.with(|hold| hold.is_ours(place)));
        let to_pause: Vec<TopicPartition> = self
            .full
            .iter()
            .filter(|(place, since)| {
                let (sending, all) = desk.with(|hold| (hold.sending(place), hold.unfinished(place)));
                since.elapsed() >= STALL || sending * 2 < all
            })
            .map(|(place, _)| place.clone())
            .collect();
        if !to_pause.is_empty() {
            self.reader.pause(&kafka::list(&to_pause))?;
            for place in to_pause {
                self.full.remove(&place);
                self.paused.insert(place, Instant::now());
            }
        }
        let may_go_on = |place: &TopicPartition, since: &Instant| {
            let is_long = since.elapsed() >= PAUSE;
            desk.with(|hold| if is_long { hold.has_room(place) } else { hold.has_much_room(place) })
        };
        let to_resume: Vec<TopicPartition> = self
            .paused
            .iter()
            .filter(|(place, since)| may_go_on(place, since))
            .map(|(place, _)| place.clone())
            .collect();
        if !to_resume.is_empty() {
            self.reader.resume(&kafka::list(&to_resume))?;
            for place in &to_resume {
                self.paused.remove(place);
            }
        }
        Ok(())
    }

    /// Finishes what is being sent, commits and leaves the group.
    fn end(self) {
        let until = Instant::now() + LAST;
        while self.desk.sending() > 0 && Instant::now() < until {
            self.desk.reports(TURN);
        }
        let sending = self.desk.sending();
        if sending > 0 {
            complain(&format!("{sending} records were being sent, and are sent again after the next start"));
        }
        self.committer.end();
        self.desk.commit_all(|commits| kafka::commit(&self.reader, commits));
        let counts = self.desk.standing().counts;
        drop(self.reader);
        note(&format!("stopped: {} republished, {} dead", counts.republished, counts.all_dead()));
    }
}

/// Commits once in a while, on a thread of its own: the loop does not wait for the answers.
struct Committer {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

impl Committer {
    fn start(reader: &Arc<Reader>, desk: &Arc<Desk>) -> Self {
        let (stop, stopped) = mpsc::channel();
        let (reader, desk) = (reader.clone(), desk.clone());
        let thread = thread::spawn(move || {
            while stopped.recv_timeout(COMMIT) == Err(RecvTimeoutError::Timeout) {
                desk.commit_all(|commits| kafka::commit(&reader, commits));
            }
        });
        Committer { stop, thread }
    }

    fn end(self) {
        drop(self.stop);
        // If it has panicked, that was said.
        let _ = self.thread.join();
    }
}

/// The table of progress, which gets a line when something has changed.
struct Progress {
    start: Instant,
    interval: Duration,
    last: Instant,
    said: [u64; 6],
    lines: u32,
}

impl Progress {
    fn new(interval: Duration) -> Self {
        let now = Instant::now();
        Progress { start: now, interval, last: now, said: [0; 6], lines: 0 }
    }

    fn look(&mut self, standing: &Standing) {
        // What is looked at each second is said a little too early rather than a second too late.
        if self.last.elapsed() + LOOK / 2 < self.interval {
            return;
        }
        self.last = Instant::now();
        let counts = &standing.counts;
        let held: usize = standing.held.iter().map(|(_, held)| held).sum();
        let [read, republished, dead, failed] =
            [counts.read, counts.republished, counts.all_dead(), counts.failed];
        let partitions = standing.partitions as u64;
        let said = [read, held as u64, republished, dead, failed, partitions];
        if said == self.said {
            return;
        }
        self.said = said;
        if self.lines.is_multiple_of(LINES) {
            note("  seconds        read      held  republished      dead    failed partitions   next due");
        }
        self.lines = self.lines.wrapping_add(1);
        let next_due = match standing.next_due {
            Some(time) => format!("{:.1} s", time.as_secs_f64()),
            None => "-".to_owned(),
        };
        let seconds = self.start.elapsed().as_secs_f64();
        note(&format!(
            "{seconds:>9.1} {read:>11} {held:>9} {republished:>12} {dead:>9} {failed:>9} {partitions:>10} {next_due:>10}"
        ));
    }
}
