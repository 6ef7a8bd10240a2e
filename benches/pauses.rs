//! Bounded pauses: the longest hold of a shard's lock, and the longest single call, while a purgatory of one shard is as
//! large and as hard pressed as it gets. Prints a table.
//!
//! A hold cannot be seen from outside. A build that times them is made by
//!
//! ```text
//! RUSTFLAGS="--cfg ixion_pauses" cargo bench -p ixion-bench --bench pauses --target-dir target/pauses
//! ```
//!
//! and counts the time for which the thread ran, so that other programs on the machine do not spoil it. Any other build
//! times the calls alone, by the clock on the wall. A word picks a part: `timers`, `tick`, `key`, `burst`, `shutdown`.
//! `--short` takes a tenth of the operations, `--test` shows that it works.
//!
//! A walk along a key is a call that takes as long as the key has watchers, and so is a shutdown; that no hold of it is
//! long is the point. A call of a drive is one pass.

use ixion::{DelayedOperation, ManualClock, OperationId, Outcome, Purgatory};
use ixion_bench::support::{Random, Table, count, is_wanted, pick, time};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Waits for ever, and counts its end. As large as one that has a few things of its own.
struct Waits {
    ended: Arc<AtomicUsize>,
    _payload: [u64; 2],
}

impl DelayedOperation for Waits {
    fn try_complete(&mut self) -> bool {
        false
    }

    fn on_complete(self, _: Outcome) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// A purgatory of one shard, and the table that says what it does.
struct Bench<'a> {
    table: &'a mut Table,
    clock: ManualClock,
    purgatory: Purgatory<u64, Waits>,
    ended: Arc<AtomicUsize>,
    registered: usize,
    random: Random,
}

impl<'a> Bench<'a> {
    fn new(table: &'a mut Table) -> Self {
        let clock = ManualClock::new();
        let purgatory = Purgatory::builder("pauses").clock(clock.clone()).shards(1).hash_seed(1).build();
        Bench { table, clock, purgatory, ended: Arc::default(), registered: 0, random: Random::new(17) }
    }

    /// A deadline in the minute that begins in 100 ms.
    fn within_a_minute(&mut self) -> Duration {
        Duration::from_millis(100 + self.random.below(60_000) as u64)
    }

    fn register(&mut self, timeout: Duration, keys: impl IntoIterator<Item = u64>) -> OperationId {
        self.registered += 1;
        let op = Waits { ended: Arc::clone(&self.ended), _payload: [1; 2] };
        let registration = self.purgatory.try_complete_else_watch(op, timeout, keys);
        registration.expect("open").id().expect("it waits")
    }

    /// Makes so many calls, and prints the longest and the longest hold.
    fn measure(&mut self, what: &str, calls: usize, mut call: impl FnMut(&mut Self, usize)) {
        self.measure_while(what, |bench, nth| {
            call(bench, nth);
            nth + 1 < calls
        });
    }

    /// Makes calls while there is more to do.
    fn measure_while(&mut self, what: &str, mut call: impl FnMut(&mut Self, usize) -> bool) {
        pauses::take();
        let (mut longest, mut calls, begun) = (Duration::ZERO, 0, Instant::now());
        loop {
            let start = pauses::own_time();
            let more = call(self, calls);
            longest = longest.max(pauses::own_time().saturating_sub(start));
            calls += 1;
            if !more {
                break;
            }
        }
        let (hold, wall, long, holds) = pauses::take();
        let mean = begun.elapsed() / calls as u32;
        let of_holds = |it: String| if holds == 0 { "–".to_owned() } else { it };
        self.table.row([
            what.to_owned(),
            count(calls as f64),
            time(mean),
            time(longest),
            of_holds(count(holds as f64)),
            of_holds(time(hold)),
            of_holds(time(wall)),
            of_holds(long.to_string()),
        ]);
    }

    /// Nothing waits any more, and each has ended once; so many were handed back.
    fn finish(self, handed_back: usize) {
        let stats = self.purgatory.stats();
        assert!(stats.balances() && stats.pending == 0 && stats.watched == 0 && stats.keys == 0, "{stats:?}");
        assert_eq!(self.ended.load(Ordering::Relaxed) + handed_back, self.registered, "each ends once");
    }
}

/// What the machine itself adds: a lock that nobody else wants, and nothing to do under it.
fn floor(table: &mut Table, n: usize) {
    Bench::new(table).measure("nothing: a look at a key without watchers", n, |bench, nth| {
        assert_eq!(bench.purgatory.check_and_complete(&(nth as u64)), 0);
    });
}

