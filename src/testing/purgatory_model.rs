//! A purgatory that cannot be wrong: a list of operations, asked one after the other.
//!
//! It knows the contract and nothing of the engine: time is nanoseconds in 128 bits, every question is a walk over the
//! list. Three things it must be told, or know from the engine, because one thread sees them and the contract leaves them
//! open: which keys live together, how many expiries are decided before the first callback, and, within bounds, after how
//! many a pass ends.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::testing::purgatory_script::{Event, KEYS, Plan, PurgatoryScript, PurgatoryStep, duration};
use crate::testing::purgatory_waiting::{Waiting, watches};
use crate::{Outcome, RejectReason, Stats, Tick};

const NEVER: u64 = u64::MAX;
/// What is due in the same tick is decided together, up to so many.
const TOGETHER: usize = 64;
/// No pass is longer, but for the rest of what is decided together.
const PASS: usize = 1024;
/// With so many that wait a pass may be cut short. It counts the moves down the wheel too, which are not known here.
const CROWD: usize = 512;

enum Decision {
    Held,
    Left,
    Lost,
}

/// The model: what waits, in order of registration.
#[derive(Default)]
pub(super) struct Model {
    now: Duration,
    tick: u128,
    max_timeout: Duration,
    capacity: usize,
    /// The shard of each key.
    homes: Vec<usize>,
    flags: [bool; KEYS as usize],
    ops: Vec<Waiting>,
    /// For each operation that was ever made, whether it has an id.
    known: Vec<bool>,
    armed: u64,
    drive: u64,
    /// The present of a drive that is not over.
    unfinished: Option<u64>,
    /// The deadline that was last asked for, or an earlier one since.
    alarm: u64,
    /// How often the hook for earlier deadlines was called.
    pub(super) rung: u64,
    /// After how many expiries the passes of this step ended that left more.
    pub(super) cuts: VecDeque<usize>,
    /// Ends that were decided in a callback and are called back after it.
    put_off: VecDeque<(usize, Arc<Plan>, Outcome)>,
    /// How many calls we are in.
    depth: u32,
    counts: Stats,
    pub(super) closed: bool,
    dropped: bool,
    pub(super) events: Vec<Event>,
}

impl Model {
    pub(super) fn new(script: &PurgatoryScript, homes: Vec<usize>) -> Self {
        Model {
            now: script.start(),
            tick: script.tick.as_nanos(),
            max_timeout: script.max_timeout,
            capacity: script.capacity.unwrap_or(usize::MAX),
            homes,
            alarm: NEVER,
            ..Model::default()
        }
    }

    pub(super) fn perform(&mut self, step: &PurgatoryStep) {
        if self.dropped {
            return;
        }
        match *step {
            PurgatoryStep::Register(ref plan) => self.register(plan),
            PurgatoryStep::Crowd(ref plan, count) => (0..count).for_each(|_| self.register(plan)),
            PurgatoryStep::Set(key) => self.flags[usize::from(key % KEYS)] = true,
            PurgatoryStep::Clear(key) => self.flags[usize::from(key % KEYS)] = false,
            PurgatoryStep::Check(key) => self.count(|model| model.signal(key, u64::MAX)),
            PurgatoryStep::CheckUpTo(key, progress) => self.count(|model| model.signal(key, progress)),
            PurgatoryStep::Force(pick) => {
                let number = self.pick(pick);
                self.count(|model| usize::from(model.force(number)));
            }
            PurgatoryStep::ForceKey(key) => self.count(|model| model.visit(key, Model::force)),
            PurgatoryStep::Cancel(pick) => {
                let number = self.pick(pick);
                self.cancel(vec![number], 1);
            }
            PurgatoryStep::CancelFirst(key) => self.cancel(self.on(key), 1),
            PurgatoryStep::CancelKey(key) => self.cancel(self.on(key), usize::MAX),
            PurgatoryStep::Reset(pick, timeout) => {
                let number = self.pick(pick);
                self.count(|model| usize::from(model.reset(number, timeout)));
            }
            PurgatoryStep::ResetKey(key, timeout) => {
                self.count(|model| model.visit(key, |model, number| model.reset(number, timeout)));
            }
            PurgatoryStep::Advance(by) => self.now = self.now.saturating_add(by),
            PurgatoryStep::StepBack(by) => self.now = self.now.saturating_sub(by),
            PurgatoryStep::Pass => {
                self.expire();
            }
            PurgatoryStep::Expire => while self.expire() {},
            PurgatoryStep::Shutdown => self.count(Model::shut_down),
            PurgatoryStep::HandBack => self.hand_back(),
            PurgatoryStep::Flip(_) => {}
        }
    }

    pub(super) fn drop_purgatory(&mut self) {
        self.dropped = true;
        self.call(Model::shut_down);
    }

