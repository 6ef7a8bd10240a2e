//! Groups on a clock that is moved by hand.

use std::collections::BTreeMap;

use bytes::Bytes;
use ixion::ManualClock;
use tokio::sync::oneshot::{self, Receiver};

use super::*;

const SESSION: Duration = Duration::from_secs(10);
const REBALANCE: Duration = Duration::from_secs(30);
const DELAY: Duration = Duration::from_secs(3);
const MOMENT: Duration = Duration::from_millis(1);

/// A group "g", and whoever joins it.
struct Bench {
    clock: ManualClock,
    coordinator: Arc<Coordinator>,
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

impl Bench {
    fn new(initial_delay: Duration) -> Bench {
        let clock = ManualClock::new();
        let config =
            Config { group_initial_rebalance_delay: initial_delay, group_max_size: 5, ..Config::default() };
        Bench { coordinator: Arc::new(Coordinator::new(&config, clock.clone())), clock }
    }

    /// Lets time pass, from one deadline to the next: a timer that is armed on the way counts from there.
    fn pass(&self, time: Duration) {
        let Coordinator { rebalance, heartbeat, .. } = &*self.coordinator;
        let mut left = time;
        loop {
            while rebalance.expire().more || heartbeat.expire().more {}
            if left.is_zero() {
                return;
            }
            let next = [rebalance.time_to_next(), heartbeat.time_to_next()].into_iter().flatten().min();
            let step = next.map_or(left, |next| next.max(MOMENT).min(left));
            self.clock.advance(step);
            left -= step;
        }
    }

    fn send(&self, request: JoinRequest) -> Receiver<Joined> {
        let (sender, receiver) = oneshot::channel();
        self.coordinator.join("g", request, sender);
        receiver
    }

    /// Somebody new, who is not told its id first.
    fn comes(&self, name: &str) -> Receiver<Joined> {
        self.send(somebody(name))
    }

    /// A member joins once more.
    fn rejoins(&self, joined: &Joined) -> Receiver<Joined> {
        self.send(JoinRequest { member_id: joined.member_id.clone(), ..somebody("again") })
    }

