//! What a [`Purgatory`](crate::Purgatory) and its expirer share: the shards, and how a held operation is ended.
//!
//! The shards' locks are leaves: nothing is locked while one of them is held, no other shard either. The mutex in an
//! operation's cell is locked by its holder alone, and a shard's lock may be taken under it.

use crate::alarm::Alarm;
use crate::clock::Clock;
use crate::metrics::{Books, Pace};
use crate::operation::cell::{Cell, Held, Look, Spell};
use crate::operation::{DelayedOperation, Outcome};
use crate::purgatory::aside::Aside;
use crate::purgatory::callbacks::Executor;
use crate::purgatory::capacity::Capacity;
use crate::purgatory::home::Homes;
use crate::purgatory::panics::{PanicHook, PanicPlace, contain};
use crate::purgatory::register::Rejections;
use crate::purgatory::since::Since;
use crate::purgatory::watch::WatchLists;
use crate::sync::{Arc, AtomicBool, AtomicU64, MODELLED, Mutex, MutexGuard, Ordering, planted};
use crate::tick::{Resolution, Tick};
use crate::trampoline::{Call, Looking};
use crate::wheel::{TimerId, TimingWheel};
use crossbeam_utils::CachePadded;
use foldhash::fast::FixedState;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash};
use std::num::NonZeroU32;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// The shared part of a purgatory.
pub(crate) struct Engine<K, O> {
    pub(super) name: Arc<str>,
    /// Unique in the process, so that an id of another purgatory is known as one.
    pub(super) number: u64,
    pub(super) shards: Box<[Locked<Shard<K, O>>]>,
    pub(super) hasher: FixedState,
    pub(super) clock: Box<dyn Clock>,
    pub(super) resolution: Resolution,
    pub(super) max_timeout: Duration,
    pub(super) capacity: Option<Capacity>,
    pub(super) alarm: Alarm,
    pub(super) on_panic: Option<PanicHook>,
    pub(super) on_earlier_deadline: Option<Box<dyn Fn() + Send + Sync>>,
    /// `None`: callbacks run in place.
    pub(super) callbacks_on: Option<Executor<K, O>>,
    /// Operations that were over at their first look: no shard knows them.
    pub(super) at_once: CachePadded<AtOnce>,
    pub(super) homes: Homes,
    pub(super) drives: Drives,
    pub(super) closed: AtomicBool,
    pub(super) panics: AtomicU64,
    pub(super) rejected: Rejections,
    /// How often the driver was woken for an earlier deadline.
    pub(super) rings: AtomicU64,
    /// Drives alone take this lock, once for a pass; and whoever asks.
    pub(super) pace: Mutex<Pace>,
    /// Whether the clock is read when an operation ends.
    pub(super) measures_waits: bool,
}

/// On cache lines of its own, so that the threads at one lock don't slow those at the next.
pub(super) type Locked<T> = CachePadded<Mutex<T>>;

/// One hold of a shard's lock.
pub(super) struct Hold<'a, K, O> {
    shard: MutexGuard<'a, Shard<K, O>>,
    /// After the guard: what is dropped last ends last.
    #[cfg(ixion_pauses)]
    _timed: crate::clock::pauses::TimedHold,
}

/// Whatever is due, however many wait on a key and whatever must grow, no hold takes more steps than these, which are
/// some ten microseconds: [`MOVE_STEP`](super::drive::MOVE_STEP) timers moved down a level, `EXPIRY_STEP` taken out,
/// and, now and then, a part of a table that is split.
#[cfg(test)]
pub(super) const HOLD_STEPS: usize = 2048;

impl<'a, K, O> Hold<'a, K, O> {
    fn new(shard: &'a Locked<Shard<K, O>>) -> Self {
        let shard = shard.lock();
        #[cfg(test)]
        crate::steps::begin();
        Hold {
            shard,
            #[cfg(ixion_pauses)]
            _timed: crate::clock::pauses::TimedHold::begin(),
        }
    }
}

#[cfg(test)]
impl<K, O> Drop for Hold<'_, K, O> {
    fn drop(&mut self) {
        crate::steps::end();
    }
}

impl<K, O> Deref for Hold<'_, K, O> {
    type Target = Shard<K, O>;
    fn deref(&self) -> &Self::Target {
        &self.shard
    }
}

impl<K, O> DerefMut for Hold<'_, K, O> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.shard
    }
}

