//! A timing wheel that cannot be wrong: a sorted list.
//!
//! The properties that [`Script::run`] holds the wheel to, after each step:
//!
//! 1. What expires is the first by (deadline, order of starting) among those whose deadline is reached, and if there
//!    is none, nothing expires.
//! 2. `next_expiration` is the earliest deadline, exactly; *never* is none.
//! 3. `len`, `deadline`, `get` say what the model says, for ids that live, that are stale, and that are foreign.
//! 4. An id is never given out twice. A restart keeps it.
//! 5. Time does not run back, whatever `now` is given, and is where `now` documents it to be.
//! 6. A bounded pop does not do more than its budget, and a peek returns what the pop after it returns.
//! 7. The wheel's own invariants hold.

use std::collections::HashSet;

use crate::tick::Tick;
use crate::wheel::{self, Expired, TimerId, TimingWheel};

/// A sorted list with the contract of a [`TimingWheel`].
#[derive(Debug, Default)]
pub struct WheelModel {
    /// By (deadline, order of starting).
    timers: Vec<(Tick, u64, TimerId)>,
    started: u64,
    now: Tick,
}

/// A deadline or a time, as a script gives it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// This tick.
    At(u64),
    /// So many ticks after the time that the wheel has reached; saturates.
    In(u64),
    /// So many ticks before.
    Ago(u64),
}

/// A step of a [`Script`]. A number that names a timer is taken modulo the number of all that were ever started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Starts a timer.
    Start(When),
    /// Starts so many timers with one deadline.
    StartMany(When, u8),
    /// Stops a timer, or tries a stale id.
    Stop(usize),
    /// Stops all timers but each so-manieth.
    Thin(usize),
    /// Restarts a timer, or tries a stale id.
    Restart(usize, When),
    /// Pops until nothing more is due.
    Advance(When),
    /// Pops once.
    Pop(When),
    /// Looks at what would be popped.
    Peek(When),
    /// Pops within a budget, until nothing more is due or the budget is used up.
    PopWithin(When, u8),
}

/// A sequence of steps, from a given time on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Script {
    /// Where the wheel starts.
    pub start: u64,
    /// What is done with it.
    pub steps: Vec<Step>,
}

impl WheelModel {
    /// Makes an empty model at `now`.
    #[must_use]
    pub fn starting_at(now: Tick) -> Self {
        WheelModel { now: now.min(LAST), ..WheelModel::default() }
    }

    /// Starts the timer that the wheel calls `id`.
    pub fn start_timer(&mut self, deadline: Tick, id: TimerId) {
        self.started += 1;
        let key = (deadline, self.started);
        let at = self.timers.partition_point(|timer| (timer.0, timer.1) < key);
        self.timers.insert(at, (deadline, self.started, id));
    }

    /// Stops a timer; false if there is none.
    pub fn stop_timer(&mut self, id: TimerId) -> bool {
        let found = self.timers.iter().position(|timer| timer.2 == id);
        found.map(|at| self.timers.remove(at)).is_some()
    }

    /// Stops and starts a timer; false if there is none.
    pub fn restart_timer(&mut self, id: TimerId, deadline: Tick) -> bool {
        let found = self.stop_timer(id);
        if found {
            self.start_timer(deadline, id);
        }
        found
    }

    /// Returns the timer that expires next at `now`.
    #[must_use]
    pub fn peek(&self, now: Tick) -> Option<(Tick, TimerId)> {
        let first = self.timers.first()?;
        (first.0 <= self.time(now)).then_some((first.0, first.2))
    }

    /// Takes the timer that expires next at `now`.
    pub fn pop_expired(&mut self, now: Tick) -> Option<(Tick, TimerId)> {
        let due = self.peek(now);
        self.reach(now, due);
        if due.is_some() {
            self.timers.remove(0);
        }
        due
    }

