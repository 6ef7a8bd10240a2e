//! Takers that wait.

use crate::queue::{counts, s};
use ixion::ManualClock;
use ixion_retry::{Answer, Backoff, Delivery, MemoryStore, RetryQueue};
use std::fmt::Debug;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

#[derive(Default)]
pub(crate) struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Woken {
    pub(crate) fn is_any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn take(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

fn setting(max_in_flight: usize) -> (ManualClock, RetryQueue<MemoryStore>, Arc<Woken>) {
    let clock = ManualClock::new();
    let builder =
        RetryQueue::builder(MemoryStore::new()).backoff(Backoff::fixed(s(5))).max_in_flight(max_in_flight);
    let queue = builder.clock(clock.clone()).build();
    queue.drive(); // it looks at what the store may have from before
    (clock, queue, Arc::default())
}

/// How many items a taker has got; `None`: it waits.
pub(crate) fn poll<E: Debug>(
    take: Pin<&mut (impl Future<Output = Result<Vec<Delivery>, E>> + ?Sized)>,
    woken: &Arc<Woken>,
) -> Option<usize> {
    poll_for(take, woken).map(|taken| taken.len())
}

fn poll_for<E: Debug>(
    take: Pin<&mut (impl Future<Output = Result<Vec<Delivery>, E>> + ?Sized)>,
    woken: &Arc<Woken>,
) -> Option<Vec<Delivery>> {
    let waker = Waker::from(Arc::clone(woken));
    match take.poll(&mut Context::from_waker(&waker)) {
        Poll::Ready(taken) => Some(taken.unwrap()),
        Poll::Pending => None,
    }
}

#[test]
fn a_taker_wakes_for_a_push_and_for_an_item_that_becomes_due() {
    let (clock, queue, woken) = setting(usize::MAX);
    let mut take = pin!(queue.take(2, s(60), s(100)));
    assert_eq!(poll(take.as_mut(), &woken), None);
    queue.push(b"later", s(10)).unwrap();
    assert_eq!(woken.take(), 0, "nothing is due");
    queue.push(b"now", s(0)).unwrap();
    assert_eq!((woken.take(), poll(take, &woken)), (1, Some(1)));

    let mut take = pin!(queue.take(2, s(60), s(100)));
    assert_eq!(poll(take.as_mut(), &woken), None);
    clock.advance(s(9));
    queue.drive();
    assert_eq!((woken.take(), queue.time_to_next()), (0, Some(s(1))), "it sleeps to the moment");
    clock.advance(s(1));
    queue.drive();
    assert_eq!((woken.take(), poll(take, &woken)), (1, Some(1)));
}

#[test]
fn a_taker_wakes_for_what_comes_back_and_for_room_in_flight() {
    let (clock, queue, woken) = setting(1);
    queue.push(b"a", s(0)).unwrap();
    queue.push(b"b", s(0)).unwrap();
    let a = queue.try_take(2, s(60)).unwrap().remove(0);
    let mut take = pin!(queue.take(1, s(60), s(1000)));
    assert_eq!(poll(take.as_mut(), &woken), None, "one is in flight");
    assert!(queue.nack(&a.receipt, "no").unwrap());
    assert_eq!((woken.take(), poll(take, &woken)), (1, Some(1)), "b");

    let mut take = pin!(queue.take(1, s(60), s(1000)));
    clock.advance(s(5));
    queue.drive();
    assert_eq!(poll(take.as_mut(), &woken), None, "a is due, and b in flight");
    clock.advance(s(55));
    queue.drive();
    assert!(woken.take() >= 1);
    assert_eq!(poll(take, &woken), Some(1), "b has run out");
}

#[test]
fn what_runs_out_wakes_whatever_was_waited_for_before() {
    let (clock, queue, woken) = setting(usize::MAX);
    queue.push(b"x", s(0)).unwrap();
    // It need not wait for the five seconds that it would have.
    assert_eq!(poll(pin!(queue.take(1, s(10), s(5))), &woken), Some(1));
    let mut take = pin!(queue.take(1, s(60), s(100)));
    assert_eq!(poll(take.as_mut(), &woken), None);
    for (passed, waiting) in [(5, 0), (5, 1)] {
        clock.advance(s(passed));
        queue.drive();
        assert_eq!((queue.counts().unwrap().waiting, poll(take.as_mut(), &woken)), (waiting, None));
    }
    woken.take();
    clock.advance(s(5));
    queue.drive();
    assert_eq!((woken.take(), poll(take, &woken)), (1, Some(1)), "it ran out at ten, and is due again");
}

#[test]
fn a_taker_wakes_for_what_is_given_back_or_runs_out_at_once_and_nothing_spins() {
    let clock = ManualClock::new();
    let backoff = Backoff::fixed(s(0)).max_attempts(3);
    let queue = RetryQueue::builder(MemoryStore::new()).backoff(backoff).clock(clock).build();
    queue.push(b"x", s(0)).unwrap();
    let woken = Arc::default();
    let mut attempts = Vec::new();
    let mut taken = queue.try_take(1, s(60)).unwrap().remove(0);
    for _ in 0..3 {
        attempts.push(taken.receipt.attempt());
        let mut take = pin!(queue.take(1, s([60, 0, 0][attempts.len() - 1]), s(100)));
        assert!(poll_for(take.as_mut(), &woken).is_none());
        // By an extension of nothing, by a delay of nothing, and by a visibility of nothing.
        match attempts.len() {
            1 => assert!(queue.extend(&taken.receipt, s(0)).unwrap()),
            2 => assert!(queue.nack_after(&taken.receipt, s(0), "no").unwrap()),
            _ => assert!(!queue.ack(&taken.receipt).unwrap()),
        }
        queue.drive();
        let is_woken = woken.take() > 0;
        let Some(mut next) = poll_for(take, &woken) else { break };
        assert!(is_woken);
        taken = next.remove(0);
    }
    assert_eq!((attempts, queue.counts().unwrap().dead), (vec![1, 2, 3], 1));
    assert_eq!(queue.time_to_next(), None);
}

#[test]
fn a_batch_wakes_once_for_what_is_due_and_later_for_the_rest() {
    let (clock, queue, woken) = setting(2);
    let mut take = pin!(queue.take(9, s(60), s(1000)));
    assert_eq!(poll(take.as_mut(), &woken), None);
    queue.push_all(&[("later", s(10)), ("now", s(0)), ("now", s(0))]).unwrap();
    assert_eq!((woken.take(), poll(take, &woken)), (1, Some(2)));

    // The second of these is later by itself, and the first no news.
    queue.push_all(&[("much later", s(100)), ("later", s(11))]).unwrap();
    let mut take = pin!(queue.take(9, s(60), s(1000)));
    assert_eq!(poll(take.as_mut(), &woken), None);
    clock.advance(s(11));
    queue.drive();
    assert_eq!((woken.take(), poll(take.as_mut(), &woken)), (1, None), "both are due, and there is no room");
    clock.advance(s(49));
    queue.drive();
    assert!(woken.take() >= 1);
    assert_eq!(poll(take, &woken), Some(2), "what had run out goes to the end");
}

#[test]
fn a_batch_of_answers_wakes_once() {
    let (clock, queue, woken) = setting(3);
    let now = s(0);
    queue.push_all(&[("a", now), ("b", now), ("c", now), ("d", now)]).unwrap();
    let [a, b, c] = queue.try_take(3, s(60)).unwrap().try_into().unwrap();
    let mut take = pin!(queue.take(1, s(60), s(1000)));
    assert_eq!(poll(take.as_mut(), &woken), None);
    let answers = [
        (a.receipt, Answer::Ack),
        (b.receipt, Answer::NackAfter(s(7), "no".to_owned())),
        (c.receipt, Answer::Extend(s(3))),
        (a.receipt, Answer::Ack),
    ];
    assert_eq!(queue.settle_all(answers).unwrap(), [true, true, true, false]);
    assert_eq!((woken.take(), poll(take, &woken)), (1, Some(1)));
    queue.drive();
    assert_eq!(queue.time_to_next(), Some(s(3)), "when the extension is over");
    clock.advance(s(3));
    queue.drive();
    assert_eq!(queue.time_to_next(), Some(s(4)), "when b is due");
}

#[test]
fn a_taker_goes_with_nothing_when_its_time_is_up_or_the_queue_is_closed() {
    let (clock, queue, woken) = setting(usize::MAX);
    let (mut in_time, mut closed) = (pin!(queue.take(1, s(60), s(3))), pin!(queue.take(1, s(60), s(100))));
    assert_eq!((poll(in_time.as_mut(), &woken), poll(closed.as_mut(), &woken)), (None, None));
    clock.advance(s(3));
    queue.drive();
    assert_eq!((woken.take(), poll(in_time, &woken)), (1, Some(0)));
    queue.close();
    assert_eq!((woken.take(), poll(closed, &woken)), (1, Some(0)));
    queue.push(b"x", s(0)).unwrap();
    assert_eq!(poll(pin!(queue.take(1, s(60), s(100))), &woken), Some(1), "what is there is given out");
    assert_eq!(poll(pin!(queue.take(1, s(60), s(100))), &woken), Some(0), "but nobody waits");
}

#[test]
fn a_taker_that_is_dropped_has_taken_nothing() {
    let (_, queue, woken) = setting(usize::MAX);
    {
        let mut take = pin!(queue.take(1, s(60), s(100)));
        assert_eq!(poll(take.as_mut(), &woken), None);
        queue.push(b"x", s(0)).unwrap();
        assert_eq!(woken.take(), 1);
    }
    assert_eq!(queue.try_take(1, s(60)).unwrap().len(), 1);
}

#[test]
fn no_taker_waits_for_no_items() {
    let (_, queue, woken) = setting(usize::MAX);
    queue.push(b"x", s(0)).unwrap();
    assert_eq!(poll(pin!(queue.take(0, s(60), s(100))), &woken), Some(0));
}

#[test]
fn an_extension_in_time_wins_over_a_drive_that_comes_late() {
    let (clock, queue, _) = setting(usize::MAX);
    queue.push(b"x", s(0)).unwrap();
    let taken = queue.try_take(1, s(10)).unwrap().remove(0);
    clock.advance_to(Duration::from_millis(9_900));
    assert!(queue.extend(&taken.receipt, s(10)).unwrap());
    clock.advance_to(Duration::from_millis(10_500));
    queue.drive();
    assert_eq!(
        (queue.counts().unwrap().in_flight, queue.time_to_next()),
        (1, Some(Duration::from_millis(9_400)))
    );
    assert!(queue.ack(&taken.receipt).unwrap());
}

#[test]
fn a_step_back_of_the_clock_makes_nothing_wait_that_was_due() {
    let (clock, queue, woken) = setting(usize::MAX);
    queue.push(b"x", s(10)).unwrap();
    let mut take = pin!(queue.take(1, s(60), s(100)));
    assert_eq!(poll(take.as_mut(), &woken), None);
    clock.advance(s(10));
    queue.drive();
    assert_eq!(woken.take(), 1);
    clock.advance_to(s(9));
    assert_eq!(poll(take, &woken), Some(1), "time has stood still, and nothing would wake it again");
    clock.advance_to(s(70));
    queue.drive();
    assert_eq!(queue.counts().unwrap().in_flight, 0);
}

/// On real threads and the real clock: everything that is pushed, by several, is taken and acknowledged once.
#[test]
fn all_that_threads_push_comes_to_threads_that_wait() {
    const EACH: usize = 2000;
    let queue = RetryQueue::builder(MemoryStore::new()).start().unwrap();
    let taken = AtomicUsize::new(0);
    thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (queue, taken) = (&queue, &taken);
            scope.spawn(move || {
                for n in 0..EACH as u64 {
                    queue.push(b"x", Duration::from_micros((thread * 7 + n * 13) % 5000)).unwrap();
                }
            });
            scope.spawn(move || {
                while taken.load(Ordering::Relaxed) < 4 * EACH {
                    for delivery in queue.take_blocking(16, s(600), s(1)).unwrap() {
                        assert!(queue.ack(&delivery.receipt).unwrap());
                        if taken.fetch_add(1, Ordering::Relaxed) + 1 == 4 * EACH {
                            queue.close();
                        }
                    }
                }
            });
        }
    });
    assert_eq!(counts(&queue), [0, 0, 0]);
}

