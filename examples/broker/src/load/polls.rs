//! Many polls that wait at once, at a broker in a process of its own: what each takes, and when it is answered.

use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::task::JoinSet;

use super::process::{Served, Standing, need_files};
use super::table::{Table, percent};
use crate::demo::Verdict;
use crate::demo::check::{Span, lateness};
use crate::demo::client::{Client, Target};

const TOPIC: &str = "polls";
/// Partitions that get a record while all wait.
const WOKEN: i32 = 5;

/// How many polls wait, where and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) polls: usize,
    pub(crate) partitions: i32,
    pub(crate) wait: Duration,
    pub(crate) replicas: u16,
}

impl Shape {
    fn target(self, number: usize) -> Target {
        let partition = i32::try_from(number % self.partitions as usize).unwrap_or(0);
        Target { topic: TOPIC, partition }
    }

    fn woken(self) -> i32 {
        self.partitions.min(WOKEN)
    }

    fn wait_ms(self) -> i32 {
        i32::try_from(self.wait.as_millis()).unwrap_or(i32::MAX)
    }
}

/// A poll that has been answered.
struct Answered {
    number: usize,
    span: Span,
    error: i16,
    records: usize,
}

/// The polls of one round.
type Polls = JoinSet<Result<(Client, Answered), String>>;

/// What was measured.
struct Figures {
    /// Bytes that are resident: with nobody there, all connected, all waiting, and waiting for the second time.
    memory: [u64; 4],
    /// The CPU time that the broker took while all waited, and how long that was.
    idle: (Duration, Duration),
    wake_ups: Vec<Duration>,
    lateness: Vec<Duration>,
    /// The same of polls that were all sent at once, and how long it took until all of them waited.
    burst: (Vec<Duration>, Duration),
    /// Entries in watch lists while all waited, and after all had hung up.
    watched: (u64, u64),
    /// How long it took from there on until nothing was kept of them.
    forgotten: Duration,
}

/// Starts a broker, lets all wait, wakes some, lets the others expire; lets all wait at once and expire; and lets all wait
/// again and hangs up.
///
/// # Errors
///
/// Says what was wrong: an answer, an expiry that was early, polls that were kept after they had ended.
pub(super) async fn run(shape: Shape) -> Verdict {
    need_files(shape.polls)?;
    let served = Served::start(&format!("--replicas {}", shape.replicas))?;
    let mut writer = served.connect().await?;
    writer
        .create(TOPIC, shape.partitions, -1)
        .await
        .map_err(|error| format!("creating the topic: {error}"))?;

    let empty = served.resident_at_rest().await?;
    let clients = served.connect_all(shape.polls).await?;
    let connected = served.resident_at_rest().await?;

    let begun = Instant::now();
    let polls = park(shape, clients, Round { number: 0, spread: shape.wait / 10 });
    all_wait(&served, shape).await?;
    let parked = served.resident_at_rest().await?;
    let (cpu, idle_since) = (served.cpu()?, Instant::now());
    tokio::time::sleep(shape.wait / 4).await;
    let idle = (served.cpu()? - cpu, idle_since.elapsed());
    let records = wake(shape, &mut writer, begun).await?;
    let (clients, wake_ups, lateness) = answers(shape, polls, &records).await?;
    nothing_waits(&served, shape).await?;

    let at_once = Instant::now();
    let polls = park(shape, clients, Round { number: 1, spread: Duration::ZERO });
    all_wait(&served, shape).await?;
    let all_there = at_once.elapsed();
    let (clients, _, late_together) = answers(shape, polls, &[]).await?;
    nothing_waits(&served, shape).await?;

    let begun_again = Instant::now();
    let again = park(shape, clients, Round { number: 1, spread: shape.wait / 10 });
    let waiting = all_wait(&served, shape).await?;
    let parked_again = served.resident_at_rest().await?;
    // All sockets are closed with it.
    let hung_up = Instant::now();
    drop(again);
    let left = nothing_waits(&served, shape).await?;
    let forgotten = hung_up.elapsed();
    // The last one has come later than the first, and would still wait.
    if begun_again.elapsed() >= shape.wait {
        return Err(format!("the polls that were hung up on were kept for {forgotten:?}"));
    }

    let memory = [empty, connected, parked, parked_again];
    let watched = (waiting.watched, left.watched);
    let burst = (late_together, all_there);
    super::say(&table(shape, Figures { memory, idle, wake_ups, lateness, burst, watched, forgotten }))
}