    /// Returns the deadline of a timer.
    #[must_use]
    pub fn deadline(&self, id: TimerId) -> Option<Tick> {
        self.timers.iter().find(|timer| timer.2 == id).map(|timer| timer.0)
    }

    /// Returns the earliest deadline that is not never.
    #[must_use]
    pub fn next_expiration(&self) -> Option<Tick> {
        self.timers.first().map(|timer| timer.0).filter(|deadline| !deadline.is_never())
    }

    /// `now`, unless that is in the past, or never.
    fn time(&self, now: Tick) -> Tick {
        now.min(LAST).max(self.now)
    }

    /// Goes to what is due, or if nothing is, to `now`.
    fn reach(&mut self, now: Tick, due: Option<(Tick, TimerId)>) {
        self.now = due.map_or(self.time(now), |due| due.0.max(self.now));
    }
}

impl Script {
    /// Runs the script on a wheel and on the model.
    ///
    /// # Panics
    ///
    /// If they differ, with the number of the step.
    pub fn run(&self) {
        let mut run = Run::new(Tick::new(self.start));
        for (number, step) in self.steps.iter().enumerate() {
            run.context = format!("step {number} of {}, {step:?}", self.steps.len());
            run.step(*step);
            run.check();
        }
        run.context = "at the end".to_owned();
        run.finish();
    }
}

/// A wheel, the model, and every id that the wheel gave out. An item is its timer's number.
struct Run {
    wheel: TimingWheel<usize>,
    model: WheelModel,
    ids: Vec<TimerId>,
    unique: HashSet<TimerId>,
    context: String,
}

impl Run {
    fn new(start: Tick) -> Self {
        Run {
            wheel: TimingWheel::starting_at(start),
            model: WheelModel::starting_at(start),
            ids: Vec::new(),
            unique: HashSet::new(),
            context: String::new(),
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Start(when) => self.start(self.tick(when)),
            Step::StartMany(when, count) => {
                let deadline = self.tick(when);
                (0..count).for_each(|_| self.start(deadline));
            }
            Step::Stop(which) => self.stop(which),
            Step::Thin(each) => {
                let keep = each.max(2);
                let live: Vec<TimerId> = self.model.timers.iter().map(|timer| timer.2).collect();
                for (n, id) in live.into_iter().enumerate() {
                    if n % keep != 0 {
                        let which = self.ids.iter().position(|other| *other == id);
                        self.stop(which.expect("all ids are kept"));
                    }
                }
            }
            Step::Restart(which, when) => {
                let deadline = self.tick(when);
                if let Some((_, id)) = self.nth(which) {
                    let expected = self.model.restart_timer(id, deadline);
                    assert_eq!(self.wheel.restart_timer(id, deadline), expected, "{}", self.context);
                }
            }
            Step::Advance(when) => {
                let now = self.tick(when);
                while self.pop(now) {}
            }
            Step::Pop(when) => {
                self.pop(self.tick(when));
            }
            Step::Peek(when) => self.peek(self.tick(when)),
            Step::PopWithin(when, budget) => self.pop_within(self.tick(when), budget.into()),
        }
    }

    fn start(&mut self, deadline: Tick) {
        let id = self.wheel.start_timer(deadline, self.ids.len());
        assert!(self.unique.insert(id), "{id:?} was given out twice, {}", self.context);
        self.ids.push(id);
        self.model.start_timer(deadline, id);
    }

    fn stop(&mut self, which: usize) {
        if let Some((number, id)) = self.nth(which) {
            let expected = self.model.stop_timer(id).then_some(number);
            assert_eq!(self.wheel.stop_timer(id), expected, "{}", self.context);
        }
    }

    fn pop(&mut self, now: Tick) -> bool {
        let expected = self.model.pop_expired(now);
        let popped = self.wheel.pop_expired(now);
        self.compare(popped, expected);
        assert_eq!(self.wheel.now(), self.model.now, "{}", self.context);
        expected.is_some()
    }

