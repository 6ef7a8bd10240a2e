//! The worker's part of the demo.

use crate::demo::place::{Job, Patience, Place};
use crate::demo::{Plan, Verdict, say};
use ixion_retry::{Delivery, RetryQueue, Store};
use std::io;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

/// What a worker does: it pushes what is missing of its share of the items, and delivers.
#[derive(Debug)]
pub(crate) struct Work {
    /// Whose items are those that are to be pushed by now.
    pub(crate) plan: Plan,
    pub(crate) place: Place,
    /// The first item that is missing, for each pusher.
    pub(crate) from: Vec<u64>,
    /// How many items a taker takes at once.
    pub(crate) batch: usize,
    /// Goes on until it is killed.
    pub(crate) stays: bool,
}

/// Threads that push. They are many because each waits for the disk, or for the server.
pub(super) const PUSHERS: usize = 32;
pub(super) const TAKERS: usize = 64;
const VISIBILITY: Duration = Duration::from_millis(500);
/// Of how many items one that lies tells one lie.
const LIE: u64 = 64;

/// What becomes of a delivery: of 16 items one fails at every attempt, one fails twice, one hangs once; the others are done.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Fate {
    Done,
    Fails,
    Hangs,
}

pub(super) fn fate(item: u64, seed: u64, attempt: u32) -> Fate {
    match (fastrand::Rng::with_seed(seed ^ item).u8(0..16), attempt) {
        (0, _) | (1, ..=2) => Fate::Fails,
        (2, 1) => Fate::Hangs,
        _ => Fate::Done,
    }
}

/// The worker's part. It returns when all items are done or dead.
pub(crate) fn work(work: &Work) -> Verdict {
    work.place.open(work.place.patience(), work)
}

impl Job for &Work {
    fn run<S: Store>(self, queue: &RetryQueue<S>, patience: Patience) -> Verdict {
        thread::scope(|scope| {
            let push = |from| self.push(queue, patience, from);
            let missing = self.from.iter().filter(|from| **from < self.plan.items);
            let pushers: Vec<_> = missing.map(|from| scope.spawn(move || push(*from))).collect();
            let takers = (0..TAKERS).map(|_| scope.spawn(|| self.take(queue, patience))).collect();
            let pushed = all(pushers).and_then(|()| self.wait(queue, patience));
            queue.close();
            pushed.and(all(takers))
        })
    }
}

impl Work {
    fn push<S: Store>(&self, queue: &RetryQueue<S>, patience: Patience, from: u64) -> Verdict {
        let step = self.plan.workers.unwrap_or(1) * PUSHERS;
        for item in (from..self.plan.items).step_by(step) {
            let id = patience.with(|| queue.push(&item.to_le_bytes(), Duration::ZERO))?;
            say(&format!("pushed {item} {id} 0\n"))?;
        }
        Ok(())
    }

    fn take<S: Store>(&self, queue: &RetryQueue<S>, patience: Patience) -> Verdict {
        loop {
            let taken =
                patience.with(|| queue.take_blocking(self.batch, VISIBILITY, Duration::from_secs(60)))?;
            if taken.is_empty() {
                return Ok(());
            }
            for Delivery { payload, receipt, .. } in taken {
                let item = item_of(&payload)?;
                let (id, attempt) = (receipt.id(), receipt.attempt());
                say(&format!("delivered {item} {id} {attempt}\n"))?;
                match fate(item, self.plan.seed, attempt) {
                    Fate::Hangs => {}
                    Fate::Fails => _ = patience.with(|| queue.nack(&receipt, "the demo lets it fail"))?,
                    Fate::Done => {
                        say(&format!("asked {item} {id} {attempt}\n"))?;
                        let is_lie = self.plan.lies && item % LIE == 0;
                        if is_lie || patience.with(|| queue.ack(&receipt))? {
                            say(&format!("done {item} {id} {attempt}\n"))?;
                        }
                    }
                }
            }
        }
    }

    /// Waits until there is nothing more to be done.
    fn wait<S: Store>(&self, queue: &RetryQueue<S>, patience: Patience) -> Verdict {
        if self.stays {
            // It ends with whoever would kill it.
            io::copy(&mut io::stdin(), &mut io::sink())?;
            return Ok(());
        }
        loop {
            let counts = patience.with(|| queue.counts())?;
            if counts.waiting + counts.in_flight == 0 {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(20));
        }
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

pub(super) fn item_of(payload: &[u8]) -> Result<u64, String> {
    let bytes =
        payload.try_into().map_err(|_| format!("a payload of {} bytes was not pushed", payload.len()))?;
    Ok(u64::from_le_bytes(bytes))
}
