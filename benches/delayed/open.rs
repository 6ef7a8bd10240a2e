//! The open loop.

use ixion_bench::rivals::home_made::HomeMade;
use ixion_bench::rivals::purgatories::{Driver, Place, Plain, Request, ended, forget_ended};
use ixion_bench::support::process::{cpu_time, forget_peak, memory};
use ixion_bench::support::{Random, Table, count, megabytes, pick};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(1);
const KEYS: usize = 100;
/// The latency's median in milliseconds, and the spread of its logarithm: three quarters are below 60 ms.
const MEDIAN: f64 = 20.0;
const SPREAD: f64 = 1.6288;

pub(crate) fn run() {
    let mut table = Table::new([
        "arrivals/s",
        "place",
        "arrived/s",
        "CPU us/op",
        "above the driver",
        "expired",
        "watched at most",
        "at the end",
        "wake-ups/s",
        "peak MB",
    ]);
    for rate in [20_000, 100_000] {
        let driver = measure::<Plain>(rate, false);
        for (name, figures) in [
            ("none", None),
            (Plain::NAME, Some(measure::<Plain>(rate, true))),
            (HomeMade::<Request>::NAME, Some(measure::<HomeMade<Request>>(rate, true))),
        ] {
            let it = figures.as_ref().unwrap_or(&driver);
            table.row([
                count(rate as f64),
                name.to_owned(),
                count(it.rate),
                format!("{:.2}", it.cpu),
                figures.as_ref().map_or("–".to_owned(), |it| format!("{:.2}", it.cpu - driver.cpu)),
                it.expired.to_string(),
                count(it.watched as f64),
                count(it.watched_last as f64),
                count(it.wake_ups),
                megabytes(it.peak),
            ]);
        }
    }
    println!("\n### Open loop, timeout {TIMEOUT:?}, {KEYS} keys\n\n{table}");
}

struct Figures {
    rate: f64,
    cpu: f64,
    expired: u64,
    watched: usize,
    watched_last: usize,
    wake_ups: f64,
    peak: u64,
}

fn measure<P: Place>(rate: u64, registers: bool) -> Figures {
    forget_ended();
    forget_peak();
    let before = memory().0;
    let place = Arc::new(P::new());
    let driver = place.drive();
    let (done, due) = channel();
    let completed = {
        let place = Arc::clone(&place);
        thread::spawn(move || complete(&*place, &due))
    };
    let (mut random, mut arrived, mut watched) = (Random::new(5), 0u64, 0);
    let (start, cpu) = (Instant::now(), cpu_time());
    let (mut next, end) =
        (start, start + pick(Duration::from_millis(100), Duration::from_millis(700), Duration::from_secs(6)));
    while next < end {
        if let Some(early) = next.checked_duration_since(Instant::now()) {
            // What arrives within a millisecond comes at once, so that the driver does not sleep for each.
            thread::sleep(early.max(Duration::from_millis(1)));
        }
        arrived += 1;
        let latency = Duration::from_secs_f64(MEDIAN / 1e3 * (SPREAD * normal(&mut random)).exp());
        let (_, request) = Request::new(0);
        let keys = distinct_keys(&mut random);
        let id = if registers { place.register(request, TIMEOUT, keys) } else { None };
        if latency < 2 * TIMEOUT {
            done.send((Instant::now() + latency, id)).expect("it listens");
        }
        if arrived % 1000 == 0 {
            watched = watched.max(place.watched());
        }
        next += Duration::from_secs_f64(-unit(&mut random).ln() / rate as f64);
    }
    let (spent, cpu) = (start.elapsed(), cpu_time() - cpu);
    let (watched_last, wake_ups) = (place.watched(), driver.wake_ups());
    let peak = memory().1.saturating_sub(before);
    drop(done);
    let forced = completed.join().expect("it does not panic");
    while registers && ended() < arrived {
        thread::sleep(Duration::from_millis(1));
    }
    drop(driver);
    assert_eq!(place.count(3), 0, "all have ended");
    Figures {
        rate: arrived as f64 / spent.as_secs_f64(),
        cpu: cpu.as_secs_f64() * 1e6 / arrived as f64,
        expired: ended() - forced,
        watched,
        watched_last,
        wake_ups: wake_ups as f64 / spent.as_secs_f64(),
        peak,
    }
}

/// Completes each operation by force when its latency is over. Returns how many it was in time for.
fn complete<P: Place>(place: &P, due: &Receiver<(Instant, Option<P::Id>)>) -> u64 {
    let (mut waiting, mut ids, mut forced) = (BinaryHeap::new(), Vec::new(), 0);
    let mut free: Vec<usize> = Vec::new();
    let mut is_open = true;
    while is_open || !waiting.is_empty() {
        let now = Instant::now();
        while let Some(Reverse((_, at))) = waiting.peek().copied().filter(|Reverse((due, _))| *due <= now) {
            waiting.pop();
            free.push(at);
            let id: Option<P::Id> = std::mem::take(&mut ids[at]);
            forced += u64::from(id.is_some_and(|id| place.force(&id)));
        }
        // As it is on a busy server: what has come meanwhile is taken together.
        let mut keep = |(due, id)| {
            let at = free.pop().unwrap_or_else(|| {
                ids.push(None);
                ids.len() - 1
            });
            ids[at] = id;
            waiting.push(Reverse((due, at)));
        };
        match due.recv_timeout(Duration::from_millis(1)) {
            Ok(first) => {
                keep(first);
                due.try_iter().for_each(&mut keep);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                is_open = false;
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
    forced
}

fn distinct_keys(random: &mut Random) -> [(u64, u64); 3] {
    loop {
        let keys = [0; 3].map(|_| random.below(KEYS) as u64);
        if keys[0] != keys[1] && keys[0] != keys[2] && keys[1] != keys[2] {
            return keys.map(|key| (key, 0));
        }
    }
}

/// Above 0, up to 1.
fn unit(random: &mut Random) -> f64 {
    (1 + random.below(1 << 52)) as f64 / (1u64 << 52) as f64
}

/// Box and Muller's way.
fn normal(random: &mut Random) -> f64 {
    (-2.0 * unit(random).ln()).sqrt() * (std::f64::consts::TAU * unit(random)).cos()
}
