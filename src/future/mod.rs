//! Waiting in a purgatory as a future (feature `async`): for any runtime, and for none.
//!
//! A wait has two halves. The task's is the future, [`Wait`]: it has the look, which runs in `poll` and so on the task's
//! own thread, and may borrow. The purgatory's is an operation like any other, [`Waiting`], with the keys and the
//! deadline. It looks at nothing: an event takes the waker out of the slot that the halves share, and wakes the task. The
//! task puts a waker in *before* it looks. So an event comes before that, and the look sees what it has changed; or after
//! it, and the task is woken to look again.
//!
//! The operation stays where it is until the wait is over, however often a look says no. It keeps its place, its one
//! deadline and its share of the capacity, and whatever can be done to an operation can be done to it.
//!
//! A waker is the user's code. It is cloned, woken and dropped with no lock held, and not inside a look.

mod waiting;

pub use waiting::{WaitError, Waiting};

use crate::operation::DelayedOperation;
use crate::purgatory::{OperationId, Purgatory, Registration, Watch};
use crate::sync::planted;
use std::fmt;
use std::hash::Hash;
use std::iter::Map;
use std::mem;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use waiting::Slot;

impl<K: Hash + Eq + 'static, O: DelayedOperation + From<Waiting> + 'static> Purgatory<K, O> {
    /// Waits until a look returns a value, looking again whenever one of the keys is signalled, and for no longer than
    /// `timeout`.
    ///
    /// The future does nothing until it is polled. Its first poll looks; if the look says no, it takes a place in the
    /// purgatory, on all keys, and looks once more, so that no event is lost that came meanwhile. From then on each poll
    /// looks once. The timeout counts from the first poll and is never begun anew, but by a reset of the purgatory's.
    ///
    /// Looks run on the task that awaits, never in the thread that signals: `look` may borrow, and need be neither `Send`
    /// nor `'static`. A look that has a value wins, whatever else has come: a last one is made when the time is up, so
    /// that [`Elapsed`](WaitError::Elapsed) means that there was nothing even then. A poll that waits for bytes, but is
    /// content with fewer when its time is up, reads what there is after [`Elapsed`](WaitError::Elapsed).
    ///
    /// In the purgatory waits one operation, a [`Waiting`] made an `O`; so futures and other operations can share a
    /// purgatory. Its default [`BoxedOperation`](crate::BoxedOperation) will do, where the type is written out, `Purgatory<K, Waiting>` saves the box, and
    /// an enum that implements `From<Waiting>` has room for both. A signal that wakes a task does not count it as an end: the
    /// task decides. As for every operation, somebody has to drive the purgatory.
    ///
    /// # Errors
    ///
    /// When it is over without a value: see [`WaitError`].
    ///
    /// # Panics
    ///
    /// The future panics with a panic of `look`; of `keys`, of `K`'s `Hash` or of the clock at the first poll; and if
    /// it is polled after it has ended. Nothing is left behind once it is dropped.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future takes its operation out of the purgatory, and is all there is to do. What a look has taken is
    /// the value that the same poll returns: dropped between polls, nothing is lost. A future that was dropped and made
    /// anew has lost its place and has its whole timeout before it: in a loop round a `select!` make it once and poll it by
    /// reference, `&mut wait`. It is [`Unpin`].
    ///
    /// # Complexity
    ///
    /// That of [`try_complete_else_watch`](Self::try_complete_else_watch), and an allocation more for what the task and the
    /// purgatory share, if it has to wait; a lock of its own, that no other task takes, and a look for each poll; O(keys)
    /// when it ends or is dropped.
    ///
    /// # Examples
    ///
    /// A long poll. The tasks of a server look at the same log, and whoever appends signals. On tokio:
    /// [*coming from tokio*](crate::guide::from_tokio#together).
    ///
    /// ```
    /// use ixion::{ManualClock, Purgatory, WaitError};
    /// use std::pin::pin;
    /// use std::sync::Mutex;
    /// use std::task::{Context, Poll, Waker};
    /// use std::time::Duration;
    ///
    /// async fn poll(log: &Mutex<Vec<String>>, purgatory: &Purgatory<&str>, offset: usize) -> Vec<String> {
    ///     let news = || log.lock().unwrap().get(offset..).filter(|news| !news.is_empty()).map(<[_]>::to_vec);
    ///     match purgatory.wait(Duration::from_secs(30), ["orders"], news).await {
    ///         Ok(news) => news,
    ///         Err(WaitError::Elapsed) => Vec::new(),
    ///         Err(error) => panic!("{error}"),
    ///     }
    /// }
    ///
    /// let clock = ManualClock::new(); // or SystemClock, and an Expirer that drives
    /// let purgatory = Purgatory::builder("Fetch").clock(clock.clone()).build();
    /// let log = Mutex::new(Vec::new());
    /// let mut context = Context::from_waker(Waker::noop()); // by hand, as a test does; a task says `.await`
    /// let mut first = pin!(poll(&log, &purgatory, 0));
    /// assert!(first.as_mut().poll(&mut context).is_pending());
    /// log.lock().unwrap().push("first".to_owned()); // change the state,
    /// purgatory.check_and_complete("orders"); // then signal
    /// assert_eq!(first.poll(&mut context), Poll::Ready(vec!["first".to_owned()]));
    ///
    /// let mut second = pin!(poll(&log, &purgatory, 1));
    /// assert!(second.as_mut().poll(&mut context).is_pending());
    /// clock.advance(Duration::from_secs(30));
    /// assert_eq!(purgatory.expire().expired, 1);
    /// assert_eq!(second.poll(&mut context), Poll::Ready(vec![]));
    /// ```
    #[doc(alias = "notified")]
    #[doc(alias = "timeout")]
    pub fn wait<'a, I: IntoIterator<Item = K>, F>(
        &'a self,
        timeout: Duration,
        keys: I,
        look: F,
    ) -> Wait<'a, K, O, AtAnyEvent<K, I>, F> {
        self.wait_at(timeout, at_any_event(keys), look)
    }

    /// Does what [`wait`](Self::wait) does, with keys that may be watched at a number: the task is not woken before that is
    /// reached.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Cancel safety
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::{Purgatory, Waiting, Watch};
    /// use std::pin::pin;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use std::task::{Context, Poll, Waker};
    /// use std::time::Duration;
    ///
    /// let mut context = Context::from_waker(Waker::noop());
    /// let purgatory: Purgatory<&str, Waiting> = Purgatory::builder("Produce").build();
    /// let high_watermark = AtomicU64::new(1233);
    /// let reached = || (high_watermark.load(Ordering::Acquire) >= 1240).then_some("acknowledged");
    /// let mut wait = pin!(purgatory.wait_at(Duration::from_secs(30), [Watch::at("orders-0", 1240)], reached));
    /// assert!(wait.as_mut().poll(&mut context).is_pending());
    ///
    /// purgatory.check_and_complete_up_to("orders-0", 1239); // wakes nobody
    /// high_watermark.store(1240, Ordering::Release);
    /// purgatory.check_and_complete_up_to("orders-0", 1240); // wakes the task
    /// assert_eq!(wait.poll(&mut context), Poll::Ready(Ok("acknowledged")));
    /// ```
    pub fn wait_at<'a, W: IntoIterator<Item = Watch<K>>, F>(
        &'a self,
        timeout: Duration,
        watches: W,
        look: F,
    ) -> Wait<'a, K, O, W, F> {
        Wait { purgatory: Place::Lent(self), state: State::New { timeout, watches }, look }
    }

    /// Does what [`wait`](Self::wait) does, and keeps the purgatory: for a future that is stored, or given to a runtime by
    /// itself. In an `async` block that has a purgatory, `wait` will do.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Cancel safety
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::Purgatory;
    /// use std::sync::Arc;
    /// use std::time::Duration;
    ///
    /// fn spawn(_task: impl Future + Send + 'static) {} // a runtime's
    ///
    /// let purgatory: Arc<Purgatory<u32>> = Arc::new(Purgatory::builder("Session").build());
    /// spawn(Arc::clone(&purgatory).wait_owned(Duration::from_secs(9), [7], || None::<()>));
    /// spawn(async move {
    ///     let _ = purgatory.wait(Duration::from_secs(9), [7], || None::<()>).await;
    /// });
    /// ```
    pub fn wait_owned<I: IntoIterator<Item = K>, F>(
        self: Arc<Self>,
        timeout: Duration,
        keys: I,
        look: F,
    ) -> Wait<'static, K, O, AtAnyEvent<K, I>, F> {
        self.wait_at_owned(timeout, at_any_event(keys), look)
    }

    /// Does what [`wait_at`](Self::wait_at) does, and keeps the purgatory, as [`wait_owned`](Self::wait_owned).
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Cancel safety
    ///
    /// As [`wait`](Self::wait).
    pub fn wait_at_owned<W: IntoIterator<Item = Watch<K>>, F>(
        self: Arc<Self>,
        timeout: Duration,
        watches: W,
        look: F,
    ) -> Wait<'static, K, O, W, F> {
        Wait { purgatory: Place::Owned(self), state: State::New { timeout, watches }, look }
    }
}

