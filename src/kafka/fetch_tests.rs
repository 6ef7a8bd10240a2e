//! Kafka's rules for delayed fetch requests, each with a state made by hand.
//! The numbers "2.2 case n" are those of the rules f1 to f9 at the head of the module.

use std::cell::Cell;
use std::rc::Rc;

use super::*;

/// A partition made by hand. It also counts how often it was asked, to see where a look stops.
#[derive(Clone)]
struct Hand {
    offsets: Result<Offsets, ErrorCode>,
    epoch: Result<Option<EpochEnd>, ErrorCode>,
    throttled: bool,
    asked: Rc<Cell<u32>>,
}

impl FetchPartition for Hand {
    fn offsets(&self, _access: Access) -> Result<Offsets, ErrorCode> {
        self.asked.set(self.asked.get() + 1);
        self.offsets
    }

    fn end_of_epoch(&self, _access: Access, _epoch: i32) -> Result<Option<EpochEnd>, ErrorCode> {
        self.epoch
    }

    fn is_throttled(&self) -> bool {
        self.throttled
    }
}

/// A log whose three ends are the same.
fn ends_at(end: OffsetPlace) -> Hand {
    let offsets = Offsets { log_end: end, high_watermark: end, last_stable: end };
    Hand { offsets: Ok(offsets), epoch: Ok(None), throttled: false, asked: Rc::default() }
}

fn fails_with(error: ErrorCode) -> Hand {
    Hand { offsets: Err(error), ..ends_at(OffsetPlace::UNKNOWN) }
}

fn from(start: OffsetPlace, partition: Hand) -> PartitionFetch<Hand> {
    PartitionFetch {
        partition,
        fetch_offset: start.offset(),
        start,
        max_bytes: 1 << 20,
        current_leader_epoch: None,
        last_fetched_epoch: None,
    }
}

fn consumer(min_bytes: u64) -> FetchLimits {
    FetchLimits { min_bytes, isolation: Isolation::HighWatermark, leader_only: false }
}

fn follower(min_bytes: u64) -> FetchLimits {
    FetchLimits { min_bytes, isolation: Isolation::LogEnd, leader_only: true }
}

fn answer(reason: Reason) -> Decision {
    Decision::Answer(reason)
}

const WAIT: Decision = Decision::Wait { bytes: 0 };

/// Offset 50 at byte 250 of the segment that begins at 0.
const START: OffsetPlace = OffsetPlace::new(50, 0, 250);
/// Offset 100 at byte 500 of the same segment.
const END: OffsetPlace = OffsetPlace::new(100, 0, 500);

#[test]
fn a_request_is_answered_at_once_if_there_is_nothing_to_wait_for() {
    // 2.2, the immediate answer: each condition alone
    let read = FirstRead { partitions: 1, bytes_readable: 9, ..FirstRead::default() };
    assert!(!read.answers_at_once(500, 10), "one byte short: waits");
    assert!(read.answers_at_once(0, 10), "max wait 0");
    assert!(read.answers_at_once(-1, 10), "max wait below 0");
    assert!(read.answers_at_once(500, 9), "enough bytes");
    assert!(read.answers_at_once(500, 0), "min bytes 0");
    assert!(FirstRead::default().answers_at_once(500, 10), "no partitions");
    assert!(FirstRead { any_error: true, ..read }.answers_at_once(500, 10));
    assert!(FirstRead { any_diverging_epoch: true, ..read }.answers_at_once(500, 10));
    assert!(FirstRead { any_preferred_replica: true, ..read }.answers_at_once(500, 10));
}

#[test]
fn the_bytes_of_the_first_read_are_summed_in_64_bits() {
    // 2.2, the immediate answer
    let read = FirstRead { partitions: 3, bytes_readable: 3 << 30, ..FirstRead::default() };
    assert!(read.answers_at_once(500, i32::MAX as u64));
}

#[test]
fn min_bytes_is_capped_to_max_bytes_and_max_bytes_to_the_quota() {
    // 2.2, the immediate answer
    assert_eq!(cap_bytes(100, 50, u64::MAX), (50, 50));
    assert_eq!(cap_bytes(1, 50, 20), (1, 20));
    assert_eq!(cap_bytes(40, 50, 20), (20, 20));
    assert_eq!(cap_bytes(-1, -1, 20), (0, 0));
}

