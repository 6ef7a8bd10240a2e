//! Where the demo's queue is kept.

use crate::demo::Verdict;
use ixion_retry::{Backoff, Builder, Jitter, RedbStore, RetryQueue, Store};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// A store, before it is opened.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    File(PathBuf),
}

/// What is done with the queue of a place, whatever keeps it.
pub(super) trait Job {
    fn run<S: Store>(self, queue: &RetryQueue<S>, patience: Patience) -> Verdict;
}

/// For how long a step that the store has refused is made again.
#[derive(Clone, Copy)]
pub(super) struct Patience(pub(super) Duration);

pub(super) const MAX_ATTEMPTS: u32 = 5;

impl Place {
    /// What an option says.
    pub(crate) fn parse(store: OsString) -> Place {
        Place::File(store.into())
    }

    /// How many workers share it, if nothing is said.
    pub(super) fn workers(&self) -> usize {
        match self {
            Place::File(_) => 1,
        }
    }

    /// How many workers can share it.
    pub(super) fn most_workers(&self) -> usize {
        match self {
            Place::File(_) => 1,
        }
    }

    /// The options that name it to a worker.
    pub(super) fn args(&self) -> Vec<OsString> {
        match self {
            Place::File(path) => vec!["--store".into(), path.into()],
        }
    }

    /// How long it may be away: a server is started again, a disk is not.
    pub(super) fn patience(&self) -> Patience {
        match self {
            Place::File(_) => Patience(Duration::ZERO),
        }
    }

    /// Opens it and does the job.
    pub(super) fn open(&self, patience: Patience, job: impl Job) -> Verdict {
        match self {
            Place::File(path) => {
                let store = patience.with(|| RedbStore::open(path)).map_err(|error| self.says(&error))?;
                job.run(&start(RetryQueue::builder(store))?, patience)
            }
        }
    }

    /// Refuses one that somebody has things in.
    pub(super) fn check_free(&self) -> Verdict {
        match self {
            Place::File(path) if path.try_exists()? => {
                Err(self.says(&"it is there already; the demo makes a file of its own"))
            }
            Place::File(_) => Ok(()),
        }
    }

    /// Removes what nobody has a use for.
    pub(super) fn tidy_up(&self) -> Verdict {
        match self {
            Place::File(_) => Ok(()),
        }
    }

    fn says(&self, error: &dyn fmt::Display) -> Box<dyn std::error::Error + Send + Sync> {
        format!("{self}: {error}").into()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File(path) => path.display().fmt(f),
        }
    }
}

impl Patience {
    pub(super) fn with<R, E>(self, step: impl Fn() -> Result<R, E>) -> Result<R, E> {
        let until = Instant::now() + self.0;
        loop {
            match step() {
                Err(_) if Instant::now() < until => thread::sleep(Duration::from_millis(10)),
                end => return end,
            }
        }
    }
}

fn start<S: Store>(builder: Builder<S>) -> Result<RetryQueue<S>, Box<dyn std::error::Error + Send + Sync>> {
    let backoff = Backoff::exponential(Duration::from_millis(20), 2.0, Duration::from_millis(200))?;
    let backoff = backoff.jitter(Jitter::Equal).max_attempts(MAX_ATTEMPTS);
    // Whoever has made a step that was refused says so.
    Ok(builder.backoff(backoff).on_error(|_| {}).start()?)
}
