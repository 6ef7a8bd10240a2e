//! Who joins, synchronizes, is silent, leaves.

use super::*;

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
    assert_eq!((told.error, told.generation), (ErrorCode::MEMBER_ID_REQUIRED, -1));
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
    assert_eq!(late.error, ErrorCode::UNKNOWN_MEMBER_ID);
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
    assert_eq!(bench.beats(&members[0]), ErrorCode::REBALANCE_IN_PROGRESS);
    assert_eq!(now(bench.sync(&members[0], &[])).error, ErrorCode::REBALANCE_IN_PROGRESS);
    assert!(waits(&mut newcomer));
    let again = now(bench.rejoins(&members[0]));
    let newcomer = now(newcomer);
    assert_eq!((again.generation, newcomer.generation), (2, 2));
    assert_eq!(again.leader, again.member_id, "it goes on leading");
    assert_eq!(bench.beats(&members[0]), ErrorCode::ILLEGAL_GENERATION);
    assert_eq!(bench.beats(&newcomer), ErrorCode::NONE, "before it has synchronized, too");
}

#[test]
fn who_does_not_join_again_is_dropped_when_the_time_is_up() {
    let bench = Bench::new(DELAY);
    let members = bench.stable(3);
    let mut first = bench.rejoins(&members[0]);
    // The others are alive, but do not hear.
    for _ in 0..5 {
        assert_eq!(bench.beats(&members[1]), ErrorCode::REBALANCE_IN_PROGRESS);
        assert_eq!(bench.beats(&members[2]), ErrorCode::REBALANCE_IN_PROGRESS);
        bench.pass(REBALANCE / 5 - MOMENT);
    }
    assert!(waits(&mut first));
    bench.pass(5 * MOMENT);
    let first = now(first);
    assert_eq!((first.generation, first.members.len()), (2, 1));
    assert_eq!(bench.beats(&members[1]), ErrorCode::UNKNOWN_MEMBER_ID);
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
    assert_eq!(bench.beats(&joined), ErrorCode::UNKNOWN_MEMBER_ID);
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
    assert_eq!(now(synced).error, ErrorCode::REBALANCE_IN_PROGRESS);
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
    assert_eq!(bench.beats(&members[0]), ErrorCode::UNKNOWN_MEMBER_ID);
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
    assert_eq!(bench.beats(&members[1]), ErrorCode::REBALANCE_IN_PROGRESS);
    bench.pass(SESSION - MOMENT);
    assert!(waits(&mut waiting), "it was not evicted");
    // The other one is, and so the rebalance is over.
    bench.pass(MOMENT);
    let joined = now(waiting);
    assert_eq!((joined.error, joined.members.len()), (ErrorCode::NONE, 1));
    // From here on it must send heartbeats again.
    bench.pass(SESSION);
    assert_eq!(bench.beats(&joined), ErrorCode::UNKNOWN_MEMBER_ID);
}

#[test]
fn a_member_that_waits_for_the_leader_needs_no_heartbeat() {
    let bench = Bench::new(DELAY);
    let waiting = [bench.comes("a"), bench.comes("b")];
    bench.pass(2 * DELAY);
    let joined = waiting.map(now);
    let (leader, follower): (Vec<&Joined>, Vec<&Joined>) =
        joined.iter().partition(|member| member.leader == member.member_id);
    let mut synced = bench.sync(follower[0], &[]);
    bench.pass(SESSION - MOMENT);
    assert_eq!(bench.beats(leader[0]), ErrorCode::NONE);
    bench.pass(SESSION - MOMENT);
    assert!(waits(&mut synced), "it was not evicted");
    drop(bench.sync(leader[0], &[]));
    assert!(now(synced).error.is_none());
    // From here on it must send heartbeats again.
    bench.pass(SESSION);
    assert_eq!(bench.beats(follower[0]), ErrorCode::UNKNOWN_MEMBER_ID);
}

#[test]
fn leaving_does_not_wait_for_the_session() {
    let bench = Bench::new(DELAY);
    let members = bench.stable(2);
    assert_eq!(bench.leaves(&members[1]), ErrorCode::NONE);
    assert_eq!(bench.leaves(&members[1]), ErrorCode::UNKNOWN_MEMBER_ID, "it has left");
    assert_eq!(bench.beats(&members[0]), ErrorCode::REBALANCE_IN_PROGRESS);
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
    assert_eq!(now(waiting).error, ErrorCode::UNKNOWN_MEMBER_ID);
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
    assert_eq!(bench.beats(&members[0]), ErrorCode::REBALANCE_IN_PROGRESS);
}

