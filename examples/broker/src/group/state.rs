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
use kafka_protocol::protocol::StrBytes;

use super::errors::*;
use super::member::{Identity, JoinRequest, Joined, Member, SyncRequest, Synced, Waiter};
use super::offsets::Offsets;

/// How long somebody who has never been in a generation may wait for one; a rebalance may take longer.
const NEWCOMER_TIMEOUT: Duration = Duration::from_mins(5);

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
    /// Wait for everybody to join. With `left` it is the first time: it takes the whole `timeout`, and longer by
    /// what is left while others keep coming.
    AwaitJoins { rebalance: u64, timeout: Duration, left: Option<Duration> },
    /// Wait for everybody to synchronize.
    AwaitSyncs { generation: i32, timeout: Duration },
    /// Start a member's session anew.
    StartSession { member: StrBytes, timeout: Duration },
    /// Look whether the timer of a member's session is still wanted.
    CheckSession(StrBytes),
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

#[derive(Debug)]
pub(super) struct State {
    limits: Limits,
    pub(super) phase: Phase,
    pub(super) generation: i32,
    protocol_type: Option<StrBytes>,
    protocol: Option<StrBytes>,
    leader: Option<StrBytes>,
    members: BTreeMap<StrBytes, Member>,
    /// Ids that were given out and have not joined yet, with the numbers of their timers.
    pending: BTreeMap<StrBytes, u64>,
    /// The members with an instance id, by it.
    instances: BTreeMap<StrBytes, StrBytes>,
    /// Who has not synchronized in this generation.
    unsynced: BTreeSet<StrBytes>,
    /// Whether somebody has come since the initial wait was last armed.
    newcomers: bool,
    /// Counts the rebalances, so that an old wait can be told from the current one.
    rebalance: u64,
    last_session: u64,
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
            newcomers: false,
            rebalance: 0,
            last_session: 0,
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
                let session = self.next_session();
                self.pending.insert(id.clone(), session);
                todos.push(Todo::StartSession { member: id.clone(), timeout: request.session_timeout });
                drop(waiter.send(Joined::refused(MEMBER_ID_REQUIRED, id)));
            }
            Ok(Admission::Newcomer) => {
                let id = new_id(&request);
                self.add(id, request, waiter, &mut todos);
            }
            Ok(Admission::Expected) => {
                self.pending.remove(&id);
                todos.push(Todo::CheckSession(id.clone()));
                self.add(id, request, waiter, &mut todos);
            }
            Ok(Admission::Rejoins) => {
                let member = self.members.get_mut(&id).expect("it was looked up");
                member.update(request);
                // An earlier request of the same member ends without an answer; its connection is closed.
                member.joining = Some(waiter);
                todos.push(Todo::CheckSession(id));
                self.rebalance_or_go_on(&mut todos);
            }
            Ok(Admission::Repeats) => {
                let member = &self.members[&id];
                todos.push(Todo::StartSession { member: id.clone(), timeout: member.session_timeout });
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
            todos.push(Todo::CheckSession(id));
        }
        todos
    }

    /// Counts a sign of life.
    pub(super) fn heartbeat(&self, identity: &Identity) -> (ErrorCode, Option<Todo>) {
        match self.check(identity) {
            Err(error) => (error, None),
            Ok(member) => {
                let error = match self.phase {
                    Phase::Preparing => REBALANCE_IN_PROGRESS,
                    _ => ErrorCode::NONE,
                };
                let timeout = member.session_timeout;
                (error, Some(Todo::StartSession { member: identity.member_id.clone(), timeout }))
            }
        }
    }

    /// Whether somebody may commit offsets.
    pub(super) fn may_commit(&self, identity: &Identity) -> (ErrorCode, Option<Todo>) {
        // Whoever is in no group keeps its offsets in an empty one.
        if identity.generation < 0 && self.phase == Phase::Empty {
            return (ErrorCode::NONE, None);
        }
        match (self.heartbeat(identity), self.phase) {
            // Its generation is not over yet: what it has done up to here counts.
            ((REBALANCE_IN_PROGRESS, todo), Phase::Preparing) => (ErrorCode::NONE, todo),
            ((ErrorCode::NONE, todo), Phase::Completing) => (REBALANCE_IN_PROGRESS, todo),
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
            Some(None) => return (UNKNOWN_MEMBER_ID, todos),
            Some(Some(id)) if !member_id.is_empty() && id != member_id => return (FENCED_INSTANCE_ID, todos),
            Some(Some(id)) => id.clone(),
        };
        if self.pending.remove(&id).is_some() {
            todos.extend([Todo::CheckSession(id), Todo::CheckJoins]);
        } else if self.members.contains_key(&id) {
            self.remove(&id, UNKNOWN_MEMBER_ID, &mut todos);
            self.rebalance_or_go_on(&mut todos);
        } else {
            return (UNKNOWN_MEMBER_ID, todos);
        }
        (ErrorCode::NONE, todos)
    }

    /// Ends a member's session, if the timer that says so is its current one.
    pub(super) fn expire_session(&mut self, id: &StrBytes, session: u64) -> Vec<Todo> {
        let mut todos = Vec::new();
        if !self.wants_session(id, session) {
            return todos;
        }
        if self.pending.remove(id).is_some() {
            todos.push(Todo::CheckJoins);
        } else {
            self.remove(id, UNKNOWN_MEMBER_ID, &mut todos);
            self.rebalance_or_go_on(&mut todos);
        }
        todos
    }

    /// Whether the timer with this number still stands for a member's session.
    pub(super) fn wants_session(&self, id: &StrBytes, session: u64) -> bool {
        match (self.pending.get(id), self.members.get(id)) {
            (Some(&current), _) => current == session,
            (None, Some(member)) => member.session == session && !member.is_paused(),
            (None, None) => false,
        }
    }

    /// A number for a new timer of a member's session, if one is wanted. The former ones count no more.
    pub(super) fn new_session(&mut self, id: &StrBytes) -> Option<u64> {
        let number = self.next_session();
        let current = match (self.pending.get_mut(id), self.members.get_mut(id)) {
            (Some(current), _) => current,
            (None, Some(member)) if !member.is_paused() => &mut member.session,
            _ => return None,
        };
        *current = number;
        Some(number)
    }

    /// Whether the wait of a rebalance is over without more: it is another's turn.
    pub(super) fn is_over(&self, rebalance: u64) -> bool {
        self.phase != Phase::Preparing || self.rebalance != rebalance
    }

    /// Begins a generation if all have joined.
    pub(super) fn try_finish_join(&mut self, rebalance: u64) -> Option<Vec<Todo>> {
        if self.is_over(rebalance) {
            return Some(Vec::new());
        }
        let all_are_here =
            self.pending.is_empty() && self.members.values().all(|member| member.joining.is_some());
        all_are_here.then(|| self.finish_join())
    }

    /// Begins a generation with those who have joined, since the time is up; or waits on, the first time, while
    /// others keep coming.
    pub(super) fn expire_join(&mut self, rebalance: u64, left: Option<Duration>) -> Vec<Todo> {
        if self.is_over(rebalance) {
            return Vec::new();
        }
        match left {
            Some(left) if self.newcomers && !left.is_zero() => {
                self.newcomers = false;
                let timeout = self.limits.initial_delay.min(left);
                vec![Todo::AwaitJoins { rebalance, timeout, left: Some(left - timeout) }]
            }
            _ => self.finish_join(),
        }
    }

    /// Whether all have synchronized, or it does not matter any more.
    pub(super) fn is_synced(&self, generation: i32) -> bool {
        self.generation != generation
            || !matches!(self.phase, Phase::Completing | Phase::Stable)
            || self.unsynced.is_empty()
    }

    /// Evicts those who have not synchronized in time.
    pub(super) fn expire_sync(&mut self, generation: i32) -> Vec<Todo> {
        let mut todos = Vec::new();
        if !self.is_synced(generation) {
            for id in std::mem::take(&mut self.unsynced) {
                self.remove(&id, UNKNOWN_MEMBER_ID, &mut todos);
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
