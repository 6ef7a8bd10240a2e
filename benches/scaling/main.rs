//! What an operation costs as things grow: threads, operations that wait, keys, watchers of a key, keys of an operation. A
//! table for each, and `target/scaling.svg` with all of them (another path: `--svg=PATH`).
//!
//! The same purgatory each time, with a clock that stands still and 16 shards. A *turn* registers an operation and ends
//! another by a signal, so that as many wait on as before. The stopwatch stands still while the thread waits for a
//! processor. `--short` takes sizes up to a hundred thousand, `--test` shows that it works.

mod svg;

use ixion::{DelayedOperation, ManualClock, Outcome, Purgatory, Watch};
use ixion_bench::support::{Random, Stopwatch, Table, count, median, pick};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use svg::Line;

/// Ready or not.
struct Waits(Arc<AtomicBool>);

impl DelayedOperation for Waits {
    #[inline]
    fn try_complete(&mut self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn on_complete(self, outcome: Outcome) {
        assert_eq!(outcome, Outcome::Satisfied);
    }
}

type Place = Purgatory<u64, Waits>;

fn new_place() -> Place {
    Purgatory::builder("scaling").clock(ManualClock::new()).hash_seed(1).build()
}

/// How many turns a figure is made of.
fn turns() -> usize {
    pick(200, 20_000, 200_000)
}

/// 1, 10, 100, ... up to one of three, by how long the run is to be.
fn powers(smoke: usize, short: usize, whole: usize) -> Vec<usize> {
    let most = pick(smoke, short, whole);
    std::iter::successors(Some(1), |n| Some(n * 10)).take_while(|n| *n <= most).collect()
}

/// A thread's part: operations on so many keys each, the oldest of which ends at each turn.
struct Turns<'a> {
    place: &'a Place,
    waiting: VecDeque<(Arc<AtomicBool>, u64)>,
    random: Random,
    keys: usize,
    keys_each: usize,
    next: usize,
}

impl<'a> Turns<'a> {
    fn new(place: &'a Place, number: usize, waiting: usize, keys: usize, keys_each: usize) -> Self {
        let random = Random::new(21 + number as u64);
        let mut turns = Turns { place, waiting: VecDeque::new(), random, keys, keys_each, next: number };
        (0..waiting).for_each(|_| turns.register());
        turns
    }

    #[inline]
    fn register(&mut self) {
        let ready = Arc::new(AtomicBool::new(false));
        let op = Waits(Arc::clone(&ready));
        let first = self.random.below(self.keys);
        self.next += 1;
        // The keys that follow the first, round and round: none twice.
        let all = self.keys as u64;
        let keys = (0..self.keys_each as u64).map(|n| (first as u64 + n) % all);
        let timeout = Duration::from_millis(1 + (self.next as u64 * 7919) % 60_000);
        self.place.try_complete_else_watch(op, timeout, keys).expect("open").id().expect("it waits");
        self.waiting.push_back((ready, first as u64));
    }

    #[inline]
    fn turn(&mut self) {
        self.register();
        let (ready, key) = self.waiting.pop_front().expect("as many as at the beginning");
        ready.store(true, Ordering::Release);
        // This one, or none if the other thread has come by; or one more that the other is about to signal.
        assert!(self.place.check_and_complete(&key) <= 2);
    }

    /// The time of a turn, in nanoseconds: the median of five parts.
    fn measure(&mut self) -> f64 {
        let part = turns().div_ceil(5);
        let parts: Vec<f64> = (0..5)
            .map(|_| {
                let start = Stopwatch::start();
                (0..part).for_each(|_| self.turn());
                start.elapsed().as_nanos() as f64 / part as f64
            })
            .collect();
        median(&parts)
    }

    fn finish(self) {
        for (ready, key) in self.waiting {
            ready.store(true, Ordering::Release);
            self.place.check_and_complete(&key);
        }
    }
}

fn assert_nothing_is_kept(place: &Place) {
    let stats = place.stats();
    assert!(stats.balances() && stats.pending == 0 && stats.watched == 0 && stats.keys == 0, "{stats:?}");
}

/// One figure of a purgatory like this.
fn one(waiting: usize, keys: usize, keys_each: usize) -> f64 {
    let place = new_place();
    let mut turns = Turns::new(&place, 0, waiting, keys, keys_each);
    let nanoseconds = turns.measure();
    assert_eq!(place.watched(), waiting * keys_each, "exact");
    turns.finish();
    assert_nothing_is_kept(&place);
    nanoseconds
}

