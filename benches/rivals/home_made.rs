//! A purgatory as a broker's authors write it themselves: Kafka's design, line for line where Rust allows it.
//!
//! An operation is a mutex and a completed flag. Watch lists are vectors, each behind a mutex of its own, in maps that
//! are spread over locks; deadlines are a sorted map behind one lock. An operation that ends leaves its deadline at
//! once, but its watch lists only when somebody walks them: a thread looks every millisecond for what is due, and
//! purges all lists when too many dead entries are estimated.
//!
//! It is no straw man: it hashes with the same hasher, allocates one cell an operation, and holds no lock of
//! a list while it looks. What it does not do: it waits for a busy operation, an expiry too; it cannot say how many
//! watch; it knows nothing of panics, shutdown or callbacks that nest.

use foldhash::fast::RandomState;
use ixion::{DelayedOperation, Outcome};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Kafka's default: so many completed operations may stay in the lists.
const PURGE_INTERVAL: usize = 1000;
/// As many as ixion's default number of shards.
const SHARDS: usize = 16;

type Watchers<O> = Arc<Mutex<Vec<Arc<Waiting<O>>>>>;
type Lists<O> = HashMap<u64, Watchers<O>, RandomState>;

pub struct HomeMade<O> {
    lists: Vec<Mutex<Lists<O>>>,
    timer: Mutex<BTreeMap<Due, Arc<Waiting<O>>>>,
    start: Instant,
    registered: AtomicU64,
    /// Operations in the lists, the completed ones among them, as far as anybody knows.
    estimated: AtomicUsize,
}

/// In milliseconds, and a number that makes it unique.
type Due = (u64, u64);

pub struct Waiting<O> {
    completed: AtomicBool,
    due: Due,
    op: Mutex<Option<O>>,
}

impl<O: DelayedOperation> HomeMade<O> {
    pub fn new() -> Self {
        HomeMade {
            lists: (0..SHARDS).map(|_| Mutex::default()).collect(),
            timer: Mutex::default(),
            start: Instant::now(),
            registered: AtomicU64::new(0),
            estimated: AtomicUsize::new(0),
        }
    }

    /// `None`: it is over.
    pub fn try_complete_else_watch(&self, op: O, timeout: Duration, keys: &[u64]) -> Option<Arc<Waiting<O>>> {
        let due = self.start.elapsed() + timeout + Duration::from_millis(1);
        let number = self.registered.fetch_add(1, Ordering::Relaxed);
        let waiting = Arc::new(Waiting {
            completed: AtomicBool::new(false),
            due: (due.as_millis() as u64, number),
            op: Mutex::new(Some(op)),
        });
        {
            // Kafka's repair of 2.7: the lock is held round both looks, so that no event falls between them.
            let mut held = waiting.op.lock();
            if self.look(&waiting, &mut held) {
                return None;
            }
            for &key in keys {
                self.watch(key, &waiting);
            }
            self.estimated.fetch_add(1, Ordering::Relaxed);
            if self.look(&waiting, &mut held) {
                return None;
            }
        }
        if !waiting.is_completed() {
            self.timer.lock().insert(waiting.due, Arc::clone(&waiting));
            if waiting.is_completed() {
                self.timer.lock().remove(&waiting.due);
            }
        }
        Some(waiting)
    }

    pub fn check_and_complete(&self, key: u64) -> usize {
        let Some(watchers) = self.lists[shard(key)].lock().get(&key).cloned() else { return 0 };
        // A copy: a registration holds its operation and wants the list, so the list must not be held here.
        let watching = watchers.lock().clone();
        let (mut ended, mut dead) = (0, false);
        for waiting in watching {
            if !waiting.is_completed() {
                ended += usize::from(self.look(&waiting, &mut waiting.op.lock()));
            }
            dead |= waiting.is_completed();
        }
        if dead {
            self.clean(key, &watchers);
        }
        ended
    }

    /// Takes an operation out without a callback. Its entries stay for the purge.
    pub fn cancel(&self, waiting: &Waiting<O>) -> Option<O> {
        self.decide(waiting).then(|| waiting.op.lock().take()).flatten()
    }

    /// Completes an operation, whatever it waits for.
    pub fn force_complete(&self, waiting: &Waiting<O>) -> bool {
        let first = self.decide(waiting);
        if first {
            waiting.op.lock().take().expect("it is decided once").on_complete(Outcome::Forced);
        }
        first
    }

    /// Expires what is due, and purges.
    pub fn expire(&self) {
        let now = self.start.elapsed().as_millis() as u64;
        loop {
            let first = self.timer.lock().first_entry().filter(|it| it.key().0 <= now).map(|it| it.remove());
            let Some(waiting) = first else { break };
            if self.decide(&waiting) {
                // Waits for whoever is inside.
                let op = waiting.op.lock().take();
                op.expect("it is decided once").on_complete(Outcome::Expired);
            }
        }
        let delayed = self.timer.lock().len();
        if self.estimated.load(Ordering::Relaxed) > delayed + PURGE_INTERVAL {
            self.estimated.store(delayed, Ordering::Relaxed);
            self.purge();
        }
    }

    /// Removes what is completed from all lists.
    pub fn purge(&self) {
        for lists in &self.lists {
            let all: Vec<_> = lists.lock().iter().map(|(key, list)| (*key, Arc::clone(list))).collect();
            for (key, watchers) in all {
                self.clean(key, &watchers);
            }
        }
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.timer.lock().len()
    }

    /// How many entries the lists have, dead ones among them.
    pub fn watched(&self) -> usize {
        let lists =
            |lists: &Mutex<Lists<O>>| lists.lock().values().map(|list| list.lock().len()).sum::<usize>();
        self.lists.iter().map(lists).sum()
    }

    fn watch(&self, key: u64, waiting: &Arc<Waiting<O>>) {
        // Both locks: an emptied list must not be removed from the map in between.
        let mut lists = self.lists[shard(key)].lock();
        lists.entry(key).or_default().lock().push(Arc::clone(waiting));
    }

    fn clean(&self, key: u64, watchers: &Watchers<O>) {
        watchers.lock().retain(|waiting| !waiting.is_completed());
        let mut lists = self.lists[shard(key)].lock();
        if lists.get(&key).is_some_and(|list| list.lock().is_empty()) {
            lists.remove(&key);
        }
    }

    /// Looks, and completes if the condition is met. The caller has the operation's lock.
    fn look(&self, waiting: &Waiting<O>, held: &mut Option<O>) -> bool {
        let met = held.as_mut().is_some_and(|op| op.try_complete()) && self.decide(waiting);
        if met {
            held.take().expect("it is decided once").on_complete(Outcome::Satisfied);
        }
        met
    }

    fn decide(&self, waiting: &Waiting<O>) -> bool {
        let first = !waiting.completed.swap(true, Ordering::AcqRel);
        if first {
            self.timer.lock().remove(&waiting.due);
        }
        first
    }
}

impl<O> Waiting<O> {
    fn is_completed(&self) -> bool {
        self.completed.load(Ordering::Acquire)
    }
}

/// By the higher bits of a product, as good a spread as the maps' own.
fn shard(key: u64) -> usize {
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 60) as usize
}