#[test]
fn a_partition_whose_place_is_unknown_adds_nothing_and_is_not_asked() {
    // 2.2 case 1
    let unknown = fails_with(ErrorCode::NOT_LEADER_OR_FOLLOWER);
    let fetch = PartitionFetch { fetch_offset: 50, ..from(OffsetPlace::UNKNOWN, unknown.clone()) };
    assert_eq!(decide(&consumer(1), &[fetch]), WAIT);
    assert_eq!(unknown.asked.get(), 0);
}

#[test]
fn a_partition_that_is_not_led_or_not_hosted_here_ends_the_wait() {
    // 2.2 case 2 A and B
    let error = ErrorCode::NOT_LEADER_OR_FOLLOWER;
    let fetch = from(START, fails_with(error));
    assert_eq!(decide(&follower(1 << 30), &[fetch]), answer(Reason::Unreadable(error)));
}

#[test]
fn an_unknown_partition_ends_the_wait() {
    // 2.2 case 2 C
    let error = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    assert_eq!(
        decide(&consumer(1 << 30), &[from(START, fails_with(error))]),
        answer(Reason::Unreadable(error))
    );
}

#[test]
fn an_offline_log_ends_the_wait() {
    // 2.2 case 2 D
    let error = ErrorCode::KAFKA_STORAGE_ERROR;
    assert_eq!(
        decide(&consumer(1 << 30), &[from(START, fails_with(error))]),
        answer(Reason::Unreadable(error))
    );
}

#[test]
fn a_fenced_epoch_ends_the_wait() {
    // 2.2 case 2 E; also Kafka's DelayedFetchTest, fenced epoch
    let error = ErrorCode::FENCED_LEADER_EPOCH;
    assert_eq!(
        decide(&consumer(1 << 30), &[from(START, fails_with(error))]),
        answer(Reason::Unreadable(error))
    );
}

#[test]
fn an_epoch_that_is_too_new_ends_the_wait_too_instead_of_flying_out() {
    // 2.2 case 2, last line: where Kafka throws, the client hears of it
    let error = ErrorCode::UNKNOWN_LEADER_EPOCH;
    assert_eq!(
        decide(&consumer(1 << 30), &[from(START, fails_with(error))]),
        answer(Reason::Unreadable(error))
    );
}

#[test]
fn the_partition_is_asked_with_the_epoch_and_the_role_of_the_request() {
    // 2.2 case 2
    struct Asked(Cell<Option<Access>>);
    impl FetchPartition for Asked {
        fn offsets(&self, access: Access) -> Result<Offsets, ErrorCode> {
            self.0.set(Some(access));
            Ok(Offsets { log_end: END, high_watermark: END, last_stable: END })
        }
        fn end_of_epoch(&self, access: Access, _epoch: i32) -> Result<Option<EpochEnd>, ErrorCode> {
            assert_eq!(self.0.get(), Some(access), "both questions are asked alike");
            Ok(Some(EpochEnd { epoch: 3, end_offset: 100 }))
        }
    }
    let fetch = PartitionFetch {
        partition: Asked(Cell::new(None)),
        fetch_offset: 50,
        start: START,
        max_bytes: 1,
        current_leader_epoch: Some(3),
        last_fetched_epoch: Some(3),
    };
    let fetches = [fetch];
    assert!(decide(&follower(1), &fetches).is_answer());
    let asked = Access { leader_only: true, current_leader_epoch: Some(3) };
    assert_eq!(fetches[0].partition.0.get(), Some(asked));
}

#[test]
fn followers_read_to_the_log_end_consumers_to_the_watermark_or_the_last_stable_offset() {
    // 2.2 case 3
    let offsets = Offsets {
        log_end: OffsetPlace::new(100, 0, 500),
        high_watermark: OffsetPlace::new(80, 0, 400),
        last_stable: OffsetPlace::new(60, 0, 300),
    };
    let partition = Hand { offsets: Ok(offsets), ..ends_at(END) };
    let bytes = |isolation| {
        let limits = FetchLimits { isolation, ..consumer(u64::MAX) };
        decide(&limits, &[from(START, partition.clone())])
    };
    assert_eq!(bytes(Isolation::LogEnd), Decision::Wait { bytes: 250 });
    assert_eq!(bytes(Isolation::HighWatermark), Decision::Wait { bytes: 150 });
    assert_eq!(bytes(Isolation::LastStable), Decision::Wait { bytes: 50 });
}

