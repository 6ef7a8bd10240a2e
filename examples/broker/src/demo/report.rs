//! What the demo shows of its load: how it goes, and figures at the end.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ixion_broker::{PurgatoryStats, Stats};

use super::load::Shared;
use super::usage::Usage;

/// The columns for the name of a row and for each figure, so that a narrow terminal has room for them.
const COLUMNS: (usize, usize) = (26, 8);

/// How it goes, in a line.
pub(super) fn progress(elapsed: Duration, now: &str, shared: &Shared, stats: &Stats) -> String {
    let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let measured = &shared.measured;
    format!(
        "{:6.1} s  {now} | {} requests wait, {} records written, {} read",
        elapsed.as_secs_f64(),
        stats.parked,
        count(&measured.produced),
        count(&measured.consumed),
    )
}

/// The figures of the load.
pub(super) fn figures(shared: &Shared, stats: &Stats, elapsed: Duration, usage: Option<Usage>) -> String {
    let (name, column) = COLUMNS;
    let mut out = books(stats);
    let mut lateness = shared.measured.lateness.lock().expect("nobody panics in here").clone();
    let mut wake_ups = shared.measured.wake_ups.lock().expect("nobody panics in here").clone();
    let _ = writeln!(out);
    let _ = writeln!(
        out,
        "{:<name$}{:>column$}{:>column$}{:>column$}",
        "ms, as a client sees them", "p50", "p99", "max"
    );
    let _ = writeln!(out, "{}", row("  expiry after its timeout", COLUMNS, &mut lateness));
    let _ = writeln!(out, "{}", row("  record to poll's answer", COLUMNS, &mut wake_ups));
    let _ = writeln!(out);
    let requests = shared.measured.requests.load(Ordering::Relaxed) as f64 / elapsed.as_secs_f64();
    let _ = writeln!(out, "{:<name$}{requests:>column$.0} a second", "client requests");
    match usage {
        Some(usage) => {
            let percent = 100.0 * usage.cpu.as_secs_f64() / elapsed.as_secs_f64();
            let _ = writeln!(out, "{:<name$}{percent:>column$.1} % of a core", "CPU, load and broker");
            let resident = usage.resident as f64 / 1_048_576.0;
            let _ = writeln!(out, "{:<name$}{resident:>column$.1} MiB resident", "memory");
        }
        None => {
            let _ = writeln!(out, "{:<name$}{:>column$}", "CPU, memory", "n/a");
        }
    }
    out
}

/// How the operations of each purgatory have ended.
fn books(stats: &Stats) -> String {
    let mut out =
        format!("{:<14}{:>10}{:>11}{:>9}{:>6}\n", "purgatory", "registered", "satisfied", "expired", "else");
    for (name, books) in purgatories(stats) {
        let PurgatoryStats { registered, satisfied, expired, .. } = *books;
        let other = books.forced + books.cancelled + books.shut_down + books.panicked + books.pending;
        let _ = writeln!(out, "  {name:<14}{registered:>8}{satisfied:>11}{expired:>9}{other:>6}");
    }
    out
}

/// The books of all purgatories of requests.
pub(super) fn purgatories(stats: &Stats) -> [(&'static str, &PurgatoryStats); 6] {
    [
        ("Produce", &stats.produce),
        ("Fetch", &stats.fetch),
        ("DeleteRecords", &stats.delete_records),
        ("Topic", &stats.topic),
        ("Rebalance", &stats.rebalance),
        ("Heartbeat", &stats.heartbeat),
    ]
}

/// A row of percentiles in milliseconds: the columns for its name, and for each.
pub(crate) fn row(name: &str, (width, column): (usize, usize), samples: &mut [Duration]) -> String {
    samples.sort_unstable();
    let at = |share: f64| match percentile(samples, share) {
        Some(sample) => format!("{:.2}", sample.as_secs_f64() * 1000.0),
        None => "-".to_owned(),
    };
    format!("{name:<width$}{:>column$}{:>column$}{:>column$}", at(0.5), at(0.99), at(1.0))
}

/// The smallest sample that is not below this share of all.
fn percentile(sorted: &[Duration], share: f64) -> Option<Duration> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples_by_nearest_rank() {
        let samples: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        let at = |share| percentile(&samples, share).map(|sample| sample.as_millis());
        assert_eq!((at(0.5), at(0.99), at(1.0)), (Some(100), Some(198), Some(200)));
        assert_eq!(percentile(&[], 0.5), None);
        assert_eq!(percentile(&samples[..1], 0.5), Some(samples[0]));
    }

    #[test]
    fn the_figures_show_every_count_and_fit_a_narrow_terminal() {
        let shared = Shared::new(([127, 0, 0, 1], 1).into());
        shared.measured.wake_ups.lock().unwrap().push(Duration::from_micros(1230));
        let produce =
            PurgatoryStats { registered: 21, satisfied: 13, expired: 6, cancelled: 2, ..Default::default() };
        let heartbeat = PurgatoryStats { registered: 77, ..Default::default() };
        let stats = Stats { produce, heartbeat, ..Default::default() };
        let usage = Usage { cpu: Duration::from_secs(1), resident: 3 << 20 };
        let figures = figures(&shared, &stats, Duration::from_secs(2), Some(usage));
        for expected in ["Produce", " 21 ", " 13 ", " 6 ", " 2\n", " 77 ", "1.23", "50.0 %", "3.0 MiB"] {
            assert!(figures.contains(expected), "{expected} in\n{figures}");
        }
        assert!(figures.lines().all(|line| line.chars().count() <= 50), "{figures}");
    }
}