#[test]
fn the_protocol_is_one_that_all_have_and_most_prefer() {
    let bench = Bench::new(DELAY);
    let with = |names: &[&str]| {
        let protocols = names.iter().map(|name| (text(name), Bytes::new())).collect();
        JoinRequest { protocols, ..somebody("m") }
    };
    // All have "a", "b" and "c"; three of them like "b" best, for one of these it is not the first that it names.
    let wishes: [&[&str]; 5] =
        [&["x", "b", "a", "c"], &["a", "b", "c"], &["b", "c", "a"], &["c", "b", "a"], &["b", "a", "c", "y"]];
    let waiting = wishes.map(|names| bench.send(with(names)));
    assert_eq!(now(bench.send(with(&["x", "y"]))).error, ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
    let other_type = JoinRequest { protocol_type: text("connect"), ..with(&["b"]) };
    assert_eq!(now(bench.send(other_type)).error, ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
    bench.pass(2 * DELAY);
    assert_eq!(waiting.map(|joined| now(joined).protocol), [(); 5].map(|()| Some(text("b"))));
}

#[test]
fn what_makes_no_sense_has_its_own_errors() {
    let bench = Bench::new(Duration::ZERO);
    let refused = |group: &str, request: JoinRequest| {
        let (sender, receiver) = oneshot::channel();
        bench.coordinator.join(group, request, sender);
        now(receiver).error
    };
    assert_eq!(refused("", somebody("m")), ErrorCode::INVALID_GROUP_ID);
    for session_timeout in [Duration::ZERO, Duration::from_millis(5999), Duration::from_millis(1_800_001)] {
        let request = JoinRequest { session_timeout, ..somebody("m") };
        assert_eq!(refused("g", request), ErrorCode::INVALID_SESSION_TIMEOUT);
    }
    let unknown = JoinRequest { member_id: text("nobody"), ..somebody("m") };
    assert_eq!(refused("g", unknown.clone()), ErrorCode::UNKNOWN_MEMBER_ID);
    let without = JoinRequest { protocols: Vec::new(), ..somebody("m") };
    assert_eq!(refused("g", without), ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
    bench.assert_nothing_is_kept();

    let members = bench.stable(1);
    assert_eq!(refused("g", unknown), ErrorCode::UNKNOWN_MEMBER_ID);
    let stranger = Joined { member_id: text("nobody"), ..members[0].clone() };
    let former = Joined { generation: 0, ..members[0].clone() };
    assert_eq!(
        (bench.beats(&stranger), bench.beats(&former)),
        (ErrorCode::UNKNOWN_MEMBER_ID, ErrorCode::ILLEGAL_GENERATION)
    );
    assert_eq!(now(bench.sync(&stranger, &[])).error, ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(now(bench.sync(&former, &[])).error, ErrorCode::ILLEGAL_GENERATION);
    let (sender, receiver) = oneshot::channel();
    let other =
        SyncRequest { identity: identity(&members[0]), protocol: Some(text("sticky")), ..Default::default() };
    bench.coordinator.sync("g", other, sender);
    assert_eq!(now(receiver).error, ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
}

#[test]
fn a_group_has_only_so_many_members() {
    let bench = Bench::new(DELAY);
    let waiting: Vec<_> = (0..6).map(|number| bench.comes(&format!("m{number}"))).collect();
    bench.pass(REBALANCE);
    let errors: Vec<ErrorCode> = waiting.into_iter().map(|joined| now(joined).error).collect();
    assert_eq!(errors[..5], [ErrorCode::NONE; 5]);
    assert_eq!(errors[5], ErrorCode::GROUP_MAX_SIZE_REACHED);
}

#[test]
fn there_are_only_so_many_groups_and_so_many_members_of_all() {
    let bench = Bench::with(Config { max_groups: 2, max_members: 3, ..Config::default() });
    let joins = |group: &str, request: JoinRequest| {
        let (sender, mut receiver) = oneshot::channel();
        bench.coordinator.join(group, request, sender);
        receiver.try_recv().ok()
    };
    let refused = |joined: Option<Joined>| joined.map(|joined| joined.error);
    let nobody = Identity { generation: -1, ..Identity::default() };
    let commits = |group: &str| {
        let committed = Committed { offset: 1, leader_epoch: 0, note: StrBytes::default() };
        bench.coordinator.commit(group, &nobody, |offsets| offsets.commit(&text("t"), 0, committed))
    };
    assert_eq!(commits("first"), ErrorCode::NONE);
    let told = joins("second", JoinRequest { needs_member_id: true, ..somebody("m") }).expect("an id");
    assert_eq!(refused(joins("third", somebody("m"))), Some(TOO_MANY_GROUPS));
    assert_eq!(commits("third"), TOO_MANY_GROUPS);
    assert_eq!(commits("first"), ErrorCode::NONE, "it is there already");

    let instance = JoinRequest { instance_id: Some(text("i")), ..somebody("m") };
    assert_eq!(refused(joins("first", instance.clone())), None, "it waits for others");
    assert_eq!(refused(joins("second", somebody("m"))), None, "it waits for others");
    assert_eq!(refused(joins("first", somebody("m"))), Some(ErrorCode::GROUP_MAX_SIZE_REACHED));
    assert_eq!(refused(joins("second", instance.clone())), Some(ErrorCode::GROUP_MAX_SIZE_REACHED));
    assert_eq!(refused(joins("first", instance)), None, "it takes its old place");
    let comes_again = JoinRequest { member_id: told.member_id, ..somebody("m") };
    assert_eq!(refused(joins("second", comes_again)), None, "it was counted when it was told its id");
    bench.pass(Duration::from_secs(400));
    bench.coordinator.forget("t");
    bench.assert_nothing_is_kept();
    assert_eq!(commits("third"), ErrorCode::NONE);
}
