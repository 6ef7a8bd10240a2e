//! How late timers are.

use ixion::{DelayedOperation, Expirer, Outcome, Purgatory, Resolution, SystemClock};
use ixion_bench::support::process::cpu_time;
use ixion_bench::support::{Random, Table, pick, quantiles};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant as TokioInstant, sleep_until};
use tokio_util::time::DelayQueue;

/// In all, five timers are due in a millisecond.
fn timers() -> u64 {
    pick(250, 2_500, 10_000)
}

pub(crate) fn run() {
    let mut table = Table::new(["place", "least us", "p50", "p99", "most", "CPU ms", "wake-ups"]);
    let sleep = |runtime: fn() -> Runtime| move |log: &Arc<Log>| on_sleeps(&runtime(), log);
    let millisecond = Duration::from_millis(1);
    row(&mut table, "ixion, 1 ms", true, |log| on_ixion(millisecond, log));
    row(&mut table, "ixion, 64 us", true, |log| on_ixion(Duration::from_micros(64), log));
    row(&mut table, "tokio sleep, one thread", false, sleep(one_thread));
    row(&mut table, "tokio sleep, two threads", false, sleep(two_threads));
    row(&mut table, "DelayQueue", false, on_queue);
    println!("\n### Lateness of {} timers, five a millisecond\n\n{table}", timers());
}

fn row(table: &mut Table, name: &str, is_never_early: bool, run: impl FnOnce(&Arc<Log>) -> Option<u64>) {
    let log = Arc::new(Log::new());
    let cpu = cpu_time();
    let wake_ups = run(&log);
    let cpu = (cpu_time() - cpu).as_millis();
    let late = log.late();
    assert!(!is_never_early || late.iter().all(|late| *late >= 0), "never early");
    let earliest = *late.iter().min().expect("there are some");
    let mut late: Vec<u64> = late.into_iter().map(|late| late.max(0) as u64).collect();
    let [p50, p99, most] = quantiles(&mut late, [0.5, 0.99, 1.0]).map(|ns| format!("{:.0}", ns as f64 / 1e3));
    let wake_ups = wake_ups.map_or("–".to_owned(), |it| it.to_string());
    table.row([
        name.to_owned(),
        format!("{:.1}", earliest as f64 / 1e3),
        p50,
        p99,
        most,
        cpu.to_string(),
        wake_ups,
    ]);
}

/// When each timer is due, and how late it was in nanoseconds.
struct Log {
    start: Instant,
    due: Vec<Duration>,
    late: Vec<AtomicI64>,
    ended: AtomicUsize,
}

impl Log {
    fn new() -> Self {
        let (mut random, timers) = (Random::new(9), timers());
        let due: Vec<_> =
            (0..timers).map(|_| Duration::from_millis(random.below(timers as usize / 5) as u64)).collect();
        let late = due.iter().map(|_| AtomicI64::new(i64::MIN)).collect();
        // Time to set them all first; and half a millisecond, which is how far they are from a tick on the average.
        Log { start: Instant::now() + Duration::from_micros(20_500), due, late, ended: AtomicUsize::new(0) }
    }

    fn due(&self, timer: usize) -> Instant {
        self.start + self.due[timer]
    }

    fn timers(&self) -> std::ops::Range<usize> {
        0..self.due.len()
    }

    fn fired(&self, timer: usize) {
        let (now, due) = (Instant::now(), self.due(timer));
        let late = now
            .checked_duration_since(due)
            .map_or_else(|| -((due - now).as_nanos() as i64), |it| it.as_nanos() as i64);
        assert_eq!(self.late[timer].swap(late, Ordering::Relaxed), i64::MIN, "it fires once");
        self.ended.fetch_add(1, Ordering::Release);
    }

    fn wait(&self) {
        while self.ended.load(Ordering::Acquire) < self.due.len() {
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn late(&self) -> Vec<i64> {
        self.late.iter().map(|late| late.load(Ordering::Relaxed)).collect()
    }
}

struct Timer {
    log: Arc<Log>,
    number: usize,
}

impl DelayedOperation for Timer {
    fn try_complete(&mut self) -> bool {
        false
    }

    fn on_complete(self, outcome: Outcome) {
        assert_eq!(outcome, Outcome::Expired);
        self.log.fired(self.number);
    }
}

fn on_ixion(tick: Duration, log: &Arc<Log>) -> Option<u64> {
    let clock = SystemClock::with_resolution(Resolution::new(tick));
    let purgatory: Purgatory<u64, Timer> = Purgatory::builder("late").clock(clock).build();
    let expirer = Expirer::spawn("expirer").expect("a thread");
    expirer.drive(&purgatory);
    for number in log.timers() {
        let timer = Timer { log: Arc::clone(log), number };
        let timeout = log.due(number).saturating_duration_since(Instant::now());
        let _ = purgatory.try_complete_else_watch(timer, timeout, []).expect("open");
    }
    log.wait();
    assert!(purgatory.is_empty() && purgatory.stats().balances());
    Some(expirer.wake_ups())
}

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_time().build().expect("a runtime")
}

fn two_threads() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_time().build().expect("a runtime")
}

fn on_sleeps(runtime: &Runtime, log: &Arc<Log>) -> Option<u64> {
    runtime.block_on(async {
        let tasks: Vec<_> = log
            .timers()
            .map(|timer| {
                let log = Arc::clone(log);
                tokio::spawn(async move {
                    sleep_until(TokioInstant::from_std(log.due(timer))).await;
                    log.fired(timer);
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("it does not panic");
        }
    });
    None
}

fn on_queue(log: &Arc<Log>) -> Option<u64> {
    one_thread().block_on(async {
        let mut queue = DelayQueue::new();
        for timer in log.timers() {
            queue.insert_at(timer, TokioInstant::from_std(log.due(timer)));
        }
        while let Some(expired) = poll_fn(|context| queue.poll_expired(context)).await {
            log.fired(expired.into_inner());
        }
    });
    None
}
