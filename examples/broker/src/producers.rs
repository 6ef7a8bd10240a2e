//! What a partition remembers of idempotent producers, so that a batch that is sent twice is appended once.

use std::collections::{HashMap, VecDeque};

use ixion::kafka::ErrorCode;

use crate::batch::BatchHead;

/// How many batches are remembered per producer: as many as a producer may have in flight.
const REMEMBERED_BATCHES: usize = 5;
/// How many producers are remembered; the one that was silent for longest is forgotten first.
const REMEMBERED_PRODUCERS: usize = 10_000;

/// The producers of one partition.
#[derive(Debug, Default)]
pub(crate) struct Producers {
    by_id: HashMap<i64, Producer>,
    appends: u64,
}

#[derive(Debug)]
struct Producer {
    epoch: i16,
    batches: VecDeque<Sent>,
    last_append: u64,
}

#[derive(Debug, Clone, Copy)]
struct Sent {
    first_sequence: i32,
    last_sequence: i32,
    base_offset: i64,
    last_offset: i64,
}

/// What a batch is to its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Novelty {
    /// It is to be appended.
    New,
    /// It is in the log already, at these offsets.
    Duplicate { base_offset: i64, last_offset: i64 },
}

impl Producers {
    /// Compares a batch with what its producer sent before.
    pub(crate) fn check(&self, head: &BatchHead) -> Result<Novelty, ErrorCode> {
        if head.producer_id < 0 {
            return Ok(Novelty::New);
        }
        if head.base_sequence < 0 || head.producer_epoch < 0 {
            return Err(ErrorCode::INVALID_RECORD);
        }
        let Some(producer) = self.by_id.get(&head.producer_id) else {
            return if head.base_sequence == 0 {
                Ok(Novelty::New)
            } else {
                Err(ErrorCode::UNKNOWN_PRODUCER_ID)
            };
        };
        if head.producer_epoch < producer.epoch {
            return Err(ErrorCode::INVALID_PRODUCER_EPOCH);
        }
        let in_order = if head.producer_epoch > producer.epoch {
            head.base_sequence == 0
        } else {
            let sent = producer.batches.iter().find(|sent| {
                sent.first_sequence == head.base_sequence && sent.last_sequence == last_sequence(head)
            });
            if let Some(&Sent { base_offset, last_offset, .. }) = sent {
                return Ok(Novelty::Duplicate { base_offset, last_offset });
            }
            let last = producer.batches.back().expect("a producer is remembered with its batch");
            head.base_sequence == add(last.last_sequence, 1)
        };
        if in_order { Ok(Novelty::New) } else { Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER) }
    }

    /// Remembers a batch that was appended.
    pub(crate) fn remember(&mut self, head: &BatchHead, base_offset: i64) {
        if head.producer_id < 0 {
            return;
        }
        self.appends += 1;
        let fresh =
            Producer { epoch: head.producer_epoch, batches: VecDeque::new(), last_append: self.appends };
        let producer = self.by_id.entry(head.producer_id).or_insert(fresh);
        if producer.epoch != head.producer_epoch {
            producer.epoch = head.producer_epoch;
            producer.batches.clear();
        }
        if producer.batches.len() == REMEMBERED_BATCHES {
            producer.batches.pop_front();
        }
        producer.batches.push_back(Sent {
            first_sequence: head.base_sequence,
            last_sequence: last_sequence(head),
            base_offset,
            last_offset: base_offset + i64::from(head.last_offset_delta),
        });
        producer.last_append = self.appends;
        if self.by_id.len() > REMEMBERED_PRODUCERS {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let oldest = self.by_id.iter().min_by_key(|(_, producer)| producer.last_append).map(|(&id, _)| id);
        if let Some(id) = oldest {
            self.by_id.remove(&id);
        }
    }
}

fn last_sequence(head: &BatchHead) -> i32 {
    add(head.base_sequence, head.last_offset_delta)
}

