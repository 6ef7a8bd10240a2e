//! What a queue shares with its takers and its alarms: policy, time and waking round a store.

use crate::backoff::{Backoff, Failed, Verdict};
use crate::item::{Answer, Delivery, Failure, Receipt};
use crate::store::{Changed, Effect, Settlement, Store};
use crate::sync::{Mutex, planted};
use crate::takers::Line;
use ixion::{BoxedOperation, Clock, DelayedOperation, Outcome, Purgatory, Tick};
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

pub(crate) type ErrorHook = Box<dyn Fn(&dyn Error) + Send + Sync>;

/// What waits in the purgatory of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Waits {
    /// The alarm.
    Alarm,
    /// A taker, by its number.
    Taker(u64),
}

pub(crate) struct Shared<S: Store> {
    pub(crate) store: S,
    pub(crate) backoff: Backoff,
    pub(crate) max_in_flight: usize,
    pub(crate) clock: Arc<dyn Clock>,
    /// The latest time that the clock has shown.
    pub(crate) latest: Mutex<Duration>,
    pub(crate) on_error: ErrorHook,
    pub(crate) purgatory: Purgatory<Waits>,
    /// Who waits for something to take.
    pub(crate) line: Line,
    /// For when the alarm is set. That of the purgatory is never set for later, but for a moment while another is set too.
    pub(crate) alarm: Mutex<Option<Tick>>,
}

/// An operation that nothing completes but its time.
struct Alarm<S: Store>(Arc<Shared<S>>);

/// How many receipts that ran out are taken back in one step.
const REAP: usize = 64;
/// After how long a store that has refused a step is looked at again.
const AGAIN: Duration = Duration::from_secs(1);
/// The reason of a failure that no worker has spoken of.
const NOT_IN_TIME: &str = "not acknowledged in time";

impl<S: Store> Shared<S> {
    /// Lets the store tell of what others change. It holds nothing of what it is a part of.
    pub(crate) fn watch(self: &Arc<Self>) {
        let shared = Arc::downgrade(self);
        self.store.watch(Changed::new(move |effect| {
            if let Some(shared) = shared.upgrade() {
                shared.tell(shared.now(), [effect]);
            }
        }));
    }

    /// The time. It stands still while the clock is behind what it has shown: what became due stays due, or those who
    /// were woken for it would find nothing, and no alarm would wake them again.
    pub(crate) fn elapsed(&self) -> Duration {
        let now = self.clock.elapsed();
        let mut latest = self.latest.lock();
        *latest = now.max(*latest);
        *latest
    }

    pub(crate) fn now(&self) -> Tick {
        self.tick(self.elapsed())
    }

    pub(crate) fn tick(&self, now: Duration) -> Tick {
        self.clock.resolution().floor(now)
    }

    /// When an item is due that is delayed for so long from now on. One that is not delayed may be taken at once, though
    /// the tick has begun before it came.
    pub(crate) fn due_after(&self, now: Duration, delay: Duration) -> Tick {
        if delay.is_zero() { self.tick(now) } else { self.tick_after(now, delay) }
    }

    pub(crate) fn tick_after(&self, now: Duration, span: Duration) -> Tick {
        self.clock.resolution().ceil(now.saturating_add(span))
    }

    pub(crate) fn try_take(
        self: &Arc<Self>,
        n: usize,
        visibility: Duration,
    ) -> Result<Vec<Delivery>, S::Error> {
        let now = self.elapsed();
        let until = self.tick_after(now, visibility);
        let taken = self.store.take(self.tick(now), n, self.max_in_flight, until);
        let taken = taken.inspect_err(|_| self.look_again())?;
        if !taken.is_empty() {
            self.set_alarm(until);
        }
        Ok(taken)
    }

    pub(crate) fn settle(self: &Arc<Self>, receipt: &Receipt, answer: Answer) -> Result<bool, S::Error> {
        let now = self.elapsed();
        let tick = self.tick(now);
        let settlement = self.settlement(receipt, now, answer);
        let effect = settlement.effect();
        let counts = self.store.settle(receipt, tick, settlement).inspect_err(|_| self.look_again())?;
        self.tell(tick, counts.then_some(effect));
        Ok(counts)
    }

    pub(crate) fn settle_all(
        self: &Arc<Self>,
        answers: impl IntoIterator<Item = (Receipt, Answer)>,
    ) -> Result<Vec<bool>, S::Error> {
        let now = self.elapsed();
        let tick = self.tick(now);
        let settle = |(receipt, answer)| (receipt, self.settlement(&receipt, now, answer));
        let settlements: Vec<_> = answers.into_iter().map(settle).collect();
        if settlements.is_empty() {
            return Ok(Vec::new());
        }
        let effects: Vec<_> = settlements.iter().map(|(_, settlement)| settlement.effect()).collect();
        let counted = self.store.settle_all(settlements, tick).inspect_err(|_| self.look_again())?;
        let effects = effects.into_iter().zip(&counted);
        self.tell(tick, effects.filter_map(|(effect, counts)| counts.then_some(effect)));
        Ok(counted)
    }

    fn settlement(&self, receipt: &Receipt, now: Duration, answer: Answer) -> Settlement {
        match answer {
            Answer::Ack => Settlement::Done,
            Answer::Nack(reason) => self.after_failure(receipt, now, None, reason),
            Answer::NackAfter(delay, reason) => self.after_failure(receipt, now, Some(delay), reason),
            Answer::Extend(visibility) => Settlement::Extend(self.tick_after(now, visibility)),
        }
    }

