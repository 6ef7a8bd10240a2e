//! The closed loop.

use crossbeam_utils::CachePadded;
use ixion_bench::rivals::home_made::HomeMade;
use ixion_bench::rivals::purgatories::{
    Condition, Driver, Key, Numbered, Place, Plain, Request, ended, forget_ended,
};
use ixion_bench::support::process::{cpu_time, forget_peak, memory};
use ixion_bench::support::{Random, Stopwatch, Table, count, median, megabytes, pick};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const TWO_SPEEDS: &str = "With two threads that share keys a machine may have two speeds, two or three times apart, by how \
    far its cores are from each other; a virtual one changes between them by itself, for either place.";

/// Operations that a thread keeps.
const RING: usize = 1000;

/// A closed loop's parameters.
#[derive(Clone, Copy)]
struct Load {
    keys: usize,
    /// One in so many is never ready.
    expiring: usize,
    own_keys: bool,
    threads: usize,
}

const LOADS: [Load; 8] = [
    Load { keys: 10_000, expiring: 100, own_keys: false, threads: 1 },
    Load { keys: 10_000, expiring: 10, own_keys: false, threads: 1 },
    Load { keys: 100, expiring: 100, own_keys: false, threads: 1 },
    Load { keys: 100, expiring: 10, own_keys: false, threads: 1 },
    Load { keys: 100, expiring: 100, own_keys: true, threads: 1 },
    Load { keys: 10_000, expiring: 100, own_keys: false, threads: 2 },
    Load { keys: 100, expiring: 100, own_keys: false, threads: 2 },
    Load { keys: 100, expiring: 100, own_keys: true, threads: 2 },
];

/// How long an operation waits that is never ready.
fn timeout() -> Duration {
    pick(Duration::from_millis(50), Duration::from_millis(200), Duration::from_secs(1))
}

pub(crate) fn run() {
    let mut table = Table::new([
        "keys",
        "expire",
        "threads",
        "place",
        "steps/s",
        "CPU us/step",
        "watched at most",
        "at the end",
        "wake-ups/s",
        "peak MB",
    ]);
    for load in LOADS {
        // Turn by turn, so that what disturbs one disturbs the others.
        let rounds = pick(1, 1, 5);
        let mut rows = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..rounds {
            rows[0].push(ClosedLoop::<Plain>::measure(load));
            // Watched at a number, a key of one's own is nothing else than without.
            if load.keys == 100 && !load.own_keys {
                rows[1].push(ClosedLoop::<Numbered>::measure(load));
            }
            rows[2].push(ClosedLoop::<HomeMade<Request>>::measure(load));
        }
        for (place, figures) in [Plain::NAME, Numbered::NAME, HomeMade::<Request>::NAME].iter().zip(rows) {
            if figures.is_empty() {
                continue;
            }
            let of = |what: fn(&Figures) -> f64| median(&figures.iter().map(what).collect::<Vec<_>>());
            let keys = if load.own_keys { "own".to_owned() } else { count(load.keys as f64) };
            table.row([
                keys,
                format!("{} %", 100 / load.expiring),
                load.threads.to_string(),
                (*place).to_owned(),
                count(of(|it| it.rate)),
                format!("{:.2}", of(|it| it.cpu)),
                count(of(|it| it.watched)),
                count(of(|it| it.watched_last)),
                count(of(|it| it.wake_ups)),
                megabytes(of(|it| it.peak) as u64),
            ]);
        }
    }
    println!("\n### Closed loop, timeout {:?}\n\n{TWO_SPEEDS}\n\n{table}", timeout());
}

/// What one run has shown.
struct Figures {
    rate: f64,
    cpu: f64,
    watched: f64,
    watched_last: f64,
    wake_ups: f64,
    peak: f64,
}

/// One thread's part.
struct Lane<P> {
    place: Arc<P>,
    load: Load,
    number: usize,
    random: Random,
    made: u64,
    /// What each key's progress will be, when all that wait on it have what they wait for.
    progress: Arc<[CachePadded<AtomicU64>]>,
    /// The oldest first; with the first key. `None`: it will expire.
    ring: VecDeque<Option<(Arc<Condition>, Key)>>,
}

impl<P: Place> Lane<P> {
    #[inline]
    fn step(&mut self) {
        self.satisfy_oldest();
        self.register();
    }

    #[inline]
    fn satisfy_oldest(&mut self) {
        if let Some(Some((condition, key))) = self.ring.pop_front() {
            condition.ready.store(true, Ordering::Release);
            self.place.check(key);
        }
    }

