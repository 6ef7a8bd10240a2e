//! The table of what was measured.

use std::fmt::Write as _;
use std::time::Duration;

use super::super::report;
use super::Shape;

/// What was measured.
pub(super) struct Figures {
    /// Bytes that are resident: with nobody there, all connected, all waiting, and waiting for the second time.
    pub(super) memory: [u64; 4],
    /// The share of a core that the broker takes while all wait.
    pub(super) idle_cpu: f64,
    pub(super) wake_ups: Vec<Duration>,
    pub(super) lateness: Vec<Duration>,
    /// Entries in watch lists while all waited, and after all had hung up.
    pub(super) watched: (u64, u64),
    /// How long it took from there on until nothing was kept of them.
    pub(super) forgotten: Duration,
}

pub(super) fn table(shape: Shape, mut figures: Figures) -> String {
    let Shape { polls, partitions, wait, replicas } = shape;
    let wait = wait.as_secs_f64();
    let mut out = format!("{polls} polls of {wait} s on {partitions} partitions; nodes: {replicas}\n\n");
    let [empty, connected, parked, again] = figures.memory;
    let _ = writeln!(out, "{:<34}{:>10}{:>10}", "memory of the broker", "MiB", "KiB each");
    let mut row = |name: &str, bytes: u64, before: Option<u64>| {
        let each = before.map_or(String::new(), |before| {
            let each = (bytes as f64 - before as f64) / 1024.0 / polls as f64;
            format!("{each:>10.2}")
        });
        let _ = writeln!(out, "{name:<34}{:>10.1}{each}", bytes as f64 / 1_048_576.0);
    };
    row("  nobody there", empty, None);
    row("  all connected", connected, Some(empty));
    row("  all waiting, beyond that", parked, Some(connected));
    row("  all waiting for a second time", again, Some(connected));
    let _ = writeln!(out, "{:<34}{:>10.2} % of a core\n", "CPU while all wait", 100.0 * figures.idle_cpu);

    let _ =
        writeln!(out, "{:<34}{:>10}{:>10}{:>10}", "milliseconds, as a client sees them", "p50", "p99", "max");
    let _ =
        writeln!(out, "{}", report::row("  record sent to poll answered", (34, 10), &mut figures.wake_ups));
    let _ = writeln!(out, "{}", report::row("  expiry after its wait", (34, 10), &mut figures.lateness));
    let (watched, left) = figures.watched;
    let _ = writeln!(out, "\n{:<34}{watched:>10}", "entries in watch lists");
    let _ = writeln!(
        out,
        "{:<34}{left:>10}",
        format!("  {} ms after all hung up", figures.forgotten.as_millis())
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_figure_and_lines_up() {
        let shape = Shape { polls: 1024, partitions: 7, wait: Duration::from_millis(2500), replicas: 3 };
        let figures = Figures {
            memory: [5 << 20, 7 << 20, 10 << 20, 11 << 20],
            idle_cpu: 0.0123,
            wake_ups: vec![Duration::from_micros(4560); 12],
            lateness: vec![Duration::from_micros(7890)],
            watched: (1234, 16),
            forgotten: Duration::from_millis(98),
        };
        let table = table(shape, figures);
        for expected in
            ["1024 polls of 2.5 s on 7 partitions; nodes: 3", "5.0\n", "2.00", "3.00", "4.00", "1.23 %"]
        {
            assert!(table.contains(expected), "{expected} in\n{table}");
        }
        for expected in ["4.56", "7.89", "1234\n", "  98 ms after all hung up", "  16\n"] {
            assert!(table.contains(expected), "{expected} in\n{table}");
        }
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    }
}
