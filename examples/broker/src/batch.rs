//! The head of a record batch, format version 2. What follows the head stays as the producer sent it.

use ixion::kafka::ErrorCode;

/// Bytes before what the length field counts: the base offset and the length itself.
pub(crate) const LENGTH_END: usize = 12;
/// Bytes of the whole head.
const HEAD: usize = 61;
/// Where the bytes begin that the checksum covers. What a broker sets, offset and epoch, lies before.
const CHECKED_FROM: usize = 21;
/// Attribute bits of batches that only a transaction's coordinator may write or that belong to a transaction.
const TRANSACTIONAL_OR_CONTROL: i16 = 0b11_0000;

/// The head of one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchHead {
    pub(crate) base_offset: i64,
    /// Bytes of the whole batch, head included.
    pub(crate) size: usize,
    pub(crate) last_offset_delta: i32,
    pub(crate) max_timestamp: i64,
    pub(crate) producer_id: i64,
    pub(crate) producer_epoch: i16,
    pub(crate) base_sequence: i32,
    pub(crate) count: i32,
}

impl BatchHead {
    /// Reads the head of the batch at the beginning of `bytes`, of which more may follow.
    pub(crate) fn parse(bytes: &[u8]) -> Result<BatchHead, ErrorCode> {
        if bytes.len() < HEAD {
            return Err(ErrorCode::CORRUPT_MESSAGE);
        }
        match bytes[16] {
            2 => {}
            0 | 1 => return Err(ErrorCode::UNSUPPORTED_FOR_MESSAGE_FORMAT),
            _ => return Err(ErrorCode::CORRUPT_MESSAGE),
        }
        let length = usize::try_from(i32_at(bytes, 8)).map_err(|_| ErrorCode::CORRUPT_MESSAGE)?;
        let size = length + LENGTH_END;
        if size < HEAD || size > bytes.len() {
            return Err(ErrorCode::CORRUPT_MESSAGE);
        }
        let head = BatchHead {
            base_offset: i64_at(bytes, 0),
            size,
            last_offset_delta: i32_at(bytes, 23),
            max_timestamp: i64_at(bytes, 35),
            producer_id: i64_at(bytes, 43),
            producer_epoch: i16_at(bytes, 51),
            base_sequence: i32_at(bytes, 53),
            count: i32_at(bytes, 57),
        };
        if head.last_offset_delta < 0 {
            return Err(ErrorCode::CORRUPT_MESSAGE);
        }
        Ok(head)
    }

    /// Checks what a producer sent: exactly one whole batch of records with a right checksum.
    pub(crate) fn check_produced(bytes: &[u8], max_bytes: usize) -> Result<BatchHead, ErrorCode> {
        // A producer may put anything into the base offset: the log replaces it.
        let head = BatchHead::parse(bytes)?;
        if head.size > max_bytes {
            return Err(ErrorCode::MESSAGE_TOO_LARGE);
        }
        if head.size != bytes.len() {
            return Err(ErrorCode::INVALID_RECORD);
        }
        if crc32c::crc32c(&bytes[CHECKED_FROM..]) != i32_at(bytes, 17) as u32 {
            return Err(ErrorCode::CORRUPT_MESSAGE);
        }
        let attributes = i16_at(bytes, 21);
        let count = i64::from(head.last_offset_delta) + 1;
        if attributes & TRANSACTIONAL_OR_CONTROL != 0 || i64::from(head.count) != count {
            return Err(ErrorCode::INVALID_RECORD);
        }
        Ok(head)
    }

    /// Sets what the broker decides: where the batch lies and in which epoch it was appended.
    pub(crate) fn stamp(bytes: &mut [u8], base_offset: i64, leader_epoch: i32) {
        bytes[..8].copy_from_slice(&base_offset.to_be_bytes());
        bytes[12..16].copy_from_slice(&leader_epoch.to_be_bytes());
    }

    /// Makes the checksum right, if `bytes` are long enough to have one.
    #[cfg(any(test, feature = "test-util"))]
    pub(crate) fn set_checksum(bytes: &mut [u8]) {
        if let Some(checked) = bytes.get(CHECKED_FROM..) {
            let checksum = crc32c::crc32c(checked);
            bytes[17..21].copy_from_slice(&checksum.to_be_bytes());
        }
    }
}

