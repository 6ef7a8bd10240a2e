//! A rebalance that waits until all members of a group have joined it, and the initial delay of one that has just begun
//! to have members.
//!
//! A JoinGroup request is not answered when it comes. The group is put into the state in which it takes members in, one
//! [`DelayedJoin`] is registered for the group, and its end answers all of them. The rules:
//!
//! * **j1** The wait is over when every known member awaits its answer, and every id that was handed out has been used.
//! * **j2** It is over at once when the group takes nobody in any more: it is dead, or another server coordinates it.
//! * **j3** The wait of a group that was empty is an *initial* one. Members do not end it, however many join, since
//!   more of them are about to; only j2 and its time do.
//! * **j4** An initial wait lasts as long as the configured delay. If its time is up and members came during it, it is
//!   not over: another one begins, of the delay again or of what is left of the rebalance timeout if that is less
//!   ([`InitialDelay`]). With nothing left, or if nobody came, it is over.
//! * **j5** It makes no difference whether the wait was satisfied or expired. The coordinator removes the members that
//!   have not joined, but for static ones, and then asks [`next_step`]: **j5a** dead: nothing; **j5b** nobody is
//!   left: the group is empty; **j5c** members are left but none of them has joined: it waits once more, for the whole
//!   rebalance timeout; **j5d** else the next generation begins, and its joins are answered.
//! * **j6** There is one such wait for a group at a time. Each join, each leave, each removal of a member and the group's
//!   end are signals on its key, given after the group's lock is released.

use crate::{DelayedOperation, Outcome};
use std::time::Duration;

/// What a waiting rebalance asks of its group: how it stands now.
///
/// Implemented by the coordinator; called from looks, so it must not signal keys.
pub trait JoinGroup {
    /// How the group stands at this moment, read under its lock.
    fn join_standing(&self) -> Standing;
}

/// How a group stands with regard to a rebalance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// It takes members in.
    Joining(Joining),
    /// It does not, and will not: it is dead, or another server coordinates it.
    Over,
}

/// The numbers of a group that takes members in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Joining {
    /// The known members.
    pub members: usize,
    /// Those of them whose JoinGroup request awaits its answer.
    pub joined: usize,
    /// Ids that were handed out and that nobody has joined with yet.
    pub pending: usize,
    /// How many members the group has ever taken in; never goes down.
    pub arrivals: u64,
}

/// Decides whether a rebalance that is not an initial one is over (j1, j2).
///
/// # Examples
///
/// ```
/// use ixion::kafka::join::{Joining, Standing, decide};
///
/// let group = |joined, pending| Standing::Joining(Joining { members: 3, joined, pending, arrivals: 3 });
/// assert!(!decide(group(2, 0)) && !decide(group(3, 1)));
/// assert!(decide(group(3, 0)) && decide(Standing::Over));
/// ```
#[must_use]
pub fn decide(standing: Standing) -> bool {
    match standing {
        Standing::Joining(group) => group.joined == group.members && group.pending == 0,
        Standing::Over => true,
    }
}

/// What comes after the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NextStep {
    /// Nothing: the group is gone.
    Nothing,
    /// The group has no members any more.
    Empty,
    /// There is nobody who could lead: another wait, for the rebalance timeout.
    WaitAgain,
    /// The next generation, of those who have joined.
    Generation,
}

/// Decides what comes after the wait, once the members that did not join are removed (j5).
///
/// # Examples
///
/// ```
/// use ixion::kafka::join::{Joining, NextStep, Standing, next_step};
///
/// let group = |members, joined| Standing::Joining(Joining { members, joined, pending: 0, arrivals: 3 });
/// assert_eq!(next_step(group(2, 2)), NextStep::Generation);
/// assert_eq!(next_step(group(1, 0)), NextStep::WaitAgain);
/// assert_eq!(next_step(group(0, 0)), NextStep::Empty);
/// ```
#[must_use]
pub fn next_step(standing: Standing) -> NextStep {
    match standing {
        Standing::Over => NextStep::Nothing,
        Standing::Joining(Joining { members: 0, .. }) => NextStep::Empty,
        Standing::Joining(Joining { joined: 0, .. }) => NextStep::WaitAgain,
        Standing::Joining(_) => NextStep::Generation,
    }
}

/// The delay of an initial rebalance: begun again while members come, up to the rebalance timeout (j4).
///
/// # Examples
///
/// ```
/// use ixion::kafka::join::InitialDelay;
/// use std::time::Duration;
///
/// // A delay of 3 s where members may take 5 s to join; one member is there.
/// let first = InitialDelay::new(Duration::from_secs(3), Duration::from_secs(5), 1);
/// assert_eq!(first.timeout(), Duration::from_secs(3));
/// assert_eq!(first.next(1), None, "nobody came");
/// let second = first.next(4).expect("three came");
/// assert_eq!(second.timeout(), Duration::from_secs(2));
/// assert_eq!(second.next(5), None, "all the time is used up");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InitialDelay {
    configured: Duration,
    timeout: Duration,
    left: Duration,
    arrivals: u64,
}

