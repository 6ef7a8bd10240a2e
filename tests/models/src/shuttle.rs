//! The models under shuttle: many random schedules of many threads. Seeded, so that each run tries the same ones.

pub use ::shuttle as checker;

use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, Runner};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How many schedules each scheduler tries on a model of a race. `IXION_SCHEDULES` is a factor to it.
const RACE: usize = 2000;

/// The repository. Failing schedules are kept in its `target/schedules`, in a directory for each test.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Notices two threads in the same operation. An atomic of std's: it is no point of a schedule.
#[derive(Debug, Default)]
pub(crate) struct Exclusive(AtomicBool);

impl Exclusive {
    pub(crate) fn visit<R>(&self, run: impl FnOnce() -> R) -> R {
        assert!(!self.0.swap(true, Ordering::SeqCst), "two threads are in one operation");
        let result = run();
        self.0.store(false, Ordering::SeqCst);
        result
    }
}

pub(crate) fn unbounded(run: impl Fn() + Sync + Send + 'static) {
    explore(RACE, run);
}

/// Runs a model of a race. The bound is loom's; what takes more preemptions takes more schedules.
pub fn bounded(preemptions: usize, run: impl Fn() + Sync + Send + 'static) {
    explore(preemptions * RACE, run);
}

/// Runs a model on so many schedules that are random at each step, and on as many with a few preemptions at random places
/// (PCT). `IXION_REPLAY` names the file of a failed schedule: then it runs on that one alone.
pub fn explore(schedules: usize, run: impl Fn() + Sync + Send + 'static) {
    let run = Arc::new(run);
    if let Ok(file) = std::env::var("IXION_REPLAY") {
        let replay = ReplayScheduler::new_from_file(Path::new(ROOT).join(file))
            .expect("IXION_REPLAY names a schedule");
        return check(replay, FailurePersistence::None, &run);
    }
    let factor = std::env::var("IXION_SCHEDULES").map_or(1, |factor| factor.parse().expect("a number"));
    let test = std::thread::current().name().unwrap_or("main").replace("::", ".");
    let directory = Path::new(ROOT).join("target/schedules").join(test);
    std::fs::create_dir_all(&directory).expect("target can be written");
    let kept = || FailurePersistence::File(Some(directory.clone()));
    check(RandomScheduler::new_from_seed(1, factor * schedules), kept(), &run);
    check(PctScheduler::new_from_seed(1, 3, factor * schedules), kept(), &run);
}

fn check(
    scheduler: impl Scheduler + 'static,
    failure_persistence: FailurePersistence,
    run: &Arc<impl Fn() + Sync + Send + 'static>,
) {
    let mut config = Config::new();
    config.failure_persistence = failure_persistence;
    config.stack_size = 256 * 1024;
    // They say that orderings are taken as sequentially consistent: those are for loom.
    config.silence_warnings = true;
    let run = Arc::clone(run);
    Runner::new(scheduler, config).run(move || run());
}
