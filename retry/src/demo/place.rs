//! Where the demo's queue is kept.

use crate::Failure;
use ixion_retry::{Backoff, Builder, Jitter, RedbStore, RedisStore, RetryQueue, Store};
use redis::{Commands, ConnectionAddr, IntoConnectionInfo, RedisResult, ScanOptions};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::process;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// A store, before it is opened.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    File(PathBuf),
    Redis(Redis),
}

/// A queue on a server.
#[derive(Clone, Debug)]
pub(crate) struct Redis {
    url: String,
    address: ConnectionAddr,
    name: String,
}

/// What is done with the queue of a place, whatever keeps it.
pub(super) trait Job {
    fn run<S: Store>(self, queue: &RetryQueue<S>, patience: Patience) -> Result<(), Failure>;
}

/// For how long a step that the store has refused is made again.
#[derive(Clone, Copy)]
pub(super) struct Patience(pub(super) Duration);

pub(super) const MAX_ATTEMPTS: u32 = 5;

impl Place {
    /// What an option says.
    pub(crate) fn parse(store: OsString) -> Result<Place, String> {
        let url = match store.to_str() {
            Some(url) if url.contains("://") || url.starts_with("unix:") => url,
            _ => return Ok(Place::File(store.into())),
        };
        let info = url
            .into_connection_info()
            .map_err(|error| format!("--store is neither a file nor redis://HOST:PORT: {error}"))?;
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let name = format!("ixion-demo-{}-{}", since.as_millis(), process::id());
        Ok(Place::Redis(Redis { url: url.to_owned(), address: info.addr().clone(), name }))
    }

    /// The same, but for the name of the queue on a server.
    pub(crate) fn named(self, name: String) -> Place {
        match self {
            Place::Redis(at) => Place::Redis(Redis { name, ..at }),
            file @ Place::File(_) => file,
        }
    }

    /// How many workers share it, if nothing is said; and how many can.
    pub(super) fn workers(&self) -> (usize, usize) {
        match self {
            Place::File(_) => (1, 1),
            Place::Redis(_) => (3, 64),
        }
    }

    /// The options that name it to a worker.
    pub(super) fn args(&self) -> Vec<OsString> {
        match self {
            Place::File(path) => vec!["--store".into(), path.into()],
            Place::Redis(at) => vec!["--store".into(), (&at.url).into(), "--queue".into(), (&at.name).into()],
        }
    }

    /// How long it may be away: a server is started again, a disk is not.
    pub(super) fn patience(&self) -> Patience {
        match self {
            Place::File(_) => Patience(Duration::ZERO),
            Place::Redis(_) => Patience(Duration::from_secs(30)),
        }
    }

    /// Opens it and does the job.
    pub(super) fn open(&self, patience: Patience, job: impl Job) -> Result<(), Failure> {
        match self {
            Place::File(path) => {
                let store = patience.with(|| RedbStore::open(path)).map_err(|error| self.says(&error))?;
                job.run(&start(RetryQueue::builder(store))?, patience)
            }
            Place::Redis(at) => {
                let store = patience.with(|| RedisStore::open(&at.url, &at.name))?;
                job.run(&start(RetryQueue::builder(store))?, patience)
            }
        }
    }

    /// Looks whether it can be had, and is nobody's.
    pub(super) fn check(&self) -> Result<(), Failure> {
        match self {
            Place::File(path) if path.try_exists()? => {
                Err(self.says(&"it is there already; the demo makes a file of its own"))
            }
            Place::File(_) | Place::Redis(_) => self.open(Patience(Duration::ZERO), Look),
        }
    }

    /// Removes what nobody has a use for.
    pub(super) fn tidy_up(&self) {
        let Place::Redis(at) = self else { return };
        if let Err(error) = self.patience().with(|| at.remove()) {
            eprintln!("ixion-retry: the keys {}* are still there: {error}", at.keys());
        }
    }

    fn says(&self, error: &dyn fmt::Display) -> Failure {
        format!("{self}: {error}").into()
    }
}

impl Redis {
    /// How the names of its keys begin.
    fn keys(&self) -> String {
        format!("{{{}}}:", self.name)
    }

    fn remove(&self) -> RedisResult<()> {
        let mut connection = redis::Client::open(self.url.as_str())?.get_connection()?;
        let all = ScanOptions::default().with_pattern(self.keys() + "*").with_count(10_000);
        let keys: Vec<String> = connection.scan_options(all)?.collect::<RedisResult<_>>()?;
        if keys.is_empty() { Ok(()) } else { connection.unlink(keys) }
    }
}

/// Nothing is done.
struct Look;

impl Job for Look {
    fn run<S: Store>(self, queue: &RetryQueue<S>, _: Patience) -> Result<(), Failure> {
        Ok(queue.counts().map(drop)?)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File(path) => path.display().fmt(f),
            Place::Redis(at) => write!(f, "{} at {}", at.name, at.address),
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

fn start<S: Store>(builder: Builder<S>) -> Result<RetryQueue<S>, Failure> {
    let backoff = Backoff::exponential(Duration::from_millis(20), 2.0, Duration::from_millis(200))?;
    let backoff = backoff.jitter(Jitter::Equal).max_attempts(MAX_ATTEMPTS);
    // Whoever has made a step that was refused says so.
    Ok(builder.backoff(backoff).on_error(|_| {}).start()?)
}
