//! A store in memory.

use crate::books::{Index, Item, Look, Tables, Transact};
use crate::item::{Failure, ItemId};
use crate::sync::Mutex;
use ixion::Tick;
use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;
use std::ops::Bound;

/// Keeps the items in memory: a crash loses them. For tests, and for items that another place keeps as well.
#[derive(Debug, Default)]
pub struct MemoryStore {
    tables: Mutex<Memory>,
}

#[derive(Debug, Default)]
#[allow(unreachable_pub, reason = "named by a public trait, which nobody outside can name")]
pub struct Memory {
    last_id: u64,
    items: HashMap<ItemId, Item>,
    payloads: HashMap<ItemId, Vec<u8>>,
    histories: HashMap<ItemId, Vec<Failure>>,
    waiting: BTreeSet<(Tick, ItemId)>,
    leased: BTreeSet<(Tick, ItemId)>,
    dead: BTreeSet<(Tick, ItemId)>,
}

impl MemoryStore {
    /// Makes an empty store.
    #[must_use]
    pub fn new() -> Self {
        MemoryStore::default()
    }
}

impl Transact for MemoryStore {
    type Error = Infallible;
    type Reading<'a> = Memory;
    type Writing<'a> = Memory;

    fn write<R: Send + 'static>(
        &self,
        step: impl FnOnce(&mut Memory) -> Result<R, Infallible> + Send + 'static,
    ) -> Result<R, Infallible> {
        step(&mut self.tables.lock())
    }

    fn read<R>(&self, step: impl FnOnce(&Memory) -> Result<R, Infallible>) -> Result<R, Infallible> {
        step(&self.tables.lock())
    }
}

impl Memory {
    fn index(&self, index: Index) -> &BTreeSet<(Tick, ItemId)> {
        match index {
            Index::Waiting => &self.waiting,
            Index::Leased => &self.leased,
            Index::Dead => &self.dead,
        }
    }

    fn index_mut(&mut self, index: Index) -> &mut BTreeSet<(Tick, ItemId)> {
        match index {
            Index::Waiting => &mut self.waiting,
            Index::Leased => &mut self.leased,
            Index::Dead => &mut self.dead,
        }
    }
}

impl Look for Memory {
    type Error = Infallible;

    fn item(&self, id: ItemId) -> Result<Option<Item>, Infallible> {
        Ok(self.items.get(&id).copied())
    }

    fn payload(&self, id: ItemId) -> Result<Vec<u8>, Infallible> {
        Ok(self.payloads.get(&id).cloned().unwrap_or_default())
    }

    fn history(&self, id: ItemId) -> Result<Vec<Failure>, Infallible> {
        Ok(self.histories.get(&id).cloned().unwrap_or_default())
    }

    fn entries(
        &self,
        index: Index,
        after: Option<(Tick, ItemId)>,
        up_to: Tick,
        n: usize,
    ) -> Result<Vec<(Tick, ItemId)>, Infallible> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let to = Bound::Included((up_to, ItemId::from_u64(u64::MAX)));
        Ok(self.index(index).range((from, to)).take(n).copied().collect())
    }

    fn len(&self, index: Index) -> Result<usize, Infallible> {
        Ok(self.index(index).len())
    }
}

impl Tables for Memory {
    fn next_id(&mut self) -> Result<ItemId, Infallible> {
        self.last_id += 1;
        Ok(ItemId::from_u64(self.last_id))
    }

    fn put_item(&mut self, id: ItemId, item: Item) -> Result<(), Infallible> {
        self.items.insert(id, item);
        Ok(())
    }

    fn put_payload(&mut self, id: ItemId, payload: Vec<u8>) -> Result<(), Infallible> {
        self.payloads.insert(id, payload);
        Ok(())
    }

    fn put_history(&mut self, id: ItemId, history: Vec<Failure>) -> Result<(), Infallible> {
        self.histories.insert(id, history);
        Ok(())
    }

    fn remove(&mut self, id: ItemId) -> Result<(), Infallible> {
        self.items.remove(&id);
        self.payloads.remove(&id);
        self.histories.remove(&id);
        Ok(())
    }

    fn enter(&mut self, index: Index, at: Tick, id: ItemId) -> Result<(), Infallible> {
        self.index_mut(index).insert((at, id));
        Ok(())
    }

    fn leave(&mut self, index: Index, at: Tick, id: ItemId) -> Result<(), Infallible> {
        self.index_mut(index).remove(&(at, id));
        Ok(())
    }
}
