//! The faults that the models plant, to show that they look.
//!
//! Where the library does the right thing, it can be made to do a wrong one: `if planted("no-second-look")`. In a build
//! that is a constant and costs nothing. Built for the models, `IXION_PLANTED_BUG` names the one that is planted, so that
//! one build shows that each is caught. They are listed in `tests/models/bugs.txt`.

/// Whether this is a build for the models. Bounds are small then, so that a model reaches them.
pub(crate) const MODELLED: bool = cfg!(any(ixion_loom, ixion_shuttle));

/// Whether the fault of this name is planted: never, in a build.
#[cfg(not(any(ixion_loom, ixion_shuttle)))]
#[inline(always)]
pub(crate) const fn planted(_bug: &str) -> bool {
    false
}

/// Whether the fault of this name is planted.
#[cfg(any(ixion_loom, ixion_shuttle))]
#[allow(unreachable_pub, reason = "the queue of ixion-retry plants faults too")]
pub fn planted(bug: &str) -> bool {
    static PLANTED: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    PLANTED.get_or_init(|| std::env::var("IXION_PLANTED_BUG").ok()).as_deref() == Some(bug)
}