    fn peek(&mut self, now: Tick) {
        let expected = self.model.peek(now);
        self.model.reach(now, expected);
        let item = self.wheel.peek_expired(now).copied();
        assert_eq!(item.map(|item| self.ids[item]), expected.map(|it| it.1), "{}", self.context);
        assert_eq!(self.wheel.now(), self.model.now, "{}", self.context);
    }

    fn pop_within(&mut self, now: Tick, mut budget: usize) {
        loop {
            let before = budget;
            match self.wheel.pop_expired_within(now, &mut budget) {
                wheel::Step::Expired(expired) => {
                    assert!(budget < before, "{}", self.context);
                    let expected = self.model.pop_expired(now);
                    self.compare(Some(expired), expected);
                }
                wheel::Step::Done => {
                    let expected = self.model.pop_expired(now);
                    self.compare(None, expected);
                    break;
                }
                wheel::Step::Paused => {
                    // The wheel may have gone on to the block that it moves down, but not past a deadline.
                    let reached = self.wheel.now();
                    assert_eq!(budget, 0, "{}", self.context);
                    assert!(reached >= self.model.now && reached <= self.model.time(now), "{}", self.context);
                    let first = self.model.next_expiration();
                    assert!(reached == self.model.now || first.is_some_and(|first| reached <= first));
                    self.model.now = reached;
                    break;
                }
            }
        }
        assert_eq!(self.wheel.now(), self.model.now, "{}", self.context);
    }

    fn compare(&self, popped: Option<Expired<usize>>, expected: Option<(Tick, TimerId)>) {
        let popped = popped.map(|it| {
            assert_eq!(self.ids[it.item], it.id, "{}", self.context);
            (it.deadline, it.id)
        });
        assert_eq!(popped, expected, "{}", self.context);
    }

    fn check(&self) {
        self.wheel.check_invariants();
        assert_eq!(self.wheel.len(), self.model.timers.len(), "{}", self.context);
        assert_eq!(self.wheel.is_empty(), self.model.timers.is_empty(), "{}", self.context);
        assert_eq!(self.wheel.next_expiration(), self.model.next_expiration(), "{}", self.context);
        // The latest ids, and one after the other of the old ones.
        let count = self.ids.len();
        for back in [1, 2, 3, 5, 9, 33, 65].into_iter().filter(|back| *back <= count) {
            let (number, id) = (count - back, self.ids[count - back]);
            let expected = self.model.deadline(id);
            assert_eq!(self.wheel.deadline(id), expected, "{}", self.context);
            assert_eq!(self.wheel.get(id).copied(), expected.map(|_| number), "{}", self.context);
        }
    }

    /// Whatever still waits comes out at the end of time, in order, and *never* stays.
    fn finish(mut self) {
        for (deadline, _, id) in &self.model.timers {
            assert_eq!(self.wheel.deadline(*id), Some(*deadline), "{}", self.context);
        }
        while self.pop(Tick::MAX) {}
        self.check();
        let mut left: Vec<TimerId> = self.wheel.into_items().map(|item| self.ids[item]).collect();
        let mut expected: Vec<TimerId> = self.model.timers.iter().map(|timer| timer.2).collect();
        left.sort_unstable();
        expected.sort_unstable();
        assert_eq!(left, expected, "{}", self.context);
    }

    fn nth(&self, which: usize) -> Option<(usize, TimerId)> {
        let number = which.checked_rem(self.ids.len())?;
        Some((number, self.ids[number]))
    }

    fn tick(&self, when: When) -> Tick {
        let now = self.model.now.as_u64();
        Tick::new(match when {
            When::At(tick) => tick,
            When::In(ticks) => now.saturating_add(ticks),
            When::Ago(ticks) => now.saturating_sub(ticks),
        })
    }
}

/// The last tick that a clock can show.
const LAST: Tick = Tick::new(u64::MAX - 1);