    #[inline]
    fn register(&mut self) {
        let mut keys = [0; 3].map(|_| self.random.below(self.load.keys));
        while keys[0] == keys[1] || keys[0] == keys[2] || keys[1] == keys[2] {
            keys = keys.map(|_| self.random.below(self.load.keys));
        }
        let expires = self.random.below(self.load.expiring) == 0;
        // One that will not be ready waits for a number that will not be reached.
        let number = |key: usize| {
            if expires { u64::MAX } else { self.progress[key].fetch_add(1, Ordering::Relaxed) }
        };
        let mut keys = if P::IS_NUMBERED {
            keys.map(|key| (key as u64, number(key)))
        } else {
            keys.map(|key| (key as u64, 0))
        };
        if self.load.own_keys {
            keys[0] = ((self.load.keys + self.number) as u64 + 2 * self.made, 0);
        }
        self.made += 1;
        let (condition, request) = Request::new(self.number);
        self.place.register(request, timeout(), keys);
        self.ring.push_back((!expires).then_some((condition, keys[0])));
    }
}

/// A closed loop that runs.
struct ClosedLoop<P: Place> {
    place: Arc<P>,
    driver: P::Driver,
    lanes: Vec<Lane<P>>,
}

impl<P: Place> ClosedLoop<P> {
    fn measure(load: Load) -> Figures {
        forget_peak();
        let before = memory().0;
        let mut running = Self::new(load);
        // Until as many expire as are made to.
        running.run_for(timeout() + timeout() / 4);
        let (cpu, wake_ups) = (cpu_time(), running.driver.wake_ups());
        let (mut steps, mut spent, mut watched) = (0, Duration::ZERO, 0);
        let begun = Instant::now();
        let limit = pick(Duration::from_millis(50), Duration::from_millis(300), Duration::from_secs(2));
        while begun.elapsed() < limit {
            let (more, time) = running.run_for(Duration::from_millis(25));
            (steps, spent) = (steps + more, spent + time);
            watched = watched.max(running.place.watched());
        }
        let cpu = (cpu_time() - cpu).as_secs_f64() * 1e6 / steps as f64;
        let wake_ups = (running.driver.wake_ups() - wake_ups) as f64 / begun.elapsed().as_secs_f64();
        let (watched_last, peak) = (running.place.watched() as f64, memory().1.saturating_sub(before) as f64);
        running.finish();
        let rate = steps as f64 / spent.as_secs_f64();
        Figures { rate, cpu, watched: watched as f64, watched_last, wake_ups, peak }
    }

    fn new(load: Load) -> Self {
        forget_ended();
        let place = Arc::new(P::new());
        let progress: Arc<[_]> = (0..load.keys).map(|_| CachePadded::default()).collect();
        let lane = |number| {
            let mut lane = Lane {
                place: Arc::clone(&place),
                load,
                number,
                random: Random::new(11 + number as u64),
                made: 0,
                progress: Arc::clone(&progress),
                ring: VecDeque::with_capacity(RING + 1),
            };
            (0..RING).for_each(|_| lane.register());
            lane
        };
        let lanes = (0..load.threads).map(lane).collect();
        ClosedLoop { driver: place.drive(), place, lanes }
    }

    /// Steps for about so long, all threads together. Returns how many there were and how long the slowest took; then the
    /// books are looked at.
    fn run_for(&mut self, limit: Duration) -> (u64, Duration) {
        let start = Instant::now();
        let run = |lane: &mut Lane<P>| {
            // It stands still while the thread waits for a processor.
            let (before, own) = (lane.made, Stopwatch::start());
            while start.elapsed() < limit {
                (0..64).for_each(|_| lane.step());
            }
            (lane.made - before, own.elapsed())
        };
        let (steps, spent) = if let [lane] = &mut self.lanes[..] {
            run(lane)
        } else {
            thread::scope(|scope| {
                let run = &run;
                let lanes = self.lanes.iter_mut();
                let threads: Vec<_> = lanes.map(|lane| scope.spawn(move || run(lane))).collect();
                let parts = threads.into_iter().map(|thread| thread.join().expect("it does not panic"));
                parts.fold((0, Duration::ZERO), |(steps, spent), (more, own)| (steps + more, spent.max(own)))
            })
        };
        if P::IS_EXACT {
            // A quiet point: nothing but what waits is watched.
            self.place.count(3);
        }
        (steps, spent)
    }

    /// Lets everything end.
    fn finish(mut self) {
        drop(self.driver);
        let made: u64 = self.lanes.iter().map(|lane| lane.made).sum();
        assert_eq!(self.place.count(3) as u64, made - ended(), "what waits is what has not ended");
        self.lanes.iter_mut().for_each(|lane| (0..RING).for_each(|_| lane.satisfy_oldest()));
        while ended() < made {
            thread::sleep(Duration::from_millis(1));
            self.place.expire();
        }
        assert_eq!((self.place.count(3), ended()), (0, made), "all have ended, each once");
    }
}
