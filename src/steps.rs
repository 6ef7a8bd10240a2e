//! Counts the steps of work under one hold of a shard's lock, for the tests that hold them to a bound. Nothing in a build.
//!
//! A step is an entry that is added, taken out, moved or looked at: some nanoseconds, or a cache miss.

#[cfg(test)]
std::thread_local! {
    static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    static MOST: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts some steps.
#[inline(always)]
pub(crate) fn count(steps: usize) {
    #[cfg(test)]
    STEPS.set(STEPS.get() + steps);
    #[cfg(not(test))]
    let _ = steps;
}

/// A hold begins: what was done before it does not count.
#[cfg(test)]
pub(crate) fn begin() {
    STEPS.set(0);
}

/// A hold ends.
#[cfg(test)]
pub(crate) fn end() {
    MOST.set(MOST.get().max(STEPS.get()));
}

/// The most steps that this thread has taken under one hold since it was last asked.
#[cfg(test)]
pub(crate) fn most() -> usize {
    MOST.take()
}
