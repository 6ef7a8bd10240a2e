//! Where callbacks run: in place, or as jobs of an executor of the user's.
//!
//! Everything else about an end is done before, by the thread that decided it: the operation is out of the wheel and all
//! lists, and is counted. A job is given to the executor where the callback would run in place, so in the same order, and
//! with no more calls of the engine on the stack. It tells its operation when it is dropped, and running it is to drop it:
//! so an executor that refuses a job, forgets its queue or panics ends the operation all the same, and once.

use crate::operation::{DelayedOperation, Outcome};
use crate::purgatory::engine::{Engine, SpareKeys};
use crate::purgatory::panics::PanicPlace;
use crate::sync::Arc;
use crate::trampoline::Call;
use std::hash::Hash;

/// Makes a job of an end, and gives it to the user's executor.
pub(super) type Executor<K, O> = Box<dyn Fn(Arc<Engine<K, O>>, Ended<K, O>) + Send + Sync>;

/// An operation that has ended and is to be told, and its keys, which are dropped after that.
pub(super) struct Ended<K, O> {
    op: O,
    outcome: Outcome,
    keys: SpareKeys<K>,
}

/// Makes the jobs of operations that can go to another thread.
pub(super) fn jobs_for<K, O>(
    executor: impl Fn(Box<dyn FnOnce() + Send>) + Send + Sync + 'static,
) -> Executor<K, O>
where
    K: Hash + Eq + Send + 'static,
    O: DelayedOperation + Send + 'static,
{
    Box::new(move |engine, ended| {
        let untold = Untold { engine, ended: Some(ended) };
        executor(Box::new(move || drop(untold)));
    })
}

/// Tells an operation its end when it is dropped.
struct Untold<K: Hash + Eq + 'static, O: DelayedOperation + 'static> {
    engine: Arc<Engine<K, O>>,
    /// `None` once it was told.
    ended: Option<Ended<K, O>>,
}

impl<K: Hash + Eq + 'static, O: DelayedOperation + 'static> Drop for Untold<K, O> {
    fn drop(&mut self) {
        if let Some(Ended { op, outcome, keys }) = self.ended.take() {
            // What the callback causes comes after it, on this thread too.
            let _call = Call::enter();
            self.engine.tell(op, outcome, keys);
        }
    }
}

impl<K: Hash + Eq + 'static, O: DelayedOperation + 'static> Engine<K, O> {
    /// What [`complete`](Self::complete) does where the callback does not run at once and in place. Kept out of its code,
    /// which many instructions of every end would go to otherwise.
    #[inline(never)]
    pub(super) fn complete_elsewhere(
        self: &Arc<Self>,
        op: O,
        outcome: Outcome,
        keys: SpareKeys<K>,
        call: &Call,
    ) {
        let engine = Arc::clone(self);
        let answer = move || match &engine.callbacks_on {
            None => engine.tell(op, outcome, keys),
            Some(executor) => {
                let ended = Ended { op, outcome, keys };
                engine.contain(PanicPlace::Executor, || executor(Arc::clone(&engine), ended));
            }
        };
        if call.is_outermost() {
            call.catch_up();
            answer();
            call.catch_up();
        } else {
            call.put_off(answer);
        }
    }

    /// Runs a callback, and drops what it leaves.
    #[inline]
    pub(super) fn tell(&self, op: O, outcome: Outcome, keys: SpareKeys<K>) {
        self.contain(PanicPlace::Callback, || op.on_complete(outcome));
        self.drop_keys(keys);
    }
}
