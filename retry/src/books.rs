//! What each step of a store does, over tables that may lie in memory or in a transaction.

// Public, since the traits of a public impl must be; but nobody outside can name them.
#![allow(unreachable_pub, missing_docs)]

use crate::item::{Counts, DeadLetter, Delivery, Failure, HISTORY, ItemId, Receipt};
use crate::store::{New, Settlement, Store};
use ixion::Tick;
use std::error::Error;
use std::time::Duration;

/// All that is known of an item but its payload and its history.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    pub state: State,
    pub pushed: Tick,
    /// Deliveries since it was pushed or redriven.
    pub attempt: u32,
    /// Deliveries ever.
    pub delivery: u64,
    /// How often it was redriven.
    pub round: u32,
    /// How long it was delayed before its last delivery.
    pub delay: Duration,
}

/// In which index an item stands, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Waiting(Tick),
    Leased(Tick),
    Dead,
}

/// The indexes: each item stands in one of them, by (its time, its id). The dead have no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    Waiting,
    Leased,
    Dead,
}

/// A place with tables that change together or not at all.
pub trait Transact: Send + Sync + 'static {
    type Error: Error + Send + Sync + 'static;
    type Reading<'a>: Look<Error = Self::Error>;
    type Writing<'a>: Tables<Error = Self::Error>;

    /// Runs a step that changes tables. If it fails, nothing has changed. It may run on another thread, with the steps of
    /// others.
    fn write<R: Send + 'static>(
        &self,
        step: impl FnOnce(&mut Self::Writing<'_>) -> Result<R, Self::Error> + Send + 'static,
    ) -> Result<R, Self::Error>;

    /// Runs a step that changes nothing.
    fn read<R>(
        &self,
        step: impl FnOnce(&Self::Reading<'_>) -> Result<R, Self::Error>,
    ) -> Result<R, Self::Error>;
}

/// The tables, to read.
pub trait Look {
    type Error;

    fn item(&self, id: ItemId) -> Result<Option<Item>, Self::Error>;
    fn payload(&self, id: ItemId) -> Result<Vec<u8>, Self::Error>;
    /// The failures of an item, the earliest first.
    fn history(&self, id: ItemId) -> Result<Vec<Failure>, Self::Error>;
    /// Up to `n` entries after the given place, and not after the given time, in order.
    fn entries(
        &self,
        index: Index,
        after: Option<(Tick, ItemId)>,
        up_to: Tick,
        n: usize,
    ) -> Result<Vec<(Tick, ItemId)>, Self::Error>;
    fn len(&self, index: Index) -> Result<usize, Self::Error>;
}

/// The tables, to change.
pub trait Tables: Look {
    /// A name that no item had before.
    fn next_id(&mut self) -> Result<ItemId, Self::Error>;
    fn put_item(&mut self, id: ItemId, item: Item) -> Result<(), Self::Error>;
    fn put_payload(&mut self, id: ItemId, payload: Vec<u8>) -> Result<(), Self::Error>;
    fn put_history(&mut self, id: ItemId, history: Vec<Failure>) -> Result<(), Self::Error>;
    /// Removes the item, its payload and its history.
    fn remove(&mut self, id: ItemId) -> Result<(), Self::Error>;
    fn enter(&mut self, index: Index, at: Tick, id: ItemId) -> Result<(), Self::Error>;
    fn leave(&mut self, index: Index, at: Tick, id: ItemId) -> Result<(), Self::Error>;
}

impl State {
    fn place(self) -> (Index, Tick) {
        match self {
            State::Waiting(due) => (Index::Waiting, due),
            State::Leased(until) => (Index::Leased, until),
            State::Dead => (Index::Dead, Tick::ZERO),
        }
    }
}

impl<S: Transact> Store for S {
    type Error = <S as Transact>::Error;

    fn push_all(&self, items: &[(&[u8], New)]) -> Result<Vec<ItemId>, Self::Error> {
        let items: Vec<_> = items.iter().map(|(payload, new)| (payload.to_vec(), new.clone())).collect();
        self.write(move |tables| items.into_iter().map(|(payload, new)| push(tables, payload, new)).collect())
    }