/// Waits in a purgatory until a look returns a value; from [`Purgatory::wait`] and those beside it.
///
/// `Send` where the purgatory is `Sync` and the look and the watches are `Send`.
#[must_use = "futures do nothing unless polled"]
pub struct Wait<'a, K: Hash + Eq + 'static, O: DelayedOperation + 'static, W, F> {
    purgatory: Place<'a, K, O>,
    state: State<W>,
    look: F,
}

enum State<W> {
    /// Not polled yet.
    New { timeout: Duration, watches: W },
    /// It has a place in the purgatory.
    Waits { id: OperationId, slot: Arc<Slot> },
    /// It has returned what it waited for, or has panicked.
    Over,
}

impl<K: Hash + Eq + 'static, O: DelayedOperation + 'static, W, F> Wait<'_, K, O, W, F> {
    /// Gives the wait a new timeout, counted from now; from the first poll, if it was not polled yet.
    ///
    /// Returns false if the wait is over or its time is up, and changes nothing then.
    ///
    /// # Examples
    ///
    /// A connection that is closed when nothing was heard of it for a minute:
    ///
    /// ```
    /// use ixion::{ManualClock, Purgatory, WaitError, Waiting};
    /// use std::pin::pin;
    /// use std::task::{Context, Poll, Waker};
    /// use std::time::Duration;
    ///
    /// let mut context = Context::from_waker(Waker::noop());
    /// const IDLE: Duration = Duration::from_secs(60);
    ///
    /// let clock = ManualClock::new();
    /// let purgatory: Purgatory<u8, Waiting> = Purgatory::builder("idle").clock(clock.clone()).build();
    /// let mut idle = pin!(purgatory.wait(IDLE, [], || None::<()>)); // without keys: a timer
    /// assert!(idle.as_mut().poll(&mut context).is_pending());
    /// clock.advance(IDLE / 2);
    /// assert!(idle.reset_timeout(IDLE)); // something was heard
    /// clock.advance(IDLE / 2);
    /// assert_eq!(purgatory.expire().expired, 0);
    /// clock.advance(IDLE / 2);
    /// assert_eq!(purgatory.expire().expired, 1);
    /// assert_eq!(idle.poll(&mut context), Poll::Ready(Err(WaitError::Elapsed)));
    /// ```
    pub fn reset_timeout(&mut self, timeout: Duration) -> bool {
        match &mut self.state {
            State::New { timeout: first, .. } => {
                *first = timeout;
                true
            }
            State::Waits { id, .. } => self.purgatory.reset_timeout(*id, timeout),
            State::Over => false,
        }
    }
}

