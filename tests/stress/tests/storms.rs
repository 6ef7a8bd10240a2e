//! Storms: everything that can happen to operations, from several threads at once.

use ixion::{Expirer, ManualClock, OperationId, Purgatory};
use ixion_stress::{Dice, Keyed, Ledger, Mood, Op, assert_over, key};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const THREADS: u64 = 4;
const KEYS: u64 = 20;

/// What a storm's threads share.
struct Storm {
    purgatory: Keyed,
    ledger: Arc<Ledger>,
    progress: Arc<AtomicUsize>,
    /// At this progress the thread that gets there closes the purgatory.
    close_at: usize,
    closing: fn(&Keyed) -> u64,
}

impl Storm {
    fn new(operations: usize, close_at: usize, closing: fn(&Keyed) -> u64) -> Storm {
        let purgatory = Purgatory::builder("storm").shards(4).measure_waits(true).on_panic(|_| ()).build();
        Storm { purgatory, ledger: Ledger::new(operations), progress: Arc::default(), close_at, closing }
    }

    /// Rages on all threads.
    fn rage_together(&self, seed: u64) -> u64 {
        together((1..=THREADS).map(|thread| job(move || self.rage(seed + thread)))).into_iter().sum()
    }

    /// Registers operations and does something to them or to others, until all are given out. Returns how many were
    /// handed back to this thread.
    fn rage(&self, seed: u64) -> u64 {
        let (mut dice, mut back) = (Dice::new(seed), 0);
        loop {
            let mood = match dice.below(16) {
                0 => Mood::Look,
                1 => Mood::Callback,
                _ => Mood::Calm,
            };
            let turn = self.progress.fetch_add(1, Ordering::Relaxed);
            if turn == self.close_at {
                back += (self.closing)(&self.purgatory);
            }
            let at = turn + dice.below(2 * KEYS) as usize;
            let Some(op) = self.ledger.next(mood, &self.progress, at) else { return back };
            let which = dice.below(KEYS);
            let keys = [key(which), key(which + 1), key(KEYS)];
            let timeout = Duration::from_micros(dice.below(4000));
            match self.purgatory.try_complete_else_watch(op, timeout, keys) {
                Ok(registration) => back += self.strike(&mut dice, registration.id()),
                Err(rejected) => back += take([rejected.op]),
            }
        }
    }

    fn strike(&self, dice: &mut Dice, id: Option<OperationId>) -> u64 {
        let (purgatory, timeout) = (&self.purgatory, Duration::from_micros(dice.below(4000)));
        let key = key(dice.below(KEYS));
        match (dice.below(16), id) {
            (0, Some(id)) => return take(purgatory.cancel(id).taken()),
            (1, Some(id)) => drop(purgatory.force_complete(id)),
            (2, Some(id)) => drop(purgatory.reset_timeout(id, timeout)),
            (3, _) => return take(purgatory.cancel_first(&key).taken()),
            (4, _) => return take(purgatory.cancel_for_key(&key).taken),
            (5, _) => drop(purgatory.force_complete_for_key(&key)),
            (6, _) => drop(purgatory.reset_timeout_for_key(&key, timeout)),
            (7, _) => drop(purgatory.expire()),
            (8, _) => {
                let _ = (purgatory.stats(), purgatory.contains_key(&key), purgatory.time_to_next());
                let _ = (purgatory.watchers(&key), purgatory.hottest_keys(2), purgatory.occupancy());
                let _ = (purgatory.lateness(), purgatory.waits());
            }
            _ => drop(purgatory.check_and_complete(&key)),
        }
        0
    }
}

fn take(ops: impl IntoIterator<Item = Op>) -> u64 {
    ops.into_iter().map(Op::handed_back).count() as u64
}

/// Runs one job a thread and joins the threads, their destructors included, which the end of a scope does not wait for.
fn together<'a, R: Send>(jobs: impl IntoIterator<Item = Box<dyn FnOnce() -> R + Send + 'a>>) -> Vec<R> {
    thread::scope(|scope| {
        let threads: Vec<_> = jobs.into_iter().map(|job| scope.spawn(job)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no thread panics")).collect()
    })
}

fn job<'a, R>(job: impl FnOnce() -> R + Send + 'a) -> Box<dyn FnOnce() -> R + Send + 'a> {
    Box::new(job)
}

