//! Stores that refuse, lie or panic; and one that others change.

use crate::queue::{counts, pass, s};
use crate::waiting::{Woken, poll};
use ixion::{Clock, ManualClock, Tick};
use ixion_retry::{
    Backoff, Changed, Counts, DeadLetter, Delivery, ItemId, MemoryStore, New, Receipt, RetryQueue,
    Settlement, Store,
};
use parking_lot::Mutex;
use std::error::Error;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};

/// What the next steps of a [`Faulty`] come to.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Mood {
    Fine,
    /// Nothing is done.
    Refuses,
    /// It is done, but the answer is lost.
    Forgets,
    Panics,
}

#[derive(Debug)]
pub(crate) struct NoAnswer;

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no answer")
    }
}

impl Error for NoAnswer {}

/// A store in memory that has a clock and is in a mood, and counts how often something was to be taken.
#[derive(Clone)]
pub(crate) struct Faulty(Arc<Parts>);

struct Parts {
    store: MemoryStore,
    clock: ManualClock,
    mood: Mutex<Mood>,
    changed: Mutex<Vec<Changed>>,
    looks: AtomicUsize,
}

impl Faulty {
    pub(crate) fn new() -> Self {
        Faulty(Arc::new(Parts {
            store: MemoryStore::new(),
            clock: ManualClock::new(),
            mood: Mutex::new(Mood::Fine),
            changed: Mutex::default(),
            looks: AtomicUsize::new(0),
        }))
    }

    pub(crate) fn be(&self, mood: Mood) {
        *self.0.mood.lock() = mood;
    }

    /// How many looks there were since it was last asked.
    pub(crate) fn looks(&self) -> usize {
        self.0.looks.swap(0, Ordering::Relaxed)
    }

    fn step<R>(&self, step: impl FnOnce(&MemoryStore) -> R) -> Result<R, NoAnswer> {
        let mood = *self.0.mood.lock();
        match mood {
            Mood::Fine => Ok(step(&self.0.store)),
            Mood::Refuses => Err(NoAnswer),
            Mood::Forgets => {
                step(&self.0.store);
                Err(NoAnswer)
            }
            Mood::Panics => panic!("a store of the user's"),
        }
    }
}

/// In memory, a step is always made.
fn made<R>(answer: Result<R, std::convert::Infallible>) -> R {
    answer.unwrap_or_else(|never| match never {})
}

impl Store for Faulty {
    type Error = NoAnswer;

    fn push_all(&self, items: &[(&[u8], New)]) -> Result<Vec<ItemId>, NoAnswer> {
        self.step(|store| made(store.push_all(items)))
    }
    fn take(
        &self,
        now: Tick,
        n: usize,
        max_in_flight: usize,
        until: Tick,
    ) -> Result<Vec<Delivery>, NoAnswer> {
        self.0.looks.fetch_add(1, Ordering::Relaxed);
        self.step(|store| made(store.take(now, n, max_in_flight, until)))
    }
    fn settle_all(&self, settlements: Vec<(Receipt, Settlement)>, now: Tick) -> Result<Vec<bool>, NoAnswer> {
        self.step(|store| made(store.settle_all(settlements, now)))
    }
    fn overdue(&self, now: Tick, n: usize) -> Result<Vec<(Receipt, Tick)>, NoAnswer> {
        self.step(|store| made(store.overdue(now, n)))
    }
    fn reap(&self, settlements: Vec<(Receipt, Settlement)>, now: Tick) -> Result<Vec<bool>, NoAnswer> {
        self.step(|store| made(store.reap(settlements, now)))
    }
    fn next_change(&self, now: Tick) -> Result<Option<Tick>, NoAnswer> {
        self.step(|store| made(store.next_change(now)))
    }
    fn dead_letters(&self, after: Option<ItemId>, n: usize) -> Result<Vec<DeadLetter>, NoAnswer> {
        self.step(|store| made(store.dead_letters(after, n)))
    }
    fn redrive(&self, id: ItemId, now: Tick) -> Result<bool, NoAnswer> {
        self.step(|store| made(store.redrive(id, now)))
    }
    fn purge(&self, id: ItemId) -> Result<bool, NoAnswer> {
        self.step(|store| made(store.purge(id)))
    }
    fn counts(&self) -> Result<Counts, NoAnswer> {
        self.step(|store| made(store.counts()))
    }
    fn own_clock(&self) -> Option<Arc<dyn Clock>> {
        Some(Arc::new(self.0.clock.clone()))
    }
    fn watch(&self, changed: Changed) {
        self.0.changed.lock().push(changed);
    }
}

