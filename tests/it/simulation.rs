//! The seeded simulation, over many seeds.
//!
//! `IXION_SIM_SEED=n` runs that seed alone and prints its trace; `IXION_SIM_SEEDS=n` runs so many.

use ixion::testing::sim::{self, Fault, Options, Report};
use std::collections::BTreeMap;
use std::panic::catch_unwind;
use std::thread;

/// How many seeds are run if nobody says.
const SEEDS: u64 = 2000;

const STEPS: &[&str] = &[
    "register",
    "crowd",
    "set",
    "clear",
    "check",
    "check up to",
    "force",
    "force for key",
    "cancel",
    "cancel first",
    "cancel for key",
    "reset",
    "reset for key",
    "advance",
    "step back",
    "pass",
    "expire",
    "shutdown",
    "hand back",
    "flip",
];

const NOT_IN_A_CALLBACK: &[&str] = &["crowd", "flip"];
const NOT_IN_A_LOOK: &[&str] = &["crowd", "flip", "check", "check up to", "pass"];

const ELSE: &[&str] = &[
    "1 shards",
    "2 shards",
    "8 shards",
    "ticks of 7µs",
    "ticks of 1ms",
    "ticks of 10ms",
    "from tick 0",
    "from tick 1073741754",
    "from tick 68719476736",
    "from tick 4398046511103",
    "from tick 9223372036854775808",
    "from tick 18446744073709546615",
    "from tick 18446744073709551612",
    "no timeout",
    "a timeout",
    "a timeout of years",
    "no end",
    "no key",
    "one key",
    "some keys",
    "many keys",
    "at a number",
    "at numbers that rise",
    "at numbers that rise and fall",
    "a number was not to be had",
    "the clock stands still",
    "the clock jumps by years",
    "over at once",
    "rejected: full",
    "rejected: shut down",
    "rejected: full in a callback",
    "rejected: shut down in a callback",
    "came back busy in a look",
    "a pass left more",
    "satisfied",
    "expired",
    "forced",
    "cancelled",
    "shut down",
    "panicked",
    "clamped",
    "a callback panicked",
    "a destructor panicked",
    "panic in a look",
    "panic in a callback",
    "panic in a drop of a key",
    "panic in a hook for deadlines",
    "panic in a hook for panics",
];

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().expect("a seed, or a number of seeds"))
}

#[test]
fn whatever_a_seed_brings_about_the_purgatory_does_what_the_model_does() {
    if let Some(seed) = variable("IXION_SIM_SEED") {
        print!("{}", Options { trace: true, ..Options::default() }.run(seed).trace);
        return;
    }
    let seeds = variable("IXION_SIM_SEEDS").unwrap_or(SEEDS);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let covered = thread::scope(|scope| {
        let run = |first: usize| {
            let mut covered = BTreeMap::new();
            for seed in (first as u64..seeds).step_by(threads) {
                add(&mut covered, sim::run(seed).covered);
            }
            covered
        };
        let all: Vec<_> = (0..threads).map(|first| scope.spawn(move || run(first))).collect();
        let mut covered = BTreeMap::new();
        all.into_iter().for_each(|thread| add(&mut covered, thread.join().unwrap()));
        covered
    });
    println!("{seeds} seeds: {covered:#?}");
    let steps = STEPS.iter().map(|step| (*step).to_owned());
    let inside = |place: &'static str, but: &'static [&str]| {
        let steps = STEPS.iter().filter(move |step| !but.contains(step));
        steps.map(move |step| format!("{step} in a {place}"))
    };
    let nested = inside("callback", NOT_IN_A_CALLBACK).chain(inside("look", NOT_IN_A_LOOK));
    let missing: Vec<String> = steps
        .chain(nested)
        .chain(ELSE.iter().map(|what| (*what).to_owned()))
        .filter(|what| !covered.contains_key(what))
        .collect();
    assert!(seeds < SEEDS || missing.is_empty(), "no seed had {missing:?}");
}

fn add(all: &mut BTreeMap<String, u64>, some: BTreeMap<String, u64>) {
    for (what, count) in some.into_iter().filter(|(_, count)| *count > 0) {
        *all.entry(what).or_default() += count;
    }
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_seed_another() {
    let run = |seed| Options { trace: true, ..Options::default() }.run(seed);
    let reports: Vec<Report> = (0..100).map(run).collect();
    for (seed, report) in reports.iter().enumerate() {
        assert_eq!(*report, run(seed as u64));
        assert!(report.trace.lines().count() > 10 && report.books.balances(), "{report:?}");
    }
    assert!(reports.windows(2).all(|pair| pair[0].digest != pair[1].digest));
}

#[test]
fn every_planted_fault_is_found_and_the_message_says_how_to_replay_it() {
    for fault in Fault::ALL {
        let options = Options { fault: Some(fault), ..Options::default() };
        let found = (0..100).find_map(|seed| Some((seed, catch_unwind(|| options.run(seed)).err()?)));
        let (seed, payload) = found.unwrap_or_else(|| panic!("{fault:?} was not found"));
        let message = payload.downcast::<String>().expect("a message");
        assert!(message.starts_with(&format!("seed {seed} fails at step ")), "{message}");
        assert!(message.contains(&format!("IXION_SIM_SEED={seed} cargo test")), "{message}");
    }
}
