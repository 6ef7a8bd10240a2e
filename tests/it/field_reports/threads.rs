//! What needs the expirer's thread, in real time. Lower bounds are exact, upper ones are wide.

use super::support::under_watch;
use crate::guarantees::support::ms_of as ms;
use crate::jobs::{Job, Jobs, SOON, job};
use ixion::{DelayedOperation, Expirer, Outcome, Purgatory, RejectReason};
use std::panic::panic_any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const HOUR: Duration = Duration::from_secs(3600);

/// OVF-13. There, the wait was computed wrongly once a timer more than 68 years away was the nearest one.
#[test]
fn a_thread_that_sleeps_for_a_century_does_not_spin_and_wakes_for_what_comes() {
    under_watch(|| {
        for far in
            [100 * 365 * 24 * HOUR, Duration::from_secs(u64::MAX / 1000), Duration::from_nanos(u64::MAX)]
        {
            let expirer = Expirer::spawn("century").unwrap();
            let purgatory = Arc::new(Jobs::builder("century").build());
            expirer.drive(&purgatory);
            job(&purgatory, far, |_| ());
            while expirer.wake_ups() == 0 {
                thread::yield_now();
            }
            thread::sleep(ms(200));
            let before = expirer.wake_ups();
            thread::sleep(ms(200));
            // One more, where the machine is so busy that it was not asleep yet.
            assert!(expirer.wake_ups() <= before + 1, "it sleeps");
            let (end, ended) = channel();
            let near = Arc::clone(&purgatory);
            let started = Instant::now();
            let other = thread::spawn(move || {
                job(&near, ms(20), move |outcome| end.send((outcome, started.elapsed())).unwrap());
            });
            other.join().unwrap();
            let (outcome, after) = ended.recv_timeout(SOON).expect("it is not overslept");
            assert!(outcome == Outcome::Expired && after >= ms(20), "{after:?}");
            assert_eq!(purgatory.len(), 1);
        }
    });
}

/// PAN-01. There, one task that threw killed the timers' thread, and every later timer hung in silence.
#[test]
fn panics_of_every_kind_leave_the_thread_alive_and_all_others_expire() {
    /// Panics when it is dropped.
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("in a destructor");
        }
    }
    under_watch(|| {
        let reports = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&reports);
        let purgatory: Jobs = Purgatory::builder("panics")
            .on_panic(move |caught| told.lock().unwrap().push(caught.message().to_owned()))
            .build();
        let expirer = Expirer::spawn("panics").unwrap();
        let (end, ended) = channel();
        for number in 0..100 {
            let end = end.clone();
            let bomb = (number == 3).then(|| Bomb);
            job(&purgatory, ms(5), move |_| {
                let _bomb = bomb;
                match number {
                    1 => panic!("a string of number {number}"),
                    2 => panic_any(number),
                    _ => end.send(number).unwrap(),
                }
            });
        }
        expirer.drive(&purgatory);
        let mut ran: Vec<u32> = (0..98).map(|_| ended.recv_timeout(SOON).expect("it expires")).collect();
        ran.sort_unstable();
        assert!(ran.into_iter().eq([0].into_iter().chain(3..100)));
        job(&purgatory, ms(1), move |_| end.send(100).unwrap());
        assert_eq!(ended.recv_timeout(SOON), Ok(100), "the thread is alive");
        let mut reports = reports.lock().unwrap();
        reports.sort_unstable();
        assert_eq!(*reports, ["a payload that is not a string", "a string of number 1", "in a destructor"]);
        let stats = purgatory.stats();
        assert_eq!((stats.panics, stats.expired, stats.pending), (3, 101, 0));
    });
}

/// SHU-03. There, timers that were started and moved while the engine was taken down panicked, or stayed.
#[test]
fn taking_everything_down_while_threads_register_and_reset_panics_nowhere_and_ends_all() {
    const ROUNDS: usize = 60;
    under_watch(|| {
        for round in 0..ROUNDS {
            let expirer = Expirer::spawn("down").unwrap();
            let caught = Arc::new(AtomicUsize::new(0));
            let panics = Arc::clone(&caught);
            let builder = Jobs::builder("down").shards(2);
            let purgatory = Arc::new(builder.on_panic(move |_| panics.store(1, Ordering::SeqCst)).build());
            expirer.drive(&purgatory);
            let ended = Arc::new(AtomicUsize::new(0));
            let start = Arc::new(Barrier::new(3));
            let workers = [0, 1].map(|_| {
                let (purgatory, ended, start) =
                    (Arc::clone(&purgatory), Arc::clone(&ended), Arc::clone(&start));
                thread::spawn(move || {
                    start.wait();
                    for accepted in 0.. {
                        let ended = Arc::clone(&ended);
                        let op = Job(Box::new(move |_| {
                            ended.fetch_add(1, Ordering::SeqCst);
                        }));
                        let timeout = ms(accepted % 3);
                        match purgatory.try_complete_else_watch(op, timeout, [accepted as u32 % 5]) {
                            Ok(registered) => {
                                let id = registered.id();
                                let timeout = ms(accepted % 7 * 1000);
                                let _ = id.map(|id| purgatory.reset_timeout(id, timeout));
                            }
                            Err(rejected) => {
                                assert_eq!(rejected.reason, RejectReason::Shutdown);
                                return accepted as usize;
                            }
                        }
                    }
                    unreachable!("a shutdown comes some time")
                })
            });
            start.wait();
            while purgatory.stats().registered < round as u64 % 50 {
                thread::yield_now();
            }
            let handed_back = match round % 4 {
                0 => {
                    drop(expirer);
                    purgatory.shutdown();
                    0
                }
                1 => {
                    purgatory.shutdown();
                    drop(expirer);
                    0
                }
                2 => {
                    drop(expirer);
                    purgatory.shutdown_and_hand_back().taken.len()
                }
                _ => {
                    let back = purgatory.shutdown_and_hand_back().taken.len();
                    drop(expirer);
                    back
                }
            };
            let accepted: usize = workers.map(|worker| worker.join().unwrap()).into_iter().sum();
            assert_eq!(ended.load(Ordering::SeqCst) + handed_back, accepted, "round {round}");
            let stats = purgatory.stats();
            assert!(stats.balances() && stats.pending == 0 && stats.watched == 0, "{stats:?}");
            assert_eq!(caught.load(Ordering::SeqCst), 0);
        }
    });
}

