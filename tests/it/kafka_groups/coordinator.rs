//! A small coordinator of groups over the delayed operations of `kafka`: joins, syncs, heartbeats and leaves, without
//! protocols, offsets or static members. Whatever happens to a group is decided under its lock; what follows from it, answers,
//! signals and registrations, is done after the lock is released.

use ixion::kafka::heartbeat::{Phase, SessionMember};
use ixion::kafka::join::{InitialDelay, JoinEnd, JoinGroup, Joining, NextStep, next_step};
use ixion::kafka::sync::{SyncGroup, must_expel};
use ixion::kafka::{DelayedHeartbeat, DelayedJoin, DelayedSync, ErrorCode, join, sync};
use ixion::{Clock, DelayedOperation, OperationId, Outcome, Purgatory, Registration, Rejected};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(super) const SESSION: Duration = Duration::from_secs(10);
pub(super) const REBALANCE: Duration = Duration::from_secs(30);
const INITIAL_DELAY: Duration = Duration::from_secs(3);

/// What a request comes to: the member and its generation, or an error.
pub(super) type Answer = Result<(u64, i32), ErrorCode>;

/// Where a client finds its answer.
pub(super) type Slot = Arc<Mutex<Option<Answer>>>;

/// A request that is owed an answer. Whoever drops it owes it still, and is found out.
pub(super) struct Reply {
    slot: Slot,
    owed: Arc<AtomicU64>,
}

impl Reply {
    fn send(self, answer: Answer) {
        assert!(self.slot.lock().unwrap().replace(answer).is_none(), "answered twice");
        self.owed.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Empty,
    Preparing,
    Completing,
    Stable,
}

#[derive(Default)]
struct Member {
    session: Option<OperationId>,
    /// The JoinGroup or SyncGroup request that awaits its answer.
    parked: Option<Reply>,
    has_joined: bool,
    has_synced: bool,
    is_new: bool,
}

impl Member {
    fn phase(&self) -> Phase {
        match (&self.parked, self.is_new) {
            (None, _) => Phase::Live,
            (Some(_), true) => Phase::New,
            (Some(_), false) => Phase::Parked,
        }
    }
}

pub(super) struct Inside {
    pub(super) state: State,
    pub(super) generation: i32,
    arrivals: u64,
    members: BTreeMap<u64, Member>,
}

pub(super) struct Group(Mutex<Inside>);

impl JoinGroup for Group {
    fn join_standing(&self) -> join::Standing {
        self.0.lock().unwrap().joining()
    }
}

impl SyncGroup for Group {
    fn sync_standing(&self) -> sync::Standing {
        self.0.lock().unwrap().syncing()
    }
}

impl Inside {
    fn joining(&self) -> join::Standing {
        let joined = self.members.values().filter(|member| member.has_joined).count();
        match self.state {
            State::Preparing => join::Standing::Joining(Joining {
                members: self.members.len(),
                joined,
                pending: 0,
                arrivals: self.arrivals,
            }),
            _ => join::Standing::Over,
        }
    }

    fn syncing(&self) -> sync::Standing {
        let unsynced = self.members.values().filter(|member| !member.has_synced).count();
        match self.state {
            State::Completing | State::Stable => sync::Standing::Generation { id: self.generation, unsynced },
            State::Empty | State::Preparing => sync::Standing::NoGeneration,
        }
    }

    pub(super) fn ids(&self) -> Vec<u64> {
        self.members.keys().copied().collect()
    }

    /// The group takes members in from now on. Parked syncs are told so; the sessions of those members stay paused, since
    /// the rebalance ends with them or without them.
    fn rebalance(&mut self, todo: &mut Vec<Todo>) {
        let delay =
            (self.state == State::Empty).then(|| InitialDelay::new(INITIAL_DELAY, REBALANCE, self.arrivals));
        self.state = State::Preparing;
        for member in self.members.values_mut().filter(|member| !member.has_joined) {
            let parked = member.parked.take();
            todo.extend(parked.map(|reply| Todo::Reply(reply, Err(ErrorCode::REBALANCE_IN_PROGRESS))));
        }
        todo.extend([Todo::WaitForJoins(delay), Todo::SignalSync]);
    }

