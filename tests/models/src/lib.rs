//! What the models share: an operation that notices wrong handling, and a clock that costs no interleavings.
//!
//! The models run the library itself, built with `--cfg ixion_loom` or `--cfg ixion_shuttle`: its locks and atomics are
//! those of the checker then. They are run by `ci/models.sh`, once as they are, when all must pass, and once with each
//! of the planted bugs, when at least one must fail.
#![cfg(any(ixion_loom, ixion_shuttle))]

#[cfg_attr(ixion_loom, path = "loom.rs")]
#[cfg_attr(ixion_shuttle, path = "shuttle.rs")]
mod check;
mod task;

#[cfg(ixion_shuttle)]
pub use check::explore;
pub use check::{bounded, checker};
pub use task::{Sleeper, block_on};

use check::Exclusive;
use checker::sync::atomic::{AtomicUsize, Ordering};
use checker::thread::{JoinHandle, spawn};
use ixion::{Clock, DelayedOperation, Outcome, Purgatory, Registration};
use std::sync::Arc;
use std::time::Duration;

/// A clock that stands still at ten milliseconds. It is no shared state, so it adds no interleavings.
#[derive(Debug)]
pub struct Still;

impl Clock for Still {
    fn elapsed(&self) -> Duration {
        Duration::from_millis(10)
    }
}

/// The state that operations wait for. Relaxed on purpose: whoever changes it and then signals the key may rely on
/// the operation seeing it, with any memory ordering.
#[derive(Debug)]
pub struct Flag(AtomicUsize);

impl Flag {
    /// Makes a flag that is not set.
    pub fn new() -> Arc<Flag> {
        Arc::new(Flag(AtomicUsize::new(0)))
    }

    /// Sets the flag.
    pub fn set(&self) {
        self.0.store(1, Ordering::Relaxed);
    }

    /// Whether it is set.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 1
    }
}

/// How an operation has ended, seen from outside.
#[derive(Debug)]
pub struct End {
    calls: AtomicUsize,
    outcome: AtomicUsize,
}

impl End {
    /// Makes the record of an operation that has not ended.
    pub fn new() -> Arc<End> {
        Arc::new(End { calls: AtomicUsize::new(0), outcome: AtomicUsize::new(usize::MAX) })
    }

    /// Writes down a call of `on_complete`.
    pub fn record(&self, outcome: Outcome) {
        self.outcome.store(outcome as usize, Ordering::Release);
        self.calls.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns how often `on_complete` was called.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::Acquire)
    }

    /// Returns what the last call was given.
    pub fn outcome(&self) -> Option<Outcome> {
        const ALL: [Outcome; 6] = [
            Outcome::Satisfied,
            Outcome::Expired,
            Outcome::Forced,
            Outcome::Cancelled,
            Outcome::Shutdown,
            Outcome::Panicked,
        ];
        ALL.into_iter().find(|&outcome| outcome as usize == self.outcome.load(Ordering::Acquire))
    }
}

/// An operation that waits for all of its flags.
#[derive(Debug)]
pub struct Op {
    flags: Vec<Arc<Flag>>,
    end: Arc<End>,
    exclusive: Exclusive,
}

impl Op {
    /// Makes an operation.
    pub fn new(flags: &[&Arc<Flag>], end: &Arc<End>) -> Op {
        let flags = flags.iter().map(|flag| Arc::clone(flag)).collect();
        Op { flags, end: Arc::clone(end), exclusive: Exclusive::default() }
    }
}

impl DelayedOperation for Op {
    fn try_complete(&mut self) -> bool {
        self.exclusive.visit(|| self.flags.iter().all(|flag| flag.is_set()))
    }

    fn on_complete(self, outcome: Outcome) {
        self.exclusive.visit(|| self.end.record(outcome));
    }
}

/// A purgatory on the still clock.
pub type Keyed = Arc<Purgatory<u32, Op>>;

/// With this seed and two shards, keys 1 and 2 live apart.
pub const SEED: u64 = 3;

/// Builds one with this many shards.
pub fn purgatory(shards: usize) -> Keyed {
    Arc::new(of_shards(shards))
}

/// The same for operations of any kind.
pub fn of_shards<O: DelayedOperation>(shards: usize) -> Purgatory<u32, O> {
    Purgatory::builder("model").clock(Still).shards(shards).hash_seed(SEED).build()
}

/// Registers an operation.
pub fn register(purgatory: &Keyed, op: Op, timeout: Duration, keys: &[u32]) -> Registration {
    purgatory.try_complete_else_watch(op, timeout, keys.iter().copied()).expect("open")
}

/// Starts a thread that does something to a purgatory.
pub fn start<R: Send + 'static>(
    purgatory: &Keyed,
    run: impl FnOnce(&Keyed) -> R + Send + 'static,
) -> JoinHandle<R> {
    let purgatory = Arc::clone(purgatory);
    spawn(move || run(&purgatory))
}

/// Starts a thread that sets a flag and signals a key.
pub fn signal(purgatory: &Keyed, flag: &Arc<Flag>, key: u32) -> JoinHandle<usize> {
    let flag = Arc::clone(flag);
    start(purgatory, move |purgatory| {
        flag.set();
        purgatory.check_and_complete(&key)
    })
}

/// Lets the driver go on with what a tired holder handed on, as an expirer does when its alarm rings.
pub fn drive<O: DelayedOperation>(purgatory: &Purgatory<u32, O>) {
    if purgatory.next_expiration().is_some() {
        let _ = purgatory.expire();
    }
}

/// Fails the model unless nothing is kept and the books balance.
pub fn assert_quiet<O: DelayedOperation>(purgatory: &Purgatory<u32, O>, pending: usize, watched: usize) {
    let stats = purgatory.stats();
    assert!(stats.balances(), "{stats:?}");
    assert_eq!((stats.pending, stats.watched, stats.panics), (pending, watched, 0), "{stats:?}");
}

/// Runs a model. Under loom two threads are explored without a bound, three with three preemptions.
pub fn model(threads: usize, run: impl Fn() + Sync + Send + 'static) {
    if threads > 2 { bounded(3, run) } else { check::unbounded(run) }
}
