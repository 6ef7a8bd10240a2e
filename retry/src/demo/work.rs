//! The worker's part of the demo.

use crate::demo::Plan;
use crate::demo::place::{Job, Patience, Place};
use crate::{Failure, say};
use ixion_retry::{Answer, Delivery, ItemId, RetryQueue, Store};
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

/// Of what something is said: an item, its name in the queue, and an attempt.
#[derive(Clone, Copy)]
struct Line(u64, ItemId, u32);

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
pub(crate) fn work(work: &Work) -> Result<(), Failure> {
    work.place.open(work.place.patience(), work)
}

impl Job for &Work {
    fn run<S: Store>(self, queue: &RetryQueue<S>, patience: Patience) -> Result<(), Failure> {
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
    fn push<S: Store>(&self, queue: &RetryQueue<S>, patience: Patience, from: u64) -> Result<(), Failure> {
        let mut missing = (from..self.plan.items).step_by(self.plan.workers.unwrap_or(1) * PUSHERS);
        loop {
            let items: Vec<u64> = missing.by_ref().take(self.batch).collect();
            if items.is_empty() {
                return Ok(());
            }
            let pushes: Vec<_> = items.iter().map(|item| (item.to_le_bytes(), Duration::ZERO)).collect();
            let ids = patience.with(|| queue.push_all(&pushes))?;
            let pushed: Vec<_> = items.into_iter().zip(ids).map(|(item, id)| Line(item, id, 0)).collect();
            say_all("pushed", &pushed)?;
        }
    }

    fn take<S: Store>(&self, queue: &RetryQueue<S>, patience: Patience) -> Result<(), Failure> {
        loop {
            let taken =
                patience.with(|| queue.take_blocking(self.batch, VISIBILITY, Duration::from_secs(60)))?;
            if taken.is_empty() {
                return Ok(());
            }
            let (mut delivered, mut done, mut lies) = (Vec::new(), Vec::new(), Vec::new());
            let (mut answers, mut failures) = (Vec::new(), Vec::new());
            for Delivery { payload, receipt, .. } in taken {
                let item = item_of(&payload)?;
                let line = Line(item, receipt.id(), receipt.attempt());
                delivered.push(line);
                match fate(item, self.plan.seed, receipt.attempt()) {
                    Fate::Hangs => {}
                    Fate::Fails => failures.push((receipt, Answer::Nack("the demo lets it fail".to_owned()))),
                    Fate::Done if self.plan.lies && item % LIE == 0 => lies.push(line),
                    Fate::Done => {
                        done.push(line);
                        answers.push((receipt, Answer::Ack));
                    }
                }
            }
            answers.append(&mut failures);
            say_all("delivered", &delivered)?;
            say_all("asked", &done)?;
            let mut counts = patience.with(|| queue.settle_all(answers.clone()))?.into_iter();
            done.retain(|_| counts.next() == Some(true));
            say_all("done", &done)?;
            say_all("done", &lies)?;
        }
    }

    /// Waits until there is nothing more to be done.
    fn wait<S: Store>(&self, queue: &RetryQueue<S>, patience: Patience) -> Result<(), Failure> {
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

/// Says the same of some.
fn say_all(word: &str, of: &[Line]) -> Result<(), Failure> {
    let lines: String =
        of.iter().map(|Line(item, id, attempt)| format!("{word} {item} {id} {attempt}\n")).collect();
    say(&lines)
}

/// Waits for threads that do the same, and returns the first of their errors.
fn all(threads: Vec<ScopedJoinHandle<'_, Result<(), Failure>>>) -> Result<(), Failure> {
    let ends: Vec<Result<(), Failure>> = threads
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
