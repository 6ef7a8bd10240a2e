//! Starvation: work that does not end, or that grows with what is not due.

use super::support::*;
use crate::guarantees::support::*;
use crate::uptime::tick;
use ixion::{Outcome, Step, TimingWheel};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::thread;

/// STA-04. All keys were behind one lock. What it costs is for `benches/purgatory.rs`; here nothing must be lost.
#[test]
fn threads_on_keys_of_their_own_complete_all_that_they_register() {
    const THREADS: u32 = 8;
    under_watch(|| {
        let each = rounds(20_000);
        let bench = Bench::new();
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let bench = &bench;
                scope.spawn(move || {
                    for number in thread * each..(thread + 1) * each {
                        bench.watch(number, ms_of(1), &[number, u32::MAX - thread]).set();
                        assert_eq!(bench.purgatory.check_and_complete(&number), 1);
                    }
                });
            }
        });
        assert_eq!(bench.purgatory.stats().satisfied, u64::from(THREADS * each));
        let mut ended: Vec<u32> = bench.take_log().into_iter().map(|end| end.0).collect();
        ended.sort_unstable();
        assert!(ended.into_iter().eq(0..THREADS * each));
        bench.assert_left(0, 0, 0);
    });
}

/// STA-06. An expired deadline that could not be dealt with stayed armed, and the driver spun on it.
#[test]
fn what_is_due_while_a_thread_is_inside_it_does_not_keep_the_driver_awake() {
    let mut driver = Sleeper::new();
    let ((enter, entered), (go_on, told)) = (channel(), channel::<()>());
    let mut op = driver.bench.probe(0);
    let looks = Arc::clone(&op.looks);
    op.in_look = Some(Box::new(move || {
        if looks.load(Ordering::SeqCst) == 3 {
            enter.send(()).unwrap();
            told.recv().unwrap();
        }
    }));
    driver.bench.wait(op, ms_of(5), &[1]);
    for number in 1..=100 {
        driver.bench.watch(number, ms_of(u64::from(number)), &[2]);
    }
    let purgatory = Arc::clone(&driver.bench.purgatory);
    let inside = thread::spawn(move || purgatory.check_and_complete(&1));
    entered.recv().unwrap();
    assert!(driver.pass_time(1000).into_iter().eq((1..=100).map(|number| (u64::from(number), number))));
    assert!(driver.wake_ups <= 102, "{} wake-ups for a hundred ticks", driver.wake_ups);
    driver.bench.assert_left(1, 1, 1);
    go_on.send(()).unwrap();
    assert_eq!(inside.join().unwrap(), 0);
    assert_eq!(driver.bench.take_log(), [(0, Outcome::Expired)]);
    driver.bench.assert_left(0, 0, 0);
}

/// STA-08. Each tick cost the more, the more timers there were that were far from being due.
#[test]
fn what_a_wheel_moves_for_near_timers_does_not_depend_on_how_many_are_far() {
    let work = |far: u64| {
        let mut wheel = TimingWheel::starting_at(tick(0));
        for n in 0..far {
            wheel.start_timer(tick((1 << 30) + n * 7919), n);
        }
        let (mut budget, mut fired) = (usize::MAX, 0);
        for now in 1..=4000 {
            wheel.start_timer(tick(now + n_away(now)), now);
            while let Step::Expired(_) = wheel.pop_expired_within(tick(now), &mut budget) {
                fired += 1;
            }
        }
        assert_eq!(fired + wheel.len(), 4000 + far as usize);
        usize::MAX - budget
    };
    const fn n_away(now: u64) -> u64 {
        now * 31 % 300
    }
    assert_eq!(work(100_000), work(1000));
}

/// STA-10. A timer of three years was waited for in turns of the wheel, or tick by tick.
#[test]
fn a_timer_of_three_years_is_one_step_and_one_wake_up() {
    under_watch(|| {
        const THREE_YEARS: u64 = 3 * 365 * 24 * 3600 * SECOND;
        let mut wheel = TimingWheel::starting_at(tick(0));
        wheel.start_timer(tick(THREE_YEARS), 0);
        let mut budget = 100;
        assert_eq!(wheel.pop_expired_within(tick(THREE_YEARS - 1), &mut budget), Step::Done);
        assert!(matches!(wheel.pop_expired_within(tick(THREE_YEARS), &mut budget), Step::Expired(_)));
        assert!(budget >= 100 - 11, "one move for each level at most, and the expiry");

        let mut driver = Sleeper::new();
        driver.bench.watch(0, ms_of(THREE_YEARS), &[1]);
        assert_eq!((driver.come_round(), driver.wake_ups), (vec![], 1));
        driver.bench.advance(THREE_YEARS - 1);
        assert_eq!((driver.come_round(), driver.wake_ups), (vec![], 1));
        driver.bench.advance(1);
        assert_eq!((driver.come_round(), driver.wake_ups), (vec![(THREE_YEARS, 0)], 2));
    });
}
