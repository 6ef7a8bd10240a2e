//! What the queue has promised to the workers, and whether it was kept.

use crate::Failure;
use crate::demo::place::{Job, MAX_ATTEMPTS, Patience};
use crate::demo::work::{Fate, PUSHERS, fate, item_of};
use ixion_retry::{RetryQueue, Store};
use std::collections::HashMap;
use std::fmt::Write;
use std::mem;
use std::time::Duration;

/// All that was said by workers, in whatever order it came.
pub(super) struct Ledger {
    seed: u64,
    /// By item, whether the queue has promised to keep it.
    pushed: Vec<bool>,
    /// By the name that the queue gave them.
    entries: HashMap<u64, Entry>,
    pub(super) kills: u32,
    done: usize,
    /// What must not be, besides what is counted in the table.
    faults: Vec<String>,
}

/// An item, each time that it was pushed: once more, if the first push had no answer.
struct Entry {
    item: u64,
    is_promised: bool,
    /// The attempts that were delivered, a bit for each.
    attempts: u32,
    /// The last attempt of which the queue was told that it is done. It may have heard, though its answer was never said.
    asked: u32,
    /// The first attempt by which it was done; 0: by none.
    done: u32,
    is_dead: bool,
}

impl Ledger {
    pub(super) fn new(items: u64, seed: u64) -> Self {
        let items = usize::try_from(items).unwrap_or(usize::MAX);
        let (pushed, entries, faults) = (vec![false; items], HashMap::new(), Vec::new());
        Ledger { seed, pushed, entries, kills: 0, done: 0, faults }
    }

