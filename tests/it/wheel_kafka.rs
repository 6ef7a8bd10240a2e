//! What the tests of Kafka's timer assert, said of this wheel.

use crate::uptime::tick;
use ixion::TimingWheel;

/// A wheel at the start.
fn new_wheel() -> TimingWheel<u64> {
    TimingWheel::starting_at(tick(0))
}

fn drain(wheel: &mut TimingWheel<u64>, now: u64) -> Vec<u64> {
    std::iter::from_fn(|| wheel.pop_expired(tick(now))).map(|it| it.item).collect()
}

#[test]
fn tasks_that_are_already_expired_run_at_once() {
    let mut wheel = TimingWheel::starting_at(tick(1000));
    for before in 1..=5 {
        wheel.start_timer(tick(1000 - before), before);
    }
    assert_eq!(drain(&mut wheel, 1000), [5, 4, 3, 2, 1]);
    assert!(wheel.is_empty());
}

#[test]
fn tasks_expire_in_order_of_their_delay_and_all_of_them() {
    let delays = (0..5).chain(10..100).chain(10..100).chain(100..500);
    let mut expected: Vec<u64> = delays.clone().collect();
    expected.sort_unstable();
    // In one jump, in small steps, and tick by tick.
    for step in [2000, 30, 1] {
        let mut wheel = new_wheel();
        for delay in delays.clone() {
            wheel.start_timer(tick(delay), delay);
        }
        assert_eq!(wheel.len(), 585);
        let (mut ran, mut now) = (Vec::new(), 0);
        while !wheel.is_empty() {
            now += step;
            for delay in drain(&mut wheel, now) {
                assert!(delay <= now && delay + step >= now, "{delay} ran at {now}");
                ran.push(delay);
            }
        }
        assert_eq!(ran, expected);
    }
}

#[test]
fn tasks_move_between_buckets_and_leave_them_without_a_trace() {
    let mut wheel = new_wheel();
    let ids: Vec<_> = (1..=10u64).map(|n| wheel.start_timer(tick(n), n)).collect();
    assert_eq!(wheel.len(), 10);
    for id in &ids[..4] {
        assert!(wheel.restart_timer(*id, tick(10_000)));
    }
    for id in &ids[4..] {
        assert!(wheel.restart_timer(*id, tick(1_000_000)));
    }
    wheel.check_invariants();
    assert_eq!((wheel.len(), wheel.next_expiration()), (10, Some(tick(10_000))));
    assert_eq!(drain(&mut wheel, 9_999), []);
    for (n, id) in ids.into_iter().enumerate() {
        assert_eq!(wheel.stop_timer(id), Some(n as u64 + 1));
        wheel.check_invariants();
    }
    assert_eq!((wheel.len(), wheel.next_expiration()), (0, None));
}

#[test]
fn the_remaining_delay_follows_from_the_next_expiration() {
    let mut wheel = TimingWheel::starting_at(tick(100));
    wheel.start_timer(tick(10_100), 0);
    assert_eq!(drain(&mut wheel, 5_100), []);
    assert_eq!(wheel.next_expiration().unwrap().as_u64() - wheel.now().as_u64(), 5_000);
}

#[test]
fn each_step_of_the_clock_ends_what_it_reaches() {
    let mut wheel = new_wheel();
    for (n, delay) in [50, 25, 75, 50].into_iter().enumerate() {
        wheel.start_timer(tick(delay), n as u64 + 1);
    }
    assert_eq!(drain(&mut wheel, 25), [2]);
    assert_eq!(drain(&mut wheel, 50), [1, 4]);
    assert_eq!(drain(&mut wheel, 75), [3]);

    let mut wheel = new_wheel();
    for delay in [10, 30, 30, 20] {
        wheel.start_timer(tick(delay), delay);
    }
    let ended: Vec<usize> = (1..=5).map(|n| drain(&mut wheel, 10 * n).len()).collect();
    assert_eq!(ended, [1, 1, 2, 0, 0]);
}

/// Here the sum of the clock and the delay wraps, and the task runs at once.
#[test]
fn the_longest_delay_never_runs() {
    let mut wheel = TimingWheel::starting_at(tick(1_000_000));
    let never = wheel.start_timer(tick(1_000_000u64.saturating_add(u64::MAX)), 0);
    let far = wheel.start_timer(tick(1 << 62), 1);
    assert_eq!(drain(&mut wheel, 1 << 60), []);
    assert_eq!(drain(&mut wheel, u64::MAX), [1]);
    assert_eq!((wheel.stop_timer(far), wheel.stop_timer(never)), (None, Some(0)));
}