impl<K, O, W, F, T> Future for Wait<'_, K, O, W, F>
where
    K: Hash + Eq + 'static,
    O: DelayedOperation + From<Waiting> + 'static,
    W: IntoIterator<Item = Watch<K>>,
    F: FnMut() -> Option<T>,
{
    type Output = Result<T, WaitError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let before = planted("look-before-waker").then(|| (this.look)());
        let ended = match &this.state {
            State::New { .. } => {
                // Before it takes a place: what need not wait costs none.
                if let Some(value) = (this.look)() {
                    this.state = State::Over;
                    // It counts, as every operation does that its first look satisfies.
                    _ = this.purgatory.try_complete_else_watch(Waiting::over().into(), Duration::ZERO, []);
                    return Poll::Ready(Ok(value));
                }
                this.begin(context.waker())
            }
            State::Waits { slot, .. } => slot.listen(context.waker()),
            State::Over => panic!("a wait was polled after it had ended"),
        };
        // After the waker is in its place.
        match (before.unwrap_or_else(|| (this.look)()), ended) {
            (Some(value), _) => {
                this.end(|purgatory, id| _ = purgatory.try_complete(id));
                Poll::Ready(Ok(value))
            }
            (None, Some(error)) => {
                this.state = State::Over;
                Poll::Ready(Err(match error {
                    // Handed back by a shutdown, and dropped.
                    WaitError::Cancelled if this.purgatory.is_shutdown() => WaitError::Shutdown,
                    error => error,
                }))
            }
            (None, None) => Poll::Pending,
        }
    }
}

