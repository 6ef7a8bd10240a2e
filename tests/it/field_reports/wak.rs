//! Missed wake-ups: a driver that sleeps although something is due, or about to be.

use super::support::*;
use crate::guarantees::support::*;
use crate::uptime::tick;
use ixion::{Outcome, TimingWheel};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// WAK-01. The driver slept until a bucket of the wheel would be moved, and a reset that was later than that but earlier
/// than the timer's own deadline did not wake it.
#[test]
fn a_reset_to_an_earlier_time_wakes_the_driver_whatever_it_sleeps_for() {
    for first in [65, 100, 129, 192, 200, 5000] {
        for twice in [false, true] {
            let mut driver = Sleeper::new();
            driver.pass_time(1);
            let x = driver.bench.watch(0, ms_of(first - 1), &[1]);
            assert_eq!(driver.pass_time(2), []);
            if twice {
                assert!(driver.bench.purgatory.reset_timeout(x.id, ms_of(57)));
                assert_eq!(driver.pass_time(0), []);
            }
            assert!(driver.bench.purgatory.reset_timeout(x.id, ms_of(2)));
            assert_eq!(driver.pass_time(2), [(5, 0)], "reset from {first}");
            assert!(!driver.bench.purgatory.reset_timeout(x.id, ms_of(1)));
            assert_eq!(driver.pass_time(first + 100), []);
        }
    }
}

/// WAK-03. Handing out an item cleared the alarm, which was then set for the newest item only.
#[test]
fn what_is_registered_after_an_expiry_postpones_none_of_the_others() {
    for from_callback in [false, true] {
        let mut driver = Sleeper::new();
        let (late, purgatory) = (driver.bench.probe(11), Arc::clone(&driver.bench.purgatory));
        let insert = move || {
            let _ = purgatory.try_complete_else_watch(late, ms_of(10 * SECOND), [2]).unwrap();
        };
        let mut first = driver.bench.probe(1);
        let (mut inside, mut outside) = (None, None);
        *(if from_callback { &mut inside } else { &mut outside }) = Some(insert);
        first.at_end = inside.map(|insert| Box::new(move |_| insert()) as Box<dyn FnOnce(Outcome) + Send>);
        driver.bench.wait(first, ms_of(SECOND), &[1]);
        for number in 2..6 {
            driver.bench.watch(number, ms_of(u64::from(number) * SECOND), &[1]);
        }
        let mut ended = driver.pass_time(SECOND);
        outside.into_iter().for_each(|insert| insert());
        ended.extend(driver.pass_time(10 * SECOND));
        assert_eq!(ended, [1, 2, 3, 4, 5, 11].map(|number| (u64::from(number) * SECOND, number)));
        assert!(driver.wake_ups <= 8, "{} wake-ups for six timers", driver.wake_ups);
    }
}

/// WAK-05. What was reset into the past went to a list that the wake-up did not look at.
#[test]
fn a_reset_to_a_time_that_has_passed_wakes_the_driver_at_once() {
    let mut driver = Sleeper::new();
    driver.pass_time(100);
    let x = driver.bench.watch(0, ms_of(10_000), &[1]);
    assert_eq!(driver.come_round(), []);
    let purgatory = Arc::clone(&driver.bench.purgatory);
    assert!(thread::spawn(move || purgatory.reset_timeout(x.id, Duration::ZERO)).join().unwrap());
    assert!(driver.woken.load(Ordering::SeqCst), "while the clock stands still");
    assert_eq!(driver.come_round(), [(100, 0)]);
    assert_eq!(driver.pass_time(10_000), [], "once");

    let mut wheel = TimingWheel::starting_at(tick(100));
    let x = wheel.start_timer(tick(10_000), 0);
    assert!(wheel.restart_timer(x, tick(50)));
    assert_eq!(wheel.next_expiration(), Some(tick(50)));
    assert_eq!(pop_all(&mut wheel, 100), [(50, 0)]);
    assert_eq!(pop_all(&mut wheel, 10_000), []);
}