    fn take(
        &self,
        now: Tick,
        n: usize,
        max_in_flight: usize,
        until: Tick,
    ) -> Result<Vec<Delivery>, Self::Error> {
        // A look that finds nothing costs no transaction, and waits for nobody's.
        if self.read(|tables| due(tables, now, n.min(1), max_in_flight))?.is_empty() {
            return Ok(Vec::new());
        }
        self.write(move |tables| take(tables, now, n, max_in_flight, until))
    }

    fn settle_all(
        &self,
        settlements: Vec<(Receipt, Settlement)>,
        now: Tick,
    ) -> Result<Vec<bool>, Self::Error> {
        self.write(move |tables| settle_all(tables, settlements, now, false))
    }

    fn overdue(&self, now: Tick, n: usize) -> Result<Vec<(Receipt, Tick)>, Self::Error> {
        self.read(|tables| overdue(tables, now, n))
    }

    fn reap(&self, settlements: Vec<(Receipt, Settlement)>, now: Tick) -> Result<Vec<bool>, Self::Error> {
        self.write(move |tables| settle_all(tables, settlements, now, true))
    }

    fn next_change(&self, now: Tick) -> Result<Option<Tick>, Self::Error> {
        self.read(|tables| next_change(tables, now))
    }

    fn dead_letters(&self, after: Option<ItemId>, n: usize) -> Result<Vec<DeadLetter>, Self::Error> {
        self.read(|tables| dead_letters(tables, after, n))
    }

    fn redrive(&self, id: ItemId, now: Tick) -> Result<bool, Self::Error> {
        self.write(move |tables| redrive(tables, id, now))
    }

    fn purge(&self, id: ItemId) -> Result<bool, Self::Error> {
        self.write(move |tables| purge(tables, id))
    }

    fn counts(&self) -> Result<Counts, Self::Error> {
        self.read(|tables| counts(tables))
    }
}

fn push<T: Tables>(tables: &mut T, payload: Vec<u8>, new: New) -> Result<ItemId, T::Error> {
    let id = tables.next_id()?;
    tables.put_payload(id, payload)?;
    let item = Item {
        state: new.due.map_or(State::Dead, State::Waiting),
        pushed: new.pushed,
        attempt: new.attempt,
        delivery: 0,
        round: 0,
        delay: new.delay,
    };
    if let Some(failure) = new.failure {
        tables.put_history(id, vec![failure])?;
    }
    let (index, at) = item.state.place();
    tables.enter(index, at, id)?;
    tables.put_item(id, item)?;
    Ok(id)
}

fn take<T: Tables>(
    tables: &mut T,
    now: Tick,
    n: usize,
    max_in_flight: usize,
    until: Tick,
) -> Result<Vec<Delivery>, T::Error> {
    let mut deliveries = Vec::new();
    for (_, id) in due(tables, now, n, max_in_flight)? {
        let Some(mut item) = tables.item(id)? else { continue };
        item.attempt = item.attempt.saturating_add(1);
        item.delivery += 1;
        let receipt = receipt(id, &item);
        move_to(tables, id, item, State::Leased(until))?;
        deliveries.push(Delivery { payload: tables.payload(id)?, receipt });
    }
    Ok(deliveries)
}

/// The places of the items that may be taken.
fn due<T: Look>(
    tables: &T,
    now: Tick,
    n: usize,
    max_in_flight: usize,
) -> Result<Vec<(Tick, ItemId)>, T::Error> {
    let room = max_in_flight.saturating_sub(tables.len(Index::Leased)?);
    tables.entries(Index::Waiting, None, now, n.min(room))
}

