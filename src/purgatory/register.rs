//! Registering: look, watch and arm, look again.
//!
//! 1. Look, before any cell exists: an operation that is satisfied at once allocates nothing.
//! 2. One hold of the home shard: closed? a place in the registry and the wheel; those of the first keys, a step of them,
//!    that live there. Armed together with watching, never after, so that from here on shutdown, force, cancel, reset and `len`
//!    see it.
//! 3. The other keys.
//! 4. Look again. The registering thread has held the operation since before anybody could see it; whoever came
//!    meanwhile has left a mark or a decision.
//! 5. Let go, and act on whatever came.
//!
//! An event that changed the state before step 4's look is seen by that look: its signal either found the
//! operation on the list and left a mark, or took the list's lock before step 2 or 3 did, and then the lock orders
//! its change before the look.

use crate::operation::cell::Look;
use crate::operation::{DelayedOperation, Outcome};
use crate::purgatory::engine::{
    Engine, INLINE, LINK_STEP, Link, Links, Nth, Shard, SpareKeys, Timed, Waiter,
};
use crate::purgatory::results::{OperationId, Registration, RejectReason, Rejected, Watch};
use crate::purgatory::since::Since;
use crate::sync::{Arc, AtomicU64, Ordering, planted};
use crate::tick::Tick;
use crate::trace;
use crate::trampoline::Call;
use crate::wheel::TimerId;
use smallvec::SmallVec;
use std::hash::Hash;
use std::time::Duration;

/// Up to this many keys are compared pairwise to find one that was given twice; more are sorted by hash first.
const PAIRWISE: usize = 8;

type Wants<K> = SmallVec<[Want<K>; INLINE]>;

/// A watch, with its key's hash.
struct Want<K> {
    hash: u64,
    /// `None` once it is in a list.
    key: Option<K>,
    at: Option<(u64, Nth)>,
}

impl<K: Hash + Eq + 'static, O: DelayedOperation + 'static> Engine<K, O> {
    pub(super) fn register(
        self: &Arc<Self>,
        mut op: O,
        timeout: Duration,
        watches: impl IntoIterator<Item = Watch<K>>,
    ) -> Result<Registration, Rejected<O>> {
        let call = Call::enter();
        if self.closed.load(Ordering::Acquire) {
            return Err(self.reject(op, RejectReason::Shutdown));
        }
        // 1. The first look.
        let (outcome, count) = match self.look(&mut op) {
            Look::NotMet => return self.watch_and_look(op, timeout, watches, &call),
            Look::Met => (Outcome::Satisfied, &self.at_once.satisfied),
            Look::Panicked => (Outcome::Panicked, &self.at_once.panicked),
        };
        count.fetch_add(1, Ordering::Relaxed);
        self.complete(op, outcome, SpareKeys::new(), &call);
        Ok(Registration::Completed(outcome))
    }

    fn watch_and_look(
        self: &Arc<Self>,
        op: O,
        timeout: Duration,
        watches: impl IntoIterator<Item = Watch<K>>,
        call: &Call,
    ) -> Result<Registration, Rejected<O>> {
        let (mut wants, mut spare) = (Wants::new(), SpareKeys::new());
        self.hash_keys(watches, &mut wants, &mut spare);
        let due = self.due_in(timeout);
        let home = match wants.first() {
            Some(want) => self.shard_of(want.hash),
            None => self.homes.of_this_thread(self.shards.len()),
        };
        if self.capacity.as_ref().is_some_and(|capacity| !capacity.reserve()) {
            self.give_up(wants, spare, call);
            return Err(self.reject(op, RejectReason::Full));
        }
        let since = due.now.map_or(Since::UNKNOWN, Since::new);
        let waiter = Arc::new(Waiter::new(op, home, since));
        let mut held = waiter.cell.lock();
        let Some(timer) = self.arm(&waiter, due, &mut wants, held.links(), &mut spare) else {
            if let Some(capacity) = &self.capacity {
                capacity.release();
            }
            self.give_up(wants, spare, call);
            let (op, _) = held.take();
            return Err(self.reject(op, RejectReason::Shutdown));
        };
        // 3. The other keys: those that step 2 has not put into lists.
        for want in &mut wants {
            let Some(key) = want.key.take() else { continue };
            let shard = self.shard_of(want.hash);
            let link = self.shard(shard).watch_for(want, key, shard, &waiter, &mut spare);
            held.links().push(link);
        }
        let id = OperationId { purgatory: self.number, home, timer };
        // 4. and 5.
        let ended = self.hold(&waiter, held, !planted("no-second-look"), call);
        self.drop_keys_in_turn(spare, call);
        Ok(match ended {
            Some((outcome, _)) => Registration::Completed(outcome),
            None => Registration::Watched(id),
        })
    }

    /// 2. One hold of the home shard. The keys that live there are taken out of `wants`. `None`: it is closed.
    fn arm(
        &self,
        waiter: &Arc<Waiter<O>>,
        due: Due,
        wants: &mut Wants<K>,
        links: &mut Links,
        spare: &mut SpareKeys<K>,
    ) -> Option<TimerId> {
        let early = planted("alarm-before-lock") && self.alarm.lower(due.deadline);
        let home = waiter.home();
        let mut shard = self.shard(home);
        if shard.closed && !planted("closed-unseen") {
            return None;
        }
        let timed = Timed { waiter: Arc::clone(waiter), drive: due.drive };
        let timer = shard.wheel.start_timer(due.deadline, timed);
        if !planted("publish-after-unlock") {
            waiter.timer.store(timer.as_u64(), Ordering::Relaxed);
        }
        shard.books.register();
        if due.clamped {
            shard.books.clamp();
        }
        for want in wants.iter_mut().take(LINK_STEP) {
            if self.shard_of(want.hash) == home
                && let Some(key) = want.key.take()
            {
                links.push(shard.watch_for(want, key, home, waiter, spare));
            }
        }
        let lowered = if planted("alarm-before-lock") { early } else { self.alarm.lower(due.deadline) };
        drop(shard);
        if planted("publish-after-unlock") {
            waiter.timer.store(timer.as_u64(), Ordering::Relaxed);
        }
        if lowered {
            self.wake_driver();
        }
        Some(timer)
    }

