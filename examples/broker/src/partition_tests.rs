//! Replication rules, with followers whose fetches are made by hand.

use ixion::kafka::produce::decide;

use super::*;
use crate::batch::{made_up, made_up_by};

const LAG: Duration = Duration::from_secs(10);
const READ: Access = Access { leader_only: false, current_leader_epoch: None };
const NOTHING: Moved = Moved { log_end: None, high_watermark: None, low_watermark: None, served: false };
const fn watermark(at: u64) -> Moved {
    Moved { high_watermark: reached(at), ..NOTHING }
}

/// After so many records, of 100 bytes each.
const fn reached(records: u64) -> Option<Reached> {
    Some(Reached { offset: records, bytes: 100 * records })
}

/// A follower, whose log begins at 0, fetches: how far the high watermark has come by that.
fn ack(partition: &Partition, node: i32, offset: i64, now: Duration) -> Result<Option<u64>, ErrorCode> {
    let moved = partition.acknowledge(node, offset, 0, now)?;
    Ok(moved.high_watermark.map(|reached| reached.offset))
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn rules(min_insync_replicas: usize) -> Rules {
    Rules {
        min_insync_replicas,
        max_message_bytes: usize::MAX,
        retention_bytes: u64::MAX,
        total_bytes: Arc::default(),
        retention_total_bytes: u64::MAX,
    }
}

fn partition(followers: &[i32], rules: Rules) -> Partition {
    Partition::new(PartitionId(1), Arc::from("topic"), 0, followers, rules, at(0))
}

fn append_batch(partition: &Partition, bytes: &[u8], all_acks: bool) -> Result<Appended, ErrorCode> {
    let head = BatchHead::check_produced(bytes, 1 << 20).expect("made up right");
    partition.append(&head, bytes, all_acks)
}

/// Appends one record in 100 bytes.
fn append(partition: &Partition) -> Moved {
    append_batch(partition, &made_up(1, 39), false).expect("appended").moved
}

fn consume(partition: &Partition, offset: i64) -> Result<usize, ErrorCode> {
    let wanted =
        Wanted { offset, isolation: Isolation::HighWatermark, access: READ, last_fetched_epoch: None };
    partition.read(&wanted, 1 << 20, true).map(|(_, _, records)| records.len())
}

#[test]
fn a_lone_leader_is_its_own_high_watermark() {
    let partition = partition(&[], rules(3));
    assert_eq!(append(&partition), Moved { log_end: reached(1), ..watermark(1) });
    assert_eq!(partition.ends(), Ends { log_start: 0, high_watermark: 1, log_end: 1 });
    assert_eq!(consume(&partition, 0), Ok(100));
}

#[test]
fn the_high_watermark_is_what_all_in_sync_have() {
    let partition = partition(&[2, 3], rules(2));
    assert_eq!(append(&partition), Moved { log_end: reached(1), ..NOTHING });
    assert_eq!(ack(&partition, 2, 0, at(1)), Ok(None));
    assert_eq!(ack(&partition, 3, 0, at(1)), Ok(None));
    assert_eq!(ack(&partition, 2, 1, at(1)), Ok(None));
    assert_eq!(consume(&partition, 0), Ok(0), "not replicated: not to be seen");
    assert_eq!(ack(&partition, 3, 1, at(1)), Ok(Some(1)));
    assert_eq!(consume(&partition, 0), Ok(100));
}

#[test]
fn the_high_watermark_never_steps_back() {
    let partition = partition(&[2], rules(1));
    let _ = append(&partition);
    let _ = ack(&partition, 2, 0, at(1));
    assert_eq!(ack(&partition, 2, 1, at(1)), Ok(Some(1)));
    assert_eq!(ack(&partition, 2, 0, at(1)), Ok(None));
    assert_eq!(partition.ends().high_watermark, 1);
}

#[test]
fn a_first_fetch_from_the_middle_acknowledges_nothing() {
    let partition = partition(&[2], rules(1));
    let _ = append(&partition);
    assert_eq!(ack(&partition, 2, 1, at(1)), Err(ErrorCode::OFFSET_OUT_OF_RANGE), "an earlier topic's");
    assert_eq!(partition.ends().high_watermark, 0);
    assert_eq!(ack(&partition, 2, 9, at(1)), Err(ErrorCode::OFFSET_OUT_OF_RANGE), "past the end");
    assert_eq!(ack(&partition, 4, 0, at(1)), Err(ErrorCode::NOT_LEADER_OR_FOLLOWER), "no replica");
}

#[test]
fn a_laggard_leaves_the_in_sync_set_and_the_watermark_goes_on() {
    let partition = partition(&[2, 3], rules(2));
    let _ = append(&partition);
    for node in [2, 3] {
        let _ = ack(&partition, node, 0, at(1));
    }
    let _ = ack(&partition, 2, 1, at(9));
    assert_eq!(partition.drop_laggards(LAG, at(10)), NOTHING, "not yet");
    assert_eq!(partition.drop_laggards(LAG, at(12)), watermark(1));
    assert_eq!(partition.isr(), [1, 2]);
    assert_eq!(partition.replicas(), [1, 2, 3]);
}

#[test]
fn a_follower_that_has_everything_but_fetches_no_more_leaves_the_in_sync_set() {
    let partition = partition(&[2, 3], rules(1));
    for second in 0..=20 {
        let _ = ack(&partition, 2, 0, at(second));
        assert_eq!(partition.drop_laggards(LAG, at(second)), NOTHING);
    }
    assert_eq!(partition.isr(), [1, 2]);
}

#[test]
fn a_follower_that_keeps_pace_but_is_never_quite_there_stays_in_sync() {
    let partition = partition(&[2], rules(1));
    let _ = append(&partition);
    for second in 0..60 {
        // Each time it has what there was when it last fetched, but one record has come since.
        let _ = ack(&partition, 2, second, at(second as u64));
        let _ = append(&partition);
        let _ = partition.drop_laggards(LAG, at(second as u64));
        assert_eq!(partition.isr(), [1, 2], "second {second}");
    }
}

#[test]
fn a_follower_comes_back_into_the_set_when_it_has_the_watermark() {
    let partition = partition(&[2], rules(1));
    let _ = append(&partition);
    assert_eq!(partition.drop_laggards(LAG, at(11)), watermark(1));
    assert_eq!(partition.isr(), [1]);
    let _ = ack(&partition, 2, 0, at(12));
    assert_eq!(partition.isr(), [1], "below the watermark");
    let _ = ack(&partition, 2, 1, at(12));
    assert_eq!(partition.isr(), [1, 2]);
}

#[test]
fn the_watermark_stands_still_while_too_few_are_in_sync() {
    let partition = partition(&[2], rules(2));
    append_batch(&partition, &made_up(1, 39), true).expect("both are in sync");
    assert_eq!(partition.drop_laggards(LAG, at(11)), NOTHING, "one in sync, two needed");
    assert_eq!(partition.ends().high_watermark, 0);
    assert_eq!(append_batch(&partition, &made_up(1, 39), true), Err(ErrorCode::NOT_ENOUGH_REPLICAS));
    append_batch(&partition, &made_up(1, 39), false).expect("other acks are served");
    assert_eq!(partition.ends().high_watermark, 0);
    let _ = ack(&partition, 2, 0, at(12));
    assert_eq!(ack(&partition, 2, 2, at(12)), Ok(Some(2)), "and goes on when it is back");
    assert_eq!(partition.ends().high_watermark, 2);
}

#[test]
fn a_set_that_shrinks_after_the_watermark_was_reached_is_its_own_error() {
    let partition = partition(&[2], rules(2));
    append_batch(&partition, &made_up(1, 39), true).expect("both are in sync");
    let _ = ack(&partition, 2, 0, at(1));
    assert_eq!(ack(&partition, 2, 1, at(1)), Ok(Some(1)));
    assert_eq!(decide(partition.standing(), 1), Some(ErrorCode::NONE));
    // It leaves before the producer who waits is looked at.
    let _ = partition.drop_laggards(LAG, at(12));
    assert_eq!(decide(partition.standing(), 1), Some(ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND));
    assert_eq!(decide(partition.standing(), 2), None, "what is not replicated waits on, and expires");
}

#[test]
fn a_minimum_above_the_number_of_replicas_counts_as_all() {
    let partition = partition(&[], rules(2));
    append_batch(&partition, &made_up(1, 39), true).expect("one of one is in sync");
    assert_eq!(partition.standing(), Standing::Leader { high_watermark: 1, in_sync: 1, min_in_sync: 1 });
}

#[test]
fn a_batch_sent_again_has_its_first_offsets_and_moves_nothing() {
    let partition = partition(&[], rules(1));
    let batch = made_up_by(7, 0, 0, 2, 39);
    let first = append_batch(&partition, &batch, true).expect("new");
    let again = append_batch(&partition, &batch, true).expect("known");
    assert_eq!((again.base_offset, again.last_offset), (first.base_offset, first.last_offset));
    assert_eq!(again.moved, NOTHING);
    assert_eq!(partition.ends().log_end, 2);
}

#[test]
fn offsets_outside_the_log_are_errors_but_those_above_the_watermark_are_not() {
    let partition = partition(&[2], rules(1));
    let _ = append(&partition);
    assert_eq!(consume(&partition, 1), Ok(0), "between watermark and end");
    assert_eq!(consume(&partition, 2), Err(ErrorCode::OFFSET_OUT_OF_RANGE));
    assert_eq!(consume(&partition, -1), Err(ErrorCode::OFFSET_OUT_OF_RANGE));
}

#[test]
fn an_epoch_other_than_the_current_one_is_refused() {
    let partition = partition(&[], rules(1));
    let epoch = |epoch| Access { leader_only: false, current_leader_epoch: Some(epoch) };
    assert!(partition.offsets(epoch(0), 0).is_ok());
    assert_eq!(partition.offsets(epoch(1), 0), Err(ErrorCode::UNKNOWN_LEADER_EPOCH));
    assert_eq!(partition.offsets(epoch(-2), 0), Err(ErrorCode::FENCED_LEADER_EPOCH));
}

#[test]
fn a_client_of_a_newer_epoch_must_truncate() {
    let partition = partition(&[], rules(1));
    let _ = append(&partition);
    let wanted = |epoch, offset| Wanted {
        offset,
        isolation: Isolation::HighWatermark,
        access: READ,
        last_fetched_epoch: Some(epoch),
    };
    assert_eq!(partition.start(&wanted(0, 1)).map(|start| start.diverging), Ok(None));
    let end = Some(EpochEnd { epoch: 0, end_offset: 1 });
    assert_eq!(partition.start(&wanted(3, 1)).map(|start| start.diverging), Ok(end));
    assert_eq!(partition.start(&wanted(0, 5)).map(|start| start.diverging), Ok(end), "past the epoch's end");
}

#[test]
fn old_batches_are_dropped_below_the_watermark_only() {
    let partition = partition(&[2], Rules { retention_bytes: 250, ..rules(1) });
    for _ in 0..4 {
        let _ = append(&partition);
    }
    assert_eq!(partition.ends().log_start, 0, "nothing is replicated");
    let _ = ack(&partition, 2, 0, at(1));
    let _ = ack(&partition, 2, 3, at(1));
    let _ = append(&partition);
    assert_eq!(partition.ends(), Ends { log_start: 3, high_watermark: 3, log_end: 5 });
    assert_eq!(consume(&partition, 2), Err(ErrorCode::OFFSET_OUT_OF_RANGE));
}

#[test]
fn the_bytes_of_all_logs_have_a_limit() {
    let total = Arc::new(AtomicU64::new(0));
    let rules = || Rules { total_bytes: total.clone(), retention_total_bytes: 250, ..rules(1) };
    let (mine, other) = (partition(&[], rules()), partition(&[2], rules()));
    let _ = append(&mine);
    let _ = append(&other);
    let _ = append(&mine);
    assert_eq!(mine.ends().log_start, 1, "it made room for itself");
    assert_eq!(total.load(Ordering::Relaxed), 200);
    assert_eq!(
        append_batch(&other, &made_up(1, 39), false),
        Err(ErrorCode::KAFKA_STORAGE_ERROR),
        "nothing of its own is replicated, so nothing can go"
    );
    let _ = mine.close();
    assert_eq!(total.load(Ordering::Relaxed), 100);
    append_batch(&other, &made_up(1, 39), false).expect("there is room again");
}

#[test]
fn a_first_fetch_is_noticed() {
    let partition = partition(&[2, 3], rules(1));
    assert_eq!(partition.unserved(), 2);
    for (node, served, unserved) in [(2, true, 1), (2, false, 1), (3, true, 0), (3, false, 0)] {
        let moved = partition.acknowledge(node, 0, 0, at(1)).expect("a replica");
        assert_eq!((moved.served, partition.unserved()), (served, unserved));
    }
}

#[test]
fn a_follower_that_has_lost_its_log_is_out_of_sync_until_it_has_caught_up() {
    let partition = partition(&[2, 3], rules(1));
    let _ = append(&partition);
    for node in [2, 3] {
        let _ = ack(&partition, node, 0, at(1));
        let _ = ack(&partition, node, 1, at(1));
    }
    assert_eq!(ack(&partition, 3, 0, at(2)), Ok(None), "it begins anew");
    assert_eq!(partition.isr(), [1, 2]);
    let _ = append(&partition);
    assert_eq!(ack(&partition, 2, 2, at(3)), Ok(Some(2)), "nobody waits for it");
    let _ = ack(&partition, 3, 2, at(3));
    assert_eq!(partition.isr(), [1, 2, 3]);
}

#[test]
fn deleted_records_are_gone_for_good_when_those_in_sync_have_deleted_them() {
    let partition = partition(&[2, 3], rules(1));
    for _ in 0..3 {
        let _ = append(&partition);
    }
    for node in [2, 3] {
        let _ = ack(&partition, node, 0, at(1));
        let _ = ack(&partition, node, 3, at(9));
    }
    for offset in [-2, 4, i64::MAX] {
        assert_eq!(partition.delete_records(offset), Err(ErrorCode::OFFSET_OUT_OF_RANGE), "{offset}");
    }
    let (required, low, moved) = partition.delete_records(2).expect("below the watermark");
    assert_eq!((required, low, moved.log_end, moved.low_watermark), (2, 0, Some(Reached::ALL), None));
    assert_eq!(partition.ends().log_start, 2);
    assert_eq!(consume(&partition, 1), Err(ErrorCode::OFFSET_OUT_OF_RANGE));
    assert_eq!(
        partition.offsets(READ, 1),
        Err(ErrorCode::OFFSET_OUT_OF_RANGE),
        "who waits there hears of it"
    );
    let low = |node, log_start, seconds| {
        partition.acknowledge(node, 3, log_start, at(seconds)).expect("a replica").low_watermark
    };
    assert_eq!((low(2, 2, 10), partition.low_watermark()), (None, Ok(0)), "the other has not");
    assert_eq!((low(3, 1, 10), partition.low_watermark()), (Some(1), Ok(1)));
    // One that is lost holds nothing up.
    let _ = ack(&partition, 2, 3, at(15));
    let _ = low(2, 2, 21);
    assert_eq!(partition.drop_laggards(LAG, at(21)).low_watermark, Some(2));
    // All of it, and once more.
    for _ in 0..2 {
        let (required, ..) = partition.delete_records(-1).expect("the watermark");
        assert_eq!((required, partition.ends().log_start), (3, 3));
    }
    assert_eq!(partition.delete_records(1).map(|(required, ..)| required), Ok(1), "gone already");
}

#[test]
fn an_append_that_drops_the_oldest_concerns_every_reader_and_any_other_those_it_reaches() {
    let partition = partition(&[], Rules { retention_bytes: 250, ..rules(1) });
    let all_readers = |records| reached(records).map(Reached::with_all_readers);
    for (records, is_all) in [(1, false), (2, false), (3, true), (4, true)] {
        let end = if is_all { all_readers(records) } else { reached(records) };
        assert_eq!(append(&partition).log_end, end, "{records}");
    }
    let moved = append(&partition);
    assert_eq!((moved.high_watermark, moved.low_watermark), (all_readers(5), Some(3)));
}

#[test]
fn deleted_records_make_room_for_others() {
    let total = Arc::new(AtomicU64::new(0));
    let partition = partition(&[], Rules { total_bytes: total.clone(), ..rules(1) });
    let _ = append(&partition);
    let _ = append(&partition);
    let _ = partition.delete_records(1).expect("replicated");
    assert_eq!(total.load(Ordering::Relaxed), 100);
}

#[test]
fn the_limit_of_all_logs_holds_whoever_appends_at_the_same_time() {
    let total = Arc::new(AtomicU64::new(0));
    let limit = 100 * 200;
    let rules = || Rules { total_bytes: total.clone(), retention_total_bytes: limit, ..rules(1) };
    // Nothing is replicated, so nothing can go.
    let partitions = [(); 4].map(|()| partition(&[2], rules()));
    std::thread::scope(|scope| {
        for partition in &partitions {
            scope.spawn(|| while append_batch(partition, &made_up(1, 39), false).is_ok() {});
        }
    });
    let kept: i64 = partitions.iter().map(|partition| 100 * partition.ends().log_end).sum();
    assert!(kept as u64 <= limit, "{kept}");
    assert_eq!(total.load(Ordering::Relaxed), kept as u64, "what was refused is not counted");
}

#[test]
fn a_closed_partition_is_unknown() {
    let partition = partition(&[2], rules(1));
    let _ = append(&partition);
    let (all, low_watermark) = (Some(Reached::ALL), Some(u64::MAX));
    assert_eq!(partition.close(), Moved { log_end: all, high_watermark: all, low_watermark, served: true });
    let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    assert_eq!(consume(&partition, 0), Err(unknown));
    assert_eq!(partition.standing(), Standing::Absent(unknown));
    assert_eq!(append_batch(&partition, &made_up(1, 39), false), Err(unknown));
    assert_eq!(ack(&partition, 2, 0, at(1)), Err(unknown));
    assert_eq!(partition.drop_laggards(LAG, at(99)), NOTHING);
}

#[test]
fn offsets_are_found_by_time() {
    let partition = partition(&[2], rules(1));
    let _ = append(&partition);
    let find = |isolation, timestamp| partition.offset_at(READ, isolation, timestamp);
    assert_eq!(find(Isolation::HighWatermark, -1), Ok((-1, 0)));
    assert_eq!(find(Isolation::LogEnd, -1), Ok((-1, 1)));
    assert_eq!(find(Isolation::LogEnd, -2), Ok((-1, 0)));
    assert_eq!(find(Isolation::LogEnd, -3), Ok((1000, 0)));
    assert_eq!(find(Isolation::LogEnd, 1000), Ok((1000, 0)));
    assert_eq!(find(Isolation::LogEnd, 1001), Ok((-1, -1)));
    assert_eq!(find(Isolation::HighWatermark, 1000), Ok((-1, -1)), "not replicated");
}
