//! What the scenarios share: a driver that sleeps on a manual clock and a watchdog.

use crate::guarantees::support::Bench;
use crate::jobs::SOON;
use crate::uptime::{after, tick};
use ixion::{Expired, Tick, TimingWheel};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;

/// An event loop: it drives, and sleeps until the time that its last drive named, or until the purgatory wakes it.
/// A wake-up that is missed shows as an end that comes late or never.
pub(crate) struct Sleeper {
    pub(crate) bench: Bench,
    /// Set by the purgatory's hook for earlier deadlines.
    pub(crate) woken: Arc<AtomicBool>,
    until: Option<Tick>,
    /// How often it has woken up.
    pub(crate) wake_ups: usize,
}

impl Sleeper {
    /// Asleep for ever: nothing waits yet.
    pub(crate) fn new() -> Self {
        let woken = Arc::new(AtomicBool::new(false));
        let wake = Arc::clone(&woken);
        let bench =
            Bench::with(|builder| builder.on_earlier_deadline(move || wake.store(true, Ordering::SeqCst)));
        let (_, last) = bench.drive();
        Sleeper { bench, woken, until: last.next, wake_ups: 0 }
    }

    /// Wakes up, if there is a reason to, until there is none. Returns what ended, each at the time that it is now.
    pub(crate) fn come_round(&mut self) -> Vec<(u64, u32)> {
        let now = self.bench.clock.now();
        let before = self.wake_ups;
        while self.woken.swap(false, Ordering::SeqCst) || self.until.is_some_and(|until| until <= now) {
            self.wake_ups += 1;
            assert!(self.wake_ups - before < 100, "it spins at {now:?}");
            self.until = self.bench.drive().1.next;
        }
        self.bench.take_log().into_iter().map(|(number, _)| (after(now), number)).collect()
    }

    /// Lets this many milliseconds pass, one after the other, as the sleeper sees them. Returns what ended, and when.
    pub(crate) fn pass_time(&mut self, ms: u64) -> Vec<(u64, u32)> {
        let mut ended = self.come_round();
        for _ in 0..ms {
            self.bench.advance(1);
            ended.extend(self.come_round());
        }
        ended
    }
}

/// All that is due: deadlines and items, in order.
pub(crate) fn pop_all(wheel: &mut TimingWheel<u64>, now: u64) -> Vec<(u64, u64)> {
    let due = std::iter::from_fn(|| wheel.pop_expired(tick(now)));
    let all = due.map(|Expired { deadline, item, .. }| (after(deadline), item)).collect();
    wheel.check_invariants();
    all
}

/// Runs a test with threads, and fails where it would hang.
pub(crate) fn under_watch(run: impl FnOnce() + Send + 'static) {
    with_a_stack_of(2 << 20, run);
}

/// Runs a test on a stack of so many bytes, and fails where it would hang.
pub(crate) fn with_a_stack_of(bytes: usize, run: impl FnOnce() + Send + 'static) {
    let (end, ended) = channel::<()>();
    let test = thread::Builder::new().stack_size(bytes).spawn(move || {
        let _end = end;
        run();
    });
    // Disconnected: it is over, well or not.
    assert_eq!(ended.recv_timeout(SOON), Err(RecvTimeoutError::Disconnected), "it hangs");
    test.unwrap().join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// How often: less where the code is slow because it is checked.
pub(crate) const fn rounds(all: u32) -> u32 {
    if cfg!(debug_assertions) { all / 10 } else { all }
}

/// A second, in milliseconds.
pub(crate) const SECOND: u64 = 1000;