/// Everything under one lock: a registry of the operations whose home this is, with their deadlines, and the watch
/// lists of the keys that live here.
pub(super) struct Shard<K, O> {
    /// The registry: operations without a deadline are in it too, as timers that never expire.
    pub(super) wheel: TimingWheel<Timed<O>>,
    pub(super) watch: WatchLists<K, Arc<Waiter<O>>>,
    /// Held operations whose holder was marked too often: whoever comes by goes on with them.
    pub(super) owed: VecDeque<Arc<Waiter<O>>>,
    pub(super) aside: Aside,
    pub(super) books: Books,
    /// Set with the shard's lock held, so that a registration either sees it or is swept up.
    pub(super) closed: bool,
}

impl<K, O> Shard<K, O> {
    /// Takes what was handed on here: hardly ever anything.
    #[inline]
    pub(super) fn take_owed(&mut self) -> Option<VecDeque<Arc<Waiter<O>>>> {
        if self.owed.is_empty() { None } else { Some(std::mem::take(&mut self.owed)) }
    }
}

/// An operation as the wheel holds it.
pub(super) struct Timed<O> {
    pub(super) waiter: Arc<Waiter<O>>,
    /// The drive that was the latest when this was registered or reset: a drive expires what was there before it.
    pub(super) drive: u64,
}

/// An operation that waits.
pub(super) struct Waiter<O> {
    pub(super) cell: Cell<O, Links>,
    /// There are 4096 shards at most.
    home: u16,
    pub(super) since: Since,
    /// The id in the home shard's wheel; set and read with that shard's lock held.
    pub(super) timer: AtomicU64,
}

impl<O> Waiter<O> {
    /// Makes one that the caller holds, and that is in no registry yet.
    pub(super) fn new(op: O, home: u32, since: Since) -> Self {
        Waiter { cell: Cell::held(op), home: home as u16, since, timer: AtomicU64::new(0) }
    }

    #[inline]
    pub(super) fn home(&self) -> u32 {
        self.home.into()
    }

    /// The caller holds the home shard's lock.
    pub(super) fn timer(&self) -> TimerId {
        TimerId::from_u64(self.timer.load(Ordering::Relaxed))
    }
}

/// How many keys of an operation are put into lists, or taken out, under one hold of a shard's lock. Few, since each may be the
/// one for which a part of a table is split.
pub(super) const LINK_STEP: usize = if MODELLED { 1 } else { 16 };

/// So many keys of an operation cost no allocation of their own: hardly anything waits for more, but requests over many
/// partitions. Each is 12 bytes in every operation that waits.
pub(super) const INLINE: usize = 4;

/// The watch lists that an operation is in. Those that it was put into when it was armed come first, all in its home shard.
pub(super) type Links = SmallVec<[Link; INLINE]>;

/// A place in one watch list.
#[derive(Clone, Copy)]
pub(super) struct Link {
    pub(super) shard: u32,
    pub(super) node: u32,
    /// At a number: which of the operation's watches this is.
    pub(super) numbered: Option<Nth>,
}

/// The place of a watch in the order in which an operation's watches were given, and one: so that none of it takes no
/// room.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Nth(NonZeroU32);

impl Nth {
    /// What lies beyond 2^32 watches is taken as the last of them.
    pub(super) fn new(watch: usize) -> Self {
        Nth(u32::try_from(watch)
            .ok()
            .and_then(|watch| NonZeroU32::MIN.checked_add(watch))
            .unwrap_or(NonZeroU32::MAX))
    }

    fn watch(self) -> usize {
        self.0.get() as usize - 1
    }
}

impl<K: Eq, O> Shard<K, O> {
    /// Takes an operation out of the lists of the first of `links`, so far as they are in this shard and no more than a
    /// step, and adds the keys on which nobody is left. The other links stay.
    fn unwatch_run(&mut self, shard: u32, links: &mut &[Link], keys: &mut SpareKeys<K>) {
        for _ in 0..LINK_STEP {
            let Some((link, rest)) = links.split_first().filter(|(link, _)| link.shard == shard) else {
                return;
            };
            *links = rest;
            if let (_, Some(key)) = self.watch.unwatch(link.node) {
                keys.push(key);
            }
        }
    }
}

/// Keys taken out of the lists, to be dropped outside every lock.
pub(super) type SpareKeys<K> = SmallVec<[K; INLINE]>;

#[derive(Default)]
pub(super) struct AtOnce {
    pub(super) satisfied: AtomicU64,
    pub(super) panicked: AtomicU64,
}

/// Which drive is the latest, and whether it is over.
pub(super) struct Drives {
    /// Its number.
    pub(super) latest: AtomicU64,
    /// Its present, if its last pass left work behind; else never.
    pub(super) unfinished: AtomicU64,
    /// Whether it has set aside something in a shard.
    pub(super) has_set_aside: AtomicBool,
}

