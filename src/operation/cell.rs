//! The cell round one waiting operation: it decides exactly once and lets nobody wait.
//!
//! One atomic word says everything: BUSY (a thread is inside and *holds* the operation), LOOK (somebody wants a
//! look), and the outcome. The first read-modify-write from none decides it; all others lose. Whoever holds
//! *acts*. Who wants something of an operation that another thread holds leaves it in the word and goes; the
//! holder finds it there at the latest when its compare-exchange to let go fails.
//!
//! The mutex round the body is there because safe Rust needs one: only the holder locks it, so it is never
//! contended. The cell knows nothing of keys, wheels or callbacks. Its races are written down in
//! [`design`](crate::design) and modelled in `tests/models`.

use crate::operation::Outcome;
use crate::sync::{AtomicU32, MODELLED, Mutex, MutexGuard, Ordering, planted};

/// Somebody holds the operation.
const BUSY: u32 = 1;
/// A look is wanted.
const LOOK: u32 = 2;
/// The outcome sits above the two flags; zero is none.
const OUTCOME_SHIFT: u32 = 2;

/// After so many rounds a holder that keeps being marked hands the operation on: a thread that signals a hot key
/// must come back some time. Sixteen looks cost about as much as one registration.
const MAX_ROUNDS: usize = if MODELLED { 2 } else { 16 };

/// One waiting operation, its decision, and what must be undone when it ends.
pub(crate) struct Cell<O, L> {
    word: AtomicU32,
    body: Mutex<Body<O, L>>,
}

struct Body<O, L> {
    /// `None` once the holder has acted.
    op: Option<O>,
    links: L,
}

/// What the holder alone may touch. `L`: the links to undo when the operation ends.
pub(crate) struct Held<'a, O, L>(MutexGuard<'a, Body<O, L>>);

impl<O, L: Default> Held<'_, O, L> {
    pub(crate) fn links(&mut self) -> &mut L {
        &mut self.0.links
    }

    /// Takes the operation and its links out, for good. It is decided, or was never shown to anyone.
    pub(crate) fn take(mut self) -> (O, L) {
        let op = self.0.op.take().expect("only the holder acts, and it acts once");
        (op, std::mem::take(&mut self.0.links))
    }
}

/// What a look said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Look {
    Met,
    NotMet,
    Panicked,
}

/// What came of an attempt to decide from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Decision {
    /// Decided, and the caller holds the operation: it must act.
    Held,
    /// Decided; the thread that is inside will act.
    Left,
    /// Decided before, by somebody else.
    Lost,
}

/// How a spell of holding went.
#[must_use]
pub(crate) enum Spell<'a, O, L> {
    /// The condition is not met and nothing is owed: the operation waits on.
    LetGo,
    /// Decided: the caller still holds it and must act. `mine`: by a look of this spell.
    Decided { outcome: Outcome, mine: bool, held: Held<'a, O, L> },
    /// Marked again and again: the caller still holds it and must hand it on.
    Tired,
}

impl<O, L: Default> Cell<O, L> {
    /// Makes a cell that the caller holds.
    pub(crate) fn held(op: O) -> Self {
        Cell { word: AtomicU32::new(BUSY), body: Mutex::new(Body { op: Some(op), links: L::default() }) }
    }

