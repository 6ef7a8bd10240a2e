//! The policy, by example and by property.

use super::*;
use proptest::prelude::*;

const YEAR: Duration = Duration::from_secs(365 * 86_400);

fn failed(attempt: u32) -> Failed {
    Failed { attempt, ..Failed::default() }
}

#[test]
fn a_delay_grows_to_the_cap_and_stays_there_and_is_never_nothing() {
    for base in [Duration::from_nanos(1), Duration::from_secs(5)] {
        for factor in [1.000_000_1, 1.5, 2.0, 10.0] {
            for cap in [Duration::from_secs(20), Duration::from_secs(30), YEAR, Duration::MAX] {
                let backoff = Backoff::exponential(base, factor, cap).unwrap();
                let mut last = Duration::ZERO;
                for attempt in (0..=10_000).chain([1 << 20, u32::MAX - 1, u32::MAX]) {
                    let delay = backoff.delay(attempt);
                    assert!(delay >= last && delay >= base && delay <= cap, "{factor} {attempt} {delay:?}");
                    last = delay;
                }
                if factor > 1.1 {
                    assert_eq!(last, cap, "base {base:?} factor {factor}");
                }
            }
        }
    }
    let cap = Duration::from_secs(30);
    let slow = Backoff::exponential(Duration::from_secs(1), 1.000_000_1, cap).unwrap();
    assert_eq!(slow.delay(u32::MAX), cap, "the slowest growth gets there as well");
}

#[test]
fn a_base_of_nothing_stays_nothing_and_a_cap_below_the_base_wins() {
    let none = Backoff::exponential(Duration::ZERO, 2.0, YEAR).unwrap();
    assert_eq!((none.delay(1), none.delay(u32::MAX)), (Duration::ZERO, Duration::ZERO));
    let capped = Backoff::exponential(YEAR, 2.0, Duration::from_secs(1)).unwrap();
    assert_eq!((capped.delay(1), capped.delay(9)), (Duration::from_secs(1), Duration::from_secs(1)));
}

#[test]
fn factors_by_which_nothing_grows_are_refused_by_name() {
    for factor in [0.999, 0.0, -2.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let error = Backoff::exponential(YEAR, factor, YEAR).unwrap_err();
        assert!(error.to_string().contains(&factor.to_string()), "{error}");
    }
}

#[test]
fn a_table_is_followed_and_its_last_entry_repeated() {
    let standard = Backoff::standard();
    let seconds = [10, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 7200];
    for (attempt, seconds) in (0..).zip(seconds) {
        assert_eq!(standard.delay(attempt), Duration::from_secs(seconds), "after attempt {attempt}");
    }
    assert_eq!(standard.delay(u32::MAX), Duration::from_secs(7200));
    assert_eq!(Backoff::table([]).delay(7), Duration::ZERO);
    let falling = Backoff::table([YEAR, Duration::ZERO]).jitter(Jitter::Decorrelated);
    assert_eq!(
        falling.decide(failed(3), 0),
        Verdict::Retry(YEAR),
        "no less than the first, though it is the longest"
    );
}

#[test]
fn it_gives_up_after_the_last_attempt_and_before_a_retry_beyond_the_age() {
    let backoff = Backoff::fixed(Duration::from_secs(10)).max_attempts(3).max_age(Duration::from_secs(60));
    let decide = |attempt, age| {
        backoff.decide(Failed { attempt, age: Duration::from_secs(age), ..Failed::default() }, 0)
    };
    assert_eq!(decide(2, 50), Verdict::Retry(Duration::from_secs(10)), "due at the very end of its age");
    assert_eq!(decide(2, 51), Verdict::Dead(Spent::Age));
    assert_eq!(decide(3, 0), Verdict::Dead(Spent::Attempts));
    assert_eq!(decide(u32::MAX, u64::MAX), Verdict::Dead(Spent::Attempts));
    let once = Backoff::fixed(YEAR).max_attempts(0);
    assert_eq!(once.decide(failed(1), 0), Verdict::Dead(Spent::Attempts), "no limit of 0: one delivery");
}

#[test]
fn jitter_stays_in_its_bounds_and_reaches_all_parts_of_them() {
    let second = Duration::from_secs(1);
    for (jitter, least, most) in [
        (Jitter::None, second, second),
        (Jitter::Full, Duration::ZERO, second),
        (Jitter::Equal, second / 2, second),
    ] {
        let backoff = Backoff::fixed(second).jitter(jitter).seed(42);
        let mut quarters = [0; 4];
        for salt in 0..1000 {
            let Verdict::Retry(delay) = backoff.decide(failed(1), salt) else { panic!("it gave up") };
            assert!((least..=most).contains(&delay), "{jitter:?} {delay:?}");
            let span = (most - least).as_secs_f64();
            if span > 0.0 {
                quarters[(((delay - least).as_secs_f64() / span * 4.0) as usize).min(3)] += 1;
            }
        }
        assert!(jitter == Jitter::None || quarters.iter().all(|n| *n > 150), "{jitter:?} {quarters:?}");
    }
}

