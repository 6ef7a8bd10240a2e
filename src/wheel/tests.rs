use super::*;

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