    /// What the cell keeps. The caller holds the operation, so this never waits.
    pub(crate) fn lock(&self) -> Held<'_, O, L> {
        Held(self.body.lock())
    }

    /// Asks for a look. True: nobody was inside, so the caller holds the operation now, and owes it this look.
    pub(crate) fn mark(&self) -> bool {
        if planted("mark-plain") {
            let word = self.word.load(Ordering::Acquire);
            self.word.store(word | BUSY | LOOK, Ordering::Release);
            return word & BUSY == 0;
        }
        // Nearly always it is free. Acquire: of what the last holder wrote.
        if self.word.compare_exchange(0, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return true;
        }
        // Release: the state that the caller changed before it came is seen by the look that this asks for; the claim in
        // `hold` acquires it. A read-modify-write, so that no mark of another thread and no decision is overwritten.
        if self.word.fetch_or(BUSY | LOOK, Ordering::AcqRel) & BUSY != 0 {
            return false;
        }
        // The holder has let go between the two. The mark is the look that the caller owes now, not one more. Acquire: of
        // what those who have marked meanwhile have published, since that look is theirs too.
        self.word.fetch_and(!LOOK, Ordering::Acquire);
        true
    }

    /// Asks for another look at an operation that the caller holds.
    pub(crate) fn mark_own(&self) {
        self.word.fetch_or(LOOK, Ordering::Relaxed);
    }

    /// Decides the outcome, if none is decided yet.
    pub(crate) fn decide(&self, outcome: Outcome) -> Decision {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if outcome_of(word).is_some() {
                return Decision::Lost;
            }
            if planted("decide-plain") {
                self.word.store(word | BUSY | bits(outcome), Ordering::Release);
                return if word & BUSY == 0 { Decision::Held } else { Decision::Left };
            }
            // Acquire: the hold, where it is taken. Release: whatever the decider did before is seen by the holder.
            match self.word.compare_exchange(
                word,
                word | BUSY | bits(outcome),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) if word & BUSY == 0 => return Decision::Held,
                Ok(_) => return Decision::Left,
                Err(now) => word = now,
            }
        }
    }

    /// Looks as long as looks are wanted, and once if one is `owed`. The caller holds the operation; see [`Spell`] for what
    /// it holds after.
    pub(crate) fn hold<'a>(
        &'a self,
        mut held: Held<'a, O, L>,
        mut owed: bool,
        mut look: impl FnMut(&mut O, &L) -> Look,
    ) -> Spell<'a, O, L> {
        // No look begins after a decision.
        owed &= self.outcome().is_none();
        for _ in 0..MAX_ROUNDS {
            // 1. Claim the look. Acquire: of the hold, and of the state that every marker published. It is claimed
            //    before the look, so that a mark that comes during the look asks for another one.
            if !owed {
                let word = self.word.fetch_and(!LOOK, Ordering::Acquire);
                if let Some(outcome) = outcome_of(word) {
                    return Spell::Decided { outcome, mine: false, held };
                }
                owed = word & LOOK != 0;
            }
            // 2. Look.
            if owed {
                let Body { op, links } = &mut *held.0;
                let op = op.as_mut().expect("a held operation that is not decided is still in its cell");
                match look(op, links) {
                    Look::Met => return self.settle(Outcome::Satisfied, held),
                    Look::Panicked => return self.settle(Outcome::Panicked, held),
                    Look::NotMet => owed = false,
                }
            }
            // 3. Let go, unless something has come meanwhile. Release: what the look wrote is seen by the next holder,
            //    which finds the mutex free.
            drop(held);
            if planted("let-go-plain") {
                self.word.store(0, Ordering::Release);
                return Spell::LetGo;
            }
            if self.word.compare_exchange(BUSY, 0, Ordering::Release, Ordering::Relaxed).is_ok() {
                return Spell::LetGo;
            }
            held = self.lock();
        }
        Spell::Tired
    }

    /// Decides an operation that the caller holds; an earlier decision stands.
    fn settle<'a>(&self, outcome: Outcome, held: Held<'a, O, L>) -> Spell<'a, O, L> {
        match self.decide(outcome) {
            Decision::Left => Spell::Decided { outcome, mine: true, held },
            Decision::Lost => {
                let decided = self.outcome().expect("a lost decision was made by somebody");
                Spell::Decided { outcome: decided, mine: false, held }
            }
            Decision::Held => unreachable!("the caller of settle holds the operation"),
        }
    }

    /// Returns the outcome, if it is decided.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        outcome_of(self.word.load(Ordering::Acquire))
    }

    /// Does what only the holder may, holding nothing: for a planted bug.
    pub(crate) fn meddle(&self, run: impl FnOnce(&mut O, &L)) {
        let Body { op, links } = &mut *self.body.lock();
        if let Some(op) = op {
            run(op, links);
        }
    }
}

fn bits(outcome: Outcome) -> u32 {
    let number = match outcome {
        Outcome::Satisfied => 1,
        Outcome::Expired => 2,
        Outcome::Forced => 3,
        Outcome::Cancelled => 4,
        Outcome::Shutdown => 5,
        Outcome::Panicked => 6,
    };
    number << OUTCOME_SHIFT
}

