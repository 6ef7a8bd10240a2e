//! What waits in the purgatories of the groups: for everybody to join, for everybody to synchronize, for a heartbeat.
//!
//! A look takes the group's lock, so whoever signals holds none. What is then to be done is done by the callback.

use std::sync::Arc;
use std::time::Duration;

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
    Joins(JoinsWait),
    Syncs(SyncsWait),
}

/// Waits until all members have joined.
pub(crate) struct JoinsWait {
    pub(super) coordinator: Arc<Coordinator>,
    pub(super) group: Arc<Group>,
    pub(super) rebalance: u64,
    /// Set the first time: then it waits for the whole time, and this is how much longer it may.
    pub(super) left: Option<Duration>,
    /// What is to be done, once the look has found all of them and has begun the generation.
    pub(super) todos: Option<Vec<Todo>>,
}

/// Waits until all members have synchronized.
pub(crate) struct SyncsWait {
    pub(super) coordinator: Arc<Coordinator>,
    pub(super) group: Arc<Group>,
    pub(super) generation: i32,
}

/// The timer of a member's session.
pub(crate) struct SessionWait {
    pub(super) coordinator: Arc<Coordinator>,
    pub(super) group: Arc<Group>,
    pub(super) member: StrBytes,
    pub(super) number: u64,
}

impl DelayedOperation for RebalanceWait {
    fn try_complete(&mut self) -> bool {
        match self {
            RebalanceWait::Joins(wait) => wait.try_complete(),
            RebalanceWait::Syncs(wait) => wait.group.state.lock().is_synced(wait.generation),
        }
    }

    fn on_complete(self, outcome: Outcome) {
        match self {
            RebalanceWait::Joins(wait) => wait.on_complete(outcome),
            RebalanceWait::Syncs(SyncsWait { coordinator, group, generation }) => {
                if outcome == Outcome::Expired {
                    let todos = group.state.lock().expire_sync(generation);
                    coordinator.carry_out(&group, todos);
                }
            }
        }
    }
}

impl JoinsWait {
    /// Looks and begins the generation in one hold of the lock: in between somebody could leave, or come.
    fn try_complete(&mut self) -> bool {
        let mut state = self.group.state.lock();
        if self.left.is_none() {
            self.todos = state.try_finish_join(self.rebalance);
            self.todos.is_some()
        } else {
            state.is_over(self.rebalance)
        }
    }

    fn on_complete(self, outcome: Outcome) {
        let todos = match (self.todos, outcome) {
            // Whatever decided first: the look has begun the generation.
            (Some(todos), _) => todos,
            (None, Outcome::Expired) => self.group.state.lock().expire_join(self.rebalance, self.left),
            (None, _) => return,
        };
        self.coordinator.carry_out(&self.group, todos);
    }
}

impl DelayedOperation for SessionWait {
    fn try_complete(&mut self) -> bool {
        !self.group.state.lock().wants_session(&self.member, self.number)
    }

    fn on_complete(self, outcome: Outcome) {
        if outcome == Outcome::Expired {
            let todos = self.group.state.lock().expire_session(&self.member, self.number);
            self.coordinator.carry_out(&self.group, todos);
        }
    }
}
