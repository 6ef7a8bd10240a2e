//! The state machine of a group: who is in it, and how far a rebalance has come.
//!
//! ```text
//!            somebody joins                  all have joined, or time is up
//!  Empty ───────────────────▶ Preparing ───────────────────────────────────▶ Completing ──▶ Stable
//!    ▲                         │     ▲                                            │  the leader  │
//!    └──── nobody is left ─────┘     └──── somebody joins, leaves, is evicted ────┴─── syncs ────┘
//! ```
//!
//! It knows no clock, no lock and no purgatory. What a change makes necessary is returned as [`Todo`]s, for the caller
//! to do once it has let go of the group's lock.

mod rebalance;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use ixion::kafka::ErrorCode;
use ixion::kafka::heartbeat::Phase as SessionPhase;
use ixion::kafka::join::{self, InitialDelay, Joining};
use ixion::kafka::sync;
use ixion::{OperationId, Outcome};
use kafka_protocol::protocol::StrBytes;

use super::member::{Identity, JoinRequest, Joined, Member, SyncRequest, Synced, Waiter};
use super::offsets::Offsets;

/// What groups must keep to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// How long the first rebalance of an empty group waits for more members.
    pub(super) initial_delay: Duration,
    pub(super) max_members: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nobody is in it; it may have offsets.
    Empty,
    /// Members are to join.
    Preparing,
    /// All have joined; the leader is to say who gets what.
    Completing,
    Stable,
    /// It is in no list any more; whoever still has it takes another.
    Dead,
}

/// What is to be done after a change, with no lock held.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Todo {
    /// Wait for everybody to join; with a delay, for more to come.
    AwaitJoins { rebalance: u64, timeout: Duration, initial: Option<InitialDelay> },
    /// Wait for everybody to synchronize.
    AwaitSyncs { generation: i32, timeout: Duration },
    /// Begin the session of somebody new.
    BeginSession(StrBytes),
    /// Something was heard of somebody: give it its whole session again.
    GoOn(StrBytes),
    /// Somebody is gone: end its session.
    EndSession(StrBytes),
    /// Look whether all have joined.
    CheckJoins,
    /// Look whether all have synchronized.
    CheckSyncs,
}

/// Who somebody is that wants to join.
enum Admission {
    /// It is told its id and comes again.
    ComesAgain,
    Newcomer,
    /// It was told its id before.
    Expected,
    Rejoins,
    /// It knows everything already; it has lost the answer.
    Repeats,
}

/// Somebody who was told its id.
#[derive(Debug)]
struct Pending {
    session: Option<OperationId>,
    timeout: Duration,
}

#[derive(Debug)]
pub(super) struct State {
    limits: Limits,
    pub(super) phase: Phase,
    pub(super) generation: i32,
    protocol_type: Option<StrBytes>,
    protocol: Option<StrBytes>,
    leader: Option<StrBytes>,
    members: BTreeMap<StrBytes, Member>,
    /// Ids that were given out and have not joined yet.
    pending: BTreeMap<StrBytes, Pending>,
    /// The members with an instance id, by it.
    instances: BTreeMap<StrBytes, StrBytes>,
    /// Who has not synchronized in this generation.
    unsynced: BTreeSet<StrBytes>,
    /// How many members there have ever been.
    arrivals: u64,
    /// Counts the rebalances, so that an old wait can be told from the current one.
    rebalance: u64,
    pub(super) offsets: Offsets,
}

impl State {
    pub(super) fn new(limits: Limits) -> Self {
        State {
            limits,
            phase: Phase::Empty,
            generation: 0,
            protocol_type: None,
            protocol: None,
            leader: None,
            members: BTreeMap::new(),
            pending: BTreeMap::new(),
            instances: BTreeMap::new(),
            unsynced: BTreeSet::new(),
            arrivals: 0,
            rebalance: 0,
            offsets: Offsets::default(),
        }
    }