#[test]
fn in_a_storm_of_everything_each_operation_ends_once_and_nothing_is_left() {
    const OPERATIONS: usize = 8_000;
    let storm = Storm::new(OPERATIONS, usize::MAX, |_| 0);
    let expirer = Expirer::spawn("storm").unwrap();
    expirer.drive(&storm.purgatory);
    let back = storm.rage_together(0);
    let rest = storm.purgatory.shutdown_and_hand_back();
    // One that its thread was inside of is completed by that thread; there is none but the expirer's now.
    drop(expirer);
    let stats = assert_over(&storm.purgatory);
    assert_eq!(stats.registered as usize, OPERATIONS);
    let all = [stats.satisfied, stats.expired, stats.forced, stats.cancelled, stats.panicked];
    assert!(all.iter().all(|end| *end > 0), "every end occurs: {stats:?}");
    assert!(stats.cancelled >= back && rest.count() as u64 == stats.shut_down, "{back} back, {stats:?}");
    take(rest.taken);
    storm.ledger.close();
}

#[test]
fn a_shutdown_in_a_storm_answers_or_hands_back_all_that_waits() {
    const OPERATIONS: usize = 300;
    let closings: [fn(&Keyed) -> u64; 2] = [
        |purgatory| {
            purgatory.shutdown();
            0
        },
        |purgatory| take(purgatory.shutdown_and_hand_back().taken),
    ];
    let mut refused = 0;
    for round in 0..20 {
        let storm = Storm::new(OPERATIONS, OPERATIONS / 2, closings[round % 2]);
        let expirer = Expirer::spawn("shutdown").unwrap();
        expirer.drive(&storm.purgatory);
        storm.rage_together(round as u64 * THREADS);
        drop(expirer);
        refused += OPERATIONS as u64 - assert_over(&storm.purgatory).registered;
        storm.ledger.close();
    }
    assert!(refused > 0, "some came too late");
}

#[test]
fn of_all_that_would_end_an_operation_exactly_one_does() {
    const OPERATIONS: usize = 3_000;
    const CONTESTANTS: usize = 5;
    let clock = ManualClock::new();
    let purgatory: Keyed = Purgatory::builder("contest").clock(clock.clone()).shards(2).build();
    let (ledger, met) = (Ledger::new(OPERATIONS), Arc::new(AtomicUsize::new(0)));
    let ids: Vec<OperationId> = (0..OPERATIONS as u64)
        .map(|number| {
            let op = ledger.next(Mood::Calm, &met, 1).expect("there are enough");
            let timeout = Duration::from_millis(1 + number / 64);
            purgatory.try_complete_else_watch(op, timeout, [key(number)]).unwrap().id().expect("waits")
        })
        .collect();
    met.store(1, Ordering::Relaxed);
    // Each goes through all of them in the same order, and counts those that it decided. Nobody gets far ahead.
    let arrived = AtomicUsize::new(0);
    let each = |decide: &dyn Fn(u64, OperationId) -> usize| -> usize {
        let mut decided = 0;
        for (&id, number) in ids.iter().zip(0..) {
            if number % 16 == 0 {
                arrived.fetch_add(1, Ordering::Relaxed);
                while arrived.load(Ordering::Relaxed) < (number as usize / 16 + 1) * CONTESTANTS {
                    thread::yield_now();
                }
            }
            decided += decide(number, id);
        }
        decided
    };
    let purgatory = &purgatory;
    let decided: usize = together([
        job(|| each(&|number, _| purgatory.check_and_complete(&key(number)))),
        job(|| each(&|_, id| usize::from(purgatory.force_complete(id)))),
        job(|| {
            each(&|_, id| {
                let cancelled = purgatory.cancel(id);
                let count = usize::from(cancelled.is_cancelled());
                take(cancelled.taken());
                count
            })
        }),
        job(|| {
            each(&|number, _| {
                let back = purgatory.cancel_for_key(&key(number));
                let count = back.count();
                take(back.taken);
                count
            })
        }),
        job(|| {
            each(&|number, id| {
                clock.advance_to(Duration::from_millis(number / 64));
                let _ = purgatory.reset_timeout(id, Duration::from_millis(1));
                purgatory.expire().expired
            })
        }),
    ])
    .into_iter()
    .sum();
    assert_eq!(decided, OPERATIONS);
    assert_eq!(assert_over(purgatory).ended(), OPERATIONS as u64);
    ledger.close();
}

#[test]
fn an_operation_that_every_thread_signals_sees_the_last_event() {
    const EVENTS: usize = 500;
    let purgatory: Keyed = Purgatory::builder("signals").build();
    let (ledger, met) = (Ledger::new(100), Arc::new(AtomicUsize::new(0)));
    for round in 1..=100 {
        let last = round * EVENTS / 100 * THREADS as usize;
        let op = ledger.next(Mood::Calm, &met, last).expect("there are enough");
        let _ = purgatory.try_complete_else_watch(op, Duration::MAX, [key(0), key(1)]).unwrap();
    }
    together((0..THREADS).map(|thread| {
        let (purgatory, met) = (&purgatory, &met);
        job(move || {
            let key = key(thread % 2);
            for _ in 0..EVENTS {
                met.fetch_add(1, Ordering::Relaxed);
                purgatory.check_and_complete(&key);
            }
        })
    }));
    // What a holder has handed on, tired, is gone on with by whoever comes by.
    let _ = purgatory.expire();
    assert_eq!(assert_over(&purgatory).satisfied, 100);
    ledger.close();
}

