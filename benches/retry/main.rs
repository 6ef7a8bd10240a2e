//! What the queue of `ixion-retry` does in a second, with each store, and how late it delivers; beside the recipe of a Redis
//! sorted set that is polled. The tables go to the standard output, in Markdown.
//!
//! `--short` measures for less long, `--test` shows that it works. With the file, and with a Redis that syncs each step, nearly
//! all is the disk's: each answer waits until it is synced.

#![allow(missing_docs, reason = "a program")]

mod lateness;
#[path = "../../retry/tests/it/recipe.rs"]
mod recipe;
mod size;
mod throughput;

use ixion_bench::support::process::memory;
use ixion_bench::support::{Table, pick};
use ixion_redis_server::Server;
use ixion_retry::{MemoryStore, RedbStore, RedisStore, Store};
use lateness::Lateness;
use size::Size;
use std::fs;
use std::time::Duration;
use throughput::Throughput;

const PAYLOAD: usize = 64;
const VISIBILITY: Duration = Duration::from_secs(60);
/// How many are pushed, taken and acknowledged at once, where it is not one.
const BATCH: usize = 32;
/// How a Redis keeps what it is told: on the disk once a second, or before each answer.
const FSYNC: [&str; 2] = ["everysec", "always"];

/// What is done with each store. `size` is how many bytes it needs now.
trait Measure {
    fn with<S: Store>(&mut self, name: &str, store: S, size: &dyn Fn() -> u64);
    fn with_recipe(&mut self, name: &str, url: &str, size: &dyn Fn() -> u64);
}

fn main() {
    // First, while the process has no memory to use again.
    let (mut sizes, items) = (Table::new(size::head()), pick(100, 10_000, 100_000));
    with_all(&FSYNC[..1], &FSYNC[..1], &mut Size { table: &mut sizes, items });

    let each = pick(Duration::from_millis(5), Duration::from_millis(100), Duration::from_secs(1));
    let many = format!("{BATCH} at once");
    let head = |what: &str| ["one by one", &many].map(|how| format!("{what} /s, {how}"));
    let head =
        ["store", "threads"].map(str::to_owned).into_iter().chain(head("push")).chain(head("take and ack"));
    let mut table = Table::new(head);
    for threads in [1, 16] {
        with_all(&FSYNC, &FSYNC, &mut Throughput { table: &mut table, threads, each });
    }
    println!("### Retry queue: throughput\n");
    println!(
        "Items of {PAYLOAD} bytes, {each:?} of each. *Redis* on the same machine, with `appendonly yes` and this `appendfsync`. \
         *recipe*: a sorted set and one job, which reads all in one poll, acknowledges nothing, and is done with what it has \
         sent.\n"
    );
    print!("{table}");

    let (mut table, late) = (Table::new(["store", "p50", "p99", "most"]), pick(20, 500, 2000));
    with_all(&FSYNC, &FSYNC[..1], &mut Lateness { table: &mut table, items: late });
    print!("\n### Retry queue: lateness\n\n{}\n\n{table}", lateness::caption(late));

    print!("\n### Retry queue: size\n\n{}\n\n{sizes}", size::caption(items));
}

/// Measures the stores, Redis with each `fsync` in `stores`; then the recipe with each in `recipes`.
fn with_all(stores: &[&str], recipes: &[&str], measure: &mut impl Measure) {
    measure.with("memory", MemoryStore::new(), &|| memory().0);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("queue.redb");
    let length = || fs::metadata(&file).expect("a file").len();
    measure.with("file", RedbStore::open(&file).expect("a new file"), &length);
    for fsync in stores {
        let server = redis(fsync);
        let store = RedisStore::open(&server.url(), "bench").expect("a new server");
        measure.with(&format!("Redis, {fsync}"), store, &|| used_memory(&server));
    }
    for fsync in recipes {
        let server = redis(fsync);
        measure.with_recipe(&format!("recipe, {fsync}"), &server.url(), &|| used_memory(&server));
    }
}

fn redis(fsync: &str) -> Server {
    Server::start_with(&["--appendonly", "yes", "--appendfsync", fsync]).expect("a server")
}

fn used_memory(server: &Server) -> u64 {
    let info = server.ask("INFO memory").expect("an answer");
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
    used.and_then(|used| used.trim().parse().ok()).expect("a number")
}

/// One unlike all others of its length.
fn payload(item: u64, length: usize) -> Vec<u8> {
    let mut payload = vec![7; length];
    payload[..8].copy_from_slice(&item.to_le_bytes());
    payload
}
