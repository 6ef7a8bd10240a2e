//! What a histogram says, held against the sorted times.

use super::*;
use proptest::prelude::*;

/// Times of all sizes: a number of random length, so that each doubling is as likely.
fn time() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0..=64u32).prop_map(|(bits, shift)| bits.checked_shr(shift).unwrap_or(0))
}

fn of(times: &[u64]) -> Histogram {
    let mut histogram = Histogram::new();
    times.iter().for_each(|nanos| histogram.record(Duration::from_nanos(*nanos)));
    histogram
}

/// The shortest time that a share `q` of the sorted times did not exceed.
fn exact(sorted: &[u64], q: f64) -> u64 {
    let rank = (sorted.len() as f64 * q).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

proptest! {
    #[test]
    fn a_quantile_is_never_too_short_and_a_sixteenth_too_long_at_most(
        mut times in prop::collection::vec(time(), 1..200),
        q in 0.0..=1.0f64,
    ) {
        let histogram = of(&times);
        times.sort_unstable();
        let (exact, told) = (exact(&times, q), histogram.quantile(q).as_nanos() as u64);
        prop_assert!(exact <= told && told - exact <= exact / 16, "{told} for {exact}");
    }

    #[test]
    fn count_sum_mean_and_maximum_are_exact(times in prop::collection::vec(time(), 0..200)) {
        let histogram = of(&times);
        let sum: u128 = times.iter().map(|nanos| u128::from(*nanos)).sum();
        prop_assert_eq!(histogram.count(), times.len() as u64);
        prop_assert_eq!(histogram.sum().as_nanos(), sum);
        prop_assert_eq!(histogram.mean().as_nanos(), sum.checked_div(times.len() as u128).unwrap_or(0));
        prop_assert_eq!(histogram.max().as_nanos() as u64, times.iter().copied().max().unwrap_or(0));
    }

    #[test]
    fn merged_histograms_are_the_one_that_has_seen_everything(
        parts in prop::collection::vec(prop::collection::vec(time(), 0..50), 0..5),
    ) {
        let mut merged = Histogram::new();
        parts.iter().for_each(|part| merged.merge(&of(part)));
        prop_assert_eq!(merged, of(&parts.concat()));
    }

    #[test]
    fn what_was_recorded_since_is_what_came_after(
        before in prop::collection::vec(time(), 0..50),
        after in prop::collection::vec(time(), 0..50),
    ) {
        let since = of(&[before.clone(), after.clone()].concat()).since(&of(&before));
        let own = of(&after);
        prop_assert!(since.buckets().eq(own.buckets()));
        prop_assert_eq!((since.count(), since.sum()), (own.count(), own.sum()));
        let (max, own) = (since.max().as_nanos(), own.max().as_nanos());
        prop_assert!(own <= max && max - own <= own / 16);
    }

    #[test]
    fn the_buckets_hold_what_was_recorded_and_lie_in_a_row(times in prop::collection::vec(time(), 0..200)) {
        let histogram = of(&times);
        let mut last = None;
        for Bucket { from, to, count } in histogram.buckets() {
            prop_assert!(last < Some(from) && from <= to);
            last = Some(to);
            let inside = times.iter().filter(|nanos| (from..=to).contains(&Duration::from_nanos(**nanos)));
            prop_assert_eq!(inside.count() as u64, count);
        }
        prop_assert_eq!(histogram.buckets().map(|bucket| bucket.count).sum::<u64>(), histogram.count());
    }

    #[test]
    fn the_count_within_a_limit_leaves_out_a_part_of_one_bucket_at_most(
        times in prop::collection::vec(time(), 0..200), limit in time(),
    ) {
        let told = of(&times).count_within(Duration::from_nanos(limit));
        let within = |limit: u64| times.iter().filter(|nanos| **nanos <= limit).count() as u64;
        prop_assert!(told <= within(limit) && told >= within(limit.saturating_sub(limit / 16 + 1)));
    }

    #[test]
    fn to_record_many_is_to_record_each(nanos in time(), count in 0..50usize) {
        let mut many = Histogram::new();
        many.record_many(Duration::from_nanos(nanos), count as u64);
        prop_assert_eq!(many, of(&vec![nanos; count]));
    }
}

#[test]
fn the_buckets_cover_all_times_without_a_gap() {
    assert_eq!((first_of(0), last_of(BUCKETS - 1)), (0, u64::MAX));
    for at in 0..BUCKETS {
        assert_eq!((bucket_of(first_of(at)), bucket_of(last_of(at))), (at, at));
        assert!(at == 0 || first_of(at) == last_of(at - 1) + 1);
        assert!(last_of(at) - first_of(at) <= first_of(at) / STEPS as u64, "no wider than a sixteenth");
    }
}

#[test]
fn an_empty_histogram_and_odd_shares_have_an_answer() {
    let empty = Histogram::new();
    assert_eq!((empty.quantile(0.5), empty.mean(), empty.max()), Default::default());
    let two = of(&[3, 7]);
    for (q, nanos) in [(f64::NAN, 3), (-1.0, 3), (0.0, 3), (0.5, 3), (0.51, 7), (2.0, 7)] {
        assert_eq!(two.quantile(q), Duration::from_nanos(nanos), "{q}");
    }
}

#[test]
fn a_time_beyond_all_buckets_is_in_the_last_one() {
    let mut histogram = Histogram::new();
    histogram.record(Duration::MAX);
    assert_eq!(histogram.max(), Duration::from_nanos(u64::MAX));
    assert_eq!(histogram.quantile(1.0), histogram.max());
}

#[test]
fn counts_stay_at_the_greatest_number_that_there_is() {
    let mut full = Histogram::new();
    for time in [Duration::from_nanos(1), Duration::MAX, Duration::MAX] {
        full.record_many(time, u64::MAX);
    }
    full.merge(&full.clone());
    assert_eq!((full.count(), full.count_within(Duration::MAX)), (u64::MAX, u64::MAX));
    assert_eq!((full.mean(), full.sum()), (full.max(), Duration::MAX));
    assert_eq!((full.quantile(0.5), full.quantile(1.0)), (Duration::from_nanos(1), Duration::from_nanos(1)));
    assert_eq!(full.since(&Histogram::new()).count(), u64::MAX);
}
