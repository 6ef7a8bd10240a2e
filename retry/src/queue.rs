//! The queue, as its users see it.

use crate::backoff::{Backoff, Failed, Verdict};
use crate::clock::UnixClock;
use crate::item::{Answer, Counts, DeadLetter, Delivery, Failure, ItemId, Receipt};
use crate::shared::{ErrorHook, Shared};
use crate::store::{New, Store};
use crate::sync::Mutex;
use crate::takers::{Line, Taker};
use ixion::{Clock, Expirer, Purgatory, WaitError};
use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Items that are delivered when they are due, to one worker at a time, until one says that it is done.
///
/// *At least once, through any crash that the store outlives.* An item leaves the queue when its delivery is
/// [acknowledged](RetryQueue::ack) in time. If it is [given back](RetryQueue::nack), or its visibility runs out, it has failed:
/// the [`Backoff`] decides whether it becomes due again, and when, or goes to the dead letter. That happens when it fails,
/// whether or not anybody takes. What runs out has failed at its deadline, whoever notices when: its delay and its age count
/// from there, and if they are over by then it is due, or dead, at once.
///
/// Items come in the order of their due times, those with the same in the order of pushing. A receipt that was used
/// or has run out changes nothing.
///
/// Nobody polls: a taker waits in an [`ixion::Purgatory`], and one timer is set to the next moment at which the store has
/// something to give out or to take back.
///
/// Every method takes `&self`: threads and tasks share a queue by reference or in an [`Arc`]. Only [`take`](RetryQueue::take)
/// waits as a future. All others, and the poll that takes, wait for the store on their thread: a sync of a disk, a round trip
/// to a server. Where an executor's threads may not wait so long, call them from one of its blocking threads.
///
/// # Examples
///
/// ```
/// use ixion::ManualClock;
/// use ixion_retry::{Backoff, MemoryStore, RetryQueue};
/// use std::time::Duration;
///
/// const MINUTE: Duration = Duration::from_secs(60);
/// let clock = ManualClock::new();
/// let backoff = Backoff::fixed(MINUTE).max_attempts(2);
/// // As in a test; else `start`, and no clock.
/// let queue = RetryQueue::builder(MemoryStore::new()).backoff(backoff).clock(clock.clone()).build();
/// queue.push(b"pay 17", Duration::ZERO)?;
///
/// let first = queue.try_take(1, MINUTE)?.remove(0);
/// queue.nack(&first.receipt, "the bank is closed")?;
/// assert!(queue.try_take(1, MINUTE)?.is_empty(), "not due yet");
///
/// clock.advance(MINUTE);
/// let second = queue.try_take(1, MINUTE)?.remove(0);
/// assert_eq!((second.payload.as_slice(), second.receipt.attempt()), (&b"pay 17"[..], 2));
/// assert!(!queue.ack(&first.receipt)?, "that receipt was used");
///
/// clock.advance(MINUTE); // nobody acknowledges
/// queue.drive();
/// let dead = &queue.dead_letters(None, 10)?[0];
/// let reasons: Vec<&str> = dead.history.iter().map(|failure| failure.reason.as_str()).collect();
/// assert_eq!(reasons, ["the bank is closed", "not acknowledged in time"]);
/// # Ok::<(), std::convert::Infallible>(())
/// ```
#[must_use]
pub struct RetryQueue<S: Store> {
    shared: Arc<Shared<S>>,
    /// Drives the purgatory, unless the owner does.
    expirer: Option<Expirer>,
}

/// Makes a [`RetryQueue`].
#[must_use]
pub struct Builder<S> {
    store: S,
    backoff: Backoff,
    max_in_flight: usize,
    clock: Arc<dyn Clock>,
    on_error: ErrorHook,
}

impl<S: Store> RetryQueue<S> {
    /// Starts to make a queue on a store.
    pub fn builder(store: S) -> Builder<S> {
        Builder {
            backoff: Backoff::default(),
            max_in_flight: usize::MAX,
            clock: store.own_clock().unwrap_or_else(|| Arc::new(UnixClock::new())),
            store,
            on_error: Box::new(|error| eprintln!("ixion-retry: the store has refused a step: {error}")),
        }
    }

    /// Adds an item that is due after the delay.
    ///
    /// # Errors
    ///
    /// The store's. The item may have been added all the same: then it is delivered.
    ///
    /// # Complexity
    ///
    /// O(log n) with n items in the store; and if the item is due, a look for one taker that waits.
    pub fn push(&self, payload: &[u8], delay: Duration) -> Result<ItemId, S::Error> {
        let shared = &self.shared;
        let now = shared.elapsed();
        let due = shared.due_after(now, delay);
        self.add(payload, New { due: Some(due), ..New::at(shared.tick(now)) })
    }