    /// The books, of which the panics are what was thrown.
    pub(super) fn books(&self, panics: u64) -> Stats {
        Stats {
            pending: self.ops.len(),
            watched: self.ops.iter().map(|op| op.watches.len()).sum(),
            keys: (0..KEYS).filter(|&key| self.is_watched(key)).count(),
            panics,
            ..self.counts
        }
    }

    pub(super) fn is_watched(&self, key: u8) -> bool {
        self.ops.iter().any(|op| op.on(key).is_some())
    }

    /// The earliest deadline. Asking for it is a promise to come.
    pub(super) fn next_expiration(&mut self) -> Option<u64> {
        self.alarm = self.ops.iter().filter(|op| op.timed).map(|op| op.deadline).min().unwrap_or(NEVER);
        (self.alarm != NEVER).then_some(self.alarm)
    }

    pub(super) fn time_to(&self, tick: u64) -> Duration {
        duration(u128::from(tick) * self.tick).saturating_sub(self.now)
    }

    /// Runs what is a call into the engine. What it puts off runs before the outermost returns.
    fn call<R>(&mut self, call: impl FnOnce(&mut Self) -> R) -> R {
        self.depth += 1;
        let returned = call(self);
        self.catch_up();
        self.depth -= 1;
        returned
    }

    fn count(&mut self, call: impl FnOnce(&mut Self) -> usize) {
        let count = self.call(call);
        self.events.push(Event::Count(count));
    }

    fn catch_up(&mut self) {
        while self.depth == 1
            && let Some((number, plan, outcome)) = self.put_off.pop_front()
        {
            self.answer(number, &plan, outcome);
        }
    }

    /// Calls back: at once, but after what looks have put off; in a callback or a look, later.
    fn complete(&mut self, number: usize, plan: Arc<Plan>, outcome: Outcome) {
        self.catch_up();
        if self.depth == 1 {
            self.answer(number, &plan, outcome);
            self.catch_up();
        } else {
            self.put_off.push_back((number, plan, outcome));
        }
    }

    fn answer(&mut self, number: usize, plan: &Plan, outcome: Outcome) {
        self.events.push(Event::Ended(number, outcome));
        plan.then.iter().for_each(|step| self.perform(step));
    }

    /// The outcome that a look decides.
    fn look(&mut self, number: usize, plan: &Plan, look: u32) -> Option<Outcome> {
        self.events.push(Event::Looked(number));
        if look == plan.look {
            plan.in_look.iter().for_each(|step| self.perform(step));
        }
        if look == plan.panics.look {
            return Some(Outcome::Panicked);
        }
        self.flags[first(plan)].then_some(Outcome::Satisfied)
    }

    fn register(&mut self, plan: &Arc<Plan>) {
        let number = self.known.len();
        self.known.push(false);
        let event = match self.call(|model| model.accept(number, plan)) {
            Ok(outcome) => Event::Accepted(number, outcome),
            Err(reason) => {
                let full = reason == RejectReason::Full;
                self.counts.rejected_full += u64::from(full);
                self.counts.rejected_shutdown += u64::from(!full);
                Event::Rejected(number, reason)
            }
        };
        self.known[number] = event == Event::Accepted(number, None);
        self.events.push(event);
    }

    fn accept(&mut self, number: usize, plan: &Arc<Plan>) -> Result<Option<Outcome>, RejectReason> {
        if self.closed {
            return Err(RejectReason::Shutdown);
        }
        if let Some(outcome) = self.look(number, plan, 1) {
            self.counts.registered += 1;
            self.counts.at_once += 1;
            self.count_end(outcome);
            self.complete(number, Arc::clone(plan), outcome);
            return Ok(Some(outcome));
        }
        let watches = watches(plan);
        let home = watches.first().map_or(0, |first| self.homes[usize::from(first.key)]);
        if self.ops.len() >= self.capacity {
            return Err(RejectReason::Full);
        }
        if self.closed {
            return Err(RejectReason::Shutdown);
        }
        self.counts.registered += 1;
        let (deadline, armed, drive, decided) = (NEVER, 0, 0, None);
        let (held, timed, looks, plan) = (true, true, 1, Arc::clone(plan));
        let timeout = plan.timeout;
        self.ops.push(Waiting {
            number,
            plan,
            watches,
            home,
            deadline,
            armed,
            drive,
            looks,
            held,
            decided,
            timed,
        });
        self.arm(number, timeout);
        Ok(self.hold(number).map(|(outcome, _)| outcome))
    }