    /// Removes a member, and does what follows from that.
    fn remove(&mut self, id: u64, todo: &mut Vec<Todo>) -> bool {
        let Some(member) = self.members.remove(&id) else { return false };
        todo.extend(member.parked.map(|reply| Todo::Reply(reply, Err(ErrorCode::UNKNOWN_MEMBER_ID))));
        todo.push(Todo::SignalSession(id));
        match self.state {
            State::Preparing => todo.push(Todo::SignalJoin),
            _ if self.members.is_empty() => {
                self.state = State::Empty;
                todo.push(Todo::SignalSync);
            }
            _ => {
                self.members.values_mut().for_each(|member| member.has_joined = false);
                self.rebalance(todo);
            }
        }
        true
    }
}

/// What is to be done once the group's lock is released.
enum Todo {
    Reply(Reply, Answer),
    WaitForJoins(Option<InitialDelay>),
    WaitForSyncs(i32),
    BeginSession(u64),
    SignalJoin,
    SignalSync,
    SignalSession(u64),
}

pub(super) struct InGroup(Arc<Group>, u64);

impl SessionMember for InGroup {
    fn is_gone(&self) -> bool {
        !self.0.0.lock().unwrap().members.contains_key(&self.1)
    }
}

type Answers<T, E> = Box<dyn FnOnce(E, T) + Send>;
type Joins = DelayedJoin<Arc<Group>, Answers<Arc<Group>, JoinEnd>>;
type Syncs = DelayedSync<Arc<Group>, Answers<Arc<Group>, Outcome>>;
type Sessions = DelayedHeartbeat<InGroup, Answers<InGroup, Outcome>>;

pub(super) struct Coordinator {
    groups: Vec<Arc<Group>>,
    pub(super) joins: Purgatory<usize, Joins>,
    pub(super) syncs: Purgatory<usize, Syncs>,
    pub(super) sessions: Purgatory<(usize, u64), Sessions>,
    next_member: AtomicU64,
    /// How many requests are owed an answer.
    pub(super) owed: Arc<AtomicU64>,
}

impl Coordinator {
    pub(super) fn new(groups: usize, clock: &(impl Clock + Clone + 'static)) -> Arc<Self> {
        let inside = || Inside { state: State::Empty, generation: 0, arrivals: 0, members: BTreeMap::new() };
        Arc::new(Coordinator {
            groups: (0..groups).map(|_| Arc::new(Group(Mutex::new(inside())))).collect(),
            joins: Purgatory::builder("Join").clock(clock.clone()).hash_seed(1).build(),
            syncs: Purgatory::builder("Sync").clock(clock.clone()).hash_seed(2).build(),
            sessions: Purgatory::builder("Heartbeat").clock(clock.clone()).hash_seed(3).build(),
            next_member: AtomicU64::new(1),
            owed: Arc::default(),
        })
    }

    pub(super) fn inside<T>(&self, group: usize, look: impl FnOnce(&Inside) -> T) -> T {
        look(&self.groups[group].0.lock().unwrap())
    }

    pub(super) fn drive(&self) {
        while self.joins.expire().more || self.syncs.expire().more || self.sessions.expire().more {}
    }

    /// Does something under the group's lock, and what follows from it after that.
    fn with<T>(self: &Arc<Self>, group: usize, act: impl FnOnce(&mut Inside, &mut Vec<Todo>) -> T) -> T {
        let mut todo = Vec::new();
        let result = act(&mut self.groups[group].0.lock().unwrap(), &mut todo);
        for next in todo {
            self.run(group, next);
        }
        result
    }

    fn run(self: &Arc<Self>, group: usize, todo: Todo) {
        match todo {
            Todo::Reply(reply, answer) => reply.send(answer),
            Todo::WaitForJoins(delay) => self.wait_for_joins(group, delay),
            Todo::WaitForSyncs(generation) => self.wait_for_syncs(group, generation),
            Todo::BeginSession(id) => self.begin_session(group, id),
            Todo::SignalJoin => _ = self.joins.check_and_complete(&group),
            Todo::SignalSync => _ = self.syncs.check_and_complete(&group),
            Todo::SignalSession(id) => _ = self.sessions.check_and_complete(&(group, id)),
        }
    }

    fn reply(&self, slot: &Slot) -> Reply {
        self.owed.fetch_add(1, Ordering::Relaxed);
        Reply { slot: Arc::clone(slot), owed: Arc::clone(&self.owed) }
    }

    /// Something is heard of a member. A reset runs no look and no callback, so the group's lock may be held.
    fn hear(&self, member: &Member) -> bool {
        let timeout = member.phase().timeout(SESSION);
        member.session.is_none_or(|session| self.sessions.reset_timeout(session, timeout))
    }

    pub(super) fn join(self: &Arc<Self>, group: usize, id: Option<u64>, slot: &Slot) {
        let reply = self.reply(slot);
        self.with(group, |inside, todo| {
            let id = id.unwrap_or_else(|| {
                let id = self.next_member.fetch_add(1, Ordering::Relaxed);
                inside.members.insert(id, Member { is_new: true, ..Member::default() });
                inside.arrivals += 1;
                todo.push(Todo::BeginSession(id));
                id
            });
            let Some(member) = inside.members.get_mut(&id) else {
                return todo.push(Todo::Reply(reply, Err(ErrorCode::UNKNOWN_MEMBER_ID)));
            };
            let before = member.parked.replace(reply);
            todo.extend(before.map(|before| Todo::Reply(before, Err(ErrorCode::UNKNOWN_MEMBER_ID))));
            if !self.hear(member) {
                let reply = member.parked.take().expect("it is parked");
                return todo.push(Todo::Reply(reply, Err(ErrorCode::UNKNOWN_MEMBER_ID)));
            }
            if inside.state != State::Preparing {
                inside.members.values_mut().for_each(|member| member.has_joined = false);
            }
            inside.members.get_mut(&id).expect("it is there").has_joined = true;
            match inside.state {
                State::Preparing => todo.push(Todo::SignalJoin),
                _ => inside.rebalance(todo),
            }
        });
    }

    pub(super) fn sync(self: &Arc<Self>, group: usize, id: u64, generation: i32, slot: &Slot) {
        let reply = self.reply(slot);
        self.with(group, |inside, todo| {
            let leader = inside.members.keys().next().copied();
            let refused = inside.refuses(id, generation);
            let Some(member) = inside.members.get_mut(&id).filter(|_| refused.is_none()) else {
                let error = refused.unwrap_or(ErrorCode::UNKNOWN_MEMBER_ID);
                return todo.push(Todo::Reply(reply, Err(error)));
            };
            member.has_synced = true;
            member.parked = Some(reply);
            let is_leader = leader == Some(id);
            if inside.state == State::Completing && !is_leader {
                self.hear(&inside.members[&id]);
            } else {
                inside.state = State::Stable;
                for (id, member) in &mut inside.members {
                    let parked = member.parked.take();
                    todo.extend(parked.map(|reply| Todo::Reply(reply, Ok((*id, generation)))));
                    self.hear(member);
                }
            }
            todo.push(Todo::SignalSync);
        });
    }

    pub(super) fn heartbeat(
        self: &Arc<Self>,
        group: usize,
        id: u64,
        generation: i32,
    ) -> Result<(), ErrorCode> {
        self.with(group, |inside, _| match inside.members.get(&id) {
            Some(member) if self.hear(member) => inside.refuses(id, generation).map_or(Ok(()), Err),
            _ => Err(ErrorCode::UNKNOWN_MEMBER_ID),
        })
    }

    pub(super) fn leave(self: &Arc<Self>, group: usize, id: u64) -> bool {
        self.with(group, |inside, todo| inside.remove(id, todo))
    }

    fn wait_for_joins(self: &Arc<Self>, group: usize, delay: Option<InitialDelay>) {
        let this = Arc::clone(self);
        let answer: Answers<_, _> = Box::new(move |end, _| match end {
            JoinEnd::Again(delay) => this.wait_for_joins(group, Some(delay)),
            JoinEnd::Over(_) => this.next_generation(group),
        });
        let on = Arc::clone(&self.groups[group]);
        let (op, timeout) = match delay {
            Some(delay) => (DelayedJoin::initial(on, delay, answer), delay.timeout()),
            None => (DelayedJoin::new(on, answer), REBALANCE),
        };
        let _ = open(self.joins.try_complete_else_watch(op, timeout, [group]));
    }

    fn next_generation(self: &Arc<Self>, group: usize) {
        self.with(group, |inside, todo| {
            let late: Vec<u64> =
                inside.members.iter().filter(|(_, member)| !member.has_joined).map(|(id, _)| *id).collect();
            for id in late {
                inside.members.remove(&id);
                todo.push(Todo::SignalSession(id));
            }
            match next_step(inside.joining()) {
                NextStep::Empty => inside.state = State::Empty,
                NextStep::Generation => {
                    inside.state = State::Completing;
                    inside.generation += 1;
                    for (id, member) in &mut inside.members {
                        (member.has_joined, member.has_synced, member.is_new) = (false, false, false);
                        let reply = member.parked.take().expect("it has joined");
                        todo.push(Todo::Reply(reply, Ok((*id, inside.generation))));
                        self.hear(member);
                    }
                    todo.push(Todo::WaitForSyncs(inside.generation));
                }
                step => panic!("{step:?} of a group without static members"),
            }
        });
    }

    fn wait_for_syncs(self: &Arc<Self>, group: usize, generation: i32) {
        let this = Arc::clone(self);
        let answer: Answers<_, _> = Box::new(move |outcome, _| {
            this.with(group, |inside, todo| {
                if must_expel(outcome, inside.syncing(), generation) {
                    let late = inside.members.iter().filter(|(_, member)| !member.has_synced);
                    let late: Vec<u64> = late.map(|(id, _)| *id).collect();
                    for id in late {
                        inside.remove(id, todo);
                    }
                }
            });
        });
        let op = DelayedSync::new(Arc::clone(&self.groups[group]), generation, answer);
        let _ = open(self.syncs.try_complete_else_watch(op, REBALANCE, [group]));
    }

    fn begin_session(self: &Arc<Self>, group: usize, id: u64) {
        let this = Arc::clone(self);
        let answer: Answers<_, _> = Box::new(move |outcome, InGroup(_, id)| {
            if outcome == Outcome::Expired {
                this.leave(group, id);
            }
        });
        let op = DelayedHeartbeat::new(InGroup(Arc::clone(&self.groups[group]), id), answer);
        let timeout = Phase::New.timeout(SESSION);
        let session = open(self.sessions.try_complete_else_watch(op, timeout, [(group, id)])).id();
        // What was heard before the session had begun counts now.
        self.with(group, |inside, _| {
            if let Some(member) = inside.members.get_mut(&id) {
                member.session = session;
                self.hear(member);
            }
        });
    }
}

impl Inside {
    /// Why a request of a member in a generation is refused.
    fn refuses(&self, id: u64, generation: i32) -> Option<ErrorCode> {
        if !self.members.contains_key(&id) {
            Some(ErrorCode::UNKNOWN_MEMBER_ID)
        } else if generation != self.generation {
            Some(ErrorCode::ILLEGAL_GENERATION)
        } else {
            (self.state == State::Preparing).then_some(ErrorCode::REBALANCE_IN_PROGRESS)
        }
    }
}

fn open<O: DelayedOperation>(registration: Result<Registration, Rejected<O>>) -> Registration {
    registration.expect("it is open")
}
