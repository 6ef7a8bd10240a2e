//! The rows: which work, with how many timers.

use crate::contest::{Contestant, Score, contest};
use ixion_bench::each_peer;
use ixion_bench::rivals::harness::Harness;
use ixion_bench::rivals::shared::{Shared, hashed, locked_heap, locked_queue, purgatory, sleep};
use ixion_bench::rivals::{Peer, Time};
use ixion_bench::support::{Delays, Stopwatch, is_huge, is_short, is_smoke, is_wanted};
use ixion_bench::workloads::{Cycle, Turnover, Waiting, two_threads};
use std::time::Instant;

/// A row of the table.
pub(crate) struct Row {
    pub(crate) work: Work,
    pub(crate) n: usize,
    pub(crate) scores: Vec<Score>,
}

/// What is done. See [`Work::title`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Work {
    Churn,
    ChurnInTime,
    ChurnInTimeLog,
    Expire,
    ExpireLog,
    Jump,
    Burst,
    Restart,
    /// So many of a hundred are stopped.
    Turnover(usize),
    TwoThreads,
}

impl Work {
    pub(crate) fn title(self) -> String {
        match self {
            Work::Churn => "stop one, start another".to_owned(),
            Work::ChurnInTime => "the same, a ms passes every 1000".to_owned(),
            Work::ChurnInTimeLog => "the same, delays log-uniform".to_owned(),
            Work::Expire => "start all, expire all, ms by ms".to_owned(),
            Work::ExpireLog => "the same, delays log-uniform".to_owned(),
            Work::Jump => "start all, expire all, by jumps of 1 s".to_owned(),
            Work::Burst => "start all".to_owned(),
            Work::Restart => "move one".to_owned(),
            Work::Turnover(stopped) => format!("start 5 a ms, stop {stopped} %, let the rest expire"),
            Work::TwoThreads => "stop one, start another, two threads".to_owned(),
        }
    }

    fn delays(self) -> Delays {
        match self {
            Work::ChurnInTimeLog | Work::ExpireLog => Delays::log_uniform(),
            _ => Delays::uniform(),
        }
    }

    fn time(self) -> Time {
        match self {
            Work::Churn | Work::Burst | Work::Restart | Work::TwoThreads => Time::Real,
            _ => Time::ByHand,
        }
    }

    /// A contestant that does this work with `n` timers.
    fn contestant<P: Peer + 'static>(self, n: usize) -> Contestant {
        match self {
            Work::Churn => self.waiting::<P>(n, Waiting::replace),
            Work::ChurnInTime | Work::ChurnInTimeLog => self.waiting::<P>(n, Waiting::replace_in_time),
            Work::Restart => self.waiting::<P>(n, Waiting::restart),
            Work::Expire | Work::ExpireLog => self.expiring::<P>(n, 1),
            Work::Jump => self.expiring::<P>(n, 1000),
            Work::Burst => {
                let mut cycle = Cycle::<P>::new(n, self.delays(), self.time());
                Contestant::new(P::NAME, move || cycle.burst().as_nanos() as f64 / n as f64)
            }
            Work::Turnover(stopped) => turning_over::<P>(stopped),
            Work::TwoThreads => unreachable!("it has rivals of its own"),
        }
    }

    fn waiting<P: Peer + 'static>(self, n: usize, work: fn(&mut Waiting<P>, u64)) -> Contestant {
        let mut waiting = Waiting::<P>::new(n, self.delays(), self.time());
        let times = match n {
            _ if is_smoke() => 1000,
            // As many as there are timers, so that what is done now and then is done in each round.
            _ if !is_short() || n < 1_000_000 => n.max(200_000),
            _ => n / 3,
        } as u64;
        Contestant::new(P::NAME, move || nanoseconds(times, || work(&mut waiting, times)))
    }

    fn expiring<P: Peer + 'static>(self, n: usize, step: u64) -> Contestant {
        let mut cycle = Cycle::<P>::new(n, self.delays(), self.time());
        Contestant::new(P::NAME, move || nanoseconds(n as u64, || cycle.expire(step)))
    }

    fn rounds(n: usize) -> usize {
        match (is_smoke(), is_short()) {
            (true, _) => 1,
            _ if n >= 10_000_000 => 1,
            (_, true) if n >= 1_000_000 => 2,
            (_, true) => 3,
            _ if n >= 1_000_000 => 3,
            _ => 9,
        }
    }

    fn contestants(self, n: usize) -> Vec<Contestant> {
        if self == Work::TwoThreads {
            return vec![
                sharing::<purgatory::Timers>(n),
                sharing::<sleep::Sleeps>(n),
                sharing::<locked_queue::LockedQueue>(n),
                sharing::<hashed::HashedThread>(n),
                sharing::<locked_heap::LockedHeap>(n),
            ];
        }
        let peers = each_peer!(contestant(self, n));
        peers.into_iter().chain([self.contestant::<Harness>(n)]).collect()
    }

    pub(crate) fn run(self, n: usize) -> Row {
        let start = Instant::now();
        let scores = contest(self.contestants(n), Work::rounds(n));
        eprintln!("{:.1} s: {}, {n}", start.elapsed().as_secs_f64(), self.title());
        Row { work: self, n, scores }
    }
}

