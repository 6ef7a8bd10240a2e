//! How far the ends of a partition have moved, which is what those who wait there are told.

use ixion::kafka::fetch::OffsetPlace;

/// What a change has moved, and so what may now be complete.
#[must_use = "whoever waits for it must be signalled"]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) log_end: Option<Reached>,
    pub(crate) high_watermark: Option<Reached>,
    /// How far the low watermark has come; the greatest number if that concerns everybody.
    pub(crate) low_watermark: Option<u64>,
    /// Whether a replica has fetched for the first time.
    pub(crate) served: bool,
}

/// How far an end has come: what is signalled to those who wait for it at a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reached {
    pub(crate) offset: u64,
    /// Its progress: the bytes that were ever before it.
    pub(crate) bytes: u64,
}

impl Reached {
    /// Concerns everybody, wherever they wait.
    pub(crate) const ALL: Reached = Reached { offset: u64::MAX, bytes: u64::MAX };

    /// Concerns every reader: the log begins later now, and some may stand before it.
    pub(crate) fn with_all_readers(self) -> Reached {
        Reached { bytes: u64::MAX, ..self }
    }

    pub(crate) fn to(place: OffsetPlace) -> Reached {
        let offset = u64::try_from(place.offset()).unwrap_or(u64::MAX);
        Reached { offset, bytes: place.progress().unwrap_or(u64::MAX) }
    }
}
