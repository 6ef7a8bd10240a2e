//! A request about several things that is answered when each of them is decided.
//!
//! Produce, DeleteRecords, topics, elections of leaders and remote look-ups are all of this shape. The rules that they share:
//!
//! * **r1** A part for which the work has begun is pending, with the provisional error `REQUEST_TIMED_OUT`. One for which
//!   it could not begin has its error, and is never asked.
//! * **r2** A look asks the parts that are pending. What it decides sticks; later looks skip the part.
//! * **r3** The request is over when no part is pending.
//! * **r4** The answer gets every part. If the time was up, successes and errors are mixed with the provisional error of
//!   those that are still pending. What they wait for may still happen.
//! * **r5** At the end each part that is still pending is told so, before the answer.
//! * **r6** It waits on the keys of the parts that are pending; a part that waits for a number waits at that number.

use crate::{DelayedOperation, Outcome, Watch};

/// One part of a waiting request.
pub trait Part {
    /// What the part is about: a partition, a topic.
    type Subject;

    /// What the part is about.
    fn subject(&self) -> &Self::Subject;

    /// Whether it is still waited for.
    fn is_pending(&self) -> bool;

    /// Asks how things stand, and if that decides the part notes the result: it is pending no more. Called from looks,
    /// and only while the part is pending. Must not signal keys.
    fn look(&mut self);

    /// The number that the key's progress must reach before a look can decide the part, if there is one.
    fn required_progress(&self) -> Option<u64> {
        None
    }

    /// The request ends while the part is pending (r5): to cancel what it waits for, or to ask once more.
    fn end(&mut self, outcome: Outcome) {
        let _ = outcome;
    }
}

/// A request that waits until each of its parts is decided.
///
/// Ends by calling `answer`, without a lock, with the outcome and all parts.
#[derive(Debug)]
pub struct DelayedRequest<P, A> {
    parts: Vec<P>,
    answer: A,
}

impl<P: Part, A: FnOnce(Outcome, Vec<P>)> DelayedRequest<P, A> {
    /// Makes the operation of what has been begun.
    #[must_use]
    pub fn new(parts: Vec<P>, answer: A) -> Self {
        DelayedRequest { parts, answer }
    }

    /// Returns the parts, as far as they are decided.
    #[must_use]
    pub fn statuses(&self) -> &[P] {
        &self.parts
    }

    /// Returns what to wait on (r6), for
    /// [`try_complete_else_watch_at`](crate::Purgatory::try_complete_else_watch_at): for each part that is pending the key,
    /// if `key` makes one of what the part is about.
    ///
    /// Whoever raises a number, such as a partition's high watermark, tells it with
    /// [`check_and_complete_up_to`](crate::Purgatory::check_and_complete_up_to). An event that concerns all who wait there,
    /// such as the loss of a partition's leadership, has none:
    /// [`check_and_complete`](crate::Purgatory::check_and_complete).
    pub fn watches<K>(&self, key: impl Fn(&P::Subject) -> Option<K>) -> Vec<Watch<K>> {
        let pending = self.parts.iter().filter(|part| part.is_pending());
        let watch = |part: &P| {
            let key = key(part.subject())?;
            Some(match part.required_progress() {
                Some(required) => Watch::at(key, required),
                None => Watch::any(key),
            })
        };
        pending.filter_map(watch).collect()
    }
}

impl<P: Part, A: FnOnce(Outcome, Vec<P>)> DelayedOperation for DelayedRequest<P, A> {
    fn try_complete(&mut self) -> bool {
        for part in self.parts.iter_mut().filter(|part| part.is_pending()) {
            part.look(); // r2
        }
        self.parts.iter().all(|part| !part.is_pending()) // r3
    }

    fn on_complete(mut self, outcome: Outcome) {
        for part in self.parts.iter_mut().filter(|part| part.is_pending()) {
            part.end(outcome); // r5
        }
        (self.answer)(outcome, self.parts); // r4
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
