//! The session of a group's member, which ends when nothing was heard of it for too long.
//!
//! Kafka keeps a session as a row of operations: each heartbeat completes the one that waits and arms the next. Here a
//! session is one operation, and a heartbeat moves its deadline. That takes a sixth of the instructions, and leaves no
//! moment at which a member has no session or two. The rules:
//!
//! * **h1** A member has one session: one operation, from the moment at which its id is handed out or it joins until it is
//!   removed. An id that is handed out has one before anybody has joined with it, and the member that does keeps it.
//! * **h2** Whatever is heard of a member, heartbeat, join, sync or commit, moves the deadline with
//!   [`reset_timeout`](crate::Purgatory::reset_timeout) to what the member's [`Phase`] says. This runs no look and no
//!   callback, so it may be done under the group's lock.
//!   **h2a** The session itself begins after that lock is released, since registering looks. Once its id is stored, the
//!   deadline is set once more to what the phase says by then: what was heard before could not move it.
//! * **h3** If that answers no, the session is over and the member about to be removed: its request is answered with
//!   `UNKNOWN_MEMBER_ID`. Of a heartbeat and an expiry at the same moment exactly one has its way.
//! * **h4** A member that waits for the answer to its join or sync cannot send heartbeats: its session is paused. **h4a** One
//!   that joins for the first time has [`NEW_MEMBER_TIMEOUT`], since its client may be gone and back under another id.
//! * **h5** The session of a member that is removed, or whose group is dead, is over as soon as its key is signalled, and
//!   nothing else happens.
//! * **h6** When the time of a session is up, the member is removed and the group is rebalanced. The answer runs without a
//!   lock, so the member may have left since: it takes the group's lock and asks for it first.

use crate::{DelayedOperation, Outcome};
use std::time::Duration;

/// How long a member may wait for its first rebalance to end (h4a).
pub const NEW_MEMBER_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// What a session asks of its member. Implemented by the coordinator; called from looks, so it must not signal keys.
pub trait SessionMember {
    /// Whether the member has been removed or its group is dead, read under the group's lock (h5).
    fn is_gone(&self) -> bool;
}

/// What a member is about, as far as its session is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Its id was handed out, and it has not joined yet.
    Pending,
    /// It has joined for the first time and waits for the answer.
    New,
    /// It waits for the answer to another join, or to a sync.
    Parked,
    /// It is expected to send heartbeats.
    Live,
}

impl Phase {
    /// Returns how long nothing may be heard of such a member; [`Duration::MAX`] is for ever (h2, h4).
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::kafka::heartbeat::{NEW_MEMBER_TIMEOUT, Phase};
    /// use std::time::Duration;
    ///
    /// let session = Duration::from_secs(45);
    /// assert_eq!(Phase::Live.timeout(session), session);
    /// assert_eq!(Phase::New.timeout(session), NEW_MEMBER_TIMEOUT);
    /// assert_eq!(Phase::Parked.timeout(session), Duration::MAX); // it waits for an answer, and owes none
    /// ```
    #[must_use]
    pub const fn timeout(self, session_timeout: Duration) -> Duration {
        match self {
            Phase::Pending | Phase::Live => session_timeout,
            Phase::New => NEW_MEMBER_TIMEOUT,
            Phase::Parked => Duration::MAX,
        }
    }
}

/// The session of a member.
///
/// Ends by calling `answer`, without a lock, with the outcome and the member.
///
/// # Examples
///
/// ```
/// use ixion::kafka::heartbeat::{DelayedHeartbeat, Phase, SessionMember};
/// use ixion::{ManualClock, Outcome, Purgatory};
/// use std::collections::HashSet;
/// use std::sync::{Arc, Mutex};
/// use std::time::Duration;
///
/// #[derive(Clone)]
/// struct Member { group: Arc<Mutex<HashSet<&'static str>>>, name: &'static str }
/// impl SessionMember for Member {
///     fn is_gone(&self) -> bool {
///         !self.group.lock().unwrap().contains(self.name)
///     }
/// }
///
/// let clock = ManualClock::new();
/// let purgatory = Purgatory::builder("Heartbeat").clock(clock.clone()).build();
/// let session_timeout = Duration::from_secs(10);
///
/// let member = Member { group: Arc::default(), name: "consumer-1" };
/// member.group.lock().unwrap().insert(member.name);
/// let session = DelayedHeartbeat::new(member.clone(), |outcome, member: Member| {
///     if outcome == Outcome::Expired {
///         member.group.lock().unwrap().remove(member.name); // and rebalance
///     }
/// });
/// let timeout = Phase::Live.timeout(session_timeout);
/// let registration = purgatory.try_complete_else_watch(session, timeout, [member.name])?;
/// let session = registration.id().expect("the member is there");
///
/// clock.advance(Duration::from_secs(9));
/// assert!(purgatory.reset_timeout(session, timeout), "a heartbeat");
/// clock.advance(Duration::from_secs(9));
/// assert_eq!(purgatory.expire().expired, 0);
/// clock.advance(Duration::from_secs(1));
/// assert_eq!(purgatory.expire().expired, 1);
/// assert!(member.is_gone());
/// assert!(!purgatory.reset_timeout(session, timeout), "a heartbeat that comes too late");
/// # Ok::<(), ixion::RejectReason>(())
/// ```
#[derive(Debug)]
pub struct DelayedHeartbeat<M, A> {
    member: M,
    answer: A,
}

impl<M: SessionMember, A: FnOnce(Outcome, M)> DelayedHeartbeat<M, A> {
    /// Begins the session of a member that the group knows; its timeout is that of the member's [`Phase`].
    #[must_use]
    pub fn new(member: M, answer: A) -> Self {
        DelayedHeartbeat { member, answer }
    }
}

impl<M: SessionMember, A: FnOnce(Outcome, M)> DelayedOperation for DelayedHeartbeat<M, A> {
    fn try_complete(&mut self) -> bool {
        self.member.is_gone()
    }

    fn on_complete(self, outcome: Outcome) {
        (self.answer)(outcome, self.member);
    }
}

#[cfg(test)]
#[path = "heartbeat_tests.rs"]
mod tests;
