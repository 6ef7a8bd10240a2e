//! Many members of groups that beat, at a broker in a process of its own: what each takes, how fast they are served, and when
//! one is evicted that has fallen silent.

mod member;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;

use self::member::Member;
use super::process::{PATIENCE, Served, need_files};
use super::table::{Table, percent, rate};
use crate::demo::Verdict;
use crate::demo::client::Client;

/// How long an empty group waits for more members: not for ever, since it is joins that are counted.
const INITIAL_DELAY: Duration = Duration::from_millis(200);
/// Heartbeats in a session: enough that nobody is evicted whom a busy machine delays.
const BEATS_IN_SESSION: u32 = 3;
/// How long members beat without a pause.
const RUSH: Duration = Duration::from_secs(2);

/// How many members there are, in how many groups, and how long nothing may be heard of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) groups: usize,
    pub(crate) group_size: usize,
    pub(crate) session: Duration,
}

impl Shape {
    fn members(self) -> usize {
        self.groups * self.group_size
    }

    fn beat(self) -> Duration {
        self.session / BEATS_IN_SESSION
    }
}

/// What the members are to do, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Beat,
    /// The last of each group is heard no more; the first makes the group wait for it.
    Silence,
    /// Beat without a pause.
    Rush,
    /// Half the groups leave, the others hang up.
    End,
}

/// What all members share.
struct Shared {
    shape: Shape,
    phase: watch::Sender<Phase>,
    /// Members that have joined and synchronized; and once more, after one was evicted.
    joined: AtomicU64,
    regrouped: AtomicU64,
    beats: AtomicU64,
    /// When the silent member of each group has sent its last heartbeat.
    last_beats: Vec<OnceLock<Instant>>,
    /// When the last request of a group was sent that waits for the eviction of the silent one.
    last_joins: Mutex<Vec<Option<Instant>>>,
    measured: Mutex<Measured>,
}

#[derive(Default)]
struct Measured {
    beats: Vec<Duration>,
    /// Of each group, when those who waited for it were answered, since the last heartbeat.
    evictions: Vec<(usize, Duration)>,
}

impl Shared {
    fn new(shape: Shape) -> Shared {
        Shared {
            shape,
            phase: watch::Sender::new(Phase::Beat),
            joined: AtomicU64::new(0),
            regrouped: AtomicU64::new(0),
            beats: AtomicU64::new(0),
            last_beats: (0..shape.groups).map(|_| OnceLock::new()).collect(),
            last_joins: Mutex::new(vec![None; shape.groups]),
            measured: Mutex::default(),
        }
    }

    /// How late each group was told of the eviction, if all others waited for it by then.
    fn lateness(&self) -> Vec<Duration> {
        let (measured, last_joins) = (self.measured.lock(), self.last_joins.lock());
        let (measured, last_joins) = (measured.expect("nobody panics"), last_joins.expect("nobody panics"));
        let all_waited = |group: &usize| {
            let due = self.last_beats[*group].get().map(|sent| *sent + self.shape.session);
            last_joins[*group] < due
        };
        let waited = measured.evictions.iter().filter(|(group, _)| all_waited(group));
        waited.map(|(_, after)| after.saturating_sub(self.shape.session)).collect()
    }
}

/// What was measured.
struct Figures {
    /// Bytes that are resident: with nobody there, all connected, all members.
    memory: [u64; 3],
    join_time: Duration,
    /// Heartbeats, in how much time, and the CPU time of the broker: in step, and without a pause.
    steady: (u64, Duration, Duration),
    rush: (u64, Duration, Duration),
    beats: Vec<Duration>,
    evictions: Vec<Duration>,
    /// How long after all had left or hung up nothing was kept of them.
    forgotten: Duration,
}

/// Starts a broker, lets all join and beat, lets one of each group fall silent, lets all others beat without a pause, and
/// leaves or hangs up.
///
/// # Errors
///
/// Says what was wrong: an answer, an eviction that was early or of somebody who was heard, something that was kept.
pub(super) async fn run(shape: Shape) -> Verdict {
    need_files(shape.members())?;
    let served = Served::start(&format!(
        "--replicas 1 --max-groups {} --max-members {} --group-min-session-timeout-ms {} \
         --group-initial-rebalance-delay-ms {}",
        shape.groups,
        shape.members(),
        shape.session.as_millis(),
        INITIAL_DELAY.as_millis()
    ))?;
    let empty = served.resident_at_rest().await?;
    let clients = served.connect_all(shape.members()).await?;
    let connected = served.resident_at_rest().await?;

    let shared = Arc::new(Shared::new(shape));
    let mut tasks = JoinSet::new();
    let begun = Instant::now();
    start_members(&shared, clients, &mut tasks);
    reach(&mut tasks, &shared.joined, shape.members()).await?;
    let join_time = begun.elapsed();
    let members = served.resident_at_rest().await?;

    let steady = count(&served, &shared, &mut tasks, shape.session).await?;
    shared.phase.send_replace(Phase::Silence);
    let left = shape.members() - shape.groups;
    reach(&mut tasks, &shared.regrouped, left).await?;
    let standing = served.standing().await?;
    if standing.members != left as u64 {
        return Err(format!("{left} members are left, but the broker has {}", standing.members));
    }
    shared.phase.send_replace(Phase::Rush);
    let rush = count(&served, &shared, &mut tasks, RUSH.min(shape.session)).await?;

    shared.phase.send_replace(Phase::End);
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(|error| format!("a member failed: {error}"))??;
    }
    let ended = Instant::now();
    served
        .reach(|left| left.groups + left.members + left.held_for_groups == 0, "nothing is kept of groups")
        .await?;
    let evictions = shared.lateness();
    if evictions.is_empty() {
        return Err("the machine is too slow: no group was complete before its silent member was due".into());
    }
    let beats = std::mem::take(&mut shared.measured.lock().expect("nobody panics").beats);
    let memory = [empty, connected, members];
    let forgotten = ended.elapsed();
    super::say(&table(shape, Figures { memory, join_time, steady, rush, beats, evictions, forgotten }))
}