#[test]
fn callbacks_that_register_and_signal_in_two_purgatories_lose_nothing() {
    const OPERATIONS: usize = 5_000;
    struct Chain {
        purgatories: [Keyed; 2],
        ledger: Arc<Ledger>,
        met: Arc<AtomicUsize>,
    }
    impl Chain {
        /// Registers an operation whose callback registers the next one, in the other purgatory.
        fn link(self: &Arc<Self>, dice: &mut Dice) {
            let at = [0, usize::MAX][usize::from(dice.below(3) > 0)];
            let Some(op) = self.ledger.next(Mood::Calm, &self.met, at) else { return };
            let (chain, mut next) = (Arc::clone(self), dice.clone());
            let which = dice.below(2) as usize;
            let op = op.then(move || {
                chain.link(&mut next);
                chain.purgatories[1 - which].force_complete_for_key(&key(next.below(4)));
            });
            let timeout = Duration::from_millis(dice.below(2));
            match self.purgatories[which].try_complete_else_watch(op, timeout, [key(dice.below(4))]) {
                Ok(_) => {}
                Err(rejected) => rejected.op.handed_back(),
            }
        }
    }
    let expirer = Expirer::spawn("chains").unwrap();
    let purgatories = ["one", "other"].map(|name| Keyed::builder(name).shards(2).build());
    purgatories.iter().for_each(|purgatory| expirer.drive(purgatory));
    let chain = Arc::new(Chain { purgatories, ledger: Ledger::new(OPERATIONS), met: Arc::default() });
    together((1..=THREADS).map(|seed| {
        let chain = &chain;
        job(move || {
            let mut dice = Dice::new(seed);
            for _ in 0..OPERATIONS / 2 / THREADS as usize {
                chain.link(&mut dice);
                chain.purgatories[seed as usize % 2].check_and_complete(&key(dice.below(4)));
            }
        })
    }));
    let since = Instant::now();
    while !chain.purgatories.iter().all(Purgatory::is_empty) {
        assert!(since.elapsed() < Duration::from_secs(60), "{:?}", chain.purgatories);
        thread::yield_now();
    }
    drop(expirer);
    // The chains may have broken off early, each where its last operation found nothing more to do.
    while let Some(op) = chain.ledger.next(Mood::Calm, &chain.met, 0) {
        op.handed_back();
    }
    for purgatory in &chain.purgatories {
        assert_over(purgatory);
    }
    let chain = Arc::into_inner(chain).expect("no callback is kept");
    chain.ledger.close();
}

#[test]
fn purgatories_and_expirers_come_and_go_while_others_use_them() {
    const ROUNDS: usize = 60;
    const EACH: usize = 20;
    let steady = Expirer::spawn("steady").unwrap();
    let ledger = Ledger::new(ROUNDS * EACH * THREADS as usize);
    let met: Arc<AtomicUsize> = Arc::default();
    let over = AtomicBool::new(false);
    let shared: Keyed = Keyed::builder("shared").build();
    let visitors = (0..THREADS).map(|seed| {
        let (steady, ledger, met, shared) = (&steady, &ledger, &met, &shared);
        job(move || {
            let mut dice = Dice::new(seed + 1);
            for _ in 0..ROUNDS {
                let own: Keyed = Keyed::builder("own").shards(2).build();
                steady.drive(&own);
                for number in 0..EACH {
                    let op = ledger.next(Mood::Calm, met, 1).expect("there are enough");
                    let timeout = Duration::from_micros(dice.below(2000));
                    let purgatory = if number % 2 == 0 { &own } else { shared };
                    let _ = purgatory.try_complete_else_watch(op, timeout, [key(dice.below(4))]).unwrap();
                }
                // Dropped, with what waits in it, while the thread may be in it.
            }
        })
    });
    let passing = job(|| {
        while !over.load(Ordering::Relaxed) {
            let passing = Expirer::spawn("passing").unwrap();
            passing.drive(&shared);
            let _ = passing.wake_ups();
        }
    });
    thread::scope(|scope| {
        let passing = scope.spawn(passing);
        together(visitors);
        over.store(true, Ordering::Relaxed);
        passing.join().expect("no thread panics");
    });
    shared.shutdown();
    drop(steady);
    assert_over(&shared);
    ledger.close();
}
