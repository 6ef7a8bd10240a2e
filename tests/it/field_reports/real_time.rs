//! The scenarios on real threads in real time. That nothing is early, lost or overslept is exact; how late it may be is
//! wide, for machines that are busy.

use super::support::{rounds, under_watch};
use crate::guarantees::support::{Bench, NEVER, Probe, ms_of};
use crate::jobs::{Job, Jobs, SOON};
use ixion::{Cancelled, Clock, Expirer, OperationId, Outcome, Purgatory, SystemClock, Tick, TimingWheel};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

fn start(purgatory: &Jobs, timeout: Duration, key: u32, run: impl FnOnce() + Send + 'static) -> OperationId {
    let op = Job(Box::new(move |_| run()));
    purgatory.try_complete_else_watch(op, timeout, [key]).expect("open").id().expect("nobody is as quick")
}

/// Starts a timer, waits for it, and returns how late it was.
fn lateness(purgatory: &Jobs, timeout: Duration) -> Duration {
    let (end, ended) = channel();
    let started = Instant::now();
    let op = Job(Box::new(move |_| end.send(Instant::now()).unwrap()));
    let _ = purgatory.try_complete_else_watch(op, timeout, [1]).expect("open");
    let after = ended.recv_timeout(SOON).expect("it is not overslept") - started;
    after.checked_sub(timeout).expect("it is not early")
}

fn median(mut all: Vec<Duration>) -> Duration {
    all.sort_unstable();
    all[all.len() / 2]
}

/// Numbers without an order that anybody would know.
fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

/// WAK-07. Only the first of those who waited was known, and whoever took over from it was not woken. Here: a purgatory
/// that goes from one thread to the next.
#[test]
fn a_purgatory_that_goes_from_one_expirer_to_another_wakes_the_last_one() {
    under_watch(|| {
        let purgatory = Jobs::builder("passed on").build();
        start(&purgatory, ms_of(3_600_000), 7, || ());
        let mut driver = None;
        for round in 0..200 {
            let next = Expirer::spawn("next").unwrap();
            if round % 2 == 0 {
                drop(driver.take());
            }
            next.drive(&purgatory);
            // Now and then it has gone to sleep for the hour before the other one is gone.
            if round % 10 == 0 {
                thread::sleep(ms_of(2));
            }
            driver = Some(next);
            lateness(&purgatory, ms_of(1));
        }
        assert_eq!(purgatory.shutdown(), 1);
    });
}

/// WAK-11. A new earliest timer that came between computing the sleep and sleeping was overslept. Here it would be until
/// the hour is over, for there is nobody else to wake the thread. (`models: alarm` tries each order of the steps.)
#[test]
fn a_timer_that_is_started_as_the_thread_goes_to_sleep_is_not_overslept() {
    under_watch(|| {
        let purgatory = Jobs::builder("alone").build();
        let expirer = Expirer::spawn("alone").unwrap();
        expirer.drive(&purgatory);
        start(&purgatory, ms_of(3_600_000), 7, || ());
        let mut random = random(1);
        let late = (0..500).map(|_| lateness(&purgatory, Duration::from_micros(random(2000)))).collect();
        let median = median(late);
        assert!(median < ms_of(50), "{median:?} late");
        assert_eq!(purgatory.len(), 1);
    });
}

/// A clock that can be stopped as the expirer reads it: the last time after it has found the next deadline, before it
/// sleeps.
struct Stopped {
    clock: SystemClock,
    /// How many readings are let through first.
    after: Mutex<Option<usize>>,
    enter: Sender<()>,
    told: Mutex<Receiver<()>>,
}

impl Clock for Stopped {
    fn elapsed(&self) -> Duration {
        let is_driver = thread::current().name() == Some("stopped");
        let mut after = self.after.lock().unwrap();
        match *after {
            Some(0) if is_driver => {
                *after = None;
                drop(after);
                self.enter.send(()).unwrap();
                self.told.lock().unwrap().recv().unwrap();
            }
            Some(more) if is_driver => *after = Some(more - 1),
            _ => {}
        }
        self.clock.elapsed()
    }
}

