//! What the fuzz targets do with the bytes that they are given, one function for each. The targets in `fuzz/` are nothing
//! but a call, so that the tests, which replay the corpora, do the same.
#![forbid(unsafe_code)]

#[cfg(feature = "broker")]
mod broker_frame;
mod fetch_reference;
mod kafka_fetch;
mod purgatory;
mod wheel;

#[cfg(feature = "broker")]
pub use broker_frame::broker_frame;
pub use kafka_fetch::kafka_fetch;
pub use purgatory::purgatory;
pub use wheel::wheel;

/// What is done with the bytes of an input. It panics if something is wrong.
pub type Body = fn(&[u8]);

/// Every target by its name.
pub const BODIES: &[(&str, Body)] = &[
    #[cfg(feature = "broker")]
    ("broker_frame", broker_frame),
    ("kafka_fetch", kafka_fetch),
    ("purgatory", purgatory),
    ("wheel", wheel),
];
