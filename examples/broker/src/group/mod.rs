//! Consumer groups: who is in which, what rebalances wait for, and the offsets that were committed.
//!
//! ```text
//!  request ──▶ group's state (one lock) ──▶ what is to be done ──▶ purgatories: signal, register, reset
//!                                                                        │ callback
//!              group's state ◀───────────────────────────────────────────┘
//! ```
//!
//! The list of groups may be held while a group's lock is taken, never the other way round; the purgatories are called
//! with neither held.

pub(crate) mod member;
pub(crate) mod offsets;
mod state;
mod waits;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ixion::kafka::{DelayedJoin, DelayedSync, ErrorCode};
use ixion::{Clock, Purgatory};
use kafka_protocol::protocol::StrBytes;
use parking_lot::Mutex;

use self::member::{Identity, JoinRequest, Joined, SyncRequest, Synced, Waiter};
use self::offsets::{Committed, Offsets};
use self::state::{Limits, Phase, State, Todo};
pub(crate) use self::waits::RebalanceKey;
use self::waits::{Generation, Rebalance, RebalanceWait, SessionKey, SessionWait, Somebody};
use crate::Config;

/// What a group is refused with when there are too many: POLICY_VIOLATION, which no client tries again. Kafka has no such
/// limit, and so no code of its own for it.
const TOO_MANY_GROUPS: ErrorCode = ErrorCode::new(44);

/// All groups.
pub(crate) struct Coordinator {
    groups: Mutex<HashMap<Arc<str>, Arc<Group>>>,
    /// What rebalances wait for.
    pub(crate) rebalance: Purgatory<RebalanceKey, RebalanceWait>,
    /// The sessions of the members.
    pub(crate) heartbeat: Purgatory<SessionKey, SessionWait>,
    limits: Limits,
    max_groups: usize,
    /// Of all groups together.
    max_members: usize,
    /// The shortest and the longest session that a member may have.
    session_timeouts: (Duration, Duration),
    /// Numbers for groups and for ids of members.
    next_number: AtomicU64,
    /// Makes ids of members that another run of the broker does not give out again.
    hasher: RandomState,
}

/// A group. One that was removed is dead, and another of the same name has another number.
pub(crate) struct Group {
    name: Arc<str>,
    number: u64,
    state: Mutex<State>,
}

impl Coordinator {
    pub(crate) fn new(config: &Config, clock: impl Clock + Clone + 'static) -> Self {
        Coordinator {
            groups: Mutex::default(),
            rebalance: config.purgatory("Rebalance", clock.clone()),
            heartbeat: config.purgatory("Heartbeat", clock),
            limits: Limits {
                initial_delay: config.group_initial_rebalance_delay,
                max_members: config.group_max_size,
            },
            max_groups: config.max_groups,
            max_members: config.max_members,
            session_timeouts: (config.group_min_session_timeout, config.group_max_session_timeout),
            next_number: AtomicU64::new(1),
            hasher: RandomState::new(),
        }
    }

    /// Lets somebody join a group. It is answered when all members have joined, or their time is up.
    pub(crate) fn join(self: &Arc<Self>, group: &str, request: JoinRequest, waiter: Waiter<Joined>) {
        let (shortest, longest) = self.session_timeouts;
        let refusal = if group.is_empty() {
            Some(ErrorCode::INVALID_GROUP_ID)
        } else if !(shortest..=longest).contains(&request.session_timeout) {
            Some(ErrorCode::INVALID_SESSION_TIMEOUT)
        } else if !request.member_id.is_empty() && self.group(group).is_none() {
            Some(ErrorCode::UNKNOWN_MEMBER_ID)
        } else if self.is_one_too_many(group) {
            Some(TOO_MANY_GROUPS)
        } else if request.member_id.is_empty()
            && self.heartbeat.len() >= self.max_members
            && !self.takes_an_old_place(group, &request)
        {
            // Each has a session.
            Some(ErrorCode::GROUP_MAX_SIZE_REACHED)
        } else {
            None
        };
        if let Some(error) = refusal {
            return drop(waiter.send(Joined::refused(error, request.member_id)));
        }
        let (group, todos) =
            self.with_group(group, |state| state.join(request, waiter, |new| self.new_id(new)));
        self.carry_out(&group, todos);
        self.remove_if_vacant(&group);
    }

    /// Takes a member's request to synchronize. It is answered when the leader's has come.
    pub(crate) fn sync(self: &Arc<Self>, group: &str, request: SyncRequest, waiter: Waiter<Synced>) {
        let Some(group) = self.group(group) else {
            return drop(waiter.send(Synced::refused(ErrorCode::UNKNOWN_MEMBER_ID)));
        };
        let todos = group.state.lock().sync(request, waiter);
        self.carry_out(&group, todos);
    }

