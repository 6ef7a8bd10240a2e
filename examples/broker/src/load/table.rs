//! Lines of the tables.

use std::fmt::{Display, Write as _};
use std::time::Duration;

use crate::demo::report;

/// A table that grows line by line. Nothing is wider than 80 characters.
#[derive(Debug, Default)]
pub(super) struct Table(String);

impl Table {
    pub(super) fn new(title: impl Display) -> Table {
        Table(format!("{title}\n"))
    }

    pub(super) fn gap(&mut self) {
        self.0.push('\n');
    }

    /// A figure, and what it is of.
    pub(super) fn line(&mut self, name: &str, figure: impl Display, unit: &str) {
        let line = format!("{name:<44}{figure:>10} {unit}");
        let _ = writeln!(self.0, "{}", line.trim_end());
    }

    /// What is resident, step by step: its name, the bytes, and of what step this is the growth. For so many.
    pub(super) fn memory(&mut self, many: usize, steps: &[(&str, u64, Option<usize>)]) {
        let _ = writeln!(self.0, "{:<44}{:>10}{:>12}", "memory of the broker", "MiB", "KiB each");
        for (name, bytes, before) in steps {
            let each = before.map_or(String::new(), |before| {
                let grown = *bytes as f64 - steps[before].1 as f64;
                format!("{:>12.2}", grown / 1024.0 / many as f64)
            });
            let _ = writeln!(self.0, "  {name:<42}{:>10.1}{each}", *bytes as f64 / 1_048_576.0);
        }
    }

    /// The percentiles of what clients have measured.
    pub(super) fn times(&mut self, rows: &mut [(&str, Vec<Duration>)]) {
        let head = "milliseconds, as a client sees them";
        let _ = writeln!(self.0, "{head:<44} {:>10}{:>10}{:>10}", "p50", "p99", "max");
        self.percentiles(rows);
    }

    /// The same, without what stands over it.
    pub(super) fn percentiles(&mut self, rows: &mut [(&str, Vec<Duration>)]) {
        for (name, samples) in rows {
            let _ = writeln!(self.0, "{}", report::row(&format!("  {name}"), (45, 10), samples));
        }
    }

    pub(super) fn text(&mut self, line: impl Display) {
        let _ = writeln!(self.0, "{line}");
    }

    /// The table, without the last end of a line.
    pub(super) fn finish(self) -> String {
        self.0.trim_end().to_owned()
    }
}

/// A share of a core, in percent.
pub(super) fn percent(cpu: Duration, of: Duration) -> String {
    format!("{:.2}", 100.0 * cpu.as_secs_f64() / of.as_secs_f64())
}

/// So many in that time, a second.
pub(super) fn rate(count: u64, time: Duration) -> String {
    format!("{:.0}", count as f64 / time.as_secs_f64())
}
