//! What Linux says of this process: its time, its memory, its threads' wake-ups. Elsewhere nothing is known, and all is 0.

use std::fs;
use std::time::Duration;

/// The processor time of all threads, those that have ended too. Counted in hundredths of a second.
#[must_use]
pub fn cpu_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in brackets may have spaces in it.
    let after_name = stat.rsplit_once(") ").map_or("", |it| it.1);
    let ticks: u64 = after_name.split(' ').skip(11).take(2).filter_map(|it| it.parse::<u64>().ok()).sum();
    Duration::from_millis(10 * ticks)
}

/// The memory that the process has now, and the most since [`forget_peak`], in bytes.
#[must_use]
pub fn memory() -> (u64, u64) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok()
    };
    let of = |name: &str| kilobytes(name).unwrap_or(0) * 1024;
    (of("VmRSS:"), of("VmHWM:"))
}

/// Lets the most begin anew.
pub fn forget_peak() {
    // Where it may not be written, the peak is that of the whole run.
    fs::write("/proc/self/clear_refs", "5").unwrap_or_default();
}

/// How often all threads but this one have gone to sleep of their own accord, and for how long they have run.
#[must_use]
pub fn other_threads() -> (u64, Duration) {
    let own = fs::read_link("/proc/thread-self").ok().and_then(|path| Some(path.file_name()?.to_owned()));
    let (mut sleeps, mut nanoseconds) = (0, 0);
    for task in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        if own.as_ref().is_some_and(|own| *own == task.file_name()) {
            continue;
        }
        let read = |file: &str| fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let count = |line: &str| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse::<u64>().ok();
        sleeps += read("status").lines().find_map(count).unwrap_or(0);
        nanoseconds += read("schedstat").split(' ').next().and_then(|it| it.parse().ok()).unwrap_or(0);
    }
    (sleeps, Duration::from_nanos(nanoseconds))
}