struct Setting {
    clock: ManualClock,
    store: Faulty,
    queue: RetryQueue<Faulty>,
    told: Arc<AtomicUsize>,
}

impl Setting {
    fn new(max_in_flight: usize) -> Self {
        let (store, told) = (Faulty::new(), Arc::new(AtomicUsize::new(0)));
        let clock = store.0.clock.clone();
        let tell = Arc::clone(&told);
        let queue = RetryQueue::builder(store.clone())
            .backoff(Backoff::fixed(s(0)).max_attempts(2))
            .max_in_flight(max_in_flight)
            .on_error(move |_| {
                tell.fetch_add(1, Ordering::Relaxed);
            })
            .build();
        queue.drive();
        Setting { clock, store, queue, told }
    }

    fn pass(&self, seconds: u64) {
        pass(&self.clock, &self.queue, seconds);
    }

    fn counts(&self) -> [usize; 3] {
        counts(&self.queue)
    }
}

/// A taker waits while a step is made whose answer is lost: it must be woken for what the step has brought.
fn wakes_a_taker(setting: &Setting, step: impl FnOnce(&RetryQueue<Faulty>)) {
    let woken = Arc::new(Woken::default());
    let mut take = pin!(setting.queue.take(1, s(60), s(1000)));
    assert!(poll(take.as_mut(), &woken).is_none());
    setting.store.be(Mood::Forgets);
    step(&setting.queue);
    setting.store.be(Mood::Fine);
    setting.pass(1);
    assert_eq!(woken.take(), 1, "nobody has looked");
    assert_eq!(poll(take, &woken), Some(1));
}

#[test]
fn a_push_that_was_made_though_it_was_refused_comes_to_a_taker() {
    let setting = Setting::new(usize::MAX);
    wakes_a_taker(&setting, |queue| assert!(queue.push(b"x", s(0)).is_err()));
    wakes_a_taker(&setting, |queue| assert!(queue.push_failed(b"x", 1, "elsewhere").is_err()));
}

#[test]
fn a_batch_that_was_added_though_it_was_refused_comes_to_a_taker() {
    let setting = Setting::new(usize::MAX);
    wakes_a_taker(&setting, |queue| assert!(queue.push_all(&[("x", s(0))]).is_err()));
}

#[test]
fn a_batch_of_nothing_is_no_step() {
    let setting = Setting::new(usize::MAX);
    setting.store.be(Mood::Refuses);
    assert_eq!(setting.queue.ack_all([]).unwrap(), [false; 0]);
    assert!(setting.queue.push_all::<&str>(&[]).unwrap().is_empty());
}

#[test]
fn what_was_taken_though_it_was_refused_comes_back_when_its_time_is_over() {
    let setting = Setting::new(usize::MAX);
    setting.queue.push(b"x", s(0)).unwrap();
    setting.store.be(Mood::Forgets);
    assert!(setting.queue.try_take(1, s(5)).is_err());
    setting.store.be(Mood::Fine);
    assert_eq!(setting.counts(), [0, 1, 0]);
    setting.pass(5);
    assert_eq!(setting.counts(), [1, 0, 0]);
}

#[test]
fn a_settlement_that_was_made_though_it_was_refused_makes_room_and_becomes_due() {
    let setting = Setting::new(1);
    let take = || setting.queue.try_take(1, s(60)).unwrap().remove(0).receipt;
    for _ in 0..3 {
        setting.queue.push(b"x", s(0)).unwrap();
    }
    let receipt = take();
    wakes_a_taker(&setting, |queue| assert!(queue.ack(&receipt).is_err()));
    setting.pass(60);
    let receipt = take();
    wakes_a_taker(&setting, |queue| assert!(queue.nack(&receipt, "no").is_err()));
}