/// How all wait once.
#[derive(Clone, Copy)]
struct Round {
    /// So many records have been written to each partition that was woken.
    number: i64,
    /// For so long they are sent one after the other.
    spread: Duration,
}

/// Sends a poll on each connection.
fn park(shape: Shape, clients: Vec<Client>, round: Round) -> Polls {
    let mut polls = JoinSet::new();
    for (number, mut client) in clients.into_iter().enumerate() {
        let target = shape.target(number);
        let offset = if target.partition < shape.woken() { round.number } else { 0 };
        let pause = round.spread * number as u32 / shape.polls as u32;
        polls.spawn(async move {
            tokio::time::sleep(pause).await;
            let sent = Instant::now();
            let polled = client.fetch(target, offset, shape.wait_ms(), 1).await;
            let span = Span { sent, answered: Instant::now() };
            let polled = polled.map_err(|error| format!("poll {number}: {error}"))?;
            let (error, records) = (polled.error, polled.records.len());
            Ok((client, Answered { number, span, error, records }))
        });
    }
    polls
}

async fn all_wait(served: &Served, shape: Shape) -> Result<Standing, String> {
    served.reach(|standing| standing.parked >= shape.polls as u64, "all polls wait").await
}

/// The followers' own polls are all that is left.
async fn nothing_waits(served: &Served, shape: Shape) -> Result<Standing, String> {
    let followers = u64::from(shape.replicas) - 1;
    // Each watches every partition, and for its assignment.
    let theirs = followers * (shape.partitions as u64 + 1);
    let is_over = |standing: &Standing| standing.parked <= followers && standing.watched <= theirs;
    served.reach(is_over, "nothing waits any more").await
}

/// Writes a record to some of the partitions, one after the other. Returns when each was sent.
async fn wake(shape: Shape, writer: &mut Client, begun: Instant) -> Result<Vec<Instant>, String> {
    let mut sent = Vec::new();
    for partition in 0..shape.woken() {
        sent.push(Instant::now());
        let target = Target { topic: TOPIC, partition };
        let answer = writer.produce(target, &[Bytes::from_static(b"x")], -1, 30_000).await;
        match answer {
            Ok((0, 0)) => tokio::time::sleep(shape.wait / 100).await,
            other => return Err(format!("a record was answered with {other:?}")),
        }
    }
    if begun.elapsed() >= shape.wait {
        return Err(format!("the machine is too slow: {:?} were over before all was written", shape.wait));
    }
    Ok(sent)
}

/// Takes all answers: the clients in their order, how long each record took, and how late the others were.
async fn answers(
    shape: Shape,
    mut polls: Polls,
    records: &[Instant],
) -> Result<(Vec<Client>, Vec<Duration>, Vec<Duration>), String> {
    let (mut clients, mut wake_ups, mut late) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(ended) = polls.join_next().await {
        let (client, poll) = ended.map_err(|error| format!("a poll failed: {error}"))??;
        let partition = shape.target(poll.number).partition;
        let record = usize::try_from(partition).ok().and_then(|at| records.get(at));
        match (poll.error, poll.records, record) {
            (0, 1, Some(sent)) => wake_ups.push(poll.span.answered.duration_since(*sent)),
            (0, 0, None) => late.push(lateness(poll.span, shape.wait)?),
            (error, count, _) => {
                return Err(format!("a poll of partition {partition}: error {error}, {count} records"));
            }
        }
        clients.push((poll.number, client));
    }
    clients.sort_by_key(|(number, _)| *number);
    Ok((clients.into_iter().map(|(_, client)| client).collect(), wake_ups, late))
}

