//! ORD: order, and the next deadline.

use crate::guarantees::support::*;
use crate::uptime::{after, tick};
use ixion::testing::{Script, Step, When};
use ixion::{Cancelled, Outcome, TimingWheel};
use std::sync::Arc;
use std::time::Duration;

/// What a wheel of six levels of 64 slots spans.
const SPAN: u64 = 1 << 36;

/// Far timers, up to the last tick that is not never.
fn far_ones() -> impl Iterator<Item = u64> {
    let multiples = (1..=64).map(|k| SPAN + (k << 30));
    [SPAN - 1, SPAN, 1 << 59, (1 << 61) + 1, u64::MAX - 1, u64::MAX].into_iter().chain(multiples)
}

/// The first ticks of blocks of every level.
fn boundaries() -> impl Iterator<Item = u64> {
    (2..=10).map(|level| 1u64 << (6 * level))
}

/// ORD-01. There, the search for the next slot took the slot of a far timer, which had wrapped round, for the nearest
/// one.
#[test]
fn far_timers_on_every_level_do_not_hide_a_near_one_that_crosses_a_boundary() {
    for boundary in boundaries() {
        let now = boundary - 100;
        let mut wheel = TimingWheel::starting_at(tick(0));
        let far: Vec<_> = far_ones()
            .filter(|far| *far > now + 333)
            .map(|far| (wheel.start_timer(tick(far), far), far))
            .collect();
        assert_eq!(wheel.pop_expired(tick(now)), None);
        let near = wheel.start_timer(tick(now + 333), 0);
        assert_eq!(wheel.next_expiration(), Some(tick(now + 333)));
        assert_eq!(wheel.pop_expired(tick(now + 332)), None);
        assert_eq!(wheel.pop_expired(tick(now + 333)).map(|it| it.id), Some(near));
        assert_eq!(wheel.pop_expired(tick(now + 333)), None);
        for (id, deadline) in far {
            assert_eq!(wheel.stop_timer(id), Some(deadline), "still pending");
        }
        assert!(wheel.is_empty());
        wheel.check_invariants();
    }
}

/// ORD-01, of a purgatory.
#[test]
fn far_timeouts_do_not_hide_a_near_one_in_a_purgatory() {
    for boundary in boundaries() {
        let bench = Bench::with(|builder| builder.shards(1));
        let now = boundary - 100;
        let far = far_ones().filter(|far| *far > now + 333);
        let far: Vec<Handle> =
            far.zip(1..).map(|(at, number)| bench.watch(number, ms_of(at), &[1])).collect();
        bench.advance(now);
        assert_eq!(bench.drive().0, 0);
        bench.watch(0, ms_of(333), &[1]);
        assert_eq!(bench.purgatory.next_expiration(), Some(tick(now + 333)));
        bench.advance(332);
        assert_eq!(bench.drive().0, 0);
        bench.advance(1);
        assert_eq!(bench.drive().0, 1);
        assert_eq!(bench.take_log(), [(0, Outcome::Expired)]);
        for handle in far {
            assert!(matches!(bench.purgatory.cancel(handle.id), Cancelled::Taken(_)), "still pending");
        }
        bench.assert_left(0, 0, 0);
    }
}

/// ORD-03. There, equal deadlines came newest first, or in the order of a heap. (The wheel's part is
/// `wheel_field::equal_deadlines_do_not_expire_newest_first`.)
#[test]
fn equal_deadlines_of_a_purgatory_expire_in_order_of_registration_whatever_the_step() {
    let run = |step: u64| {
        let bench = Bench::with(|builder| builder.shards(1));
        (0..50).for_each(|number| drop(bench.watch(number, ms_of(1000), &[number % 3])));
        bench.advance(950);
        assert_eq!(bench.drive().0, 0);
        (50..100).for_each(|number| drop(bench.watch(number, ms_of(50), &[number % 3])));
        for _ in 0..50 / step {
            bench.advance(step);
            let _ = bench.drive();
        }
        bench.take_log().into_iter().map(|end| end.0).collect::<Vec<_>>()
    };
    let expected: Vec<u32> = (0..100).collect();
    assert_eq!((run(50), run(1)), (expected.clone(), expected));
}