/// `is_over` tells whether the receipt must have run out, or must not.
fn settle<T: Tables>(
    tables: &mut T,
    given: Receipt,
    now: Tick,
    is_over: bool,
    settlement: Settlement,
) -> Result<bool, T::Error> {
    let Some(mut item) = tables.item(given.id)? else { return Ok(false) };
    let State::Leased(until) = item.state else { return Ok(false) };
    // The time of pushing too: a receipt may be of another queue, where another item has that name.
    if (item.delivery, item.pushed) != (given.delivery, given.pushed) || (until <= now) != is_over {
        return Ok(false);
    }
    let state = match settlement {
        Settlement::Done => {
            let (index, at) = item.state.place();
            tables.leave(index, at, given.id)?;
            tables.remove(given.id)?;
            return Ok(true);
        }
        Settlement::Extend(until) => State::Leased(until),
        Settlement::Retry { due, delay, failure } => {
            item.delay = delay;
            note(tables, given.id, failure)?;
            State::Waiting(due)
        }
        Settlement::Bury(failure) => {
            note(tables, given.id, failure)?;
            State::Dead
        }
    };
    move_to(tables, given.id, item, state)?;
    Ok(true)
}

fn settle_all<T: Tables>(
    tables: &mut T,
    settlements: Vec<(Receipt, Settlement)>,
    now: Tick,
    is_over: bool,
) -> Result<Vec<bool>, T::Error> {
    let settle = |(receipt, settlement)| settle(tables, receipt, now, is_over, settlement);
    settlements.into_iter().map(settle).collect()
}

fn overdue<T: Look>(tables: &T, now: Tick, n: usize) -> Result<Vec<(Receipt, Tick)>, T::Error> {
    let mut receipts = Vec::new();
    for (until, id) in tables.entries(Index::Leased, None, now, n)? {
        if let Some(item) = tables.item(id)? {
            receipts.push((receipt(id, &item), until));
        }
    }
    Ok(receipts)
}

fn next_change<T: Look>(tables: &T, now: Tick) -> Result<Option<Tick>, T::Error> {
    let last_now = Some((now, ItemId::from_u64(u64::MAX)));
    let first = |index| Ok(tables.entries(index, last_now, Tick::MAX, 1)?.first().map(|(at, _)| *at));
    let (due, until) = (first(Index::Waiting)?, first(Index::Leased)?);
    Ok(due.into_iter().chain(until).min())
}

fn dead_letters<T: Look>(tables: &T, after: Option<ItemId>, n: usize) -> Result<Vec<DeadLetter>, T::Error> {
    let mut letters = Vec::new();
    for (_, id) in tables.entries(Index::Dead, after.map(|id| (Tick::ZERO, id)), Tick::MAX, n)? {
        if let Some(item) = tables.item(id)? {
            let (payload, history) = (tables.payload(id)?, tables.history(id)?);
            letters.push(DeadLetter { id, payload, attempts: item.attempt, history });
        }
    }
    Ok(letters)
}

fn redrive<T: Tables>(tables: &mut T, id: ItemId, now: Tick) -> Result<bool, T::Error> {
    let Some(mut item) = tables.item(id)?.filter(|item| item.state == State::Dead) else { return Ok(false) };
    item.attempt = 0;
    item.round = item.round.saturating_add(1);
    item.delay = Duration::ZERO;
    item.pushed = now;
    move_to(tables, id, item, State::Waiting(now))?;
    Ok(true)
}

fn purge<T: Tables>(tables: &mut T, id: ItemId) -> Result<bool, T::Error> {
    let Some(item) = tables.item(id)?.filter(|item| item.state == State::Dead) else { return Ok(false) };
    let (index, at) = item.state.place();
    tables.leave(index, at, id)?;
    tables.remove(id)?;
    Ok(true)
}

fn counts<T: Look>(tables: &T) -> Result<Counts, T::Error> {
    Ok(Counts {
        waiting: tables.len(Index::Waiting)?,
        in_flight: tables.len(Index::Leased)?,
        dead: tables.len(Index::Dead)?,
    })
}

fn receipt(id: ItemId, item: &Item) -> Receipt {
    Receipt {
        id,
        delivery: item.delivery,
        attempt: item.attempt,
        previous: item.delay,
        round: item.round,
        pushed: item.pushed,
    }
}

