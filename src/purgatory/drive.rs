//! Expiring, finding the next deadline, and the shutdown.
//!
//! Whoever calls is the driver, an expirer or anybody; several may at once. A driver takes out what is due in steps under one
//! shard's lock, decides it with no lock held, and waits for nobody. It never looks at an operation.

use crate::operation::cell::Decision;
use crate::operation::{DelayedOperation, Outcome};
use crate::purgatory::aside::Aside;
use crate::purgatory::engine::{Drives, Engine, Shard, SpareKeys, Timed, Waiter};
use crate::purgatory::results::{Drive, HandedBack};
use crate::sync::{Arc, MODELLED, Ordering, planted};
use crate::tick::Tick;
use crate::trace;
use crate::trampoline::{Call, has_leftovers};
use crate::wheel::{AtHand, TimingWheel};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::hash::Hash;
use std::time::Duration;

/// How many operations one pass expires. With callbacks of a microsecond a pass is a millisecond, the default
/// tick; purgatories that share an expirer take turns by passes.
const PASS_LIMIT: usize = if MODELLED { 4 } else { 1024 };

/// How many due operations are taken out under one hold of a shard's lock.
pub(super) const EXPIRY_STEP: usize = if MODELLED { 2 } else { 64 };

/// How many timers are moved down a level under one hold of a shard's lock, when a crowded bucket comes near. A move
/// is about 10 ns, and 100 where there are so many that each is a cache miss.
pub(super) const MOVE_STEP: usize = 128;

/// As how many expiries a hold counts that was used up by moves: it takes about as long.
const MOVES_COUNT_AS: usize = 8;

/// A pass that takes longer is told of, where there is tracing: callbacks that are fast end a hundred times sooner.
const LONG_PASS: Duration = Duration::from_millis(100);

/// With room for all, since it is filled under the lock, where nothing should be allocated.
type Batch<O> = SmallVec<[Arc<Waiter<O>>; 64]>;

impl<K: Hash + Eq + 'static, O: DelayedOperation + 'static> Engine<K, O> {
    /// One pass, and when to come again.
    pub(super) fn expire(self: &Arc<Self>) -> Drive {
        let (expired, more) = self.pass();
        Drive { expired, more, next: self.next_expiration() }
    }

    /// Expires what was due when the drive began, by tick across the shards, up to the limit of a pass. Returns how
    /// many it decided, and whether more are due.
    ///
    /// Timers that were registered or reset since the drive began are left for the next one, even if they are due:
    /// a callback that registers an operation without a timeout cannot hold a drive for ever.
    pub(crate) fn pass(self: &Arc<Self>) -> (usize, bool) {
        let _span = trace::pass(&self.name);
        let call = Call::enter_pass();
        call.catch_up();
        let began = self.clock.elapsed();
        let Begun { drive, now } = self.drives.go_on_or_begin(self.resolution.floor(began));
        let mut heads = self.heads(&call);
        let (mut expired, mut work) = (0, 0);
        let mut more = false;
        while let Some((index, tick)) = earliest(&heads).filter(|(_, tick)| *tick <= now) {
            if work >= PASS_LIMIT {
                more = true;
                break;
            }
            // Not read again before anything has taken time. And before anything is taken out, since reading may panic.
            let at = if work == 0 { Some(began) } else { self.read_clock() };
            let mut batch = Batch::new();
            heads[index] = self.take_due(index, tick, Begun { drive, now }, &mut batch);
            let moved = heads[index] == tick && batch.len() < EXPIRY_STEP;
            work += if moved { MOVES_COUNT_AS } else { batch.len() };
            let decided = self.expire_all(batch, &call);
            expired += decided;
            if let Some(at) = at.filter(|_| decided > 0) {
                let late = at.saturating_sub(self.resolution.start_of(tick));
                self.pace.lock().lateness.record_many(late, decided as u64);
            }
        }
        if !more && self.drives.has_set_aside.swap(false, Ordering::Relaxed) {
            self.put_back();
        }
        self.drives.end_pass(now, more);
        self.note_pass(if work > 0 { Some(began) } else { None }, expired);
        (expired, more)
    }

    /// Notes a pass and, if it did something since it `began`, how long that took.
    fn note_pass(&self, began: Option<Duration>, expired: usize) {
        let took = began.and_then(|began| Some(self.read_clock()?.saturating_sub(began)));
        self.pace.lock().pass(took);
        if let Some(took) = took.filter(|took| *took >= LONG_PASS) {
            trace::long_pass(&self.name, took, expired);
        }
    }

