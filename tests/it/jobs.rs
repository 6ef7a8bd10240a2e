//! Operations that do something when they end: what the tests on real threads wait for.

use ixion::{DelayedOperation, OperationId, Outcome, Purgatory};
use std::time::Duration;

/// A bound for what must happen soon on a machine that may be busy.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// Does something when it ends, and never does by itself.
pub(crate) struct Job(pub(crate) Box<dyn FnOnce(Outcome) + Send>);

impl DelayedOperation for Job {
    fn try_complete(&mut self) -> bool {
        false
    }

    fn on_complete(self, outcome: Outcome) {
        (self.0)(outcome);
    }
}

pub(crate) type Jobs = Purgatory<u32, Job>;

/// Starts a timer. What is over before its registration is would end on this thread; what is given its time afterwards
/// ends on the expirer's.
pub(crate) fn job(
    purgatory: &Jobs,
    timeout: Duration,
    run: impl FnOnce(Outcome) + Send + 'static,
) -> OperationId {
    let registered = purgatory.try_complete_else_watch(Job(Box::new(run)), Duration::MAX, [1]);
    let id = registered.expect("open").id().expect("waits");
    assert!(purgatory.reset_timeout(id, timeout));
    id
}
