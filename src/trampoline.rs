//! The queue that keeps callbacks from nesting: one for each thread.
//!
//! A callback may call the engine again. Such a call decides, unlinks and counts at once, but the callbacks and
//! drops that it causes are put behind and run when the running one has returned, by the outermost call of the
//! thread. A chain of a hundred thousand operations that complete each other costs a queue, and no stack.
//!
//! The queue is type-erased, since a thread-local cannot be generic; hence the `'static` of operations and keys.
//! Only what is put behind is boxed: the callbacks of an outermost call run at once and in place.

use crate::sync::{thread_constant, thread_local};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How many put-off jobs one pass of a drive runs, so that a chain that feeds itself for ever cannot hold it for
/// ever. A thousand callbacks of a microsecond are a millisecond, the default tick.
pub(crate) const JOBS_PER_PASS: usize = 1024;

type Job = Box<dyn FnOnce()>;

struct Lane {
    /// How many calls into the engine this thread is in.
    depth: Cell<u32>,
    /// How many looks (`try_complete`) this thread is in.
    looks: Cell<u32>,
    /// Not dropped with the thread: a lane without a destructor stays in reach of the thread's other destructors, which
    /// may call the engine. [`Rest`] empties it.
    jobs: ManuallyDrop<RefCell<VecDeque<Job>>>,
}

/// Runs what a bounded pass has left behind when its thread ends, one job after the other: nothing is lost.
struct Rest;

thread_constant! {
    static LANE: Lane = Lane {
        depth: Cell::new(0),
        looks: Cell::new(0),
        jobs: ManuallyDrop::new(RefCell::new(VecDeque::new())),
    }
}

thread_local! {
    #[allow(clippy::missing_const_for_thread_local, reason = "the models' macro has no const form")]
    static REST: Rest = Rest;
}

impl Rest {
    /// Whether it is still to come on this thread, which is called for by asking.
    fn is_to_come() -> bool {
        REST.try_with(|_| ()).is_ok()
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        drop(Call::enter());
        // And the memory.
        let _ = LANE.try_with(|lane| std::mem::take(&mut *lane.jobs.borrow_mut()));
    }
}

impl Lane {
    fn next_job(&self) -> Option<Job> {
        let mut jobs = self.jobs.borrow_mut();
        let job = jobs.pop_front();
        // Capacity is kept for the next time, but not that of a burst, and none where nobody gives it back.
        if jobs.is_empty() && (jobs.capacity() > JOBS_PER_PASS || !Rest::is_to_come()) {
            *jobs = VecDeque::new();
        }
        job
    }
}

/// One call into the engine, from its entry to its return.
pub(crate) struct Call {
    outermost: bool,
    /// How many put-off jobs it may still run.
    budget: Cell<usize>,
}

impl Call {
    /// Enters an ordinary call: it runs every job that is put off meanwhile before it returns.
    #[inline]
    pub(crate) fn enter() -> Self {
        Call::with_budget(usize::MAX)
    }

    /// Enters a pass of a drive, which runs at most [`JOBS_PER_PASS`] of them; the rest waits for the thread's
    /// next call.
    pub(crate) fn enter_pass() -> Self {
        // In the last destructors of a thread there is nobody to leave anything to.
        Call::with_budget(if Rest::is_to_come() { JOBS_PER_PASS } else { usize::MAX })
    }

    #[inline]
    fn with_budget(budget: usize) -> Self {
        let depth = LANE.try_with(|lane| lane.depth.replace(lane.depth.get() + 1)).unwrap_or(0);
        Call { outermost: depth == 0, budget: Cell::new(budget) }
    }

    /// Whether the caller came from a look of this thread.
    #[inline]
    pub(crate) fn is_inside_look(&self) -> bool {
        LANE.try_with(|lane| lane.looks.get() > 0).unwrap_or(false)
    }

    /// Whether callbacks run in place. False: they are to be put off with [`put_off`](Self::put_off).
    #[inline]
    pub(crate) fn is_outermost(&self) -> bool {
        self.outermost
    }

    /// Puts a job behind those that wait.
    pub(crate) fn put_off(&self, job: impl FnOnce() + 'static) {
        let mut job = Some(job);
        let queued = LANE.try_with(|lane| {
            let job = job.take().expect("try_with runs its closure once");
            lane.jobs.borrow_mut().push_back(Box::new(job));
        });
        if let (Err(_), Some(job)) = (queued, job) {
            run(job);
        }
    }

    /// Runs the jobs that were put off, within the budget of an outermost call.
    #[inline]
    pub(crate) fn catch_up(&self) {
        // Nearly every call comes by here with nothing put off.
        if self.outermost && LANE.try_with(|lane| !lane.jobs.borrow().is_empty()).unwrap_or(false) {
            self.run_jobs();
        }
    }

    #[cold]
    fn run_jobs(&self) {
        while self.budget.get() > 0 {
            let Some(job) = LANE.try_with(Lane::next_job).ok().flatten() else { return };
            self.budget.set(self.budget.get() - 1);
            run(job);
        }
    }
}

