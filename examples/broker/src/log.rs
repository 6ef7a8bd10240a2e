//! A log in memory: whole batches, in order, the oldest dropped when there are too many bytes.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use ixion::kafka::ErrorCode;
use ixion::kafka::fetch::OffsetPlace;

use crate::batch::BatchHead;

/// The records of one partition.
///
/// A position counts bytes since the log's first record ever, dropped ones included, so that it never steps back.
/// There is one segment, with base 0, so a position is an end's [progress](OffsetPlace::with_progress) too.
#[derive(Debug, Default)]
pub(crate) struct Log {
    batches: VecDeque<Batch>,
    /// The first offset that is kept.
    start: i64,
    /// One past the last offset.
    end: i64,
    /// One past the last position.
    end_position: u64,
}

#[derive(Debug)]
struct Batch {
    base: i64,
    last: i64,
    position: u64,
    max_timestamp: i64,
    bytes: Bytes,
}

impl Log {
    /// Begins an empty log at an offset, for a follower who has fallen out of the leader's log.
    pub(crate) fn starting_at(offset: i64) -> Self {
        Log { start: offset, end: offset, ..Log::default() }
    }

    /// Appends a producer's batch: copies it, so that it does not keep the request alive, and stamps it.
    /// Returns its first offset.
    pub(crate) fn append(&mut self, head: &BatchHead, bytes: &[u8], leader_epoch: i32) -> i64 {
        let mut copy = BytesMut::from(bytes);
        BatchHead::stamp(&mut copy, self.end, leader_epoch);
        let base = self.end;
        self.push(head, base, copy.freeze());
        base
    }

    /// Appends what a leader sent, batch by batch, as it is. Batches that are here already are skipped.
    ///
    /// # Errors
    ///
    /// `CORRUPT_MESSAGE` for what is no batch, `OFFSET_OUT_OF_RANGE` for one that does not follow the last.
    pub(crate) fn append_copy(&mut self, mut bytes: &[u8]) -> Result<(), ErrorCode> {
        while !bytes.is_empty() {
            let head = BatchHead::parse(bytes)?;
            let (batch, rest) = bytes.split_at(head.size);
            bytes = rest;
            if head.base_offset < self.end {
                continue;
            }
            if head.base_offset > self.end {
                return Err(ErrorCode::OFFSET_OUT_OF_RANGE);
            }
            // A leader may say anything: no offset is past the last one.
            if self.end.checked_add(i64::from(head.last_offset_delta) + 1).is_none() {
                return Err(ErrorCode::CORRUPT_MESSAGE);
            }
            self.push(&head, head.base_offset, Bytes::copy_from_slice(batch));
        }
        Ok(())
    }

    /// Drops the oldest batches, those wholly below `limit`, while `too_many(bytes kept)`. Returns the bytes dropped.
    pub(crate) fn drop_oldest(&mut self, limit: i64, too_many: impl Fn(u64) -> bool) -> u64 {
        let before = self.bytes();
        while too_many(self.bytes()) && self.batches.front().is_some_and(|batch| batch.last < limit) {
            let dropped = self.batches.pop_front().expect("it was looked at");
            self.start = dropped.last + 1;
        }
        before - self.bytes()
    }

    /// Moves the start up to an offset and drops the batches that lie wholly below it.
    pub(crate) fn drop_below(&mut self, offset: i64) {
        let offset = offset.min(self.end);
        while self.batches.front().is_some_and(|batch| batch.last < offset) {
            self.batches.pop_front();
        }
        self.start = self.start.max(offset);
    }

    /// The first offset that is kept.
    pub(crate) fn start(&self) -> i64 {
        self.start
    }

    /// One past the last offset.
    pub(crate) fn end(&self) -> i64 {
        self.end
    }

    /// The bytes that are kept.
    pub(crate) fn bytes(&self) -> u64 {
        self.end_position - self.batches.front().map_or(self.end_position, |batch| batch.position)
    }

