//! The demo: a broker and its load in one process, over TCP. It shows how it goes, checks every answer, and ends with a
//! table.

mod check;
mod client;
mod load;
pub(crate) mod polls;
mod report;
mod usage;

use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ixion_broker::{Broker, Config, Stats};
use tokio::task::JoinSet;

use client::Client;
use load::{ORDERS, PARTITIONS, PINGS, QUIET, Shared, Verdict};
use report::Progress;
use usage::Usage;

/// The follower that is paused for a while.
const PAUSED_NODE: u16 = 3;
/// How long the counters may take to come to a quiet point after the load.
const QUIET_POINT: Duration = Duration::from_secs(10);

/// Runs the demo for so long.
///
/// # Errors
///
/// Says what was wrong: an answer, an expiry that was early, books that don't balance, or a connection.
pub(crate) async fn run(length: Duration) -> Verdict {
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let config = Config {
        listen: any_port,
        control: Some(any_port),
        http: Some(any_port),
        replicas: 3,
        ..Config::default()
    };
    let broker = Broker::start(config).await.map_err(|error| format!("cannot start the broker: {error}"))?;
    let control = broker.control_addr().ok_or("the broker has no control port")?;
    say(&format!(
        "3 nodes on {}: {PARTITIONS} producers with acks=all, {} consumers, {} idle polls, for {} s\n",
        broker.addr(),
        2 * PARTITIONS,
        IDLE_WAITS.len(),
        length.as_secs(),
    ))?;
    if let Some(http) = broker.http_addr() {
        say(&format!("live page on http://{http}/\n"))?;
    }
    create_topics(broker.addr()).await?;

    let before = Usage::read();
    let begun = Instant::now();
    let shared = Arc::new(Shared::new(broker.addr()));
    let verdict = drive(&broker, &shared, control, begun, length).await;
    let elapsed = begun.elapsed();
    let usage = Usage::read().zip(before).map(|(now, before)| Usage { cpu: now.cpu - before.cpu, ..now });
    let balanced = wait_for_balance(&broker).await;

    let stats = broker.shutdown().await;
    say(&format!("\n{}", report::table(&shared, &stats, elapsed, usage)))?;
    let ended = verdict?;
    balanced?;
    if ended == Ended::Interrupted {
        say("interrupted; up to there every answer was right, none was early, and the books balance")?;
        return Ok(());
    }
    check::shown("Produce", &stats.produce)?;
    check::shown("Fetch", &stats.fetch)?;
    say("every answer was right, none was early, and the books balance")
}

/// Prints a line.
fn say(line: &str) -> Verdict {
    crate::say(line).map_err(|error| error.to_string())
}

/// The waits of the polls that get nothing.
const IDLE_WAITS: [Duration; 8] = {
    let mut waits = [Duration::ZERO; 8];
    let mut at = 0;
    while at < waits.len() {
        waits[at] = Duration::from_millis(60 * (at as u64 + 1));
        at += 1;
    }
    waits
};

async fn create_topics(address: SocketAddr) -> Verdict {
    let create = async {
        let mut client = Client::connect(address).await?;
        client.create(ORDERS, PARTITIONS, 3).await?;
        client.create(QUIET, 1, 3).await?;
        client.create(PINGS, 1, 1).await
    };
    create.await.map_err(|error| format!("cannot create the topics: {error}"))
}

/// How the load ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    InTime,
    Interrupted,
}

/// Runs the load to its end, or to the first failure or signal.
async fn drive(
    broker: &Broker,
    shared: &Arc<Shared>,
    control: SocketAddr,
    begun: Instant,
    length: Duration,
) -> Result<Ended, String> {
    let signals = crate::Ends::listen().map_err(|error| format!("cannot listen for signals: {error}"))?;
    let mut interrupted = pin!(signals.come());
    let mut ended = Ended::InTime;
    let mut tasks = start_load(shared);
    let progress = Progress::new();
    // The follower is away for a quarter of the time, in the middle.
    let schedule = [(length * 2 / 5, "pause"), (length * 13 / 20, "resume")];
    let mut steps = schedule.into_iter().peekable();
    let mut show = tokio::time::interval(progress.interval());
    let mut verdict = Ok(());
    while begun.elapsed() < length && verdict.is_ok() && ended == Ended::InTime {
        tokio::select! {
            () = &mut interrupted => ended = Ended::Interrupted,
            _ = show.tick() => progress.show(begun.elapsed(), shared, &broker.stats()),
            task = tasks.join_next() => verdict = outcome(task),
        }
        if let Some((_, command)) = steps.next_if(|(at, _)| *at <= begun.elapsed()) {
            verdict = verdict.and(tell(shared, control, command).await);
        }
    }
    // Whatever the schedule has left: nothing can be read to its end while a follower is away.
    if shared.pauses.is_paused() {
        verdict = verdict.and(tell(shared, control, "resume").await);
    }
    shared.stop.store(true, Ordering::Release);
    while verdict.is_ok() && !tasks.is_empty() {
        verdict = outcome(tasks.join_next().await);
    }
    progress.show(begun.elapsed(), shared, &broker.stats());
    progress.finish();
    verdict.map(|()| ended)
}

fn start_load(shared: &Arc<Shared>) -> JoinSet<Verdict> {
    let mut tasks = JoinSet::new();
    for partition in 0..PARTITIONS {
        let (writer, eager, lazy) = (shared.clone(), shared.clone(), shared.clone());
        tasks.spawn(async move { load::produce(&writer, partition).await });
        // One takes every record as it comes, the other waits for some kilobytes.
        tasks.spawn(async move { load::consume(&eager, partition, Duration::from_millis(500), 1).await });
        tasks.spawn(async move { load::consume(&lazy, partition, Duration::from_millis(300), 4_096).await });
    }
    for max_wait in IDLE_WAITS {
        let shared = shared.clone();
        tasks.spawn(async move { load::idle(&shared, max_wait).await });
    }
    let pinger = shared.clone();
    tasks.spawn(async move { load::ping(&pinger).await });
    tasks
}

fn outcome(ended: Option<Result<Verdict, tokio::task::JoinError>>) -> Verdict {
    match ended {
        None => Ok(()),
        Some(Ok(verdict)) => verdict,
        Some(Err(error)) => Err(format!("a task of the load failed: {error}")),
    }
}

/// Pauses the follower or lets it go on, through the control port.
async fn tell(shared: &Shared, control: SocketAddr, command: &str) -> Verdict {
    if command == "pause" {
        shared.pauses.begin(Instant::now());
        // From here on producers are impatient. Those who are not yet get their answer first, or they would all sit the
        // pause out and none would time out.
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let reply = client::control(control, &format!("{command} {PAUSED_NODE}")).await;
    if command == "resume" {
        shared.pauses.end(Instant::now());
    }
    match reply.as_deref() {
        Ok("ok") => Ok(()),
        other => Err(format!("the control port answered {command} with {other:?}")),
    }
}

/// The followers go on polling, so the broker is not always at a quiet point; but mostly.
async fn wait_for_balance(broker: &Broker) -> Verdict {
    let balance =
        |stats: &Stats| check::books("Produce", &stats.produce).and(check::books("Fetch", &stats.fetch));
    let begun = Instant::now();
    loop {
        let balanced = balance(&broker.stats());
        if balanced.is_ok() || begun.elapsed() > QUIET_POINT {
            return balanced;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