    fn arm(&mut self, number: usize, timeout: Duration) {
        let deadline = self.deadline(timeout.min(self.max_timeout));
        self.counts.clamped += u64::from(timeout > self.max_timeout);
        self.armed += 1;
        let (armed, drive) = (self.armed, self.drive);
        let op = self.find(number).expect("it was found");
        (op.deadline, op.armed, op.drive) = (deadline, armed, drive);
        if deadline < self.alarm {
            self.alarm = deadline;
            self.rung += 1;
        }
    }

    /// The exact instant rounded up to a tick; a time that is over as it begins, down.
    fn deadline(&self, timeout: Duration) -> u64 {
        if timeout.is_zero() {
            return self.ticks();
        }
        let instant = self.now.checked_add(timeout).filter(|_| timeout != Duration::MAX);
        instant.map_or(NEVER, |at| u64::try_from(at.as_nanos().div_ceil(self.tick)).unwrap_or(NEVER))
    }

    /// The tick that the clock is in.
    fn ticks(&self) -> u64 {
        u64::try_from(self.now.as_nanos() / self.tick).unwrap_or(NEVER).min(NEVER - 1)
    }

    fn find(&mut self, number: usize) -> Option<&mut Waiting> {
        self.ops.iter_mut().find(|op| op.number == number)
    }

    /// The number of an operation that has an id, else one that no operation has.
    fn pick(&self, pick: usize) -> usize {
        let number = pick.checked_rem(self.known.len());
        number.filter(|&number| self.known[number]).unwrap_or(usize::MAX)
    }

    /// Who waits on a key now, in order of registration; those at a number after the others.
    fn on(&self, key: u8) -> Vec<usize> {
        let on = |op: &Waiting| op.on(key % KEYS).map(|on| (on.number().is_some(), op.number));
        let mut on: Vec<(bool, usize)> = self.ops.iter().filter_map(on).collect();
        on.sort_by_key(|(at_a_number, _)| *at_a_number);
        on.into_iter().map(|(_, number)| number).collect()
    }

    /// Looks at those on a key, of those at a number by number as far as that. Counts the ends.
    fn signal(&mut self, key: u8, up_to: u64) -> usize {
        let on = |op: &Waiting| op.on(key % KEYS).map(|on| (on.number(), op.number));
        let mut on: Vec<(Option<u64>, usize)> = self.ops.iter().filter_map(on).collect();
        on.retain(|(at, _)| *at <= Some(up_to));
        on.sort_by_key(|(at, _)| *at);
        on.into_iter().filter(|(_, number)| self.check(*number)).count()
    }

    /// Visits those on a key; each may have been ended by the callback of one before. Counts the yesses.
    fn visit(&mut self, key: u8, visit: impl Fn(&mut Self, usize) -> bool) -> usize {
        self.on(key).into_iter().filter(|&number| visit(self, number)).count()
    }

    fn decide(&mut self, number: usize, outcome: Outcome) -> Decision {
        match self.find(number) {
            Some(op) if op.decided.is_none() => {
                op.decided = Some(outcome);
                if std::mem::replace(&mut op.held, true) { Decision::Left } else { Decision::Held }
            }
            _ => Decision::Lost,
        }
    }

    /// Looks once at an operation that is held, and again while it goes to lower numbers; then lets go or ends it: with
    /// what outcome, and whether this look decided it.
    fn hold(&mut self, number: usize) -> Option<(Outcome, bool)> {
        let op = self.find(number).expect("a held operation waits");
        op.looks += 1;
        let (plan, looks) = (Arc::clone(&op.plan), op.looks);
        let mut answer = self.look(number, &plan, looks);
        let op = self.find(number).expect("a held operation waits");
        if answer.is_none() && op.has_numbers() {
            if looks == plan.panics.ask {
                answer = Some(Outcome::Panicked);
            } else if op.move_on() && op.decided.is_none() {
                return self.hold(number);
            }
        }
        let op = self.find(number).expect("a held operation waits");
        let mine = op.decided.is_none();
        op.held = false;
        let outcome = op.decided.or(answer)?;
        self.end(number, outcome);
        Some((outcome, mine))
    }

    fn check(&mut self, number: usize) -> bool {
        let Some(op) = self.find(number).filter(|op| !op.held) else { return false };
        op.held = true;
        self.hold(number).is_some_and(|(_, mine)| mine)
    }

    fn force(&mut self, number: usize) -> bool {
        match self.decide(number, Outcome::Forced) {
            Decision::Held => self.end(number, Outcome::Forced),
            Decision::Left => {}
            Decision::Lost => return false,
        }
        true
    }

    /// Cancels the first so many of those named.
    fn cancel(&mut self, numbers: Vec<usize>, limit: usize) {
        let (mut taken, mut busy) = (Vec::new(), 0);
        for number in numbers {
            if taken.len() + busy == limit {
                break;
            }
            match self.decide(number, Outcome::Cancelled) {
                Decision::Held => taken.push(self.take_out(number, Outcome::Cancelled).number),
                Decision::Left => busy += 1,
                Decision::Lost => {}
            }
        }
        self.events.push(Event::Back(taken, busy));
    }

