//! The load: producers, consumers, idle pollers and a pair that measures wake-ups, each with a connection of its own.

use std::io;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::check::{self, Pauses, Span};
use super::client::{Client, Target};

/// Partitions that producers write to, one producer each.
pub(super) const PARTITIONS: i32 = 4;
pub(super) const ORDERS: &str = "orders";
pub(super) const QUIET: &str = "quiet";
pub(super) const PINGS: &str = "pings";

/// A produce request's timeout while a follower is paused: short, so that some expire.
const IMPATIENT: Duration = Duration::from_millis(250);
/// And else: nothing expires that a busy machine delays.
const PATIENT: Duration = Duration::from_secs(60);
/// How long a poll waits that is sure to get its data.
const LONG_POLL: Duration = Duration::from_secs(10);
/// How long the consumers may take to read what is left after the producers have stopped.
const DRAIN: Duration = Duration::from_secs(30);

/// What all tasks share.
pub(super) struct Shared {
    pub(super) address: SocketAddr,
    pub(super) stop: AtomicBool,
    pub(super) pauses: Pauses,
    /// Records that each partition's producer has sent; the consumers end there once it has stopped.
    pub(super) sent: [AtomicI64; PARTITIONS as usize],
    pub(super) writing: AtomicU64,
    pub(super) measured: Measured,
}

/// What is counted and timed.
#[derive(Default)]
pub(super) struct Measured {
    pub(super) requests: AtomicU64,
    pub(super) produced: AtomicU64,
    pub(super) consumed: AtomicU64,
    pub(super) expired_produces: AtomicU64,
    pub(super) expired_polls: AtomicU64,
    /// How late requests were answered whose time was up.
    pub(super) lateness: Mutex<Vec<Duration>>,
    /// From sending a record to the answer of the poll that was parked for it.
    pub(super) wake_ups: Mutex<Vec<Duration>>,
}

impl Measured {
    fn late(&self, lateness: Option<Duration>, count: &AtomicU64) {
        if let Some(lateness) = lateness {
            count.fetch_add(1, Ordering::Relaxed);
            self.lateness.lock().expect("nobody panics in here").push(lateness);
        }
    }
}

/// A failure of the load: a broken connection, or an answer that is wrong.
pub(crate) type Verdict = Result<(), String>;

impl Shared {
    pub(super) fn new(address: SocketAddr) -> Shared {
        Shared {
            address,
            stop: AtomicBool::new(false),
            pauses: Pauses::default(),
            sent: Default::default(),
            writing: AtomicU64::new(PARTITIONS as u64),
            measured: Measured::default(),
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    async fn connect(&self) -> Result<Client, String> {
        Client::connect(self.address).await.map_err(|error| format!("cannot connect: {error}"))
    }

    fn count_request(&self) {
        self.measured.requests.fetch_add(1, Ordering::Relaxed);
    }
}

/// Makes an error of the connection a failure of the load.
fn broken(what: &str) -> impl Fn(io::Error) -> String + '_ {
    move |error| format!("{what}: {error}")
}

fn millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}

/// Writes to one partition with acks=all, one request at a time, until the load is stopped.
pub(super) async fn produce(shared: &Shared, partition: i32) -> Verdict {
    let result = produce_until_stopped(shared, partition).await;
    shared.writing.fetch_sub(1, Ordering::Release);
    result
}

async fn produce_until_stopped(shared: &Shared, partition: i32) -> Verdict {
    let target = Target { topic: ORDERS, partition };
    let sent_so_far = &shared.sent[usize::try_from(partition).unwrap_or(0)];
    let mut client = shared.connect().await?;
    let mut next = 0;
    while !shared.is_stopped() {
        let values: Vec<_> = (next..next + 1 + next % 3).map(|number| check::value(target, number)).collect();
        let timeout = if shared.pauses.is_paused() { IMPATIENT } else { PATIENT };
        let sent = Instant::now();
        let answer = client.produce(target, &values, -1, millis(timeout)).await.map_err(broken(ORDERS))?;
        let span = Span { sent, answered: Instant::now() };
        shared.count_request();
        let late = check::produced(answer, next, span, timeout, &shared.pauses)
            .map_err(|wrong| format!("{ORDERS}-{partition}: {wrong}"))?;
        shared.measured.late(late, &shared.measured.expired_produces);
        // In the log whether it was acknowledged in time or not.
        next += values.len() as i64;
        sent_so_far.store(next, Ordering::Release);
        shared.measured.produced.fetch_add(values.len() as u64, Ordering::Relaxed);
        // Leaves the consumers time to come back, so that polls are parked.
        tokio::time::sleep(Duration::from_millis(1 + next.rem_euclid(4) as u64)).await;
    }
    Ok(())
}

