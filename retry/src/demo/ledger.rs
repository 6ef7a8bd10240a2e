//! What the workers have promised, and whether it was kept.

use crate::demo::Plan;
use crate::demo::work::{MAX_ATTEMPTS, PUSHERS};
use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::time::Duration;

/// All that was said by workers.
pub(super) struct Ledger {
    plan: Plan,
    /// By item.
    pushed: Vec<bool>,
    /// By item, how often it was delivered.
    delivered: Vec<u32>,
    /// The names in the queue of what is done.
    acked: HashSet<u64>,
    /// By item: the queue was asked, which may have been done though the worker could not say so any more.
    acking: Vec<bool>,
    /// By item: the queue has promised it.
    done: Vec<bool>,
    dead: HashMap<u64, u32>,
    /// What must not be.
    faults: Vec<String>,
}

impl Ledger {
    pub(super) fn new(plan: Plan) -> Self {
        let items = usize::try_from(plan.items).unwrap_or(usize::MAX);
        Ledger {
            plan,
            pushed: vec![false; items],
            delivered: vec![0; items],
            acked: HashSet::new(),
            acking: vec![false; items],
            done: vec![false; items],
            dead: HashMap::new(),
            faults: Vec::new(),
        }
    }

    /// The first item of each pusher that the queue has not promised to keep.
    pub(super) fn missing_from(&self) -> impl Iterator<Item = usize> + '_ {
        (0..PUSHERS).map(|first| {
            let mut items = (first..).step_by(PUSHERS);
            items.find(|item| !self.pushed.get(*item).is_some_and(|is_pushed| *is_pushed)).unwrap_or(first)
        })
    }

    /// Enters a line. `true` if the worker has nothing more to say.
    pub(super) fn enter(&mut self, line: &str) -> Result<bool, String> {
        let bad = || format!("the worker said {line:?}");
        let mut words = line.split(' ');
        let word = words.next().unwrap_or_default();
        let numbers: Vec<u64> = words.map(str::parse).collect::<Result<_, _>>().map_err(|_| bad())?;
        let item = numbers.first().map_or(0, |item| usize::try_from(*item).unwrap_or(usize::MAX));
        match (word, numbers.as_slice()) {
            ("end", []) => return Ok(true),
            ("pushed", [_]) => *self.pushed.get_mut(item).ok_or_else(bad)? = true,
            ("delivered", [_, id, attempt]) => {
                *self.delivered.get_mut(item).ok_or_else(bad)? += 1;
                if self.acked.contains(id) {
                    self.faults.push(format!("item {item} was delivered after it was done"));
                }
                if *attempt > u64::from(MAX_ATTEMPTS) {
                    self.faults.push(format!("item {item} had an attempt {attempt}"));
                }
            }
            ("acking", [_]) => *self.acking.get_mut(item).ok_or_else(bad)? = true,
            ("acked", [_, id]) => {
                *self.done.get_mut(item).ok_or_else(bad)? = true;
                if !self.acked.insert(*id) {
                    self.faults.push(format!("item {item} was done twice"));
                }
            }
            ("dead", [item, attempts]) => {
                *self.dead.entry(*item).or_default() += 1;
                if *attempts != u64::from(MAX_ATTEMPTS) {
                    self.faults.push(format!("item {item} died after {attempts} attempts"));
                }
            }
            _ => return Err(bad()),
        }
        Ok(false)
    }

    pub(super) fn progress(&self) -> String {
        format!("{} pushed, {} done", count(&self.pushed), self.acked.len())
    }

    /// The items that were pushed, and are neither done nor dead.
    fn open(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.pushed.len()).filter(|item| {
            self.pushed[*item] && !self.done[*item] && !self.dead.contains_key(&(*item as u64))
        })
    }

    fn lost(&self) -> usize {
        self.open().filter(|item| !self.acking[*item]).count()
    }

    pub(super) fn table(&self, took: Duration) -> String {
        let deliveries: u64 = self.delivered.iter().map(|times| u64::from(*times)).sum();
        let items = self.delivered.iter().filter(|times| **times > 0).count() as u64;
        let rows = [
            ("pushed", count(&self.pushed) as u64),
            ("done", count(&self.done) as u64),
            ("done, but killed before it could be said", self.open().count() as u64 - self.lost() as u64),
            ("dead", self.dead.len() as u64),
            ("deliveries", deliveries),
            ("of them again", deliveries - items),
            (
                "pushed twice, unpromised the first time",
                (self.acked.len() as u64).saturating_sub(count(&self.done) as u64),
            ),
            ("delivered after they were done", self.faults.len() as u64),
            ("lost", self.lost() as u64),
        ];
        let mut table = String::new();
        for (name, number) in rows {
            let _ = writeln!(table, "{name:<42} {number:>8}");
        }
        let _ = writeln!(table, "{:<42} {:>8.1}", "seconds", took.as_secs_f64());
        table
    }

    pub(super) fn verdict(&self) -> Result<(), String> {
        if let Some(fault) = self.faults.first() {
            return Err(format!("{} faults, the first: {fault}", self.faults.len()));
        }
        match (count(&self.pushed) as u64 == self.plan.items, self.lost()) {
            (true, 0) => Ok(()),
            (false, _) => Err("not all items were pushed".to_owned()),
            (true, lost) => Err(format!("{lost} items are lost")),
        }
    }
}

fn count(marks: &[bool]) -> usize {
    marks.iter().filter(|mark| **mark).count()
}