    /// Adds items, each of which is due after its delay, in one step of the store: much faster, where that is synced to a
    /// disk. Returns their names in the same order.
    ///
    /// # Errors
    ///
    /// The store's: it has added all or none then. Of a [`RedisStore`](crate::RedisStore) that is true of up to 1000 items and
    /// 16 MiB; of more it may have added some.
    pub fn push_all<P: AsRef<[u8]>>(&self, items: &[(P, Duration)]) -> Result<Vec<ItemId>, S::Error> {
        let shared = &self.shared;
        let now = shared.elapsed();
        let new = |delay| New { due: Some(shared.due_after(now, delay)), ..New::at(shared.tick(now)) };
        let items: Vec<_> = items.iter().map(|(payload, delay)| (payload.as_ref(), new(*delay))).collect();
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let ids = shared.store.push_all(&items).inspect_err(|_| shared.look_again())?;
        shared.tell(shared.tick(now), items.iter().map(|(_, new)| new.effect()));
        Ok(ids)
    }

    /// Adds an item that has failed elsewhere, in its delivery `attempt` (1 for the first): the policy decides when it is
    /// due, or that it is dead.
    ///
    /// # Errors
    ///
    /// As [`push`](RetryQueue::push).
    pub fn push_failed(
        &self,
        payload: &[u8],
        attempt: u32,
        reason: impl Into<String>,
    ) -> Result<ItemId, S::Error> {
        let shared = &self.shared;
        let now = shared.elapsed();
        let failed = Failed { attempt, ..Failed::default() };
        // The store gives it a name only now, so there is no better salt.
        let (due, delay) = match shared.backoff.decide(failed, fastrand::u64(..)) {
            Verdict::Retry(delay) => (Some(shared.due_after(now, delay)), delay),
            Verdict::Dead(_) => (None, Duration::ZERO),
        };
        let failure = Failure::new(0, attempt, shared.tick(now), reason.into());
        self.add(payload, New { due, attempt, delay, failure: Some(failure), ..New::at(shared.tick(now)) })
    }

    fn add(&self, payload: &[u8], new: New) -> Result<ItemId, S::Error> {
        let shared = &self.shared;
        let (now, effect) = (new.pushed, new.effect());
        let id = shared.store.push(payload, new).inspect_err(|_| shared.look_again())?;
        shared.tell(now, [effect]);
        Ok(id)
    }

    /// Takes up to `n` items that are due, each for so long from now: a delivery that was not answered by then has failed, as
    /// if it had been given back. Does not wait.
    ///
    /// # Errors
    ///
    /// The store's. Items that were taken all the same come back when their time runs out.
    ///
    /// # Complexity
    ///
    /// O(log n) for each item that is taken, with n in the store; one look, if there is none.
    pub fn try_take(&self, n: usize, visibility: Duration) -> Result<Vec<Delivery>, S::Error> {
        self.shared.try_take(n, visibility)
    }

    /// Takes up to `n` items that are due, each for so long, and waits for the first until `timeout` is over: then there
    /// are none. After [`close`](RetryQueue::close) it does not wait. A queue that was not [started](Builder::start) must be
    /// driven meanwhile.
    ///
    /// # Errors
    ///
    /// As [`try_take`](RetryQueue::try_take).
    ///
    /// # Cancel safety
    ///
    /// Items are taken by the poll that returns them: a future that is dropped has taken none. With a store that waits for
    /// a disk, that poll does.
    ///
    /// One item wakes one taker, the one that has waited longest. So poll a future that was woken, or drop it: then the next is
    /// woken. One that is kept and not polled keeps the item from others.
    pub async fn take(
        &self,
        n: usize,
        visibility: Duration,
        timeout: Duration,
    ) -> Result<Vec<Delivery>, S::Error> {
        if n == 0 {
            return Ok(Vec::new());
        }
        let mut taker = Taker::new(&self.shared);
        let key = taker.key();
        match self.shared.purgatory.wait(timeout, [key], || taker.look(n, visibility)).await {
            Ok(taken) => taken,
            Err(WaitError::Elapsed) => Ok(Vec::new()),
            Err(_) => self.shared.try_take(n, visibility),
        }
    }

    /// Does what [`take`](RetryQueue::take) does, and blocks the thread while it waits.
    ///
    /// # Errors
    ///
    /// As [`try_take`](RetryQueue::try_take).
    pub fn take_blocking(
        &self,
        n: usize,
        visibility: Duration,
        timeout: Duration,
    ) -> Result<Vec<Delivery>, S::Error> {
        pollster::block_on(self.take(n, visibility, timeout))
    }

