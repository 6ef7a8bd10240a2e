//! A generation that waits until all of its members have sent their SyncGroup requests.
//!
//! The requests themselves are answered when the leader's comes, with the assignment that it holds. This wait is there for
//! those who never send one: who has joined and does not sync is removed. The rules:
//!
//! * **s1** The wait is registered when a generation begins, and lasts for the group's rebalance timeout.
//! * **s2** It is over when every member of the generation has sent its SyncGroup request.
//! * **s3** It is void when the group has begun another generation or another rebalance, has no members, or is dead. What
//!   comes then has waits of its own.
//! * **s4** A satisfied or a void wait needs no action.
//! * **s5** When its time is up the members that have not synced are removed, and the group is rebalanced. The answer
//!   runs without a lock, so a request may have come since: it takes the group's lock and asks [`must_expel`] first.
//! * **s6** Each SyncGroup, each removal of a member and each new rebalance is a signal on the group's key, given after the
//!   group's lock is released. Heartbeats have a purgatory or a key of their own: they must not end this wait.

use crate::{DelayedOperation, Outcome};

/// What the wait for syncs asks of its group: how it stands now.
///
/// Implemented by the coordinator; called from looks, so it must not signal keys.
pub trait SyncGroup {
    /// How the group stands at this moment, read under its lock.
    fn sync_standing(&self) -> Standing;
}

/// How a group stands with regard to syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// A generation has begun. The leader's assignment may be there or not.
    Generation {
        /// Its number.
        id: i32,
        /// The members that have not sent their SyncGroup requests.
        unsynced: usize,
    },
    /// There is none: the group takes members in, has none, or is dead.
    NoGeneration,
}

/// Decides whether the wait of a generation is over (s2, s3).
///
/// # Examples
///
/// ```
/// use ixion::kafka::sync::{Standing, decide};
///
/// assert!(!decide(Standing::Generation { id: 7, unsynced: 1 }, 7));
/// assert!(decide(Standing::Generation { id: 7, unsynced: 0 }, 7));
/// assert!(decide(Standing::Generation { id: 8, unsynced: 1 }, 7)); // another one has begun
/// ```
#[must_use]
pub fn decide(standing: Standing, generation: i32) -> bool {
    match standing {
        Standing::Generation { id, unsynced } => id != generation || unsynced == 0,
        Standing::NoGeneration => true,
    }
}

/// Decides, under the group's lock, whether a wait that has ended like this leaves members to be removed (s4, s5).
///
/// # Examples
///
/// ```
/// use ixion::Outcome;
/// use ixion::kafka::sync::{Standing, must_expel};
///
/// let standing = Standing::Generation { id: 7, unsynced: 1 };
/// assert!(must_expel(Outcome::Expired, standing, 7));
/// assert!(!must_expel(Outcome::Shutdown, standing, 7) && !must_expel(Outcome::Expired, standing, 6));
/// ```
#[must_use]
pub fn must_expel(outcome: Outcome, standing: Standing, generation: i32) -> bool {
    outcome == Outcome::Expired && !decide(standing, generation)
}

/// A generation that waits for the SyncGroup requests of its members.
///
/// Ends by calling `answer`, without a lock, with the outcome and the group.
///
/// # Examples
///
/// ```
/// use ixion::kafka::sync::{DelayedSync, Standing, SyncGroup, must_expel};
/// use ixion::{ManualClock, Purgatory};
/// use std::sync::{Arc, Mutex};
/// use std::time::Duration;
///
/// struct Group(Mutex<Standing>);
/// impl SyncGroup for Group {
///     fn sync_standing(&self) -> Standing {
///         *self.0.lock().unwrap()
///     }
/// }
///
/// let clock = ManualClock::new();
/// let purgatory = Purgatory::builder("Sync").clock(clock.clone()).build();
/// let group = Arc::new(Group(Mutex::new(Standing::Generation { id: 7, unsynced: 1 })));
/// let sync = DelayedSync::new(group.clone(), 7, |outcome, group: Arc<Group>| {
///     let mut standing = group.0.lock().unwrap();
///     if must_expel(outcome, *standing, 7) {
///         *standing = Standing::NoGeneration; // remove who has not synced, and rebalance
///     }
/// });
/// let _ = purgatory.try_complete_else_watch(sync, Duration::from_secs(60), ["group"])?;
///
/// clock.advance(Duration::from_secs(60));
/// assert_eq!(purgatory.expire().expired, 1);
/// assert_eq!(group.sync_standing(), Standing::NoGeneration);
/// # Ok::<(), ixion::RejectReason>(())
/// ```
#[derive(Debug)]
pub struct DelayedSync<G, A> {
    group: G,
    generation: i32,
    answer: A,
}

impl<G: SyncGroup, A: FnOnce(Outcome, G)> DelayedSync<G, A> {
    /// Waits until all members of this generation have synced; its timeout is the group's rebalance timeout.
    #[must_use]
    pub fn new(group: G, generation: i32, answer: A) -> Self {
        DelayedSync { group, generation, answer }
    }
}

impl<G: SyncGroup, A: FnOnce(Outcome, G)> DelayedOperation for DelayedSync<G, A> {
    fn try_complete(&mut self) -> bool {
        decide(self.group.sync_standing(), self.generation)
    }

    fn on_complete(self, outcome: Outcome) {
        (self.answer)(outcome, self.group);
    }
}

#[cfg(test)]
#[path = "sync_tests.rs"]
mod tests;
