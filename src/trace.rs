//! The seam to `tracing`: the only module that names it. Without the feature `tracing` there is nothing in here.
//!
//! Events are for what is rare, and none is told with a lock held but an operation's own. A subscriber is the user's code, as
//! a hook is: it may call the engine, but should not signal in the middle of a call.
#![cfg_attr(not(feature = "tracing"), allow(unused_variables))]

use std::fmt::Display;
use std::time::Duration;

/// Tells of an event, under the crate's name.
macro_rules! tell {
    ($level:ident, $($what:tt)*) => {
        #[cfg(feature = "tracing")]
        tracing::$level!(target: "ixion", $($what)*);
    };
}

pub(crate) fn panicked(purgatory: &str, place: impl Display, message: &str) {
    tell!(error, purgatory, %place, message, "user code panicked");
}

pub(crate) fn rejected(purgatory: &str, reason: impl Display) {
    tell!(debug, purgatory, %reason, "an operation was rejected");
}

pub(crate) fn clamped(purgatory: &str, timeout: Duration, max: Duration) {
    tell!(debug, purgatory, ?timeout, ?max, "a timeout was clamped");
}

pub(crate) fn shut_down(purgatory: &str, decided: usize) {
    tell!(debug, purgatory, decided, "a purgatory was shut down");
}

pub(crate) fn long_pass(purgatory: &str, took: Duration, expired: usize) {
    tell!(warn, purgatory, ?took, expired, "a pass took long");
}

pub(crate) fn expirer_started(expirer: &str) {
    tell!(debug, expirer, "an expirer started");
}

pub(crate) fn expirer_stopped(expirer: &str, wake_ups: u64) {
    tell!(debug, expirer, wake_ups, "an expirer stopped");
}

/// A span, until it is dropped: what happens meanwhile on this thread, callbacks included, belongs to it.
pub(crate) struct Span {
    #[cfg(feature = "tracing")]
    _entered: tracing::span::EnteredSpan,
}

/// Enters the span of a drive's pass.
#[inline]
pub(crate) fn pass(purgatory: &str) -> Span {
    Span {
        #[cfg(feature = "tracing")]
        _entered: tracing::trace_span!(target: "ixion", "pass", purgatory).entered(),
    }
}