impl<K, O> Engine<K, O> {
    /// The number that no other purgatory of the process has.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn alarm(&self) -> &Alarm {
        &self.alarm
    }
}

impl<K: Hash + Eq + 'static, O: DelayedOperation + 'static> Engine<K, O> {
    #[inline]
    pub(super) fn shard(&self, index: u32) -> Hold<'_, K, O> {
        Hold::new(&self.shards[index as usize])
    }

    /// One hold of each in turn.
    pub(super) fn each_shard(&self) -> impl Iterator<Item = Hold<'_, K, O>> {
        self.shards.iter().map(Hold::new)
    }

    #[inline]
    pub(super) fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> u64 {
        self.hasher.hash_one(key)
    }

    /// The shard of a hash. The tables take the hash's lowest and highest bits, so this takes the middle.
    #[inline]
    pub(super) fn shard_of(&self, hash: u64) -> u32 {
        let middle = (hash >> 16) & u64::from(u32::MAX);
        // Below the number of shards, which fits in 32 bits.
        ((middle * self.shards.len() as u64) >> 32) as u32
    }

    /// The tick that the clock is in.
    pub(super) fn now(&self) -> Tick {
        self.resolution.floor(self.clock.elapsed())
    }

    /// Reads the clock for a figure. If that panics there is no figure: what the caller holds goes on all the same.
    pub(super) fn read_clock(&self) -> Option<Duration> {
        self.contain(PanicPlace::Clock, || self.clock.elapsed())
    }

    /// Rings for a deadline that lowered the alarm. No lock is held.
    pub(super) fn wake_driver(&self) {
        self.rings.fetch_add(1, Ordering::Relaxed);
        self.alarm.ring();
        if let Some(hook) = &self.on_earlier_deadline {
            self.contain(PanicPlace::Hook, hook);
        }
    }

    /// Runs user code. `None`: it panicked; the panic is counted and reported.
    pub(super) fn contain<R>(&self, place: PanicPlace, run: impl FnOnce() -> R) -> Option<R> {
        match contain(&self.name, self.on_panic.as_ref(), place, run) {
            Ok(value) => Some(value),
            Err(panics) => {
                self.panics.fetch_add(panics, Ordering::Relaxed);
                None
            }
        }
    }

    /// Looks once at an operation that the caller owns or holds.
    pub(super) fn look(&self, op: &mut O) -> Look {
        let look = || {
            let _looking = Looking::enter();
            op.try_complete()
        };
        match self.contain(PanicPlace::Look, look) {
            Some(true) => Look::Met,
            Some(false) => Look::NotMet,
            None => Look::Panicked,
        }
    }

    /// Looks once and, if the answer is no, lets the operation wait at the numbers that it asks for.
    #[inline]
    fn look_and_move(&self, waiter: &Waiter<O>, op: &mut O, links: &Links) -> Look {
        let look = self.look(op);
        if look != Look::NotMet
            || links.iter().all(|link| link.numbered.is_none())
            || planted("move-after-let-go")
        {
            return look;
        }
        self.move_to(waiter, op, links)
    }

    /// Lets an operation wait at the numbers that it asks for.
    ///
    /// An event that has come as far as a new number may pass by between the look and this. If the number is a higher one,
    /// it finds the operation at the old one and leaves a mark. If it is a lower one, it does not: so another look is asked
    /// for.
    #[inline(never)]
    fn move_to(&self, waiter: &Waiter<O>, op: &O, links: &Links) -> Look {
        let mut lower = false;
        for link in links {
            let Some(nth) = link.numbered else { continue };
            let ask = || {
                let _looking = Looking::enter();
                op.next_progress(nth.watch())
            };
            match self.contain(PanicPlace::Look, ask) {
                Some(Some(at)) => lower |= self.shard(link.shard).watch.move_to(link.node, at),
                Some(None) => {}
                None => return Look::Panicked,
            }
        }
        if lower && !planted("lower-unseen") {
            waiter.cell.mark_own();
        }
        Look::NotMet
    }

    /// Goes on with an operation that the caller holds: looks while looks are wanted, and once if one is `owed`; then lets
    /// go or ends it. Returns the outcome if it has ended, and whether a look of this call decided it.
    #[inline]
    pub(super) fn hold<'a>(
        self: &Arc<Self>,
        waiter: &'a Arc<Waiter<O>>,
        mut held: Held<'a, O, Links>,
        mut owed: bool,
        call: &Call,
    ) -> Option<(Outcome, bool)> {
        loop {
            match waiter.cell.hold(held, owed, |op, links| self.look_and_move(waiter, op, links)) {
                Spell::LetGo => {
                    if planted("move-after-let-go") {
                        waiter.cell.meddle(|op, links| _ = self.move_to(waiter, op, links));
                    }
                    return None;
                }
                Spell::Decided { outcome, mine, held } => {
                    self.end(waiter, held, outcome, call);
                    return Some((outcome, mine));
                }
                Spell::Tired => {
                    if self.hand_on(waiter) {
                        return None;
                    }
                    (held, owed) = (waiter.cell.lock(), false);
                }
            }
        }
    }

    /// Looks at an operation, unless somebody is inside: then that thread does. Returns whether a look of this call
    /// ended it.
    #[inline]
    pub(super) fn look_at(self: &Arc<Self>, waiter: &Arc<Waiter<O>>, call: &Call) -> bool {
        waiter.cell.mark() && self.hold(waiter, waiter.cell.lock(), true, call).is_some_and(|(_, mine)| mine)
    }

    /// Leaves a held operation to whoever comes by its home shard next, and sees to it that the driver does. False:
    /// the purgatory is shut down and nobody may come, so the caller must go on.
    fn hand_on(&self, waiter: &Arc<Waiter<O>>) -> bool {
        let lowered = {
            let mut shard = self.shard(waiter.home());
            if shard.closed && !planted("hand-on-ignores-shutdown") {
                return false;
            }
            if !planted("hand-on-lost") {
                shard.owed.push_back(Arc::clone(waiter));
            }
            self.alarm.lower(Tick::ZERO) && !planted("hand-on-unrung")
        };
        if lowered {
            self.wake_driver();
        }
        true
    }

    /// Goes on with operations that were handed on.
    #[cold]
    pub(super) fn take_over(self: &Arc<Self>, owed: VecDeque<Arc<Waiter<O>>>, call: &Call) {
        for waiter in owed {
            self.hold(&waiter, waiter.cell.lock(), false, call);
        }
    }

    /// Ends a decided operation that the caller holds.
    pub(super) fn end(
        self: &Arc<Self>,
        waiter: &Waiter<O>,
        held: Held<'_, O, Links>,
        outcome: Outcome,
        call: &Call,
    ) {
        let (op, keys) = self.take_out(waiter, held, outcome);
        self.complete(op, outcome, keys, call);
    }

    /// Takes a decided operation that the caller holds out of its cell, the wheel and every watch list, and counts
    /// its end. O(keys), with no other lock held. Only the holder unlinks: nothing is added to a list after this.
    pub(super) fn take_out(
        &self,
        waiter: &Waiter<O>,
        held: Held<'_, O, Links>,
        outcome: Outcome,
    ) -> (O, SpareKeys<K>) {
        let (op, links) = held.take();
        let mut keys = SpareKeys::new();
        let mut rest = &links[..];
        let now = if self.measures_waits { self.read_clock() } else { None };
        let waited = now.and_then(|now| waiter.since.until(now));
        self.take_from(waiter.home(), |home| {
            home.wheel.stop_timer(waiter.timer());
            home.books.end(outcome, waited);
            home.unwatch_run(waiter.home(), &mut rest, &mut keys);
        });
        while let Some(next) = rest.first() {
            self.take_from(next.shard, |shard| shard.unwatch_run(next.shard, &mut rest, &mut keys));
        }
        if let Some(capacity) = &self.capacity {
            capacity.release();
        }
        (op, keys)
    }

    /// Calls an operation back that has ended: at once in an outermost call, else after the callback that this call was
    /// made in.
    pub(super) fn complete(self: &Arc<Self>, op: O, outcome: Outcome, keys: SpareKeys<K>, call: &Call) {
        if call.is_outermost() && self.callbacks_on.is_none() {
            // What an earlier pass of this thread left behind comes first.
            call.catch_up();
            self.tell(op, outcome, keys);
            call.catch_up();
        } else {
            self.complete_elsewhere(op, outcome, keys, call);
        }
    }

    /// Drops keys outside every lock, one by one, so that a destructor that panics costs no other key.
    pub(super) fn drop_keys(&self, keys: SpareKeys<K>) {
        if std::mem::needs_drop::<K>() {
            for key in keys {
                self.contain(PanicPlace::KeyDrop, || drop(key));
            }
        }
    }

    /// Drops keys now or, in a nested call, when its turn comes.
    pub(super) fn drop_keys_in_turn(self: &Arc<Self>, keys: SpareKeys<K>, call: &Call) {
        if keys.is_empty() || !std::mem::needs_drop::<K>() {
            return;
        }
        if call.is_outermost() {
            self.drop_keys(keys);
            call.catch_up();
        } else {
            let engine = Arc::clone(self);
            call.put_off(move || engine.drop_keys(keys));
        }
    }
}
