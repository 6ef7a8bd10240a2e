//! Scripts that a purgatory and its model go through side by side.
//!
//! The properties that [`PurgatoryScript::run`] holds a [`Purgatory`](crate::Purgatory) on one thread to, after each step:
//!
//! 1. The same operations were looked at and have ended, in the same order and with the same outcomes, as in the model:
//!    signals by registration, those at a number by number and as far as the signal has come; expiries by (tick,
//!    registration or last reset), each in the first drive that reads its deadline; and what a callback causes after it.
//! 2. Each call returns what the model's does, calls made in callbacks and in looks too.
//! 3. `len`, `watched`, `key_count`, `contains_key`, `next_expiration` and `time_to_next` are exact.
//! 4. The books balance, and each of their lines is the model's. Panics are as many as were thrown, and each was told.
//! 5. An operation that has ended is dropped at once, and so is a key that nobody waits on.
//! 6. An earlier deadline calls the hook, a later one does not.
//!
//! Within a tick, shards go in an order that is not promised but always the same; the model learns it beforehand. A
//! shutdown promises no order, so the step that shuts down is compared without one.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::testing::purgatory_model::Model;
use crate::testing::purgatory_world::{self, InPlaces, Place, World};
use crate::testing::sim::Fault;
use crate::{Outcome, RejectReason, Stats, Tick};

/// Keys are taken modulo this.
pub const KEYS: u8 = 16;

/// A step of a [`PurgatoryScript`], or a call that a callback or a look makes. A number that names an operation is taken
/// modulo the number of all that were ever made; a key modulo [`KEYS`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PurgatoryStep {
    /// Registers an operation.
    Register(Arc<Plan>),
    /// Registers so many operations with one plan.
    Crowd(Arc<Plan>, usize),
    /// Sets a key's flag, and signals nobody.
    Set(u8),
    /// Clears a key's flag.
    Clear(u8),
    /// Signals a key. Not in a look, which must not.
    Check(u8),
    /// Signals a key whose progress has come so far. Not in a look.
    CheckUpTo(u8, u64),
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
    Reset(usize, Duration),
    /// Gives all on a key a new timeout.
    ResetKey(u8, Duration),
    /// Moves the clock on.
    Advance(Duration),
    /// Steps the clock back.
    StepBack(Duration),
    /// One pass of a drive.
    Pass,
    /// A whole drive, or the rest of one.
    Expire,
    /// Shuts down and completes.
    Shutdown,
    /// Shuts down and hands back.
    HandBack,
    /// Arms a panic, or disarms it.
    Flip(Fuse),
}

/// What an operation waits for, and what it does.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// The timeout.
    pub timeout: Duration,
    /// The keys, some perhaps given twice. It waits for the flag of the first; of key 0 if it has none. With more than
    /// one shard at most eight.
    pub keys: Vec<u8>,
    /// For each of the keys at which number it waits there, if at one.
    pub at: Vec<Option<u64>>,
    /// After its n-th look, its m-th watch moves to the (n + m - 1)-th of these, if it is at a number. At most twelve, since
    /// one that falls more often tires its holder, which the model does not know.
    pub asks: Vec<u64>,
    /// What its callback calls.
    pub then: Vec<PurgatoryStep>,
    /// What one of its looks calls.
    pub in_look: Vec<PurgatoryStep>,
    /// Which look that is; the first is 1.
    pub look: u32,
    /// Where it panics.
    pub panics: Panics,
}

/// Leaves out what the plan does not do.
impl Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut plan = f.debug_struct("Plan");
        plan.field("timeout", &self.timeout).field("keys", &self.keys);
        if !self.at.is_empty() {
            plan.field("at", &self.at).field("asks", &self.asks);
        }
        if !self.then.is_empty() {
            plan.field("then", &self.then);
        }
        if !self.in_look.is_empty() {
            plan.field("in_look", &self.in_look).field("look", &self.look);
        }
        if self.panics != Panics::default() {
            plan.field("panics", &self.panics);
        }
        plan.finish()
    }
}

