//! What can be asked of a purgatory: its books, who waits on a key, and what its wheels look like.
//!
//! Nothing in here changes anything, runs a callback or waits for one. Each lock is held for a bounded number of steps.
//! What one call returns is exact at a quiet point; while others register and complete, its parts are of different moments.

use crate::metrics::{Histogram, Stats};
use crate::operation::DelayedOperation;
use crate::purgatory::engine::{Engine, Shard, Waiter};
use crate::purgatory::pool::SEGMENT;
use crate::purgatory::results::OperationId;
use crate::purgatory::{Equivalent, Purgatory};
use crate::sync::{Arc, Ordering};
use crate::tick::Tick;
use crate::wheel::{COUNT_STEP, Occupancy};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::Hash;
use std::time::Duration;

/// How many of those that wait on a key are told of. They are read in one hold of a lock, so that they are of one moment.
const MOST_WATCHERS: usize = 128;

/// How many keys are told of.
const MOST_KEYS: usize = 1024;

/// An operation that waits on a key, from [`Purgatory::watchers`].
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watcher {
    /// Its name.
    pub id: OperationId,
    /// The tick in which it was registered; of one that never expires only where
    /// [waits are measured](crate::Builder::measure_waits).
    pub since: Option<Tick>,
    /// The tick at which it expires; [`Tick::MAX`] is never. [`Purgatory::time_to`] says how long that is.
    pub deadline: Tick,
    /// The number that it waits at, if any.
    pub progress: Option<u64>,
}

impl<K: Hash + Eq + 'static, O: DelayedOperation + 'static> Purgatory<K, O> {
    /// Returns the name that the purgatory was built with.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = setup!()]
    /// let fetches: Purgatory<u32, Wait> = Purgatory::builder("Fetch").build();
    /// assert_eq!(fetches.name(), "Fetch");
    /// ```
    #[must_use]
    pub fn name(&self) -> &str {
        &self.engine.name
    }

    /// Returns the tick that the purgatory's clock is in.
    ///
    /// # Complexity
    ///
    /// That of [`Clock::elapsed`](crate::Clock::elapsed).
    ///
    /// # Examples
    ///
    /// ```
    #[doc = setup!()]
    /// clock.advance(Duration::from_millis(1_500));
    /// assert_eq!(purgatory.now(), Tick::new(1_500));
    /// ```
    #[must_use]
    pub fn now(&self) -> Tick {
        self.engine.now()
    }

    /// Returns the time until a tick, such as the [`deadline`](Watcher::deadline) of who waits on a key; zero if it has passed,
    /// and [`Duration::MAX`] for never.
    ///
    /// # Complexity
    ///
    /// That of [`Clock::elapsed`](crate::Clock::elapsed).
    ///
    /// # Examples
    ///
    /// ```
    #[doc = setup!()]
    /// let _ = purgatory.try_complete_else_watch(Wait, MINUTE, ["orders"])?;
    /// clock.advance(Duration::from_secs(20));
    /// let watcher = purgatory.watchers("orders")[0];
    /// assert_eq!(purgatory.time_to(watcher.deadline), Duration::from_secs(40));
    /// assert_eq!(purgatory.time_to(Tick::MAX), Duration::MAX);
    /// # Ok::<(), ixion::RejectReason>(())
    /// ```
    #[must_use]
    pub fn time_to(&self, tick: Tick) -> Duration {
        if tick.is_never() { Duration::MAX } else { self.engine.time_to(tick) }
    }

    /// Returns the number of operations that wait. Exact at every quiet point; while a thread is inside an operation
    /// that was decided, that one still counts.
    ///
    /// # Complexity
    ///
    /// O(shards), one lock after the other.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = setup!()]
    /// let _ = purgatory.try_complete_else_watch(Wait, MINUTE, ["orders", "payments"])?;
    /// let _ = purgatory.try_complete_else_watch(Wait, MINUTE, [])?;
    /// assert_eq!(purgatory.len(), 2);
    /// # Ok::<(), ixion::RejectReason>(())
    /// ```
    #[must_use]
    #[doc(alias = "numDelayed")]
    #[doc(alias = "NumDelayedOperations")]
    pub fn len(&self) -> usize {
        self.engine.sum(|shard| shard.books.pending())
    }