fn start_members(shared: &Arc<Shared>, clients: Vec<Client>, tasks: &mut JoinSet<Verdict>) {
    for (at, client) in clients.into_iter().enumerate() {
        let size = shared.shape.group_size;
        let member = Member::new(shared.clone(), at / size, at % size, client);
        tasks.spawn(member.live());
    }
}

/// Waits until so many have come to a point, or one has failed.
async fn reach(tasks: &mut JoinSet<Verdict>, count: &AtomicU64, many: usize) -> Verdict {
    let begun = Instant::now();
    while count.load(Ordering::Relaxed) < many as u64 {
        let now = count.load(Ordering::Relaxed);
        if begun.elapsed() > PATIENCE {
            return Err(format!("after {PATIENCE:?} {now} of {many} members have joined"));
        }
        fail_early(tasks, Duration::from_millis(5)).await?;
    }
    Ok(())
}

/// Lets members live for a while. None of them ends by itself, unless it fails.
async fn fail_early(tasks: &mut JoinSet<Verdict>, time: Duration) -> Verdict {
    match tokio::time::timeout(time, tasks.join_next()).await {
        Err(_) | Ok(None) => Ok(()),
        Ok(Some(ended)) => ended.map_err(|error| format!("a member failed: {error}"))?,
    }
}

/// Counts heartbeats for a while, and the CPU time that the broker takes.
async fn count(
    served: &Served,
    shared: &Shared,
    tasks: &mut JoinSet<Verdict>,
    time: Duration,
) -> Result<(u64, Duration, Duration), String> {
    let (beats, cpu, begun) = (shared.beats.load(Ordering::Relaxed), served.cpu()?, Instant::now());
    fail_early(tasks, time).await?;
    Ok((shared.beats.load(Ordering::Relaxed) - beats, begun.elapsed(), served.cpu()? - cpu))
}

fn table(shape: Shape, figures: Figures) -> String {
    let (session, beat) = (shape.session.as_secs_f64(), shape.beat().as_secs_f64());
    let mut table = Table::new(format!(
        "{} members in {} groups; sessions of {session} s, a heartbeat every {beat:.1} s",
        shape.members(),
        shape.groups
    ));
    table.gap();
    let [empty, connected, members] = figures.memory;
    let steps = [
        ("nobody there", empty, None),
        ("all connected", connected, Some(0)),
        ("all in their groups, beyond that", members, Some(1)),
    ];
    table.memory(shape.members(), &steps);
    table.gap();
    table.line("members that join", rate(shape.members() as u64, figures.join_time), "a second");
    for (name, (beats, time, cpu)) in
        [("heartbeats in step", figures.steady), ("heartbeats without a pause", figures.rush)]
    {
        table.line(name, rate(beats, time), "a second");
        table.line("  CPU of the broker", percent(cpu, time), "% of a core");
    }
    table.gap();
    let evicted = format!("eviction after its session, of {}", figures.evictions.len());
    table.times(&mut [("heartbeat in step answered", figures.beats), (&evicted, figures.evictions)]);
    table.gap();
    let silent = shape.groups;
    table.text(format!("the {silent} that fell silent were evicted, none early, and nobody who was heard;"));
    table.text(format!(
        "nothing is kept {:.1} s after half had left and half had hung up",
        figures.forgotten.as_secs_f64()
    ));
    table.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_figure_and_lines_up() {
        let shape = Shape { groups: 1000, group_size: 10, session: Duration::from_secs(6) };
        let second = Duration::from_secs(1);
        let figures = Figures {
            memory: [1 << 20, 2 << 20, 22 << 20],
            join_time: 2 * second,
            steady: (5678, second, Duration::from_millis(123)),
            rush: (98765, second, second),
            beats: vec![Duration::from_micros(340)],
            evictions: vec![Duration::from_micros(1210); 999],
            forgotten: 6 * second,
        };
        let table = table(shape, figures);
        for expected in
            ["10000 members in 1000 groups", " 2.05", "5000 a second", "5678 a", "12.30 %", "98765 a"]
        {
            assert!(table.contains(expected), "{expected} in\n{table}");
        }
        for expected in ["0.34", "1.21", "of 999", "kept 6.0 s"] {
            assert!(table.contains(expected), "{expected} in\n{table}");
        }
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    }

    #[test]
    fn only_groups_that_were_complete_in_time_say_how_late_an_eviction_is() {
        let session = Duration::from_secs(6);
        let shared = Shared::new(Shape { groups: 2, group_size: 3, session });
        let now = Instant::now();
        for group in 0..2 {
            shared.last_beats[group].set(now).expect("it is the first");
        }
        *shared.last_joins.lock().unwrap() = vec![Some(now + session / 2), Some(now + session)];
        let evictions = vec![(0, session + Duration::from_millis(3)), (1, 2 * session)];
        shared.measured.lock().unwrap().evictions = evictions;
        assert_eq!(shared.lateness(), [Duration::from_millis(3)]);
    }
}
