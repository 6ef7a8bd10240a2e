//! Producers with acks=all and two followers in processes of their own, one of which is killed while the other is stopped, in
//! turn. In the end everything is read back: what was acknowledged must be there, once and in order.

mod check;
mod producer;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio::task::JoinSet;

use self::check::ReadBack;
use self::producer::{Counts, Producer};
use super::process::{Process, Served, free_address, words};
use super::table::Table;
use crate::demo::Verdict;

/// Topics: the first needs one of the two followers, the second both.
const TOPICS: [(&str, &str); 2] = [("two", "2"), ("three", "3")];
const PARTITIONS: i32 = 3;
/// How long the leader puts up with a follower that lags.
const LAG: Duration = Duration::from_millis(600);
/// How long a follower is away: so long that it is out of sync, or not.
const AWAY: [Duration; 2] = [Duration::from_millis(1300), Duration::from_millis(450)];
/// How long all is well in between.
const WELL: Duration = Duration::from_millis(300);

/// How many producers there are, and how often each follower goes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) producers: usize,
    pub(crate) rounds: u32,
}

/// A time in which one follower was not there.
#[derive(Clone, Copy, Debug)]
struct Absence {
    from: Instant,
    until: Instant,
}

/// A follower's process, and what it takes to start it again.
struct Follower {
    args: Vec<String>,
    process: Process,
}

impl Follower {
    fn start(leader: SocketAddr, node: usize, listen: SocketAddr) -> Result<Follower, String> {
        let line = format!(
            "follow --leader {leader} --node {node} --listen {listen} --replica-fetch-wait-ms {}",
            LAG.as_millis() / 4
        );
        let args = words(&line);
        Ok(Follower { process: Follower::run(&args)?, args })
    }

    fn run(args: &[String]) -> Result<Process, String> {
        // The warning, and whom it follows.
        let (process, said) = Process::start(args, 2)?;
        if said.contains("following ") {
            Ok(process)
        } else {
            Err(format!("a follower did not start: {said}"))
        }
    }

    /// Kills it, and starts it anew, with nothing.
    async fn kill(self, away: Duration) -> Result<(Follower, Absence), String> {
        let Follower { args, process } = self;
        drop(process);
        let from = Instant::now();
        tokio::time::sleep(away).await;
        let until = Instant::now();
        Ok((Follower { process: Follower::run(&args)?, args }, Absence { from, until }))
    }

    /// Stops it, and lets it go on with all that it had.
    async fn stop(&self, away: Duration) -> Result<Absence, String> {
        self.process.signal(Signal::STOP)?;
        tokio::time::sleep(away / 8).await;
        // From here on it has stopped for sure.
        let from = Instant::now();
        tokio::time::sleep(away).await;
        let until = Instant::now();
        self.process.signal(Signal::CONT)?;
        Ok(Absence { from, until })
    }
}

/// Lets producers write while followers come and go, until all rounds are over.
///
/// # Errors
///
/// Says what was wrong: an answer that is none of those that a producer must expect, or records that are missing, twice or
/// out of order.
pub(super) async fn run(shape: Shape) -> Verdict {
    let listen = [free_address()?, free_address()?];
    let [second, third] = listen;
    let served = Served::start(&format!(
        "--follower {second} --follower {third} --replica-lag-time-max-ms {} --replica-fetch-wait-ms {}",
        LAG.as_millis(),
        LAG.as_millis() / 4
    ))?;
    let mut followers = Vec::new();
    for (node, listen) in (2..).zip(listen) {
        followers.push(Follower::start(served.address, node, listen)?);
    }
    let mut admin = served.connect().await?;
    for (topic, in_sync) in TOPICS {
        let settings = [("min.insync.replicas", in_sync)];
        let created = admin.create_with(topic, PARTITIONS, 3, &settings).await;
        created.map_err(|error| format!("creating a topic: {error}"))?;
    }

    let stop = Arc::new(AtomicBool::new(false));
    let mut producers = JoinSet::new();
    for number in 0..shape.producers {
        let producer = Producer::new(number, served.address, stop.clone());
        producers.spawn(producer.produce());
    }
    let faults = make_faults(shape, &served, followers).await;
    stop.store(true, Ordering::Relaxed);
    let mut produced = Vec::new();
    while let Some(ended) = producers.join_next().await {
        produced.push(ended.map_err(|error| format!("a producer failed: {error}"))??);
    }
    let (followers, absences) = faults?;
    served.reach(|now| now.isr == 3 && now.behind == 0, "all followers have everything").await?;

    let mut acknowledged = Vec::new();
    let mut counts = [Counts::default(), Counts::default()];
    for (batches, of_topics) in produced {
        acknowledged.extend(batches);
        for (sum, counted) in counts.iter_mut().zip(of_topics) {
            sum.add(counted);
        }
    }
    check::acknowledged_by_all(&acknowledged, TOPICS[1].0, &absences)?;
    let read = check::read_back(&mut admin, &acknowledged).await?;
    drop(followers);
    super::say(&table(shape, counts, read))?;
    for (counts, (topic, _)) in counts.iter().zip(TOPICS) {
        counts.check().map_err(|wrong| format!("topic {topic}: {wrong}"))?;
    }
    read.check()
}