#[test]
fn a_fetch_at_the_end_waits_even_if_the_segments_differ() {
    // 2.2 case 4: the watermark may still carry the place on a segment that was closed since (KAFKA-3159)
    let same_offset_on_a_newer_segment = OffsetPlace::new(50, 50, 0);
    assert_eq!(decide(&consumer(1), &[from(START, ends_at(same_offset_on_a_newer_segment))]), WAIT);
    assert_eq!(decide(&consumer(1), &[from(START, ends_at(START))]), WAIT);
}

#[test]
fn a_fetch_past_the_end_ends_the_wait() {
    // 2.2 case 5 (F1)
    let end = OffsetPlace::new(49, 0, 245);
    assert_eq!(decide(&consumer(1 << 30), &[from(START, ends_at(end))]), answer(Reason::Truncated));
}

#[test]
fn a_fetch_on_an_older_segment_ends_the_wait() {
    // 2.2 case 6a (F2)
    let end = OffsetPlace::new(100, 80, 0);
    assert_eq!(decide(&consumer(1 << 30), &[from(START, ends_at(end))]), answer(Reason::OlderSegment));
}

#[test]
fn a_throttled_follower_on_an_older_segment_adds_nothing() {
    // 2.2 case 6a, the exception
    let partition = Hand { throttled: true, ..ends_at(OffsetPlace::new(100, 80, 0)) };
    assert_eq!(decide(&follower(1), &[from(START, partition)]), WAIT);
}

#[test]
fn bytes_on_the_same_segment_count_up_to_the_limit_of_the_partition() {
    // 2.2 case 6b
    let fetch = from(START, ends_at(END));
    assert_eq!(decide(&consumer(251), std::slice::from_ref(&fetch)), Decision::Wait { bytes: 250 });
    assert_eq!(decide(&consumer(250), std::slice::from_ref(&fetch)), answer(Reason::EnoughBytes));
    let limited = PartitionFetch { max_bytes: 100, ..fetch };
    assert_eq!(decide(&consumer(250), &[limited]), Decision::Wait { bytes: 100 });
}

#[test]
fn a_throttled_follower_on_the_same_segment_adds_nothing() {
    // 2.2 case 6b, the exception
    let partition = Hand { throttled: true, ..ends_at(END) };
    assert_eq!(decide(&follower(1), &[from(START, partition)]), WAIT);
}

#[test]
fn a_place_that_is_not_known_on_either_side_adds_nothing() {
    // 2.2 case 6c (KAFKA-16452)
    assert_eq!(decide(&consumer(1), &[from(START, ends_at(OffsetPlace::of_offset(100)))]), WAIT);
    assert_eq!(decide(&consumer(1), &[from(OffsetPlace::of_offset(50), ends_at(END))]), WAIT);
}

fn with_epoch(
    fetch_offset: i64,
    last_fetched: i32,
    known: Result<Option<EpochEnd>, ErrorCode>,
) -> PartitionFetch<Hand> {
    let end = OffsetPlace::new(500, 0, 2500);
    let start = OffsetPlace::new(fetch_offset, 0, 5 * fetch_offset as u64);
    let partition = Hand { epoch: known, ..ends_at(end) };
    PartitionFetch { last_fetched_epoch: Some(last_fetched), ..from(start, partition) }
}

#[test]
fn an_epoch_that_is_not_known_or_cannot_be_read_ends_the_wait() {
    // 2.2 case 7 (H)
    assert_eq!(decide(&follower(1), &[with_epoch(500, 9, Ok(None))]), answer(Reason::Diverging));
    let error = ErrorCode::KAFKA_STORAGE_ERROR;
    assert_eq!(decide(&follower(1), &[with_epoch(500, 9, Err(error))]), answer(Reason::Unreadable(error)));
}

