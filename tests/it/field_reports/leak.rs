//! Leaks: what is over and is kept all the same. What it costs in memory is counted in `tests/allocations.rs`.

use super::support::*;
use crate::guarantees::support::*;
use ixion::Outcome;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// LEAK-03. What was completed stayed on the lists of its other keys, and the lists of keys that nobody used any more
/// stayed too, until a purge.
#[test]
fn what_is_completed_on_one_key_leaves_the_others_and_an_empty_key_leaves_too() {
    let all = rounds(100_000);
    let bench = Bench::new();
    const SHARED: u32 = u32::MAX;
    for number in 0..all {
        bench.watch(number, NEVER, &[number, SHARED]).set();
    }
    bench.assert_left(all as usize, 2 * all as usize, all as usize + 1);
    assert_eq!(bench.purgatory.check_and_complete(&SHARED), all as usize);
    bench.assert_left(0, 0, 0);
    for number in 0..all {
        bench.watch(number, NEVER, &[number, SHARED]).set();
    }
    for number in 0..all {
        assert_eq!(bench.purgatory.check_and_complete(&number), 1);
    }
    bench.assert_left(0, 0, 0);
    assert!(!bench.purgatory.contains_key(&SHARED));
}

/// LEAK-05. Timers that were cancelled on their way to the wheel were put into it all the same, and stayed for years.
#[test]
fn what_is_over_at_once_or_cancelled_before_a_drive_is_in_no_wheel() {
    let bench = Bench::new();
    let payload = Arc::new(());
    let probe = |number, is_met| {
        let mut op = bench.probe(number);
        op.payload = Some(Arc::clone(&payload));
        op.flag.store(is_met, std::sync::atomic::Ordering::SeqCst);
        op
    };
    for number in 0..rounds(100_000) {
        assert!(bench.register(probe(number, true), 2 * YEAR, &[1, 2]).unwrap().is_completed());
    }
    assert_eq!((Arc::strong_count(&payload), bench.purgatory.next_expiration()), (1, None));
    // Registered by one thread, cancelled by another, and only then does anybody drive.
    let (pass_on, ids) = channel();
    thread::scope(|scope| {
        let purgatory = &bench.purgatory;
        scope.spawn(move || ids.iter().for_each(|id| assert!(purgatory.cancel(id).is_cancelled())));
        for number in 0..rounds(100_000) {
            pass_on.send(bench.wait(probe(number, false), 2 * YEAR, &[number, 1]).id).unwrap();
        }
        drop(pass_on);
    });
    assert_eq!(bench.drive().0, 0);
    assert_eq!((Arc::strong_count(&payload), bench.purgatory.next_expiration()), (1, None));
    bench.assert_left(0, 0, 0);
}

/// LEAK-07. Arming a key again forgot the timer that it had, which went on firing, and multiplied.
#[test]
fn a_keyed_timer_that_is_armed_again_and_again_has_one_deadline_and_fires_once() {
    const PERIOD: Duration = ms_of(10);
    /// The way to have one timer a key: move the one that is there, or else start it.
    fn arm(purgatory: &Shared, log: &Log, timeout: Duration) {
        if purgatory.reset_timeout_for_key(&1, timeout) > 0 {
            return;
        }
        let (again, logs) = (Arc::clone(purgatory), Arc::clone(log));
        let op = Probe {
            number: 0,
            flag: Arc::default(),
            looks: Arc::default(),
            log: Arc::clone(log),
            in_look: None,
            at_end: Some(Box::new(move |outcome| {
                if outcome == Outcome::Expired {
                    arm(&again, &logs, 2 * PERIOD);
                    arm(&again, &logs, PERIOD);
                }
            })),
            payload: None,
        };
        let _ = purgatory.try_complete_else_watch(op, timeout, [1]).expect("open");
    }
    let mut driver = Sleeper::new();
    let (purgatory, log) = (Arc::clone(&driver.bench.purgatory), Arc::clone(&driver.bench.log));
    for n in 0..1000 {
        arm(&purgatory, &log, ms_of(n * 37 % 500 + 1));
    }
    arm(&purgatory, &log, PERIOD);
    driver.bench.assert_left(1, 1, 1);
    let expected: Vec<_> = (1..=100).map(|period| (period * 10, 0)).collect();
    assert_eq!(driver.pass_time(1000), expected);
    driver.bench.assert_left(1, 1, 1);
    assert_eq!(purgatory.shutdown(), 1);
}

/// LEAK-09. What timed out stayed registered under its key.
#[test]
fn an_event_that_comes_after_the_timeout_finds_nobody() {
    let all = rounds(100_000);
    let bench = Bench::new();
    let handles: Vec<Handle> = (0..all).map(|number| bench.watch(number, ms_of(5), &[number])).collect();
    bench.advance(5);
    assert_eq!(bench.drive().0, all as usize);
    bench.assert_left(0, 0, 0);
    assert_eq!(bench.take_log().len(), all as usize);
    for (handle, key) in handles.iter().zip(0..) {
        handle.set();
        assert_eq!(bench.purgatory.check_and_complete(&key), 0);
        assert_eq!(handle.looks.load(std::sync::atomic::Ordering::SeqCst), 2, "those of the registration");
    }
    assert!(bench.take_log().is_empty());
}

/// LEAK-11. A timer that was moved to "now" ran, and its key stayed.
#[test]
fn a_key_that_is_reset_to_now_is_gone_once_it_has_fired_and_can_be_set_again() {
    for wait in [0, 1] {
        let mut driver = Sleeper::new();
        driver.bench.advance(7);
        let saw = Arc::new(Mutex::new(None));
        let (seen, purgatory) = (Arc::clone(&saw), Arc::clone(&driver.bench.purgatory));
        let mut op = driver.bench.probe(0);
        op.at_end = Some(Box::new(move |_| *seen.lock().unwrap() = Some(purgatory.contains_key(&1))));
        driver.bench.wait(op, ms_of(50), &[1]);
        assert_eq!(driver.bench.purgatory.reset_timeout_for_key(&1, ms_of(wait)), 1);
        assert_eq!(driver.pass_time(wait), [(7 + wait, 0)]);
        assert_eq!(*saw.lock().unwrap(), Some(false), "before its callback");
        driver.bench.assert_left(0, 0, 0);
        driver.bench.watch(1, ms_of(10), &[1]);
        assert_eq!(driver.pass_time(100), [(17 + wait, 1)]);
        driver.bench.assert_left(0, 0, 0);
    }
}
