//! Races of cancellations and resets with what fires: whoever is told that it has won, has won.

use super::support::*;
use crate::guarantees::support::*;
use crate::uptime::{after, tick};
use ixion::{Cancelled, OperationId, Outcome, Step, TimingWheel};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

/// CAN-01. What was due was collected first, and then run without another look at who had been cancelled.
#[test]
fn what_a_callback_cancels_at_the_same_tick_does_not_run_if_the_cancellation_has_won() {
    const OTHERS: u32 = 300;
    let bench = Bench::with(|builder| builder.shards(1));
    let others: Arc<Mutex<Vec<Handle>>> = Arc::default();
    let won: Arc<Mutex<Vec<(u32, bool)>>> = Arc::default();
    let (named, wins, purgatory) = (Arc::clone(&others), Arc::clone(&won), Arc::clone(&bench.purgatory));
    let mut first = bench.probe(0);
    first.at_end = Some(Box::new(move |_| {
        for (handle, number) in named.lock().unwrap().iter().zip(1..) {
            let has_won = if number % 2 == 1 {
                purgatory.cancel(handle.id).is_cancelled()
            } else {
                purgatory.reset_timeout(handle.id, ms_of(10))
            };
            wins.lock().unwrap().push((number, has_won));
        }
    }));
    bench.wait(first, ms_of(1), &[1]);
    let handles = (1..=OTHERS).map(|number| bench.watch(number, ms_of(1), &[1])).collect();
    *others.lock().unwrap() = handles;
    bench.advance(1);
    let at_once = bench.drive().0;
    let won = won.lock().unwrap();
    let with = |even: bool, has_won: bool| {
        let of = won.iter().filter(move |(number, wins)| (number % 2 == 0) == even && *wins == has_won);
        of.map(|(number, _)| *number).collect::<Vec<_>>()
    };
    let (cancelled, reset) = (with(false, true), with(true, true));
    let mut too_late = with(false, false);
    too_late.extend(with(true, false));
    too_late.push(0);
    too_late.sort_unstable();
    assert!(!cancelled.is_empty() && !reset.is_empty() && too_late.len() > 1, "{won:?}");
    assert_eq!(at_once, too_late.len());
    assert!(bench.take_log().into_iter().map(|end| end.0).eq(too_late), "each once, in order");
    bench.assert_left(reset.len(), reset.len(), 1);
    bench.advance(9);
    assert_eq!(bench.drive().0, 0);
    bench.advance(1);
    assert_eq!(bench.drive().0, reset.len());
    assert!(bench.take_log().into_iter().map(|end| end.0).eq(reset), "each once, at its new time");
    bench.assert_left(0, 0, 0);
}

/// CAN-01, for a wheel: one timer is popped at a time, so whoever stops or restarts another one always wins.
#[test]
fn what_is_stopped_or_restarted_between_two_pops_of_a_tick_does_not_expire_then() {
    let mut wheel = TimingWheel::starting_at(tick(0));
    let [_, b, c] = [0, 1, 2].map(|item| wheel.start_timer(tick(5), item));
    assert_eq!(wheel.pop_expired(tick(5)).map(|a| a.item), Some(0));
    assert_eq!(wheel.stop_timer(b), Some(1));
    assert!(wheel.restart_timer(c, tick(15)));
    assert_eq!(wheel.len(), 1);
    assert_eq!(pop_all(&mut wheel, 14), []);
    assert_eq!(pop_all(&mut wheel, 15), [(15, 2)]);
}

/// CAN-03. A mark "has expired" outlived a reset, and the next reset or cancellation took the wrong path.
#[test]
fn what_was_due_at_once_and_is_reset_is_like_any_other() {
    let mut wheel = TimingWheel::starting_at(tick(100));
    let x = wheel.start_timer(tick(50), 0);
    for deadline in [300, 400, 250] {
        assert!(wheel.restart_timer(x, tick(deadline)));
        assert_eq!((wheel.deadline(x), wheel.len()), (Some(tick(deadline)), 1));
    }
    assert_eq!((wheel.stop_timer(x), wheel.stop_timer(x)), (Some(0), None));
    wheel.start_timer(tick(260), 1); // takes its place
    assert!(!wheel.restart_timer(x, tick(270)));
    assert_eq!(pop_all(&mut wheel, 500), [(260, 1)]);

    let mut driver = Sleeper::new();
    driver.bench.advance(100);
    let x = driver.bench.watch(0, Duration::ZERO, &[1]);
    for timeout in [200, 300, 150] {
        assert!(driver.bench.purgatory.reset_timeout(x.id, ms_of(timeout)));
    }
    assert!(driver.bench.purgatory.cancel(x.id).taken().is_some());
    driver.bench.watch(1, ms_of(160), &[1]);
    assert_eq!(driver.pass_time(400), [(260, 1)]);
}

