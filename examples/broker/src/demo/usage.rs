//! What a process has used, where the system tells.

use std::fs;
use std::time::Duration;

/// The kernel counts CPU time in hundredths of a second for its readers, whatever its own clock.
const TICKS_PER_SECOND: u64 = 100;

/// CPU time and memory of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    /// In bytes.
    pub(crate) resident: u64,
}

impl Usage {
    /// This process's; `None` where there is no `/proc`.
    pub(crate) fn read() -> Option<Usage> {
        Usage::of("self")
    }

    /// The same of the process with this id.
    pub(crate) fn of(id: &str) -> Option<Usage> {
        let cpu = cpu(&fs::read_to_string(format!("/proc/{id}/stat")).ok()?)?;
        let resident = resident(&fs::read_to_string(format!("/proc/{id}/status")).ok()?)?;
        Some(Usage { cpu, resident })
    }
}

/// User and system time: the fields 14 and 15. The second, the name, is in parentheses and may hold anything.
fn cpu(stat: &str) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(Duration::from_millis((user + system) * 1000 / TICKS_PER_SECOND))
}

fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_found_whatever_the_name() {
        let stat = "42 (a) b) S 1 42 42 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 5 0 1000 1 1";
        assert_eq!(cpu(stat), Some(Duration::from_secs(3)));
        assert_eq!(resident("Name:\tx\nVmRSS:\t    2048 kB\n"), Some(2 << 20));
        assert_eq!((cpu("garbage"), resident("garbage")), (None, None));
    }
}
