//! The seam to `tracing`: the only module that names it. Without the feature `tracing` there is nothing in here.
//!
//! Events are for what is rare, and none is told with a lock held but an operation's own. A subscriber is the user's code, as
//! a hook is: it may call the engine, but should not signal in the middle of a call. A panic of it ends nothing here, and is
//! told by std's hook alone.
#![cfg_attr(not(feature = "tracing"), allow(unused_variables))]

#[cfg(feature = "tracing")]
use crate::trampoline::discard;
use std::fmt::Display;
#[cfg(feature = "tracing")]
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// Runs what is the subscriber's. `None`: it panicked. What was called in the middle of a shutdown, say, goes on.
#[cfg(feature = "tracing")]
fn caught<R>(run: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(run)).map_err(discard).ok()
}

/// Tells of an event, under the crate's name.
macro_rules! tell {
    ($level:ident, $($what:tt)*) => {
        #[cfg(feature = "tracing")]
        caught(|| tracing::$level!(target: "ixion", $($what)*));
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
    entered: Option<tracing::span::EnteredSpan>,
}

/// Enters the span of a drive's pass.
#[inline]
pub(crate) fn pass(purgatory: &str) -> Span {
    Span {
        #[cfg(feature = "tracing")]
        entered: caught(|| tracing::trace_span!(target: "ixion", "pass", purgatory).entered()),
    }
}

#[cfg(feature = "tracing")]
impl Drop for Span {
    fn drop(&mut self) {
        let entered = self.entered.take();
        caught(|| drop(entered));
    }
}
