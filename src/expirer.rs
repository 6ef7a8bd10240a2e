//! The thread that drives purgatories: the only one that the library starts.
//!
//! It sleeps until the earliest deadline of all its purgatories. An earlier deadline rings its bell, a later one does
//! not: with nothing due there are no wake-ups. What it must do is `pass` and `sleep` of each purgatory; all
//! that is timing is there, so that a test on a manual clock drives the same code.

use crate::alarm::Bell;
use crate::operation::DelayedOperation;
use crate::purgatory::Purgatory;
use crate::purgatory::engine::Engine;
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering, thread_constant};
use crate::trace;
use crate::trampoline::{Call, discard, has_leftovers};
use std::cell::Cell;
use std::fmt;
use std::hash::Hash;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// The longest sleep. A bound for its own sake: one wake-up a day is nothing, and no platform's wait takes more.
const MAX_SLEEP: Duration = Duration::from_secs(24 * 60 * 60);

// Whether this thread is an expirer's.
thread_constant! { static ON_EXPIRER: Cell<bool> = Cell::new(false) }

/// How soon a purgatory is asked again whose clock has panicked.
const RETRY: Duration = Duration::from_millis(10);

/// One thread that drives any number of purgatories.
///
/// It sleeps in real time, so its purgatories should be on a [`SystemClock`](crate::SystemClock); one on a
/// [`ManualClock`](crate::ManualClock) is best driven by hand.
///
/// Dropping it stops and joins the thread; [`detach`](Self::detach) does not wait for it. On an expirer's thread, from a
/// callback, it lets the thread go, which then ends after the callback that it is in. The purgatories stay as they are and
/// can be driven by another. Callbacks that a bounded pass has put off run before the thread ends; a chain of callbacks
/// that feeds itself for ever keeps it.
///
/// Comes from Kafka's `ExpiredOperationReaper`, of which each purgatory has one, and a second thread for the callbacks.
///
/// # Examples
///
/// ```
/// use ixion::{Expirer, Purgatory};
///
/// let expirer = Expirer::spawn("expirer")?;
/// let purgatory: Purgatory<u32> = Purgatory::builder("Fetch").build();
/// expirer.drive(&purgatory);
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use = "dropping it stops the thread"]
#[doc(alias = "ExpiredOperationReaper")]
#[doc(alias = "SystemTimerReaper")]
#[doc(alias = "Driver")]
pub struct Expirer {
    roster: Arc<Roster>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread and its owner share.
struct Roster {
    name: String,
    driven: Mutex<Vec<Arc<dyn Driven>>>,
    bell: Arc<Bell>,
    stop: AtomicBool,
    wake_ups: AtomicU64,
}

impl Expirer {
    /// Starts a thread with this name.
    ///
    /// # Errors
    ///
    /// If the operating system does not start it, or if the name has a zero byte in it.
    ///
    /// # Examples
    ///
    /// ```
    /// let expirer = ixion::Expirer::spawn("expirer")?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn spawn(name: impl Into<String>) -> io::Result<Expirer> {
        let name = name.into();
        if name.contains('\0') {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a thread's name must not have a zero byte",
            ));
        }
        let roster = Arc::new(Roster {
            name: name.clone(),
            driven: Mutex::new(Vec::new()),
            bell: Arc::new(Bell::new()),
            stop: AtomicBool::new(false),
            wake_ups: AtomicU64::new(0),
        });
        let shared = Arc::clone(&roster);
        let thread = thread::Builder::new().name(name).spawn(move || shared.run())?;
        Ok(Expirer { roster, thread: Some(thread) })
    }

    /// Drives a purgatory from now on, until that is shut down or dropped. Does nothing if it already does.
    ///
    /// Several purgatories get a pass each in turn. With two expirers the purgatory is driven by both.
    ///
    /// # Complexity
    ///
    /// O(purgatories that it drives).
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::{DelayedOperation, Expirer, Outcome, Purgatory};
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    ///
    /// struct Tell(mpsc::Sender<Outcome>);
    /// impl DelayedOperation for Tell {
    ///     fn try_complete(&mut self) -> bool { false }
    ///     fn on_complete(self, outcome: Outcome) { let _ = self.0.send(outcome); }
    /// }
    ///
    /// let expirer = Expirer::spawn("expirer")?;
    /// let first = Purgatory::builder("first").build();
    /// let second = Purgatory::builder("second").build();
    /// expirer.drive(&first);
    /// expirer.drive(&second);
    ///
    /// let (tell, told) = mpsc::channel();
    /// let _ = first.try_complete_else_watch(Tell(tell.clone()), Duration::from_millis(2), ["key"])?;
    /// let _ = second.try_complete_else_watch(Tell(tell), Duration::from_millis(1), ["key"])?;
    /// assert_eq!(told.iter().take(2).collect::<Vec<_>>(), [Outcome::Expired; 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn drive<K, O>(&self, purgatory: &Purgatory<K, O>)
    where
        K: Hash + Eq + Send + 'static,
        O: DelayedOperation + Send + 'static,
    {
        let engine = purgatory.engine();
        {
            let mut driven = self.roster.driven.lock();
            if driven.iter().any(|other| other.number() == engine.number()) {
                return;
            }
            engine.alarm().attach(&self.roster.bell);
            driven.push(Arc::new(Handle(Arc::clone(engine))));
        }
        self.roster.bell.ring();
    }

    /// Stops the thread without waiting for it, where dropping would: it ends after the callback that it is in.
    ///
    /// # Examples
    ///
    /// ```
    /// let expirer = ixion::Expirer::spawn("expirer")?;
    /// expirer.detach(); // a shutdown that must not wait for a slow callback
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn detach(mut self) {
        self.thread = None;
    }

    /// Returns the name that the thread was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.roster.name
    }

    /// Returns how often the thread has woken up to look for work. It does not grow while nothing is due.
    ///
    /// # Examples
    ///
    /// ```
    /// let expirer = ixion::Expirer::spawn("expirer")?;
    /// println!("woke up {} times", expirer.wake_ups());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn wake_ups(&self) -> u64 {
        self.roster.wake_ups.load(Ordering::Relaxed)
    }
}

