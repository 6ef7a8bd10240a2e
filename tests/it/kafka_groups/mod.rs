//! Groups of consumers over the delayed operations of `kafka`: what Kafka's test of its coordinator under concurrent requests
//! does, fifty groups of twenty-five clients that join, sync, send heartbeats, leave and vanish, in random order.

mod coordinator;

use crate::uptime::clock;
use coordinator::{Coordinator, REBALANCE, SESSION, Slot, State};
use ixion::kafka::ErrorCode;
use ixion::{ManualClock, Resolution};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const GROUPS: usize = 50;
const CLIENTS: usize = 25;
const SECOND: Duration = Duration::from_secs(1);

/// A client that wants to be a member of its group.
struct Client {
    group: usize,
    id: Option<u64>,
    generation: i32,
    wants: Wants,
    waits: Option<Slot>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wants {
    Join,
    Sync,
    Heartbeat,
}

impl Client {
    fn new(group: usize) -> Self {
        Client { group, id: None, generation: 0, wants: Wants::Join, waits: None }
    }

    /// Reads the answer it waits for, if it is there; else sends what comes next.
    fn step(&mut self, coordinator: &Arc<Coordinator>) {
        if let Some(slot) = &self.waits {
            let Some(answer) = slot.lock().unwrap().take() else { return };
            self.waits = None;
            match answer {
                Ok((id, generation)) => {
                    (self.id, self.generation) = (Some(id), generation);
                    self.wants = if self.wants == Wants::Join { Wants::Sync } else { Wants::Heartbeat };
                }
                Err(error) => self.is_refused(error),
            }
        } else if self.wants == Wants::Heartbeat {
            let id = self.id.expect("it is a member");
            if let Err(error) = coordinator.heartbeat(self.group, id, self.generation) {
                self.is_refused(error);
            }
        } else {
            let slot = Slot::default();
            match self.wants {
                Wants::Join => coordinator.join(self.group, self.id, &slot),
                _ => coordinator.sync(self.group, self.id.expect("it has joined"), self.generation, &slot),
            }
            self.waits = Some(slot);
        }
    }

    fn is_refused(&mut self, error: ErrorCode) {
        self.wants = Wants::Join;
        match error {
            ErrorCode::UNKNOWN_MEMBER_ID => self.id = None,
            ErrorCode::REBALANCE_IN_PROGRESS | ErrorCode::ILLEGAL_GENERATION => {}
            other => panic!("{other}"),
        }
    }

    /// Leaves if it is a member, and begins anew.
    fn leave(&mut self, coordinator: &Arc<Coordinator>) {
        if let Some(id) = self.id {
            coordinator.leave(self.group, id);
        }
        *self = Client::new(self.group);
    }
}

/// A generator of xorshift.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) % limit
    }

    /// One of the clients does something.
    fn act(&mut self, clients: &mut [Client], coordinator: &Arc<Coordinator>) {
        let client = &mut clients[self.below(clients.len() as u64) as usize];
        match self.below(100) {
            0 => client.leave(coordinator),
            1 => *client = Client::new(client.group), // vanishes without a word
            _ => client.step(coordinator),
        }
    }
}

struct World {
    clock: ManualClock,
    coordinator: Arc<Coordinator>,
}

impl World {
    fn new() -> Self {
        let clock = clock(Resolution::MILLISECOND);
        World { coordinator: Coordinator::new(GROUPS, &clock), clock }
    }

    fn clients() -> Vec<Client> {
        (0..CLIENTS).flat_map(|_| (0..GROUPS).map(Client::new)).collect()
    }

    fn after(&self, time: Duration) {
        self.clock.advance(time);
        self.coordinator.drive();
    }

    /// Lets all clients go on until every group is stable, with them as its members and nobody else. Whoever has vanished
    /// is gone after a rebalance and a session, and there is one more rebalance for that.
    fn settle(&self, clients: &mut [Client]) {
        let mut members = vec![Vec::new(); GROUPS];
        for _ in 0..3 * (REBALANCE + SESSION).as_secs() {
            clients.iter_mut().for_each(|client| client.step(&self.coordinator));
            self.after(SECOND);
            members.iter_mut().for_each(Vec::clear);
            for client in clients.iter().filter(|client| client.wants == Wants::Heartbeat) {
                members[client.group].extend(client.id);
            }
            members.iter_mut().for_each(|ids| ids.sort_unstable());
            let settled = |group: usize| (State::Stable, members[group].clone());
            if (0..GROUPS).all(|group| members[group].len() == CLIENTS && self.group(group) == settled(group))
            {
                return self.assert_waits(clients.len());
            }
        }
        panic!("the groups do not settle");
    }

    fn group(&self, group: usize) -> (State, Vec<u64>) {
        self.coordinator.inside(group, |inside| (inside.state, inside.ids()))
    }