/// CAN-05. A reset made a new alarm and left the former: both fired, or the wrong one.
#[test]
fn a_timer_that_is_reset_fires_once_at_the_last_of_its_times() {
    let resets: [&[u64]; 3] = [&[200], &[50], &[200, 50, 150]];
    let expected = [(50, 1), (150, 2), (200, 0)];
    let mut driver = Sleeper::new();
    let mut wheel = TimingWheel::starting_at(tick(0));
    for (number, resets) in (0..).zip(resets) {
        let handle = driver.bench.watch(number, ms_of(100), &[number]);
        let timer = wheel.start_timer(tick(100), u64::from(number));
        for reset in resets {
            assert!(driver.bench.purgatory.reset_timeout(handle.id, ms_of(*reset)));
            assert!(wheel.restart_timer(timer, tick(*reset)));
        }
    }
    assert_eq!(driver.pass_time(300), expected);
    let popped: Vec<_> = (0..=300).flat_map(|now| pop_all(&mut wheel, now)).collect();
    assert_eq!(popped, expected.map(|(time, number)| (time, u64::from(number))));
}

/// CAN-07. What had been drained was still in the index of keys, and whoever set a key again never heard of it.
#[test]
fn a_key_that_was_cancelled_as_a_whole_can_be_set_again() {
    let mut driver = Sleeper::new();
    for round in 0..3 {
        driver.bench.watch(round, ms_of(5), &[1]);
        assert_eq!(driver.bench.purgatory.cancel_for_key(&1).taken.len(), 1);
        driver.bench.watch(10 + round, ms_of(5), &[1]);
        let now = after(driver.bench.clock.now());
        assert_eq!(driver.pass_time(20), [(now + 5, 10 + round)]);
    }
}

/// CAN-07. The same while the other thread is at it: the newcomer stays, or is among what is handed out.
#[test]
fn what_is_set_while_its_key_is_cancelled_stays_or_is_handed_out_but_not_both() {
    under_watch(|| {
        let rounds = rounds(5_000);
        let bench = Arc::new(Bench::new());
        let start = Arc::new(Barrier::new(2));
        let (other, started) = (Arc::clone(&bench), Arc::clone(&start));
        let canceller = thread::spawn(move || {
            let mut taken = Vec::new();
            for _ in 0..rounds {
                started.wait();
                let back = other.purgatory.cancel_for_key(&1);
                taken.push((back.taken.iter().map(|op| op.number).collect::<Vec<_>>(), back.busy));
                started.wait();
            }
            taken
        });
        let mut stayed = Vec::new();
        for number in 0..rounds {
            start.wait();
            let registered = bench.register(bench.probe(number), ms_of(5), &[1, 2]).expect("open");
            start.wait();
            bench.advance(5);
            stayed.push((registered.is_completed(), bench.drive().0));
        }
        let ends = bench.take_log();
        for (number, (stays, (taken, busy))) in (0..).zip(stayed.into_iter().zip(canceller.join().unwrap())) {
            let ended: Vec<_> = ends.iter().filter(|end| end.0 == number).map(|end| end.1).collect();
            match (taken.as_slice(), busy) {
                ([], 0) => assert_eq!((stays, ended), ((false, 1), vec![Outcome::Expired])),
                ([handed], 0) => assert_eq!((*handed, stays, ended), (number, (false, 0), vec![])),
                ([], 1) => assert_eq!((stays, ended), ((true, 0), vec![Outcome::Cancelled])),
                other => panic!("{number}: {other:?}"),
            }
        }
        bench.assert_left(0, 0, 0);
    });
}

