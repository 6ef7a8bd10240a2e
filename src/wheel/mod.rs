//! Stand-in.
use crate::tick::Tick;
use std::collections::{BTreeMap, HashMap};

/// Id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct TimerId(u64);
impl TimerId {
    pub(crate) fn from_bits(b: u64) -> Self {
        TimerId(b)
    }
    pub(crate) fn to_bits(self) -> u64 {
        self.0
    }
}
/// Expired.
pub struct Expired<T> {
    /// id
    pub id: TimerId,
    /// deadline
    pub deadline: Tick,
    /// item
    pub item: T,
}
/// Wheel.
pub struct TimingWheel<T> {
    map: BTreeMap<(Tick, u64), TimerId>,
    items: HashMap<TimerId, (Tick, u64, T)>,
    seq: u64,
    now: Tick,
}
#[allow(missing_docs)]
impl<T> TimingWheel<T> {
    pub fn starting_at(now: Tick) -> Self {
        TimingWheel { map: BTreeMap::new(), items: HashMap::new(), seq: 1, now }
    }
    pub fn start_timer(&mut self, d: Tick, item: T) -> TimerId {
        let s = self.seq;
        self.seq += 1;
        let id = TimerId(s);
        self.map.insert((d, s), id);
        self.items.insert(id, (d, s, item));
        id
    }
    pub fn stop_timer(&mut self, id: TimerId) -> Option<T> {
        let (d, s, i) = self.items.remove(&id)?;
        self.map.remove(&(d, s));
        Some(i)
    }
    pub fn restart_timer(&mut self, id: TimerId, d: Tick) -> bool {
        let Some(e) = self.items.get_mut(&id) else { return false };
        self.map.remove(&(e.0, e.1));
        e.0 = d;
        e.1 = self.seq;
        self.seq += 1;
        self.map.insert((d, e.1), id);
        true
    }
    pub fn get(&self, id: TimerId) -> Option<&T> {
        self.items.get(&id).map(|e| &e.2)
    }
    pub fn get_mut(&mut self, id: TimerId) -> Option<&mut T> {
        self.items.get_mut(&id).map(|e| &mut e.2)
    }
    pub fn next_expiration(&self) -> Option<Tick> {
        self.map.keys().next().map(|k| k.0).filter(|t| !t.is_never())
    }
    pub fn peek_expired(&mut self, now: Tick) -> Option<&T> {
        let (k, id) = self.map.iter().next()?;
        if k.0 > now || k.0.is_never() {
            return None;
        }
        self.items.get(id).map(|e| &e.2)
    }
    pub fn pop_expired(&mut self, now: Tick) -> Option<Expired<T>> {
        self.now = self.now.max(now);
        let (&k, &id) = self.map.iter().next()?;
        if k.0 > now || k.0.is_never() {
            return None;
        }
        self.map.remove(&k);
        let e = self.items.remove(&id)?;
        Some(Expired { id, deadline: k.0, item: e.2 })
    }
    pub fn now(&self) -> Tick {
        self.now
    }
    pub fn len(&self) -> usize {
        self.items.len()
    }
    pub fn into_items(self) -> impl Iterator<Item = T> {
        let mut v: Vec<_> = self.items.into_iter().collect();
        v.sort_by_key(|e| e.0);
        v.into_iter().map(|e| e.1.2)
    }
}