#[test]
fn an_older_epoch_or_an_earlier_end_ends_the_wait() {
    // 2.2 case 7 (H)
    let older = Ok(Some(EpochEnd { epoch: 8, end_offset: 500 }));
    assert_eq!(decide(&follower(1), &[with_epoch(500, 9, older)]), answer(Reason::Diverging));
    let earlier = Ok(Some(EpochEnd { epoch: 9, end_offset: 499 }));
    assert_eq!(decide(&follower(1), &[with_epoch(500, 9, earlier)]), answer(Reason::Diverging));
    let same = Ok(Some(EpochEnd { epoch: 9, end_offset: 500 }));
    assert_eq!(decide(&follower(1), &[with_epoch(500, 9, same)]), WAIT);
}

#[test]
fn the_first_partition_that_ends_the_wait_ends_the_look() {
    // 2.2 case 8
    let (first, second, third) = (
        ends_at(START),
        fails_with(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        fails_with(ErrorCode::NOT_LEADER_OR_FOLLOWER),
    );
    let fetches = [from(START, first.clone()), from(START, second.clone()), from(START, third.clone())];
    let decision = decide(&consumer(1), &fetches);
    assert_eq!(decision, answer(Reason::Unreadable(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)));
    assert_eq!((first.asked.get(), second.asked.get(), third.asked.get()), (1, 1, 0));
}

#[test]
fn bytes_of_all_partitions_are_added_up() {
    // 2.2 case 9 (G)
    let fetches = [from(START, ends_at(END)), from(START, ends_at(START)), from(START, ends_at(END))];
    assert_eq!(decide(&consumer(501), &fetches), Decision::Wait { bytes: 500 });
    assert_eq!(decide(&consumer(500), &fetches), answer(Reason::EnoughBytes));
}

#[test]
fn min_bytes_of_zero_is_always_met() {
    // 2.2 case 9 (G)
    assert_eq!(decide(&consumer(0), &[from(START, ends_at(START))]), answer(Reason::EnoughBytes));
    assert_eq!(decide::<Hand>(&consumer(0), &[]), answer(Reason::EnoughBytes));
}

#[test]
fn three_partitions_with_a_gibibyte_each_are_enough() {
    // 2.2 case 9: in 32 bits the sum would be negative
    let end = OffsetPlace::new(100, 0, 1 << 30);
    let fetch =
        PartitionFetch { max_bytes: i32::MAX as u64, ..from(OffsetPlace::new(0, 0, 0), ends_at(end)) };
    let fetches = [fetch.clone(), fetch.clone(), fetch];
    assert_eq!(decide(&consumer(i32::MAX as u64), &fetches), answer(Reason::EnoughBytes));
    let nearly = FetchLimits { min_bytes: (3 << 30) + 1, ..consumer(0) };
    assert_eq!(decide(&nearly, &fetches), Decision::Wait { bytes: 3 << 30 });
}

#[test]
fn a_sum_that_would_wrap_stops_at_the_largest_number() {
    // 2.2 case 9
    let end = OffsetPlace::new(100, 0, u64::MAX);
    let fetch = PartitionFetch { max_bytes: u64::MAX, ..from(OffsetPlace::new(0, 0, 0), ends_at(end)) };
    let fetches = [fetch.clone(), fetch];
    assert_eq!(decide(&consumer(u64::MAX), &fetches), answer(Reason::EnoughBytes));
}

#[test]
fn the_answer_gets_the_partitions_and_the_outcome_whether_satisfied_or_expired() {
    // 2.2, on completion
    for outcome in [Outcome::Satisfied, Outcome::Expired] {
        let answered = Rc::new(Cell::new(None));
        let slot = answered.clone();
        let op =
            DelayedFetch::new(consumer(1), vec![from(START, ends_at(START))], move |outcome, fetches| {
                let fetches: Vec<PartitionFetch<Hand>> = fetches;
                slot.set(Some((outcome, fetches[0].fetch_offset)));
            });
        op.on_complete(outcome);
        assert_eq!(answered.get(), Some((outcome, 50)));
    }
}

// Kafka's DelayedFetchTest.

#[test]
fn kafka_fetch_test_a_partition_that_is_no_longer_led_completes() {
    let mut op = DelayedFetch::new(
        follower(1),
        vec![from(OffsetPlace::new(500, 0, 0), fails_with(ErrorCode::NOT_LEADER_OR_FOLLOWER))],
        |_, _| {},
    );
    assert!(op.try_complete());
}

#[test]
fn kafka_fetch_test_a_diverging_epoch_completes() {
    let diverging = Ok(Some(EpochEnd { epoch: 9, end_offset: 499 }));
    let mut op = DelayedFetch::new(follower(1), vec![with_epoch(500, 9, diverging)], |_, _| {});
    assert!(op.try_complete());
}

#[test]
fn kafka_fetch_test_a_watermark_without_a_place_completes_only_if_it_lies_before() {
    let start = OffsetPlace::of_offset(450);
    let truncated = vec![from(start, ends_at(OffsetPlace::of_offset(0)))];
    assert!(DelayedFetch::new(consumer(1), truncated, |_, _| {}).try_complete());
    let ahead = vec![from(start, ends_at(OffsetPlace::of_offset(500)))];
    assert!(!DelayedFetch::new(consumer(1), ahead, |_, _| {}).try_complete());
}

// Kafka's ReplicaManagerQuotasTest.

#[test]
fn kafka_quotas_test_a_follower_in_sync_completes_and_a_throttled_one_does_not() {
    let fetch = PartitionFetch { max_bytes: 1, ..from(START, ends_at(END)) };
    assert_eq!(decide(&follower(1), std::slice::from_ref(&fetch)), answer(Reason::EnoughBytes));
    let throttled = Hand { throttled: true, ..ends_at(END) };
    assert_eq!(decide(&follower(1), &[PartitionFetch { partition: throttled, ..fetch }]), WAIT);
}

#[test]
fn kafka_quotas_test_a_consumer_completes_on_the_same_and_on_an_older_segment() {
    let same = PartitionFetch { max_bytes: 1, ..from(START, ends_at(END)) };
    assert_eq!(decide(&consumer(1), &[same]), answer(Reason::EnoughBytes));
    let older = from(START, ends_at(OffsetPlace::new(100, 50, 500)));
    assert_eq!(decide(&consumer(1), &[older]), answer(Reason::OlderSegment));
}

#[test]
fn a_fetch_that_lacks_bytes_waits_for_its_share_on_each_partition() {
    let progress = |place: OffsetPlace, bytes| place.with_progress(bytes);
    let at_end = |end: Hand, start| from(start, end);
    // 250 bytes of 1000 are there, and two partitions can add to them.
    let behind = at_end(ends_at(progress(END, 7500)), progress(START, 7250));
    let none_yet = at_end(ends_at(progress(START, 90)), progress(START, 90));
    let unknown = PartitionFetch { start: OffsetPlace::UNKNOWN, ..behind.clone() };
    let capped = PartitionFetch { max_bytes: 0, ..behind.clone() };
    let throttled = at_end(Hand { throttled: true, ..ends_at(progress(END, 7500)) }, progress(START, 7250));
    let closed = at_end(ends_at(progress(OffsetPlace::new(50, 50, 0), 7250)), progress(START, 7250));
    let numbers = |partitions: &[&PartitionFetch<Hand>]| {
        let partitions: Vec<_> = partitions.iter().map(|fetch| (*fetch).clone()).collect();
        let count = partitions.len();
        let mut fetch = DelayedFetch::new(follower(1000), partitions, |_, _| ());
        assert_eq!(fetch.watches(|_| 1).collect::<Vec<_>>(), vec![Watch::at(1, 0); count]);
        assert_eq!(fetch.next_progress(0), None, "nothing is known before the first look");
        assert!(!fetch.try_complete());
        (0..count).map(|nth| fetch.next_progress(nth).expect("a number")).collect::<Vec<u64>>()
    };
    const MAX: u64 = u64::MAX;
    assert_eq!(numbers(&[&behind]), [8250]);
    assert_eq!(numbers(&[&behind, &none_yet]), [7875, 465]);
    assert_eq!(numbers(&[&behind, &unknown, &capped, &none_yet]), [7875, MAX, MAX, 465]);
    // Bytes before the start are none of the thousand.
    assert_eq!(numbers(&[&at_end(ends_at(progress(START, 90)), progress(START, 100))]), [1100]);
    // What may end the wait unseen is asked at every event, and so is everything with it.
    for odd in [
        &throttled,
        &closed,
        &at_end(ends_at(END), START),
        &PartitionFetch { max_bytes: 0, ..closed.clone() },
    ] {
        assert_eq!(numbers(&[&behind, odd, &unknown]), [0, 0, 0]);
    }
}
