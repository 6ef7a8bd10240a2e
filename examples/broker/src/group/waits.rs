//! What waits in the purgatories of the groups: for everybody to join, for everybody to synchronize, for a heartbeat.
//!
//! The operations are the library's. A look takes the group's lock, so whoever signals holds none. What is to be done at
//! the end is done by the callback, with no lock held either.

use std::sync::Arc;

use ixion::kafka::heartbeat::SessionMember;
use ixion::kafka::join::{self, JoinEnd, JoinGroup};
use ixion::kafka::sync::{self, SyncGroup};
use ixion::kafka::{DelayedHeartbeat, DelayedJoin, DelayedSync};
use ixion::{DelayedOperation, Outcome};
use kafka_protocol::protocol::StrBytes;

use super::state::Todo;
use super::{Coordinator, Group};

/// What a rebalance waits for, by the number of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RebalanceKey {
    Joins(u64),
    Syncs(u64),
}

/// Whose session it is: the number of the group, the member's id.
pub(crate) type SessionKey = (u64, StrBytes);

/// One of the two waits of a rebalance.
pub(crate) enum RebalanceWait {
    Joins(DelayedJoin<Rebalance, fn(JoinEnd, Rebalance)>),
    Syncs(DelayedSync<Generation, fn(Outcome, Generation)>),
}

/// The session of a member.
pub(crate) type SessionWait = DelayedHeartbeat<Somebody, fn(Outcome, Somebody)>;

/// A rebalance of a group, by its number.
pub(crate) struct Rebalance {
    pub(super) coordinator: Arc<Coordinator>,
    pub(super) group: Arc<Group>,
    pub(super) number: u64,
}

/// A generation of a group, by its number.
pub(crate) struct Generation {
    pub(super) coordinator: Arc<Coordinator>,
    pub(super) group: Arc<Group>,
    pub(super) number: i32,
}

/// A member of a group, or somebody who was told its id.
pub(crate) struct Somebody {
    pub(super) coordinator: Arc<Coordinator>,
    pub(super) group: Arc<Group>,
    pub(super) id: StrBytes,
}

impl Rebalance {
    /// All have joined, or the time is up.
    pub(super) fn end(end: JoinEnd, Rebalance { coordinator, group, number }: Rebalance) {
        let todos = match end {
            JoinEnd::Again(delay) => {
                let timeout = delay.timeout();
                vec![Todo::AwaitJoins { rebalance: number, timeout, initial: Some(delay) }]
            }
            JoinEnd::Over(Outcome::Satisfied | Outcome::Expired) => group.state.lock().finish_join(number),
            JoinEnd::Over(_) => return,
        };
        coordinator.carry_out(&group, todos);
    }
}

impl Generation {
    /// All have synchronized, or the time is up.
    pub(super) fn end(outcome: Outcome, Generation { coordinator, group, number }: Generation) {
        let todos = group.state.lock().expire_sync(outcome, number);
        coordinator.carry_out(&group, todos);
    }
}

impl Somebody {
    /// It has gone, or nothing was heard of it.
    pub(super) fn end(outcome: Outcome, Somebody { coordinator, group, id }: Somebody) {
        if outcome == Outcome::Expired {
            let todos = group.state.lock().expire_session(&id);
            coordinator.carry_out(&group, todos);
        }
    }
}

impl JoinGroup for Rebalance {
    fn join_standing(&self) -> join::Standing {
        self.group.state.lock().join_standing(self.number)
    }
}

impl SyncGroup for Generation {
    fn sync_standing(&self) -> sync::Standing {
        self.group.state.lock().sync_standing()
    }
}

impl SessionMember for Somebody {
    fn is_gone(&self) -> bool {
        self.group.state.lock().is_gone(&self.id)
    }
}

impl DelayedOperation for RebalanceWait {
    fn try_complete(&mut self) -> bool {
        match self {
            RebalanceWait::Joins(wait) => wait.try_complete(),
            RebalanceWait::Syncs(wait) => wait.try_complete(),
        }
    }

    fn on_complete(self, outcome: Outcome) {
        match self {
            RebalanceWait::Joins(wait) => wait.on_complete(outcome),
            RebalanceWait::Syncs(wait) => wait.on_complete(outcome),
        }
    }
}