/// Where an operation panics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Panics {
    /// In this look; the first is 1, and 0 is none.
    pub look: u32,
    /// When it is asked for a number after this look.
    pub ask: u32,
    /// At the end of its callback.
    pub end: bool,
    /// When it is dropped by the engine.
    pub drop: bool,
}

/// What else may panic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fuse {
    /// The destructor of a key.
    Key(u8),
    /// The hook for earlier deadlines.
    Deadlines,
    /// The hook for panics.
    Panics,
}

/// A purgatory, and a sequence of steps on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PurgatoryScript {
    /// The tick in which the clock starts.
    pub start: u64,
    /// The length of a tick.
    pub tick: Duration,
    /// How many shards.
    pub shards: usize,
    /// How many operations may wait, if that is limited.
    pub capacity: Option<usize>,
    /// The greatest timeout.
    pub max_timeout: Duration,
    /// What is done.
    pub steps: Vec<PurgatoryStep>,
}

impl Default for PurgatoryScript {
    fn default() -> Self {
        PurgatoryScript {
            start: 0,
            tick: Duration::from_millis(1),
            shards: 1,
            capacity: None,
            max_timeout: Duration::MAX,
            steps: Vec::new(),
        }
    }
}

impl PurgatoryScript {
    /// Runs the script on a purgatory and on the model.
    ///
    /// # Panics
    ///
    /// If they differ, with the number of the step.
    pub fn run(&self) {
        if let Err(failure) = Run::new(self, None).run() {
            panic!("{}", failure.describe(self));
        }
    }

    /// When the clock starts.
    pub(super) fn start(&self) -> Duration {
        duration(u128::from(self.start) * self.tick.as_nanos())
    }
}

impl PurgatoryStep {
    /// A name for its kind.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            PurgatoryStep::Register(_) => "register",
            PurgatoryStep::Crowd(..) => "crowd",
            PurgatoryStep::Set(_) => "set",
            PurgatoryStep::Clear(_) => "clear",
            PurgatoryStep::Check(_) => "check",
            PurgatoryStep::CheckUpTo(..) => "check up to",
            PurgatoryStep::Force(_) => "force",
            PurgatoryStep::ForceKey(_) => "force for key",
            PurgatoryStep::Cancel(_) => "cancel",
            PurgatoryStep::CancelFirst(_) => "cancel first",
            PurgatoryStep::CancelKey(_) => "cancel for key",
            PurgatoryStep::Reset(..) => "reset",
            PurgatoryStep::ResetKey(..) => "reset for key",
            PurgatoryStep::Advance(_) => "advance",
            PurgatoryStep::StepBack(_) => "step back",
            PurgatoryStep::Pass => "pass",
            PurgatoryStep::Expire => "expire",
            PurgatoryStep::Shutdown => "shutdown",
            PurgatoryStep::HandBack => "hand back",
            PurgatoryStep::Flip(_) => "flip",
        }
    }

    /// What is special about it.
    pub(super) fn traits(&self) -> [Option<&'static str>; 3] {
        const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
        match self {
            PurgatoryStep::Register(plan) | PurgatoryStep::Crowd(plan, _) => {
                let timeout = match plan.timeout {
                    Duration::ZERO => "no timeout",
                    Duration::MAX => "no end",
                    timeout if timeout >= YEAR => "a timeout of years",
                    _ => "a timeout",
                };
                let keys = match plan.keys.len() {
                    0 => "no key",
                    1 => "one key",
                    2..=8 => "some keys",
                    _ => "many keys",
                };
                let numbers = match (&plan.at[..], &plan.asks[..]) {
                    ([], _) => None,
                    (_, []) => Some("at a number"),
                    (_, asks) if asks.is_sorted() => Some("at numbers that rise"),
                    _ => Some("at numbers that rise and fall"),
                };
                [Some(timeout), Some(keys), numbers]
            }
            PurgatoryStep::Advance(Duration::ZERO) => [Some("the clock stands still"), None, None],
            PurgatoryStep::Advance(by) if *by >= YEAR => [Some("the clock jumps by years"), None, None],
            _ => [None; 3],
        }
    }
}