    /// Where an offset lies: at the beginning of its batch. The end lies behind the last one.
    pub(crate) fn place(&self, offset: i64) -> OffsetPlace {
        let position =
            self.batches.get(self.index_of(offset)).map_or(self.end_position, |batch| batch.position);
        OffsetPlace::new(offset, 0, position).with_progress(position)
    }

    /// Reads whole batches from the one with `from` on: those that end below `limit` and fit into `max_bytes`. With
    /// `at_least_one` the first is read even if it does not fit.
    pub(crate) fn read(&self, from: i64, limit: i64, max_bytes: u64, at_least_one: bool) -> Bytes {
        let first = self.index_of(from);
        let mut size = 0u64;
        let mut count = 0;
        for batch in self.batches.range(first..) {
            let next = size + batch.bytes.len() as u64;
            let fits = next <= max_bytes || (at_least_one && count == 0);
            if batch.last >= limit || !fits {
                break;
            }
            size = next;
            count += 1;
        }
        match count {
            0 => Bytes::new(),
            1 => self.batches[first].bytes.clone(),
            _ => {
                let mut all = BytesMut::with_capacity(size as usize);
                self.batches
                    .range(first..first + count)
                    .for_each(|batch| all.extend_from_slice(&batch.bytes));
                all.freeze()
            }
        }
    }

    /// The first batch below `limit` with a record of this time or later: its last time and its first offset. To the
    /// batch, not to the record: records may be compressed.
    pub(crate) fn find_timestamp(&self, timestamp: i64, limit: i64) -> Option<(i64, i64)> {
        let below = self.batches.iter().take_while(|batch| batch.last < limit);
        below
            .map(|batch| (batch.max_timestamp, batch.base.max(self.start)))
            .find(|(max_timestamp, _)| *max_timestamp >= timestamp)
    }

    /// The batch below `limit` with the latest time: that time and the batch's last offset.
    pub(crate) fn latest_timestamp(&self, limit: i64) -> Option<(i64, i64)> {
        let below = self.batches.iter().take_while(|batch| batch.last < limit);
        // Of equal times the first counts.
        below
            .map(|batch| (batch.max_timestamp, batch.last))
            .reduce(|best, next| if next.0 > best.0 { next } else { best })
    }

    fn push(&mut self, head: &BatchHead, base: i64, bytes: Bytes) {
        let last = base + i64::from(head.last_offset_delta);
        let position = self.end_position;
        self.end_position += bytes.len() as u64;
        self.end = last + 1;
        self.batches.push_back(Batch { base, last, position, max_timestamp: head.max_timestamp, bytes });
    }

