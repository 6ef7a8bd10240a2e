//! ixion's purgatory, with operations that have no keys: timers.

use super::{Lane, Shared};
use crate::support::Payload;
use ixion::{DelayedOperation, Expirer, OperationId, Outcome, Purgatory};
use std::time::Duration;

pub struct Timers {
    purgatory: Purgatory<u64, Timer>,
    _expirer: Expirer,
}

pub struct Timer {
    _payload: Payload,
}

impl DelayedOperation for Timer {
    #[inline]
    fn try_complete(&mut self) -> bool {
        false
    }

    #[inline]
    fn on_complete(self, _: Outcome) {}
}

impl Shared for Timers {
    const NAME: &'static str = "ixion";
    type Lane<'a> = &'a Purgatory<u64, Timer>;

    fn new() -> Self {
        let purgatory = Purgatory::builder("timers").build();
        let expirer = Expirer::spawn("expirer").expect("a thread");
        expirer.drive(&purgatory);
        Timers { purgatory, _expirer: expirer }
    }

    fn lane(&self) -> Self::Lane<'_> {
        &self.purgatory
    }
}

impl Lane for &Purgatory<u64, Timer> {
    /// None: it expired before it was told its name.
    type Id = Option<OperationId>;

    #[inline]
    fn start(&mut self, delay: Duration, payload: Payload) -> Self::Id {
        let timer = Timer { _payload: payload };
        self.try_complete_else_watch(timer, delay, []).expect("there is no limit").id()
    }

    #[inline]
    fn stop(&mut self, id: Self::Id) -> bool {
        id.is_some_and(|id| self.cancel(id).taken().is_some())
    }
}
