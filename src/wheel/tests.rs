//! What only the inside of the wheel can show.

use super::chunk::CHUNK;
use super::*;
use crate::testing::{Script, Step as Do, When};

fn drain(wheel: &mut TimingWheel<u64>, now: u64) -> Vec<(u64, u64)> {
    let mut all = Vec::new();
    while let Some(it) = wheel.pop_expired(Tick::new(now)) {
        wheel.check_invariants();
        all.push((it.deadline.as_u64(), it.item));
    }
    all
}

#[test]
fn timers_expire_by_deadline_and_then_by_the_order_of_starting() {
    let mut wheel = TimingWheel::new();
    let deadlines = [5000, 70, 3, 70, 5000, 0, 1 << 40, 3, u64::MAX - 1, 70, u64::MAX];
    for (n, deadline) in deadlines.into_iter().enumerate() {
        wheel.start_timer(Tick::new(deadline), n as u64);
        wheel.check_invariants();
    }
    assert_eq!(drain(&mut wheel, 69), [(0, 5), (3, 2), (3, 7)]);
    assert_eq!(wheel.next_expiration(), Some(Tick::new(70)));
    assert_eq!(
        drain(&mut wheel, u64::MAX),
        [(70, 1), (70, 3), (70, 9), (5000, 0), (5000, 4), (1 << 40, 6), (u64::MAX - 1, 8)]
    );
    assert_eq!((wheel.len(), wheel.next_expiration()), (1, None));
}

#[test]
fn a_past_deadline_is_due_at_once_and_comes_before_later_ones() {
    let mut wheel = TimingWheel::starting_at(Tick::new(100));
    for deadline in [100, 50, 99, 50, 101] {
        wheel.start_timer(Tick::new(deadline), deadline);
    }
    assert_eq!(wheel.next_expiration(), Some(Tick::new(50)));
    assert_eq!(drain(&mut wheel, 0), [(50, 50), (50, 50), (99, 99), (100, 100)]);
    assert_eq!(wheel.len(), 1);
}

#[test]
fn a_slot_whose_generations_are_used_up_is_retired() {
    let mut wheel = TimingWheel::new();
    wheel.slots.age(u32::MAX - 1);
    let mut seen = std::collections::HashSet::new();
    for n in 0..5000 {
        let id = wheel.start_timer(Tick::new(n), n);
        assert!(seen.insert(id), "{id:?} was given out twice");
        assert_eq!(wheel.stop_timer(id), Some(n));
        wheel.check_invariants();
    }
    assert!(seen.iter().any(|id| id.index >= 1024), "the first segment is used up");
}

#[test]
fn scripts_over_tiny_chunks_do_what_a_sorted_list_does() {
    // In this build a chunk holds sixteen, so that chunks are full, sparse and merged all the time.
    let mut state = 1u64;
    let mut below = |bound: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % bound
    };
    for round in 0..1500 {
        let spread = [4, 64, 300, 5000, 1 << 20][round % 5];
        let steps = (0..80).map(|_| {
            let which = below(1 << 40) as usize;
            let when = When::In(below(spread));
            match below(16) {
                0..4 => Do::Start(when),
                4..6 => Do::StartMany(when, below(12) as u8),
                6..10 => Do::Stop(which),
                10..12 => Do::Restart(which, when),
                12 => Do::PopWithin(When::In(below(spread)), below(20) as u8),
                13 => Do::Pop(When::In(below(spread))),
                14 => Do::Thin(2 + below(5) as usize),
                _ => Do::Advance(When::In(below(spread) / 4)),
            }
        });
        Script { start: (1 << 18) - 50, steps: steps.collect() }.run();
    }
}

#[test]
fn a_bucket_that_is_moved_down_in_steps_is_not_overtaken() {
    let mut wheel = TimingWheel::new();
    for n in 0..40 {
        wheel.start_timer(Tick::new(100), n);
    }
    let stopped: Vec<TimerId> = (0..3).map(|_| wheel.start_timer(Tick::new(100), 99)).collect();
    // Half of the bucket is moved, and the position stands at the start of its block.
    assert_eq!(wheel.pop_expired_within(Tick::new(100), &mut 20), Step::Paused);
    assert_eq!(wheel.now(), Tick::new(64));
    assert_eq!(wheel.next_expiration(), Some(Tick::new(100)));
    wheel.start_timer(Tick::new(100), 40);
    wheel.start_timer(Tick::new(99), 1000);
    wheel.start_timer(Tick::new(63), 1001);
    assert_eq!(wheel.next_expiration(), Some(Tick::new(63)));
    for id in stopped {
        assert_eq!(wheel.stop_timer(id), Some(99));
    }
    wheel.check_invariants();
    let items: Vec<u64> = drain(&mut wheel, 100).into_iter().map(|it| it.1).collect();
    assert_eq!(items, [1001, 1000].into_iter().chain(0..=40).collect::<Vec<_>>());
}