/// CAN-09. A cancellation right after the start found nothing yet, and was lost.
#[test]
fn a_cancellation_from_another_thread_right_after_the_registration_counts() {
    under_watch(|| {
        let all = rounds(50_000);
        for timeout in [Duration::ZERO, ms_of(60_000)] {
            let bench = Bench::new();
            let (pass_on, ids) = channel::<OperationId>();
            let over = AtomicBool::new(false);
            let cancelled = thread::scope(|scope| {
                scope.spawn(|| {
                    while !over.load(Ordering::SeqCst) {
                        let _ = bench.drive();
                        thread::yield_now();
                    }
                });
                let purgatory = &bench.purgatory;
                let canceller = scope.spawn(move || {
                    let taken = ids.iter().filter_map(|id| match purgatory.cancel(id) {
                        Cancelled::Taken(op) => Some(op.number),
                        Cancelled::Busy => panic!("nobody looks"),
                        Cancelled::Gone => None,
                    });
                    taken.collect::<Vec<_>>()
                });
                for number in 0..all {
                    // Between its second look and the answer a drive may have ended it.
                    if let Some(id) = bench.register(bench.probe(number), timeout, &[1]).unwrap().id() {
                        pass_on.send(id).unwrap();
                    }
                }
                drop(pass_on);
                let cancelled = canceller.join().unwrap();
                over.store(true, Ordering::SeqCst);
                cancelled
            });
            let _ = bench.drive();
            let mut ended: Vec<u32> = bench.take_log().into_iter().map(|end| end.0).collect();
            if !timeout.is_zero() {
                assert_eq!((cancelled.len(), ended.len()), (all as usize, 0), "each is found at once");
            }
            ended.extend(cancelled);
            ended.sort_unstable();
            assert!(ended.into_iter().eq(0..all), "each fires or is cancelled, and none does both");
            bench.assert_left(0, 0, 0);
        }
    });
}

/// CAN-11. Fired, cancelled, started and fired again, all before the first callback could run: an assertion failed.
#[test]
fn what_fires_twice_before_its_first_callback_can_run_runs_twice_in_order() {
    for cancel_first in [false, true] {
        let bench = Bench::new();
        let (mut gate, second) = (bench.probe(0), bench.probe(2));
        let (purgatory, clock, log) =
            (Arc::clone(&bench.purgatory), bench.clock.clone(), Arc::clone(&bench.log));
        let x = bench.watch(1, ms_of(1), &[1]);
        gate.at_end = Some(Box::new(move |_| {
            clock.advance(ms_of(1));
            if cancel_first {
                assert!(purgatory.cancel(x.id).is_cancelled());
                assert_eq!(purgatory.expire().expired, 0);
            } else {
                assert_eq!(purgatory.expire().expired, 1, "its callback waits for this one to return");
                assert!(purgatory.cancel(x.id) == Cancelled::Gone, "too late");
            }
            let _ = purgatory.try_complete_else_watch(second, ms_of(1), [1]).unwrap();
            clock.advance(ms_of(1));
            assert_eq!(purgatory.expire().expired, 1);
            assert_eq!(log.lock().unwrap().len(), 1, "this one's end only");
        }));
        let gate = bench.wait(gate, NEVER, &[7]);
        assert!(bench.purgatory.force_complete(gate.id));
        let ended: Vec<u32> = bench.take_log().into_iter().map(|end| end.0).collect();
        assert_eq!(ended, if cancel_first { vec![0, 2] } else { vec![0, 1, 2] });
        bench.assert_left(0, 0, 0);
    }
}

/// CAN-13. A timer that cancelled itself in its callback, or was cancelled twice, broke the list that it had left.
#[test]
fn cancelling_oneself_or_twice_harms_no_sibling() {
    let mut driver = Sleeper::new();
    let own: Arc<Mutex<Option<OperationId>>> = Arc::default();
    let (id, purgatory) = (Arc::clone(&own), Arc::clone(&driver.bench.purgatory));
    let (far, mut canceller) = (driver.bench.probe(90), driver.bench.probe(50));
    let mut x = driver.bench.probe(0);
    x.at_end = Some(Box::new(move |_| {
        let own = id.lock().unwrap().expect("it is told");
        assert!(purgatory.cancel(own) == Cancelled::Gone);
        assert!(purgatory.cancel(own) == Cancelled::Gone);
        let far = purgatory.try_complete_else_watch(far, ms_of(10_000), [1]).unwrap().id().unwrap();
        let cancels = Arc::clone(&purgatory);
        canceller.at_end = Some(Box::new(move |_| {
            assert!(cancels.cancel(far).is_cancelled());
            assert_eq!(cancels.next_expiration(), None);
        }));
        let _ = purgatory.try_complete_else_watch(canceller, ms_of(500), [1]).unwrap();
    }));
    *own.lock().unwrap() = Some(driver.bench.wait(x, ms_of(7), &[1]).id);
    let siblings: Vec<Handle> = (1..=6).map(|number| driver.bench.watch(number, ms_of(7), &[1])).collect();
    assert!(driver.bench.purgatory.cancel(siblings[2].id).is_cancelled());
    assert!(!driver.bench.purgatory.cancel(siblings[2].id).is_cancelled());
    let ended = driver.pass_time(20_000);
    assert_eq!(ended, [(7, 0), (7, 1), (7, 2), (7, 4), (7, 5), (7, 6), (507, 50)]);
    driver.bench.assert_left(0, 0, 0);
}