    fn reset(&mut self, number: usize, timeout: Duration) -> bool {
        let waits = self.find(number).is_some_and(|op| op.decided.is_none());
        if waits {
            self.arm(number, timeout);
        }
        waits
    }

    /// Takes out a decided operation and counts its end.
    fn take_out(&mut self, number: usize, outcome: Outcome) -> Waiting {
        self.count_end(outcome);
        let at = self.ops.iter().position(|op| op.number == number).expect("it waits until it is taken out");
        self.ops.remove(at)
    }

    fn count_end(&mut self, outcome: Outcome) {
        let line = match outcome {
            Outcome::Satisfied => &mut self.counts.satisfied,
            Outcome::Expired => &mut self.counts.expired,
            Outcome::Forced => &mut self.counts.forced,
            Outcome::Cancelled => &mut self.counts.cancelled,
            Outcome::Shutdown => &mut self.counts.shut_down,
            Outcome::Panicked => &mut self.counts.panicked,
        };
        *line += 1;
    }

    fn end(&mut self, number: usize, outcome: Outcome) {
        let op = self.take_out(number, outcome);
        self.complete(number, op.plan, outcome);
    }

    /// One pass of a drive. Returns whether there is more to do.
    fn expire(&mut self) -> bool {
        let (expired, more) = self.call(Model::pass);
        let next = self.next_expiration().map(Tick::new);
        self.events.push(Event::Pass { expired, more, next });
        more
    }

    /// Expires what was due when the drive began, by (tick, shard, order of arming).
    fn pass(&mut self) -> (usize, bool) {
        let now = self.unfinished.unwrap_or_else(|| {
            self.drive += 1;
            self.ticks()
        });
        let drive = self.drive;
        let is_due = |op: &Waiting| op.timed && op.deadline <= now && op.drive < drive;
        let mut expired = 0;
        let more = loop {
            if self.cuts.front() == Some(&expired) && expired + self.ops.len() > CROWD {
                self.cuts.pop_front();
                break true;
            }
            let due = self.ops.iter().filter(|op| is_due(op));
            let Some((tick, shard)) = due.map(|op| (op.deadline, op.home)).min() else { break false };
            if expired >= PASS {
                break true;
            }
            let together = |op: &&mut Waiting| is_due(op) && (op.deadline, op.home) == (tick, shard);
            let mut due: Vec<&mut Waiting> = self.ops.iter_mut().filter(together).collect();
            due.sort_by_key(|op| op.armed);
            due.truncate(TOGETHER);
            due.iter_mut().for_each(|op| op.timed = false);
            let batch = due.into_iter().map(|op| op.number).collect();
            expired += self.expire_together(batch);
        };
        self.unfinished = more.then_some(now);
        (expired, more)
    }

    fn expire_together(&mut self, batch: Vec<usize>) -> usize {
        let mut expired = 0;
        let mut ended = Vec::new();
        for number in batch {
            match self.decide(number, Outcome::Expired) {
                Decision::Held => ended.push(self.take_out(number, Outcome::Expired)),
                Decision::Left => {}
                Decision::Lost => continue,
            }
            expired += 1;
        }
        for op in ended {
            self.complete(op.number, op.plan, Outcome::Expired);
        }
        expired
    }

    /// Decides all that waits: who is to be ended, and how many a look is inside of.
    fn sweep(&mut self) -> (Vec<usize>, usize) {
        if std::mem::replace(&mut self.closed, true) {
            return (Vec::new(), 0);
        }
        let numbers: Vec<usize> = self.ops.iter().filter(|op| op.timed).map(|op| op.number).collect();
        self.ops.iter_mut().for_each(|op| op.timed = false);
        let (mut held, mut busy) = (Vec::new(), 0);
        for number in numbers {
            match self.decide(number, Outcome::Shutdown) {
                Decision::Held => held.push(number),
                Decision::Left => busy += 1,
                Decision::Lost => {}
            }
        }
        (held, busy)
    }

    fn shut_down(&mut self) -> usize {
        let (held, busy) = self.sweep();
        let decided = held.len() + busy;
        held.into_iter().for_each(|number| self.end(number, Outcome::Shutdown));
        decided
    }

    fn hand_back(&mut self) {
        let (mut held, busy) = self.sweep();
        for &number in &held {
            self.take_out(number, Outcome::Shutdown);
        }
        held.sort_unstable();
        self.events.push(Event::Back(held, busy));
    }
}

/// The key whose flag an operation waits for.
pub(super) fn first(plan: &Plan) -> usize {
    usize::from(plan.keys.first().map_or(0, |key| key % KEYS))
}
