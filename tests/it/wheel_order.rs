//! A wheel does what a sorted list does: random scripts, random scripts with many timers, all short scripts.

use ixion::testing::{Script, Step, When};
use ixion::{Tick, TimerId, TimingWheel};
use proptest::prelude::*;

/// Places where a wheel could go wrong: just before levels begin, and the end of time.
const STARTS: [u64; 12] = [
    0,
    1,
    62,
    4095,
    (1 << 30) - 100,
    1 << 30,
    (1 << 36) - 3,
    1 << 36,
    1 << 42,
    1 << 63,
    u64::MAX - 5000,
    u64::MAX - 2,
];

/// A distance at or around the boundary of a level, or small, or anything.
fn distance() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => (0u32..=10, -2i64..=2).prop_map(|(level, off)| (1u64 << (6 * level)).saturating_add_signed(off)),
        2 => (0u32..=10, 1u64..64).prop_map(|(level, n)| n.saturating_mul(1 << (6 * level))),
        3 => 0u64..200,
        1 => (0u32..64, any::<u64>()).prop_map(|(bits, n)| n >> bits),
    ]
}

fn deadline() -> impl Strategy<Value = When> {
    prop_oneof![
        12 => distance().prop_map(When::In),
        1 => distance().prop_map(When::Ago),
        1 => distance().prop_map(When::At),
        1 => (0u64..3).prop_map(|back| When::At(u64::MAX - back)),
        2 => (0u64..8).prop_map(|n| When::At(n * 64 * 64)),
    ]
}

fn now() -> impl Strategy<Value = When> {
    prop_oneof![
        3 => (0u64..3).prop_map(When::In),
        4 => (0u32..=40).prop_map(|bits| When::In(1 << bits)),
        4 => distance().prop_map(When::In),
        1 => distance().prop_map(When::Ago),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => deadline().prop_map(Step::Start),
        1 => (deadline(), 1u8..150).prop_map(|(when, count)| Step::StartMany(when, count)),
        3 => any::<usize>().prop_map(Step::Stop),
        1 => (2usize..40).prop_map(Step::Thin),
        3 => (any::<usize>(), deadline()).prop_map(|(which, when)| Step::Restart(which, when)),
        2 => now().prop_map(Step::Advance),
        2 => now().prop_map(Step::Pop),
        1 => now().prop_map(Step::Peek),
        3 => (now(), 0u8..100).prop_map(|(when, budget)| Step::PopWithin(when, budget)),
    ]
}

fn script(steps: std::ops::Range<usize>) -> impl Strategy<Value = Script> {
    let start = prop::sample::select(&STARTS[..]);
    (start, prop::collection::vec(step(), steps)).prop_map(|(start, steps)| Script { start, steps })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_wheel_does_what_a_sorted_list_does(script in script(1..60)) {
        script.run();
    }
}

/// A generator that is the same everywhere: xorshift64*.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) % bound
    }
}

/// Timers crowd into few buckets, and most are stopped: chunks fill up, thin out and merge.
#[test]
fn crowded_and_thinned_buckets_keep_their_order() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let start = STARTS[random.below(STARTS.len() as u64) as usize];
        let spread = 1 << random.below(16);
        let mut steps = Vec::new();
        for _ in 0..60 {
            let which = random.below(1 << 40) as usize;
            let when = When::In(spread / 2 + random.below(spread));
            steps.push(match random.below(12) {
                0..5 => Step::StartMany(when, random.below(90) as u8),
                5 => Step::Thin(2 + random.below(30) as usize),
                6..8 => Step::Stop(which),
                8..10 => Step::Restart(which, when),
                10 => Step::PopWithin(When::In(random.below(spread)), random.below(250) as u8),
                _ => Step::Advance(When::In(random.below(1 + spread / 4))),
            });
        }
        Script { start, steps }.run();
    }
}

