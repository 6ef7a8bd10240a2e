//! The demo: a broker and its clients in one process, over TCP. A tour shows each kind of delayed operation once, while a
//! load goes on beside it. Every answer is checked, and at the end there is a table.

pub(crate) mod check;
pub(crate) mod client;
mod load;
mod member;
pub(crate) mod report;
mod screen;
mod seen;
mod tour;
pub(crate) mod usage;

use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ixion_broker::{Broker, Config, Stats};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use client::Client;
pub(crate) use load::Verdict;
use load::{ORDERS, PARTITIONS, PINGS, QUIET, Shared};
use screen::Screen;
use seen::Seen;
use tour::{News, Tour};
use usage::Usage;

use crate::args::WARNING;

/// The follower that is paused for a while.
const PAUSED_NODE: u16 = 3;
/// Parts of the demo's length in which the tour goes on; each thing that is seen to wait waits for one.
const BEATS: u32 = 20;
/// The longest of them: a tour is not to be tiring.
const MAX_BEAT: Duration = Duration::from_secs(1);
/// The shortest session: members on a busy machine must not be late for it.
const MIN_SESSION: Duration = Duration::from_secs(2);
/// How long the counters may take to come to a quiet point after the load.
const QUIET_POINT: Duration = Duration::from_secs(10);

/// Runs the demo for so long, or until the tour is over.
///
/// # Errors
///
/// Says what was wrong: an answer, an expiry that was early, books that don't balance, or a connection.
pub(crate) async fn run(length: Duration) -> Verdict {
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let beat = (length / BEATS).min(MAX_BEAT);
    let config = Config {
        listen: any_port,
        control: Some(any_port),
        http: Some(any_port),
        replicas: 3,
        group_initial_rebalance_delay: beat,
        group_min_session_timeout: MIN_SESSION,
        ..Config::default()
    };
    let broker = Broker::start(config).await.map_err(|error| format!("cannot start the broker: {error}"))?;
    let screen = Screen::new();
    screen.paragraph(WARNING)?;
    screen.paragraph(&format!(
        "3 nodes on {}; beside what is shown there are {PARTITIONS} producers with acks=all, {} consumers and {} idle \
         polls, for {} s",
        broker.addr(),
        2 * PARTITIONS,
        IDLE_WAITS.len(),
        length.as_secs(),
    ))?;
    if let Some(http) = broker.http_addr() {
        screen.say(&format!("live page on http://{http}/"))?;
    }
    screen.say("")?;
    create_topics(broker.addr()).await?;

    let before = Usage::read();
    let mut demo = Demo {
        shared: Arc::new(Shared::new(broker.addr())),
        control: broker.control_addr().ok_or("the broker has no control port")?,
        broker,
        screen,
        begun: Instant::now(),
        now: "",
        seen: Vec::new(),
    };
    let verdict = demo.drive(length, beat).await;
    let elapsed = demo.begun.elapsed();
    let usage = Usage::read().zip(before).map(|(now, before)| Usage { cpu: now.cpu - before.cpu, ..now });
    let Demo { shared, broker, seen, .. } = demo;
    let balanced = wait_for_balance(&broker).await;

    let stats = broker.shutdown().await;
    screen.say(&format!("\n{}", seen::table(&seen, screen)))?;
    screen.say(&report::figures(&shared, &stats, elapsed, usage))?;
    conclude(verdict, balanced, &seen, &stats, screen)
}

/// The last line, or what was wrong.
fn conclude(
    verdict: Result<Ended, String>,
    balanced: Verdict,
    seen: &[Seen],
    stats: &Stats,
    screen: Screen,
) -> Verdict {
    let ended = verdict?;
    let wrong = seen.iter().filter(|seen| !seen.is_right()).count();
    if wrong > 0 {
        return Err(format!("{wrong} of {} things that were seen are wrong", seen.len()));
    }
    balanced?;
    let all_well = "every answer was right, none was early, and the books balance";
    if ended == Ended::Interrupted {
        return screen.paragraph(&format!("interrupted; up to there {all_well}"));
    }
    for (name, books) in report::purgatories(stats) {
        check::nothing_kept(name, books)?;
    }
    check::shown("Produce", &stats.produce)?;
    check::shown("Fetch", &stats.fetch)?;
    screen.paragraph(all_well)
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
        client.create(PINGS, 1, 1).await?;
        client.create(tour::TOPIC, 1, 3).await?;
        client.create(tour::DOOMED, 1, 3).await?;
        client.create(tour::SHARED, tour::SHARED_PARTITIONS, 3).await
    };
    create.await.map_err(|error| format!("cannot create the topics: {error}"))
}