    /// Whether no operation waits.
    ///
    /// # Complexity
    ///
    /// That of [`len`](Self::len).
    ///
    /// # Examples
    ///
    /// ```
    #[doc = setup!()]
    /// assert!(purgatory.is_empty());
    /// let _ = purgatory.try_complete_else_watch(Wait, MINUTE, [])?;
    /// assert!(!purgatory.is_empty());
    /// # Ok::<(), ixion::RejectReason>(())
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of entries in all watch lists: an operation on three keys is three.
    ///
    /// # Complexity
    ///
    /// That of [`len`](Self::len).
    ///
    /// # Examples
    ///
    /// ```
    #[doc = setup!()]
    /// let _ = purgatory.try_complete_else_watch(Wait, MINUTE, ["orders", "payments"])?;
    /// let _ = purgatory.try_complete_else_watch(Wait, MINUTE, ["orders"])?;
    /// assert_eq!((purgatory.len(), purgatory.watched(), purgatory.key_count()), (2, 3, 2));
    /// # Ok::<(), ixion::RejectReason>(())
    /// ```
    #[must_use]
    #[doc(alias = "PurgatorySize")]
    pub fn watched(&self) -> usize {
        self.engine.sum(|shard| shard.watch.watchers())
    }

    /// Returns the number of keys that somebody waits on.
    ///
    /// # Complexity
    ///
    /// That of [`len`](Self::len).
    ///
    /// # Examples
    ///
    /// ```
    #[doc = setup!()]
    /// let registration = purgatory.try_complete_else_watch(Wait, MINUTE, ["orders", "payments"])?;
    /// assert_eq!(purgatory.key_count(), 2);
    /// purgatory.force_complete(registration.id().expect("it waits"));
    /// assert_eq!(purgatory.key_count(), 0); // a key on which nobody is left is gone
    /// # Ok::<(), ixion::RejectReason>(())
    /// ```
    #[must_use]
    pub fn key_count(&self) -> usize {
        self.engine.sum(|shard| shard.watch.keys())
    }

    /// Returns the books. One lock a shard, and one for what the drives note.
    ///
    /// # Complexity
    ///
    /// O(shards), one lock after the other. The counts of different shards are not of the same moment, so the sum is exact only at a
    /// quiet point.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = setup!()]
    /// let _ = purgatory.try_complete_else_watch(Wait, MINUTE, ["orders"])?;
    /// let _ = purgatory.try_complete_else_watch(Wait, Duration::MAX, ["orders"])?;
    /// clock.advance(MINUTE);
    /// while purgatory.expire().more {}
    /// let stats = purgatory.stats();
    /// assert_eq!((stats.registered, stats.expired, stats.pending), (2, 1, 1));
    /// assert!(stats.balances());
    /// # Ok::<(), ixion::RejectReason>(())
    /// ```
    #[must_use]
    #[doc(alias = "metrics")]
    pub fn stats(&self) -> Stats {
        self.engine.stats()
    }

    /// Returns how late expiries were decided: a time for each operation that has expired, from its deadline (the exact
    /// instant, rounded up to a tick) to the decision of the drive that expired it.
    ///
    /// It is made up of the driver's wake-up and of the callbacks that ran before it in the same drive, not of its own
    /// callback. Up to 64 operations of the same tick and shard are decided together, and before the first of their callbacks.
    ///
    /// # Complexity
    ///
    /// One lock, and a copy of 8 kB.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = setup!()]
    /// let _ = purgatory.try_complete_else_watch(Wait, MINUTE, ["orders"])?;
    /// clock.advance(MINUTE + Duration::from_millis(3)); // the driver comes late
    /// while purgatory.expire().more {}
    /// assert_eq!(purgatory.lateness().max(), Duration::from_millis(3));
    /// # Ok::<(), ixion::RejectReason>(())
    /// ```
    #[must_use]
    pub fn lateness(&self) -> Histogram {
        self.engine.pace.lock().lateness.clone()
    }