/// Every script of four steps out of a dozen, around the first tick of a bucket of level 1, 2, 6 and 10.
#[test]
fn all_short_scripts_around_a_boundary_behave() {
    for boundary in [64, 4096, 1 << 36, 1 << 63] {
        let alphabet = [
            Step::Start(When::At(boundary - 1)),
            Step::Start(When::At(boundary)),
            Step::Start(When::At(boundary + 1)),
            Step::Start(When::At(boundary + 64)),
            Step::Stop(0),
            Step::Restart(0, When::At(boundary)),
            Step::Restart(1, When::At(boundary + 65)),
            Step::Advance(When::At(boundary - 1)),
            Step::Pop(When::At(boundary)),
            Step::PopWithin(When::At(boundary + 2), 1),
            Step::Advance(When::At(boundary + 64)),
        ];
        let count = alphabet.len();
        for number in 0..count.pow(4) {
            let letters = [number, number / count, number / count.pow(2), number / count.pow(3)];
            let steps = letters.map(|letter| alphabet[letter % count]).to_vec();
            Script { start: boundary - 2, steps }.run();
        }
    }
}

#[test]
fn equal_deadlines_expire_in_order_of_starting_whatever_levels_they_came_through() {
    for level in 0..=10u32 {
        for step in [1, 7, 64, 1 << 20, 1 << 40] {
            for start in STARTS {
                let span = (1u64 << (6 * level)).saturating_mul(3);
                let deadline = start.saturating_add(span).min(u64::MAX - 1);
                let mut steps = Vec::new();
                // From further and further down, until the deadline is reached.
                for below in (0..=level).rev() {
                    let before = (1u64 << (6 * below)).min(deadline);
                    steps.push(Step::Start(When::At(deadline)));
                    steps.push(Step::Advance(When::At(deadline - before)));
                    steps.push(Step::Start(When::At(deadline)));
                }
                steps.push(Step::PopWithin(When::In(step), 3));
                steps.push(Step::Start(When::At(deadline)));
                Script { start, steps }.run();
            }
        }
    }
}

#[test]
fn a_step_of_any_size_finds_the_next_timer() {
    for level in 0..=10u32 {
        for off in -2i64..=2 {
            let deadline = (1u64 << (6 * level)).saturating_add_signed(off);
            for start in STARTS {
                let mut wheel = TimingWheel::starting_at(Tick::new(start));
                let at = Tick::new(start.saturating_add(deadline).min(u64::MAX - 1));
                wheel.start_timer(at, ());
                assert_eq!(wheel.next_expiration(), Some(at));
                if at > Tick::new(start) {
                    assert_eq!(wheel.pop_expired(Tick::new(at.as_u64() - 1)), None, "{at:?} is not due yet");
                }
                assert_eq!(wheel.pop_expired(at).map(|it| it.deadline), Some(at));
            }
        }
    }
}

#[test]
fn an_id_that_is_stale_or_foreign_names_nothing() {
    let mut wheel = TimingWheel::new();
    let mut other = TimingWheel::new();
    let foreign: Vec<_> = (0..5000u64).map(|n| other.start_timer(Tick::new(n), n)).collect();
    let stale = wheel.start_timer(Tick::new(1), 1u64);
    assert_eq!(wheel.stop_timer(stale), Some(1));
    let again = wheel.start_timer(Tick::new(2), 2);
    assert_ne!(stale, again);
    for id in foreign.into_iter().skip(1).chain([stale]) {
        assert_eq!(wheel.stop_timer(id), None);
        assert_eq!((wheel.deadline(id), wheel.get(id)), (None, None));
        assert_eq!(wheel.get_mut(id), None);
        assert!(!wheel.restart_timer(id, Tick::new(5)));
    }
    let expired = wheel.pop_expired(Tick::new(2)).unwrap();
    assert_eq!((expired.id, wheel.stop_timer(again)), (again, None));
    wheel.check_invariants();
}

#[test]
fn memory_follows_the_number_of_timers_down() {
    let mut wheel = TimingWheel::new();
    let empty = wheel.heap_size();
    let mut random = Random::new(1);
    let mut ids: Vec<_> =
        (0..100_000u64).map(|n| wheel.start_timer(Tick::new(random.below(60_000)), n)).collect();
    let full = wheel.heap_size();
    assert!(full < 100_000 * 40 + empty, "{} bytes a timer", full / 100_000);

    // Worst case: nearly all are stopped, evenly, and others come instead.
    for round in 0..4 {
        for (n, id) in ids.iter_mut().enumerate() {
            if n % 16 != round {
                wheel.stop_timer(*id);
                *id = wheel.start_timer(Tick::new(random.below(60_000)), n as u64);
            }
        }
        assert!(wheel.heap_size() < 100_000 * 64 + empty, "{} bytes a timer", wheel.heap_size() / 100_000);
    }
    wheel.check_invariants();

    while wheel.pop_expired(Tick::new(60_000)).is_some() {}
    assert!(wheel.is_empty());
    assert!(wheel.heap_size() < 300_000, "{} bytes are left of {full}", wheel.heap_size());
    wheel.check_invariants();
}