    /// Lets somebody join, or says why not. `new_id` is for somebody who has none.
    pub(super) fn join(
        &mut self,
        request: JoinRequest,
        waiter: Waiter<Joined>,
        new_id: impl FnOnce(&JoinRequest) -> StrBytes,
    ) -> Vec<Todo> {
        let mut todos = Vec::new();
        let id = request.member_id.clone();
        match self.admit(&request) {
            Err(error) => drop(waiter.send(Joined::refused(error, id))),
            Ok(Admission::ComesAgain) => {
                let id = new_id(&request);
                self.pending.insert(id.clone(), Pending { session: None, timeout: request.session_timeout });
                todos.push(Todo::BeginSession(id.clone()));
                drop(waiter.send(Joined::refused(ErrorCode::MEMBER_ID_REQUIRED, id)));
            }
            Ok(Admission::Newcomer) => {
                let id = new_id(&request);
                todos.push(Todo::BeginSession(id.clone()));
                self.add(id, None, request, waiter, &mut todos);
            }
            Ok(Admission::Expected) => {
                let session = self.pending.remove(&id).and_then(|pending| pending.session);
                todos.push(Todo::GoOn(id.clone()));
                self.add(id, session, request, waiter, &mut todos);
            }
            Ok(Admission::Rejoins) => {
                let member = self.members.get_mut(&id).expect("it was looked up");
                member.update(request);
                // An earlier request of the same member ends without an answer; its connection is closed.
                member.joining = Some(waiter);
                todos.push(Todo::GoOn(id));
                self.rebalance_or_go_on(&mut todos);
            }
            Ok(Admission::Repeats) => {
                todos.push(Todo::GoOn(id.clone()));
                drop(waiter.send(self.joined(&id)));
            }
        }
        todos
    }

    /// Takes a member's request to synchronize; with the leader's come the assignments for all.
    pub(super) fn sync(&mut self, request: SyncRequest, waiter: Waiter<Synced>) -> Vec<Todo> {
        let mut todos = Vec::new();
        if let Err(error) = self.may_sync(&request) {
            drop(waiter.send(Synced::refused(error)));
            return todos;
        }
        let id = request.identity.member_id;
        self.unsynced.remove(&id);
        if self.unsynced.is_empty() {
            todos.push(Todo::CheckSyncs);
        }
        self.members.get_mut(&id).expect("it was looked up").syncing = Some(waiter);
        if self.phase == Phase::Stable {
            self.answer_sync(&id, &mut todos);
        } else if self.leader.as_ref() == Some(&id) {
            let mut assignments: BTreeMap<StrBytes, Bytes> = request.assignments.into_iter().collect();
            for (id, member) in &mut self.members {
                member.assignment = assignments.remove(id).unwrap_or_default();
            }
            self.phase = Phase::Stable;
            let waiting: Vec<StrBytes> = self.ids(|member| member.syncing.is_some());
            waiting.iter().for_each(|id| self.answer_sync(id, &mut todos));
        } else {
            todos.push(Todo::GoOn(id));
        }
        todos
    }

    /// What a heartbeat is answered, and whether it counts as a sign of life.
    pub(super) fn heartbeat(&self, identity: &Identity) -> (ErrorCode, bool) {
        match (self.check(identity), self.phase) {
            (Err(error), _) => (error, false),
            (Ok(_), Phase::Preparing) => (ErrorCode::REBALANCE_IN_PROGRESS, true),
            (Ok(_), _) => (ErrorCode::NONE, true),
        }
    }

    /// Whether somebody may commit offsets, and whether that counts as a sign of life.
    pub(super) fn may_commit(&self, identity: &Identity) -> (ErrorCode, bool) {
        // Whoever is in no group keeps its offsets in an empty one.
        if identity.generation < 0 && self.phase == Phase::Empty {
            return (ErrorCode::NONE, false);
        }
        match (self.heartbeat(identity), self.phase) {
            // Its generation is not over yet: what it has done up to here counts.
            ((ErrorCode::REBALANCE_IN_PROGRESS, counts), Phase::Preparing) => (ErrorCode::NONE, counts),
            ((ErrorCode::NONE, counts), Phase::Completing) => (ErrorCode::REBALANCE_IN_PROGRESS, counts),
            (answer, _) => answer,
        }
    }

