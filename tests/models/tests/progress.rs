//! The races of watching at a number. Whole engines do it too: see `engine`.
#![cfg(any(ixion_loom, ixion_shuttle))]

use ixion::{Cancelled, DelayedOperation, Outcome, Purgatory, Watch};
use ixion_models::checker::sync::atomic::{AtomicU64, Ordering};
use ixion_models::checker::thread::spawn;
use ixion_models::{End, bounded, model, of_shards};
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

/// Goes on with what a tired holder handed on.
fn catch_up<O: DelayedOperation + 'static>(purgatory: &Purgatory<u32, O>) {
    if purgatory.next_expiration().is_some() {
        let _ = purgatory.expire();
    }
}

fn assert_ended<O: DelayedOperation + 'static>(purgatory: &Purgatory<u32, O>, end: &End) {
    catch_up(purgatory);
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

/// Waits for a sum over two keys. After a look that says no, what is missing is divided among them: an event that gets less
/// far on its key cannot bring it about.
struct Sum {
    progress: [Arc<AtomicU64>; 2],
    seen: [u64; 2],
    end: Arc<End>,
}

const SUM: u64 = 3;

impl DelayedOperation for Sum {
    fn try_complete(&mut self) -> bool {
        self.seen = [0, 1].map(|key| self.progress[key].load(Ordering::Relaxed));
        self.seen.iter().sum::<u64>() >= SUM
    }

    fn next_progress(&self, watch: usize) -> Option<u64> {
        let missing = SUM - self.seen.iter().sum::<u64>();
        Some(self.seen[watch] + missing.div_ceil(2))
    }

    fn on_complete(self, outcome: Outcome) {
        self.end.record(outcome);
    }
}

/// What brings the first key to 2 lets it wait for 1 on the second, where it has waited for 2.
fn an_event_below_the_number_that_is_left(shards: usize) {
    model(2, move || {
        let (purgatory, end) = (Arc::new(of_shards::<Sum>(shards)), End::new());
        let progress = [0, 1].map(|_| Arc::new(AtomicU64::new(0)));
        let op = Sum { progress: progress.clone(), seen: [0; 2], end: Arc::clone(&end) };
        let watches = [Watch::at(1, 0), Watch::at(2, 0)];
        let _ = purgatory.try_complete_else_watch_at(op, Duration::MAX, watches).expect("open");
        let other = {
            let (purgatory, progress) = (Arc::clone(&purgatory), Arc::clone(&progress[1]));
            spawn(move || {
                progress.store(1, Ordering::Relaxed);
                purgatory.check_and_complete_up_to(&2, 1);
            })
        };
        progress[0].store(2, Ordering::Relaxed);
        purgatory.check_and_complete_up_to(&1, 2);
        other.join().unwrap();
        assert_ended(&purgatory, &end);
    });
}

#[test]
fn an_event_between_a_look_and_waiting_at_a_lower_number() {
    an_event_below_the_number_that_is_left(1);
}

#[test]
fn an_event_between_a_look_and_waiting_at_a_lower_number_in_another_shard() {
    an_event_below_the_number_that_is_left(2);
}

#[test]
fn an_operation_that_moves_against_an_expiry_and_a_cancellation() {
    bounded(2, || {
        let (purgatory, end) = (Arc::new(of_shards::<Sum>(2)), End::new());
        let progress = [0, 1].map(|_| Arc::new(AtomicU64::new(0)));
        let op = Sum { progress: progress.clone(), seen: [0; 2], end: Arc::clone(&end) };
        let watches = [Watch::at(1, 0), Watch::at(2, 0)];
        let registration = purgatory.try_complete_else_watch_at(op, Duration::ZERO, watches).expect("open");
        let id = registration.id().expect("waits");
        let event = {
            let (purgatory, progress) = (Arc::clone(&purgatory), Arc::clone(&progress[0]));
            spawn(move || {
                // It moves up on the first key and down on the second, and is not complete.
                progress.store(2, Ordering::Relaxed);
                purgatory.check_and_complete_up_to(&1, 2)
            })
        };
        let cancel = {
            let purgatory = Arc::clone(&purgatory);
            spawn(move || purgatory.cancel(id))
        };
        let expired = purgatory.expire().expired;
        assert_eq!(event.join().unwrap(), 0);
        let cancelled = cancel.join().unwrap();
        catch_up(&purgatory);
        assert_eq!(expired + usize::from(cancelled.is_cancelled()), 1, "exactly one decided it");
        let taken = usize::from(matches!(cancelled, Cancelled::Taken(_)));
        assert_eq!(end.calls(), 1 - taken);
        let stats = purgatory.stats();
        assert!(stats.balances() && (stats.pending, stats.watched, stats.keys) == (0, 0, 0), "{stats:?}");
    });
}

/// Waits for ever: where it is, or ten further after each look.
struct Onward {
    moves: bool,
    looks: Arc<AtomicU64>,
}

impl DelayedOperation for Onward {
    fn try_complete(&mut self) -> bool {
        self.looks.fetch_add(1, Ordering::Relaxed);
        false
    }

    fn next_progress(&self, _watch: usize) -> Option<u64> {
        self.moves.then(|| 10 * self.looks.load(Ordering::Relaxed))
    }

    fn on_complete(self, _outcome: Outcome) {}
}

#[test]
fn walks_look_once_each_at_what_rises_before_them() {
    bounded(2, || {
        let purgatory = Arc::new(of_shards::<Onward>(1));
        // The first waits at 20 then. A walk goes on beyond the second, where it would meet the first again.
        let [looks, _] = [(true, 0), (false, 25)].map(|(moves, at)| {
            let looks = Arc::new(AtomicU64::new(0));
            let op = Onward { moves, looks: Arc::clone(&looks) };
            let watches = [Watch::at(1, at)];
            let _ = purgatory.try_complete_else_watch_at(op, Duration::MAX, watches).expect("open");
            looks
        });
        let other = {
            let purgatory = Arc::clone(&purgatory);
            spawn(move || purgatory.check_and_complete_up_to(&1, 100))
        };
        purgatory.check_and_complete_up_to(&1, 100);
        other.join().unwrap();
        let looks = looks.load(Ordering::Relaxed);
        assert!(looks <= 4, "two by the registration, one by each event: not {looks}");
    });
}

#[test]
fn a_forced_completion_by_key_reaches_what_moves_meanwhile() {
    bounded(2, || {
        let (purgatory, ends) = (Arc::new(of_shards::<Sum>(1)), [0, 1].map(|_| End::new()));
        let progress = [0, 1].map(|_| Arc::new(AtomicU64::new(0)));
        for end in &ends {
            let op = Sum { progress: progress.clone(), seen: [0; 2], end: Arc::clone(end) };
            let watches = [Watch::at(1, 0), Watch::at(2, 0)];
            let _ = purgatory.try_complete_else_watch_at(op, Duration::MAX, watches).expect("open");
        }
        let other = {
            let (purgatory, progress) = (Arc::clone(&purgatory), Arc::clone(&progress[0]));
            spawn(move || {
                progress.store(2, Ordering::Relaxed);
                purgatory.check_and_complete_up_to(&1, 2);
            })
        };
        // On the second key they wait at 2, and at 1 from that event on.
        assert_eq!(purgatory.force_complete_for_key(&2), 2);
        other.join().unwrap();
        catch_up(&purgatory);
        let stats = purgatory.stats();
        assert!(stats.balances() && (stats.forced, stats.watched) == (2, 0), "{stats:?}");
        assert!(ends.iter().all(|end| (end.calls(), end.outcome()) == (1, Some(Outcome::Forced))));
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