/// How the load ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    InTime,
    Interrupted,
}

/// What runs.
struct Demo {
    shared: Arc<Shared>,
    broker: Broker,
    control: SocketAddr,
    screen: Screen,
    begun: Instant,
    /// What the tour waits for now.
    now: &'static str,
    seen: Vec<Seen>,
}

impl Demo {
    /// Runs the tour and the load to their end, or to the first failure or signal.
    async fn drive(&mut self, length: Duration, beat: Duration) -> Result<Ended, String> {
        let signals = crate::Ends::listen().map_err(|error| format!("cannot listen for signals: {error}"))?;
        let mut interrupted = pin!(signals.come());
        let mut tasks = start_load(&self.shared);
        let (sender, mut news) = mpsc::unbounded_channel();
        let tour = Tour {
            shared: self.shared.clone(),
            control: self.control,
            beat,
            session: (3 * beat).max(MIN_SESSION),
            news: sender,
            written: 0,
        };
        let tour = tasks.spawn(tour.run());
        let mut show = tokio::time::interval(self.screen.interval());
        let (mut ended, mut verdict, mut is_touring) = (Ended::InTime, Ok(()), true);
        while (is_touring || self.begun.elapsed() < length) && verdict.is_ok() && ended == Ended::InTime {
            verdict = tokio::select! {
                biased;
                () = &mut interrupted => {
                    ended = Ended::Interrupted;
                    Ok(())
                }
                told = news.recv(), if is_touring => match told {
                    Some(told) => self.tell(told),
                    None => {
                        is_touring = false;
                        self.now = "the load goes on";
                        Ok(())
                    }
                },
                task = tasks.join_next() => outcome(task),
                _ = show.tick() => self.show(),
            };
        }
        tour.abort();
        // If the tour was cut short: nothing can be read to its end while a follower is away.
        if self.shared.pauses.is_paused() {
            verdict = verdict.and(tell(&self.shared, self.control, "resume").await);
        }
        self.shared.stop.store(true, Ordering::Release);
        while verdict.is_ok() && !tasks.is_empty() {
            verdict = outcome(tasks.join_next().await);
        }
        self.screen.status("").and(verdict).map(|()| ended)
    }

    fn tell(&mut self, news: News) -> Verdict {
        match news {
            News::Now(now) => {
                self.now = now;
                self.show()
            }
            News::Seen(seen) => {
                self.screen.say(&seen.line(self.begun.elapsed(), self.screen))?;
                self.seen.push(seen);
                Ok(())
            }
        }
    }

    fn show(&self) -> Verdict {
        let line = report::progress(self.begun.elapsed(), self.now, &self.shared, &self.broker.stats());
        self.screen.status(&line)
    }
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
        // The tour, at an early end.
        Some(Err(error)) if error.is_cancelled() => Ok(()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use seen::Asked;

    #[test]
    fn one_thing_that_is_wrong_fails_the_demo() {
        let now = Instant::now();
        let seen = |answer| Seen::new("it", Asked::AtOnce, now, now, answer);
        let interrupted = |seen: &[Seen]| {
            conclude(Ok(Ended::Interrupted), Ok(()), seen, &Stats::default(), Screen::plain())
        };
        assert_eq!(interrupted(&[seen(Ok(()))]), Ok(()));
        let wrong = interrupted(&[seen(Ok(())), seen(Err("error 9".to_owned()))]);
        assert_eq!(wrong, Err("1 of 2 things that were seen are wrong".to_owned()));
        let unbalanced =
            conclude(Ok(Ended::InTime), Err("books".to_owned()), &[], &Stats::default(), Screen::plain());
        assert_eq!(unbalanced, Err("books".to_owned()));
        let idle = conclude(Ok(Ended::InTime), Ok(()), &[], &Stats::default(), Screen::plain());
        assert!(idle.is_err(), "a load that has done nothing");
    }
}
