//! What can happen to operations that wait: a signal, a forced completion, a cancellation, a new timeout; to one by
//! its id, or to all that wait on a key.
//!
//! A walk along a key takes watchers out in steps under the shard's lock and visits them without it. What a step took
//! may have ended by the time it is visited; its cell says so.

use crate::operation::cell::Decision;
use crate::operation::{DelayedOperation, Outcome};
use crate::purgatory::engine::{Engine, SpareKeys, Waiter};
use crate::purgatory::register::Due;
use crate::purgatory::results::{Cancelled, HandedBack, OperationId};
use crate::purgatory::watch::{Reach, Taken};
use crate::sync::{Arc, planted};
use crate::trampoline::Call;
use equivalent::Equivalent;
use std::hash::Hash;
use std::ops::ControlFlow;
use std::time::Duration;

impl<K: Hash + Eq + 'static, O: DelayedOperation + 'static> Engine<K, O> {
    /// Looks at every operation that waits on the key, of those at a number only as far as that; returns how many ended
    /// by a look of this call.
    pub(super) fn check_and_complete<Q: Hash + Equivalent<K> + ?Sized>(
        self: &Arc<Self>,
        key: &Q,
        up_to: u64,
    ) -> usize {
        let call = Call::enter();
        if call.is_inside_look() {
            self.check_later(key, up_to, &call);
            return 0;
        }
        let mut ended = 0;
        self.visit(key, Reach::UpTo(up_to), &call, |waiter| {
            ended += usize::from(self.look_at(waiter, &call));
            ControlFlow::Continue(())
        });
        ended
    }

    pub(super) fn try_complete(self: &Arc<Self>, id: OperationId) -> bool {
        let call = Call::enter();
        let Some(waiter) = self.find(id) else { return false };
        if call.is_inside_look() {
            self.look_later(vec![waiter], &call);
            return false;
        }
        self.look_at(&waiter, &call)
    }

    /// A signal from inside a look, which is put off whole.
    fn check_later<Q: Hash + Equivalent<K> + ?Sized>(self: &Arc<Self>, key: &Q, up_to: u64, call: &Call) {
        debug_assert!(
            false,
            "try_complete must not signal keys of a purgatory; `ixion::defer` does it after the look"
        );
        let mut waiters = Vec::new();
        self.visit(key, Reach::UpTo(up_to), call, |waiter| {
            waiters.push(Arc::clone(waiter));
            ControlFlow::Continue(())
        });
        self.look_later(waiters, call);
    }

    /// What is to be looked at from inside a look waits until that is over: looks that nest could use up the stack.
    fn look_later(self: &Arc<Self>, waiters: Vec<Arc<Waiter<O>>>, call: &Call) {
        let engine = Arc::clone(self);
        call.put_off(move || {
            let call = Call::enter();
            for waiter in waiters {
                engine.look_at(&waiter, &call);
            }
        });
    }

    pub(super) fn force_complete(self: &Arc<Self>, id: OperationId) -> bool {
        let call = Call::enter();
        self.find(id).is_some_and(|waiter| self.force(&waiter, &call))
    }

    pub(super) fn force_complete_for_key<Q: Hash + Equivalent<K> + ?Sized>(
        self: &Arc<Self>,
        key: &Q,
    ) -> usize {
        let call = Call::enter();
        let mut forced = 0;
        self.visit(key, Reach::All, &call, |waiter| {
            forced += usize::from(self.force(waiter, &call));
            ControlFlow::Continue(())
        });
        forced
    }

    fn force(self: &Arc<Self>, waiter: &Arc<Waiter<O>>, call: &Call) -> bool {
        match waiter.cell.decide(Outcome::Forced) {
            Decision::Held => {
                self.end(waiter, waiter.cell.lock(), Outcome::Forced, call);
                true
            }
            Decision::Left => true,
            Decision::Lost => false,
        }
    }

    pub(super) fn cancel(self: &Arc<Self>, id: OperationId) -> Cancelled<O> {
        let call = Call::enter();
        self.find(id).map_or(Cancelled::Gone, |waiter| self.withdraw(&waiter, Outcome::Cancelled, &call))
    }

