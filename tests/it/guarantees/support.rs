//! An operation that tells all, and a purgatory on a clock that is moved by hand.

pub(crate) use crate::uptime::{clock, start, tick};
use ixion::{
    Clock, DelayedOperation, Drive, ManualClock, OperationId, Outcome, Purgatory, Registration, RejectReason,
    Resolution,
};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How operations ended, in order.
pub(crate) type Log = Arc<Mutex<Vec<(u32, Outcome)>>>;

/// An operation that waits for a flag, counts its looks and logs its end.
pub(crate) struct Probe {
    pub(crate) number: u32,
    pub(crate) flag: Arc<AtomicBool>,
    pub(crate) looks: Arc<AtomicUsize>,
    pub(crate) log: Log,
    /// Runs in every look, before the flag is read.
    pub(crate) in_look: Option<Box<dyn FnMut() + Send>>,
    /// Runs in the callback, after the end is logged.
    pub(crate) at_end: Option<Box<dyn FnOnce(Outcome) + Send>>,
    /// Dropped with the operation.
    pub(crate) payload: Option<Arc<()>>,
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
pub(crate) struct Handle {
    pub(crate) id: OperationId,
    pub(crate) flag: Arc<AtomicBool>,
    pub(crate) looks: Arc<AtomicUsize>,
}

impl Handle {
    pub(crate) fn set(&self) {
        self.flag.store(true, Ordering::SeqCst);
    }
}

pub(crate) type Shared = Arc<Purgatory<u32, Probe>>;

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

pub(crate) struct Bench {
    _caught: Caught,
    pub(crate) clock: ManualClock,
    pub(crate) purgatory: Shared,
    pub(crate) log: Log,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Bench::with(|builder| builder)
    }

    pub(crate) fn with(
        configure: impl FnOnce(ixion::Builder<u32, Probe>) -> ixion::Builder<u32, Probe>,
    ) -> Self {
        let clock = clock(Resolution::MILLISECOND);
        let caught = Caught::default();
        let report = Arc::clone(&caught.0);
        let builder = Purgatory::builder("test")
            .clock(clock.clone())
            .hash_seed(1)
            .on_panic(move |panic| report.lock().unwrap().push(panic.to_string()));
        Bench { _caught: caught, clock, purgatory: Arc::new(configure(builder).build()), log: Log::default() }
    }

    pub(crate) fn probe(&self, number: u32) -> Probe {
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

    pub(crate) fn register(
        &self,
        op: Probe,
        timeout: Duration,
        keys: &[u32],
    ) -> Result<Registration, RejectReason> {
        Ok(self.purgatory.try_complete_else_watch(op, timeout, keys.iter().copied())?)
    }

    /// Registers an operation that must wait.
    pub(crate) fn wait(&self, op: Probe, timeout: Duration, keys: &[u32]) -> Handle {
        let (flag, looks) = (Arc::clone(&op.flag), Arc::clone(&op.looks));
        let id = self.register(op, timeout, keys).expect("accepted").id().expect("waits");
        Handle { id, flag, looks }
    }

    /// Registers a plain probe that must wait.
    pub(crate) fn watch(&self, number: u32, timeout: Duration, keys: &[u32]) -> Handle {
        self.wait(self.probe(number), timeout, keys)
    }

    pub(crate) fn advance(&self, ms: u64) {
        self.clock.advance(ms_of(ms));
    }

    /// How long the clock has been running since its start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.clock.elapsed() - ms_of(start())
    }

    /// Moves the clock to so long after its start.
    pub(crate) fn advance_to(&self, after: Duration) {
        self.clock.advance_to(ms_of(start()) + after);
    }

    /// A whole drive; returns how many expired and the last pass.
    pub(crate) fn drive(&self) -> (usize, Drive) {
        drive(&self.purgatory)
    }

    /// Takes what was logged.
    pub(crate) fn take_log(&self) -> Vec<(u32, Outcome)> {
        std::mem::take(&mut self.log.lock().unwrap())
    }

    /// Fails unless the books balance and exactly so many operations and entries are left.
    pub(crate) fn assert_left(&self, operations: usize, watched: usize, keys: usize) {
        let stats = self.purgatory.stats();
        assert!(stats.balances(), "{stats:?}");
        assert_eq!((stats.pending, stats.watched, stats.keys), (operations, watched, keys), "{stats:?}");
        assert_eq!(self.purgatory.len(), operations);
        assert_eq!(self.purgatory.is_empty(), operations == 0);
        assert_eq!((self.purgatory.watched(), self.purgatory.key_count()), (watched, keys));
    }
}

pub(crate) fn drive(purgatory: &Shared) -> (usize, Drive) {
    let mut expired = 0;
    loop {
        let pass = purgatory.expire();
        expired += pass.expired;
        if !pass.more {
            return (expired, pass);
        }
    }
}

pub(crate) const fn ms_of(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) const NEVER: Duration = Duration::MAX;
