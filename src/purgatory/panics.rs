//! Panics of user code: caught where they happen, counted, and handed to a hook.
//!
//! A panic ends what it happened in, and not the walk, the drive or the thread. `K`'s `Hash`, the iterator of keys and the
//! clock are not caught: they run before a call has changed anything, and their panic is the caller's.

use crate::trace;
use crate::trampoline::discard;
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A panic of user code that the engine caught.
///
/// Given to the hook [`on_panic`](crate::Builder::on_panic), where an example is. Its `Display` says where it was, and what.
pub struct CaughtPanic<'a> {
    purgatory: &'a str,
    place: PanicPlace,
    payload: Box<dyn Any + Send>,
}

/// What was running when user code panicked.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PanicPlace {
    /// A look, `try_complete` or `next_progress`: the operation ends with `Panicked`.
    Look,
    /// A callback, `on_complete`: the outcome stands.
    Callback,
    /// The destructor of a key.
    KeyDrop,
    /// The hook for earlier deadlines.
    Hook,
    /// The clock, read for a figure, which is then missing.
    Clock,
    /// The executor of callbacks: the operation ends all the same.
    Executor,
}

impl<'a> CaughtPanic<'a> {
    /// Returns the name of the purgatory.
    #[must_use]
    pub const fn purgatory(&self) -> &'a str {
        self.purgatory
    }

    /// Returns what was running.
    #[must_use]
    pub const fn place(&self) -> PanicPlace {
        self.place
    }

    /// Returns the message of the panic; a fixed text if its payload is not a string.
    #[must_use]
    pub fn message(&self) -> &str {
        let payload = &*self.payload;
        payload
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("a payload that is not a string")
    }

    /// Returns the payload, to be resumed or inspected.
    #[must_use]
    pub fn into_payload(self) -> Box<dyn Any + Send> {
        self.payload
    }
}

impl fmt::Display for PanicPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PanicPlace::Look => "try_complete",
            PanicPlace::Callback => "on_complete",
            PanicPlace::KeyDrop => "the drop of a key",
            PanicPlace::Hook => "on_earlier_deadline",
            PanicPlace::Clock => "the clock",
            PanicPlace::Executor => "the executor of callbacks",
        })
    }
}

impl fmt::Debug for CaughtPanic<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CaughtPanic")
            .field("purgatory", &self.purgatory)
            .field("place", &self.place)
            .field("message", &self.message())
            .finish()
    }
}

impl fmt::Display for CaughtPanic<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "purgatory {}: {} panicked: {}", self.purgatory, self.place, self.message())
    }
}

pub(super) type PanicHook = Box<dyn Fn(CaughtPanic<'_>) + Send + Sync>;

/// Catches the panics of `run`. The second value is the number of panics caught: one, or two if the hook panicked
/// as well.
pub(super) fn contain<R>(
    purgatory: &str,
    hook: Option<&PanicHook>,
    place: PanicPlace,
    run: impl FnOnce() -> R,
) -> Result<R, u64> {
    // Whatever `run` touches is the user's, and is dropped or handed to the user afterwards: nothing of the engine
    // can be seen half-changed, so the closure may be asserted to be unwind safe.
    catch_unwind(AssertUnwindSafe(run)).map_err(|payload| {
        let caught = CaughtPanic { purgatory, place, payload };
        let told = catch_unwind(AssertUnwindSafe(|| {
            trace::panicked(purgatory, place, caught.message());
            match hook {
                Some(hook) => hook(caught),
                None => {
                    eprintln!("ixion: {caught}");
                    // A payload may have a destructor, and that may panic: it runs in here.
                    drop(caught);
                }
            }
        }));
        match told {
            Ok(()) => 1,
            Err(payload) => {
                discard(payload);
                2
            }
        }
    })
}