fn contestant<P: Peer + 'static>(work: Work, n: usize) -> Contestant {
    work.contestant::<P>(n)
}

fn sharing<S: Shared>(n: usize) -> Contestant {
    let pairs = if is_smoke() { 1000 } else { n.max(200_000) };
    Contestant::new(S::NAME, move || two_threads::<S>(n, pairs))
}

/// The rate is such that 150 000 wait if none is stopped.
fn turning_over<P: Peer + 'static>(stopped: usize) -> Contestant {
    const RATE: u64 = 5;
    let mut turnover = Turnover::<P>::new(RATE, stopped, Delays::uniform());
    let mut is_full = false;
    Contestant::new(P::NAME, move || {
        let milliseconds = match (is_smoke(), is_full) {
            (true, _) => 100,
            // The first round goes on until as many end as are started.
            (_, false) => 60_000,
            _ => 5_000,
        };
        is_full = true;
        nanoseconds(RATE * milliseconds, || turnover.run(milliseconds))
    })
}

/// What one of `times` takes.
fn nanoseconds(times: u64, work: impl FnOnce()) -> f64 {
    let watch = Stopwatch::start();
    work();
    watch.elapsed().as_nanos() as f64 / times as f64
}

/// Which rows a run has.
pub(crate) fn plan() -> Vec<(Work, usize)> {
    use Work::*;
    const K: usize = 1000;
    const M: usize = 1_000_000;
    if is_smoke() {
        let all = [Churn, TwoThreads, Burst, Restart, ChurnInTime, ChurnInTimeLog, Expire, ExpireLog, Jump];
        return all.into_iter().map(|work| (work, K)).chain([(Turnover(90), 0)]).collect();
    }
    // tokio's clock that is moved by hand comes last: once there was one, reading the time is dearer in the whole process.
    let mut plan = vec![];
    let mut add = |work, sizes: &[usize]| plan.extend(sizes.iter().map(|n| (work, *n)));
    if is_short() {
        add(Churn, &[10 * K, 100 * K, M]);
        add(TwoThreads, &[20 * K]);
        add(Burst, &[M]);
        add(Restart, &[M]);
        add(ChurnInTime, &[100 * K]);
        add(ChurnInTimeLog, &[100 * K]);
        add(Expire, &[10 * K, 100 * K, M]);
        add(ExpireLog, &[100 * K]);
        add(Jump, &[100 * K]);
    } else {
        add(TwoThreads, &[20 * K, M]);
        for work in [Churn, Burst, Restart, ChurnInTime, ChurnInTimeLog, Expire, ExpireLog, Jump] {
            add(work, &[10 * K, 100 * K, M]);
            if is_huge() {
                add(work, &[10 * M]);
            }
        }
    }
    plan.extend([0, 50, 90, 99].map(|stopped| (Turnover(stopped), 0)));
    plan.retain(|(work, n)| is_wanted(&format!("{}/{n}/", work.title())));
    plan
}