    /// Returns how long the operations that have ended waited, from their registration to the moment at which they were taken
    /// out, to a microsecond; `None` unless the purgatory was built [to measure that](crate::Builder::measure_waits).
    ///
    /// Those that were over at their first look never waited, and are not in it. A wait of more than two years counts as none.
    ///
    /// # Complexity
    ///
    /// O(shards), one lock after the other, and 8 kB for each.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = setup!()]
    /// let measured: Purgatory<&str, Wait> =
    ///     Purgatory::builder("measured").clock(clock.clone()).measure_waits(true).build();
    /// let _ = measured.try_complete_else_watch(Wait, MINUTE, ["orders"])?;
    /// clock.advance(Duration::from_secs(2));
    /// measured.force_complete_for_key("orders");
    /// assert_eq!(measured.waits().expect("it is measured").max(), Duration::from_secs(2));
    /// assert_eq!(purgatory.waits(), None);
    /// # Ok::<(), ixion::RejectReason>(())
    /// ```
    #[must_use]
    pub fn waits(&self) -> Option<Histogram> {
        let mut waits = self.engine.measures_waits.then(Histogram::new)?;
        for shard in self.engine.each_shard() {
            if let Some(part) = shard.books.waits() {
                waits.merge(part);
            }
        }
        Some(waits)
    }

    /// Whether an operation waits on the key. The answer may be old when it comes: a signal need not ask.
    ///
    /// # Complexity
    ///
    /// O(1), with one lock.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = setup!()]
    /// let _ = purgatory.try_complete_else_watch(Wait, MINUTE, ["orders"])?;
    /// assert!(purgatory.contains_key("orders") && !purgatory.contains_key("payments"));
    /// # Ok::<(), ixion::RejectReason>(())
    /// ```
    #[must_use]
    pub fn contains_key<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> bool {
        self.watcher_count(key) > 0
    }

    /// Returns the number of operations that wait on the key.
    ///
    /// # Complexity
    ///
    /// O(1), with one lock.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = setup!()]
    /// let _ = purgatory.try_complete_else_watch(Wait, MINUTE, ["orders", "payments"])?;
    /// let _ = purgatory.try_complete_else_watch(Wait, MINUTE, ["orders"])?;
    /// assert_eq!((purgatory.watcher_count("orders"), purgatory.watcher_count("payments")), (2, 1));
    /// # Ok::<(), ixion::RejectReason>(())
    /// ```
    #[must_use]
    pub fn watcher_count<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> usize {
        let hash = self.engine.hash(key);
        self.engine.shard(self.engine.shard_of(hash)).watch.watchers_of(hash, key)
    }

    /// Returns who waits on the key: the first 128, in order of registration, those at a number after the others.
    /// [`watcher_count`](Self::watcher_count) says how many there are.
    ///
    /// # Complexity
    ///
    /// One hold of the key's lock, and one for each operation, to look up its deadline. One that ends meanwhile is left out.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = setup!()]
    /// let _ = purgatory.try_complete_else_watch(Wait, MINUTE, ["orders"])?;
    /// let waiting = purgatory.watchers("orders");
    /// assert_eq!((waiting.len(), waiting[0].deadline), (1, Tick::new(60_000)));
    /// assert!(purgatory.reset_timeout(waiting[0].id, Duration::MAX));
    /// # Ok::<(), ixion::RejectReason>(())
    /// ```
    #[must_use]
    pub fn watchers<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> Vec<Watcher> {
        let engine = &self.engine;
        let (hash, now) = (engine.hash(key), engine.clock.elapsed());
        let mut found: Vec<(Arc<Waiter<O>>, Option<u64>)> = Vec::with_capacity(MOST_WATCHERS);
        let shard = engine.shard(engine.shard_of(hash));
        shard.watch.first_watchers(hash, key, MOST_WATCHERS, |waiter, progress| {
            found.push((Arc::clone(waiter), progress));
        });
        drop(shard);
        let waiting = |(waiter, progress): (Arc<Waiter<O>>, Option<u64>)| {
            let home = engine.shard(waiter.home());
            let timer = waiter.timer();
            let deadline = home.wheel.deadline(timer)?;
            let since = waiter.since.until(now).map(|ago| engine.resolution.floor(now.saturating_sub(ago)));
            let id = OperationId { purgatory: engine.number, home: waiter.home(), timer };
            Some(Watcher { id, since, deadline, progress })
        };
        found.into_iter().filter_map(waiting).collect()
    }