fn outcome_of(word: u32) -> Option<Outcome> {
    match word >> OUTCOME_SHIFT {
        0 => None,
        1 => Some(Outcome::Satisfied),
        2 => Some(Outcome::Expired),
        3 => Some(Outcome::Forced),
        4 => Some(Outcome::Cancelled),
        5 => Some(Outcome::Shutdown),
        _ => Some(Outcome::Panicked),
    }
}

#[cfg(all(test, not(any(ixion_loom, ixion_shuttle))))]
mod tests {
    use super::*;

    const ALL: [Outcome; 6] = [
        Outcome::Satisfied,
        Outcome::Expired,
        Outcome::Forced,
        Outcome::Cancelled,
        Outcome::Shutdown,
        Outcome::Panicked,
    ];

    fn cell(op: u32) -> Cell<u32, ()> {
        Cell::held(op)
    }

    #[test]
    fn every_outcome_survives_the_word() {
        for outcome in ALL {
            assert_eq!(outcome_of(bits(outcome) | BUSY | LOOK), Some(outcome));
        }
        assert_eq!(outcome_of(BUSY | LOOK), None);
    }

    #[test]
    fn the_first_decision_stands() {
        for first in ALL {
            for second in ALL {
                let cell = cell(0);
                assert_eq!(cell.decide(first), Decision::Left);
                assert_eq!(cell.decide(second), Decision::Lost);
                assert_eq!(cell.outcome(), Some(first));
            }
        }
    }

    /// A spell without what is still held: that is let go of.
    #[derive(PartialEq, Debug)]
    enum Ended {
        LetGo,
        Decided(Outcome, bool),
        Tired,
    }

    fn hold(cell: &Cell<u32, ()>, owed: bool, mut look: impl FnMut() -> Look) -> Ended {
        match cell.hold(cell.lock(), owed, |_, ()| look()) {
            Spell::LetGo => Ended::LetGo,
            Spell::Decided { outcome, mine, .. } => Ended::Decided(outcome, mine),
            Spell::Tired => Ended::Tired,
        }
    }

    #[test]
    fn whoever_marks_a_free_operation_holds_it_and_owes_it_a_look() {
        let cell = cell(0);
        assert_eq!(hold(&cell, false, || unreachable!("nobody asked for a look")), Ended::LetGo);
        assert!(cell.mark());
        assert!(!cell.mark(), "somebody is inside");
        assert!(!cell.mark());
        let mut looks = 0;
        let spell = hold(&cell, true, || {
            looks += 1;
            Look::NotMet
        });
        assert_eq!((spell, looks), (Ended::LetGo, 2), "two marks before the claim are one look");
    }

    #[test]
    fn a_mark_left_during_a_look_is_looked_at_before_letting_go() {
        let cell = cell(0);
        let mut looks = 0;
        let spell = hold(&cell, true, || {
            looks += 1;
            if looks == 1 {
                assert!(!cell.mark());
            }
            Look::NotMet
        });
        assert_eq!((spell, looks), (Ended::LetGo, 2));
    }

    #[test]
    fn a_look_that_is_owed_does_not_begin_after_a_decision() {
        let cell = cell(0);
        assert_eq!(cell.decide(Outcome::Forced), Decision::Left);
        let spell = hold(&cell, true, || unreachable!("it is decided"));
        assert_eq!(spell, Ended::Decided(Outcome::Forced, false));
    }

    #[test]
    fn a_decision_left_during_a_look_beats_its_answer() {
        for outcome in ALL {
            for answer in [Look::Met, Look::NotMet, Look::Panicked] {
                let cell = cell(7);
                let spell = hold(&cell, true, || {
                    assert_eq!(cell.decide(outcome), Decision::Left);
                    answer
                });
                assert_eq!(spell, Ended::Decided(outcome, false));
                assert_eq!(cell.lock().take().0, 7);
            }
        }
    }

    #[test]
    fn a_holder_that_keeps_being_marked_is_let_off_after_a_bounded_number_of_rounds() {
        let cell = cell(0);
        let mut looks = 0;
        let spell = hold(&cell, true, || {
            looks += 1;
            cell.mark();
            Look::NotMet
        });
        assert_eq!((spell, looks), (Ended::Tired, MAX_ROUNDS));
        assert_eq!(cell.decide(Outcome::Expired), Decision::Left, "it is still held");
    }
}