    /// Does what has to come of a step made then: takers look, once, if it has brought them something, and there is an alarm
    /// for the first of what comes later.
    pub(crate) fn tell(self: &Arc<Self>, now: Tick, effects: impl IntoIterator<Item = Effect>) {
        let (mut is_takable, mut next) = (false, None);
        for Effect { makes_room, due, runs_out } in effects {
            is_takable |=
                (makes_room && self.max_in_flight < usize::MAX) || due.is_some_and(|due| due <= now);
            next = [next, due.filter(|due| *due > now), runs_out].into_iter().flatten().min();
        }
        if is_takable {
            self.wake_takers(1);
        }
        if let Some(next) = next {
            self.set_alarm(next);
        }
    }

    /// What becomes of an item whose delivery has failed then.
    pub(crate) fn after_failure(
        &self,
        receipt: &Receipt,
        at: Duration,
        delay: Option<Duration>,
        reason: String,
    ) -> Settlement {
        let attempt = receipt.attempt;
        let pushed = self.clock.resolution().start_of(receipt.pushed);
        let failed = Failed { attempt, previous: receipt.previous, age: at.saturating_sub(pushed) };
        let failure = Failure::new(receipt.round, attempt, self.tick(at), reason);
        let verdict = match delay {
            Some(delay) => self.backoff.decide_with(failed, || delay),
            None => self.backoff.decide(failed, receipt.id.as_u64()),
        };
        match verdict {
            Verdict::Retry(delay) => Settlement::Retry { due: self.due_after(at, delay), delay, failure },
            Verdict::Dead(_) => Settlement::Bury(failure),
        }
    }

    /// Lets some who wait look: something is due, or there is room in flight.
    pub(crate) fn wake_takers(&self, some: usize) {
        for _ in 0..some {
            let Some(taker) = self.line.pop() else { return };
            self.purgatory.check_and_complete(&Waits::Taker(taker));
        }
    }

    /// Sets the alarm, unless it is set for as early.
    pub(crate) fn set_alarm(self: &Arc<Self>, at: Tick) {
        {
            let mut alarm = self.alarm.lock();
            if alarm.is_some_and(|set| set <= at) {
                return;
            }
            *alarm = Some(at);
        }
        // Without the lock: the engine may run an alarm's end, which takes it.
        let mut at = at;
        loop {
            // By the clock itself, as the engine counts.
            let timeout = self.clock.resolution().start_of(at).saturating_sub(self.clock.elapsed());
            if self.purgatory.reset_timeout_for_key(&Waits::Alarm, timeout) == 0 {
                let alarm = BoxedOperation::new(Alarm(Arc::clone(self)));
                // A purgatory that is shut down wants no alarm.
                let _ = self.purgatory.try_complete_else_watch(alarm, timeout, [Waits::Alarm]);
            }
            // Who has set it for earlier may have been here first, and this one after that.
            match *self.alarm.lock() {
                Some(earlier) if earlier < at && !planted("alarm-of-the-last-one") => at = earlier,
                _ => return,
            }
        }
    }

    /// Sets an alarm after a step that the store has refused: it may have been made all the same, and nobody was woken.
    pub(crate) fn look_again(self: &Arc<Self>) {
        self.set_alarm(self.tick_after(self.elapsed(), AGAIN));
    }

    /// Takes back what has run out, wakes who waits, and sets an alarm for the next time.
    fn ring(self: &Arc<Self>) {
        let next = || self.reap().and_then(|now| self.store.next_change(now));
        let next = catch_unwind(AssertUnwindSafe(next));
        self.wake_takers(1);
        // The next alarm is set before anything of the user's can panic: without one, nothing would ever be taken back.
        match next {
            Ok(Ok(next)) => next.into_iter().for_each(|next| self.set_alarm(next)),
            Ok(Err(error)) => {
                self.look_again();
                (self.on_error)(&error);
            }
            Err(panic) => {
                self.look_again();
                resume_unwind(panic);
            }
        }
    }

    /// Takes back all that had run out by the time that it returns.
    fn reap(self: &Arc<Self>) -> Result<Tick, S::Error> {
        let tick = self.now();
        loop {
            let overdue = self.store.overdue(tick, REAP)?;
            // Whoever notices it when: each has failed when its time was over.
            let settle = |(receipt, until): (Receipt, Tick)| {
                let failed = self.clock.resolution().start_of(until);
                (receipt, self.after_failure(&receipt, failed, None, NOT_IN_TIME.to_owned()))
            };
            let settlements: Vec<_> = overdue.into_iter().map(settle).collect();
            if settlements.is_empty() {
                return Ok(tick);
            }
            if !self.store.reap(settlements, tick)?.contains(&true) {
                // None was left to this one, so others are at it; but they may be gone before they have looked for more.
                self.look_again();
                return Ok(tick);
            }
        }
    }
}

impl<S: Store> DelayedOperation for Alarm<S> {
    fn try_complete(&mut self) -> bool {
        false
    }

    fn on_complete(self, outcome: Outcome) {
        let Alarm(shared) = self;
        let is_kept = planted("alarm-kept-while-it-rings");
        // Before it rings: what comes after the look at the store must set it anew.
        if !is_kept {
            *shared.alarm.lock() = None;
        }
        if outcome == Outcome::Expired {
            shared.ring();
        }
        if is_kept {
            *shared.alarm.lock() = None;
        }
    }
}