    /// Decides what was taken out, all of it before the first callback: a callback that cancels, resets or shuts down
    /// finds each of them either waiting or ended.
    fn expire_all(self: &Arc<Self>, batch: Batch<O>, call: &Call) -> usize {
        let mut expired = 0;
        let mut ended: SmallVec<[(O, SpareKeys<K>); 4]> = SmallVec::new();
        for waiter in batch {
            match waiter.cell.decide(Outcome::Expired) {
                Decision::Held => ended.push(self.take_out(&waiter, waiter.cell.lock(), Outcome::Expired)),
                // The thread inside ends it: a drive waits for nobody.
                Decision::Left => {}
                Decision::Lost => continue,
            }
            expired += 1;
        }
        for (op, keys) in ended {
            self.complete(op, Outcome::Expired, keys, call);
        }
        expired
    }

    /// The next deadline of each shard. Takes over what was handed on there.
    fn heads(self: &Arc<Self>, call: &Call) -> SmallVec<[Tick; 16]> {
        let mut heads = SmallVec::new();
        for mut shard in self.each_shard() {
            heads.push(shard.wheel.next_look().unwrap_or(Tick::MAX));
            let owed = shard.take_owed();
            drop(shard);
            if let Some(owed) = owed {
                self.take_over(owed, call);
            }
        }
        heads
    }

    /// Takes timers that are due at `tick` out of one shard, up to a step. Taking them out is what decides between an
    /// expiry and a reset. Returns the shard's next deadline; `tick` again while there is more to do for it.
    fn take_due(&self, index: usize, tick: Tick, begun: Begun, batch: &mut Batch<O>) -> Tick {
        self.take_from(index as u32, |shard| self.take_due_of(shard, tick, begun, batch))
    }

    fn take_due_of(&self, shard: &mut Shard<K, O>, tick: Tick, begun: Begun, batch: &mut Batch<O>) -> Tick {
        let mut moves = MOVE_STEP;
        for _ in 0..EXPIRY_STEP {
            let deadline = match shard.wheel.bring_to_hand(tick, &mut moves) {
                AtHand::Due(deadline) if deadline <= tick => deadline,
                // The clock has stepped back: this lies between `tick` and the wheel's own present.
                AtHand::Due(later) => return later,
                AtHand::Paused => return tick,
                AtHand::Nothing => break,
            };
            let timed = shard.wheel.peek_expired(tick).expect("it is at hand");
            if timed.drive < begun.drive {
                let due = shard.wheel.pop_expired(tick).expect("it is at hand");
                batch.push(due.item.waiter);
            } else if deadline >= begun.now {
                // Younger than the drive. Within a tick the wheel keeps the order of starting: nothing that was there
                // when the drive began comes after it.
                return Tick::MAX;
            } else {
                // Younger, and yet due before the drive's present: the clock has stepped back. What is older may come
                // after it, so this is set aside until the drive is over.
                let id = timed.waiter.timer();
                shard.set_aside(id, deadline);
                self.drives.has_set_aside.store(true, Ordering::Relaxed);
            }
        }
        shard.wheel.next_look().unwrap_or(Tick::MAX)
    }

    /// Puts what a drive has set aside back to its deadlines.
    fn put_back(&self) {
        for index in 0..self.shards.len() {
            while self.shard(index as u32).put_back(EXPIRY_STEP) {}
        }
    }

    /// The next deadline, for whoever asks. Where an expirer drives, the alarm is its own: another's promise, that it
    /// may never keep, would silence the bell. Else the asker is the driver.
    pub(super) fn next_expiration(&self) -> Option<Tick> {
        let is_driven = || self.alarm.has_bell() && !planted("asker-promises");
        let next = if is_driven() {
            self.earliest()
        } else {
            let next = self.promise();
            // An expirer that has come meanwhile would take this promise for its own: it plans again.
            if is_driven() {
                self.alarm.ring();
            }
            next
        };
        // What a bounded pass of this thread has left behind is due.
        let next = if has_leftovers() { Tick::ZERO } else { next };
        (!next.is_never()).then_some(next)
    }

    /// The time until the next deadline; zero if it has passed.
    pub(super) fn time_to_next(&self) -> Option<Duration> {
        self.next_expiration().map(|next| self.time_to(next))
    }

    /// The same for an expirer, which promises to drive then.
    pub(crate) fn sleep(&self) -> Option<Duration> {
        let next = self.promise();
        (!next.is_never()).then(|| self.time_to(next))
    }

    /// The time until a tick; zero if it has passed.
    pub(super) fn time_to(&self, tick: Tick) -> Duration {
        self.resolution.start_of(tick).saturating_sub(self.clock.elapsed())
    }

    /// Finds the next deadline, and promises the alarm that somebody drives then. The order of the three steps is
    /// explained in [`alarm`](crate::alarm).
    fn promise(&self) -> Tick {
        let late_raise = planted("alarm-raised-late");
        if !late_raise {
            self.alarm.raise();
        }
        let next = self.earliest();
        if late_raise {
            self.alarm.raise();
        }
        self.alarm.lower(next);
        next
    }