    /// The index of the batch with this offset, or of the first one after it.
    fn index_of(&self, offset: i64) -> usize {
        self.batches.partition_point(|batch| batch.last < offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::made_up;

    /// A log with batches of so many records, each of 100 bytes.
    fn log_of(counts: &[i32]) -> Log {
        let mut log = Log::default();
        for &count in counts {
            let bytes = made_up(count, 39);
            let head = BatchHead::parse(&bytes).expect("made up right");
            log.append(&head, &bytes, 0);
        }
        log
    }

    /// A position counts all bytes ever, so it is the progress too.
    fn place(offset: i64, position: u64) -> OffsetPlace {
        OffsetPlace::new(offset, 0, position).with_progress(position)
    }

    #[test]
    fn batches_get_the_next_offsets() {
        let log = log_of(&[3, 1, 2]);
        assert_eq!((log.start(), log.end(), log.bytes()), (0, 6, 300));
        let all = log.read(0, 6, 1000, false);
        let bases: Vec<i64> =
            all.chunks(100).map(|batch| BatchHead::parse(batch).expect("whole").base_offset).collect();
        assert_eq!(bases, [0, 3, 4]);
    }

    #[test]
    fn an_offset_inside_a_batch_reads_the_whole_batch() {
        let log = log_of(&[3, 3]);
        assert_eq!(log.read(2, 6, 1000, false).len(), 200);
        assert_eq!(log.read(3, 6, 1000, false).len(), 100);
        assert_eq!(log.place(2), place(2, 0));
        assert_eq!(log.place(3), place(3, 100));
        assert_eq!(log.place(6), place(6, 200));
    }

    #[test]
    fn only_batches_that_end_below_the_limit_are_read() {
        let log = log_of(&[3, 3]);
        assert_eq!(log.read(0, 5, 1000, true).len(), 100);
        assert_eq!(log.read(0, 2, 1000, true).len(), 0);
    }

    #[test]
    fn batches_must_fit_unless_one_is_wanted_at_least() {
        let log = log_of(&[1, 1, 1]);
        assert_eq!(log.read(0, 3, 250, false).len(), 200);
        assert_eq!(log.read(0, 3, 99, false).len(), 0);
        assert_eq!(log.read(0, 3, 99, true).len(), 100);
        assert_eq!(log.read(0, 3, 0, true).len(), 100);
    }

    #[test]
    fn the_oldest_are_dropped_but_never_above_the_limit() {
        let mut log = log_of(&[1, 1, 1, 1]);
        assert_eq!(log.drop_oldest(3, |bytes| bytes > 150), 300);
        assert_eq!((log.start(), log.bytes()), (3, 100));
        let mut log = log_of(&[1, 1, 1, 1]);
        log.drop_oldest(1, |bytes| bytes > 0);
        assert_eq!((log.start(), log.end()), (1, 4));
        assert_eq!(log.place(1), place(1, 100), "positions go on counting");
    }

    #[test]
    fn dropping_everything_leaves_the_end() {
        let mut log = log_of(&[2, 2]);
        log.drop_oldest(4, |bytes| bytes > 0);
        assert_eq!((log.start(), log.end(), log.bytes()), (4, 4, 0));
        assert_eq!(log.place(4), place(4, 200));
    }

    #[test]
    fn a_copy_is_appended_once_and_without_gaps() {
        let leader = log_of(&[3, 1, 2]);
        let all = leader.read(0, 6, 1000, false);
        let mut copy = Log::default();
        copy.append_copy(&all[..200]).expect("two batches");
        copy.append_copy(&all).expect("the first two are skipped");
        assert_eq!(copy.end(), 6);
        assert_eq!(copy.read(0, 6, 1000, false), all);
        let mut late = Log::default();
        assert_eq!(late.append_copy(&all[100..]), Err(ErrorCode::OFFSET_OUT_OF_RANGE));
        assert_eq!(late.append_copy(&all[..99]), Err(ErrorCode::CORRUPT_MESSAGE));
    }

    #[test]
    fn a_copy_that_would_go_beyond_the_last_offset_is_refused() {
        for (end, expected) in [(i64::MAX - 3, Ok(())), (i64::MAX - 2, Err(ErrorCode::CORRUPT_MESSAGE))] {
            let mut batch = made_up(3, 39);
            BatchHead::stamp(&mut batch, end, 0);
            let mut copy = Log::starting_at(end);
            assert_eq!(copy.append_copy(&batch), expected, "from {end} on");
        }
    }

    #[test]
    fn the_start_moves_up_to_an_offset_inside_a_batch() {
        let mut log = log_of(&[3, 3]);
        log.drop_below(4);
        assert_eq!((log.start(), log.bytes()), (4, 100));
        log.drop_below(99);
        assert_eq!((log.start(), log.end()), (6, 6));
    }

    #[test]
    fn times_are_found_to_the_batch() {
        let log = log_of(&[3, 3]);
        assert_eq!(log.find_timestamp(1000, 6), Some((1000, 0)));
        assert_eq!(log.find_timestamp(1001, 6), None);
        assert_eq!(log.latest_timestamp(6), Some((1000, 2)));
        assert_eq!(log.latest_timestamp(0), None);
    }
}