    /// Counts a sign of life of a member.
    pub(crate) fn heartbeat(self: &Arc<Self>, group: &str, identity: &Identity) -> ErrorCode {
        let Some(group) = self.group(group) else { return ErrorCode::UNKNOWN_MEMBER_ID };
        let (error, counts) = group.state.lock().heartbeat(identity);
        // Too late is too late: an expiry that has begun has its way.
        if counts && !self.go_on(&group, &identity.member_id) { ErrorCode::UNKNOWN_MEMBER_ID } else { error }
    }

    /// Lets a member go.
    pub(crate) fn leave(
        self: &Arc<Self>,
        group: &str,
        id: &StrBytes,
        instance: Option<&StrBytes>,
    ) -> ErrorCode {
        let Some(group) = self.group(group) else { return ErrorCode::UNKNOWN_MEMBER_ID };
        let (error, todos) = group.state.lock().leave(id, instance);
        self.carry_out(&group, todos);
        self.remove_if_vacant(&group);
        error
    }

    /// Lets a member, or somebody who is in no group, commit offsets with `commit`.
    pub(crate) fn commit(
        self: &Arc<Self>,
        group: &str,
        identity: &Identity,
        commit: impl FnOnce(&mut Offsets),
    ) -> ErrorCode {
        if identity.generation >= 0 && self.group(group).is_none() {
            return ErrorCode::ILLEGAL_GENERATION;
        }
        if self.is_one_too_many(group) {
            return TOO_MANY_GROUPS;
        }
        let (group, (error, counts)) = self.with_group(group, |state| {
            let (error, counts) = state.may_commit(identity);
            if error.is_none() {
                commit(&mut state.offsets);
            }
            (error, counts)
        });
        if counts {
            self.go_on(&group, &identity.member_id);
        }
        self.remove_if_vacant(&group);
        error
    }

    /// The offset that a group has committed.
    pub(crate) fn committed(&self, group: &str, topic: &StrBytes, partition: i32) -> Option<Committed> {
        self.group(group)?.state.lock().offsets.get(topic, partition)
    }

    /// All offsets that a group has committed.
    pub(crate) fn all_committed(&self, group: &str) -> Vec<(StrBytes, Vec<(i32, Committed)>)> {
        self.group(group).map(|group| group.state.lock().offsets.all()).unwrap_or_default()
    }

    /// Forgets what was committed for a topic that was deleted.
    pub(crate) fn forget(&self, topic: &str) {
        let groups: Vec<Arc<Group>> = self.groups.lock().values().cloned().collect();
        for group in groups {
            group.state.lock().offsets.forget(topic);
            self.remove_if_vacant(&group);
        }
    }

