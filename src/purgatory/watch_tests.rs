//! What the watch lists of one shard do.

use super::*;
use crate::purgatory::pool::SEGMENT;

fn reach(up_to: u64) -> Reach {
    Reach::UpTo(up_to)
}

fn all(lists: &mut WatchLists<u64, u32>, key: u64) -> Vec<u32> {
    let mut out = Taken::new();
    let Some(mut walk) = lists.walk(key, &key, Reach::All, &mut out) else { return out.into_vec() };
    while !walk.is_over() {
        assert_eq!(lists.step(&mut walk, &mut out), None);
        lists.check_invariants();
    }
    out.into_vec()
}

#[test]
fn a_list_is_walked_in_order_of_registration_whatever_its_length() {
    for len in [0, 1, 2, WALK_STEP - 1, WALK_STEP, WALK_STEP + 1, 5 * WALK_STEP + 7] {
        let mut lists = WatchLists::new();
        let len = len as u32;
        let nodes: Vec<u32> = (0..len).map(|w| lists.watch(9, 9, w).0).collect();
        assert_eq!(all(&mut lists, 9), (0..len).collect::<Vec<_>>());
        assert_eq!(lists.watchers(), len as usize);
        for (w, node) in nodes.into_iter().enumerate() {
            let (watcher, emptied) = lists.unwatch(node);
            assert_eq!(watcher as usize, w);
            assert_eq!(emptied, (w as u32 == len - 1).then_some(9), "the key goes with the last watcher");
            lists.check_invariants();
        }
        assert_eq!((lists.watchers(), lists.keys(), lists.watchers_of(9, &9)), (0, 0, 0));
    }
}

#[test]
fn a_walk_covers_what_was_there_when_it_began_and_survives_every_removal() {
    let mut lists = WatchLists::new();
    let len = 3 * WALK_STEP as u32;
    let nodes: Vec<u32> = (0..len).map(|w| lists.watch(1, 1, w).0).collect();
    let mut out = Taken::new();
    let mut walk = lists.walk(1, &1, reach(0), &mut out).expect("somebody waits");
    assert_eq!(out.len(), WALK_STEP);
    // What was taken goes, what comes next goes, and younger ones come: none of it disturbs the walk.
    for node in &nodes[..WALK_STEP + 10] {
        assert_eq!(lists.unwatch(*node).1, None);
    }
    lists.watch(1, 1, 1000);
    lists.check_invariants();
    while !walk.is_over() {
        assert_eq!(lists.step(&mut walk, &mut out), None);
    }
    let expected: Vec<u32> = (0..WALK_STEP as u32).chain(WALK_STEP as u32 + 10..len).collect();
    assert_eq!(out[..], expected);
}

#[test]
fn a_list_that_empties_under_a_walk_gives_up_its_key_when_the_walk_ends() {
    for abandon in [false, true] {
        let mut lists = WatchLists::new();
        let nodes: Vec<u32> = (0..2 * WALK_STEP as u32).map(|w| lists.watch(1, 1, w).0).collect();
        let mut out = Taken::new();
        let mut walk = lists.walk(1, &1, reach(0), &mut out).expect("somebody waits");
        for node in nodes {
            assert_eq!(lists.unwatch(node).1, None, "the cursor keeps the list");
        }
        assert_eq!((lists.keys(), lists.watchers_of(1, &1)), (0, 0));
        lists.check_invariants();
        let emptied = if abandon { lists.abandon(&mut walk) } else { lists.step(&mut walk, &mut out) };
        assert_eq!((emptied, walk.is_over(), out.len()), (Some(1), true, WALK_STEP));
        lists.check_invariants();
    }
}

#[test]
fn those_at_a_number_are_walked_by_number_as_far_as_it_goes_after_those_without() {
    let mut lists = WatchLists::new();
    let far = 10 * WALK_STEP as u64;
    let entries: Vec<u32> = (0..far).rev().map(|at| lists.watch_at(1, 1, at / 2, at as u32).0).collect();
    let (plain, _) = lists.watch(1, 1, 100_000);
    let (other, _) = lists.watch_at(2, 2, 0, 200_000);
    lists.check_invariants();
    // Of two at the same number the first to register comes first.
    let in_order = |up_to: u64| (0..=up_to).flat_map(|n| [2 * n as u32 + 1, 2 * n as u32]);
    for up_to in [0, 1, WALK_STEP as u64, far / 2 - 1] {
        let mut out = Taken::new();
        let mut walk = lists.walk(1, &1, reach(up_to), &mut out).expect("somebody waits");
        while !walk.is_over() {
            // Younger ones are not for this walk, wherever they stand.
            let (young, _) = lists.watch_at(1, 1, far, 7);
            assert_eq!(lists.step(&mut walk, &mut out), None);
            lists.unwatch(young);
        }
        assert_eq!(out[..], [100_000].into_iter().chain(in_order(up_to)).collect::<Vec<_>>());
    }
    // The one at 0 waits higher now, and one from above lower.
    assert!(!lists.move_to(entries[far as usize - 1], 1));
    assert!(!lists.move_to(entries[far as usize - 2], 0), "where it is");
    assert!(lists.move_to(entries[0], 0));
    let mut out = Taken::new();
    assert!(lists.walk(1, &1, reach(0), &mut out).expect("somebody waits").is_over());
    assert_eq!(out[..], [100_000, far as u32 - 1, 1], "by registration");
    lists.check_invariants();
    assert_eq!(lists.unwatch(plain), (100_000, None));
    for (n, entry) in entries.into_iter().enumerate() {
        assert_eq!(lists.unwatch(entry).1, (n as u64 == far - 1).then_some(1));
    }
    assert_eq!((lists.watchers(), lists.keys()), (1, 1));
    assert_eq!(lists.unwatch(other), (200_000, Some(2)));
    lists.check_invariants();
}

