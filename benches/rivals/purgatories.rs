//! Places where operations wait for an event or their timeout: ixion's, watching at every event and at a number, and the
//! home-made one.

use super::home_made::{HomeMade, Waiting};
use super::shared::Ticker;
use crossbeam_utils::CachePadded;
use ixion::{DelayedOperation, Expirer, OperationId, Outcome, Purgatory, Watch};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A key, and the number that it is watched at, by those that know of numbers.
pub type Key = (u64, u64);

/// Something that operations on numbered keys can wait in.
pub trait Place: Send + Sync + Sized + 'static {
    const NAME: &'static str;
    /// Whether it knows of numbers.
    const IS_NUMBERED: bool = false;
    /// Whether what it says of its lists is so.
    const IS_EXACT: bool = true;
    type Id: Send + 'static;
    type Driver: Driver;
    fn new() -> Self;
    /// Starts the thread that expires what is due; it stops when it is dropped.
    fn drive(self: &Arc<Self>) -> Self::Driver;
    /// Expires what is due now.
    fn expire(&self);
    /// None: it is over.
    fn register<const N: usize>(&self, op: Request, timeout: Duration, keys: [Key; N]) -> Option<Self::Id>;
    /// The key's progress has come to its number.
    fn check(&self, key: Key) -> usize;
    fn force(&self, id: &Self::Id) -> bool;
    fn cancel(&self, id: Self::Id) -> Option<Request>;
    /// How many entries the watch lists have.
    fn watched(&self) -> usize;
    /// No call is under way: how many wait, on `keys` keys each. Asserts what the place promises of its books.
    fn count(&self, keys: usize) -> usize;
}

/// A thread that expires.
pub trait Driver {
    /// How often it has woken up.
    fn wake_ups(&self) -> u64;
}

/// ixion, with plain watches.
pub struct Plain(pub Purgatory<u64, Request>);
/// ixion, with watches at a number.
pub struct Numbered(pub Purgatory<u64, Request>);

impl Plain {
    fn settled(purgatory: &Purgatory<u64, Request>, keys: usize) -> usize {
        let end = Instant::now() + Duration::from_secs(5);
        loop {
            let stats = purgatory.stats();
            assert!(stats.panics == 0, "{stats:?}");
            // The expirer may be in the middle of something.
            if stats.balances() && stats.watched == keys * stats.pending {
                return stats.pending;
            }
            assert!(Instant::now() < end, "nothing is kept, and the books balance: {stats:?}");
            thread::yield_now();
        }
    }
}

/// What is the same for both.
macro_rules! ixion {
    ($name:ident, $label:literal, $numbered:literal, $watch:expr, $check:expr) => {
        impl Place for $name {
            const NAME: &'static str = $label;
            const IS_NUMBERED: bool = $numbered;
            type Id = OperationId;
            type Driver = Expirer;

            fn new() -> Self {
                $name(Purgatory::builder("bench").hash_seed(1).build())
            }

            fn drive(self: &Arc<Self>) -> Expirer {
                let expirer = Expirer::spawn("expirer").expect("a thread");
                expirer.drive(&self.0);
                expirer
            }

            fn expire(&self) {
                while self.0.expire().more {}
            }

            #[inline]
            fn register<const N: usize>(
                &self,
                op: Request,
                timeout: Duration,
                keys: [Key; N],
            ) -> Option<OperationId> {
                let watch: fn(Key) -> Watch<u64> = $watch;
                let registered = self.0.try_complete_else_watch_at(op, timeout, keys.map(watch));
                registered.expect("there is no limit").id()
            }

            #[inline]
            fn check(&self, key: Key) -> usize {
                let check: fn(&Purgatory<u64, Request>, Key) -> usize = $check;
                check(&self.0, key)
            }

            #[inline]
            fn force(&self, id: &OperationId) -> bool {
                self.0.force_complete(*id)
            }

            #[inline]
            fn cancel(&self, id: OperationId) -> Option<Request> {
                self.0.cancel(id).taken()
            }

            fn watched(&self) -> usize {
                self.0.watched()
            }

            fn count(&self, keys: usize) -> usize {
                Plain::settled(&self.0, keys)
            }
        }
    };
}