    fn sync(&self, joined: &Joined, assignments: &[(&StrBytes, &'static str)]) -> Receiver<Synced> {
        let (sender, receiver) = oneshot::channel();
        let assignments = assignments
            .iter()
            .map(|(id, assignment)| ((*id).clone(), Bytes::from_static(assignment.as_bytes())));
        let request = SyncRequest {
            identity: identity(joined),
            assignments: assignments.collect(),
            ..SyncRequest::default()
        };
        self.coordinator.sync("g", request, sender);
        receiver
    }

    fn beats(&self, joined: &Joined) -> ErrorCode {
        self.coordinator.heartbeat("g", &identity(joined))
    }

    fn leaves(&self, joined: &Joined) -> ErrorCode {
        self.coordinator.leave("g", &joined.member_id, None)
    }

    /// A group of so many members that are all stable. The leader is the first.
    fn stable(&self, members: usize) -> Vec<Joined> {
        let waiting: Vec<_> = (0..members).map(|number| self.comes(&format!("m{number}"))).collect();
        self.pass(2 * DELAY);
        let mut joined: Vec<Joined> = waiting.into_iter().map(now).collect();
        joined.sort_by_key(|member| member.member_id != member.leader);
        for member in joined.iter().rev() {
            let synced = self.sync(member, &[]);
            assert!(member.member_id != member.leader || now(synced).error.is_none());
        }
        joined
    }

    /// What the books and the lists hold when nobody is left.
    fn assert_nothing_is_kept(&self) {
        let coordinator = &self.coordinator;
        assert_eq!((coordinator.rebalance.len(), coordinator.rebalance.watched()), (0, 0));
        assert_eq!((coordinator.heartbeat.len(), coordinator.heartbeat.watched()), (0, 0));
        assert_eq!(coordinator.sizes(), (0, 0));
    }
}

fn somebody(name: &str) -> JoinRequest {
    JoinRequest {
        client_id: text(name),
        session_timeout: SESSION,
        rebalance_timeout: REBALANCE,
        protocol_type: text("consumer"),
        protocols: vec![(text("range"), Bytes::from_static(b"about"))],
        ..JoinRequest::default()
    }
}

fn identity(joined: &Joined) -> Identity {
    Identity { member_id: joined.member_id.clone(), instance_id: None, generation: joined.generation }
}

/// An answer that must be there.
#[track_caller]
fn now<A>(mut receiver: Receiver<A>) -> A {
    receiver.try_recv().expect("it was answered")
}

/// Whether there is no answer yet.
fn waits<A>(receiver: &mut Receiver<A>) -> bool {
    receiver.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Empty)
}

#[test]
fn a_new_group_waits_for_its_first_delay_and_no_longer() {
    let bench = Bench::new(DELAY);
    let mut alone = bench.comes("alone");
    bench.pass(DELAY - MOMENT);
    assert!(waits(&mut alone));
    bench.pass(MOMENT);
    let joined = now(alone);
    assert_eq!((joined.error, joined.generation), (ErrorCode::NONE, 1));
    assert_eq!(joined.leader, joined.member_id);
    assert_eq!(joined.members, [(joined.member_id.clone(), None, Bytes::from_static(b"about"))]);
    assert_eq!((joined.protocol_type, joined.protocol), (Some(text("consumer")), Some(text("range"))));
}

#[test]
fn the_first_delay_goes_on_while_others_come_but_not_beyond_the_rebalance_timeout() {
    let bench = Bench::new(DELAY);
    let mut first = bench.comes("first");
    bench.pass(DELAY - MOMENT);
    let mut second = bench.comes("second");
    bench.pass(DELAY);
    assert!(waits(&mut first) && waits(&mut second), "somebody has come");
    bench.pass(MOMENT);
    assert_eq!(now(first).members.len() + now(second).members.len(), 2, "the leader has the list");

    // Somebody comes whenever the time is nearly up.
    let bench = Bench::new(Duration::from_secs(8));
    let mut all = vec![bench.comes("m0")];
    for number in 1..5 {
        bench.pass(Duration::from_millis(7500));
        if number < 4 {
            all.push(bench.comes(&format!("m{number}")));
            assert!(waits(&mut all[0]));
        }
    }
    let answered = all.into_iter().map(now).filter(|joined| joined.error.is_none()).count();
    assert_eq!(answered, 4, "after {REBALANCE:?} in all");
}

#[test]
fn without_a_first_delay_somebody_alone_is_answered_at_once() {
    let bench = Bench::new(Duration::ZERO);
    assert_eq!(now(bench.comes("alone")).generation, 1);
}

#[test]
fn somebody_who_needs_an_id_comes_twice() {
    let bench = Bench::new(Duration::ZERO);
    let request = JoinRequest { needs_member_id: true, ..somebody("client") };
    let told = now(bench.send(request.clone()));
    assert_eq!((told.error, told.generation), (MEMBER_ID_REQUIRED, -1));
    assert!(told.member_id.as_str().starts_with("client-"));
    assert_eq!(bench.coordinator.sizes(), (1, 0), "an id makes no member");
    let joined = now(bench.send(JoinRequest { member_id: told.member_id.clone(), ..request }));
    assert_eq!((joined.error, joined.generation, &joined.member_id), (ErrorCode::NONE, 1, &told.member_id));
}

#[test]
fn an_id_that_nobody_comes_with_is_forgotten_after_a_session() {
    let bench = Bench::new(Duration::ZERO);
    let request = JoinRequest { needs_member_id: true, ..somebody("client") };
    let told = now(bench.send(request.clone()));
    bench.pass(SESSION);
    bench.assert_nothing_is_kept();
    let late = now(bench.send(JoinRequest { member_id: told.member_id, ..request }));
    assert_eq!(late.error, UNKNOWN_MEMBER_ID);
}

#[test]
fn a_rebalance_waits_for_ids_that_were_given_out() {
    let bench = Bench::new(Duration::ZERO);
    let members = bench.stable(1);
    let request = JoinRequest { needs_member_id: true, ..somebody("second") };
    let told = now(bench.send(request.clone()));
    let mut leader = bench.rejoins(&members[0]);
    assert!(waits(&mut leader), "there is an id under way");
    let second = bench.send(JoinRequest { member_id: told.member_id, ..request });
    assert_eq!((now(leader).generation, now(second).generation), (2, 2));
}

#[test]
fn the_leader_says_who_gets_what() {
    let bench = Bench::new(DELAY);
    let waiting = [bench.comes("a"), bench.comes("b"), bench.comes("c")];
    bench.pass(2 * DELAY);
    let joined = waiting.map(now);
    let (leader, rest): (Vec<&Joined>, Vec<&Joined>) =
        joined.iter().partition(|member| member.leader == member.member_id);
    let [leader] = leader[..] else { panic!("one leader") };
    assert!(rest.iter().all(|member| member.members.is_empty() && member.leader == leader.member_id));
    let mut early = bench.sync(rest[0], &[(&rest[0].member_id, "not from a leader")]);
    assert!(waits(&mut early), "the leader's has not come");
    let synced = bench.sync(leader, &[(&leader.member_id, "one"), (&rest[0].member_id, "two")]);
    assert_eq!((&now(synced).assignment[..], &now(early).assignment[..]), (&b"one"[..], &b"two"[..]));
    let late = now(bench.sync(rest[1], &[]));
    assert_eq!((late.error, late.assignment), (ErrorCode::NONE, Bytes::new()), "it was left out");
    assert_eq!((late.protocol_type, late.protocol), (Some(text("consumer")), Some(text("range"))));
    assert_eq!(bench.coordinator.rebalance.len(), 0, "all have synchronized");
}

#[test]
fn a_newcomer_makes_the_others_join_again() {
    let bench = Bench::new(Duration::ZERO);
    let members = bench.stable(1);
    assert_eq!(bench.beats(&members[0]), ErrorCode::NONE);
    let mut newcomer = bench.comes("newcomer");
    assert_eq!(bench.beats(&members[0]), REBALANCE_IN_PROGRESS);
    assert_eq!(now(bench.sync(&members[0], &[])).error, REBALANCE_IN_PROGRESS);
    assert!(waits(&mut newcomer));
    let again = now(bench.rejoins(&members[0]));
    let newcomer = now(newcomer);
    assert_eq!((again.generation, newcomer.generation), (2, 2));
    assert_eq!(again.leader, again.member_id, "it goes on leading");
    assert_eq!(bench.beats(&members[0]), ILLEGAL_GENERATION);
    assert_eq!(bench.beats(&newcomer), ErrorCode::NONE, "before it has synchronized, too");
}

#[test]
fn who_does_not_join_again_is_dropped_when_the_time_is_up() {
    let bench = Bench::new(DELAY);
    let members = bench.stable(3);
    let mut first = bench.rejoins(&members[0]);
    // The others are alive, but do not hear.
    for _ in 0..5 {
        assert_eq!(bench.beats(&members[1]), REBALANCE_IN_PROGRESS);
        assert_eq!(bench.beats(&members[2]), REBALANCE_IN_PROGRESS);
        bench.pass(REBALANCE / 5 - MOMENT);
    }
    assert!(waits(&mut first));
    bench.pass(5 * MOMENT);
    let first = now(first);
    assert_eq!((first.generation, first.members.len()), (2, 1));
    assert_eq!(bench.beats(&members[1]), UNKNOWN_MEMBER_ID);
}

#[test]
fn who_does_not_synchronize_is_evicted_when_the_time_is_up() {
    let bench = Bench::new(Duration::ZERO);
    let first = bench.comes("first");
    let joined = now(first);
    for _ in 0..5 {
        assert_eq!(bench.beats(&joined), ErrorCode::NONE);
        bench.pass(REBALANCE / 5 - MOMENT);
    }
    assert_eq!(bench.beats(&joined), ErrorCode::NONE);
    bench.pass(5 * MOMENT);
    assert_eq!(bench.beats(&joined), UNKNOWN_MEMBER_ID);
    bench.assert_nothing_is_kept();
}

#[test]
fn a_rebalance_that_comes_before_the_leader_sends_those_who_wait_back() {
    let bench = Bench::new(DELAY);
    let waiting = [bench.comes("a"), bench.comes("b")];
    bench.pass(2 * DELAY);
    let joined = waiting.map(now);
    let follower = joined.iter().find(|member| member.leader != member.member_id).expect("there is one");
    let synced = bench.sync(follower, &[]);
    let _newcomer = bench.comes("c");
    assert_eq!(now(synced).error, REBALANCE_IN_PROGRESS);
}

#[test]
fn a_member_that_is_silent_is_evicted_after_its_session_and_not_before() {
    let bench = Bench::new(Duration::ZERO);
    let members = bench.stable(1);
    for _ in 0..3 {
        bench.pass(SESSION - MOMENT);
        assert_eq!(bench.beats(&members[0]), ErrorCode::NONE);
    }
    bench.pass(SESSION - MOMENT);
    assert_eq!(bench.coordinator.sizes(), (1, 1));
    bench.pass(MOMENT);
    assert_eq!(bench.beats(&members[0]), UNKNOWN_MEMBER_ID);
    bench.assert_nothing_is_kept();
    let stats = bench.coordinator.heartbeat.stats();
    assert_eq!(stats.expired, 1);
    assert_eq!(stats.registered, stats.satisfied + stats.expired);
}

#[test]
fn a_member_that_waits_for_the_group_needs_no_heartbeat() {
    let bench = Bench::new(DELAY);
    let members = bench.stable(2);
    let mut waiting = bench.rejoins(&members[0]);
    bench.pass(SESSION - MOMENT);
    assert_eq!(bench.beats(&members[1]), REBALANCE_IN_PROGRESS);
    bench.pass(SESSION - MOMENT);
    assert!(waits(&mut waiting), "it was not evicted");
    // The other one is, and so the rebalance is over.
    bench.pass(MOMENT);
    let joined = now(waiting);
    assert_eq!((joined.error, joined.members.len()), (ErrorCode::NONE, 1));
    // From here on it must send heartbeats again.
    bench.pass(SESSION);
    assert_eq!(bench.beats(&joined), UNKNOWN_MEMBER_ID);
}

#[test]
fn leaving_does_not_wait_for_the_session() {
    let bench = Bench::new(DELAY);
    let members = bench.stable(2);
    assert_eq!(bench.leaves(&members[1]), ErrorCode::NONE);
    assert_eq!(bench.leaves(&members[1]), UNKNOWN_MEMBER_ID, "it has left");
    assert_eq!(bench.beats(&members[0]), REBALANCE_IN_PROGRESS);
    let again = now(bench.rejoins(&members[0]));
    assert_eq!((again.error, again.members.len()), (ErrorCode::NONE, 1));
    assert_eq!(bench.leaves(&again), ErrorCode::NONE);
    bench.assert_nothing_is_kept();
}

#[test]
fn the_last_who_leaves_during_a_rebalance_ends_it() {
    let bench = Bench::new(DELAY);
    let members = bench.stable(2);
    let waiting = bench.rejoins(&members[0]);
    assert_eq!(bench.leaves(&members[0]), ErrorCode::NONE);
    assert_eq!(now(waiting).error, UNKNOWN_MEMBER_ID);
    assert_eq!(bench.leaves(&members[1]), ErrorCode::NONE);
    bench.assert_nothing_is_kept();
}

#[test]
fn whoever_asks_again_for_what_it_should_know_is_told_again() {
    let bench = Bench::new(DELAY);
    let members = bench.stable(2);
    let again = now(bench.rejoins(&members[1]));
    assert_eq!(again, members[1], "no rebalance, the same generation");
    assert_eq!(bench.beats(&members[0]), ErrorCode::NONE);
    // The leader does not ask without a reason.
    let mut leader = bench.rejoins(&members[0]);
    assert!(waits(&mut leader));
    // And somebody who has changed is not told what it was.
    let bench = Bench::new(DELAY);
    let members = bench.stable(2);
    let protocols = vec![(text("range"), Bytes::from_static(b"other topics"))];
    let changed = JoinRequest { member_id: members[1].member_id.clone(), protocols, ..somebody("changed") };
    assert!(waits(&mut bench.send(changed)));
    assert_eq!(bench.beats(&members[0]), REBALANCE_IN_PROGRESS);
}

#[test]
fn the_protocol_is_one_that_all_have_and_most_prefer() {
    let bench = Bench::new(DELAY);
    let with = |names: &[&str]| {
        let protocols = names.iter().map(|name| (text(name), Bytes::new())).collect();
        JoinRequest { protocols, ..somebody("m") }
    };
    let waiting = [with(&["x", "a", "b"]), with(&["b", "a"]), with(&["a", "b"]), with(&["b", "a", "y"])]
        .map(|request| bench.send(request));
    assert_eq!(now(bench.send(with(&["x", "y"]))).error, INCONSISTENT_GROUP_PROTOCOL);
    let other_type = JoinRequest { protocol_type: text("connect"), ..with(&["a"]) };
    assert_eq!(now(bench.send(other_type)).error, INCONSISTENT_GROUP_PROTOCOL);
    bench.pass(2 * DELAY);
    let chosen: Vec<_> = waiting.map(now).into_iter().map(|joined| joined.protocol).collect();
    // Of those that all have, two like "b" best, one "a", and the first one "a", too.
    assert!(chosen.iter().all(|protocol| *protocol == chosen[0] && protocol.is_some()));
    assert!(["a", "b"].contains(&chosen[0].as_ref().expect("chosen").as_str()));
}

#[test]
fn what_makes_no_sense_has_its_own_errors() {
    let bench = Bench::new(Duration::ZERO);
    let refused = |group: &str, request: JoinRequest| {
        let (sender, receiver) = oneshot::channel();
        bench.coordinator.join(group, request, sender);
        now(receiver).error
    };
    assert_eq!(refused("", somebody("m")), INVALID_GROUP_ID);
    for session_timeout in [Duration::ZERO, Duration::from_millis(5999), Duration::from_millis(1_800_001)] {
        let request = JoinRequest { session_timeout, ..somebody("m") };
        assert_eq!(refused("g", request), INVALID_SESSION_TIMEOUT);
    }
    let unknown = JoinRequest { member_id: text("nobody"), ..somebody("m") };
    assert_eq!(refused("g", unknown.clone()), UNKNOWN_MEMBER_ID);
    let without = JoinRequest { protocols: Vec::new(), ..somebody("m") };
    assert_eq!(refused("g", without), INCONSISTENT_GROUP_PROTOCOL);
    bench.assert_nothing_is_kept();

    let members = bench.stable(1);
    assert_eq!(refused("g", unknown), UNKNOWN_MEMBER_ID);
    let stranger = Joined { member_id: text("nobody"), ..members[0].clone() };
    let former = Joined { generation: 0, ..members[0].clone() };
    assert_eq!((bench.beats(&stranger), bench.beats(&former)), (UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION));
    assert_eq!(now(bench.sync(&stranger, &[])).error, UNKNOWN_MEMBER_ID);
    assert_eq!(now(bench.sync(&former, &[])).error, ILLEGAL_GENERATION);
    let (sender, receiver) = oneshot::channel();
    let other =
        SyncRequest { identity: identity(&members[0]), protocol: Some(text("sticky")), ..Default::default() };
    bench.coordinator.sync("g", other, sender);
    assert_eq!(now(receiver).error, INCONSISTENT_GROUP_PROTOCOL);
}

#[test]
fn a_group_has_only_so_many_members() {
    let bench = Bench::new(DELAY);
    let waiting: Vec<_> = (0..6).map(|number| bench.comes(&format!("m{number}"))).collect();
    bench.pass(REBALANCE);
    let errors: Vec<ErrorCode> = waiting.into_iter().map(|joined| now(joined).error).collect();
    assert_eq!(errors[..5], [ErrorCode::NONE; 5]);
    assert_eq!(errors[5], GROUP_MAX_SIZE_REACHED);
}

#[test]
fn an_instance_that_comes_back_takes_the_place_of_the_former_one() {
    let bench = Bench::new(Duration::ZERO);
    let request = || JoinRequest { instance_id: Some(text("i")), needs_member_id: true, ..somebody("m") };
    let first = now(bench.send(request()));
    assert_eq!(first.error, ErrorCode::NONE, "it comes once, it has a name already");
    assert_eq!(first.members[0].1, Some(text("i")));
    let second = now(bench.send(request()));
    assert_eq!((second.generation, second.members.len()), (2, 1));
    assert_ne!(second.member_id, first.member_id);
    let by = |joined: &Joined| Identity { instance_id: Some(text("i")), ..identity(joined) };
    assert_eq!(bench.coordinator.heartbeat("g", &by(&first)), FENCED_INSTANCE_ID);
    assert_eq!(bench.coordinator.heartbeat("g", &by(&second)), ErrorCode::NONE);
    let leave = |id: &StrBytes, instance| bench.coordinator.leave("g", id, Some(&text(instance)));
    assert_eq!(leave(&first.member_id, "i"), FENCED_INSTANCE_ID);
    assert_eq!(leave(&text(""), "j"), UNKNOWN_MEMBER_ID);
    assert_eq!(leave(&text(""), "i"), ErrorCode::NONE, "the instance is name enough");
    bench.assert_nothing_is_kept();
}

#[test]
fn offsets_are_kept_for_members_and_for_those_who_are_in_no_group() {
    let bench = Bench::new(Duration::ZERO);
    let commit = |identity: &Identity, offset| {
        let committed = Committed { offset, leader_epoch: 0, note: StrBytes::default() };
        bench.coordinator.commit("g", identity, |offsets| offsets.commit(&text("t"), 1, committed))
    };
    let committed = || bench.coordinator.committed("g", &text("t"), 1).map(|committed| committed.offset);
    let nobody = Identity { generation: -1, ..Identity::default() };
    assert_eq!(commit(&Identity { generation: 3, ..nobody.clone() }, 1), ILLEGAL_GENERATION);
    bench.assert_nothing_is_kept();
    assert_eq!((commit(&nobody, 5), committed()), (ErrorCode::NONE, Some(5)));

    let members = bench.stable(1);
    assert_eq!(commit(&nobody, 6), UNKNOWN_MEMBER_ID, "the group is not empty");
    assert_eq!((commit(&identity(&members[0]), 7), committed()), (ErrorCode::NONE, Some(7)));
    let former = Identity { generation: 0, ..identity(&members[0]) };
    assert_eq!(commit(&former, 8), ILLEGAL_GENERATION);

    // While others join, what was done in this generation may be committed; in the next one it is too late.
    let newcomer = bench.comes("newcomer");
    assert_eq!((commit(&identity(&members[0]), 9), committed()), (ErrorCode::NONE, Some(9)));
    let again = now(bench.rejoins(&members[0]));
    assert_eq!(commit(&identity(&again), 10), REBALANCE_IN_PROGRESS, "nobody knows who has what");

    // They outlive the members, but not the topic.
    assert_eq!((bench.leaves(&again), bench.leaves(&now(newcomer))), (ErrorCode::NONE, ErrorCode::NONE));
    assert_eq!(bench.coordinator.sizes(), (1, 0));
    assert_eq!(committed(), Some(9));
    bench.coordinator.forget("t");
    bench.assert_nothing_is_kept();
}

#[test]
fn a_commit_is_a_sign_of_life() {
    let bench = Bench::new(Duration::ZERO);
    let members = bench.stable(1);
    for _ in 0..3 {
        bench.pass(SESSION - MOMENT);
        let error = bench.coordinator.commit("g", &identity(&members[0]), |_| {});
        assert_eq!(error, ErrorCode::NONE);
    }
}

#[test]
fn a_shutdown_ends_everybodys_waiting() {
    let bench = Bench::new(DELAY);
    let mut waiting = bench.comes("m");
    bench.coordinator.shut_down();
    assert_eq!(waiting.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    let mut late = bench.comes("late");
    assert_eq!(late.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    assert_eq!((bench.coordinator.rebalance.len(), bench.coordinator.heartbeat.len()), (0, 0));
}

/// Whatever members do in whatever order: one generation is answered alike to all, and in the end nothing is kept.
#[test]
fn a_crowd_that_comes_and_goes_at_random_leaves_nothing_behind() {
    for seed in 1..100u64 {
        let bench = Bench::new(if seed % 2 == 0 { DELAY } else { Duration::ZERO });
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut next = |below: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random % below as u64) as usize
        };
        // Offsets keep the group when nobody is in it, so that its generations go on.
        let nobody = Identity { generation: -1, ..Identity::default() };
        let committed = Committed { offset: 1, leader_epoch: 0, note: StrBytes::default() };
        bench.coordinator.commit("g", &nobody, |offsets| offsets.commit(&text("t"), 0, committed));
        let mut joining: Vec<Receiver<Joined>> = Vec::new();
        let mut joined: Vec<Joined> = Vec::new();
        let mut leaders: BTreeMap<i32, StrBytes> = BTreeMap::new();
        for _ in 0..60 {
            match next(8) {
                0 | 1 => joining.push(bench.comes("m")),
                2 if !joined.is_empty() => joining.push(bench.rejoins(&joined[next(joined.len())])),
                3 if !joined.is_empty() => drop(bench.sync(&joined[next(joined.len())], &[])),
                4 if !joined.is_empty() => drop(bench.beats(&joined[next(joined.len())])),
                5 if !joined.is_empty() => drop(bench.leaves(&joined[next(joined.len())])),
                _ => bench.pass(Duration::from_millis(next(6000) as u64)),
            }
            joining.retain_mut(|waiting| match waiting.try_recv() {
                Err(oneshot::error::TryRecvError::Empty) => true,
                Err(oneshot::error::TryRecvError::Closed) => false,
                Ok(answer) => {
                    if answer.error.is_none() {
                        let leader = leaders.entry(answer.generation).or_insert(answer.leader.clone());
                        assert_eq!(*leader, answer.leader, "seed {seed}: two leaders of one generation");
                        joined.push(answer);
                    }
                    false
                }
            });
        }
        bench.pass(Duration::from_secs(400));
        bench.coordinator.forget("t");
        bench.assert_nothing_is_kept();
        let stats = [bench.coordinator.rebalance.stats(), bench.coordinator.heartbeat.stats()];
        for stats in stats {
            assert_eq!(stats.registered, stats.satisfied + stats.expired, "seed {seed}");
        }
    }
}