/// CAN-15. A refresh of a timer that had fired, or was just firing, was dropped, or done by halves.
#[test]
fn a_reset_of_what_has_fired_says_no_and_one_of_what_is_about_to_says_who_was_first() {
    let mut driver = Sleeper::new();
    let purgatory = Arc::clone(&driver.bench.purgatory);
    let bench = &driver.bench;
    // After it has fired, and within its own callback: no. Whoever wants more time then registers again.
    let own: Arc<Mutex<Option<OperationId>>> = Arc::default();
    let (id, resets, again) = (Arc::clone(&own), Arc::clone(&purgatory), bench.probe(1));
    let mut x = bench.probe(0);
    x.at_end = Some(Box::new(move |_| {
        assert!(!resets.reset_timeout(id.lock().unwrap().expect("it is told"), ms_of(10)));
        let _ = resets.try_complete_else_watch(again, ms_of(10), [1]).unwrap();
    }));
    let x = bench.wait(x, ms_of(5), &[1]).id;
    *own.lock().unwrap() = Some(x);
    assert_eq!(driver.pass_time(10), [(5, 0)]);
    assert!(!purgatory.reset_timeout(x, ms_of(10)));
    assert_eq!(driver.pass_time(20), [(15, 1)]);

    // In another's callback: one end, and the answer says which.
    let resets = Arc::clone(&purgatory);
    let mut first = driver.bench.probe(2);
    let late: Arc<Mutex<Option<(OperationId, bool)>>> = Arc::default();
    let answer = Arc::clone(&late);
    first.at_end = Some(Box::new(move |_| {
        let mut answer = answer.lock().unwrap();
        let (id, was_reset) = answer.as_mut().expect("it is told");
        *was_reset = resets.reset_timeout(*id, ms_of(10));
    }));
    driver.bench.wait(first, ms_of(5), &[1]);
    *late.lock().unwrap() = Some((driver.bench.watch(3, ms_of(5), &[1]).id, false));
    let ended = driver.pass_time(30);
    let (_, was_reset) = late.lock().unwrap().expect("it is told");
    assert_eq!(ended, [(35, 2), (if was_reset { 45 } else { 35 }, 3)]);

    // A wheel pops one at a time, so there the one that was not popped yet is always reset.
    let mut wheel = TimingWheel::starting_at(tick(0));
    let [a, b] = [0, 1].map(|item| wheel.start_timer(tick(5), item));
    assert_eq!(wheel.pop_expired(tick(5)).map(|a| a.item), Some(0));
    assert!(!wheel.restart_timer(a, tick(15)));
    assert!(wheel.restart_timer(b, tick(15)));
    assert_eq!((pop_all(&mut wheel, 14), pop_all(&mut wheel, 30)), (vec![], vec![(15, 1)]));
}

/// CAN-17. A cancellation was looked up in the batch that was being handed out, and missed what came behind it.
#[test]
fn what_lies_beyond_the_current_batch_of_a_tick_can_be_cancelled_and_reset() {
    let mut wheel = TimingWheel::starting_at(tick(0));
    let timers: Vec<_> = (0..25u64).map(|item| wheel.start_timer(tick(40), item)).collect();
    let mut budget = 10;
    let mut order = Vec::new();
    while let Step::Expired(expired) = wheel.pop_expired_within(tick(40), &mut budget) {
        order.push((after(expired.deadline), expired.item));
    }
    assert_eq!(order.len(), 10);
    assert_eq!(wheel.stop_timer(timers[20]), Some(20));
    assert!(wheel.restart_timer(timers[22], tick(45)));
    order.extend(pop_all(&mut wheel, 40));
    order.extend(pop_all(&mut wheel, 45));
    let expected = (0..25).filter(|item| ![20, 22].contains(item)).map(|item| (40, item)).chain([(45, 22)]);
    assert!(order.into_iter().eq(expected));

    // A purgatory's passes are of their own size.
    let bench = Bench::with(|builder| builder.shards(1));
    let handles: Vec<Handle> = (0..2500).map(|number| bench.watch(number, ms_of(40), &[1])).collect();
    bench.advance(40);
    let pass = bench.purgatory.expire();
    assert!(pass.more && pass.expired < 2400, "{pass:?}");
    assert!(bench.purgatory.cancel(handles[2400].id).taken().is_some());
    assert!(bench.purgatory.reset_timeout(handles[2450].id, ms_of(5)));
    assert_eq!(pass.expired + bench.drive().0, 2498);
    bench.advance(5);
    assert_eq!(bench.drive().0, 1);
    let order = bench.take_log().into_iter().map(|end| end.0);
    assert!(order.eq((0..2500).filter(|number| ![2400, 2450].contains(number)).chain([2450])));
    bench.assert_left(0, 0, 0);
}