/// The time of a turn of either of so many threads, and of both together.
fn with_threads(threads: usize) -> (f64, f64) {
    let place = new_place();
    let results: Vec<f64> = thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|number| {
                let place = &place;
                scope.spawn(move || {
                    let mut turns = Turns::new(place, number, 1000, 10_000, 3);
                    let nanoseconds = turns.measure();
                    turns.finish();
                    nanoseconds
                })
            })
            .collect();
        handles.into_iter().map(|handle| handle.join().expect("it does not panic")).collect()
    });
    assert_nothing_is_kept(&place);
    let mean = results.iter().sum::<f64>() / threads as f64;
    (mean, mean / threads as f64)
}

/// An event on a key with so many watchers that completes the first of them, and one that takes its place; in nanoseconds.
fn on_one_key(watchers: usize, numbered: bool) -> f64 {
    let place = new_place();
    let mut waiting = VecDeque::new();
    let mut next = 0;
    let mut register = |waiting: &mut VecDeque<Arc<AtomicBool>>| {
        next += 1;
        let ready = Arc::new(AtomicBool::new(false));
        let watch = if numbered { Watch::at(7, next) } else { Watch::any(7) };
        let op = Waits(Arc::clone(&ready));
        place.try_complete_else_watch_at(op, Duration::MAX, [watch]).expect("open").id().expect("it waits");
        waiting.push_back(ready);
    };
    (0..watchers).for_each(|_| register(&mut waiting));
    let events = if numbered { turns() } else { (turns() * 10 / watchers.max(10)).max(5) };
    let start = Stopwatch::start();
    for event in 1..=events {
        register(&mut waiting);
        waiting.pop_front().expect("one waits").store(true, Ordering::Release);
        assert_eq!(place.check_and_complete_up_to(&7, event as u64), 1);
    }
    let nanoseconds = start.elapsed().as_nanos() as f64 / events as f64;
    waiting.iter().for_each(|ready| ready.store(true, Ordering::Release));
    assert_eq!(place.check_and_complete(&7), watchers);
    assert_nothing_is_kept(&place);
    nanoseconds
}

fn figure(nanoseconds: f64) -> String {
    format!("{nanoseconds:.0}")
}

/// Prints a table of one line, and returns it as one for the picture.
fn line(title: &'static str, column: &str, sizes: Vec<usize>, measure: impl Fn(usize) -> f64) -> Line {
    let mut table = Table::new([column, "ns a turn"]);
    let points: Vec<(f64, f64)> = sizes
        .into_iter()
        .map(|size| {
            let nanoseconds = measure(size);
            table.row([count(size as f64), figure(nanoseconds)]);
            (size as f64, nanoseconds)
        })
        .collect();
    println!("\n### {title}\n\n{table}");
    Line { title, points }
}

fn threads() {
    let mut table = Table::new(["threads", "ns a turn of one", "ns a turn of all"]);
    for threads in [1, 2] {
        let (one, all) = with_threads(threads);
        table.row([threads.to_string(), figure(one), figure(all)]);
    }
    println!("\n### Threads, each with 1000 operations on 3 of 10k keys\n\n{table}");
}

fn main() {
    threads();
    let at_least =
        |least: usize, sizes: Vec<usize>| sizes.into_iter().filter(move |it| *it >= least).collect();
    let mut lines = vec![
        line(
            "Operations that wait, 1 key of their number",
            "operations",
            at_least(1000, powers(10_000, 100_000, 10_000_000)),
            |n| one(n, n, 1),
        ),
        line(
            "Keys, 10k operations on 3 of them",
            "keys",
            at_least(1000, powers(10_000, 100_000, 1_000_000)),
            |n| one(10_000, n, 3),
        ),
        line("Keys of an operation, 1000 operations on 10k keys", "keys", powers(10, 100, 100), |n| {
            one(1000, 10_000, n)
        }),
    ];
    for (title, numbered) in [("Watchers of a key, plain", false), ("Watchers of a key, at a number", true)] {
        let sizes = powers(1_000, 10_000, 100_000);
        lines.push(line(title, "watchers", sizes, move |n| on_one_key(n, numbered)));
    }
    let given = std::env::args().find_map(|arg| arg.strip_prefix("--svg=").map(str::to_owned));
    let (path, shown) = match &given {
        Some(path) => (path.as_str(), path.as_str()),
        None => (concat!(env!("CARGO_MANIFEST_DIR"), "/../target/scaling.svg"), "target/scaling.svg"),
    };
    match std::fs::write(path, svg::draw("Cost of a turn, ns", &lines)) {
        Ok(()) => println!("\nDrawn in `{shown}`."),
        Err(error) => println!("\nNot drawn: {error}."),
    }
}