    /// How many groups there are, and how many members in all of them.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        let groups = self.groups.lock();
        (groups.len(), groups.values().map(|group| group.state.lock().size()).sum())
    }

    /// The names of the groups by their numbers.
    pub(crate) fn names(&self) -> HashMap<u64, Arc<str>> {
        self.groups.lock().values().map(|group| (group.number, group.name.clone())).collect()
    }

    /// Ends all waiting; whoever waits is told, and nobody waits from here on.
    pub(crate) fn shut_down(&self) {
        self.rebalance.shutdown();
        self.heartbeat.shutdown();
        for (_, group) in self.groups.lock().drain() {
            group.state.lock().close();
        }
    }

    /// Does what a change has made necessary. Call it with no lock held.
    fn carry_out(self: &Arc<Self>, group: &Arc<Group>, todos: impl IntoIterator<Item = Todo>) {
        for todo in todos {
            match todo {
                Todo::CheckJoins => {
                    self.rebalance.check_and_complete(&RebalanceKey::Joins(group.number));
                }
                Todo::CheckSyncs => {
                    self.rebalance.check_and_complete(&RebalanceKey::Syncs(group.number));
                }
                Todo::BeginSession(member) => self.begin_session(group, member),
                Todo::GoOn(member) => {
                    self.go_on(group, &member);
                }
                Todo::EndSession(member) => {
                    self.heartbeat.check_and_complete(&(group.number, member));
                }
                Todo::AwaitJoins { rebalance, timeout, initial } => {
                    let rebalance =
                        Rebalance { coordinator: self.clone(), group: group.clone(), number: rebalance };
                    let (wait, timeout) = match initial {
                        None => (DelayedJoin::new(rebalance, Rebalance::end as fn(_, _)), timeout),
                        Some(delay) => {
                            (DelayedJoin::initial(rebalance, delay, Rebalance::end as _), delay.timeout())
                        }
                    };
                    let key = RebalanceKey::Joins(group.number);
                    self.wait(group, RebalanceWait::Joins(wait), timeout, key);
                }
                Todo::AwaitSyncs { generation: number, timeout } => {
                    let generation = Generation { coordinator: self.clone(), group: group.clone(), number };
                    let wait = DelayedSync::new(generation, number, Generation::end as _);
                    let key = RebalanceKey::Syncs(group.number);
                    self.wait(group, RebalanceWait::Syncs(wait), timeout, key);
                }
            }
        }
        // A rebalance may have ended with nobody left.
        self.remove_if_vacant(group);
    }

    fn wait(&self, group: &Arc<Group>, wait: RebalanceWait, timeout: Duration, key: RebalanceKey) {
        if self.rebalance.try_complete_else_watch(wait, timeout, [key]).is_err() {
            // Refused only by a shutdown: nothing will come of the rebalance.
            self.remove_if(group, |_| true);
        }
    }

    /// Begins the session of somebody new.
    fn begin_session(self: &Arc<Self>, group: &Arc<Group>, id: StrBytes) {
        let somebody = Somebody { coordinator: self.clone(), group: group.clone(), id: id.clone() };
        let wait = SessionWait::new(somebody, Somebody::end);
        // It counts from when its id is kept below: until then there is no time for it.
        let session =
            self.heartbeat.try_complete_else_watch(wait, Duration::MAX, [(group.number, id.clone())]);
        // Refused only by a shutdown, and then sessions do not matter any more.
        let Some(session) = session.ok().and_then(|session| session.id()) else { return };
        group.state.lock().set_session(&id, session);
        self.go_on(group, &id);
    }

    /// Gives somebody its whole session again, since something was heard of it. Says whether it was not too late.
    ///
    /// The group is locked meanwhile, so that of two that come at once the later one counts. A reset runs no callback.
    fn go_on(&self, group: &Group, id: &StrBytes) -> bool {
        let state = group.state.lock();
        match state.session(id) {
            Some((session, timeout)) => self.heartbeat.reset_timeout(session, timeout),
            // It has not begun yet; or it is gone.
            None => !state.is_gone(id),
        }
    }

    /// Whether a group would be a new one, and there are as many as there may be. Of requests that come at once, one for
    /// each thread may be let in.
    fn is_one_too_many(&self, name: &str) -> bool {
        let groups = self.groups.lock();
        groups.len() >= self.max_groups && !groups.contains_key(name)
    }

    /// Whether somebody who joins takes the place of a member of the same instance, and so is not one more.
    fn takes_an_old_place(&self, group: &str, request: &JoinRequest) -> bool {
        let Some(instance) = &request.instance_id else { return false };
        self.group(group).is_some_and(|group| group.state.lock().has_instance(instance))
    }

    fn group(&self, name: &str) -> Option<Arc<Group>> {
        self.groups.lock().get(name).cloned()
    }

    /// Calls `change` with the state of a group, which is made if there is none.
    fn with_group<R>(&self, name: &str, change: impl FnOnce(&mut State) -> R) -> (Arc<Group>, R) {
        loop {
            let group = {
                let mut groups = self.groups.lock();
                let make = || {
                    let name: Arc<str> = Arc::from(name);
                    let number = self.next_number.fetch_add(1, Ordering::Relaxed);
                    let state = Mutex::new(State::new(self.limits));
                    (name.clone(), Arc::new(Group { name, number, state }))
                };
                match groups.get(name) {
                    Some(group) => group.clone(),
                    None => {
                        let (name, group) = make();
                        groups.insert(name, group.clone());
                        group
                    }
                }
            };
            let mut state = group.state.lock();
            // It may have been removed in between; then another takes its place.
            if state.phase != Phase::Dead {
                let result = change(&mut state);
                drop(state);
                return (group, result);
            }
        }
    }

    fn remove_if_vacant(&self, group: &Arc<Group>) {
        // Looked at first, since the list is for everybody.
        if group.state.lock().is_vacant() {
            self.remove_if(group, State::is_vacant);
        }
    }

    /// Removes a group and ends it, both or neither: no group is dead in the list, where [`Self::with_group`] would find
    /// it again and again.
    fn remove_if(&self, group: &Arc<Group>, is_to_go: impl FnOnce(&State) -> bool) {
        let mut groups = self.groups.lock();
        let mut state = group.state.lock();
        if groups.get(&group.name).is_some_and(|listed| Arc::ptr_eq(listed, group)) && is_to_go(&state) {
            state.close();
            groups.remove(&group.name);
        }
    }

    /// An id for a new member: who it is, for people to read, and something that nobody else has.
    fn new_id(&self, request: &JoinRequest) -> StrBytes {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let name = request.instance_id.as_ref().unwrap_or(&request.client_id);
        StrBytes::from_string(format!("{}-{:016x}-{number}", name.as_str(), self.hasher.hash_one(number)))
    }
}

#[cfg(test)]
mod tests;
