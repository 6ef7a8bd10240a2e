//! The worker's part of the demo.

use crate::demo::{Plan, Verdict, say};
use ixion_retry::{Backoff, Delivery, Jitter, RedbStore, RetryQueue};
use std::path::PathBuf;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

/// What a worker does: it pushes what is missing of the items, and delivers.
pub(crate) struct Work {
    pub(crate) plan: Plan,
    pub(crate) file: PathBuf,
    /// The first item that is missing, for each pusher.
    pub(crate) from: Vec<u64>,
}

/// Threads that push: the items of the n-th are n, n + 32, n + 64 … They are many because each waits for the disk.
pub(super) const PUSHERS: usize = 32;
const TAKERS: usize = 64;
/// Items that a taker takes at once.
const BATCH: usize = 16;
pub(super) const MAX_ATTEMPTS: u32 = 5;
const VISIBILITY: Duration = Duration::from_millis(500);
/// What becomes of a delivery: of 16 items one fails at every attempt, one fails twice, one hangs once; the others are done.
enum Fate {
    Done,
    Fails,
    Hangs,
}

fn fate(item: u64, seed: u64, attempt: u32) -> Fate {
    match (fastrand::Rng::with_seed(seed ^ item).u8(0..16), attempt) {
        (0, _) | (1, ..=2) => Fate::Fails,
        (2, 1) => Fate::Hangs,
        _ => Fate::Done,
    }
}

/// The worker's part. It returns when all items are done or dead.
pub(crate) fn work(work: &Work) -> Verdict {
    let backoff = Backoff::exponential(Duration::from_millis(20), 2.0, Duration::from_millis(200))?
        .jitter(Jitter::Equal)
        .max_attempts(MAX_ATTEMPTS);
    let queue = &RetryQueue::builder(RedbStore::open(&work.file)?).backoff(backoff).start()?;
    let plan = work.plan;
    thread::scope(|scope| {
        let push = |from: u64| -> Verdict {
            for item in (from..plan.items).step_by(PUSHERS) {
                queue.push(&item.to_le_bytes(), Duration::ZERO)?;
                say(&format!("pushed {item}\n"))?;
            }
            Ok(())
        };
        let pushers: Vec<_> = work.from.iter().map(|from| scope.spawn(move || push(*from))).collect();
        let takers: Vec<_> = (0..TAKERS).map(|_| scope.spawn(move || take(queue, plan.seed))).collect();
        let pushed = all(pushers).and_then(|()| wait_until_settled(queue));
        queue.close();
        pushed.and(all(takers))
    })?;
    let mut last = None;
    loop {
        let page = queue.dead_letters(last, 1000)?;
        for letter in &page {
            say(&format!("dead {} {}\n", item_of(&letter.payload)?, letter.attempts))?;
        }
        let Some(letter) = page.last() else { return say("end\n") };
        last = Some(letter.id);
    }
}

/// Waits for threads that do the same, and returns the first of their errors.
fn all(threads: Vec<ScopedJoinHandle<'_, Verdict>>) -> Verdict {
    let ends: Vec<Verdict> = threads
        .into_iter()
        .map(|thread| thread.join().unwrap_or_else(|_| Err("a thread has panicked".into())))
        .collect();
    ends.into_iter().collect()
}

fn wait_until_settled(queue: &RetryQueue<RedbStore>) -> Verdict {
    loop {
        let counts = queue.counts()?;
        if counts.waiting + counts.in_flight == 0 {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn take(queue: &RetryQueue<RedbStore>, seed: u64) -> Verdict {
    loop {
        let taken = queue.take_blocking(BATCH, VISIBILITY, Duration::from_secs(60))?;
        if taken.is_empty() {
            return Ok(());
        }
        for Delivery { payload, receipt, .. } in taken {
            let item = item_of(&payload)?;
            say(&format!("delivered {item} {} {}\n", receipt.id(), receipt.attempt()))?;
            match fate(item, seed, receipt.attempt()) {
                Fate::Hangs => {}
                Fate::Fails => {
                    queue.nack(&receipt, "the demo lets it fail")?;
                }
                Fate::Done => {
                    say(&format!("acking {item}\n"))?;
                    if queue.ack(&receipt)? {
                        say(&format!("acked {item} {}\n", receipt.id()))?;
                    }
                }
            }
        }
    }
}

fn item_of(payload: &[u8]) -> Result<u64, String> {
    let bytes =
        payload.try_into().map_err(|_| format!("a payload of {} bytes was not pushed", payload.len()))?;
    Ok(u64::from_le_bytes(bytes))
}