    /// Says that a delivery is done: the item is gone. `false`: the receipt had run out or was used.
    ///
    /// # Errors
    ///
    /// The store's. Whether the item is gone shows when its time runs out.
    pub fn ack(&self, receipt: &Receipt) -> Result<bool, S::Error> {
        self.shared.settle(receipt, Answer::Ack)
    }

    /// Says that deliveries are done, in one step of the store. Returns of each, in their order, what
    /// [`ack`](RetryQueue::ack) does.
    ///
    /// # Errors
    ///
    /// As [`settle_all`](RetryQueue::settle_all).
    ///
    /// # Examples
    ///
    /// ```
    /// # use ixion_retry::{MemoryStore, RetryQueue};
    /// # use std::time::Duration;
    /// # let queue = RetryQueue::builder(MemoryStore::new()).build();
    /// let now = Duration::ZERO;
    /// queue.push_all(&[("a", now), ("b", now), ("c", now)])?;
    /// let batch = queue.try_take(10, Duration::from_secs(60))?;
    /// let done = queue.ack_all(batch.iter().map(|delivery| &delivery.receipt))?;
    /// assert_eq!(done, [true, true, true]);
    /// # Ok::<(), std::convert::Infallible>(())
    /// ```
    pub fn ack_all<'a>(
        &self,
        receipts: impl IntoIterator<Item = &'a Receipt>,
    ) -> Result<Vec<bool>, S::Error> {
        self.settle_all(receipts.into_iter().map(|receipt| (*receipt, Answer::Ack)))
    }

    /// Says what has become of deliveries, in one step of the store, in this order. Returns of each whether it counted:
    /// `false` as in [`ack`](RetryQueue::ack).
    ///
    /// # Errors
    ///
    /// The store's: it has done so with all of them or with none then; a [`RedisStore`](crate::RedisStore) with more than 1000
    /// of them maybe with some.
    pub fn settle_all(
        &self,
        answers: impl IntoIterator<Item = (Receipt, Answer)>,
    ) -> Result<Vec<bool>, S::Error> {
        self.shared.settle_all(answers)
    }

    /// Says that a delivery has failed, and why: the policy decides. `false` as in [`ack`](RetryQueue::ack).
    ///
    /// # Errors
    ///
    /// As [`ack`](RetryQueue::ack).
    pub fn nack(&self, receipt: &Receipt, reason: impl Into<String>) -> Result<bool, S::Error> {
        self.shared.settle(receipt, Answer::Nack(reason.into()))
    }

    /// Says that a delivery has failed, and why; it is due again after the delay, if the policy has an attempt left and the
    /// item is not too old then. `false` as in [`ack`](RetryQueue::ack).
    ///
    /// # Errors
    ///
    /// As [`ack`](RetryQueue::ack).
    pub fn nack_after(
        &self,
        receipt: &Receipt,
        delay: Duration,
        reason: impl Into<String>,
    ) -> Result<bool, S::Error> {
        self.shared.settle(receipt, Answer::NackAfter(delay, reason.into()))
    }

    /// Keeps a delivery for so long from now. `false` as in [`ack`](RetryQueue::ack).
    ///
    /// # Errors
    ///
    /// As [`ack`](RetryQueue::ack).
    pub fn extend(&self, receipt: &Receipt, visibility: Duration) -> Result<bool, S::Error> {
        self.shared.settle(receipt, Answer::Extend(visibility))
    }

    /// Returns up to `n` of the dead, by id, from after the given one on.
    ///
    /// # Errors
    ///
    /// The store's.
    pub fn dead_letters(&self, after: Option<ItemId>, n: usize) -> Result<Vec<DeadLetter>, S::Error> {
        self.shared.store.dead_letters(after, n)
    }

    /// Makes a dead item due, with a fresh budget of attempts and of age; its history stays. `false` if it is not dead.
    ///
    /// # Errors
    ///
    /// The store's.
    pub fn redrive(&self, id: ItemId) -> Result<bool, S::Error> {
        let shared = &self.shared;
        let now = shared.now();
        let is_redriven = shared.store.redrive(id, now).inspect_err(|_| shared.look_again())?;
        if is_redriven {
            shared.wake_takers(1);
        }
        Ok(is_redriven)
    }

    /// Forgets a dead item. `false` if it is not dead.
    ///
    /// # Errors
    ///
    /// The store's.
    pub fn purge(&self, id: ItemId) -> Result<bool, S::Error> {
        self.shared.store.purge(id)
    }

    /// Returns how many items there are.
    ///
    /// # Errors
    ///
    /// The store's.
    pub fn counts(&self) -> Result<Counts, S::Error> {
        self.shared.store.counts()
    }

    /// Lets what is due by the clock happen: what a queue that was [started](Builder::start) does by itself.
    pub fn drive(&self) {
        while self.shared.purgatory.expire().more {}
    }

    /// Returns how long it takes until [`drive`](RetryQueue::drive) has something to do.
    #[must_use]
    pub fn time_to_next(&self) -> Option<Duration> {
        self.shared.purgatory.time_to_next()
    }

    /// Lets all takers go, and every one that comes. Everything else goes on, but nothing is taken back any more when
    /// its time runs out.
    pub fn close(&self) {
        self.shared.purgatory.shutdown();
    }
}

