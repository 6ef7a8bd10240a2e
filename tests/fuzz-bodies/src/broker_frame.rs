//! Any bytes, taken for a frame that a client sends to the example broker.
//!
//! 1. There is a request in it, or a reason why there is none. Nothing panics.
//! 2. A frame is read out of a stream as it was put in; what is cut off or too long is refused.
//! 3. Neither takes more memory than the bytes account for.
//! 4. A request that is encoded and decoded again is the same.

use allocation_counter::measure;
use ixion_broker::testing::{check_round_trip, decode, read};

/// What a stream may take whatever is in it: the room that is made for a frame before it is there, and a copy.
const ROOM: u64 = 256 << 10;
/// What a byte may take: a structure with one tagged field is four bytes in a frame and five hundred when decoded.
const PER_BYTE: u64 = 160;

/// Reads and decodes `bytes`.
///
/// # Panics
///
/// If one of the above is not so.
pub fn broker_frame(bytes: &[u8]) {
    let allowed = ROOM + PER_BYTE * bytes.len() as u64;
    let mut decoded = Ok((0, 0));
    let used = measure(|| decoded = decode(bytes)).bytes_max;
    assert!(used <= allowed, "{used} bytes to decode {}: {decoded:?}", bytes.len());
    match decoded {
        Ok(_) => check_round_trip(bytes),
        Err(reason) => assert!(!reason.is_empty()),
    }

    let length = u32::try_from(bytes.len()).expect("an input is short");
    let stream = [&length.to_be_bytes(), bytes, b"the next frame"].concat();
    assert_eq!(read(&stream), Ok(Some(bytes.to_vec())));
    for cut in [1, 3, 4, stream.len() / 2].into_iter().filter(|&cut| cut < bytes.len() + 4) {
        assert!(read(&stream[..cut]).is_err(), "cut off after {cut} bytes");
    }
    // The bytes as a stream of their own may announce anything.
    let used = measure(|| drop(read(bytes))).bytes_max;
    assert!(used <= allowed, "{used} bytes to read {}", bytes.len());
}
