//! The suites once more, on clocks and wheels that have been running for long.
//!
//! A suite makes its clocks with [`clock`] and its wheels at [`tick`]`(0)`, and names points in time by [`tick`].
//! `IXION_TEST_START=1073741824 cargo test -p ixion --test it` starts all of them there.

use ixion::{ManualClock, Resolution, Tick};
use std::process::Command;
use std::sync::LazyLock;

/// In ticks: at and before the beginning of a level of the wheel, in the middle of time, and before its end, with room for
/// the century that some tests take. `purgatory_order`, `wheel_order` and `simulation` have starts of their own, and
/// nearer to the end.
const STARTS: [u64; 5] = [1 << 30, (1 << 36) - 3, 1 << 42, 1 << 63, u64::MAX - (1 << 42)];

const SUITES: [&str; 12] = [
    "future::",
    "guarantees::",
    "kafka_delayed_operation::",
    "kafka_elsewhere::",
    "kafka_groups::",
    "kafka_replica_manager::",
    "known_faults::",
    "observe::",
    "progress::",
    "field_reports::",
    "wheel_field::",
    "wheel_kafka::",
];

/// These go through most of time, and have no room near the end.
const FAR: [&str; 5] = [
    "wheel_field::",
    "wheel_kafka::",
    "field_reports::ord",
    "field_reports::ovf",
    "timeouts_around_the_boundaries",
];

/// These race threads or pile up memory, and ask for no time; the last four have ages of their own, or count what moves
/// from level to level.
const BUT: [&str; 11] = [
    "future::runtimes",
    "::k1_",
    "::k9_",
    "a_chain_of_a_hundred_thousand",
    "whatever_five_threads_ask",
    "field_reports::real_time",
    "field_reports::threads",
    "a_purgatory_of_any_age",
    "a_setting_of_the_maximum",
    "what_lies_beyond_the_current_batch",
    "what_a_wheel_moves",
];

/// The tick in which clocks start.
pub(crate) fn start() -> u64 {
    static START: LazyLock<u64> = LazyLock::new(|| {
        std::env::var("IXION_TEST_START").map_or(0, |start| start.parse().expect("a number of ticks"))
    });
    *START
}

/// So many ticks after the start.
pub(crate) fn tick(after: u64) -> Tick {
    Tick::new(start().saturating_add(after))
}

/// How many ticks after the start a tick is.
pub(crate) fn after(tick: Tick) -> u64 {
    tick.as_u64() - start()
}

/// A clock that has been running since long before the test.
pub(crate) fn clock(resolution: Resolution) -> ManualClock {
    let clock = ManualClock::with_resolution(resolution);
    clock.advance_to(resolution.start_of(tick(0)));
    clock
}

#[test]
fn every_suite_passes_after_any_uptime() {
    for start in STARTS {
        let mut suites = Command::new(std::env::current_exe().unwrap());
        let far = FAR.iter().filter(|_| start > 1 << 63);
        suites.args(SUITES).args(BUT.iter().chain(far).flat_map(|test| ["--skip", *test]));
        let run = suites.env("IXION_TEST_START", start.to_string()).output().unwrap();
        let said = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success(), "from tick {start}: {said}");
        let passed = said.split(" passed").next().and_then(|said| said.rsplit(' ').next());
        assert!(passed.is_some_and(|count| count.parse().is_ok_and(|count: u32| count > 140)), "{said}");
    }
}