    fn earliest(&self) -> Tick {
        let mut next = Tick::MAX;
        for shard in self.each_shard() {
            let earliest = if shard.owed.is_empty() { shard.wheel.next_look() } else { Some(Tick::ZERO) };
            next = next.min(earliest.unwrap_or(Tick::MAX)).min(shard.aside.earliest);
        }
        next
    }

    /// Closes the purgatory and completes everything; returns how many it decided.
    pub(super) fn shutdown(self: &Arc<Self>) -> usize {
        let call = Call::enter();
        let swept = self.sweep();
        let decided = swept.held.len() + swept.busy;
        for waiter in swept.held {
            self.end(&waiter, waiter.cell.lock(), Outcome::Shutdown, &call);
        }
        self.take_over(swept.owed, &call);
        decided
    }

    /// Closes the purgatory and hands everything back.
    pub(super) fn shutdown_and_hand_back(self: &Arc<Self>) -> HandedBack<O> {
        let call = Call::enter();
        let swept = self.sweep();
        let mut back = HandedBack { taken: Vec::with_capacity(swept.held.len()), busy: swept.busy };
        for waiter in swept.held {
            let (op, keys) = self.take_out(&waiter, waiter.cell.lock(), Outcome::Shutdown);
            back.taken.push(op);
            self.drop_keys_in_turn(keys, &call);
        }
        self.take_over(swept.owed, &call);
        back
    }

    /// Closes every shard and decides all that is registered there, before the first callback. Only the first call finds
    /// anything. A registration either took its place before its home shard was closed, and is swept up, or sees that
    /// it is closed.
    fn sweep(self: &Arc<Self>) -> Swept<O> {
        let mut swept = Swept { held: Vec::new(), busy: 0, owed: VecDeque::new() };
        if self.closed.swap(true, Ordering::AcqRel) {
            return swept;
        }
        for index in 0..self.shards.len() {
            // Made before the hold, which is not to allocate.
            let now = self.shard(index as u32).wheel.now();
            let empty = TimingWheel::starting_at(now).keeping_waste();
            let mut shard = self.shard(index as u32);
            shard.closed = true;
            swept.owed.append(&mut shard.owed);
            shard.aside = Aside::default();
            // The whole wheel goes in one move: the lock is not held for longer however much is in it.
            let wheel: TimingWheel<Timed<O>> = std::mem::replace(&mut shard.wheel, empty);
            shard.books.cascade(wheel.cascaded());
            drop(shard);
            for timed in wheel.into_items() {
                match timed.waiter.cell.decide(Outcome::Shutdown) {
                    Decision::Held => swept.held.push(timed.waiter),
                    Decision::Left => swept.busy += 1,
                    Decision::Lost => {}
                }
            }
        }
        // An expirer takes note, and lets go of a purgatory that is over.
        self.alarm.ring();
        trace::shut_down(&self.name, swept.held.len() + swept.busy);
        swept
    }

    /// Whether nothing will ever be due again.
    pub(crate) fn is_over(&self) -> bool {
        self.closed.load(Ordering::Acquire)
            && self.each_shard().all(|shard| shard.closed && shard.owed.is_empty())
    }
}

/// What a shutdown has decided.
struct Swept<O> {
    /// Those that the caller holds, and must end.
    held: Vec<Arc<Waiter<O>>>,
    /// How many more a thread is inside of.
    busy: usize,
    /// What was handed on and nobody has gone on with.
    owed: VecDeque<Arc<Waiter<O>>>,
}

/// A drive: its number, and its present.
#[derive(Clone, Copy)]
struct Begun {
    drive: u64,
    now: Tick,
}

impl Drives {
    /// Goes on with the drive that an earlier pass left unfinished, or begins one, whose present is `now`.
    fn go_on_or_begin(&self, now: Tick) -> Begun {
        let unfinished = Tick::new(self.unfinished.load(Ordering::Relaxed));
        if !unfinished.is_never() {
            return Begun { drive: self.latest.load(Ordering::Relaxed), now: unfinished };
        }
        // The clock was read before the drive gets its number, and a registration reads the number before the
        // clock. So whatever carries this number has read the clock later, and is due at `now` at the earliest.
        Begun { drive: self.latest.fetch_add(1, Ordering::Release) + 1, now }
    }

    fn end_pass(&self, now: Tick, more: bool) {
        let unfinished = if more { now } else { Tick::MAX };
        self.unfinished.store(unfinished.as_u64(), Ordering::Relaxed);
    }

    /// The number that a registration or a reset carries. Read before its clock.
    pub(super) fn latest(&self) -> u64 {
        self.latest.load(Ordering::Acquire)
    }
}

/// The first of the shards with the earliest deadline.
fn earliest(heads: &[Tick]) -> Option<(usize, Tick)> {
    heads.iter().copied().enumerate().min_by_key(|(_, tick)| *tick).filter(|(_, tick)| !tick.is_never())
}
