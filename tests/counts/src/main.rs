//! The hot paths of the library, one at a time: `ixion-counts PATH` prepares, and then runs the path [`TIMES`] times in
//! `counted`, whose instructions callgrind counts. `ixion-counts` alone lists the paths. See `ci/counts.sh`.

use ixion::{DelayedOperation, ManualClock, Outcome, Purgatory, Tick, TimerId, TimingWheel, Watch};
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often a path runs.
const TIMES: u64 = 10_000;

/// What waits besides, so that tables and lists have a size.
const BESIDE: u64 = 10_000;

/// How many timers come and go, so that most are in crowded buckets and some in sparse ones.
const CHURNED: u64 = 50_000;

/// The ticks that a burst is spread over: nearly as many timers as ticks.
const DENSE: u64 = 12_000;

type Run = Box<dyn FnMut(u64)>;

const PATHS: &[(&str, fn() -> Run)] = &[
    ("wheel-start-stop", || {
        let mut wheel = filled();
        Box::new(move |n| {
            let id = wheel.start_timer(Tick::new(30_000 + n), n);
            assert_eq!(wheel.stop_timer(id), Some(n));
        })
    }),
    ("wheel-restart", || {
        let mut wheel = filled();
        let ids: Vec<TimerId> = (0..64).map(|n| wheel.start_timer(Tick::new(30_000), n)).collect();
        Box::new(move |n| assert!(wheel.restart_timer(ids[n as usize % 64], Tick::new(30_000 + n))))
    }),
    ("wheel-start-expire", || {
        let mut wheel = TimingWheel::new();
        Box::new(move |n| {
            wheel.start_timer(Tick::new(n + 500), n);
            while wheel.pop_expired(Tick::new(n)).is_some() {}
        })
    }),
    ("wheel-churn", || {
        let (mut wheel, mut ids, mut random) = (TimingWheel::new(), Vec::new(), Random(7));
        for n in 0..CHURNED {
            ids.push(wheel.start_timer(Tick::new(random.delay()), n));
        }
        for _ in 0..CHURNED * 2 {
            churn(&mut wheel, &mut ids, &mut random);
        }
        Box::new(move |_| churn(&mut wheel, &mut ids, &mut random))
    }),
    ("wheel-burst-expire", || {
        let (mut wheel, mut random, mut now) = (TimingWheel::new(), Random(7), 0);
        // All that is started in one run expires before the next, so that the mean of a run is one timer's whole life.
        Box::new(move |n| {
            if n % TIMES == 0 {
                now += DENSE;
            }
            wheel.start_timer(Tick::new(now + 1 + random.below(DENSE)), n);
            if n % TIMES == TIMES - 1 {
                for step in 1..=DENSE / 1000 {
                    while wheel.pop_expired(Tick::new(now + step * 1000)).is_some() {}
                }
                assert!(wheel.is_empty());
            }
        })
    }),
    ("wheel-empty-tick", || {
        let mut wheel = filled();
        Box::new(move |n| assert_eq!(wheel.pop_expired(Tick::new(n / 10)), None))
    }),
    ("check-unwatched", || {
        let (purgatory, _) = waiting();
        Box::new(move |n| assert_eq!(purgatory.check_and_complete(&(BESIDE + n)), 0))
    }),
    ("complete-at-once", || {
        let (purgatory, ready) = waiting();
        ready.store(1, Ordering::Relaxed);
        Box::new(move |n| {
            let _ = black_box(purgatory.try_complete_else_watch(Op(Arc::clone(&ready)), HOUR, [n]));
        })
    }),
    ("register-complete-1-key", || register_complete(1)),
    ("register-complete-3-keys", || register_complete(3)),
    ("register-cancel", || {
        let (purgatory, ready) = waiting();
        Box::new(move |n| {
            let id = watch(&purgatory, &ready, HOUR, n..n + 1);
            assert!(purgatory.cancel(id).is_cancelled());
        })
    }),
    ("reset-timeout", || {
        let (purgatory, ready) = waiting();
        let id = watch(&purgatory, &ready, HOUR, 0..1);
        Box::new(move |n| assert!(purgatory.reset_timeout(id, HOUR + Duration::from_millis(n))))
    }),
    ("register-expire", || {
        let (purgatory, ready, clock) = waiting_at();
        Box::new(move |n| {
            watch(&purgatory, &ready, Duration::from_millis(1), n..n + 1);
            clock.advance(Duration::from_millis(1));
            assert_eq!(purgatory.expire().expired, 1);
        })
    }),
    ("look-at-100-waiters", || {
        let (purgatory, ready) = waiting();
        for _ in 1..100 {
            watch(&purgatory, &ready, HOUR, 7..8);
        }
        // A hundredth of the rounds, so that the figure is one for each waiter.
        Box::new(move |n| {
            if n % 100 == 0 {
                assert_eq!(purgatory.check_and_complete(&7), 0);
            }
        })
    }),
    ("up-to-none-of-10000", || {
        let (purgatory, _) = waiting_at_numbers();
        Box::new(move |n| assert_eq!(purgatory.check_and_complete_up_to(&HOT, n), 0))
    }),
    ("up-to-one-of-10000", || {
        let (purgatory, ready) = waiting_at_numbers();
        Box::new(move |n| {
            ready.store(0, Ordering::Relaxed);
            let op = Op(Arc::clone(&ready));
            let _ = black_box(purgatory.try_complete_else_watch_at(op, HOUR, [Watch::at(HOT, n)]));
            ready.store(1, Ordering::Relaxed);
            assert_eq!(purgatory.check_and_complete_up_to(&HOT, n), 1);
        })
    }),
];