fn table(shape: Shape, figures: Figures) -> String {
    let Shape { polls, partitions, wait, replicas } = shape;
    let wait = wait.as_secs_f64();
    let mut table =
        Table::new(format!("{polls} polls of {wait} s on {partitions} partitions; nodes: {replicas}"));
    table.gap();
    let [empty, connected, parked, again] = figures.memory;
    let steps = [
        ("nobody there", empty, None),
        ("all connected", connected, Some(0)),
        ("all waiting, beyond that", parked, Some(1)),
        ("all waiting for a second time", again, Some(1)),
    ];
    table.memory(polls, &steps);
    let (cpu, time) = figures.idle;
    table.line("CPU while all wait", percent(cpu, time), "% of a core");
    table.gap();
    table.times(&mut [
        ("record sent to poll answered", figures.wake_ups),
        ("expiry after its wait", figures.lateness),
        ("expiry after its wait, all sent at once", figures.burst.0),
    ]);
    table.line("all sent at once, until all waited", figures.burst.1.as_millis(), "ms");
    table.gap();
    let (watched, left) = figures.watched;
    table.line("entries in watch lists", watched, "");
    let later = format!("  {} ms after all hung up", figures.forgotten.as_millis());
    table.line(&later, left, "");
    table.gap();
    table.text("every answer was right, none was early, and nothing is kept of those who hung up");
    table.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_figure_and_lines_up() {
        let shape = Shape { polls: 1024, partitions: 7, wait: Duration::from_millis(2500), replicas: 3 };
        let figures = Figures {
            memory: [5 << 20, 7 << 20, 10 << 20, 11 << 20],
            idle: (Duration::from_micros(12_300), Duration::from_secs(1)),
            wake_ups: vec![Duration::from_micros(4560); 12],
            lateness: vec![Duration::from_micros(7890)],
            burst: (vec![Duration::from_micros(6540)], Duration::from_millis(321)),
            watched: (1234, 16),
            forgotten: Duration::from_millis(98),
        };
        let table = table(shape, figures);
        for expected in
            ["1024 polls of 2.5 s on 7 partitions; nodes: 3", "5.0\n", "2.00", "3.00", "4.00", "1.23 %"]
        {
            assert!(table.contains(expected), "{expected} in\n{table}");
        }
        for expected in ["4.56", "7.89", "6.54", "321 ms", "1234\n", "  98 ms after all hung up", "  16\n"] {
            assert!(table.contains(expected), "{expected} in\n{table}");
        }
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    }

    #[tokio::test]
    async fn an_answer_that_is_early_or_missing_a_record_or_has_one_too_many_is_seen() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it has one");
        let shape = Shape { polls: 6, partitions: 6, wait: Duration::from_millis(100), replicas: 1 };
        let sent = Instant::now();
        let records = [sent; WOKEN as usize];
        for (number, took, error, count, is_right) in [
            (0, 5, 0, 1, true),
            (0, 100, 0, 0, false),
            (0, 5, 3, 1, false),
            (5, 100, 0, 0, true),
            (5, 99, 0, 0, false),
            (5, 100, 0, 1, false),
        ] {
            let client = Client::connect(address).await.expect("it listens");
            let span = Span { sent, answered: sent + Duration::from_millis(took) };
            let mut polls = Polls::new();
            polls.spawn(async move { Ok((client, Answered { number, span, error, records: count })) });
            let answers = answers(shape, polls, &records).await;
            assert_eq!(answers.is_ok(), is_right, "{number} {took} {error} {count}: {:?}", answers.err());
        }
    }
}