    /// Lets a member go, named by its id or by its instance.
    pub(super) fn leave(
        &mut self,
        member_id: &StrBytes,
        instance_id: Option<&StrBytes>,
    ) -> (ErrorCode, Vec<Todo>) {
        let mut todos = Vec::new();
        let id = match instance_id.map(|instance| self.instances.get(instance)) {
            None => member_id.clone(),
            Some(None) => return (ErrorCode::UNKNOWN_MEMBER_ID, todos),
            Some(Some(id)) if !member_id.is_empty() && id != member_id => {
                return (ErrorCode::FENCED_INSTANCE_ID, todos);
            }
            Some(Some(id)) => id.clone(),
        };
        if self.pending.remove(&id).is_some() {
            todos.extend([Todo::EndSession(id), Todo::CheckJoins]);
        } else if self.members.contains_key(&id) {
            self.remove(&id, ErrorCode::UNKNOWN_MEMBER_ID, &mut todos);
            self.rebalance_or_go_on(&mut todos);
        } else {
            return (ErrorCode::UNKNOWN_MEMBER_ID, todos);
        }
        (ErrorCode::NONE, todos)
    }

    /// Removes somebody of whom nothing was heard for too long.
    pub(super) fn expire_session(&mut self, id: &StrBytes) -> Vec<Todo> {
        let mut todos = Vec::new();
        if self.pending.remove(id).is_some() {
            todos.push(Todo::CheckJoins);
        } else if self.members.contains_key(id) {
            self.remove(id, ErrorCode::UNKNOWN_MEMBER_ID, &mut todos);
            self.rebalance_or_go_on(&mut todos);
        }
        todos
    }

    /// Whether somebody is neither a member nor about to be one.
    pub(super) fn is_gone(&self, id: &StrBytes) -> bool {
        !self.members.contains_key(id) && !self.pending.contains_key(id)
    }

    /// Whether a member has this instance id.
    pub(super) fn has_instance(&self, id: &StrBytes) -> bool {
        self.instances.contains_key(id)
    }

    /// Somebody's session, if it has begun, and how long nothing may be heard of it from now on.
    pub(super) fn session(&self, id: &StrBytes) -> Option<(OperationId, Duration)> {
        if let Some(Pending { session, timeout }) = self.pending.get(id) {
            return session.map(|session| (session, SessionPhase::Pending.timeout(*timeout)));
        }
        let member = self.members.get(id)?;
        member.session.map(|session| (session, member.phase().timeout(member.session_timeout)))
    }

    pub(super) fn set_session(&mut self, id: &StrBytes, session: OperationId) {
        if let Some(pending) = self.pending.get_mut(id) {
            pending.session = Some(session);
        } else if let Some(member) = self.members.get_mut(id) {
            member.session = Some(session);
        }
    }

    /// Whether the wait of a rebalance is over without more: it is another's turn.
    pub(super) fn is_over(&self, rebalance: u64) -> bool {
        self.phase != Phase::Preparing || self.rebalance != rebalance
    }

    /// How a rebalance stands.
    pub(super) fn join_standing(&self, rebalance: u64) -> join::Standing {
        if self.is_over(rebalance) {
            return join::Standing::Over;
        }
        join::Standing::Joining(Joining {
            members: self.members.len(),
            joined: self.members.values().filter(|member| member.joining.is_some()).count(),
            pending: self.pending.len(),
            arrivals: self.arrivals,
        })
    }

    /// How a generation stands.
    pub(super) fn sync_standing(&self) -> sync::Standing {
        match self.phase {
            Phase::Completing | Phase::Stable => {
                sync::Standing::Generation { id: self.generation, unsynced: self.unsynced.len() }
            }
            Phase::Empty | Phase::Preparing | Phase::Dead => sync::Standing::NoGeneration,
        }
    }

    /// Evicts those who have not synchronized, if the wait for them ended because the time was up.
    pub(super) fn expire_sync(&mut self, outcome: Outcome, generation: i32) -> Vec<Todo> {
        let mut todos = Vec::new();
        if sync::must_expel(outcome, self.sync_standing(), generation) {
            for id in std::mem::take(&mut self.unsynced) {
                self.remove(&id, ErrorCode::UNKNOWN_MEMBER_ID, &mut todos);
            }
            self.rebalance_or_go_on(&mut todos);
        }
        todos
    }

    /// Whether nothing would be lost with it.
    pub(super) fn is_vacant(&self) -> bool {
        self.phase == Phase::Empty && self.pending.is_empty() && self.offsets.is_empty()
    }

    /// Ends it. Whoever waits is told by the end of its waiting.
    pub(super) fn close(&mut self) {
        self.phase = Phase::Dead;
        self.members.clear();
        self.pending.clear();
        self.unsynced.clear();
    }

    /// How many members it has.
    pub(super) fn size(&self) -> usize {
        self.members.len()
    }
}
