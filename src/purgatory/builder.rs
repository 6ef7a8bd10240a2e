//! Building a purgatory.
//!
//! Every setting has a default that works, and every value is legal. Nothing can be set later: what threads share of it is
//! read without a lock.

use crate::alarm::Alarm;
use crate::clock::{Clock, SystemClock};
use crate::metrics::{Books, Pace};
use crate::operation::DelayedOperation;
use crate::purgatory::Purgatory;
use crate::purgatory::aside::Aside;
use crate::purgatory::callbacks::{Executor, jobs_for};
use crate::purgatory::capacity::Capacity;
use crate::purgatory::engine::{Drives, Engine, Shard};
use crate::purgatory::home::Homes;
use crate::purgatory::panics::{CaughtPanic, PanicHook};
use crate::purgatory::register::Rejections;
use crate::purgatory::watch::WatchLists;
use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex, Numbers};
use crate::tick::Tick;
use crate::wheel::TimingWheel;
use crossbeam_utils::CachePadded;
use foldhash::fast::FixedState;
use std::collections::VecDeque;
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::marker::PhantomData;
use std::time::Duration;

/// No two purgatories of the process have the same.
static NUMBERS: Numbers = Numbers::new();

/// Sixteen shards keep two to eight threads out of each other's way and cost a driver sixteen uncontended locks a
/// pass, about 100 ns.
const DEFAULT_SHARDS: usize = 16;

/// More shards than this only lengthen every pass.
const MAX_SHARDS: usize = 4096;

/// Builds a [`Purgatory`]; from [`Purgatory::builder`].
///
/// # Examples
///
/// ```
/// use ixion::{ManualClock, Purgatory};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let purgatory: Purgatory<u64> = Purgatory::builder("Fetch")
///     .clock(clock.clone())
///     .shards(64) // four for each thread that uses it
///     .capacity(100_000)
///     .max_timeout(Duration::from_secs(300))
///     .on_panic(|panic| eprintln!("{panic}"))
///     .build();
/// assert_eq!(purgatory.len(), 0);
/// ```
#[must_use = "a builder does nothing until `build`"]
pub struct Builder<K, O> {
    name: Arc<str>,
    shards: usize,
    hash_seed: Option<u64>,
    capacity: Option<usize>,
    max_timeout: Duration,
    clock: Option<Box<dyn Clock>>,
    on_panic: Option<PanicHook>,
    on_earlier_deadline: Option<Box<dyn Fn() + Send + Sync>>,
    measures_waits: bool,
    callbacks_on: Option<Executor<K, O>>,
    marker: PhantomData<fn() -> (K, O)>,
}

impl<K: Hash + Eq + 'static, O: DelayedOperation + 'static> Builder<K, O> {
    pub(super) fn new(name: Arc<str>) -> Self {
        Builder {
            name,
            shards: DEFAULT_SHARDS,
            hash_seed: None,
            capacity: None,
            max_timeout: Duration::MAX,
            clock: None,
            on_panic: None,
            on_earlier_deadline: None,
            measures_waits: false,
            callbacks_on: None,
            marker: PhantomData,
        }
    }