#[test]
fn stopping_all_of_a_bucket_that_is_moved_down_ends_the_move() {
    let mut wheel = TimingWheel::new();
    let ids: Vec<TimerId> = (0..40).map(|n| wheel.start_timer(Tick::new(100), n)).collect();
    assert_eq!(wheel.pop_expired_within(Tick::new(64), &mut 8), Step::Paused);
    for id in ids {
        assert!(wheel.stop_timer(id).is_some());
        wheel.check_invariants();
    }
    assert_eq!(wheel.next_expiration(), None);
    assert_eq!(wheel.pop_expired(Tick::new(64)), None);
}

#[test]
fn the_earliest_of_a_bucket_does_not_go_unnoticed_when_its_chunk_was_merged() {
    let mut wheel = TimingWheel::new();
    let first: Vec<TimerId> = (0..CHUNK as u64).map(|n| wheel.start_timer(Tick::new(80 + n), n)).collect();
    let earliest = wheel.start_timer(Tick::new(70), 70);
    wheel.start_timer(Tick::new(127), 127);
    // The first chunk loses its own earliest, then all but one, and the second one becomes a part of it.
    for id in &first[..CHUNK - 1] {
        wheel.stop_timer(*id);
        wheel.check_invariants();
    }
    assert_eq!(wheel.next_expiration(), Some(Tick::new(70)));
    wheel.stop_timer(earliest);
    assert_eq!(wheel.next_expiration(), Some(Tick::new(80 + CHUNK as u64 - 1)));
}

/// So many chunks that a pop does not come to the last of them while all have lost their earliest.
#[test]
fn the_earliest_of_a_bucket_does_not_go_unnoticed_in_a_chunk_that_no_pop_has_looked_at() {
    let mut wheel = TimingWheel::new();
    let chunks = level::SCAN_STEP as u64 / 3;
    let start = |wheel: &mut TimingWheel<u64>, at: u64| wheel.start_timer(Tick::new(4096 + at), at);
    let (mut firsts, mut earliest) = (Vec::new(), None);
    for chunk in 0..chunks {
        firsts.push(start(&mut wheel, chunk));
        for n in 1..CHUNK as u64 {
            let id = start(&mut wheel, if (chunk, n) == (chunks - 1, 1) { 1000 } else { 1001 + n });
            earliest = earliest.or((chunk == chunks - 1).then_some(id));
        }
    }
    for id in firsts {
        wheel.stop_timer(id);
    }
    assert_eq!(wheel.pop_expired(Tick::new(1)), None);
    wheel.check_invariants();
    wheel.stop_timer(earliest.expect("the last chunk has it"));
    assert_eq!(wheel.next_expiration(), Some(Tick::new(4096 + 1002)));
}

#[test]
fn a_peek_shows_what_the_next_pop_takes() {
    let mut wheel = TimingWheel::new();
    let first = wheel.start_timer(Tick::new(4096), 1);
    wheel.start_timer(Tick::new(4096), 2);
    assert_eq!(wheel.peek_expired(Tick::new(4095)), None);
    assert_eq!(wheel.peek_expired(Tick::new(4096)), Some(&1));
    *wheel.get_mut(first).unwrap() = 7;
    assert_eq!(wheel.pop_expired(Tick::new(4096)).map(|it| it.item), Some(7));
    assert_eq!(wheel.peek_expired(Tick::new(4096)), Some(&2));
}

#[test]
fn the_items_that_are_left_come_out_in_the_end_and_are_dropped_once() {
    use std::rc::Rc;
    let item = Rc::new(());
    let mut wheel = TimingWheel::new();
    for deadline in [1, 100, u64::MAX] {
        wheel.start_timer(Tick::new(deadline), Rc::clone(&item));
    }
    drop(wheel.pop_expired(Tick::new(1)));
    assert_eq!(Rc::strong_count(&item), 3);
    let left: Vec<_> = wheel.into_items().collect();
    assert_eq!(left.len(), 2);
    drop(left);
    assert_eq!(Rc::strong_count(&item), 1);
}

#[test]
fn a_wheel_is_send_and_sync_and_small_to_name() {
    fn send_and_sync<T: Send + Sync>() {}
    send_and_sync::<TimingWheel<u64>>();
    assert_eq!(size_of::<Option<TimerId>>(), 8);
}
