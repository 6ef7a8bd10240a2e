//! The memory for requests that come and replies that go: so much for all connections together.
//!
//! A little is free for every connection. A request that is larger waits for its share, as its bytes come: what it
//! announces is not believed. So each of many may have a part of what it needs, and none the rest: one of them at a time
//! takes what is not there, and they come to their ends one after the other. A reply never waits, it becomes shorter instead; so whoever does not read what he has asked
//! for, and holds a share meanwhile, does not stop the others.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What a request or a reply may take without a share.
pub(crate) const FREE_BYTES: usize = 64 << 10;
/// Shares are counted in pieces of so many bytes.
const PIECE: u64 = 1 << 10;
/// One reply takes no more than this part of what is left, so that a few do not take all.
const LARGEST_PART: usize = 4;

/// What is left of the memory.
#[derive(Debug)]
pub(crate) struct Buffers {
    left: Arc<Semaphore>,
    /// Whoever has this takes what is not there.
    beyond: Arc<Semaphore>,
}

/// A part of it; it comes back when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Share {
    pieces: Option<OwnedSemaphorePermit>,
    beyond: Option<OwnedSemaphorePermit>,
}

impl Buffers {
    pub(crate) fn new(bytes: u64) -> Self {
        let pieces = usize::try_from(bytes / PIECE).unwrap_or(usize::MAX);
        let left = Arc::new(Semaphore::new(pieces.min(Semaphore::MAX_PERMITS)));
        Buffers { left, beyond: Arc::new(Semaphore::new(1)) }
    }

    /// Waits until there are so many bytes more for a share, or it is the turn of this one to take them all the same.
    pub(crate) async fn wait_for(&self, bytes: usize, share: &mut Share) {
        if share.beyond.is_some() {
            return;
        }
        // Neither is closed by anybody.
        tokio::select! {
            biased;
            Ok(more) = self.left.clone().acquire_many_owned(pieces(bytes as u64)) => match &mut share.pieces {
                None => share.pieces = Some(more),
                Some(pieces) => pieces.merge(more),
            },
            beyond = self.beyond.clone().acquire_owned() => share.beyond = beyond.ok(),
        }
    }

    /// Takes up to so many bytes. Returns how many there may be in all, those that are free included.
    pub(crate) fn take(&self, bytes: u64) -> (u64, Share) {
        let free = FREE_BYTES as u64;
        let left = u32::try_from(self.left.available_permits() / LARGEST_PART).unwrap_or(u32::MAX);
        let wanted = pieces(bytes.saturating_sub(free)).min(left);
        let pieces = self.left.clone().try_acquire_many_owned(wanted).ok().filter(|_| wanted > 0);
        let taken = pieces.as_ref().map_or(0, |pieces| pieces.num_permits() as u64 * PIECE);
        (bytes.min(taken + free), Share { pieces, beyond: None })
    }
}

/// The bytes of a request or a reply, which keep what they need of a share.
pub(crate) fn with_share(bytes: BytesMut, mut share: Share) -> Bytes {
    let needed = pieces(bytes.len().saturating_sub(FREE_BYTES) as u64) as usize;
    share.pieces = share.pieces.and_then(|mut pieces| {
        let kept = needed.min(pieces.num_permits());
        pieces.split(kept).filter(|_| kept > 0)
    });
    match share {
        Share { pieces: None, beyond: None } => bytes.freeze(),
        share => Bytes::from_owner(Shared { bytes, _share: share }),
    }
}

struct Shared {
    bytes: BytesMut,
    _share: Share,
}

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn pieces(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(PIECE)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_kept_as_long_as_the_bytes_that_need_it() {
        let buffers = Buffers::new(1 << 20);
        let (room, share) = buffers.take(512 << 10);
        assert_eq!(room, (256 << 10) + FREE_BYTES as u64, "a quarter, and what is free");
        let bytes = with_share(BytesMut::zeroed(FREE_BYTES + 10_000), share);
        assert_eq!(buffers.left.available_permits(), 1024 - 10, "what was too much has come back");
        let part = bytes.slice(..1);
        drop(bytes);
        assert_eq!(buffers.left.available_permits(), 1024 - 10);
        drop(part);
        assert_eq!(buffers.left.available_permits(), 1024);
    }

    #[test]
    fn without_anything_left_there_is_still_what_is_free() {
        let buffers = Buffers::new(0);
        assert_eq!(buffers.take(1 << 20).0, FREE_BYTES as u64);
        assert_eq!(buffers.take(100).0, 100);
    }

    #[tokio::test]
    async fn a_request_that_grows_waits_for_what_another_has() {
        let buffers = Buffers::new(8 << 10);
        let [mut first, mut second, mut third] = [(); 3].map(|()| Share::default());
        buffers.wait_for(6 << 10, &mut first).await;
        buffers.wait_for(3 << 10, &mut second).await;
        assert!(second.pieces.is_none() && second.beyond.is_some(), "one of them takes what is not there");
        buffers.wait_for(1 << 20, &mut second).await;
        {
            let mut waits = std::pin::pin!(buffers.wait_for(3 << 10, &mut third));
            assert!(tokio::time::timeout(std::time::Duration::from_millis(1), waits.as_mut()).await.is_err());
            drop(first);
            waits.await;
        }
        assert_eq!(third.pieces.as_ref().map(|pieces| pieces.num_permits()), Some(3));
    }

    #[tokio::test]
    async fn what_has_been_read_gives_the_turn_to_the_next() {
        let buffers = Buffers::new(0);
        let [mut first, mut second] = [(); 2].map(|()| Share::default());
        buffers.wait_for(1 << 20, &mut first).await;
        let bytes = with_share(BytesMut::zeroed(10), first);
        {
            let mut waits = std::pin::pin!(buffers.wait_for(1 << 10, &mut second));
            assert!(tokio::time::timeout(std::time::Duration::from_millis(1), waits.as_mut()).await.is_err());
            drop(bytes);
            waits.await;
        }
        assert!(second.beyond.is_some());
    }
}