/// Reads a partition from the beginning, in order, until its producer has stopped and everything was read.
pub(super) async fn consume(shared: &Shared, partition: i32, max_wait: Duration, min_bytes: i32) -> Verdict {
    let target = Target { topic: ORDERS, partition };
    let mut client = shared.connect().await?;
    let mut next = 0;
    let mut draining_since = None;
    loop {
        let at_end = shared.writing.load(Ordering::Acquire) == 0;
        let written = shared.sent[usize::try_from(partition).unwrap_or(0)].load(Ordering::Acquire);
        if at_end {
            if next == written {
                return Ok(());
            }
            if draining_since.get_or_insert_with(Instant::now).elapsed() > DRAIN {
                return Err(format!(
                    "{ORDERS}-{partition}: {written} records were sent and {next} could be read"
                ));
            }
        }
        let sent = Instant::now();
        let answer = client.fetch(target, next, millis(max_wait), min_bytes).await.map_err(broken(ORDERS))?;
        let span = Span { sent, answered: Instant::now() };
        shared.count_request();
        let late = check::polled(&answer, target, next, span, max_wait, min_bytes)
            .map_err(|wrong| format!("{ORDERS}-{partition}: {wrong}"))?;
        shared.measured.late(late, &shared.measured.expired_polls);
        next += answer.records.len() as i64;
        shared.measured.consumed.fetch_add(answer.records.len() as u64, Ordering::Relaxed);
    }
}

/// Polls a topic that nobody writes to.
pub(super) async fn idle(shared: &Shared, max_wait: Duration) -> Verdict {
    let target = Target { topic: QUIET, partition: 0 };
    let mut client = shared.connect().await?;
    while !shared.is_stopped() {
        let sent = Instant::now();
        let answer = client.fetch(target, 0, millis(max_wait), 1).await.map_err(broken(QUIET))?;
        let span = Span { sent, answered: Instant::now() };
        shared.count_request();
        let late = check::polled(&answer, target, 0, span, max_wait, 1)
            .map_err(|wrong| format!("{QUIET}: {wrong}"))?;
        shared.measured.late(late, &shared.measured.expired_polls);
    }
    Ok(())
}

/// Parks a poll, sends a record that satisfies it, and times from the sending to the poll's answer. The topic has one
/// replica, so it is the purgatory that is timed and not the followers.
pub(super) async fn ping(shared: &Shared) -> Verdict {
    let target = Target { topic: PINGS, partition: 0 };
    let (mut poller, mut writer) = (shared.connect().await?, shared.connect().await?);
    let mut next = 0;
    while !shared.is_stopped() {
        let poll = async {
            let sent = Instant::now();
            let answer = poller.fetch(target, next, millis(LONG_POLL), 1).await.map_err(broken(PINGS))?;
            Ok::<_, String>((answer, Span { sent, answered: Instant::now() }))
        };
        let write = async {
            // Until the poll is parked.
            tokio::time::sleep(Duration::from_millis(10)).await;
            let sent = Instant::now();
            let value = [check::value(target, next)];
            let answer = writer.produce(target, &value, 1, millis(PATIENT)).await.map_err(broken(PINGS))?;
            Ok::<_, String>((answer, sent))
        };
        let ((answer, span), (written, sent)) = tokio::try_join!(poll, write)?;
        shared.count_request();
        shared.count_request();
        if written != (0, next) {
            return Err(format!("{PINGS}: record {next} was answered with {written:?}"));
        }
        let late = check::polled(&answer, target, next, span, LONG_POLL, 1);
        if late.map_err(|wrong| format!("{PINGS}: {wrong}"))?.is_some() {
            return Err(format!("{PINGS}: the poll for record {next} slept through it"));
        }
        let wake_up = span.answered.saturating_duration_since(sent);
        shared.measured.wake_ups.lock().expect("nobody panics in here").push(wake_up);
        next += 1;
    }
    Ok(())
}
