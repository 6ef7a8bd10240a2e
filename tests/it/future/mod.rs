//! Waiting as a future: what it promises to the task, and what it leaves in the purgatory.

mod ends;
mod runtimes;
mod waits;
mod wakers;

use crate::uptime::clock;
use ixion::{ManualClock, Purgatory, Resolution, Waiting};
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const NEVER: Duration = Duration::MAX;

type Waits = Purgatory<u32, Waiting>;

fn waits() -> (ManualClock, Waits) {
    let clock = clock(Resolution::MILLISECOND);
    let purgatory = Purgatory::builder("waits").clock(clock.clone()).hash_seed(1).build();
    (clock, purgatory)
}

/// A task that counts how often it was woken.
#[derive(Default)]
struct Task(AtomicUsize);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Task {
    fn new() -> Arc<Task> {
        Arc::default()
    }

    fn woken(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// Polls a future once, as a part of this task.
fn poll<F: Future + Unpin>(task: &Arc<Task>, future: &mut F) -> Poll<F::Output> {
    poll_with(&Waker::from(Arc::clone(task)), future)
}

fn poll_with<F: Future + Unpin>(waker: &Waker, future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

/// A look that says yes once the cell is set.
fn set(cell: &Cell<bool>) -> impl FnMut() -> Option<&'static str> {
    || cell.get().then_some("set")
}

/// Nobody waits, and the books balance.
fn assert_nothing_is_kept(purgatory: &Waits) {
    let stats = purgatory.stats();
    assert!(stats.balances(), "{stats:?}");
    assert_eq!((stats.pending, stats.watched, stats.keys), (0, 0, 0), "{stats:?}");
}
