//! What the queue of `ixion-retry` does in a second, with each store, and how late it delivers. The tables go to the
//! standard output, in Markdown.
//!
//! `--short` measures for less long, `--test` shows that it works. With the file, nearly all is the disk's: each
//! answer waits until it is synced.

#![allow(missing_docs, reason = "a program")]

use ixion_bench::support::{Table, count, pick, quantiles, time};
use ixion_retry::{MemoryStore, RedbStore, RetryQueue, Store};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const PAYLOAD: [u8; 64] = [7; 64];
const VISIBILITY: Duration = Duration::from_secs(60);
/// Threads that push the items of which the lateness is measured, and that take them.
const PUSHERS: u64 = 16;
const TAKERS: usize = 4;
/// How long pushing them may take.
const HEAD_START: Duration = Duration::from_millis(500);
/// How far apart they are due.
const GAP: Duration = Duration::from_millis(1);

fn main() {
    let each = pick(Duration::from_millis(10), Duration::from_millis(300), Duration::from_secs(2));
    let mut table = Table::new(["store", "threads", "batch", "push /s", "take and ack /s"]);
    for threads in [1, 16] {
        for batch in [1, 32] {
            in_memory(|store| row(&mut table, "memory", store, threads, batch, each));
            in_a_file(|store| row(&mut table, "file", store, threads, batch, each));
        }
    }
    println!("### Retry queue: throughput\n");
    println!(
        "Items of {} bytes, {each:?} of each; pushed, taken and acknowledged by the batch.\n",
        PAYLOAD.len()
    );
    print!("{table}");

    let items = pick(20, 500, 2000);
    let mut table = Table::new(["store", "p50", "p99", "most"]);
    in_memory(|store| late(&mut table, "memory", store, items));
    in_a_file(|store| late(&mut table, "file", store, items));
    println!("\n### Retry queue: lateness\n");
    println!(
        "{items} items, one due each {GAP:?}, until one of {TAKERS} threads that wait has it.\n\n{table}"
    );
}

fn in_memory(run: impl FnOnce(MemoryStore)) {
    run(MemoryStore::new());
}

fn in_a_file(run: impl FnOnce(RedbStore)) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    run(RedbStore::open(folder.path().join("queue.redb")).expect("a new file"));
}

fn row<S: Store>(table: &mut Table, name: &str, store: S, threads: usize, batch: usize, each: Duration) {
    let queue = RetryQueue::builder(store).build();
    let pushed = rate(threads, each, || {
        queue.push_all(&vec![(PAYLOAD, Duration::ZERO); batch]).expect("a push").len() as u64
    });
    let waiting = queue.counts().expect("counts").waiting;
    let taken = rate(threads, each, || {
        let taken = queue.try_take(batch, VISIBILITY).expect("a take");
        let acks = queue.ack_all(taken.iter().map(|delivery| &delivery.receipt)).expect("acknowledgements");
        assert!(acks.into_iter().all(|counted| counted));
        taken.len() as u64
    });
    let left = queue.counts().expect("counts");
    assert!(left.in_flight == 0 && left.waiting < waiting, "{left:?} of {waiting}");
    table.row([name.to_owned(), threads.to_string(), batch.to_string(), count(pushed), count(taken)]);
}

/// How much threads get done in a second, each going on until its time is over or there is nothing to do.
fn rate(threads: usize, each: Duration, step: impl Fn() -> u64 + Sync) -> f64 {
    let (start, done) = (Instant::now(), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while start.elapsed() < each {
                    match step() {
                        0 => break,
                        some => done.fetch_add(some, Ordering::Relaxed),
                    };
                }
            });
        }
    });
    (done.into_inner() as f64 / start.elapsed().as_secs_f64()).round()
}

fn late<S: Store>(table: &mut Table, name: &str, store: S, items: u64) {
    let queue = &RetryQueue::builder(store).start().expect("a thread");
    let start = Instant::now();
    let due = |item: u64| HEAD_START + GAP * item as u32;
    let (lateness, acked) = (&Mutex::new(Vec::new()), &AtomicU64::new(0));
    thread::scope(|scope| {
        for first in 0..PUSHERS {
            scope.spawn(move || {
                for item in (first..items).step_by(PUSHERS as usize) {
                    let delay = due(item).saturating_sub(start.elapsed());
                    assert!(!delay.is_zero(), "the disk is slower than the head start");
                    queue.push(&item.to_le_bytes(), delay).expect("a push");
                }
            });
        }
        for _ in 0..TAKERS {
            scope.spawn(move || {
                while acked.load(Ordering::Relaxed) < items {
                    let taken = queue.take_blocking(32, VISIBILITY, VISIBILITY).expect("a take");
                    let now = start.elapsed();
                    for delivery in taken {
                        let item =
                            delivery.payload.as_slice().try_into().map(u64::from_le_bytes).expect("a number");
                        lateness.lock().unwrap().push(now - due(item));
                        assert!(queue.ack(&delivery.receipt).expect("an acknowledgement"));
                        if acked.fetch_add(1, Ordering::Relaxed) + 1 == items {
                            queue.close();
                        }
                    }
                }
            });
        }
    });
    let mut lateness = lateness.lock().unwrap();
    assert_eq!(lateness.len() as u64, items);
    table.row([name.to_owned()].into_iter().chain(quantiles(&mut lateness, [0.5, 0.99, 1.0]).map(time)));
}
