//! The models under loom: every interleaving within a bound, with the orderings of C++11.

pub use ::loom as checker;

/// Notices two threads in the same operation: loom fails the model if one comes in without having seen the other leave.
#[derive(Debug, Default)]
pub(crate) struct Exclusive(loom::cell::UnsafeCell<()>);

impl Exclusive {
    pub(crate) fn visit<R>(&self, run: impl FnOnce() -> R) -> R {
        self.0.with_mut(|_| run())
    }
}

/// Explores everything.
pub(crate) fn unbounded(run: impl Fn() + Sync + Send + 'static) {
    loom::model(run);
}

/// Explores all that can come of so many preemptions; `LOOM_MAX_PREEMPTIONS` of them, if that is set.
pub fn bounded(preemptions: usize, run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    builder.check(run);
}
