//! The rules r1 to r6 that all requests of several parts share, with parts made by hand.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use super::*;
use crate::{ManualClock, Purgatory};

/// What a part waits for, and how often it was asked and ended.
#[derive(Default)]
struct Subject {
    is_done: Cell<bool>,
    looks: Cell<u32>,
    ends: RefCell<Vec<Outcome>>,
}

struct Hand {
    subject: Rc<Subject>,
    pending: bool,
    required: Option<u64>,
}

impl Part for Hand {
    type Subject = Rc<Subject>;

    fn subject(&self) -> &Rc<Subject> {
        &self.subject
    }

    fn is_pending(&self) -> bool {
        self.pending
    }

    fn look(&mut self) {
        assert!(self.pending, "only what is pending is asked");
        self.subject.looks.set(self.subject.looks.get() + 1);
        self.pending = !self.subject.is_done.get();
    }

    fn required_progress(&self) -> Option<u64> {
        self.required
    }

    fn end(&mut self, outcome: Outcome) {
        assert!(self.pending, "only what is pending is told of the end");
        self.subject.ends.borrow_mut().push(outcome);
    }
}

type Answer = Rc<RefCell<Option<(Outcome, Vec<bool>)>>>;
type Request = DelayedRequest<Hand, Box<dyn FnOnce(Outcome, Vec<Hand>)>>;

fn request(pending: [bool; 3]) -> (Request, [Rc<Subject>; 3], Answer) {
    let subjects: [Rc<Subject>; 3] = Default::default();
    let parts = subjects.iter().zip(pending);
    let parts = parts.map(|(subject, pending)| Hand { subject: Rc::clone(subject), pending, required: None });
    let answer = Answer::default();
    let (slot, told) = (Rc::clone(&answer), subjects.clone());
    let end = move |outcome, parts: Vec<Hand>| {
        let pending = parts.iter().map(|part| part.pending).collect();
        assert_eq!(
            told.iter().map(|subject| subject.ends.borrow().len()).sum::<usize>(),
            parts.iter().filter(|part| part.pending).count(),
            "who is pending was told before the answer"
        );
        *slot.borrow_mut() = Some((outcome, pending));
    };
    (DelayedRequest::new(parts.collect(), Box::new(end)), subjects, answer)
}

#[test]
fn a_part_that_was_decided_from_the_beginning_is_never_asked() {
    // r1
    let (mut op, subjects, _) = request([true, false, true]);
    assert!(!op.try_complete());
    assert_eq!(subjects.map(|subject| subject.looks.get()), [1, 0, 1]);
}

#[test]
fn a_part_that_a_look_decides_is_not_asked_again() {
    // r2
    let (mut op, subjects, _) = request([true, true, true]);
    subjects[1].is_done.set(true);
    assert!(!op.try_complete());
    subjects[1].is_done.set(false);
    assert!(!op.try_complete());
    assert_eq!(op.statuses().iter().map(|part| part.pending).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(subjects.map(|subject| subject.looks.get()), [2, 1, 2]);
}

#[test]
fn a_request_is_over_when_none_of_its_parts_is_pending() {
    // r3
    let (mut op, subjects, answer) = request([true, true, false]);
    subjects[0].is_done.set(true);
    assert!(!op.try_complete());
    subjects[1].is_done.set(true);
    assert!(op.try_complete());
    op.on_complete(Outcome::Satisfied);
    assert_eq!(answer.take(), Some((Outcome::Satisfied, vec![false; 3])));
    assert!(subjects.iter().all(|subject| subject.ends.borrow().is_empty()));
    let (mut op, ..) = request([false; 3]);
    assert!(op.try_complete(), "nothing was begun");
    assert!(DelayedRequest::new(Vec::<Hand>::new(), |_, _| {}).try_complete(), "nothing was asked for");
}

#[test]
fn an_answer_holds_all_parts_and_those_still_pending_were_told_before() {
    // r4 and r5
    for outcome in [Outcome::Expired, Outcome::Forced, Outcome::Shutdown] {
        let (mut op, subjects, answer) = request([true, false, true]);
        subjects[0].is_done.set(true);
        assert!(!op.try_complete());
        op.on_complete(outcome);
        assert_eq!(answer.take(), Some((outcome, vec![false, false, true])));
        assert_eq!(subjects.map(|subject| subject.ends.take()), [vec![], vec![], vec![outcome]]);
    }
}

#[test]
fn a_request_waits_on_the_keys_of_what_is_pending_at_a_number_if_there_is_one() {
    // r6
    let (mut op, subjects, answer) = request([true, false, true]);
    op.parts[0].required = Some(7);
    let key = |subject: &Rc<Subject>| subjects.iter().position(|other| Rc::ptr_eq(subject, other));
    let watches = op.watches(key);
    assert_eq!(watches, [Watch::at(0, 7), Watch::any(2)]);
    assert_eq!(op.watches(|_| None::<u8>), []);
    let purgatory: Purgatory<usize, Request> =
        Purgatory::builder("requests").clock(ManualClock::new()).build();
    let _ = purgatory.try_complete_else_watch_at(op, Duration::MAX, watches).expect("it is open");
    let looks = || subjects.each_ref().map(|subject| subject.looks.get());
    let before = looks();
    assert_eq!(purgatory.check_and_complete_up_to(&0, 6), 0);
    assert_eq!(purgatory.check_and_complete(&1), 0);
    assert_eq!(looks(), before, "6 is not 7, and nothing is pending at 1");
    for subject in &subjects {
        subject.is_done.set(true);
    }
    assert_eq!(purgatory.check_and_complete(&2), 1);
    assert_eq!(answer.take(), Some((Outcome::Satisfied, vec![false; 3])));
    assert_eq!(purgatory.watched(), 0);
}