/// What can be seen from outside while a step runs.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Event {
    Looked(usize),
    Ended(usize, Outcome),
    /// A call returned a count, or a yes as 1.
    Count(usize),
    /// An operation was accepted, and perhaps over when the call returned.
    Accepted(usize, Option<Outcome>),
    Rejected(usize, RejectReason),
    /// Operations came back, and so many were busy.
    Back(Vec<usize>, usize),
    Pass {
        expired: usize,
        more: bool,
        next: Option<Tick>,
    },
}

impl Event {
    /// What is special about it.
    pub(super) fn kind(&self) -> Option<&'static str> {
        match self {
            Event::Accepted(_, Some(_)) => Some("over at once"),
            Event::Rejected(_, RejectReason::Full) => Some("rejected: full"),
            Event::Rejected(_, RejectReason::Shutdown) => Some("rejected: shut down"),
            Event::Back(_, 1..) => Some("came back busy"),
            Event::Pass { more: true, .. } => Some("a pass left more"),
            _ => None,
        }
    }
}

/// Where a purgatory and its model differ.
pub(super) struct Failure {
    /// The number of the step; that of the steps if it was after the last.
    pub(super) step: usize,
    what: String,
    /// The last steps, and what was seen in each.
    last: Vec<(usize, Vec<Event>)>,
}

impl Failure {
    pub(super) fn describe(&self, script: &PurgatoryScript) -> String {
        let PurgatoryScript { start, tick, shards, capacity, max_timeout, steps } = script;
        let mut text = format!("at step {} of {}: {}\n", self.step, steps.len(), self.what);
        text += &format!(
            "on {shards} shards from tick {start} of {tick:?}, capacity {capacity:?}, timeouts up to {max_timeout:?}\n"
        );
        for (number, events) in &self.last {
            text += &line(script, *number, events);
        }
        text
    }
}

/// A step and what was seen in it, on one line.
pub(super) fn line(script: &PurgatoryScript, number: usize, events: &[Event]) -> String {
    const FEW: usize = 20;
    let step =
        script.steps.get(number).map_or("the purgatory is dropped".to_owned(), |step| format!("{step:?}"));
    let more = match events.len().saturating_sub(FEW) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("  {number}: {step} -> {:?}{more}\n", &events[..events.len().min(FEW)])
}

/// A purgatory and its model, side by side.
pub(super) struct Run<'a> {
    script: &'a PurgatoryScript,
    world: Rc<World>,
    model: Model,
    /// Of all events and books.
    digest: DefaultHasher,
    last: Vec<(usize, Vec<Event>)>,
    /// How many steps of `last` are kept.
    keep: usize,
}

/// What a run was like.
pub(super) struct Seen {
    pub(super) digest: u64,
    pub(super) books: Stats,
    /// How many panics there were, by place.
    pub(super) thrown: InPlaces,
    /// How often each kind of step was taken, and where.
    pub(super) covered: BTreeMap<(Place, &'static str), u64>,
    pub(super) steps: Vec<(usize, Vec<Event>)>,
}

impl<'a> Run<'a> {
    pub(super) fn new(script: &'a PurgatoryScript, fault: Option<Fault>) -> Self {
        let world = World::new(script, fault);
        let model = Model::new(script, purgatory_world::homes(script.shards));
        Run { script, world, model, digest: DefaultHasher::new(), last: Vec::new(), keep: 12 }
    }

    /// Keeps what was seen in every step, not only in the last ones.
    pub(super) fn keep_all(mut self) -> Self {
        self.keep = usize::MAX;
        self
    }