/// One follower is killed, then the other is stopped; the next time the other way round.
async fn make_faults(
    shape: Shape,
    served: &Served,
    mut followers: Vec<Follower>,
) -> Result<(Vec<Follower>, Vec<Absence>), String> {
    let mut absences = Vec::new();
    let all_well = || served.reach(|now| now.isr == 3, "all followers are in sync");
    for round in 0..shape.rounds as usize {
        tokio::time::sleep(WELL).await;
        followers.rotate_left(1);
        let killed = followers.remove(0);
        // The very first is away for long, so that the shortest run has all answers.
        let (follower, absence) = killed.kill(AWAY[round % AWAY.len()]).await?;
        followers.push(follower);
        absences.push(absence);
        all_well().await?;
        tokio::time::sleep(WELL).await;
        absences.push(followers[0].stop(AWAY[(round + 1) % AWAY.len()]).await?);
        all_well().await?;
    }
    tokio::time::sleep(WELL).await;
    Ok((followers, absences))
}

fn table(shape: Shape, counts: [Counts; 2], read: ReadBack) -> String {
    let Shape { producers, rounds } = shape;
    let mut table = Table::new(format!(
        "{producers} producers with acks=all; a follower is killed and one stopped, {rounds} times each"
    ));
    table.gap();
    table.text(format!("{:<44}{:>10}{:>10}", "needs in sync", "2 of 3", "3 of 3"));
    type Count = fn(&Counts) -> u64;
    let rows: [(&str, Count); 8] = [
        ("batches sent", |counts| counts.batches),
        ("batches acknowledged", |counts| counts.acknowledged),
        ("requests", Counts::requests),
        ("  sent again", |counts| counts.again),
        ("  answered 7, not replicated in time", |counts| counts.timed_out),
        ("  answered 19, too few in sync", |counts| counts.too_few),
        ("  answered 20, too few in sync by then", |counts| counts.too_few_after),
        ("  hung up on, and sent again elsewhere", |counts| counts.hung_up),
    ];
    for (name, count) in rows {
        let [two, three] = &counts;
        table.text(format!("{name:<44}{:>10}{:>10}", count(two), count(three)));
    }
    table.gap();
    let [two, three] = counts.map(|counts| counts.longest.as_millis());
    table.text(format!("{:<44}{two:>10}{three:>10}", "longest until acknowledged, ms"));
    table.gap();
    let ReadBack { records, lost, twice } = read;
    table.text(format!("{records} records read back: {lost} lost, {twice} twice, all others in order"));
    table.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_figure_and_lines_up() {
        let counts = Counts {
            batches: 101,
            acknowledged: 102,
            again: 103,
            timed_out: 104,
            too_few: 105,
            too_few_after: 106,
            hung_up: 107,
            longest: Duration::from_millis(108),
        };
        let read = ReadBack { records: 109, lost: 110, twice: 111 };
        let table = table(Shape { producers: 4, rounds: 5 }, [counts, Counts::default()], read);
        for number in 101..=111 {
            assert!(table.contains(&number.to_string()), "{number} in\n{table}");
        }
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    }
}