#[test]
fn a_walk_without_looks_takes_each_once_in_order_of_registration_though_they_move_about() {
    let mut lists = WatchLists::new();
    let len = 3 * WALK_STEP as u32;
    let nodes: Vec<u32> = (0..len).map(|w| lists.watch_at(1, 1, u64::from(len - w), w).0).collect();
    let (plain, _) = lists.watch(1, 1, 1000);
    let mut out = Taken::new();
    let mut walk = lists.walk(1, &1, Reach::All, &mut out).expect("somebody waits");
    while !walk.is_over() {
        // Before the walk, where it would come by again; and one leaves that it has not come to.
        for (n, node) in nodes.iter().enumerate().filter(|(n, _)| *n != WALK_STEP) {
            lists.move_to(*node, if n % 2 == 0 { 0 } else { u64::from(len) + out.len() as u64 });
        }
        if out.len() == 1 + WALK_STEP {
            lists.unwatch(nodes[WALK_STEP]);
        }
        lists.watch_at(1, 1, 5, 2000);
        lists.check_invariants();
        assert_eq!(lists.step(&mut walk, &mut out), None);
    }
    let others = (0..len).filter(|w| *w != WALK_STEP as u32);
    assert_eq!(out[..], [1000].into_iter().chain(others).collect::<Vec<_>>());
    lists.unwatch(plain);
    lists.check_invariants();
}

#[test]
fn an_event_that_reaches_nobody_need_not_search_until_somebody_waits_lower() {
    let mut lists = WatchLists::new();
    let nodes: Vec<u32> = (0..10).map(|w| lists.watch_at(1, 1, 100 * u64::from(w), w).0).collect();
    let reached = |lists: &mut WatchLists<u64, u32>, up_to| {
        let mut out = Taken::new();
        let walk = lists.walk(1, &1, reach(up_to), &mut out);
        lists.check_invariants();
        walk.map(|walk| (walk.is_over(), out.into_vec()))
    };
    lists.unwatch(nodes[0]);
    assert_eq!(reached(&mut lists, 99), Some((true, vec![])), "that nobody is left there is found now");
    assert_eq!(reached(&mut lists, 99), None, "and known then");
    assert_eq!(reached(&mut lists, 100), Some((true, vec![1])));
    lists.move_to(nodes[9], 50);
    assert_eq!(reached(&mut lists, 50), Some((true, vec![9])));
    lists.move_to(nodes[9], 120);
    lists.watch_at(1, 1, 60, 10);
    assert_eq!(reached(&mut lists, 60), Some((true, vec![10])));
    lists.watch(1, 1, 11);
    assert_eq!(reached(&mut lists, 0), Some((true, vec![11])), "those without a number are always in reach");
    assert_eq!(reached(&mut lists, u64::MAX), Some((true, vec![11, 10, 1, 9, 2, 3, 4, 5, 6, 7, 8])));
}

#[test]
fn keys_with_the_same_hash_have_lists_of_their_own() {
    let mut lists = WatchLists::new();
    let (a, _) = lists.watch(7, 1u64, 10u32);
    lists.watch(7, 2, 20);
    assert_eq!(lists.watch(7, 2, 21).1, Some(2), "the second key of a list comes back");
    assert_eq!(lists.keys(), 2);
    assert_eq!(lists.unwatch(a), (10, Some(1)));
    let mut out = Taken::new();
    assert!(lists.walk(7, &2, reach(0), &mut out).is_some_and(|walk| walk.is_over()));
    assert_eq!(out[..], [20, 21]);
    assert!(lists.walk(7, &1, reach(0), &mut out).is_none());
}

#[test]
fn capacity_is_given_back_after_a_burst_though_one_stays() {
    let mut lists = WatchLists::new();
    let hash = |key: u32| u64::from(key).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let nodes: Vec<u32> = (0..100_000u32).map(|w| lists.watch(hash(w), w, w).0).collect();
    for node in nodes.into_iter().skip(1) {
        lists.unwatch(node);
    }
    lists.check_invariants();
    assert!(lists.nodes.capacity() <= 3 * SEGMENT && lists.lists.capacity() <= 3 * SEGMENT);
    assert!(lists.by_key.capacity().0 <= 1000, "{:?}", lists.by_key.capacity());
    assert_eq!((lists.watchers_of(hash(0), &0), lists.watchers_of(hash(1), &1)), (1, 0));
}