/// WAK-11. The instant itself: the thread is stopped between computing the sleep and sleeping, and before, and a timer
/// is started meanwhile.
#[test]
fn a_timer_that_is_started_between_computing_the_sleep_and_sleeping_is_not_overslept() {
    under_watch(|| {
        let ((enter, entered), (go_on, told)) = (channel(), channel());
        let clock = Arc::new(Stopped {
            clock: SystemClock::new(),
            after: Mutex::new(None),
            enter,
            told: Mutex::new(told),
        });
        let purgatory = Jobs::builder("stopped").clock(Arc::clone(&clock)).build();
        let expirer = Expirer::spawn("stopped").unwrap();
        expirer.drive(&purgatory);
        start(&purgatory, ms_of(3_600_000), 7, || ());
        let mut stops = 0;
        for readings in (0..4).cycle().take(40) {
            *clock.after.lock().unwrap() = Some(readings);
            let (end, ended) = channel();
            let first = end.clone();
            let job = Job(Box::new(move |_| first.send(()).unwrap()));
            // Wakes the thread up.
            let _ = purgatory.try_complete_else_watch(job, Duration::ZERO, [1]).expect("open");
            let is_inside = entered.recv_timeout(ms_of(50)).is_ok()
                || (clock.after.lock().unwrap().take().is_none() && entered.recv_timeout(SOON).is_ok());
            if is_inside {
                stops += 1;
                start(&purgatory, ms_of(1), 1, move || end.send(()).unwrap());
                go_on.send(()).unwrap();
                ended.recv_timeout(SOON).expect("the one is not overslept");
            }
            ended.recv_timeout(SOON).expect("nor the other");
        }
        assert!(stops >= 10, "stopped {stops} times only");
    });
}

