//! A purgatory that cannot be wrong: a list of operations, asked one after the other.
//!
//! The properties that [`PurgatoryScript::run`] holds a [`Purgatory`] on one thread to, after each step:
//!
//! 1. The same operations have ended, with the same outcomes, as in the model. With one shard in the same order:
//!    signals by registration, expiries by (tick, registration or last reset), and what a callback causes after it.
//!    With more shards expiries still go by tick.
//! 2. Each call returns what the model's does: counts, registrations, what was handed back.
//! 3. `len`, `watched`, `key_count`, `contains_key` and `next_expiration` are exact.
//! 4. The books balance, and each of their lines is the model's.
//! 5. An operation that has ended is dropped, at once.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use crate::{
    Cancelled, DelayedOperation, HandedBack, ManualClock, OperationId, Outcome, Purgatory, Registration,
    RejectReason, Tick,
};

/// Keys are below this.
pub const KEYS: u8 = 6;

/// A step of a [`PurgatoryScript`]. A number that names an operation is taken modulo the number of all that were ever
/// registered; a key modulo [`KEYS`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PurgatoryStep {
    /// Registers an operation that waits for the flag of its first key (of key 0 if it has none).
    Register {
        /// The timeout in ticks; `u64::MAX` is [`Duration::MAX`].
        timeout: u64,
        /// The keys, some perhaps given twice.
        keys: Vec<u8>,
        /// What its callback does.
        then: Then,
    },
    /// Sets a key's flag, and signals nobody.
    Set(u8),
    /// Clears a key's flag.
    Clear(u8),
    /// Signals a key.
    Check(u8),
    /// Forces an operation.
    Force(usize),
    /// Forces all on a key.
    ForceKey(u8),
    /// Cancels an operation.
    Cancel(usize),
    /// Cancels the first on a key.
    CancelFirst(u8),
    /// Cancels all on a key.
    CancelKey(u8),
    /// Gives an operation a new timeout.
    Reset(usize, u64),
    /// Gives all on a key a new timeout.
    ResetKey(u8, u64),
    /// Moves the clock.
    Advance(u64),
    /// A whole drive.
    Expire,
    /// Shuts down and completes.
    Shutdown,
    /// Shuts down and hands back.
    HandBack,
}

/// What an operation's callback does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Then {
    /// Nothing.
    Nothing,
    /// Sets a key's flag and signals the key.
    Signal(u8),
    /// Forces all on a key.
    Force(u8),
}

/// A sequence of steps on a purgatory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PurgatoryScript {
    /// The tick at which the clock starts.
    pub start: u64,
    /// How many shards.
    pub shards: usize,
    /// How many operations may wait, if that is limited.
    pub capacity: Option<usize>,
    /// What is done.
    pub steps: Vec<PurgatoryStep>,
}

/// What both sides share: the flags that operations wait for, and the ends so far.
type Flags = Rc<RefCell<[bool; KEYS as usize]>>;
type Ends = Rc<RefCell<Vec<(usize, Outcome)>>>;

/// The real operation.
struct Probe {
    number: usize,
    waits_for: u8,
    then: Then,
    flags: Flags,
    ends: Ends,
    purgatory: Rc<RefCell<Option<Rc<Purgatory<u8, Probe>>>>>,
    alive: Rc<Cell<usize>>,
}

impl DelayedOperation for Probe {
    fn try_complete(&mut self) -> bool {
        self.flags.borrow()[usize::from(self.waits_for)]
    }

    fn on_complete(self, outcome: Outcome) {
        self.ends.borrow_mut().push((self.number, outcome));
        let Some(purgatory) = self.purgatory.borrow().clone() else { return };
        match self.then {
            Then::Nothing => {}
            Then::Signal(key) => {
                self.flags.borrow_mut()[usize::from(key)] = true;
                purgatory.check_and_complete(&key);
            }
            Then::Force(key) => drop(purgatory.force_complete_for_key(&key)),
        }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.alive.set(self.alive.get() - 1);
    }
}

/// An operation of the model.
#[derive(Clone)]
struct Waiting {
    number: usize,
    keys: Vec<u8>,
    waits_for: u8,
    deadline: u64,
    /// The order of registering or of the last reset.
    armed: usize,
    then: Then,
}

/// The model: what waits, in order of registration.
#[derive(Default)]
struct Model {
    now: u64,
    waiting: Vec<Waiting>,
    flags: [bool; KEYS as usize],
    ends: Vec<(usize, Outcome)>,
    armed: usize,
    registered: u64,
    cancelled: u64,
    closed: bool,
}