/// Sequence numbers go on with 0 after the largest.
fn add(sequence: i32, more: i32) -> i32 {
    ((i64::from(sequence) + i64::from(more)) % (i64::from(i32::MAX) + 1)) as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::made_up_by;

    fn head(id: i64, epoch: i16, sequence: i32, count: i32) -> BatchHead {
        BatchHead::parse(&made_up_by(id, epoch, sequence, count, 0)).expect("made up right")
    }

    /// Checks and, if new, appends at `base`.
    fn send(producers: &mut Producers, head: BatchHead, base: i64) -> Result<Novelty, ErrorCode> {
        let novelty = producers.check(&head)?;
        if novelty == Novelty::New {
            producers.remember(&head, base);
        }
        Ok(novelty)
    }

    #[test]
    fn a_batch_sent_twice_is_a_duplicate_with_its_first_offsets() {
        let mut producers = Producers::default();
        assert_eq!(send(&mut producers, head(1, 0, 0, 3), 10), Ok(Novelty::New));
        let duplicate = Novelty::Duplicate { base_offset: 10, last_offset: 12 };
        assert_eq!(send(&mut producers, head(1, 0, 0, 3), 99), Ok(duplicate));
        assert_eq!(send(&mut producers, head(1, 0, 3, 1), 13), Ok(Novelty::New));
        assert_eq!(send(&mut producers, head(1, 0, 0, 3), 99), Ok(duplicate), "and after the next one too");
    }

    #[test]
    fn the_last_five_are_remembered() {
        let mut producers = Producers::default();
        for sequence in 0..6 {
            assert_eq!(send(&mut producers, head(1, 0, sequence, 1), i64::from(sequence)), Ok(Novelty::New));
        }
        let duplicate = Novelty::Duplicate { base_offset: 1, last_offset: 1 };
        assert_eq!(producers.check(&head(1, 0, 1, 1)), Ok(duplicate));
        assert_eq!(producers.check(&head(1, 0, 0, 1)), Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER));
    }

    #[test]
    fn a_gap_is_out_of_order() {
        let mut producers = Producers::default();
        send(&mut producers, head(1, 0, 0, 1), 0).expect("the first");
        assert_eq!(producers.check(&head(1, 0, 2, 1)), Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER));
    }

    #[test]
    fn an_unknown_producer_must_begin_with_zero() {
        let producers = Producers::default();
        assert_eq!(producers.check(&head(1, 0, 5, 1)), Err(ErrorCode::UNKNOWN_PRODUCER_ID));
    }

    #[test]
    fn an_old_epoch_is_refused_and_a_new_one_begins_with_zero() {
        let mut producers = Producers::default();
        send(&mut producers, head(1, 1, 0, 1), 0).expect("the first");
        assert_eq!(producers.check(&head(1, 0, 1, 1)), Err(ErrorCode::INVALID_PRODUCER_EPOCH));
        assert_eq!(producers.check(&head(1, 2, 1, 1)), Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER));
        assert_eq!(send(&mut producers, head(1, 2, 0, 1), 1), Ok(Novelty::New));
        assert_eq!(send(&mut producers, head(1, 2, 1, 1), 2), Ok(Novelty::New));
    }

    #[test]
    fn sequences_go_on_with_zero_after_the_largest() {
        let mut producers = Producers::default();
        send(&mut producers, head(1, 0, 0, 1), 0).expect("the first");
        producers.by_id.get_mut(&1).expect("known").batches[0].last_sequence = i32::MAX - 1;
        assert_eq!(send(&mut producers, head(1, 0, i32::MAX, 2), 1), Ok(Novelty::New));
        assert_eq!(send(&mut producers, head(1, 0, 1, 1), 3), Ok(Novelty::New));
    }

    #[test]
    fn batches_without_a_producer_id_are_always_new() {
        let mut producers = Producers::default();
        for base in 0..3 {
            assert_eq!(send(&mut producers, head(-1, -1, -1, 1), base), Ok(Novelty::New));
        }
    }
}