/// WAK-11. The same with four threads, whose timers come while the thread is busy with those of the others.
#[test]
fn timers_that_four_threads_start_and_wait_for_are_not_late() {
    under_watch(|| {
        let purgatory = Jobs::builder("four").build();
        let expirer = Expirer::spawn("four").unwrap();
        expirer.drive(&purgatory);
        start(&purgatory, ms_of(3_600_000), 7, || ());
        let late = thread::scope(|scope| {
            let threads: Vec<_> = (1..=4)
                .map(|seed| {
                    let (mut random, purgatory) = (random(seed), &purgatory);
                    let wait = move |_| lateness(purgatory, Duration::from_micros(random(2000)));
                    scope.spawn(|| (0..300).map(wait).collect::<Vec<_>>())
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let median = median(late);
        assert!(median < ms_of(50), "{median:?} late");
    });
}

/// WAK-19. Under load a timer that was stopped and set again was now and then left out.
#[test]
fn the_last_setting_of_a_timer_that_is_cancelled_and_set_without_a_pause_fires() {
    under_watch(|| {
        let purgatory = Jobs::builder("hot").build();
        let expirer = Expirer::spawn("hot").unwrap();
        expirer.drive(&purgatory);
        thread::scope(|scope| {
            for thread in 0..8u32 {
                let purgatory = &purgatory;
                scope.spawn(move || {
                    let (mut random, (fire, fires)) = (random(u64::from(thread)), channel());
                    let set = |serial: u32| {
                        let fire = fire.clone();
                        let op = Job(Box::new(move |_| fire.send(serial).unwrap()));
                        purgatory.try_complete_else_watch(op, ms_of(1), [thread]).expect("open").id()
                    };
                    let (mut registered, mut cancelled) = (1, 0);
                    let mut id = set(0);
                    for _ in 0..rounds(50_000) {
                        let goes_on = match id {
                            Some(id) if random(2) == 0 => purgatory.reset_timeout(id, ms_of(1)),
                            Some(id) => {
                                let was_cancelled = matches!(purgatory.cancel(id), Cancelled::Taken(_));
                                cancelled += u32::from(was_cancelled);
                                false
                            }
                            None => false,
                        };
                        if !goes_on {
                            id = set(registered);
                            registered += 1;
                        }
                        if random(8) == 0 {
                            thread::yield_now();
                        }
                    }
                    let fired = registered - cancelled;
                    let mut serials: Vec<u32> =
                        (0..fired).map(|_| fires.recv_timeout(SOON).expect("it fires")).collect();
                    serials.sort_unstable();
                    serials.dedup();
                    assert_eq!((serials.len() as u32, serials.last()), (fired, Some(&(registered - 1))));
                    assert!(fires.try_recv().is_err());
                });
            }
        });
        assert!(purgatory.is_empty() && purgatory.stats().balances(), "{purgatory:?}");
    });
}

/// STA-02. Threads that reset timers in a loop kept the expiry from its lock.
#[test]
fn threads_that_reset_without_a_pause_do_not_starve_the_expiry() {
    under_watch(|| {
        // One lock for all of them.
        let purgatory = Jobs::builder("probed").shards(1).build();
        let expirer = Expirer::spawn("probed").unwrap();
        expirer.drive(&purgatory);
        let over = AtomicBool::new(false);
        let late = thread::scope(|scope| {
            for thread in 0..8 {
                let (purgatory, over) = (&purgatory, &over);
                scope.spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        let id = start(purgatory, ms_of(60_000), 10 + thread, || ());
                        for more in 0..20 {
                            assert!(purgatory.reset_timeout(id, ms_of(60_000 + more)));
                        }
                        assert!(purgatory.cancel(id).is_cancelled());
                    }
                });
            }
            let late = (0..20).map(|_| lateness(&purgatory, ms_of(10))).collect();
            over.store(true, Ordering::Relaxed);
            late
        });
        let median = median(late);
        assert!(median < ms_of(250), "{median:?} late");
        assert!(purgatory.is_empty());
    });
}

/// STA-06. An expired deadline that could not be dealt with stayed armed, and the thread spun on it.
#[test]
fn a_due_operation_that_another_thread_is_inside_does_not_make_the_expirer_spin() {
    under_watch(|| {
        let bench = Bench::new(); // for its probes
        let purgatory: Arc<Purgatory<u32, Probe>> = Arc::new(Purgatory::builder("busy").build());
        let expirer = Expirer::spawn("busy").unwrap();
        let ((enter, entered), (go_on, told)) = (channel(), channel::<()>());
        let mut op = bench.probe(0);
        let looks = Arc::clone(&op.looks);
        op.in_look = Some(Box::new(move || {
            if looks.load(Ordering::SeqCst) == 3 {
                enter.send(()).unwrap();
                told.recv().unwrap();
            }
        }));
        let _ = purgatory.try_complete_else_watch(op, ms_of(5), [1]).expect("open");
        for number in 1..=100 {
            let op = bench.probe(number);
            let _ = purgatory.try_complete_else_watch(op, ms_of(u64::from(number)), [2]).expect("open");
        }
        let _ = purgatory.try_complete_else_watch(bench.probe(999), NEVER, [3]).expect("open");
        let busy = Arc::clone(&purgatory);
        let inside = thread::spawn(move || busy.check_and_complete(&1));
        entered.recv_timeout(SOON).expect("it looks");
        expirer.drive(&purgatory);
        while purgatory.len() > 2 {
            thread::sleep(ms_of(1));
        }
        let before = expirer.wake_ups();
        thread::sleep(ms_of(300));
        let more = expirer.wake_ups() - before;
        assert!(more <= 5, "{more} wake-ups with nothing that it could do");
        assert_eq!(purgatory.len(), 2, "it waits for the thread inside");
        go_on.send(()).unwrap();
        assert_eq!(inside.join().unwrap(), 0);
        assert_eq!(bench.take_log().last(), Some(&(0, Outcome::Expired)));
        assert_eq!((purgatory.len(), purgatory.shutdown()), (1, 1));
    });
}

/// STA-08. Each tick cost the more, the more timers there were that were far from being due.
#[test]
fn a_tick_with_many_far_timers_takes_about_as_long_as_one_with_few() {
    let fastest = |far: u64| {
        let mut wheel = TimingWheel::new();
        for n in 0..far {
            wheel.start_timer(Tick::new((1 << 30) + n * 7919), n);
        }
        let mut now = 0;
        let mut run = || {
            let start = Instant::now();
            for _ in 0..1000 {
                now += 1;
                wheel.start_timer(Tick::new(now + 20), now);
                while wheel.pop_expired(Tick::new(now)).is_some() {}
                assert!(wheel.next_expiration() > Some(Tick::new(now)));
            }
            start.elapsed()
        };
        (0..20).map(|_| run()).min().expect("some")
    };
    let (few, many) = (fastest(1000), fastest(u64::from(rounds(1_000_000))));
    assert!(many < few * 10, "{few:?} with few and {many:?} with many");
}