impl<S: Store> Drop for RetryQueue<S> {
    fn drop(&mut self) {
        // The alarm waits in the purgatory and holds what it belongs to.
        self.close();
    }
}

impl<S: Store> fmt::Debug for RetryQueue<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryQueue").field("has_thread", &self.expirer.is_some()).finish_non_exhaustive()
    }
}

impl<S: Store> Builder<S> {
    /// Decides when what has failed is due again. The default is [`Backoff::standard`], which never gives up.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Lets no more items than this be in flight at once; 0 gives out nothing. The default knows no limit.
    pub fn max_in_flight(mut self, items: usize) -> Self {
        self.max_in_flight = items;
        self
    }

    /// Takes another clock than the [store's own](Store::own_clock), or [`UnixClock`] if it has none. A store that outlives the
    /// process needs one that goes on where it was.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Is told why a store has refused to take back what has run out; it is asked again a second later. The default
    /// prints.
    pub fn on_error(mut self, hook: impl Fn(&dyn Error) + Send + Sync + 'static) -> Self {
        self.on_error = Box::new(hook);
        self
    }

    /// Makes a queue that its owner [drives](RetryQueue::drive), such as a test that moves its clock or a loop of one's own.
    /// Until then no time passes for those who wait: what becomes due wakes no taker, and **no take's timeout ends**. Who
    /// wants a queue that runs by itself calls [`start`](Builder::start).
    pub fn build(self) -> RetryQueue<S> {
        let Builder { store, backoff, max_in_flight, clock, on_error } = self;
        let purgatory = Purgatory::builder("RetryQueue").shards(1).clock(Arc::clone(&clock)).build();
        let (latest, line, alarm) = (Mutex::default(), Line::default(), Mutex::default());
        let shared =
            Shared { store, backoff, max_in_flight, clock, latest, on_error, purgatory, line, alarm };
        let shared = Arc::new(shared);
        shared.watch();
        // What the store had from before.
        shared.set_alarm(shared.now());
        RetryQueue { shared, expirer: None }
    }

    /// Makes a queue that drives itself, by a thread of its own.
    ///
    /// # Errors
    ///
    /// No thread can be started.
    pub fn start(self) -> io::Result<RetryQueue<S>> {
        let expirer = Expirer::spawn("ixion-retry")?;
        let mut queue = self.build();
        expirer.drive(&queue.shared.purgatory);
        queue.expirer = Some(expirer);
        Ok(queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::books::tests::Counted;
    use crate::memory::MemoryStore;
    use ixion::ManualClock;
    use std::sync::atomic::Ordering;

    #[test]
    fn ever_earlier_due_times_leave_one_alarm() {
        const ITEMS: u64 = 100_000;
        let queue = RetryQueue::builder(MemoryStore::new()).clock(ManualClock::new()).build();
        for item in (1..=ITEMS).rev() {
            queue.push(b"x", Duration::from_secs(item)).unwrap();
        }
        queue.drive(); // it looks at what the store may have from before
        for item in (1..=ITEMS).rev() {
            queue.push(b"x", Duration::from_millis(item)).unwrap();
        }
        assert_eq!(queue.time_to_next(), Some(Duration::from_millis(1)));
        let stats = queue.shared.purgatory.stats();
        assert_eq!((stats.pending, stats.watched), (1, 1), "{stats:?}");
    }

    #[test]
    fn what_has_run_out_by_then_is_taken_back_in_one_step() {
        let (clock, second) = (ManualClock::new(), Duration::from_secs(1));
        let queue = RetryQueue::builder(Counted::default()).clock(clock.clone()).build();
        queue.push_all(&[("x", Duration::ZERO); 64]).unwrap();
        let taken = queue.try_take(64, second).unwrap().len();
        let writes = |queue: &RetryQueue<Counted>| queue.shared.store.writes.swap(0, Ordering::Relaxed);
        assert_eq!((taken, writes(&queue)), (64, 2));
        clock.advance(second);
        queue.drive();
        assert_eq!((queue.counts().unwrap().waiting, writes(&queue)), (64, 1));
    }
}