fn note<T: Tables>(tables: &mut T, id: ItemId, failure: Failure) -> Result<(), T::Error> {
    let mut history = tables.history(id)?;
    if history.len() >= HISTORY {
        history.remove(0);
    }
    history.push(failure);
    tables.put_history(id, history)
}

fn move_to<T: Tables>(tables: &mut T, id: ItemId, mut item: Item, state: State) -> Result<(), T::Error> {
    let (index, at) = item.state.place();
    tables.leave(index, at, id)?;
    item.state = state;
    let (index, at) = state.place();
    tables.enter(index, at, id)?;
    tables.put_item(id, item)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::memory::{Memory, MemoryStore};
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Counts the steps that change something.
    #[derive(Default)]
    pub(crate) struct Counted {
        store: MemoryStore,
        pub(crate) writes: AtomicUsize,
    }

    impl Transact for Counted {
        type Error = Infallible;
        type Reading<'a> = Memory;
        type Writing<'a> = Memory;

        fn write<R: Send + 'static>(
            &self,
            step: impl FnOnce(&mut Memory) -> Result<R, Infallible> + Send + 'static,
        ) -> Result<R, Infallible> {
            self.writes.fetch_add(1, Ordering::Relaxed);
            self.store.write(step)
        }

        fn read<R>(&self, step: impl FnOnce(&Memory) -> Result<R, Infallible>) -> Result<R, Infallible> {
            self.store.read(step)
        }
    }

    #[test]
    fn a_look_that_finds_nothing_writes_nothing() {
        let counted = Counted::default();
        let take = |now, n, room| counted.take(Tick::new(now), n, room, Tick::new(9)).unwrap().len();
        counted.push(b"x", New::at(Tick::new(5))).unwrap();
        assert_eq!((take(4, 1, 1), take(5, 0, 1), take(5, 1, 0)), (0, 0, 0));
        assert_eq!(counted.writes.load(Ordering::Relaxed), 1, "the push");
        assert_eq!((take(5, 1, 1), counted.writes.load(Ordering::Relaxed)), (1, 2));
    }

    #[test]
    fn a_batch_is_one_step() {
        let counted = Counted::default();
        let writes = || counted.writes.swap(0, Ordering::Relaxed);
        let items: Vec<_> = (0..10).map(|at| (&b"x"[..], New::at(Tick::new(at)))).collect();
        counted.push_all(&items).unwrap();
        assert_eq!(writes(), 1);
        let done = || -> Vec<_> {
            let taken = counted.take(Tick::new(9), 5, usize::MAX, Tick::new(20)).unwrap();
            taken.into_iter().map(|delivery| (delivery.receipt, Settlement::Done)).collect()
        };
        let (first, second) = (done(), done());
        assert_eq!(writes(), 2);
        assert_eq!(counted.settle_all(first, Tick::new(19)).unwrap(), [true; 5]);
        assert_eq!(counted.reap(second, Tick::new(20)).unwrap(), [true; 5]);
        assert_eq!(writes(), 2);
    }

    #[test]
    fn a_receipt_of_another_queue_is_for_nothing_here() {
        let (here, there) = (MemoryStore::new(), MemoryStore::new());
        let take = |store: &MemoryStore, pushed| {
            store.push(b"x", New::at(Tick::new(pushed))).unwrap();
            store.take(Tick::new(9), 1, usize::MAX, Tick::new(20)).unwrap()[0].receipt
        };
        let (ours, theirs) = (take(&here, 1), take(&there, 2));
        assert_eq!(ours.id, theirs.id);
        assert!(!here.settle(&theirs, Tick::new(9), Settlement::Done).unwrap());
        assert!(here.settle(&ours, Tick::new(9), Settlement::Done).unwrap());
    }

    #[test]
    fn nothing_is_read_of_what_is_not_due() {
        let counted = Counted::default();
        for at in 0..100 {
            counted.push(b"x", New::at(Tick::new(at))).unwrap();
        }
        let read = counted.read(|tables| due(tables, Tick::new(2), usize::MAX, usize::MAX)).unwrap();
        assert_eq!(read.len(), 3);
    }
}
