//! Who of those that wait is woken: as few as can be, and nothing is left lying.

use crate::faults::{Faulty, Mood, NoAnswer};
use crate::queue::s;
use crate::waiting::{Woken, poll};
use ixion::ManualClock;
use ixion_retry::{Backoff, Delivery, RetryQueue};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;

type Take<'a> = Pin<Box<dyn Future<Output = Result<Vec<Delivery>, NoAnswer>> + 'a>>;

struct Setting {
    clock: ManualClock,
    store: Faulty,
    queue: RetryQueue<Faulty>,
}

impl Setting {
    fn new(max_in_flight: usize) -> Self {
        let (clock, store) = (ManualClock::new(), Faulty::new());
        let builder = RetryQueue::builder(store.clone()).backoff(Backoff::fixed(s(5)));
        let queue = builder.max_in_flight(max_in_flight).clock(clock.clone()).build();
        queue.drive();
        Setting { clock, store, queue }
    }

    /// So many takers that wait for up to `n` items each.
    fn takers(&self, takers: usize, n: usize) -> Vec<Taker<'_>> {
        let taker = |_| {
            let mut taker =
                Taker { take: Box::pin(self.queue.take(n, s(60), s(1000))), woken: Arc::default() };
            assert_eq!(taker.poll(), None);
            taker
        };
        let takers = (0..takers).map(taker).collect();
        self.store.looks();
        takers
    }

    fn push(&self, delay: u64) {
        self.queue.push(b"x", s(delay)).unwrap();
    }

    fn pass(&self, seconds: u64) {
        self.clock.advance(s(seconds));
        self.queue.drive();
    }
}

struct Taker<'a> {
    take: Take<'a>,
    woken: Arc<Woken>,
}

impl Taker<'_> {
    fn poll(&mut self) -> Option<usize> {
        poll(self.take.as_mut(), &self.woken)
    }
}

/// Polls all that were woken by then, once each, and lets those go that have got something. How many they have got.
fn round(takers: &mut Vec<Taker<'_>>) -> usize {
    let awake: Vec<bool> = takers.iter().map(|taker| taker.woken.take() > 0).collect();
    let (mut got, mut awake) = (0, awake.into_iter());
    takers.retain_mut(|taker| {
        let some = if awake.next() == Some(true) { taker.poll() } else { None };
        got += some.unwrap_or(0);
        some.is_none()
    });
    got
}

fn is_awake(takers: &[Taker<'_>]) -> bool {
    takers.iter().any(|taker| taker.woken.is_any())
}

#[test]
fn an_item_costs_as_few_looks_however_many_wait() {
    // One that takes one item at a time cannot know that there is no other: it lets two more look.
    for (n, looks_each) in [(1, 3), (2, 1)] {
        let setting = Setting::new(usize::MAX);
        let mut takers = setting.takers(64, n);
        for item in 0..60 {
            setting.push(item % 2);
            setting.pass(item % 2);
            let mut got = 0;
            while is_awake(&takers) {
                got += round(&mut takers);
            }
            assert_eq!((got, setting.store.looks()), (1, looks_each), "item {item}");
        }
        assert_eq!(takers.len(), 4);
    }
}

#[test]
fn many_items_of_one_moment_are_out_in_few_rounds() {
    let setting = Setting::new(usize::MAX);
    let mut takers = setting.takers(63, 1);
    (0..63).for_each(|_| setting.push(1));
    setting.pass(1);
    let got: Vec<usize> = (0..6).map(|_| round(&mut takers)).collect();
    assert_eq!(got.iter().sum::<usize>(), 63, "{got:?}");
    assert_eq!(setting.store.looks(), 63, "none looks in vain");
}

#[test]
fn one_that_is_dropped_when_it_was_woken_lets_the_next_look() {
    let setting = Setting::new(usize::MAX);
    let mut takers = setting.takers(3, 1);
    setting.push(0);
    assert!(takers[0].woken.take() == 1 && !is_awake(&takers[1..]));
    drop(takers.remove(0));
    assert_eq!(round(&mut takers), 1);
    // One that was not woken owes nothing.
    drop(takers);
    let mut takers = setting.takers(2, 1);
    drop(takers.remove(0));
    assert!(!is_awake(&takers));
    setting.push(0);
    assert_eq!(round(&mut takers), 1);
}

#[test]
fn one_that_takes_all_it_may_lets_the_next_look_and_so_does_room_in_flight() {
    let setting = Setting::new(2);
    let mut takers = setting.takers(4, 1);
    (0..4).for_each(|_| setting.push(1));
    setting.pass(1);
    let got: Vec<usize> = (0..3).map(|_| round(&mut takers)).collect();
    assert_eq!((got, takers.len()), (vec![1, 1, 0], 2), "there is no more room");
    setting.pass(60); // both run out, and each makes room for one that is due
    let got: Vec<usize> = (0..3).map(|_| round(&mut takers)).collect();
    assert_eq!(got.iter().sum::<usize>(), 2);
}

#[test]
fn one_whose_look_panics_lets_the_next_look() {
    let setting = Setting::new(usize::MAX);
    let mut takers = setting.takers(3, 1);
    setting.push(0);
    setting.store.be(Mood::Panics);
    assert_eq!(takers[0].woken.take(), 1);
    let mut first = takers.remove(0);
    assert!(catch_unwind(AssertUnwindSafe(|| first.poll())).is_err());
    setting.store.be(Mood::Fine);
    drop(first);
    assert_eq!(round(&mut takers), 1);
}

#[test]
fn one_whose_look_is_refused_leaves_the_item_to_the_next_a_second_later() {
    let setting = Setting::new(usize::MAX);
    let mut takers = setting.takers(3, 1);
    setting.push(0);
    setting.store.be(Mood::Refuses);
    let mut first = takers.remove(0);
    assert!(catch_unwind(AssertUnwindSafe(|| first.poll())).is_err(), "it is told so");
    setting.store.be(Mood::Fine);
    drop(first);
    assert!(!is_awake(&takers), "they would all be told the same");
    setting.pass(1);
    assert_eq!(round(&mut takers), 1);
}

#[test]
fn a_closed_queue_lets_all_go() {
    let setting = Setting::new(usize::MAX);
    let mut takers = setting.takers(3, 1);
    setting.queue.close();
    assert!(takers.iter_mut().all(|taker| taker.woken.take() == 1 && taker.poll() == Some(0)));
}