/// One thread takes without a pause what two push, all of it due at once: nothing is left lying, and nothing comes twice.
#[test]
fn what_two_threads_push_while_a_third_takes_comes_to_the_last() {
    const EACH: u32 = if cfg!(debug_assertions) { 30_000 } else { 500_000 };
    let queue = RetryQueue::builder(MemoryStore::new()).start().unwrap();
    let mut seen = vec![false; 2 * EACH as usize];
    thread::scope(|scope| {
        for first in [0, EACH] {
            let queue = &queue;
            scope.spawn(move || {
                for item in first..first + EACH {
                    queue.push(&item.to_le_bytes(), s(0)).unwrap();
                }
            });
        }
        let mut left = seen.len();
        while left > 0 {
            let taken = queue.take_blocking(64, s(600), s(60)).unwrap();
            assert!(!taken.is_empty(), "{left} are left lying");
            for delivery in &taken {
                let item = u32::from_le_bytes(delivery.payload.as_slice().try_into().unwrap());
                assert!(!std::mem::replace(&mut seen[item as usize], true), "{item} came twice");
            }
            assert!(
                queue
                    .ack_all(taken.iter().map(|delivery| &delivery.receipt))
                    .unwrap()
                    .iter()
                    .all(|done| *done)
            );
            left -= taken.len();
        }
    });
    assert_eq!(counts(&queue), [0, 0, 0]);
}

/// While threads look without a pause for what has run out, nothing of what others push is given out before its time, and
/// each of it once.
#[test]
fn what_is_pushed_while_others_take_back_comes_at_its_time_and_once() {
    const EACH: usize = 250;
    let (clock, queue, _) = setting(usize::MAX);
    let pushers = AtomicUsize::new(4);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                (0..EACH).for_each(|_| _ = queue.push(b"x", s(10)).unwrap());
                pushers.fetch_sub(1, Ordering::Relaxed);
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                while pushers.load(Ordering::Relaxed) > 0 {
                    queue.drive();
                    assert!(queue.try_take(9, s(60)).unwrap().is_empty());
                }
            });
        }
        clock.advance(s(9));
    });
    // They were pushed between now and nine seconds ago.
    clock.advance(s(10));
    queue.drive();
    let taken = queue.try_take(usize::MAX, s(60)).unwrap();
    assert!(taken.len() == 4 * EACH && queue.try_take(1, s(60)).unwrap().is_empty());
}