    /// Nobody sends anything any more: in the end nothing is left.
    fn desert(&self) {
        for _ in 0..3 {
            self.after(REBALANCE);
        }
        for group in 0..GROUPS {
            assert_eq!(self.group(group), (State::Empty, vec![]), "group {group}");
        }
        self.assert_waits(0);
    }

    /// No join or sync is waited for, there is one session for each member, and every request was answered.
    fn assert_waits(&self, members: usize) {
        let Coordinator { joins, syncs, sessions, owed, .. } = &*self.coordinator;
        assert_eq!((joins.len(), syncs.len(), sessions.len()), (0, 0, members));
        assert_eq!((joins.watched(), syncs.watched(), sessions.watched()), (0, 0, members));
        assert_eq!(owed.load(Ordering::Relaxed), 0, "requests without an answer");
    }
}

#[test]
fn groups_settle_after_any_order_of_requests_and_are_empty_when_everybody_has_gone() {
    for seed in 1..=2 {
        let (world, mut clients) = (World::new(), World::clients());
        let mut random = Random::new(seed);
        for _ in 0..200 {
            for _ in 0..100 {
                random.act(&mut clients, &world.coordinator);
            }
            world.after(Duration::from_millis(random.below(2000)));
        }
        world.settle(&mut clients);
        world.desert();
    }
}

#[test]
fn groups_settle_whatever_five_threads_ask_of_them_at_once() {
    let (world, mut clients) = (World::new(), World::clients());
    std::thread::scope(|scope| {
        let threads: Vec<_> = clients
            .chunks_mut(GROUPS * CLIENTS / 5)
            .zip(1..)
            .map(|(clients, seed)| {
                let coordinator = &world.coordinator;
                scope.spawn(move || {
                    let mut random = Random::new(seed);
                    (0..4000).for_each(|_| random.act(clients, coordinator));
                })
            })
            .collect();
        while threads.iter().any(|thread| !thread.is_finished()) {
            world.after(Duration::from_millis(100));
            std::thread::yield_now();
        }
    });
    world.settle(&mut clients);
    world.desert();
}

#[test]
fn a_member_that_goes_silent_is_missed_after_its_session_and_not_before() {
    let world = World::new();
    let mut clients: Vec<Client> = (0..3).map(|_| Client::new(0)).collect();
    let mut now = 0;
    let mut step = |clients: &mut [Client], seconds: u64| {
        for _ in 0..seconds {
            clients.iter_mut().for_each(|client| client.step(&world.coordinator));
            world.after(SECOND);
            now += 1;
        }
    };
    step(&mut clients, 15);
    let state =
        || world.coordinator.inside(0, |inside| (inside.state, inside.generation, inside.ids().len()));
    assert_eq!(state(), (State::Stable, 1, 3));
    world.assert_waits(3);
    clients.truncate(2); // the third was heard of a second ago
    step(&mut clients, SESSION.as_secs() - 2);
    assert_eq!(state(), (State::Stable, 1, 3), "it may still come");
    step(&mut clients, 1);
    assert_eq!(state(), (State::Preparing, 1, 2), "it is missed");
    step(&mut clients, 6);
    assert_eq!(state(), (State::Stable, 2, 2));
    world.assert_waits(2);
}

#[test]
fn a_member_that_sends_heartbeats_and_never_syncs_is_removed_at_the_rebalance_timeout() {
    let world = World::new();
    let coordinator = &world.coordinator;
    let [syncs, never] = [Slot::default(), Slot::default()];
    for slot in [&syncs, &never] {
        coordinator.join(0, None, slot);
    }
    world.after(3 * SECOND); // the initial delay, in which one more came
    assert!(syncs.lock().unwrap().is_none(), "so there is another");
    world.after(3 * SECOND);
    let [syncs, never] =
        [syncs, never].map(|slot| slot.lock().unwrap().take().expect("joined").expect("no error"));
    let slot = Slot::default();
    coordinator.sync(0, syncs.0, syncs.1, &slot);
    assert_eq!(slot.lock().unwrap().take(), Some(Ok(syncs)), "it leads");
    for _ in 1..REBALANCE.as_secs() {
        world.after(SECOND);
        assert_eq!(
            [syncs, never].map(|(id, generation)| coordinator.heartbeat(0, id, generation)),
            [Ok(()); 2]
        );
    }
    world.after(SECOND);
    assert_eq!(world.group(0), (State::Preparing, vec![syncs.0]));
    assert_eq!(coordinator.heartbeat(0, never.0, never.1), Err(ErrorCode::UNKNOWN_MEMBER_ID));
    assert_eq!(coordinator.heartbeat(0, syncs.0, syncs.1), Err(ErrorCode::REBALANCE_IN_PROGRESS));
    world.desert();
}