fn i16_at(bytes: &[u8], at: usize) -> i16 {
    i16::from_be_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

fn i32_at(bytes: &[u8], at: usize) -> i32 {
    i32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn i64_at(bytes: &[u8], at: usize) -> i64 {
    i64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// A batch of `count` records with `payload` bytes after its head, as a producer would send it.
#[cfg(test)]
pub(crate) fn made_up(count: i32, payload: usize) -> Vec<u8> {
    made_up_by(-1, -1, -1, count, payload)
}

/// The same, by an idempotent producer.
#[cfg(test)]
pub(crate) fn made_up_by(id: i64, epoch: i16, sequence: i32, count: i32, payload: usize) -> Vec<u8> {
    let mut bytes = vec![0; HEAD + payload];
    bytes[8..12].copy_from_slice(&((HEAD + payload - LENGTH_END) as i32).to_be_bytes());
    bytes[16] = 2;
    bytes[23..27].copy_from_slice(&(count - 1).to_be_bytes());
    bytes[35..43].copy_from_slice(&1000i64.to_be_bytes());
    bytes[43..51].copy_from_slice(&id.to_be_bytes());
    bytes[51..53].copy_from_slice(&epoch.to_be_bytes());
    bytes[53..57].copy_from_slice(&sequence.to_be_bytes());
    bytes[57..61].copy_from_slice(&count.to_be_bytes());
    BatchHead::set_checksum(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 1 << 20;

    fn check(bytes: &[u8]) -> Result<BatchHead, ErrorCode> {
        BatchHead::check_produced(bytes, MAX)
    }

    #[test]
    fn a_whole_batch_with_a_right_checksum_is_accepted() {
        let head = check(&made_up_by(7, 1, 30, 3, 10)).expect("it is whole");
        assert_eq!((head.count, head.last_offset_delta, head.size), (3, 2, 71));
        assert_eq!((head.producer_id, head.producer_epoch, head.base_sequence), (7, 1, 30));
    }

    #[test]
    fn every_flipped_bit_under_the_checksum_is_seen() {
        let whole = made_up(2, 8);
        for bit in CHECKED_FROM * 8..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(check(&bytes).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn every_cut_is_seen() {
        let whole = made_up(2, 8);
        for length in 0..whole.len() {
            assert_eq!(check(&whole[..length]), Err(ErrorCode::CORRUPT_MESSAGE), "{length} bytes");
        }
    }

    #[test]
    fn older_formats_a_second_batch_and_too_many_bytes_have_their_own_errors() {
        let mut old = made_up(1, 8);
        old[16] = 1;
        assert_eq!(check(&old), Err(ErrorCode::UNSUPPORTED_FOR_MESSAGE_FORMAT));
        let two = [made_up(1, 8), made_up(1, 8)].concat();
        assert_eq!(check(&two), Err(ErrorCode::INVALID_RECORD));
        assert_eq!(BatchHead::check_produced(&made_up(1, 8), 68), Err(ErrorCode::MESSAGE_TOO_LARGE));
    }

    #[test]
    fn a_count_that_is_not_that_of_the_offsets_is_refused() {
        for (count, last_offset_delta) in [(3, 1), (0, 0), (-1, 0), (i32::MIN, i32::MAX), (i32::MIN, 0)] {
            let mut bytes = made_up(2, 8);
            bytes[23..27].copy_from_slice(&i32::to_be_bytes(last_offset_delta));
            bytes[57..61].copy_from_slice(&i32::to_be_bytes(count));
            BatchHead::set_checksum(&mut bytes);
            assert_eq!(
                check(&bytes),
                Err(ErrorCode::INVALID_RECORD),
                "{count} records up to {last_offset_delta}"
            );
        }
    }

    #[test]
    fn stamping_leaves_the_checksum_right() {
        let mut bytes = made_up(2, 8);
        BatchHead::stamp(&mut bytes, 1234, 5);
        assert_eq!(check(&bytes).map(|head| head.base_offset), Ok(1234));
    }
}
