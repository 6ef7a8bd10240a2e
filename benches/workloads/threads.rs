//! Two threads that replace timers of their own, all in one timer that they share.

use crate::rivals::shared::{Lane, Shared};
use crate::support::{Delays, Payload, Random, Stopwatch};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

const THREADS: usize = 2;

/// Starts `n` timers, and replaces `pairs` of them; what one pair takes, both threads together.
///
/// # Panics
///
/// If hardly any of them still waits when it is stopped.
#[must_use]
pub fn two_threads<S: Shared>(n: usize, pairs: usize) -> f64 {
    let shared = S::new();
    let (took, stopped) = thread::scope(|scope| {
        let shared = &shared;
        let start = |number| {
            let ((go, may_go), (ready, is_ready)) = (channel(), channel());
            let gate = Gate { ready, may_go };
            let work = move || replace(shared, &gate, number, n / THREADS, pairs / THREADS);
            (scope.spawn(work), go, is_ready)
        };
        let threads: Vec<_> = (0..THREADS as u64).map(start).collect();
        let await_all = || threads.iter().for_each(|(_, _, is_ready)| is_ready.recv().expect("it goes on"));
        let release_all = || threads.iter().for_each(|(_, go, _)| go.send(()).expect("it waits"));
        await_all();
        shared.settle();
        release_all();
        await_all();
        let settling = Stopwatch::start();
        shared.settle();
        let settling = settling.elapsed();
        release_all();
        let done = threads.into_iter().map(|it| it.0.join().expect("it does not panic"));
        // The slower one counts, and what was left to do after it.
        done.fold((Duration::ZERO, 0), |(took, stopped), it| (took.max(it.0 + settling), stopped + it.1))
    });
    assert!(stopped > pairs / 10, "only {stopped} of {pairs} still waited when they were stopped");
    took.as_nanos() as f64 / pairs as f64
}

/// Where a thread says that it has come so far, and waits for the word. If either end is gone, it panics.
struct Gate {
    ready: Sender<()>,
    may_go: Receiver<()>,
}

impl Gate {
    fn pass(&self) {
        self.ready.send(()).expect("somebody waits for it");
        self.may_go.recv().expect("somebody says so");
    }
}

/// What one thread does. Returns what its pairs took, and how many of its timers it was in time to stop.
fn replace<S: Shared>(shared: &S, gate: &Gate, number: u64, n: usize, pairs: usize) -> (Duration, usize) {
    let (mut lane, mut delays, mut random) = (shared.lane(), Delays::uniform(), Random::new(1 + number));
    let mut delay = || Duration::from_millis(delays.next());
    let mut ids: Vec<_> = (0..n).map(|j| Some(lane.start(delay(), Payload::new(j as u32)))).collect();
    gate.pass();
    let (watch, mut stopped) = (Stopwatch::start(), 0);
    for _ in 0..pairs {
        let j = random.below(n);
        stopped += usize::from(lane.stop(ids[j].take().expect("it was started")));
        ids[j] = Some(lane.start(delay(), Payload::new(j as u32)));
    }
    let took = watch.elapsed();
    gate.pass();
    for id in ids.into_iter().flatten() {
        lane.stop(id);
    }
    (took, stopped)
}