impl<K: Hash + Eq + 'static, O: DelayedOperation + 'static, W, F> Wait<'_, K, O, W, F> {
    /// Takes a place in the purgatory. How it has ended, if it has already.
    fn begin(&mut self, waker: &Waker) -> Option<WaitError>
    where
        O: From<Waiting>,
        W: IntoIterator<Item = Watch<K>>,
    {
        let State::New { timeout, watches } = mem::replace(&mut self.state, State::Over) else {
            unreachable!("a wait begins once")
        };
        let slot = Arc::new(Slot::default());
        let op = Waiting::at(&slot).into();
        match self.purgatory.try_complete_else_watch_at(op, timeout, watches) {
            Ok(Registration::Watched(id)) => {
                // First, so that it is taken out again if the waker panics.
                self.state = State::Waits { id, slot: Arc::clone(&slot) };
                slot.listen(waker)
            }
            Ok(Registration::Completed(outcome)) => Some(WaitError::of(outcome)),
            Err(rejected) => Some(rejected.reason.into()),
        }
    }

    /// Ends a wait that the purgatory may know, if it does not know that yet.
    fn end(&mut self, tell: impl FnOnce(&Purgatory<K, O>, OperationId)) {
        if let State::Waits { id, slot } = mem::replace(&mut self.state, State::Over) {
            // Dropped at the end, in an unwinding too.
            let _waker = slot.leave();
            tell(&self.purgatory, id);
        }
    }
}

impl<K: Hash + Eq + 'static, O: DelayedOperation + 'static, W, F> Drop for Wait<'_, K, O, W, F> {
    fn drop(&mut self) {
        self.end(|purgatory, id| {
            if !planted("left-to-the-next-event") {
                drop(purgatory.cancel(id));
            }
        });
    }
}

/// Nothing of it is pinned.
impl<K: Hash + Eq + 'static, O: DelayedOperation + 'static, W, F> Unpin for Wait<'_, K, O, W, F> {}

impl<K: Hash + Eq + 'static, O: DelayedOperation + 'static, W, F> fmt::Debug for Wait<'_, K, O, W, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::New { .. } => "not polled yet",
            State::Waits { .. } => "waits",
            State::Over => "over",
        };
        f.debug_struct("Wait").field("state", &format_args!("{state}")).finish_non_exhaustive()
    }
}

/// A purgatory that is somebody else's, or shared.
enum Place<'a, K: Hash + Eq + 'static, O: DelayedOperation + 'static> {
    Lent(&'a Purgatory<K, O>),
    Owned(Arc<Purgatory<K, O>>),
}

impl<K: Hash + Eq + 'static, O: DelayedOperation + 'static> Deref for Place<'_, K, O> {
    type Target = Purgatory<K, O>;

    fn deref(&self) -> &Purgatory<K, O> {
        match self {
            Place::Lent(purgatory) => purgatory,
            Place::Owned(purgatory) => purgatory,
        }
    }
}

/// The keys of a wait, each watched at every event.
type AtAnyEvent<K, I> = Map<<I as IntoIterator>::IntoIter, fn(K) -> Watch<K>>;

fn at_any_event<K, I: IntoIterator<Item = K>>(keys: I) -> AtAnyEvent<K, I> {
    keys.into_iter().map(Watch::any)
}