impl Model {
    fn deadline(&self, timeout: u64) -> u64 {
        self.now.saturating_add(timeout)
    }

    fn register(&mut self, op: Waiting, capacity: Option<usize>) -> Result<Option<Outcome>, RejectReason> {
        if self.closed {
            return Err(RejectReason::Shutdown);
        }
        if self.flags[usize::from(op.waits_for)] {
            self.registered += 1;
            self.complete(vec![op], Outcome::Satisfied);
            return Ok(Some(Outcome::Satisfied));
        }
        if capacity.is_some_and(|capacity| self.waiting.len() >= capacity) {
            return Err(RejectReason::Full);
        }
        self.registered += 1;
        self.waiting.push(op);
        Ok(None)
    }

    /// Takes out those that fit, in order of registration.
    fn take(&mut self, fits: impl Fn(&Waiting) -> bool) -> Vec<Waiting> {
        let (taken, left) = self.waiting.drain(..).partition(|op| fits(op));
        self.waiting = left;
        taken
    }

    /// Ends operations that were decided together, one by one. What a callback causes is decided at once and called back
    /// after it, before the next of them.
    fn complete(&mut self, ops: Vec<Waiting>, outcome: Outcome) -> usize {
        let decided = ops.len();
        for op in ops {
            let mut queue = VecDeque::from([(op, outcome)]);
            while let Some((op, outcome)) = queue.pop_front() {
                self.ends.push((op.number, outcome));
                queue.extend(self.cause(op.then));
            }
        }
        decided
    }

    /// What a callback decides.
    fn cause(&mut self, then: Then) -> Vec<(Waiting, Outcome)> {
        let (key, outcome) = match then {
            Then::Nothing => return Vec::new(),
            Then::Signal(key) => (key, Outcome::Satisfied),
            Then::Force(key) => (key, Outcome::Forced),
        };
        if outcome == Outcome::Satisfied {
            self.flags[usize::from(key)] = true;
        }
        let flags = self.flags;
        let fits = |op: &Waiting| {
            op.keys.contains(&key) && (outcome == Outcome::Forced || flags[usize::from(op.waits_for)])
        };
        self.take(fits).into_iter().map(|op| (op, outcome)).collect()
    }

    /// Visits what waits on a key now, in order; each may have been ended by the callback of one before.
    fn visit(&mut self, key: u8, outcome: Outcome, ends: impl Fn(&Waiting, &[bool]) -> bool) -> usize {
        let numbers: Vec<usize> =
            self.waiting.iter().filter(|op| op.keys.contains(&key)).map(|op| op.number).collect();
        let mut decided = 0;
        for number in numbers {
            let flags = self.flags;
            let taken = self.take(|op| op.number == number && ends(op, &flags));
            decided += self.complete(taken, outcome);
        }
        decided
    }

    /// A whole drive: what was due when it began, by (deadline, order of arming). What is due in the same tick is
    /// decided together.
    fn expire(&mut self) -> usize {
        let now = self.now;
        let is_due = |op: &Waiting| op.deadline <= now && op.deadline < u64::MAX;
        let ticks: BTreeSet<u64> =
            self.waiting.iter().filter(|op| is_due(op)).map(|op| op.deadline).collect();
        let mut expired = 0;
        for tick in ticks {
            let mut due = self.take(|op| op.deadline == tick);
            due.sort_by_key(|op| op.armed);
            expired += self.complete(due, Outcome::Expired);
        }
        expired
    }

    fn reset(&mut self, fits: impl Fn(&Waiting) -> bool, timeout: u64) -> usize {
        let deadline = self.deadline(timeout);
        let mut reset = 0;
        for op in self.waiting.iter_mut().filter(|op| fits(op)) {
            self.armed += 1;
            op.deadline = deadline;
            op.armed = self.armed;
            reset += 1;
        }
        reset
    }

    fn cancel(&mut self, fits: impl Fn(&Waiting) -> bool) -> Vec<usize> {
        let taken: Vec<usize> = self.take(fits).into_iter().map(|op| op.number).collect();
        self.cancelled += taken.len() as u64;
        taken
    }

    fn close(&mut self) -> Vec<Waiting> {
        self.closed = true;
        std::mem::take(&mut self.waiting)
    }
}

/// A purgatory and its model, side by side.
struct Pair {
    clock: ManualClock,
    real: Rc<Purgatory<u8, Probe>>,
    back: Rc<RefCell<Option<Rc<Purgatory<u8, Probe>>>>>,
    flags: Flags,
    ends: Ends,
    alive: Rc<Cell<usize>>,
    model: Model,
    /// The id of each operation that waited, by number.
    ids: Vec<Option<OperationId>>,
    shards: usize,
    capacity: Option<usize>,
}

