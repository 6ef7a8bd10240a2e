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

/// Runs a model. Two threads are explored without a bound; three, or two in a loop, with three preemptions, unless the
/// environment says otherwise.
pub fn model(threads: usize, run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    if builder.preemption_bound.is_none() {
        builder.preemption_bound = if threads > 2 { Some(3) } else { None };
    }
    builder.check(run);
}
