//! What the storms share: operations with a number, and the ledger in which each number must end exactly once.
//!
//! The storms run with real threads and, by `ci/sanitizers.sh`, under ThreadSanitizer and AddressSanitizer. std is not
//! built with these: what a storm itself shares between threads is an atomic or in an `Arc`, never behind std's locks
//! or in its channels, which ThreadSanitizer cannot look into.

use ixion::{DelayedOperation, Outcome, Purgatory, Stats};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::thread;

/// A purgatory of storm-tossed operations. Strings, so that there is a key to be freed.
pub type Keyed = Purgatory<String, Op>;

/// The name of a key.
#[must_use]
pub fn key(number: u64) -> String {
    format!("key {number}")
}

/// How often each operation has ended, by its number, and how many were given out.
#[derive(Debug)]
pub struct Ledger {
    ends: Vec<AtomicU32>,
    given: AtomicUsize,
}

impl Ledger {
    /// Makes a ledger for so many operations.
    #[must_use]
    pub fn new(operations: usize) -> Arc<Ledger> {
        let ends = (0..operations).map(|_| AtomicU32::new(0)).collect();
        Arc::new(Ledger { ends, given: AtomicUsize::new(0) })
    }

    /// Gives out the next operation; `None` when all are.
    #[must_use]
    pub fn next(self: &Arc<Self>, mood: Mood, met: &Arc<AtomicUsize>, at: usize) -> Option<Op> {
        let number = self.given.fetch_add(1, Ordering::Relaxed);
        let ledger = Arc::clone(self);
        (number < self.ends.len()).then(|| Op {
            number,
            ledger,
            met: Arc::clone(met),
            at,
            mood,
            looks: Vec::new(),
            then: None,
        })
    }

    /// Fails unless every operation has been given out, has ended once, and is dropped.
    pub fn close(self: Arc<Self>) {
        assert!(self.given.load(Ordering::Relaxed) >= self.ends.len());
        for (number, ends) in self.ends.iter().enumerate() {
            assert_eq!(ends.load(Ordering::Relaxed), 1, "ends of operation {number}");
        }
        assert_eq!(Arc::strong_count(&self), 1, "an operation is kept");
    }
}

/// Where an operation panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// Nowhere.
    Calm,
    /// In its second look.
    Look,
    /// In its callback.
    Callback,
}

type Job = Box<dyn FnOnce() + Send>;

/// An operation that waits until a counter has reached a number.
pub struct Op {
    number: usize,
    ledger: Arc<Ledger>,
    met: Arc<AtomicUsize>,
    at: usize,
    mood: Mood,
    /// Neither atomic nor locked, on purpose: if two threads were in here together, or one without having seen what the
    /// other left, that would be a data race.
    looks: Vec<usize>,
    then: Option<Job>,
}

impl Op {
    /// Adds what the callback does in the end.
    #[must_use]
    pub fn then(mut self, job: impl FnOnce() + Send + 'static) -> Op {
        self.then = Some(Box::new(job));
        self
    }

    /// Takes note that the operation was handed back.
    pub fn handed_back(self) {
        self.end();
    }

    fn end(&self) {
        self.ledger.ends[self.number].fetch_add(1, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Op").field("number", &self.number).finish_non_exhaustive()
    }
}

impl DelayedOperation for Op {
    fn try_complete(&mut self) -> bool {
        let met = self.met.load(Ordering::Relaxed);
        self.looks.push(met);
        if (self.number + self.looks.len()).is_multiple_of(4) {
            // Others come while this thread is inside, on a machine of few processors too.
            thread::yield_now();
        }
        if self.mood == Mood::Look && self.looks.len() > 1 {
            resume_unwind(Box::new("a look that panics"));
        }
        met >= self.at
    }

    fn on_complete(mut self, _: Outcome) {
        assert!(!self.looks.is_empty(), "it was looked at before it waited");
        self.end();
        if let Some(job) = self.then.take() {
            job();
        }
        if self.mood == Mood::Callback {
            resume_unwind(Box::new("a callback that panics"));
        }
    }
}

/// Numbers that look random and are the same each time.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Makes the dice of a thread.
    #[must_use]
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns a number below this one.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

/// Fails unless nothing waits and the books balance.
pub fn assert_over(purgatory: &Keyed) -> Stats {
    let stats = purgatory.stats();
    assert!(stats.balances(), "{stats:?}");
    assert_eq!((stats.pending, stats.watched, stats.keys), (0, 0, 0), "{stats:?}");
    assert_eq!((purgatory.lateness().count(), purgatory.occupancy().total()), (stats.expired, 0));
    if let Some(waits) = purgatory.waits() {
        assert_eq!(waits.count(), stats.ended() - stats.at_once);
    }
    stats
}