impl Drop for Call {
    #[inline]
    fn drop(&mut self) {
        self.catch_up();
        // A thread without a lane never counted this call.
        let _ = LANE.try_with(|lane| lane.depth.set(lane.depth.get().saturating_sub(1)));
    }
}

/// Marks this thread as looking, for as long as the guard lives.
pub(crate) struct Looking(());

impl Looking {
    #[inline]
    pub(crate) fn enter() -> Self {
        let _ = LANE.try_with(|lane| lane.looks.set(lane.looks.get() + 1));
        Looking(())
    }
}

impl Drop for Looking {
    #[inline]
    fn drop(&mut self) {
        let _ = LANE.try_with(|lane| lane.looks.set(lane.looks.get().saturating_sub(1)));
    }
}

/// Runs a job. What it calls is caught where it is called; but a job may have the last hold on a purgatory, and so drop
/// the user's clock and hooks. Whoever comes by to run the job of another must not be struck by that.
fn run(job: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(job)) {
        discard(payload);
    }
}

/// Drops what was panicked with. Its destructor may panic as well, with a payload whose destructor does, and so on:
/// the second one is forgotten.
pub(crate) fn discard(payload: Box<dyn Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(again);
    }
}

/// Whether a bounded pass of this thread has left jobs behind.
pub(crate) fn has_leftovers() -> bool {
    LANE.try_with(|lane| lane.depth.get() == 0 && !lane.jobs.borrow().is_empty()).unwrap_or(false)
}

#[cfg(all(test, not(any(ixion_loom, ixion_shuttle))))]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn what_a_nested_call_puts_off_runs_in_order_before_the_outermost_returns() {
        let log = Rc::new(RefCell::new(Vec::new()));
        let outer = Call::enter();
        assert!(outer.is_outermost());
        for n in 0..3 {
            let inner = Call::enter();
            assert!(!inner.is_outermost());
            let log = Rc::clone(&log);
            inner.put_off(move || log.borrow_mut().push(n));
        }
        assert!(log.borrow().is_empty(), "a nested call runs nothing");
        drop(outer);
        assert_eq!(*log.borrow(), [0, 1, 2]);
        assert!(!has_leftovers());
    }

    #[test]
    fn a_pass_runs_a_bounded_number_of_jobs_and_the_next_call_runs_the_rest() {
        let ran = Rc::new(Cell::new(0));
        let pass = Call::enter_pass();
        for _ in 0..JOBS_PER_PASS + 10 {
            let ran = Rc::clone(&ran);
            pass.put_off(move || ran.set(ran.get() + 1));
        }
        drop(pass);
        assert_eq!(ran.get(), JOBS_PER_PASS);
        assert!(has_leftovers());
        drop(Call::enter());
        assert_eq!(ran.get(), JOBS_PER_PASS + 10);
        assert!(!has_leftovers());
    }

    #[test]
    fn a_thread_that_ends_runs_the_rest_one_after_the_other() {
        fn again(left: u32, ran: std::sync::Arc<std::sync::atomic::AtomicU32>) {
            ran.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if left > 0 {
                let call = Call::enter();
                call.put_off(move || again(left - 1, ran));
            }
        }
        let ran = std::sync::Arc::default();
        let counted = std::sync::Arc::clone(&ran);
        let small = std::thread::Builder::new().stack_size(128 * 1024);
        let thread = small.spawn(move || {
            let pass = Call::enter_pass();
            again(100_000, counted);
            drop(pass);
            assert!(has_leftovers());
        });
        thread.unwrap().join().unwrap();
        assert_eq!(ran.load(std::sync::atomic::Ordering::Relaxed), 100_001);
    }

    #[test]
    fn a_job_that_panics_strikes_neither_the_next_job_nor_the_caller() {
        let ran = Rc::new(Cell::new(0));
        let call = Call::enter();
        for n in 0..3 {
            let ran = Rc::clone(&ran);
            call.put_off(move || {
                ran.set(ran.get() + 1);
                assert!(n != 1, "as a destructor would");
            });
        }
        drop(call);
        assert_eq!(ran.get(), 3);
        assert!(Call::enter().is_outermost(), "and the call is over");
    }

    #[test]
    fn a_job_that_puts_off_itself_does_not_hold_a_pass() {
        fn again(ran: Rc<Cell<usize>>) {
            ran.set(ran.get() + 1);
            Call::enter().put_off(move || {
                if ran.get() < 3 * JOBS_PER_PASS {
                    again(ran);
                }
            });
        }
        let ran = Rc::new(Cell::new(0));
        let pass = Call::enter_pass();
        again(Rc::clone(&ran));
        drop(pass);
        assert!(ran.get() <= JOBS_PER_PASS + 1);
        drop(Call::enter());
        assert_eq!(ran.get(), 3 * JOBS_PER_PASS);
    }
}
