//! The steps of a rebalance, which the requests and the timers have in common.

use std::collections::BTreeMap;
use std::time::Duration;

use ixion::OperationId;
use ixion::kafka::ErrorCode;
use ixion::kafka::join::{InitialDelay, NextStep, next_step};
use kafka_protocol::protocol::StrBytes;

use super::{Admission, Phase, State, Todo};
use crate::group::member::{Identity, JoinRequest, Joined, Member, SyncRequest, Synced, Waiter};

impl State {
    /// What is to be done about somebody who wants to join.
    pub(super) fn admit(&self, request: &JoinRequest) -> Result<Admission, ErrorCode> {
        let id = &request.member_id;
        if !self.has_protocol_for(request) {
            return Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        }
        if id.is_empty() {
            let is_full = self.members.len() + self.pending.len() >= self.limits.max_members;
            return match &request.instance_id {
                // It takes its old place.
                Some(instance) if self.has_instance(instance) => Ok(Admission::Newcomer),
                _ if is_full => Err(ErrorCode::GROUP_MAX_SIZE_REACHED),
                None if request.needs_member_id => Ok(Admission::ComesAgain),
                _ => Ok(Admission::Newcomer),
            };
        }
        if self.pending.contains_key(id) {
            return Ok(Admission::Expected);
        }
        let member = self.named(id, request.instance_id.as_ref())?;
        let must_rebalance = match self.phase {
            Phase::Empty | Phase::Dead => return Err(ErrorCode::UNKNOWN_MEMBER_ID),
            Phase::Preparing => true,
            Phase::Completing => member.protocols != request.protocols,
            // The leader joins again because something has changed that only it knows of.
            Phase::Stable => member.protocols != request.protocols || self.leader.as_ref() == Some(id),
        };
        Ok(if must_rebalance { Admission::Rejoins } else { Admission::Repeats })
    }

    /// Whether a member may synchronize now.
    pub(super) fn may_sync(&self, request: &SyncRequest) -> Result<(), ErrorCode> {
        self.check(&request.identity)?;
        let differs = |said: &Option<StrBytes>, is: &Option<StrBytes>| said.is_some() && said != is;
        if differs(&request.protocol_type, &self.protocol_type) || differs(&request.protocol, &self.protocol)
        {
            return Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        }
        match self.phase {
            Phase::Empty | Phase::Dead => Err(ErrorCode::UNKNOWN_MEMBER_ID),
            Phase::Preparing => Err(ErrorCode::REBALANCE_IN_PROGRESS),
            Phase::Completing | Phase::Stable => Ok(()),
        }
    }

    /// The member of this identity, in this generation.
    pub(super) fn check(&self, identity: &Identity) -> Result<&Member, ErrorCode> {
        let member = self.named(&identity.member_id, identity.instance_id.as_ref())?;
        if identity.generation == self.generation { Ok(member) } else { Err(ErrorCode::ILLEGAL_GENERATION) }
    }

    /// Takes a newcomer in.
    pub(super) fn add(
        &mut self,
        id: StrBytes,
        session: Option<OperationId>,
        request: JoinRequest,
        waiter: Waiter<Joined>,
        todos: &mut Vec<Todo>,
    ) {
        let former = request.instance_id.as_ref().and_then(|instance| self.instances.get(instance)).cloned();
        if let Some(former) = former {
            self.remove(&former, ErrorCode::FENCED_INSTANCE_ID, todos);
        }
        if let Some(instance) = &request.instance_id {
            self.instances.insert(instance.clone(), id.clone());
        }
        if self.members.is_empty() {
            self.protocol_type = Some(request.protocol_type.clone());
        }
        self.leader.get_or_insert_with(|| id.clone());
        self.members.insert(id, Member::new(request, session, waiter));
        self.arrivals += 1;
        self.rebalance_or_go_on(todos);
    }

    /// Takes a member out and tells it why, if it waits.
    pub(super) fn remove(&mut self, id: &StrBytes, why: ErrorCode, todos: &mut Vec<Todo>) {
        let Some(member) = self.members.remove(id) else { return };
        if let Some(instance) = &member.instance_id {
            self.instances.remove(instance);
        }
        self.unsynced.remove(id);
        if self.leader.as_ref() == Some(id) {
            self.leader = self.members.keys().next().cloned();
        }
        if let Some(waiter) = member.joining {
            drop(waiter.send(Joined::refused(why, id.clone())));
        }
        if let Some(waiter) = member.syncing {
            drop(waiter.send(Synced::refused(why)));
        }
        todos.push(Todo::EndSession(id.clone()));
    }

    /// Begins a rebalance, or looks how far the one is that goes on.
    pub(super) fn rebalance_or_go_on(&mut self, todos: &mut Vec<Todo>) {
        if self.phase == Phase::Preparing {
            todos.push(Todo::CheckJoins);
            return;
        }
        for id in self.ids(|member| member.syncing.is_some()) {
            let member = self.members.get_mut(&id).expect("it was listed");
            let waiter = member.syncing.take().expect("it was looked at");
            drop(waiter.send(Synced::refused(ErrorCode::REBALANCE_IN_PROGRESS)));
            todos.push(Todo::GoOn(id));
        }
        self.unsynced.clear();
        todos.push(Todo::CheckSyncs);
        self.rebalance += 1;
        let (rebalance, timeout) = (self.rebalance, self.rebalance_timeout());
        let delay = self.limits.initial_delay;
        let is_first = self.phase == Phase::Empty && !delay.is_zero();
        self.phase = Phase::Preparing;
        let initial = is_first.then(|| InitialDelay::new(delay, timeout, self.arrivals));
        todos.push(Todo::AwaitJoins { rebalance, timeout, initial });
    }