/// WAK-10. A timer that a callback started and cancelled left the alarm off, while a note said that it was on.
#[test]
fn a_timer_that_a_callback_starts_and_cancels_does_not_silence_the_next_one() {
    let mut driver = Sleeper::new();
    let mut x = driver.bench.probe(0);
    let (y, purgatory) = (driver.bench.probe(1), Arc::clone(&driver.bench.purgatory));
    x.at_end = Some(Box::new(move |_| {
        let y = purgatory.try_complete_else_watch(y, ms_of(5), [1]).unwrap().id().expect("waits");
        assert!(purgatory.cancel(y).is_cancelled());
    }));
    driver.bench.wait(x, ms_of(3), &[1]);
    assert_eq!(driver.pass_time(20), [(3, 0)]);
    driver.bench.watch(2, ms_of(10), &[1]);
    assert_eq!(driver.pass_time(20), [(30, 2)]);
}

/// WAK-15. The second of two kinds of event did not look at the operation.
#[test]
fn each_key_of_an_operation_is_enough_to_complete_it() {
    let bench = Bench::new();
    for key in [1, 2] {
        let handle = bench.watch(key, NEVER, &[1, 2]);
        handle.set();
        assert_eq!(bench.purgatory.check_and_complete(&key), 1);
        assert_eq!(bench.take_log(), [(key, Outcome::Satisfied)]);
        bench.assert_left(0, 0, 0);
    }
}

/// WAK-17. A deadline that had passed while the driver was held up was taken for "nothing waits", and what was
/// registered meanwhile was slept for instead.
#[test]
fn what_became_due_while_the_driver_was_held_up_is_not_taken_for_nothing() {
    // Held up before it looks.
    let mut driver = Sleeper::new();
    driver.bench.watch(0, ms_of(10), &[1]);
    assert_eq!(driver.come_round(), []);
    driver.bench.advance(12);
    driver.bench.watch(1, ms_of(988), &[2]);
    assert_eq!(driver.bench.purgatory.time_to_next(), Some(Duration::ZERO));
    assert_eq!(driver.come_round(), [(12, 0)]);
    assert_eq!(driver.pass_time(2000), [(1000, 1)]);

    // Held up in a callback, past the deadline of another.
    let mut driver = Sleeper::new();
    let ((enter, entered), (go_on, told)) = (channel(), channel::<()>());
    let mut slow = driver.bench.probe(0);
    slow.at_end = Some(Box::new(move |_| {
        enter.send(()).unwrap();
        told.recv().unwrap();
    }));
    driver.bench.wait(slow, ms_of(5), &[1]);
    driver.bench.watch(1, ms_of(10), &[1]);
    driver.bench.advance(5);
    let (purgatory, clock, late) =
        (Arc::clone(&driver.bench.purgatory), driver.bench.clock.clone(), driver.bench.probe(2));
    let other = thread::spawn(move || {
        entered.recv().unwrap();
        clock.advance(ms_of(7));
        let _ = purgatory.try_complete_else_watch(late, ms_of(988), [2]).unwrap();
        go_on.send(()).unwrap();
    });
    let ended = driver.come_round();
    other.join().unwrap();
    assert_eq!(ended, [(5, 0)]);
    assert_eq!(driver.come_round(), [(12, 1)], "without the clock moving again");
    assert_eq!(driver.pass_time(2000), [(1000, 2)]);
}

/// WAK-22. A wait that was over long ago hid the deadline of what it had been given.
#[test]
fn a_wait_that_is_over_does_not_hide_the_deadline_of_a_later_one() {
    let mut driver = Sleeper::new();
    // A consumer waits for an item for 5 s, and is given one at once, for 10 s.
    driver.bench.watch(0, ms_of(5 * SECOND), &[1]).set();
    assert_eq!(driver.bench.purgatory.check_and_complete(&1), 1);
    let mut lease = driver.bench.probe(1);
    // Another one waits for the item to come back.
    let (next, purgatory) =
        (driver.bench.watch(2, ms_of(60 * SECOND), &[1]), Arc::clone(&driver.bench.purgatory));
    lease.at_end = Some(Box::new(move |_| {
        next.set();
        assert_eq!(purgatory.check_and_complete(&1), 1);
    }));
    driver.bench.wait(lease, ms_of(10 * SECOND), &[7]);
    assert_eq!(driver.pass_time(5 * SECOND), [(0, 0)]);
    assert_eq!(driver.pass_time(20 * SECOND), [(10 * SECOND, 1), (10 * SECOND, 2)]);
}