    /// Sets how many locks the keys are spread over; 16 by default. Taken as 1 if it is 0, and as 4096 if it is more.
    ///
    /// More shards let more threads register and signal at once, and make a driver's pass longer, which takes each lock. With one
    /// shard the order of everything is that of registration.
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::Purgatory;
    ///
    /// let of_one_thread: Purgatory<u64> = Purgatory::builder("loop").shards(1).build();
    /// ```
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = shards.clamp(1, MAX_SHARDS);
        self
    }

    /// Seeds the hash of the keys, so that the same calls on the same clock give the same order of everything. By
    /// default each purgatory has a random seed.
    ///
    /// A fixed seed is for tests and simulations: where clients choose the keys, it lets them choose keys of one shard.
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::{ManualClock, Purgatory};
    ///
    /// let repeatable: Purgatory<u64> =
    ///     Purgatory::builder("simulation").clock(ManualClock::new()).shards(4).hash_seed(42).build();
    /// ```
    pub fn hash_seed(mut self, seed: u64) -> Self {
        self.hash_seed = Some(seed);
        self
    }

    /// Limits how many operations may wait; there is no limit by default. Counts operations, not keys.
    ///
    /// One too many is refused with [`Full`](crate::RejectReason::Full), after its first look. The limit costs a counter that all threads
    /// write.
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::{DelayedOperation, ManualClock, Outcome, Purgatory, RejectReason};
    /// use std::time::Duration;
    ///
    /// struct Wait;
    /// impl DelayedOperation for Wait {
    ///     fn try_complete(&mut self) -> bool { false }
    ///     fn on_complete(self, _outcome: Outcome) {}
    /// }
    ///
    /// let few = Purgatory::builder("few").clock(ManualClock::new()).capacity(1).build();
    /// // Two keys, one operation.
    /// let _ = few.try_complete_else_watch(Wait, Duration::from_secs(1), ["a", "b"])?;
    /// let full = few.try_complete_else_watch(Wait, Duration::from_secs(1), ["c"]);
    /// assert_eq!(full.expect_err("one may wait").reason, RejectReason::Full);
    /// # Ok::<(), RejectReason>(())
    /// ```
    pub fn capacity(mut self, operations: usize) -> Self {
        self.capacity = Some(operations);
        self
    }

    /// Clamps every timeout to this one: of registrations and of resets, [`Duration::MAX`] too. Clamped timeouts are counted,
    /// never rejected.
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::{DelayedOperation, ManualClock, Outcome, Purgatory, Tick};
    /// use std::time::Duration;
    ///
    /// struct Wait;
    /// impl DelayedOperation for Wait {
    ///     fn try_complete(&mut self) -> bool { false }
    ///     fn on_complete(self, _outcome: Outcome) {}
    /// }
    ///
    /// let limited = Purgatory::builder("limited")
    ///     .clock(ManualClock::new())
    ///     .max_timeout(Duration::from_secs(1))
    ///     .build();
    /// let _ = limited.try_complete_else_watch(Wait, Duration::MAX, ["a"])?;
    /// assert_eq!(limited.next_expiration(), Some(Tick::new(1_000)));
    /// assert_eq!(limited.stats().clamped, 1);
    /// # Ok::<(), ixion::RejectReason>(())
    /// ```
    pub fn max_timeout(mut self, timeout: Duration) -> Self {
        self.max_timeout = timeout;
        self
    }

    /// Sets the clock; a [`SystemClock`] with ticks of a millisecond by default. Give every purgatory of an expirer a
    /// clone of the same one.
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::{Purgatory, Resolution, SystemClock};
    /// use std::time::Duration;
    ///
    /// // Ticks of 100 microseconds. All purgatories of one expirer have the same clock.
    /// let clock = SystemClock::with_resolution(Resolution::new(Duration::from_micros(100)));
    /// let fetches: Purgatory<u64> = Purgatory::builder("Fetch").clock(clock).build();
    /// let produces: Purgatory<u64> = Purgatory::builder("Produce").clock(clock).build();
    /// ```
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Some(Box::new(clock));
        self
    }

    /// Sets what is told of each caught panic; by default it is printed to standard error. A panic of this hook is caught
    /// and counted, but told to nobody.
    ///
    /// It runs in the middle of a call, so it should not signal: looks that panic would nest.
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::{DelayedOperation, ManualClock, Outcome, PanicPlace, Purgatory};
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    ///
    /// struct Faulty;
    /// impl DelayedOperation for Faulty {
    ///     fn try_complete(&mut self) -> bool { panic!("no such partition") }
    ///     fn on_complete(self, outcome: Outcome) { assert_eq!(outcome, Outcome::Panicked) }
    /// }
    ///
    /// let (tell, told) = mpsc::channel();
    /// let purgatory = Purgatory::builder("Fetch")
    ///     .clock(ManualClock::new())
    ///     .on_panic(move |panic| _ = tell.send((panic.place(), panic.to_string())))
    ///     .build();
    /// let registration = purgatory.try_complete_else_watch(Faulty, Duration::from_secs(1), ["orders"])?;
    /// assert!(registration.is_completed());
    /// let (place, text) = told.recv().unwrap();
    /// assert_eq!(place, PanicPlace::Look);
    /// assert_eq!(text, "purgatory Fetch: try_complete panicked: no such partition");
    /// # Ok::<(), ixion::RejectReason>(())
    /// ```
    pub fn on_panic(mut self, hook: impl Fn(CaughtPanic<'_>) + Send + Sync + 'static) -> Self {
        self.on_panic = Some(Box::new(hook));
        self
    }

    /// Sets what is called when a deadline is registered that is earlier than the one that was last asked for, by
    /// [`expire`](Purgatory::expire) or [`next_expiration`](Purgatory::next_expiration): an event loop that drives the
    /// purgatory itself wakes up and asks again. A reset to an earlier deadline calls it too, and before anybody has asked
    /// every deadline that is the earliest does. Called on the registering thread, without a lock, in the middle of the
    /// call: it should wake somebody, and not register by itself.
    ///
    /// A loop on whose thread alone operations are registered, which then need not be `Send`, has no use for it: it asks for
    /// the next deadline before it sleeps.
    ///
    /// # Examples
    ///
    /// An event loop that sleeps until its next event or the next deadline, and that other threads register with:
    ///
    /// ```
    /// use ixion::{DelayedOperation, Outcome, Purgatory};
    /// use std::sync::{Arc, mpsc};
    /// use std::thread;
    /// use std::time::Duration;
    ///
    /// enum Event { EarlierDeadline, Stop }
    ///
    /// struct Stops(mpsc::Sender<Event>);
    /// impl DelayedOperation for Stops {
    ///     fn try_complete(&mut self) -> bool { false }
    ///     fn on_complete(self, _outcome: Outcome) { let _ = self.0.send(Event::Stop); }
    /// }
    ///
    /// let (events, queue) = mpsc::channel();
    /// let wake = events.clone(); // of a poll, it would be an eventfd or a pipe
    /// let purgatory: Purgatory<u32, Stops> =
    ///     Purgatory::builder("loop").on_earlier_deadline(move || _ = wake.send(Event::EarlierDeadline)).build();
    /// let purgatory = Arc::new(purgatory);
    ///
    /// let shared = Arc::clone(&purgatory);
    /// thread::spawn(move || shared.try_complete_else_watch(Stops(events), Duration::from_millis(2), []));
    /// loop {
    ///     while purgatory.expire().more {}
    ///     let event = match purgatory.time_to_next() {
    ///         Some(timeout) => queue.recv_timeout(timeout).ok(),
    ///         None => queue.recv().ok(),
    ///     };
    ///     match event {
    ///         Some(Event::Stop) => break,
    ///         Some(Event::EarlierDeadline) | None => {} // to the top, where deadlines are looked for
    ///     }
    /// }
    /// ```
    pub fn on_earlier_deadline(mut self, wake: impl Fn() + Send + Sync + 'static) -> Self {
        self.on_earlier_deadline = Some(Box::new(wake));
        self
    }

    /// Sets whether it is measured how long operations wait; [`Purgatory::waits`] then says so. By default it is not.
    ///
    /// The clock is then read once more for each operation, as it ends, and where its timeout is never also as it registers:
    /// 30 to 40 ns, nearly all of it the clock's, beside the 180 of registering and ending on one key. Each shard keeps 8 kB.
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::Purgatory;
    ///
    /// let measured: Purgatory<u64> = Purgatory::builder("Fetch").measure_waits(true).build();
    /// assert_eq!(measured.waits().expect("it is measured").count(), 0);
    /// ```
    pub fn measure_waits(mut self, measure: bool) -> Self {
        self.measures_waits = measure;
        self
    }

    /// Hands every callback, [`on_complete`](DelayedOperation::on_complete), to an executor, as a job to be run once, on any
    /// thread. By default a callback runs on the thread that ended its operation.
    ///
    /// So a slow callback delays neither an expiry nor the thread that signalled, and one that needs the context of a runtime
    /// has it. Only the callback moves, and the drop of the operation and its keys with it: an operation is decided, taken
    /// out and counted before its job is handed over. What ends at its first look goes to the executor as well, and so does
    /// what a shutdown ends, and the wake-up of a future whose time is up: whoever wants to know that all callbacks have run
    /// waits for the executor. Looks stay where they are.
    ///
    /// The executor is called with no lock held, where the callback would run otherwise: the jobs of one thread come to it in
    /// order. It should hand the job on and not wait. A job that is dropped runs then and there, so that every operation ends
    /// once, even if the executor is full, shut down or panics; a panic of the executor is counted and told to
    /// [`on_panic`](Self::on_panic). A job keeps what it needs of the purgatory, which may be dropped before it has run.
    ///
    /// # Examples
    ///
    /// With a thread for the callbacks. With tokio's blocking threads it is `|job| drop(handle.spawn_blocking(job))`, where a
    /// callback may spawn tasks.
    ///
    /// ```
    /// use ixion::{DelayedOperation, Outcome, Purgatory};
    /// use std::sync::mpsc;
    /// use std::thread;
    /// use std::time::Duration;
    ///
    /// struct Slow;
    /// impl DelayedOperation for Slow {
    ///     fn try_complete(&mut self) -> bool { true }
    ///     fn on_complete(self, _outcome: Outcome) {
    ///         println!("on {:?}", thread::current().name()); // "callbacks"
    ///     }
    /// }
    ///
    /// let (jobs, queue) = mpsc::channel();
    /// let callbacks = thread::Builder::new().name("callbacks".to_owned());
    /// let callbacks = callbacks.spawn(move || queue.into_iter().for_each(|job: Box<dyn FnOnce() + Send>| job()))?;
    ///
    /// let purgatory: Purgatory<u32, Slow> = Purgatory::builder("p")
    ///     .callbacks_on(move |job| _ = jobs.send(job)) // a job that comes back in an error is dropped, and so run here
    ///     .build();
    /// let registration = purgatory.try_complete_else_watch(Slow, Duration::MAX, [1])?;
    /// assert!(registration.is_completed()); // decided; the callback is a job
    ///
    /// drop(purgatory); // the executor goes with it, and so the queue ends
    /// callbacks.join().unwrap();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Complexity
    ///
    /// An allocation for each operation that ends, and what the executor costs; nothing where it is not set.
    #[doc(alias = "executor")]
    pub fn callbacks_on(mut self, executor: impl Fn(Box<dyn FnOnce() + Send>) + Send + Sync + 'static) -> Self
    where
        K: Send,
        O: Send,
    {
        self.callbacks_on = Some(jobs_for(executor));
        self
    }

    /// Builds the purgatory. It starts no thread: give it to an [`Expirer`](crate::Expirer), or drive it yourself.
    ///
    /// # Examples
    ///
    /// ```
    /// use ixion::{Expirer, Purgatory};
    ///
    /// let expirer = Expirer::spawn("expirer")?;
    /// let fetches: Purgatory<u64> = Purgatory::builder("Fetch").build();
    /// expirer.drive(&fetches);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Only with a panic of the clock, which is read once.
    #[must_use]
    pub fn build(self) -> Purgatory<K, O> {
        let clock = self.clock.unwrap_or_else(|| Box::new(SystemClock::new()));
        let resolution = clock.resolution();
        let now = resolution.floor(clock.elapsed());
        let shard = || {
            CachePadded::new(Mutex::new(Shard {
                wheel: TimingWheel::starting_at(now).keeping_waste(),
                watch: WatchLists::new(),
                owed: VecDeque::new(),
                aside: Aside::default(),
                books: Books::new(self.measures_waits),
                closed: false,
            }))
        };
        let seed = self.hash_seed.unwrap_or_else(|| RandomState::new().hash_one(0));
        Purgatory::from_engine(Engine {
            name: self.name,
            number: NUMBERS.next(),
            shards: (0..self.shards).map(|_| shard()).collect(),
            hasher: FixedState::with_seed(seed),
            clock,
            resolution,
            max_timeout: self.max_timeout,
            capacity: self.capacity.map(Capacity::new),
            alarm: Alarm::new(),
            on_panic: self.on_panic,
            on_earlier_deadline: self.on_earlier_deadline,
            callbacks_on: self.callbacks_on,
            at_once: CachePadded::default(),
            homes: Homes::default(),
            drives: Drives {
                latest: AtomicU64::new(0),
                unfinished: AtomicU64::new(Tick::MAX.as_u64()),
                has_set_aside: AtomicBool::new(false),
            },
            closed: AtomicBool::new(false),
            panics: AtomicU64::new(0),
            rejected: Rejections::default(),
            rings: AtomicU64::new(0),
            pace: Mutex::new(Pace::default()),
            measures_waits: self.measures_waits,
        })
    }
}

impl<K, O> fmt::Debug for Builder<K, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("name", &self.name)
            .field("shards", &self.shards)
            .field("hash_seed", &self.hash_seed)
            .field("capacity", &self.capacity)
            .field("max_timeout", &self.max_timeout)
            .finish_non_exhaustive()
    }
}
