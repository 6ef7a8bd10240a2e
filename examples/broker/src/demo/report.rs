//! What the demo shows: its progress, and a table at the end.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::sync::atomic::Ordering;
use std::time::Duration;

use ixion_broker::{PurgatoryStats, Stats};

use super::load::Shared;
use super::usage::Usage;

/// Shows how it goes: in place on a terminal, else a line a second.
pub(super) struct Progress {
    in_place: bool,
}

impl Progress {
    pub(super) fn new() -> Progress {
        Progress { in_place: io::stdout().is_terminal() }
    }

    /// How often [`show`](Self::show) is worth calling.
    pub(super) fn interval(&self) -> Duration {
        Duration::from_millis(if self.in_place { 100 } else { 1000 })
    }

    pub(super) fn show(&self, elapsed: Duration, shared: &Shared, stats: &Stats) {
        let measured = &shared.measured;
        let count = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        let line = format!(
            "{:5.1} s  {:>7} written  {:>8} read  {:>4} parked  expired: {:>4} produces, {:>5} polls  {}",
            elapsed.as_secs_f64(),
            count(&measured.produced),
            count(&measured.consumed),
            stats.parked,
            count(&measured.expired_produces),
            count(&measured.expired_polls),
            if shared.pauses.is_paused() { "[node 3 paused]" } else { "" },
        );
        let mut out = io::stdout().lock();
        // A closed pipe must not end the checks.
        let _ =
            if self.in_place { write!(out, "\r{line:<105}") } else { writeln!(out, "{}", line.trim_end()) };
        let _ = out.flush();
    }

    pub(super) fn finish(&self) {
        if self.in_place {
            let _ = writeln!(io::stdout());
        }
    }
}

/// The table.
pub(super) fn table(shared: &Shared, stats: &Stats, elapsed: Duration, usage: Option<Usage>) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{:<18}{:>12}{:>12}", "purgatory", "Produce", "Fetch");
    let rows: [(&str, fn(&PurgatoryStats) -> u64); 8] = [
        ("  registered", |books| books.registered),
        ("  satisfied", |books| books.satisfied),
        ("  expired", |books| books.expired),
        ("  forced", |books| books.forced),
        ("  cancelled", |books| books.cancelled),
        ("  shut down", |books| books.shut_down),
        ("  panicked", |books| books.panicked),
        ("  pending", |books| books.pending),
    ];
    for (name, value) in rows {
        let _ = writeln!(out, "{name:<18}{:>12}{:>12}", value(&stats.produce), value(&stats.fetch));
    }
    let mut lateness = shared.measured.lateness.lock().expect("nobody panics in here").clone();
    let mut wake_ups = shared.measured.wake_ups.lock().expect("nobody panics in here").clone();
    let _ = writeln!(out);
    let _ =
        writeln!(out, "{:<34}{:>10}{:>10}{:>10}", "milliseconds, as a client sees them", "p50", "p99", "max");
    let _ = writeln!(out, "{}", row("  expiry after its timeout", &mut lateness));
    let _ = writeln!(out, "{}", row("  record sent to poll answered", &mut wake_ups));
    let _ = writeln!(out);
    let requests = shared.measured.requests.load(Ordering::Relaxed);
    let _ =
        writeln!(out, "{:<34}{:>10.0} a second", "client requests", requests as f64 / elapsed.as_secs_f64());
    match usage {
        Some(usage) => {
            let percent = 100.0 * usage.cpu.as_secs_f64() / elapsed.as_secs_f64();
            let _ = writeln!(out, "{:<34}{percent:>10.1} % of a core, load and broker", "CPU");
            let _ = writeln!(out, "{:<34}{:>10.1} MiB resident", "memory", usage.resident as f64 / 1048576.0);
        }
        None => {
            let _ = writeln!(out, "{:<34}{:>10}", "CPU, memory", "n/a");
        }
    }
    out
}

pub(super) fn row(name: &str, samples: &mut [Duration]) -> String {
    samples.sort_unstable();
    let at = |share: f64| match percentile(samples, share) {
        Some(sample) => format!("{:.2}", sample.as_secs_f64() * 1000.0),
        None => "-".to_owned(),
    };
    format!("{name:<34} {:>10}{:>10}{:>10}", at(0.5), at(0.99), at(1.0))
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
    fn the_table_shows_every_count_and_lines_up() {
        let shared = Shared::new(([127, 0, 0, 1], 1).into());
        shared.measured.wake_ups.lock().unwrap().push(Duration::from_micros(1230));
        let produce = PurgatoryStats { registered: 21, satisfied: 13, expired: 8, ..Default::default() };
        let stats = Stats { produce, ..Default::default() };
        let usage = Usage { cpu: Duration::from_secs(1), resident: 3 << 20 };
        let table = table(&shared, &stats, Duration::from_secs(2), Some(usage));
        for expected in ["21", "13", "8", "1.23", "50.0 %", "3.0 MiB"] {
            assert!(table.contains(expected), "{expected} in\n{table}");
        }
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    }
}
