//! What outlasts a rebalance: instances, offsets, and nothing else.

use std::collections::BTreeMap;

use super::*;

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
    assert_eq!(bench.coordinator.heartbeat("g", &by(&first)), ErrorCode::FENCED_INSTANCE_ID);
    assert_eq!(bench.coordinator.heartbeat("g", &by(&second)), ErrorCode::NONE);
    let leave = |id: &StrBytes, instance| bench.coordinator.leave("g", id, Some(&text(instance)));
    assert_eq!(leave(&first.member_id, "i"), ErrorCode::FENCED_INSTANCE_ID);
    assert_eq!(leave(&text(""), "j"), ErrorCode::UNKNOWN_MEMBER_ID);
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
    assert_eq!(commit(&Identity { generation: 3, ..nobody.clone() }, 1), ErrorCode::ILLEGAL_GENERATION);
    bench.assert_nothing_is_kept();
    assert_eq!((commit(&nobody, 5), committed()), (ErrorCode::NONE, Some(5)));

    let members = bench.stable(1);
    assert_eq!(commit(&nobody, 6), ErrorCode::UNKNOWN_MEMBER_ID, "the group is not empty");
    assert_eq!((commit(&identity(&members[0]), 7), committed()), (ErrorCode::NONE, Some(7)));
    let former = Identity { generation: 0, ..identity(&members[0]) };
    assert_eq!(commit(&former, 8), ErrorCode::ILLEGAL_GENERATION);

    // While others join, what was done in this generation may be committed; in the next one it is too late.
    let newcomer = bench.comes("newcomer");
    assert_eq!((commit(&identity(&members[0]), 9), committed()), (ErrorCode::NONE, Some(9)));
    let again = now(bench.rejoins(&members[0]));
    assert_eq!(commit(&identity(&again), 10), ErrorCode::REBALANCE_IN_PROGRESS, "nobody knows who has what");

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
    // The second one finds no group that the first has left behind: it would look for a living one for ever.
    for name in ["late", "later"] {
        let mut late = bench.comes(name);
        assert_eq!(late.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    }
    bench.assert_nothing_is_kept();
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