impl PurgatoryScript {
    /// Runs the script on a purgatory and on the model.
    ///
    /// # Panics
    ///
    /// If they differ.
    pub fn run(&self) {
        let clock = ManualClock::new();
        clock.advance_to(ticks(self.start));
        let builder = Purgatory::builder("script").clock(clock.clone()).shards(self.shards).hash_seed(7);
        let builder = match self.capacity {
            Some(capacity) => builder.capacity(capacity),
            None => builder,
        };
        let real = Rc::new(builder.build());
        let mut pair = Pair {
            clock,
            back: Rc::new(RefCell::new(Some(Rc::clone(&real)))),
            real,
            flags: Rc::default(),
            ends: Rc::default(),
            alive: Rc::default(),
            model: Model { now: self.start, ..Model::default() },
            ids: Vec::new(),
            shards: self.shards,
            capacity: self.capacity,
        };
        for step in &self.steps {
            pair.step(step);
            pair.compare(step);
        }
        // The operations hold the purgatory by this cell: emptied, nothing keeps it alive.
        pair.back.borrow_mut().take();
    }
}

impl Pair {
    fn step(&mut self, step: &PurgatoryStep) {
        let Pair { real, model, .. } = self;
        match *step {
            PurgatoryStep::Register { timeout, ref keys, then } => self.register(timeout, keys, then),
            PurgatoryStep::Set(key) => self.set(key, true),
            PurgatoryStep::Clear(key) => self.set(key, false),
            PurgatoryStep::Check(key) => {
                let ended = real.check_and_complete(&(key % KEYS));
                let met = |op: &Waiting, flags: &[bool]| flags[usize::from(op.waits_for)];
                assert_eq!(ended, model.visit(key % KEYS, Outcome::Satisfied, met));
            }
            PurgatoryStep::Force(pick) => {
                let Some((number, id)) = self.pick(pick) else { return };
                let taken = self.model.take(|op| op.number == number);
                assert_eq!(self.real.force_complete(id), self.model.complete(taken, Outcome::Forced) == 1);
            }
            PurgatoryStep::ForceKey(key) => {
                let forced = real.force_complete_for_key(&(key % KEYS));
                assert_eq!(forced, model.visit(key % KEYS, Outcome::Forced, |_, _| true));
            }
            PurgatoryStep::Cancel(pick) => {
                let Some((number, id)) = self.pick(pick) else { return };
                let expected = self.model.cancel(|op| op.number == number);
                assert_eq!(numbers(self.real.cancel(id)), expected);
            }
            PurgatoryStep::CancelFirst(key) => {
                let first = model.waiting.iter().find(|op| op.keys.contains(&(key % KEYS)));
                let first = first.map(|op| op.number);
                let expected = model.cancel(|op| Some(op.number) == first);
                assert_eq!(numbers(real.cancel_first(&(key % KEYS))), expected);
            }
            PurgatoryStep::CancelKey(key) => {
                let expected = model.cancel(|op| op.keys.contains(&(key % KEYS)));
                assert_eq!(taken(real.cancel_for_key(&(key % KEYS))), expected);
            }
            PurgatoryStep::Reset(pick, timeout) => {
                let Some((number, id)) = self.pick(pick) else { return };
                let expected = self.model.reset(|op| op.number == number, timeout) == 1;
                assert_eq!(self.real.reset_timeout(id, ticks(timeout)), expected);
            }
            PurgatoryStep::ResetKey(key, timeout) => {
                let expected = model.reset(|op| op.keys.contains(&(key % KEYS)), timeout);
                assert_eq!(real.reset_timeout_for_key(&(key % KEYS), ticks(timeout)), expected);
            }
            PurgatoryStep::Advance(by) => {
                model.now = model.now.saturating_add(by).min(u64::MAX - 1);
                self.clock.advance_to(ticks(model.now));
            }
            PurgatoryStep::Expire => self.expire(),
            PurgatoryStep::Shutdown => self.shut_down(),
            PurgatoryStep::HandBack => {
                let mut expected: Vec<usize> = model.close().into_iter().map(|op| op.number).collect();
                let mut back = taken(real.shutdown_and_hand_back());
                back.sort_unstable();
                expected.sort_unstable();
                assert_eq!(back, expected);
            }
        }
    }

    fn set(&mut self, key: u8, to: bool) {
        let at = usize::from(key % KEYS);
        self.flags.borrow_mut()[at] = to;
        self.model.flags[at] = to;
    }