/// ORD-05. There, what was due was sorted by its delay and cut at a limit, so that a long delay starved behind
/// short ones that kept coming.
#[test]
fn a_long_timeout_is_served_at_its_time_though_shorter_ones_keep_coming_and_passes_are_bounded() {
    let mut wheel = TimingWheel::starting_at(tick(0));
    wheel.start_timer(tick(10_000), true);
    let mut late_comers_before = 0;
    for now in (0..=10_000).step_by(10) {
        wheel.start_timer(tick(now + 9_000), false);
        let mut budget = 200;
        let mut all = Vec::new();
        while let ixion::Step::Expired(due) = wheel.pop_expired_within(tick(now), &mut budget) {
            all.push((after(due.deadline), due.item));
        }
        late_comers_before += all.iter().take_while(|due| !due.1).filter(|due| due.0 > 10_000).count();
        assert_eq!(all.iter().any(|due| due.1), now == 10_000, "at {now}: {all:?}");
    }
    assert_eq!(late_comers_before, 0);

    let bench = Bench::new();
    bench.watch(0, ms_of(10_000), &[0]);
    for now in (0..=10_000u32).step_by(10) {
        // More fall due at once than a pass takes.
        let count = if now == 1_000 { 3000 } else { 1 };
        (0..count).for_each(|_| drop(bench.watch(1 + now, ms_of(9_000), &[now])));
        let _ = bench.drive();
        let log = bench.take_log();
        assert_eq!(log.contains(&(0, Outcome::Expired)), now == 10_000, "in the first drive at its time");
        assert!(log.iter().all(|end| end.0 == 0 || end.0 + 8_999 <= now), "at {now}, what is due by then");
        bench.advance(10);
    }
}

/// ORD-07. There, taking an element out of the middle broke the order. (The wheel's part is
/// `wheel_field::stopping_one_in_the_middle_loses_no_other`.)
#[test]
fn a_mix_of_periodic_and_cancelled_operations_expires_each_at_its_time() {
    /// Registers itself again, each second.
    fn again(bench: &Arc<Bench>) -> Probe {
        let mut op = bench.probe(1_000);
        let shared = Arc::clone(bench);
        op.at_end = Some(Box::new(move |outcome| {
            if outcome == Outcome::Expired {
                shared.wait(again(&shared), ms_of(1_000), &[2]);
            }
        }));
        op
    }
    let bench = Arc::new(Bench::new());
    let plain = |at: u32| bench.watch(at, ms_of(u64::from(at)), &[1]);
    plain(11_000);
    plain(90_000);
    bench.wait(again(&bench), ms_of(1_000), &[2]);
    let cancelled = plain(4_000);
    plain(60_000);
    let mut brief = bench.probe(100);
    let shared = Arc::clone(&bench);
    brief.at_end = Some(Box::new(move |_| {
        let brief = shared.watch(1_500, ms_of(1_500), &[1]);
        assert!(shared.purgatory.cancel(brief.id).is_cancelled());
    }));
    bench.wait(brief, ms_of(100), &[1]);
    plain(3_000);
    assert!(bench.purgatory.cancel(cancelled.id).is_cancelled());
    plain(16_000);
    let mut fired = Vec::new();
    for now in 1..=20_000 {
        bench.advance(1);
        let _ = bench.drive();
        fired.extend(bench.take_log().into_iter().map(|(number, _)| (now, number)));
    }
    let mut expected: Vec<(u32, u32)> = (1..=20).map(|n| (n * 1_000, 1_000)).collect();
    expected.extend([100, 3_000, 11_000, 16_000].map(|at| (at, at)));
    expected.sort_unstable();
    fired.sort_unstable();
    assert_eq!(fired, expected);
    bench.assert_left(3, 3, 2);
    assert_eq!(bench.purgatory.shutdown(), 3); // what waits holds the bench, and so itself
}

/// ORD-07. Two hundred steps at a time, against a sorted list.
#[test]
fn long_mixes_of_starting_stopping_and_restarting_go_as_in_a_sorted_list() {
    for seed in 1..=80u64 {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut below = |bound: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) % bound
        };
        let reach = [100, 5_000, 100_000, 1 << 20][seed as usize % 4];
        let steps = (0..200).map(|_| {
            let (which, when) = (below(1 << 40) as usize, When::In(below(reach)));
            match below(10) {
                0..5 => Step::Start(when),
                5..7 => Step::Stop(which),
                7..9 => Step::Restart(which, when),
                _ => Step::Advance(When::In(below(reach / 8))),
            }
        });
        Script { start: 0, steps: steps.collect() }.run();
    }
}

/// ORD-09. There, ids and deadlines no longer belonged together after a sparse removal. (The wheel's part is
/// `wheel_field::ids_and_deadlines_belong_together_after_a_sparse_removal`.)
#[test]
fn ids_name_their_operations_after_a_sparse_removal() {
    let bench = Bench::new();
    let timeout = |number: u32| Duration::from_millis(u64::from(number) * 37 % 5000 + 1);
    let handles: Vec<Handle> =
        (0..1000).map(|number| bench.watch(number, timeout(number), &[number % 7])).collect();
    let cancel = |number: usize| bench.purgatory.cancel(handles[number].id).taken().map(|op| op.number);
    for number in (0..1000).step_by(3) {
        assert_eq!(cancel(number), Some(number as u32));
    }
    // Each left one is the next to expire once its deadline is made the earliest.
    for number in (1..1000).step_by(3) {
        assert!(bench.purgatory.reset_timeout(handles[number].id, Duration::ZERO));
        assert_eq!(bench.drive().0, 1);
        assert_eq!(bench.take_log(), [(number as u32, Outcome::Expired)]);
    }
    for number in (2..1000).step_by(3) {
        assert_eq!(cancel(number), Some(number as u32));
    }
    bench.assert_left(0, 0, 0);
}