/// Many timers: growing, coming and going, moving, time passing, and all due at last.
fn timers(table: &mut Table, n: usize, label: &str) {
    let mut bench = Bench::new(table);
    let mut ids = Vec::with_capacity(n);
    bench.measure(&format!("grow to {label} timers"), n, |bench, _| {
        let timeout = bench.within_a_minute();
        ids.push(bench.register(timeout, []));
    });
    let mut cancelled = 0;
    bench.measure(&format!("cancel and register, {label} timers"), n / 4, |bench, _| {
        let (at, timeout) = (bench.random.below(n), bench.within_a_minute());
        cancelled += usize::from(bench.purgatory.cancel(ids[at]).taken().is_some());
        ids[at] = bench.register(timeout, []);
    });
    assert_eq!(cancelled, n / 4, "nothing was due");
    bench.measure(&format!("reset, {label} timers"), n / 4, |bench, _| {
        let (at, timeout) = (bench.random.below(n), bench.within_a_minute());
        assert!(bench.purgatory.reset_timeout(ids[at], timeout));
    });
    bench.measure_while(&format!("time passes by 1 ms, {label} timers"), |bench, _| {
        let drive = bench.purgatory.expire();
        if !drive.more {
            bench.clock.advance(Duration::from_millis(1));
        }
        bench.clock.now().as_u64() < 5000
    });
    bench.clock.advance(Duration::from_secs(100));
    bench.measure_while(&format!("all of {label} timers are due"), |bench, _| bench.purgatory.expire().more);
    bench.finish(cancelled);
}

fn one_tick(table: &mut Table, n: usize, label: &str) {
    let mut bench = Bench::new(table);
    for own in 0..n as u64 {
        bench.register(Duration::from_secs(300), [own % 1000, 1000 + own]);
    }
    bench.clock.advance(Duration::from_secs(300));
    bench.measure_while(&format!("{label} are due in one tick"), |bench, _| bench.purgatory.expire().more);
    bench.finish(0);
}

fn one_key(table: &mut Table, n: usize, label: &str) {
    let mut bench = Bench::new(table);
    for own in 0..n as u64 {
        let timeout = bench.within_a_minute();
        bench.register(timeout, [7, 1000 + own]);
    }
    bench.measure(&format!("look at {label} on one key"), 3, |bench, _| {
        assert_eq!(bench.purgatory.check_and_complete(&7), 0);
    });
    bench.measure(&format!("reset {label} on one key"), 1, |bench, _| {
        assert_eq!(bench.purgatory.reset_timeout_for_key(&7, Duration::from_secs(90)), n);
    });
    bench.measure(&format!("complete {label} on one key"), 1, |bench, _| {
        assert_eq!(bench.purgatory.force_complete_for_key(&7), n);
    });
    bench.finish(0);
}

/// The tables grow, all ends, and a few come and go afterwards.
fn burst(table: &mut Table, n: usize, label: &str, in_order: bool) {
    let mut bench = Bench::new(table);
    let mut ids = Vec::with_capacity(n);
    bench.measure(&format!("grow to {label} keys"), n, |bench, nth| {
        let (own, shared) = (nth as u64, n + bench.random.below(1000));
        let timeout = bench.within_a_minute();
        ids.push(bench.register(timeout, [own, shared as u64]));
    });
    if !in_order {
        for at in (1..n).rev() {
            let other = bench.random.below(at + 1);
            ids.swap(at, other);
        }
    }
    let order = if in_order { "in order" } else { "in any order" };
    bench.measure(&format!("a burst of {label} ends, {order}"), n, |bench, nth| {
        assert!(bench.purgatory.force_complete(ids[nth]));
    });
    bench.measure(&format!("one by one after a burst of {label}"), n / 4, |bench, nth| {
        let id = bench.register(Duration::from_secs(1), [nth as u64]);
        assert!(bench.purgatory.force_complete(id));
    });
    bench.finish(0);
}

fn shutdown(table: &mut Table, n: usize, label: &str) {
    let mut bench = Bench::new(table);
    for own in 0..n as u64 {
        let timeout = bench.within_a_minute();
        bench.register(timeout, [own, own / 2]);
    }
    bench.measure(&format!("shut down with {label}"), 1, |bench, _| {
        assert_eq!(bench.purgatory.shutdown(), n);
    });
    bench.finish(0);
}

fn main() {
    let n = pick(2_000, 100_000, 1_000_000);
    let label = count(n as f64);
    let mut table = Table::new([
        "what",
        "calls",
        "mean call",
        "longest call",
        "holds",
        "longest hold",
        "on the wall",
        "over 100 us",
    ]);
    floor(&mut table, n);
    if is_wanted("timers") {
        timers(&mut table, 10 * n, &count(10.0 * n as f64));
    }
    if is_wanted("tick") {
        one_tick(&mut table, n, &label);
    }
    if is_wanted("key") {
        one_key(&mut table, n, &label);
    }
    if is_wanted("burst") {
        burst(&mut table, n, &label, true);
        burst(&mut table, n, &label, false);
    }
    if is_wanted("shutdown") {
        shutdown(&mut table, n, &label);
    }
    println!("\n### Pauses, one shard\n\n{table}");
}

#[cfg(ixion_pauses)]
use ixion::clock::pauses;

/// What there is in a build that does not time holds.
#[cfg(not(ixion_pauses))]
mod pauses {
    use std::sync::LazyLock;
    use std::time::{Duration, Instant};

    static START: LazyLock<Instant> = LazyLock::new(Instant::now);

    pub(super) fn own_time() -> Duration {
        START.elapsed()
    }

    pub(super) fn take() -> (Duration, Duration, u64, u64) {
        (Duration::ZERO, Duration::ZERO, 0, 0)
    }
}