#[test]
fn what_was_redriven_though_it_was_refused_comes_to_a_taker() {
    let setting = Setting::new(usize::MAX);
    let id = setting.queue.push_failed(b"x", 2, "elsewhere").unwrap();
    wakes_a_taker(&setting, |queue| assert!(queue.redrive(id).is_err()));
}

/// Lets an item run out while the store is in a mood, and looks after it was asked again.
fn takes_back_in_the_end(mood: Mood, told: usize) {
    let setting = Setting::new(usize::MAX);
    setting.queue.push(b"x", s(0)).unwrap();
    assert_eq!(setting.queue.try_take(1, s(5)).unwrap().len(), 1);
    setting.pass(4);
    setting.store.be(mood);
    setting.pass(3);
    setting.store.be(Mood::Fine);
    assert_eq!(setting.told.load(Ordering::Relaxed), told, "once a second");
    setting.pass(1);
    assert_eq!(setting.counts(), [1, 0, 0]);
    assert_eq!(setting.queue.time_to_next(), None, "and then nothing runs any more");
}

#[test]
fn a_store_that_refuses_to_take_back_is_asked_again_a_second_later() {
    takes_back_in_the_end(Mood::Refuses, 3);
    takes_back_in_the_end(Mood::Forgets, 3);
}

#[test]
fn a_store_that_panics_while_it_takes_back_is_asked_again_a_second_later() {
    takes_back_in_the_end(Mood::Panics, 0);
}

/// On real threads: the hook runs on the queue's own thread, which then must not wait for itself.
#[test]
fn a_queue_that_is_dropped_by_its_own_hook_lets_go_of_all() {
    let store = Faulty::new();
    store.be(Mood::Refuses);
    let (hand_over, handed_over) = mpsc::channel::<RetryQueue<Faulty>>();
    let (tell, told) = mpsc::channel();
    let handed_over = Mutex::new(handed_over);
    let builder = RetryQueue::builder(store).on_error(move |_| {
        drop(handed_over.lock().recv());
        tell.send(()).unwrap();
    });
    hand_over.send(builder.start().unwrap()).unwrap();
    told.recv_timeout(s(60)).expect("it has waited for itself");
    // The hook goes with all that belongs to the queue.
    assert_eq!(told.recv_timeout(s(60)), Err(RecvTimeoutError::Disconnected), "something holds it");
}

#[test]
fn a_queue_acts_on_what_its_store_tells_of_others() {
    let setting = Setting::new(1);
    let other = RetryQueue::builder(setting.store.clone()).backoff(Backoff::fixed(s(5)));
    let other = other.clock(setting.clock.clone()).build();
    let changed = setting.store.0.changed.lock()[0].clone();
    let woken = Arc::default();
    let mut take = pin!(setting.queue.take(1, s(60), s(1000)));
    assert_eq!((poll(take.as_mut(), &woken), setting.queue.time_to_next()), (None, Some(s(1000))));

    other.push(b"x", s(0)).unwrap();
    assert_eq!(woken.take(), 0, "nobody has said so");
    changed.due(Tick::ZERO);
    assert_eq!((woken.take(), poll(take, &woken)), (1, Some(1)));
    changed.due(Tick::new(7_000));
    assert_eq!(setting.queue.time_to_next(), Some(s(7)), "it looks when it is due");
    changed.runs_out(Tick::new(6_000));
    assert_eq!(setting.queue.time_to_next(), Some(s(6)));
    other.push(b"y", s(0)).unwrap();
    other.try_take(1, s(3)).unwrap();
    setting.clock.advance(s(3));
    changed.runs_out(Tick::ZERO);
    setting.queue.drive();
    assert_eq!(counts(&setting.queue), [1, 1, 0], "what has run out with the other is taken back here");
}

#[test]
fn what_a_store_tells_a_queue_that_is_gone_is_nothing() {
    let setting = Setting::new(1);
    let changed = setting.store.0.changed.lock()[0].clone();
    drop(setting.queue);
    assert_eq!(Arc::strong_count(&setting.store.0), 1, "it is not held");
    changed.due(Tick::ZERO);
    changed.runs_out(Tick::ZERO);
}