    pub(super) fn run(mut self) -> Result<Seen, Failure> {
        let steps = &self.script.steps;
        for (number, step) in steps.iter().enumerate() {
            let closed = self.model.closed;
            let performed = catch_unwind(AssertUnwindSafe(|| self.world.perform(step)));
            performed.map_err(|_| self.fail(number, "the call panicked".to_owned()))?;
            self.model.cuts = self.world.cuts();
            self.model.perform(step);
            let closes = self.model.closed != closed;
            self.compare(number, closes)
                .and_then(|()| self.compare_counts())
                .map_err(|what| self.fail(number, what))?;
        }
        let books = self.model.books(self.world.thrown().iter().sum());
        self.world.drop_purgatory();
        self.model.drop_purgatory();
        self.compare(steps.len(), true)
            .and_then(|()| same("operations and keys at the end", self.world.alive(), (0, 0)))
            .map_err(|what| self.fail(steps.len(), what))?;
        let covered = self.world.covered();
        let thrown = self.world.thrown();
        Ok(Seen { digest: self.digest.finish(), books, thrown, covered, steps: self.last })
    }

    fn fail(&mut self, step: usize, what: String) -> Failure {
        // The operations and the purgatory hold each other.
        let _ = catch_unwind(AssertUnwindSafe(|| self.world.drop_purgatory()));
        Failure { step, what, last: std::mem::take(&mut self.last) }
    }

    /// What happened. `unordered`: in whatever order.
    fn compare(&mut self, number: usize, unordered: bool) -> Result<(), String> {
        let (mut seen, mut expected) = (self.world.take_events(), std::mem::take(&mut self.model.events));
        seen.hash(&mut self.digest);
        if self.last.len() >= self.keep {
            self.last.remove(0);
        }
        self.last.push((number, seen.clone()));
        if unordered {
            seen.sort_by_cached_key(|event| format!("{event:?}"));
            expected.sort_by_cached_key(|event| format!("{event:?}"));
        }
        let at = seen.iter().zip(&expected).take_while(|(seen, expected)| seen == expected).count();
        same(&format!("what happened, event {at}"), seen.get(at), expected.get(at))
    }

    /// What is left, and the books.
    fn compare_counts(&mut self) -> Result<(), String> {
        let Run { world, model, .. } = self;
        let real = world.purgatory();
        let books = model.books(world.thrown().iter().sum());
        let stats = real.stats();
        // How the engine goes about it is its own business, but for who is woken.
        same("the books", stats, Stats { work: stats.work, ..books })?;
        same("whether the books balance", stats.balances(), true)?;
        same("how often the driver was woken", stats.work.rings, model.rung)?;
        let waited = books.ended() - books.at_once;
        same("expiries whose lateness is known", real.lateness().count(), books.expired)?;
        same("ends whose wait is known", real.waits().map(|waits| waits.count()), Some(waited))?;
        same("len and is_empty", (real.len(), real.is_empty()), (books.pending, books.pending == 0))?;
        same("watched and key_count", (real.watched(), real.key_count()), (books.watched, books.keys))?;
        same("operations and keys that live", world.alive(), (books.pending, books.keys))?;
        let contains: Vec<bool> = (0..KEYS).map(|key| real.contains_key(&key)).collect();
        same("contains_key", contains, (0..KEYS).map(|key| model.is_watched(key)).collect())?;
        same("calls of the hook for earlier deadlines", world.rung(), model.rung)?;
        same("panics told", world.told(), world.thrown())?;
        let next = model.next_expiration();
        same("next_expiration", real.next_expiration(), next.map(Tick::new))?;
        same("time_to_next", real.time_to_next(), next.map(|next| model.time_to(next)))?;
        same("is_shutdown", real.is_shutdown(), model.closed)?;
        books.registered.hash(&mut self.digest);
        Ok(())
    }
}

fn same<T: PartialEq + Debug>(what: &str, seen: T, expected: T) -> Result<(), String> {
    if seen == expected {
        Ok(())
    } else {
        Err(format!("{what}\n  seen:     {seen:?}\n  expected: {expected:?}"))
    }
}

/// Saturates.
pub(super) fn duration(nanos: u128) -> Duration {
    const NANOS: u128 = 1_000_000_000;
    u64::try_from(nanos / NANOS).map_or(Duration::MAX, |secs| Duration::new(secs, (nanos % NANOS) as u32))
}
