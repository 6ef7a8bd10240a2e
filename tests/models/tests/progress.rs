//! The races of watching at a number.
#![cfg(any(ixion_loom, ixion_shuttle))]

use ixion::{DelayedOperation, Outcome, Purgatory, Watch};
use ixion_models::checker::sync::atomic::{AtomicU64, Ordering};
use ixion_models::checker::thread::spawn;
use ixion_models::{End, model, of_shards};
use std::sync::Arc;
use std::time::Duration;

/// Waits for progress of two, and after a look at less waits at one more than it has seen.
struct Op {
    progress: Arc<AtomicU64>,
    seen: u64,
    end: Arc<End>,
}

impl DelayedOperation for Op {
    fn try_complete(&mut self) -> bool {
        self.seen = self.progress.load(Ordering::Relaxed);
        self.seen >= 2
    }

    fn next_progress(&self, _watch: usize) -> Option<u64> {
        Some(self.seen + 1)
    }

    fn on_complete(self, outcome: Outcome) {
        self.end.record(outcome);
    }
}

type Numbered = Arc<Purgatory<u32, Op>>;

fn numbered() -> (Numbered, Arc<AtomicU64>) {
    (Arc::new(of_shards(1)), Arc::new(AtomicU64::new(0)))
}

fn register(purgatory: &Numbered, progress: &Arc<AtomicU64>, end: &Arc<End>) {
    let op = Op { progress: Arc::clone(progress), seen: 0, end: Arc::clone(end) };
    let _ = purgatory.try_complete_else_watch_at(op, Duration::MAX, [Watch::at(1, 1)]).expect("open");
}

/// First the state, then the signal.
fn go_on(purgatory: &Numbered, progress: &AtomicU64, to: u64) {
    progress.fetch_max(to, Ordering::Relaxed);
    purgatory.check_and_complete_up_to(&1, to);
}

fn assert_ended(purgatory: &Numbered, end: &End) {
    // What a tired holder handed on.
    if purgatory.next_expiration().is_some() {
        let _ = purgatory.expire();
    }
    assert_eq!((end.calls(), end.outcome()), (1, Some(Outcome::Satisfied)));
    let stats = purgatory.stats();
    assert!(stats.balances() && (stats.watched, stats.keys) == (0, 0), "{stats:?}");
}

#[test]
fn an_event_between_a_look_and_waiting_at_a_higher_number() {
    model(2, || {
        let ((purgatory, progress), end) = (numbered(), End::new());
        register(&purgatory, &progress, &end);
        let other = {
            let (purgatory, progress) = (Arc::clone(&purgatory), Arc::clone(&progress));
            spawn(move || go_on(&purgatory, &progress, 1))
        };
        go_on(&purgatory, &progress, 2);
        other.join().unwrap();
        assert_ended(&purgatory, &end);
    });
}

#[test]
fn an_event_against_a_registration_at_a_number() {
    model(2, || {
        let ((purgatory, progress), end) = (numbered(), End::new());
        let other = {
            let (purgatory, progress) = (Arc::clone(&purgatory), Arc::clone(&progress));
            spawn(move || go_on(&purgatory, &progress, 2))
        };
        register(&purgatory, &progress, &end);
        other.join().unwrap();
        assert_ended(&purgatory, &end);
    });
}