impl InitialDelay {
    /// Begins the first delay, with the member that is the last of so many `arrivals`. No delay is longer than the
    /// rebalance timeout.
    #[must_use]
    pub fn new(delay: Duration, rebalance_timeout: Duration, arrivals: u64) -> Self {
        let timeout = delay.min(rebalance_timeout);
        InitialDelay { configured: delay, timeout, left: rebalance_timeout.saturating_sub(timeout), arrivals }
    }

    /// Returns how long this delay lasts: the timeout of the operation.
    #[must_use]
    pub const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns the delay that follows this one, if by its end the group has taken in so many members.
    #[must_use]
    pub fn next(&self, arrivals: u64) -> Option<Self> {
        let goes_on = arrivals != self.arrivals && !self.left.is_zero();
        goes_on.then(|| InitialDelay::new(self.configured, self.left, arrivals))
    }
}

/// How a [`DelayedJoin`] ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JoinEnd {
    /// The initial delay begins again: register [`DelayedJoin::initial`] with it (j4).
    Again(InitialDelay),
    /// The wait is over: see [`next_step`].
    Over(Outcome),
}

/// A rebalance that waits for the members of its group.
///
/// Ends by calling `answer`, without a lock, with how it ended and the group. That takes the group's lock, does what
/// [`next_step`] says, releases it and answers.
///
/// # Examples
///
/// ```
/// use ixion::kafka::join::{DelayedJoin, JoinEnd, JoinGroup, Joining, NextStep, Standing, next_step};
/// use ixion::{ManualClock, Outcome, Purgatory};
/// use std::sync::{Arc, Mutex};
/// use std::time::Duration;
///
/// struct Group(Mutex<Joining>);
/// impl JoinGroup for Group {
///     fn join_standing(&self) -> Standing {
///         Standing::Joining(*self.0.lock().unwrap())
///     }
/// }
///
/// let purgatory = Purgatory::builder("Rebalance").clock(ManualClock::new()).build();
/// let group = Arc::new(Group(Mutex::new(Joining { members: 2, joined: 1, pending: 0, arrivals: 2 })));
/// let join = DelayedJoin::new(group.clone(), |end, group: Arc<Group>| {
///     assert_eq!(end, JoinEnd::Over(Outcome::Satisfied));
///     assert_eq!(next_step(group.join_standing()), NextStep::Generation);
/// });
/// let _ = purgatory.try_complete_else_watch(join, Duration::from_secs(60), ["group"])?;
///
/// group.0.lock().unwrap().joined = 2; // the last member joins,
/// assert_eq!(purgatory.check_and_complete("group"), 1); // and then the group is signalled
/// # Ok::<(), ixion::RejectReason>(())
/// ```
#[doc(alias = "InitialDelayedJoin")]
#[derive(Debug)]
pub struct DelayedJoin<G, A> {
    group: G,
    initial: Option<InitialDelay>,
    answer: A,
}

impl<G: JoinGroup, A: FnOnce(JoinEnd, G)> DelayedJoin<G, A> {
    /// Waits until all members have joined; its timeout is the group's rebalance timeout, the longest of its members'.
    #[must_use]
    pub fn new(group: G, answer: A) -> Self {
        DelayedJoin { group, initial: None, answer }
    }

    /// Waits for members to appear; its timeout is that of the delay.
    #[must_use]
    pub fn initial(group: G, delay: InitialDelay, answer: A) -> Self {
        DelayedJoin { group, initial: Some(delay), answer }
    }
}

impl<G: JoinGroup, A: FnOnce(JoinEnd, G)> DelayedOperation for DelayedJoin<G, A> {
    fn try_complete(&mut self) -> bool {
        match self.initial {
            Some(_) => self.group.join_standing() == Standing::Over, // j3
            None => decide(self.group.join_standing()),
        }
    }

    fn on_complete(self, outcome: Outcome) {
        let end = match self.initial {
            Some(delay) if outcome == Outcome::Expired => match self.group.join_standing() {
                Standing::Joining(group) => delay.next(group.arrivals),
                Standing::Over => None,
            },
            _ => None,
        };
        let end = end.map_or(JoinEnd::Over(outcome), JoinEnd::Again);
        (self.answer)(end, self.group);
    }
}

#[cfg(test)]
#[path = "join_tests.rs"]
mod tests;