/// The key that all wait on at numbers, each at another one that no path reaches.
const HOT: u64 = u64::MAX;

const HOUR: Duration = Duration::from_secs(3600);

/// Complete as soon as the flag is set.
struct Op(Arc<AtomicU64>);

impl DelayedOperation for Op {
    fn try_complete(&mut self) -> bool {
        self.0.load(Ordering::Relaxed) == 1
    }
    fn on_complete(self, outcome: Outcome) {
        black_box(outcome);
    }
}

type Waiting = Arc<Purgatory<u64, Op>>;

/// A wheel with timers in many buckets.
fn filled() -> TimingWheel<u64> {
    let mut wheel = TimingWheel::new();
    for n in 0..BESIDE {
        wheel.start_timer(Tick::new(10_000 + n * 7), n);
    }
    wheel
}

/// Stops a timer and starts another one instead.
fn churn(wheel: &mut TimingWheel<u64>, ids: &mut [TimerId], random: &mut Random) {
    let id = &mut ids[random.below(CHURNED) as usize];
    let item = wheel.stop_timer(*id).expect("it waits");
    *id = wheel.start_timer(Tick::new(random.delay()), item);
}

/// xorshift64*: about eight instructions a number.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let next = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D);
        ((u128::from(next) * u128::from(bound)) >> 64) as u64
    }

    /// Up to a minute of milliseconds.
    fn delay(&mut self) -> u64 {
        1 + self.below(60_000)
    }
}

/// A purgatory with an operation on each of the keys up to [`BESIDE`], and the flag that they look at.
fn waiting() -> (Waiting, Arc<AtomicU64>) {
    let (purgatory, ready, _) = waiting_at();
    (purgatory, ready)
}

fn waiting_at_numbers() -> (Waiting, Arc<AtomicU64>) {
    let (purgatory, ready) = waiting();
    for n in 0..BESIDE {
        let watch = Watch::at(HOT, (1 << 40) + n);
        let _ = black_box(purgatory.try_complete_else_watch_at(Op(Arc::clone(&ready)), HOUR, [watch]));
    }
    (purgatory, ready)
}

fn waiting_at() -> (Waiting, Arc<AtomicU64>, ManualClock) {
    let clock = ManualClock::new();
    let purgatory = Purgatory::builder("counts").clock(clock.clone()).shards(1).hash_seed(1).build();
    let (purgatory, ready) = (Arc::new(purgatory), Arc::default());
    for n in 0..BESIDE {
        watch(&purgatory, &ready, HOUR, n..n + 1);
    }
    (purgatory, ready, clock)
}

fn watch(
    purgatory: &Waiting,
    ready: &Arc<AtomicU64>,
    timeout: Duration,
    keys: std::ops::Range<u64>,
) -> ixion::OperationId {
    let registration = purgatory.try_complete_else_watch(Op(Arc::clone(ready)), timeout, keys);
    registration.expect("open").id().expect("waits")
}

fn register_complete(keys: u64) -> Run {
    let (purgatory, ready) = waiting();
    let own = Arc::new(AtomicU64::new(0));
    Box::new(move |n| {
        let first = BESIDE + n * keys;
        own.store(0, Ordering::Relaxed);
        watch(&purgatory, &own, HOUR, first..first + keys);
        own.store(1, Ordering::Relaxed);
        assert_eq!(purgatory.check_and_complete(&first), 1);
        black_box(&ready);
    })
}

/// The function whose instructions are counted. Not inlined and not mangled away, so that callgrind finds it by its name.
#[inline(never)]
fn counted(run: &mut Run, from: u64) {
    for n in from..from + TIMES {
        run(n);
    }
}

fn main() -> ExitCode {
    let Some(wanted) = std::env::args().nth(1) else {
        PATHS.iter().for_each(|(name, _)| println!("{name}"));
        return ExitCode::SUCCESS;
    };
    let Some((_, prepare)) = PATHS.iter().find(|(name, _)| *name == wanted) else {
        eprintln!("there is no path {wanted}; without an argument the paths are listed");
        return ExitCode::FAILURE;
    };
    let mut run = prepare();
    // Tables have grown and memory is there when it is counted.
    for n in 0..TIMES {
        run(n);
    }
    counted(&mut run, TIMES);
    ExitCode::SUCCESS
}