/// In the order in which they were started the first half empties while all of it may be needed again.
#[test]
fn memory_returns_in_whatever_order_a_burst_ends() {
    const BURST: u64 = 200_000;
    let orders: [fn(&mut Vec<TimerId>); 3] =
        [|_| (), |ids| ids.reverse(), |ids| ids.sort_by_key(|id| id.as_u64() % 97)];
    for order in orders {
        let mut wheel = TimingWheel::new();
        let mut ids: Vec<_> = (0..BURST).map(|n| wheel.start_timer(Tick::new(n % 5000), n)).collect();
        let full = wheel.heap_size();
        order(&mut ids);
        for id in ids.drain(10..) {
            assert!(wheel.stop_timer(id).is_some());
        }
        wheel.check_invariants();
        assert!(wheel.heap_size() * 10 < full, "{} bytes are left of {full}", wheel.heap_size());
        assert!(ids.into_iter().all(|id| wheel.stop_timer(id).is_some()));
    }
}

/// The slots of a segment that has given its memory back start with generations that none of them has had.
#[test]
fn an_old_id_names_nothing_after_memory_was_given_back_and_taken_again() {
    let mut wheel = TimingWheel::new();
    let mut old = Vec::new();
    for round in 0..4u64 {
        let mut ids: Vec<_> = (0..20_000).map(|n| wheel.start_timer(Tick::new(round + n), n)).collect();
        assert!(old.iter().all(|id| wheel.stop_timer(*id).is_none() && wheel.deadline(*id).is_none()));
        assert_eq!(wheel.len(), 20_000);
        if round % 2 == 0 {
            ids.reverse();
        }
        assert!(ids.iter().all(|id| wheel.stop_timer(*id).is_some()));
        old.extend(ids);
    }
}

#[test]
fn thinning_out_a_crowd_gives_back_what_it_lay_in() {
    const CROWD: u64 = 64_000;
    for deadline in [5, 100_000] {
        let mut wheel = TimingWheel::new();
        let ids: Vec<_> = (0..CROWD).map(|n| wheel.start_timer(Tick::new(deadline), n)).collect();
        let full = wheel.heap_size();
        for id in ids.iter().enumerate().filter(|(n, _)| n % 16 != 0).map(|(_, id)| *id) {
            wheel.stop_timer(id);
        }
        wheel.check_invariants();
        // Their slots stay, 16 bytes each, since one of each segment is in use. Of the 12 bytes in a bucket, most go.
        let given_back = full - wheel.heap_size();
        assert!(given_back > CROWD as usize * 6, "{given_back} bytes of {full}");
    }
}

#[test]
fn timers_that_come_and_go_at_the_end_of_a_bucket_take_no_more_room() {
    let mut wheel = TimingWheel::new();
    let mut waiting: std::collections::VecDeque<_> =
        (0..1000).map(|n| wheel.start_timer(Tick::new(5), n)).collect();
    let before = wheel.heap_size();
    for n in 0..100_000u64 {
        // The youngest go: always the same ones stay in front.
        wheel.stop_timer(waiting.pop_back().expect("they are a thousand"));
        waiting.push_back(wheel.start_timer(Tick::new(5), n));
    }
    wheel.check_invariants();
    assert!(wheel.heap_size() <= before + 2000, "{} after {before}", wheel.heap_size());
}

#[test]
fn timers_that_take_places_anew_and_for_the_first_time_have_names_of_their_own() {
    // So many are stopped first that the places used again are no round number, then thousands are started.
    for stopped in [1, 7, 25, 61] {
        let mut wheel = TimingWheel::new();
        let mut ids: Vec<_> = (0..100u64).map(|n| wheel.start_timer(Tick::new(n), n)).collect();
        for id in ids.drain(..stopped) {
            assert!(wheel.stop_timer(id).is_some());
        }
        let first = stopped as u64;
        ids.extend((100..5000).map(|n| wheel.start_timer(Tick::new(n), n)));
        wheel.check_invariants();
        for (id, n) in ids.into_iter().zip(first..) {
            assert_eq!(wheel.get(id), Some(&n));
        }
    }
}
