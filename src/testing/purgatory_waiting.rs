//! An operation of the model while it waits, and the keys that it waits on.

use std::sync::Arc;

use crate::Outcome;
use crate::testing::purgatory_script::{KEYS, Plan};

/// An operation that waits.
pub(super) struct Waiting {
    pub(super) number: usize,
    pub(super) plan: Arc<Plan>,
    pub(super) watches: Vec<Watched>,
    pub(super) home: usize,
    pub(super) deadline: u64,
    /// The order of registering or of the last reset.
    pub(super) armed: u64,
    /// The latest drive at that moment.
    pub(super) drive: u64,
    pub(super) looks: u32,
    /// A look or an end of it is going on.
    pub(super) held: bool,
    pub(super) decided: Option<Outcome>,
    /// Whether a drive or a shutdown can still find it.
    pub(super) timed: bool,
}

/// A key that is waited on.
pub(super) struct Watched {
    pub(super) key: u8,
    /// At which number, if at one; and as which of the watches that were given.
    at: Option<(u64, usize)>,
}

impl Waiting {
    pub(super) fn on(&self, key: u8) -> Option<&Watched> {
        self.watches.iter().find(|watched| watched.key == key)
    }

    /// Whether it is asked for numbers after its looks.
    pub(super) fn has_numbers(&self) -> bool {
        self.watches.iter().any(|watched| watched.at.is_some())
    }

    /// Waits at the numbers that it asks for after its latest look. Returns whether any is lower than before.
    pub(super) fn move_on(&mut self) -> bool {
        let mut lower = false;
        for (at, nth) in self.watches.iter_mut().filter_map(|watched| watched.at.as_mut()) {
            let asked = self.plan.asks.get(self.looks as usize - 1 + *nth).copied().unwrap_or(*at);
            lower |= asked < *at;
            *at = asked;
        }
        lower
    }
}

impl Watched {
    pub(super) fn number(&self) -> Option<u64> {
        self.at.map(|(number, _)| number)
    }
}

/// What a plan waits on. A key that is given twice counts once, at the lowest number; at none if one of them has none.
pub(super) fn watches(plan: &Plan) -> Vec<Watched> {
    let mut all: Vec<Watched> = Vec::new();
    for (nth, key) in plan.keys.iter().map(|key| key % KEYS).enumerate() {
        let at = plan.at.get(nth).copied().flatten().map(|number| (number, nth));
        match all.iter_mut().find(|watched| watched.key == key) {
            Some(twice) => twice.at = twice.at.min(at),
            None => all.push(Watched { key, at }),
        }
    }
    all
}
