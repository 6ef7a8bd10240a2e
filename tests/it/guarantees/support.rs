//! An operation that tells all, and a purgatory on a clock that is moved by hand.

use ixion::{
    DelayedOperation, Drive, ManualClock, OperationId, Outcome, Purgatory, Registration, RejectReason,
};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How operations ended, in order.
pub(super) type Log = Arc<Mutex<Vec<(u32, Outcome)>>>;

/// An operation that waits for a flag, counts its looks and logs its end.
pub(super) struct Probe {
    pub(super) number: u32,
    pub(super) flag: Arc<AtomicBool>,
    pub(super) looks: Arc<AtomicUsize>,
    pub(super) log: Log,
    /// Runs in every look, before the flag is read.
    pub(super) in_look: Option<Box<dyn FnMut() + Send>>,
    /// Runs in the callback, after the end is logged.
    pub(super) at_end: Option<Box<dyn FnOnce(Outcome) + Send>>,
    /// Dropped with the operation.
    pub(super) payload: Option<Arc<()>>,
}

impl DelayedOperation for Probe {
    fn try_complete(&mut self) -> bool {
        self.looks.fetch_add(1, Ordering::SeqCst);
        if let Some(in_look) = &mut self.in_look {
            in_look();
        }
        self.flag.load(Ordering::SeqCst)
    }

    fn on_complete(self, outcome: Outcome) {
        self.log.lock().unwrap().push((self.number, outcome));
        if let Some(at_end) = self.at_end {
            at_end(outcome);
        }
    }
}

impl PartialEq for Probe {
    fn eq(&self, other: &Probe) -> bool {
        self.number == other.number
    }
}

/// What a test keeps of a probe.
#[derive(Clone)]
pub(super) struct Handle {
    pub(super) id: OperationId,
    pub(super) flag: Arc<AtomicBool>,
    pub(super) looks: Arc<AtomicUsize>,
}

impl Handle {
    pub(super) fn set(&self) {
        self.flag.store(true, Ordering::SeqCst);
    }
}

pub(super) type Shared = Arc<Purgatory<u32, Probe>>;

/// What was caught though no test expects it: an assertion in a callback that failed, for one.
#[derive(Default)]
struct Caught(Arc<Mutex<Vec<String>>>);

impl Drop for Caught {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let caught = self.0.lock().unwrap();
            assert!(caught.is_empty(), "user code panicked: {caught:?}");
        }
    }
}

pub(super) struct Bench {
    _caught: Caught,
    pub(super) clock: ManualClock,
    pub(super) purgatory: Shared,
    pub(super) log: Log,
}

impl Bench {
    pub(super) fn new() -> Self {
        Bench::with(|builder| builder)
    }

    pub(super) fn with(
        configure: impl FnOnce(ixion::Builder<u32, Probe>) -> ixion::Builder<u32, Probe>,
    ) -> Self {
        let clock = ManualClock::new();
        let caught = Caught::default();
        let report = Arc::clone(&caught.0);
        let builder = Purgatory::builder("test")
            .clock(clock.clone())
            .hash_seed(1)
            .on_panic(move |panic| report.lock().unwrap().push(panic.to_string()));
        Bench { _caught: caught, clock, purgatory: Arc::new(configure(builder).build()), log: Log::default() }
    }

    pub(super) fn probe(&self, number: u32) -> Probe {
        Probe {
            number,
            flag: Arc::default(),
            looks: Arc::default(),
            log: Arc::clone(&self.log),
            in_look: None,
            at_end: None,
            payload: None,
        }
    }

    pub(super) fn register(
        &self,
        op: Probe,
        timeout: Duration,
        keys: &[u32],
    ) -> Result<Registration, RejectReason> {
        Ok(self.purgatory.try_complete_else_watch(op, timeout, keys.iter().copied())?)
    }

    /// Registers an operation that must wait.
    pub(super) fn wait(&self, op: Probe, timeout: Duration, keys: &[u32]) -> Handle {
        let (flag, looks) = (Arc::clone(&op.flag), Arc::clone(&op.looks));
        let id = self.register(op, timeout, keys).expect("accepted").id().expect("waits");
        Handle { id, flag, looks }
    }

    /// Registers a plain probe that must wait.
    pub(super) fn watch(&self, number: u32, timeout: Duration, keys: &[u32]) -> Handle {
        self.wait(self.probe(number), timeout, keys)
    }

    pub(super) fn advance(&self, ms: u64) {
        self.clock.advance(ms_of(ms));
    }

    /// A whole drive; returns how many expired and the last pass.
    pub(super) fn drive(&self) -> (usize, Drive) {
        drive(&self.purgatory)
    }

    /// Takes what was logged.
    pub(super) fn take_log(&self) -> Vec<(u32, Outcome)> {
        std::mem::take(&mut self.log.lock().unwrap())
    }

    /// Fails unless the books balance and exactly so many operations and entries are left.
    pub(super) fn assert_left(&self, operations: usize, watched: usize, keys: usize) {
        let stats = self.purgatory.stats();
        assert!(stats.balances(), "{stats:?}");
        assert_eq!((stats.pending, stats.watched, stats.keys), (operations, watched, keys), "{stats:?}");
        assert_eq!(self.purgatory.len(), operations);
        assert_eq!(self.purgatory.is_empty(), operations == 0);
        assert_eq!((self.purgatory.watched(), self.purgatory.key_count()), (watched, keys));
    }
}

pub(super) fn drive(purgatory: &Shared) -> (usize, Drive) {
    let mut expired = 0;
    loop {
        let pass = purgatory.expire();
        expired += pass.expired;
        if !pass.more {
            return (expired, pass);
        }
    }
}

pub(super) const fn ms_of(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(super) const NEVER: Duration = Duration::MAX;
