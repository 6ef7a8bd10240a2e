//! A simulation: from a number, the seed, a schedule of all that can happen to a purgatory, held against the model.
//!
//! A schedule has registrations with no key to many, at numbers or not, and timeouts from zero to never, events, cancellations, forced
//! completions, resets, drives and single passes, a clock that stands still, jumps by years and steps back, panics of every
//! piece of user code, callbacks and looks that call back, and a shutdown. It runs in one thread, on a
//! [`ManualClock`](crate::ManualClock), and the same seed gives the same of everything. What is checked after each step is
//! listed in [`purgatory_script`](super::purgatory_script).
//!
//! ```
//! let report = ixion::testing::sim::run(1);
//! assert!(report.books.balances());
//! assert_eq!(report.digest, ixion::testing::sim::run(1).digest);
//! ```

mod schedule;

use std::collections::BTreeMap;

use crate::Stats;
use crate::testing::purgatory_script::{Failure, PurgatoryScript, Run, Seen, line};
use crate::testing::purgatory_world::Place;

/// How a simulation is run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// About how many steps a schedule has.
    pub steps: usize,
    /// Whether the report has a trace.
    pub trace: bool,
    /// A fault that is planted between the purgatory and the checks, which must find it.
    pub fault: Option<Fault>,
}

impl Default for Options {
    fn default() -> Self {
        Options { steps: 60, trace: false, fault: None }
    }
}

/// A fault to be planted.
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Some signals are lost.
    LostEvent,
    /// Some signals say that they have come half as far.
    ShortProgress,
    /// The purgatory's clock is a tick ahead: what it expires it expires early.
    FastClock,
    /// The purgatory's clock is a tick behind.
    SlowClock,
    /// Some operations are called back twice.
    SecondEnd,
    /// Some operations are not called back.
    LostEnd,
    /// Some operations are kept after their end.
    KeptOperation,
    /// Some new timeouts are confirmed but not taken.
    LostReset,
    /// Some operations are forced though nobody asked for it: the sums balance, the lines are wrong.
    ForcedUnseen,
    /// Panics are counted, but the hook is not told.
    UntoldPanic,
}

impl Fault {
    /// All of them.
    pub const ALL: [Fault; 10] = [
        Fault::LostEvent,
        Fault::ShortProgress,
        Fault::FastClock,
        Fault::SlowClock,
        Fault::SecondEnd,
        Fault::LostEnd,
        Fault::KeptOperation,
        Fault::LostReset,
        Fault::ForcedUnseen,
        Fault::UntoldPanic,
    ];
}

/// What a simulation was like, if it found nothing.
#[non_exhaustive]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// How many steps were taken.
    pub steps: usize,
    /// A hash of all that could be seen.
    pub digest: u64,
    /// The books before the purgatory was dropped.
    pub books: Stats,
    /// What happened, and how often.
    pub covered: BTreeMap<String, u64>,
    /// Each step and what was seen in it, if that was asked for.
    pub trace: String,
}

/// Runs the schedule of a seed.
///
/// # Panics
///
/// If the purgatory does anything that the model doesn't: with the seed, the number of the step, the last steps, and the
/// fewest steps that still show it.
#[must_use = "a report says what was covered"]
pub fn run(seed: u64) -> Report {
    Options::default().run(seed)
}

impl Options {
    /// Runs the schedule of a seed.
    ///
    /// # Panics
    ///
    /// As [`run`] does.
    #[must_use = "a report says what was covered"]
    pub fn run(&self, seed: u64) -> Report {
        let script = schedule::script(seed, self.steps);
        match self.attempt(&script) {
            Ok(seen) => self.report(seed, &script, seen),
            Err(failure) => {
                let (smaller, left) = self.shrink(&script, &failure);
                panic!(
                    "seed {seed} fails {}\nthe least that fails, {}\n\
                     to replay it with a trace: IXION_SIM_SEED={seed} cargo test -p ixion --test it simulation -- --nocapture",
                    failure.describe(&script),
                    left.describe(&smaller),
                );
            }
        }
    }

    fn attempt(&self, script: &PurgatoryScript) -> Result<Seen, Failure> {
        let run = Run::new(script, self.fault);
        if self.trace { run.keep_all().run() } else { run.run() }
    }

    /// Takes out steps as long as it still fails.
    fn shrink(&self, script: &PurgatoryScript, failure: &Failure) -> (PurgatoryScript, Failure) {
        let mut script = script.clone();
        script.steps.truncate(failure.step + 1);
        let mut least = self.attempt(&script).err().expect("it has failed, and fails again");
        let mut size = script.steps.len().div_ceil(2);
        while size > 0 {
            let mut at = 0;
            while at < script.steps.len() {
                let mut smaller = script.clone();
                smaller.steps.drain(at..script.steps.len().min(at + size));
                match self.attempt(&smaller) {
                    Ok(_) => at += size,
                    Err(failure) => {
                        smaller.steps.truncate(failure.step + 1);
                        (script, least) = (smaller, failure);
                    }
                }
            }
            size /= 2;
        }
        (script, least)
    }

    fn report(&self, seed: u64, script: &PurgatoryScript, seen: Seen) -> Report {
        let name = |(place, kind): (Place, &str)| match place {
            Place::Script => kind.to_owned(),
            Place::Callback => format!("{kind} in a callback"),
            Place::Look => format!("{kind} in a look"),
        };
        let Stats { satisfied, expired, forced, cancelled, shut_down, panicked, clamped, .. } = seen.books;
        let ends = [
            ("satisfied", satisfied),
            ("expired", expired),
            ("forced", forced),
            ("cancelled", cancelled),
            ("shut down", shut_down),
            ("panicked", panicked),
            ("clamped", clamped),
        ];
        let places = ["look", "callback", "drop of a key", "hook for deadlines", "hook for panics"];
        let panics = places.map(|place| format!("panic in a {place}")).into_iter().zip(seen.thrown);
        let ends = ends.into_iter().map(|(end, count)| (end.to_owned(), count));
        let steps = seen.covered.into_iter().map(|(key, count)| (name(key), count));
        let on = [
            format!("{} shards", script.shards),
            format!("ticks of {:?}", script.tick),
            format!("from tick {}", script.start),
        ];
        let on = on.map(|on| (on, 1));
        let covered = steps.chain(on).chain(ends).chain(panics).collect();
        let trace = if self.trace {
            seen.steps.iter().map(|(at, events)| line(script, *at, events)).collect()
        } else {
            String::new()
        };
        Report { seed, steps: script.steps.len(), digest: seen.digest, books: seen.books, covered, trace }
    }
}