#[test]
fn decorrelated_jitter_lies_between_the_first_delay_and_three_times_the_last() {
    let (base, cap) = (Duration::from_secs(1), Duration::from_secs(60));
    let backoff = Backoff::exponential(base, 2.0, cap).unwrap().jitter(Jitter::Decorrelated);
    let mut previous = Duration::ZERO;
    let mut longest = Duration::ZERO;
    for attempt in 1..2000 {
        let Verdict::Retry(delay) = backoff.decide(Failed { attempt, previous, ..Failed::default() }, 7)
        else {
            panic!("it gave up")
        };
        assert!(delay >= base && delay <= (previous * 3).clamp(base, cap), "{previous:?} then {delay:?}");
        (previous, longest) = (delay, longest.max(delay));
    }
    assert!(longest > cap / 2);
}

#[test]
fn the_same_seed_and_item_give_the_same_delay_and_others_another() {
    let backoff = Backoff::fixed(YEAR).jitter(Jitter::Full).seed(1);
    let delay = backoff.decide(failed(1), 5);
    assert_eq!(delay, backoff.clone().decide(failed(1), 5));
    assert_ne!(delay, backoff.decide(failed(1), 6), "another item");
    assert_ne!(delay, backoff.decide(failed(2), 5), "another attempt");
    assert_ne!(delay, backoff.seed(2).decide(failed(1), 5), "another seed");
}

#[test]
fn the_longest_durations_are_spread_without_overflow() {
    for jitter in [Jitter::Full, Jitter::Equal, Jitter::Decorrelated] {
        let backoff = Backoff::fixed(Duration::MAX).jitter(jitter);
        let longest = Failed { attempt: u32::MAX - 1, previous: Duration::MAX, age: Duration::MAX };
        assert!(matches!(backoff.decide(longest, u64::MAX), Verdict::Retry(_)), "{jitter:?}");
    }
    assert_eq!(from_nanos(Duration::MAX.as_nanos()), Duration::MAX);
}

fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        1 => prop::sample::select(vec![Duration::ZERO, Duration::from_nanos(1), Duration::MAX]),
        2 => (0..100_000_000_000u64).prop_map(Duration::from_nanos),
        1 => (any::<u64>(), 0..1_000_000_000u32).prop_map(|(seconds, nanos)| Duration::new(seconds, nanos)),
    ]
}

fn attempt() -> impl Strategy<Value = u32> {
    prop_oneof![0..100u32, any::<u32>(), u32::MAX - 1..=u32::MAX]
}

fn exponential() -> impl Strategy<Value = (Duration, Duration, Backoff)> {
    let factor = prop_oneof![1.0..3.0f64, Just(1.0), 1.0..f64::MAX, Just(f64::MAX)];
    (duration(), factor, duration())
        .prop_map(|(base, factor, cap)| (base, cap, Backoff::exponential(base, factor, cap).unwrap()))
}

fn backoff() -> impl Strategy<Value = Backoff> {
    let table = prop::collection::vec(duration(), 0..6).prop_map(Backoff::table);
    let delays = prop_oneof![table, exponential().prop_map(|(_, _, backoff)| backoff)];
    let jitters = vec![Jitter::None, Jitter::Full, Jitter::Equal, Jitter::Decorrelated];
    let limits = (prop_oneof![Just(u32::MAX), attempt()], prop_oneof![Just(Duration::MAX), duration()]);
    (delays, prop::sample::select(jitters), any::<u64>(), limits).prop_map(
        |(delays, jitter, seed, (attempts, age))| {
            delays.jitter(jitter).seed(seed).max_attempts(attempts).max_age(age)
        },
    )
}

proptest! {
    /// What may be decided follows from the definitions of the limits and of the jitters, for whatever is told.
    #[test]
    fn any_decision_is_within_the_limits_and_the_same_again(
        backoff in backoff(),
        (attempt, previous, age) in (attempt(), duration(), duration()),
        salt in any::<u64>(),
    ) {
        let delay = backoff.delay(attempt);
        let first = backoff.delay(1);
        let (least, most) = match backoff.jitter {
            Jitter::None => (delay, delay),
            Jitter::Full => (Duration::ZERO, delay),
            Jitter::Equal => (delay / 2, delay),
            Jitter::Decorrelated => {
                let longest = backoff.delay(u32::MAX).max(first);
                (first, previous.saturating_mul(3).max(first).min(longest))
            }
        };
        let failed = Failed { attempt, previous, age };
        let verdict = backoff.decide(failed, salt);
        match verdict {
            Verdict::Dead(Spent::Attempts) => prop_assert!(attempt >= backoff.max_attempts.get()),
            Verdict::Dead(Spent::Age) => prop_assert!(age.saturating_add(most) > backoff.max_age),
            Verdict::Retry(delay) => {
                prop_assert!(attempt < backoff.max_attempts.get());
                prop_assert!((least..=most).contains(&delay), "{:?} not in {:?}..={:?}", delay, least, most);
                prop_assert!(age.saturating_add(delay) <= backoff.max_age);
            }
        }
        prop_assert_eq!(backoff.clone().decide(failed, salt), verdict);
    }

    #[test]
    fn any_exponential_delay_begins_at_the_base_rises_and_ends_at_the_cap(
        (base, cap, backoff) in exponential(),
        (one, other) in (attempt(), attempt()),
    ) {
        let (sooner, later) = (one.min(other), one.max(other));
        prop_assert_eq!(backoff.delay(1), base.min(cap));
        prop_assert!(backoff.delay(sooner) <= backoff.delay(later));
        prop_assert!((base.min(cap)..=cap).contains(&backoff.delay(later)));
    }
}