ixion!(Plain, "ixion", false, |key| Watch::any(key.0), |it, key| it.check_and_complete(&key.0));
ixion!(Numbered, "ixion, at a number", true, |key| Watch::at(key.0, key.1), |it, key| {
    it.check_and_complete_up_to(&key.0, key.1)
});

impl Driver for Expirer {
    fn wake_ups(&self) -> u64 {
        Expirer::wake_ups(self)
    }
}

/// A thread that looks every millisecond, and counts how often.
pub struct Looks {
    count: Arc<AtomicU64>,
    _ticker: Ticker,
}

impl Driver for Looks {
    fn wake_ups(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

impl Place for HomeMade<Request> {
    const NAME: &'static str = "home-made";
    const IS_EXACT: bool = false;
    type Id = Arc<Waiting<Request>>;
    type Driver = Looks;

    fn new() -> Self {
        HomeMade::new()
    }

    fn drive(self: &Arc<Self>) -> Looks {
        let count = Arc::new(AtomicU64::new(0));
        let (peer, counted) = (Arc::clone(self), Arc::clone(&count));
        let ticker = Ticker::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            peer.expire();
        });
        Looks { count, _ticker: ticker }
    }

    fn expire(&self) {
        HomeMade::expire(self);
    }

    #[inline]
    fn register<const N: usize>(&self, op: Request, timeout: Duration, keys: [Key; N]) -> Option<Self::Id> {
        self.try_complete_else_watch(op, timeout, &keys.map(|key| key.0))
    }

    #[inline]
    fn check(&self, key: Key) -> usize {
        self.check_and_complete(key.0)
    }

    #[inline]
    fn force(&self, id: &Self::Id) -> bool {
        self.force_complete(id)
    }

    #[inline]
    fn cancel(&self, id: Self::Id) -> Option<Request> {
        HomeMade::cancel(self, &id)
    }

    fn watched(&self) -> usize {
        HomeMade::watched(self)
    }

    fn count(&self, keys: usize) -> usize {
        // It promises nothing until it has purged, and while nothing expires.
        let end = Instant::now() + Duration::from_secs(5);
        loop {
            self.purge();
            let waiting = self.len();
            if HomeMade::watched(self) == keys * waiting {
                return waiting;
            }
            assert!(Instant::now() < end, "{} watched by {waiting}", HomeMade::watched(self));
        }
    }
}

/// What an operation waits for.
pub struct Condition {
    pub ready: AtomicBool,
    ended: AtomicBool,
    /// Which thread made it.
    lane: usize,
}

/// How many operations have ended, by the thread that made them.
static ENDED: [CachePadded<AtomicU64>; 2] = [const { CachePadded::new(AtomicU64::new(0)) }; 2];

/// How many operations have ended since [`forget_ended`].
#[must_use]
pub fn ended() -> u64 {
    ENDED.iter().map(|ended| ended.load(Ordering::Relaxed)).sum()
}

/// Lets the count begin anew. Nothing waits.
pub fn forget_ended() {
    ENDED.iter().for_each(|ended| ended.store(0, Ordering::Relaxed));
}

/// A request that waits until its condition is ready.
pub struct Request(pub Arc<Condition>);

impl Request {
    /// One of the thread with this number, 0 or 1.
    #[must_use]
    #[inline]
    pub fn new(lane: usize) -> (Arc<Condition>, Request) {
        let condition =
            Arc::new(Condition { ready: AtomicBool::new(false), ended: AtomicBool::new(false), lane });
        (Arc::clone(&condition), Request(condition))
    }
}

impl DelayedOperation for Request {
    #[inline]
    fn try_complete(&mut self) -> bool {
        self.0.ready.load(Ordering::Acquire)
    }

    #[inline]
    fn on_complete(self, outcome: Outcome) {
        assert!(outcome != Outcome::Satisfied || self.0.ready.load(Ordering::Relaxed));
        assert!(!self.0.ended.swap(true, Ordering::Relaxed), "it ends once");
        ENDED[self.0.lane].fetch_add(1, Ordering::Relaxed);
    }
}