thread_local!(static ALIVE: std::cell::RefCell<Option<Sender<()>>> = const { std::cell::RefCell::new(None) });

/// SHU-05. There, a shutdown from a callback waited for the callback, or joined its own thread.
#[test]
fn a_callback_may_take_everything_down_while_another_thread_does_so_too() {
    under_watch(|| {
        for round in 0..50 {
            let expirer = Expirer::spawn("own").unwrap();
            let caught = Arc::new(AtomicUsize::new(0));
            let panics = Arc::clone(&caught);
            let builder = Jobs::builder("own").on_panic(move |_| panics.store(1, Ordering::SeqCst));
            let purgatory = Arc::new(builder.build());
            expirer.drive(&purgatory);
            let ends = Arc::new(Mutex::new(Vec::new()));
            for _ in 0..100 {
                let ends = Arc::clone(&ends);
                job(&purgatory, HOUR, move |outcome| ends.lock().unwrap().push(outcome));
            }
            let (both, (tell, told), (alive, gone)) = (Arc::new(Barrier::new(2)), channel(), channel::<()>());
            let (mine, start) = (Arc::clone(&purgatory), Arc::clone(&both));
            job(&purgatory, ms(1), move |_| {
                ALIVE.set(Some(alive));
                start.wait();
                tell.send(mine.shutdown()).unwrap();
                // In one order and in the other; the last handle of the purgatory may go here.
                if round % 2 == 0 {
                    drop(expirer);
                    drop(mine);
                } else {
                    drop(mine);
                    drop(expirer);
                }
            });
            both.wait();
            let other = purgatory.shutdown();
            drop(purgatory);
            let own = told.recv_timeout(SOON).expect("it does not wait for itself");
            assert!(matches!((own, other), (100, 0) | (0, 100)), "{own} and {other}");
            assert_eq!(gone.recv_timeout(SOON), Err(RecvTimeoutError::Disconnected), "the thread ends");
            assert_eq!(*ends.lock().unwrap(), [Outcome::Shutdown; 100]);
            assert_eq!(caught.load(Ordering::SeqCst), 0, "nor is joining itself an error");
        }
    });
}

/// SHU-09. There, a shutdown waited until the sleeping thread looked up by itself.
#[test]
fn a_sleeping_thread_ends_as_soon_as_its_expirer_is_dropped() {
    under_watch(|| {
        let mut took = Vec::new();
        for round in 0..200 {
            let expirer = Expirer::spawn("asleep").unwrap();
            let purgatory: Jobs = Purgatory::builder("asleep").build();
            if round % 2 == 0 {
                job(&purgatory, HOUR, |_| ());
            }
            expirer.drive(&purgatory);
            thread::sleep(ms(1));
            let started = Instant::now();
            purgatory.shutdown();
            drop(expirer);
            took.push(started.elapsed());
        }
        took.sort_unstable();
        // A quarter of them: a machine that has other things to do delays the others.
        assert!(took[50] < ms(100), "{:?}", took[50]);
    });
}

/// SHU-11. There, a callback that armed itself again survived the stop, which cancelled first and then closed.
#[test]
fn an_operation_that_registers_itself_again_does_not_survive_a_shutdown() {
    /// Registers itself again, each millisecond; counts its callbacks, and the refusals.
    struct Again(Arc<Purgatory<u32, Again>>, Arc<[AtomicUsize; 2]>);
    impl DelayedOperation for Again {
        fn try_complete(&mut self) -> bool {
            false
        }
        fn on_complete(self, _: Outcome) {
            self.1[0].fetch_add(1, Ordering::SeqCst);
            let purgatory = Arc::clone(&self.0);
            if let Err(rejected) = purgatory.try_complete_else_watch(self, ms(1), [1]) {
                assert_eq!(rejected.reason, RejectReason::Shutdown);
                rejected.op.1[1].fetch_add(1, Ordering::SeqCst);
            }
        }
    }
    under_watch(|| {
        let mut callbacks = 0;
        for round in 0..150u64 {
            let expirer = Expirer::spawn("again").unwrap();
            let purgatory = Arc::new(Purgatory::builder("again").build());
            expirer.drive(&purgatory);
            let counts = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
            let begun = || counts[0].load(Ordering::SeqCst);
            let op = Again(Arc::clone(&purgatory), Arc::clone(&counts));
            let _ = purgatory.try_complete_else_watch(op, ms(1), [1]).unwrap();
            thread::sleep(Duration::from_micros(round * 7919 % 4000));
            purgatory.shutdown();
            let after_shutdown = begun();
            drop(expirer);
            let after_join = begun();
            assert!(after_join <= after_shutdown + 1, "one that a drive had begun with, at most");
            thread::sleep(ms(2));
            assert_eq!(begun(), after_join, "and none once the thread has ended");
            assert_eq!(counts[1].load(Ordering::SeqCst), 1, "it was refused");
            assert!(purgatory.is_empty() && purgatory.stats().balances());
            callbacks += after_join;
        }
        assert!(callbacks > 150, "some rounds got beyond the first");
    });
}