    /// The first item that the queue has not promised to keep, of each of the pushers of a worker.
    pub(super) fn missing_from(&self, worker: usize, workers: usize) -> impl Iterator<Item = usize> + '_ {
        let first = worker * PUSHERS;
        (first..first + PUSHERS).map(move |first| {
            let items = (first..).step_by(workers * PUSHERS);
            items
                .into_iter()
                .find(|item| !self.pushed.get(*item).is_some_and(|is_pushed| *is_pushed))
                .unwrap_or(first)
        })
    }

    /// Enters a line.
    pub(super) fn enter(&mut self, line: &str) -> Result<(), String> {
        let bad = || format!("a worker said {line:?}");
        let mut words = line.split(' ');
        let word = words.next().unwrap_or_default();
        let numbers: Vec<u64> = words.map(str::parse).collect::<Result<_, _>>().map_err(|_| bad())?;
        let [item, id, attempt] = numbers[..] else { return Err(bad()) };
        let attempt = u32::try_from(attempt).map_err(|_| bad())?;
        let is_fault = match word {
            "pushed" => {
                *usize::try_from(item).ok().and_then(|item| self.pushed.get_mut(item)).ok_or_else(bad)? =
                    true;
                let entry = self.entry(id, item);
                mem::replace(&mut entry.is_promised, true)
            }
            "delivered" => {
                let bit = 1_u32.checked_shl(attempt).ok_or_else(bad)?;
                let entry = self.entry(id, item);
                let is_fault = entry.attempts & bit > 0 || attempt > MAX_ATTEMPTS;
                entry.attempts |= bit;
                is_fault
            }
            "asked" => {
                let entry = self.entry(id, item);
                entry.asked = entry.asked.max(attempt);
                false
            }
            "done" => {
                let entry = self.entry(id, item);
                let is_fault = entry.done > 0;
                if !is_fault {
                    entry.done = attempt;
                    self.done += 1;
                }
                is_fault
            }
            _ => return Err(bad()),
        };
        if is_fault {
            self.faults.push(format!("a second time, or too often: {line}"));
        }
        Ok(())
    }

    fn entry(&mut self, id: u64, item: u64) -> &mut Entry {
        let new = Entry { item, is_promised: false, attempts: 0, asked: 0, done: 0, is_dead: false };
        let entry = self.entries.entry(id).or_insert(new);
        if entry.item != item {
            self.faults.push(format!("item {item} has the name {id}, which item {} has", entry.item));
        }
        entry
    }

    fn bury(&mut self, item: u64, id: u64, attempts: u32) {
        let entry = self.entry(id, item);
        let is_second = mem::replace(&mut entry.is_dead, true);
        if is_second || entry.done > 0 || attempts != MAX_ATTEMPTS {
            self.faults.push(format!("item {item} is in the dead letter, after {attempts} attempts"));
        }
    }

    fn pushed(&self) -> usize {
        self.pushed.iter().filter(|is_pushed| **is_pushed).count()
    }

    pub(super) fn progress(&self) -> String {
        format!("{} killed, {} pushed, {} done", self.kills, self.pushed(), self.done)
    }

    fn count(&self, which: impl Fn(&Entry) -> bool) -> usize {
        self.entries.values().filter(|entry| which(entry)).count()
    }

    pub(super) fn table(&self, took: Duration) -> String {
        let [mut first, mut retried, mut again] = [0; 3];
        for (entry, attempt) in
            self.entries.values().flat_map(|entry| entry.attempts().map(move |at| (entry, at)))
        {
            match (attempt, fate(entry.item, self.seed, attempt.saturating_sub(1))) {
                (..=1, _) => first += 1,
                (_, Fate::Done) => again += 1,
                (_, Fate::Fails | Fate::Hangs) => retried += 1,
            }
        }
        let [unheard, dead] = [self.count(Entry::may_be_done), self.count(|entry| entry.is_dead)];
        let rows = [
            ("workers killed", self.kills as usize),
            ("items pushed", self.pushed()),
            ("  pushed twice: no answer the first time", self.entries.len().saturating_sub(self.pushed())),
            ("deliveries", first + retried + again),
            ("  the first of an item", first),
            ("  retried: had failed or hung", retried),
            ("  duplicates: not acknowledged in time", again),
            ("ended, also those that were pushed twice", self.done + unheard + dead),
            ("  acknowledged", self.done),
            ("  acknowledged, but no answer came", unheard),
            ("  dead letters: all attempts failed", dead),
            ("delivered again after the ack", self.count(Entry::has_come_back)),
            ("lost", self.count(Entry::is_lost)),
        ];
        let mut table = String::new();
        for (name, number) in rows {
            let _ = writeln!(table, "{name:<40} {number:>8}");
        }
        let _ = writeln!(table, "{:<40} {:>8.1}", "seconds", took.as_secs_f64());
        table
    }

    /// What was promised and not kept.
    pub(super) fn verdict(&self) -> Result<(), String> {
        let mut broken = self.faults.clone();
        broken.truncate(3);
        match self.count(Entry::is_lost) {
            0 => {}
            lost => broken.insert(0, format!("{lost} items are lost")),
        }
        match self.count(Entry::has_come_back) {
            0 => {}
            back => broken.insert(0, format!("{back} items were delivered again after the ack")),
        }
        if self.pushed() < self.pushed.len() {
            broken.insert(0, "not all items were pushed".to_owned());
        }
        if broken.is_empty() { Ok(()) } else { Err(broken.join("; ")) }
    }
}

impl Entry {
    fn attempts(&self) -> impl Iterator<Item = u32> {
        let attempts = self.attempts;
        (0..u32::BITS).filter(move |attempt| attempts >> attempt & 1 > 0)
    }

    fn last(&self) -> u32 {
        self.attempts().last().unwrap_or(0)
    }

    /// If it was delivered again after the queue was asked, the queue has not heard.
    fn may_be_done(&self) -> bool {
        self.done == 0 && !self.is_dead && self.asked > 0 && self.asked >= self.last()
    }

    fn is_lost(&self) -> bool {
        self.done == 0 && !self.is_dead && !self.may_be_done()
    }

    fn has_come_back(&self) -> bool {
        self.done > 0 && self.last() > self.done
    }
}

/// Enters what is left in the queue when all workers have ended.
pub(super) struct Audit<'a>(pub(super) &'a mut Ledger);

impl Job for Audit<'_> {
    fn run<S: Store>(self, queue: &RetryQueue<S>, patience: Patience) -> Result<(), Failure> {
        let counts = patience.with(|| queue.counts())?;
        if counts.waiting + counts.in_flight > 0 {
            self.0.faults.push(format!("{counts:?} when all was done"));
        }
        let mut last = None;
        loop {
            let page = patience.with(|| queue.dead_letters(last, 1000))?;
            for letter in &page {
                self.0.bury(item_of(&letter.payload)?, letter.id.as_u64(), letter.attempts);
            }
            let Some(letter) = page.last() else { return Ok(()) };
            last = Some(letter.id);
        }
    }
}