    /// Begins the next generation with those who are here, and answers them. Nothing happens if it was begun before.
    pub(in crate::group) fn finish_join(&mut self, rebalance: u64) -> Vec<Todo> {
        let mut todos = Vec::new();
        if self.is_over(rebalance) {
            return todos;
        }
        // Whoever has an instance id keeps its place until its session ends.
        for id in self.ids(|member| member.joining.is_none() && member.instance_id.is_none()) {
            self.remove(&id, ErrorCode::UNKNOWN_MEMBER_ID, &mut todos);
        }
        let timeout = self.rebalance_timeout();
        match next_step(self.join_standing(rebalance)) {
            NextStep::Nothing => {}
            NextStep::Empty => {
                self.generation += 1;
                self.protocol = None;
                self.phase = Phase::Empty;
            }
            NextStep::WaitAgain => todos.push(Todo::AwaitJoins { rebalance, timeout, initial: None }),
            NextStep::Generation => self.begin_generation(timeout, &mut todos),
        }
        todos
    }

    fn begin_generation(&mut self, timeout: Duration, todos: &mut Vec<Todo>) {
        let here = self.ids(|member| member.joining.is_some());
        if !self.leader.as_ref().is_some_and(|leader| here.contains(leader)) {
            self.leader = here.first().cloned();
        }
        self.generation += 1;
        self.protocol = self.vote();
        self.phase = Phase::Completing;
        self.unsynced = self.members.keys().cloned().collect();
        for id in here {
            let joined = self.joined(&id);
            let member = self.members.get_mut(&id).expect("it was listed");
            member.is_new = false;
            if let Some(waiter) = member.joining.take() {
                drop(waiter.send(joined));
            }
            todos.push(Todo::GoOn(id));
        }
        todos.push(Todo::AwaitSyncs { generation: self.generation, timeout });
    }

    /// What a member is answered who is in the current generation.
    pub(super) fn joined(&self, id: &StrBytes) -> Joined {
        let leader = self.leader.clone().unwrap_or_default();
        let protocol = self.protocol.clone().unwrap_or_default();
        let members = if leader == *id {
            let about = |(id, member): (&StrBytes, &Member)| {
                (id.clone(), member.instance_id.clone(), member.metadata(&protocol))
            };
            self.members.iter().map(about).collect()
        } else {
            Vec::new()
        };
        Joined {
            error: ErrorCode::NONE,
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: Some(protocol),
            leader,
            member_id: id.clone(),
            members,
        }
    }

    /// Gives a member that waits for it its assignment.
    pub(super) fn answer_sync(&mut self, id: &StrBytes, todos: &mut Vec<Todo>) {
        let synced = Synced {
            error: ErrorCode::NONE,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            assignment: self.members[id].assignment.clone(),
        };
        let member = self.members.get_mut(id).expect("it was looked up");
        if let Some(waiter) = member.syncing.take() {
            drop(waiter.send(synced));
        }
        todos.push(Todo::GoOn(id.clone()));
    }

    pub(super) fn ids(&self, which: impl Fn(&Member) -> bool) -> Vec<StrBytes> {
        self.members.iter().filter(|(_, member)| which(member)).map(|(id, _)| id.clone()).collect()
    }

    fn named(&self, id: &StrBytes, instance: Option<&StrBytes>) -> Result<&Member, ErrorCode> {
        match instance.map(|instance| self.instances.get(instance)) {
            Some(Some(current)) if current != id => return Err(ErrorCode::FENCED_INSTANCE_ID),
            Some(None) => return Err(ErrorCode::UNKNOWN_MEMBER_ID),
            _ => {}
        }
        self.members.get(id).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)
    }

    /// Whether somebody has a protocol that all members have.
    fn has_protocol_for(&self, request: &JoinRequest) -> bool {
        if self.members.is_empty() {
            return !request.protocol_type.is_empty() && !request.protocols.is_empty();
        }
        let everybody_has = |name: &str| self.members.values().all(|member| member.supports(name));
        self.protocol_type.as_ref() == Some(&request.protocol_type)
            && request.protocols.iter().any(|(name, _)| everybody_has(name))
    }

    /// The protocol that most members like best, of those that all have.
    fn vote(&self) -> Option<StrBytes> {
        let everybody_has = |name: &str| self.members.values().all(|member| member.supports(name));
        let mut votes: BTreeMap<&StrBytes, usize> = BTreeMap::new();
        for member in self.members.values() {
            if let Some((name, _)) = member.protocols.iter().find(|(name, _)| everybody_has(name)) {
                *votes.entry(name).or_default() += 1;
            }
        }
        votes.into_iter().max_by_key(|(_, votes)| *votes).map(|(name, _)| name.clone())
    }

    /// The longest that any member may take to join.
    fn rebalance_timeout(&self) -> Duration {
        self.members.values().map(|member| member.rebalance_timeout).max().unwrap_or_default()
    }
}