    /// When something that starts now is due. Clamps the timeout to the greatest allowed.
    pub(super) fn due_in(&self, timeout: Duration) -> Due {
        // In this order: see `Drives::go_on_or_begin`.
        let drive = self.drives.latest();
        let clamped = timeout > self.max_timeout;
        if clamped {
            trace::clamped(&self.name, timeout, self.max_timeout);
        }
        let timeout = timeout.min(self.max_timeout);
        if timeout == Duration::MAX {
            // Needs no present, unless somebody wants to know how long it waited.
            let now = self.measures_waits.then(|| self.clock.elapsed());
            return Due { deadline: Tick::MAX, drive, clamped, now };
        }
        let now = self.clock.elapsed();
        let deadline = if timeout.is_zero() {
            // Over as it begins: due in the tick that the clock is in, not only in the next one.
            self.resolution.floor(now)
        } else {
            self.resolution.deadline(now, timeout)
        };
        Due { deadline, drive, clamped, now: Some(now) }
    }

    /// Consumes the caller's iterator, hashes each key outside every lock, and sets aside keys given twice: the lowest
    /// number is kept, and none is lower than any.
    fn hash_keys(
        &self,
        watches: impl IntoIterator<Item = Watch<K>>,
        wants: &mut Wants<K>,
        spare: &mut SpareKeys<K>,
    ) {
        for (nth, Watch { key, at }) in watches.into_iter().enumerate() {
            let at = at.map(|at| (at, Nth::new(nth)));
            wants.push(Want { hash: self.hash(&key), key: Some(key), at });
        }
        if wants.len() > PAIRWISE {
            // Stable, so that the first of two equal keys is the one that is kept. The order of an operation's keys
            // means nothing; which shard is home does, and stays the same for the same calls and hash seed.
            wants.sort_by_key(|want| want.hash);
        }
        let mut kept = 0;
        for at in 0..wants.len() {
            let window =
                if wants.len() > PAIRWISE { same_hash_before(&wants[..kept], wants[at].hash) } else { 0 };
            let (before, from) = wants.split_at_mut(at);
            let this = &from[0];
            let twice = before[window..kept]
                .iter_mut()
                .find(|other| other.hash == this.hash && other.key == this.key);
            match twice {
                Some(other) => other.at = other.at.zip(this.at).map(|(a, b)| if b.0 < a.0 { b } else { a }),
                None => {
                    wants.swap(kept, at);
                    kept += 1;
                }
            }
        }
        if kept < wants.len() {
            spare.extend(wants.drain(kept..).rev().filter_map(|want| want.key));
        }
    }

    /// Hands an operation back. No lock is held.
    #[cold]
    fn reject(&self, op: O, reason: RejectReason) -> Rejected<O> {
        let count = match reason {
            RejectReason::Full => &self.rejected.full,
            RejectReason::Shutdown => &self.rejected.shutdown,
        };
        count.fetch_add(1, Ordering::Relaxed);
        trace::rejected(&self.name, reason);
        Rejected { op, reason }
    }

    /// Drops the keys of an operation that is handed back.
    fn give_up(self: &Arc<Self>, wants: Wants<K>, mut spare: SpareKeys<K>, call: &Call) {
        spare.extend(wants.into_iter().filter_map(|want| want.key));
        self.drop_keys_in_turn(spare, call);
    }
}

/// How many operations were not accepted.
#[derive(Default)]
pub(super) struct Rejections {
    pub(super) full: AtomicU64,
    pub(super) shutdown: AtomicU64,
}

/// When an operation is due.
#[derive(Clone, Copy)]
pub(super) struct Due {
    pub(super) deadline: Tick,
    /// The latest drive when this was computed.
    pub(super) drive: u64,
    pub(super) clamped: bool,
    /// When this was computed, if the clock was read for it.
    now: Option<Duration>,
}

impl<K: Eq, O> Shard<K, O> {
    /// Puts an operation into a list of this shard. The key comes back if it is not needed.
    fn watch_for(
        &mut self,
        want: &Want<K>,
        key: K,
        shard: u32,
        waiter: &Arc<Waiter<O>>,
        spare: &mut SpareKeys<K>,
    ) -> Link {
        let waiter = Arc::clone(waiter);
        let (node, again) = match want.at {
            None => self.watch.watch(want.hash, key, waiter),
            Some((at, _)) => self.watch.watch_at(want.hash, key, at, waiter),
        };
        if let Some(key) = again {
            spare.push(key);
        }
        Link { shard, node, numbered: want.at.map(|(_, nth)| nth) }
    }
}

/// The start of the run of entries with this hash at the end of a sorted slice.
fn same_hash_before<K>(sorted: &[Want<K>], hash: u64) -> usize {
    sorted.len() - sorted.iter().rev().take_while(|want| want.hash == hash).count()
}