impl Drop for Expirer {
    fn drop(&mut self) {
        self.roster.stop.store(true, Ordering::Release);
        self.roster.bell.ring();
        let Some(thread) = self.thread.take() else { return };
        // It would wait for itself, or for a thread that waits for it.
        if ON_EXPIRER.with(Cell::get) {
            return;
        }
        if let Err(panic) = thread.join() {
            // Every callback is caught, so this is a fault of the engine; not one to hide in a destructor.
            if !std::thread::panicking() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

impl fmt::Debug for Expirer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expirer").field("driven", &self.roster.driven.lock().len()).finish_non_exhaustive()
    }
}

impl Roster {
    fn run(&self) {
        ON_EXPIRER.with(|here| here.set(true));
        trace::expirer_started(&self.name);
        while !self.is_stopped() {
            self.wake_ups.fetch_add(1, Ordering::Relaxed);
            let mut sleep = Duration::ZERO;
            while sleep.is_zero() && !self.is_stopped() {
                sleep = self.turn();
            }
            if !self.is_stopped() {
                self.bell.wait(Some(sleep));
            }
        }
        drop(Call::enter());
        let driven = std::mem::take(&mut *self.driven.lock());
        for purgatory in driven {
            purgatory.detach(&self.bell);
            let_go(purgatory);
        }
        trace::expirer_stopped(&self.name, self.wake_ups.load(Ordering::Relaxed));
    }

    /// A pass for each purgatory on the roster, which may have changed since the last turn. Returns how long nothing is due.
    fn turn(&self) -> Duration {
        // A copy, since callbacks may add purgatories, and drop them.
        let driven = self.driven.lock().clone();
        let more = self.drive(&driven);
        // What the bounded passes left behind, whosever it is: it does not wait for another purgatory to be due.
        drop(Call::enter_pass());
        let sleep = self.plan(&driven);
        // Nobody's purgatory is kept alive by a thread that sleeps.
        driven.into_iter().for_each(let_go);
        if more || has_leftovers() { Duration::ZERO } else { sleep }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// A pass each in turn. Returns whether any has more to do.
    fn drive(&self, driven: &[Arc<dyn Driven>]) -> bool {
        let mut more = false;
        for purgatory in driven.iter().take_while(|_| !self.is_stopped()) {
            more |= caught(|| purgatory.pass()).unwrap_or(false);
        }
        more
    }

    /// How long nothing is due. Takes purgatories that are over off the roster.
    fn plan(&self, driven: &[Arc<dyn Driven>]) -> Duration {
        let mut sleep = MAX_SLEEP;
        for purgatory in driven {
            if purgatory.is_over() {
                purgatory.detach(&self.bell);
                self.driven.lock().retain(|other| other.number() != purgatory.number());
                continue;
            }
            match caught(|| purgatory.sleep()) {
                Some(Some(next)) => sleep = sleep.min(next),
                Some(None) => {}
                None => sleep = sleep.min(RETRY),
            }
        }
        sleep
    }
}

/// A user's clock may panic; the thread and the other purgatories go on. std's hook has printed it.
fn caught<R>(run: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(run)).map_err(discard).ok()
}

/// The last hold on a purgatory drops its clock and its hooks, and a destructor of the user's may panic as well.
fn let_go(purgatory: Arc<dyn Driven>) {
    caught(|| drop(purgatory));
}

/// A purgatory of any types, as the thread sees it.
trait Driven: Send + Sync {
    fn number(&self) -> u64;
    fn pass(&self) -> bool;
    fn sleep(&self) -> Option<Duration>;
    fn is_over(&self) -> bool;
    fn detach(&self, bell: &Arc<Bell>);
}

struct Handle<K, O>(Arc<Engine<K, O>>);

impl<K, O> Driven for Handle<K, O>
where
    K: Hash + Eq + Send + 'static,
    O: DelayedOperation + Send + 'static,
{
    fn number(&self) -> u64 {
        self.0.number()
    }

    fn pass(&self) -> bool {
        self.0.pass().1
    }

    fn sleep(&self) -> Option<Duration> {
        self.0.sleep()
    }

    fn is_over(&self) -> bool {
        self.0.is_over()
    }

    fn detach(&self, bell: &Arc<Bell>) {
        self.0.alarm().detach(bell);
    }
}