    pub(super) fn cancel_first<Q: Hash + Equivalent<K> + ?Sized>(self: &Arc<Self>, key: &Q) -> Cancelled<O> {
        let call = Call::enter();
        let mut first = Cancelled::Gone;
        self.visit(key, Reach::All, &call, |waiter| {
            first = self.withdraw(waiter, Outcome::Cancelled, &call);
            if first.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        first
    }

    pub(super) fn cancel_for_key<Q: Hash + Equivalent<K> + ?Sized>(
        self: &Arc<Self>,
        key: &Q,
    ) -> HandedBack<O> {
        let call = Call::enter();
        let mut back = HandedBack::none();
        self.visit(key, Reach::All, &call, |waiter| {
            back.add(self.withdraw(waiter, Outcome::Cancelled, &call));
            ControlFlow::Continue(())
        });
        back
    }

    /// Decides an operation and takes it out without a callback, if nobody is inside.
    pub(super) fn withdraw(
        self: &Arc<Self>,
        waiter: &Waiter<O>,
        outcome: Outcome,
        call: &Call,
    ) -> Cancelled<O> {
        match waiter.cell.decide(outcome) {
            Decision::Left if !planted("unlink-before-take") => Cancelled::Busy,
            Decision::Held | Decision::Left => {
                let (op, keys) = self.take_out(waiter, waiter.cell.lock(), outcome);
                self.drop_keys_in_turn(keys, call);
                Cancelled::Taken(op)
            }
            Decision::Lost => Cancelled::Gone,
        }
    }

    /// No call of the trampoline's: it causes no callback, and must not run those that a drive has left behind, since its
    /// caller may hold a lock that they take.
    pub(super) fn reset_timeout(self: &Arc<Self>, id: OperationId, timeout: Duration) -> bool {
        let due = self.due_in(timeout);
        self.find(id).is_some_and(|waiter| self.reset(&waiter, due))
    }

    pub(super) fn reset_timeout_for_key<Q: Hash + Equivalent<K> + ?Sized>(
        self: &Arc<Self>,
        key: &Q,
        timeout: Duration,
    ) -> usize {
        let call = Call::enter();
        // Before the walk, which a clock that panics would break off.
        let due = self.due_in(timeout);
        let mut reset = 0;
        self.visit(key, Reach::All, &call, |waiter| {
            reset += usize::from(self.reset(waiter, due));
            ControlFlow::Continue(())
        });
        reset
    }

    /// Moves a deadline. The hold of the home shard's lock decides between this and an expiry: what a drive has
    /// taken out of the wheel is not put back.
    fn reset(&self, waiter: &Waiter<O>, due: Due) -> bool {
        let (lowered, has_waste) = {
            let mut home = self.shard(waiter.home());
            let timer = waiter.timer();
            // The wheel is asked first: an operation that a drive took out may still be undecided.
            let Some(timed) = home.wheel.get_mut(timer) else { return planted("reset-after-pop") };
            if waiter.cell.outcome().is_some() {
                return false;
            }
            timed.drive = due.drive;
            home.wheel.restart_timer(timer, due.deadline);
            if due.clamped {
                home.books.clamp();
            }
            // A timer that is restarted may leave as much as one that is stopped.
            (self.alarm.lower(due.deadline), home.wheel.has_waste())
        };
        if has_waste {
            self.carry_off_waste(waiter.home());
        }
        if lowered {
            self.wake_driver();
        }
        true
    }

    /// Finds an operation in the registry of its home.
    fn find(&self, id: OperationId) -> Option<Arc<Waiter<O>>> {
        if id.purgatory != self.number {
            return None;
        }
        self.shard(id.home).wheel.get(id.timer).map(|timed| Arc::clone(&timed.waiter))
    }

    /// Visits those that wait on the key now, in order of registration, with no lock held.
    fn visit<Q: Hash + Equivalent<K> + ?Sized>(
        self: &Arc<Self>,
        key: &Q,
        reach: Reach,
        call: &Call,
        mut visit: impl FnMut(&Arc<Waiter<O>>) -> ControlFlow<()>,
    ) {
        let hash = self.hash(key);
        let index = self.shard_of(hash);
        let mut batch = Taken::new();
        let (walk, owed) = {
            let mut shard = self.shard(index);
            let walk = shard.watch.walk(hash, key, reach, &mut batch);
            // Whoever comes by goes on with what was handed on; but looks don't nest.
            let owed = if call.is_inside_look() { None } else { shard.take_owed() };
            (walk, owed)
        };
        // First, since nobody else knows of them now, and what is visited may take its time.
        if let Some(owed) = owed {
            self.take_over(owed, call);
        }
        if let Some(mut walk) = walk {
            let mut spare = SpareKeys::new();
            'steps: loop {
                for waiter in batch.drain(..) {
                    if visit(&waiter).is_break() {
                        break 'steps;
                    }
                }
                if walk.is_over() {
                    break;
                }
                spare.extend(self.shard(index).watch.step(&mut walk, &mut batch));
            }
            if !walk.is_over() {
                spare.extend(self.shard(index).watch.abandon(&mut walk));
            }
            self.drop_keys_in_turn(spare, call);
        }
    }
}