    /// Returns the keys on which most operations wait, and how many do: the `most` hottest, the hottest first; 1024 at most.
    ///
    /// This is the one method that clones a key, and it does so with a lock held: as `K`'s `Eq`, its `Clone` must not call the
    /// engine. A panic of it goes through to the caller.
    ///
    /// # Complexity
    ///
    /// O(keys), about 10 ns for each, with 256 of them under one hold of a lock.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = setup!()]
    /// let _ = purgatory.try_complete_else_watch(Wait, MINUTE, ["orders", "payments"])?;
    /// let _ = purgatory.try_complete_else_watch(Wait, MINUTE, ["orders"])?;
    /// assert_eq!(purgatory.hottest_keys(1), [("orders", 2)]);
    /// # Ok::<(), ixion::RejectReason>(())
    /// ```
    #[must_use]
    pub fn hottest_keys(&self, most: usize) -> Vec<(K, usize)>
    where
        K: Clone,
    {
        self.engine
            .hottest_lists(most.min(MOST_KEYS))
            .filter_map(|(shard, list)| {
                let shard = self.engine.shard(shard);
                shard.watch.key_of(list).map(|(key, watchers)| (key.clone(), watchers))
            })
            .collect()
    }

    /// Counts the timers in each bucket of the wheels, summed over the shards.
    ///
    /// Each shard has a wheel of its own, which goes on to the present when something of it is due: what is far away in one
    /// may have come near in another.
    ///
    /// # Complexity
    ///
    /// O(chunks), one for up to 64 operations and about 10 ns for each; 1024 of them under one hold of a lock.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = setup!()]
    /// let _ = purgatory.try_complete_else_watch(Wait, Duration::from_millis(3), [])?;
    /// let _ = purgatory.try_complete_else_watch(Wait, Duration::MAX, [])?;
    /// let occupancy = purgatory.occupancy();
    /// assert_eq!((occupancy.total(), occupancy.never()), (2, 1));
    /// # Ok::<(), ixion::RejectReason>(())
    /// ```
    #[must_use]
    pub fn occupancy(&self) -> Occupancy {
        let mut occupancy = Occupancy::new();
        for index in 0..self.engine.shards.len() {
            let mut from = Some(0);
            while let Some(chunk) = from {
                let shard = self.engine.shard(index as u32);
                from = shard.wheel.add_occupancy(chunk, COUNT_STEP, &mut occupancy);
            }
        }
        occupancy
    }
}

impl<K: Hash + Eq + 'static, O: DelayedOperation + 'static> Engine<K, O> {
    fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        for shard in self.each_shard() {
            shard.books.add_to(&mut stats);
            stats.watched += shard.watch.watchers();
            stats.keys += shard.watch.keys();
            stats.work.cascaded += shard.wheel.cascaded();
        }
        let satisfied = self.at_once.satisfied.load(Ordering::Relaxed);
        let panicked = self.at_once.panicked.load(Ordering::Relaxed);
        stats.at_once = satisfied + panicked;
        stats.registered += stats.at_once;
        stats.satisfied += satisfied;
        stats.panicked += panicked;
        stats.panics = self.panics.load(Ordering::Relaxed);
        stats.rejected_full = self.rejected.full.load(Ordering::Relaxed);
        stats.rejected_shutdown = self.rejected.shutdown.load(Ordering::Relaxed);
        stats.work.drives = self.drives.latest();
        stats.work.rings = self.rings.load(Ordering::Relaxed);
        self.pace.lock().add_to(&mut stats.work);
        stats
    }

    /// Sums a count over the shards.
    fn sum(&self, count: impl Fn(&Shard<K, O>) -> usize) -> usize {
        self.each_shard().map(|shard| count(&shard)).sum()
    }

    /// The shard and the number of the longest lists, the longest first.
    fn hottest_lists(&self, most: usize) -> impl Iterator<Item = (u32, u32)> {
        // The shortest of the longest on top; of two of a length the one that comes later.
        let mut longest: BinaryHeap<Reverse<(u32, Reverse<(u32, u32)>)>> = BinaryHeap::with_capacity(most);
        // With room for what one hold adds.
        let mut lists = Vec::with_capacity(SEGMENT);
        for index in 0..self.shards.len() as u32 {
            let mut segment = 0;
            while self.shard(index).watch.lengths(segment, &mut lists) {
                segment += 1;
                for (watchers, list) in lists.drain(..) {
                    let is_full = longest.len() == most;
                    if is_full && longest.peek().is_none_or(|least| watchers <= least.0.0) {
                        continue;
                    }
                    if is_full {
                        longest.pop();
                    }
                    longest.push(Reverse((watchers, Reverse((index, list)))));
                }
            }
        }
        longest.into_sorted_vec().into_iter().map(|Reverse((_, Reverse(place)))| place)
    }
}