    fn pick(&self, pick: usize) -> Option<(usize, OperationId)> {
        let number = pick.checked_rem(self.ids.len())?;
        Some((number, self.ids[number]?))
    }

    fn register(&mut self, timeout: u64, keys: &[u8], then: Then) {
        let keys: Vec<u8> = keys.iter().map(|key| key % KEYS).collect();
        let then = match then {
            Then::Nothing => Then::Nothing,
            Then::Signal(key) => Then::Signal(key % KEYS),
            Then::Force(key) => Then::Force(key % KEYS),
        };
        let (number, waits_for) = (self.ids.len(), keys.first().copied().unwrap_or(0));
        self.model.armed += 1;
        let (deadline, armed) = (self.model.deadline(timeout), self.model.armed);
        let distinct: HashSet<u8> = keys.iter().copied().collect();
        let waiting =
            Waiting { number, keys: distinct.into_iter().collect(), waits_for, deadline, armed, then };
        let probe = Probe {
            number,
            waits_for,
            then,
            flags: Rc::clone(&self.flags),
            ends: Rc::clone(&self.ends),
            purgatory: Rc::clone(&self.back),
            alive: Rc::clone(&self.alive),
        };
        self.alive.set(self.alive.get() + 1);
        let expected = self.model.register(waiting, self.capacity);
        let registration = self.real.try_complete_else_watch(probe, ticks(timeout), keys);
        self.ids.push(registration.as_ref().ok().and_then(Registration::id));
        match registration {
            Ok(Registration::Completed(outcome)) => assert_eq!(expected, Ok(Some(outcome))),
            Ok(Registration::Watched(_)) => assert_eq!(expected, Ok(None)),
            Err(rejected) => assert_eq!(expected, Err(rejected.reason)),
        }
    }

    fn expire(&mut self) {
        let mut expired = 0;
        loop {
            let pass = self.real.expire();
            expired += pass.expired;
            if !pass.more {
                break;
            }
        }
        assert_eq!(expired, self.model.expire());
    }

    /// A shutdown decides everything before the first callback, and then goes in no particular order.
    fn shut_down(&mut self) {
        let ops = self.model.close();
        assert_eq!(self.real.shutdown(), ops.len());
        self.model.complete(ops, Outcome::Shutdown);
    }

    fn compare(&mut self, step: &PurgatoryStep) {
        let Pair { real, model, .. } = self;
        let (mut ends, mut expected) = (self.ends.borrow().clone(), model.ends.clone());
        if self.shards > 1 || matches!(step, PurgatoryStep::Shutdown) {
            // Across shards only the ticks are in order, and a shutdown promises none.
            ends.sort_unstable_by_key(key_of);
            expected.sort_unstable_by_key(key_of);
        }
        assert_eq!(ends, expected, "after {step:?}");
        self.ends.borrow_mut().clear();
        model.ends.clear();
        let stats = real.stats();
        assert!(stats.balances(), "after {step:?}: {stats:?}");
        assert_eq!(
            (stats.registered, stats.cancelled),
            (model.registered, model.cancelled),
            "after {step:?}"
        );
        assert_eq!((real.len(), stats.panics), (model.waiting.len(), 0), "after {step:?}");
        assert_eq!(self.alive.get(), model.waiting.len(), "after {step:?}: what has ended is dropped");
        let watched: usize = model.waiting.iter().map(|op| op.keys.len()).sum();
        let on = |key: u8| model.waiting.iter().any(|op| op.keys.contains(&key));
        let keys = (0..KEYS).filter(|&key| on(key)).count();
        assert_eq!((real.watched(), real.key_count()), (watched, keys), "after {step:?}");
        for key in 0..KEYS {
            assert_eq!(real.contains_key(&key), on(key), "after {step:?}: key {key}");
        }
        let next = model.waiting.iter().map(|op| op.deadline).min().filter(|&deadline| deadline < u64::MAX);
        assert_eq!(real.next_expiration(), next.map(Tick::new), "after {step:?}");
    }
}

fn key_of(end: &(usize, Outcome)) -> usize {
    end.0
}

fn ticks(ticks: u64) -> Duration {
    if ticks == u64::MAX { Duration::MAX } else { Duration::from_millis(ticks) }
}

fn numbers(cancelled: Cancelled<Probe>) -> Vec<usize> {
    assert!(!matches!(cancelled, Cancelled::Busy), "there is only one thread");
    cancelled.taken().iter().map(|op| op.number).collect()
}

fn taken(back: HandedBack<Probe>) -> Vec<usize> {
    assert_eq!(back.busy, 0, "there is only one thread");
    back.taken.iter().map(|op| op.number).collect()
}
