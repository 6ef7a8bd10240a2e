//! The service, as it runs in production: leases of names, one client at a time. It knows nothing of the simulation
//! but the bug that can be planted in it.

use ixion::{Clock, DelayedOperation, Outcome, Purgatory};
use std::collections::{HashMap, hash_map::Entry};
use std::sync::{Arc, Mutex, Weak, mpsc};
use std::time::Duration;

pub(crate) const LEASE: Duration = Duration::from_secs(10);

pub(crate) type Name = u32;
/// A lease's number. Unique, so that an old lease is never taken for a new one.
pub(crate) type Token = u64;

pub(crate) struct Leases {
    held: Mutex<HashMap<Name, Token>>,
    waiting: Purgatory<Name, Acquire>,
    timers: Purgatory<Token, Timer>,
    has_bug: bool,
}

/// Waits until a name is free, and takes it. The service owns it, so it must not own the service.
struct Acquire {
    name: Name,
    token: Token,
    reply: mpsc::Sender<bool>,
    leases: Weak<Leases>,
}

/// Lasts as long as a lease; however it ends, the name is free again.
struct Timer {
    name: Name,
    leases: Weak<Leases>,
}

impl DelayedOperation for Acquire {
    fn try_complete(&mut self) -> bool {
        let Some(leases) = self.leases.upgrade() else { return false };
        let mut held = leases.held.lock().unwrap();
        let Entry::Vacant(free) = held.entry(self.name) else { return false };
        free.insert(self.token);
        true
    }

    fn on_complete(self, _outcome: Outcome) {
        let Some(leases) = self.leases.upgrade() else { return };
        // Not the outcome: a look may have taken the name just as the time was up.
        let has_it = leases.held.lock().unwrap().get(&self.name) == Some(&self.token);
        if has_it {
            let timer = Timer { name: self.name, leases: self.leases };
            let _ = leases.timers.try_complete_else_watch(timer, LEASE, [self.token]);
        }
        if self.reply.send(has_it).is_err() && has_it {
            leases.release(self.name, self.token); // That client has gone away.
        }
    }
}

impl DelayedOperation for Timer {
    fn try_complete(&mut self) -> bool {
        false
    }

    fn on_complete(self, _outcome: Outcome) {
        if let Some(leases) = self.leases.upgrade() {
            leases.vacate(self.name);
        }
    }
}

impl Leases {
    /// The seed is for the hashes, so that a run can be repeated; a server takes a random one.
    pub(crate) fn new(clock: impl Clock + Clone + 'static, hash_seed: u64, has_bug: bool) -> Arc<Self> {
        let waiting = Purgatory::builder("waiting").clock(clock.clone()).hash_seed(hash_seed).build();
        let timers = Purgatory::builder("timers").clock(clock).hash_seed(hash_seed).build();
        Arc::new(Leases { held: Mutex::default(), waiting, timers, has_bug })
    }

    /// Asks for a name. The answer is whether the client has it, for [`LEASE`] from then on.
    pub(crate) fn acquire(
        self: &Arc<Self>,
        name: Name,
        token: Token,
        timeout: Duration,
    ) -> mpsc::Receiver<bool> {
        let (reply, answer) = mpsc::channel();
        let acquire = Acquire { name, token, reply, leases: Arc::downgrade(self) };
        let _ = self.waiting.try_complete_else_watch(acquire, timeout, [name]);
        answer
    }

    /// Gives a lease its full time again, unless it has ended.
    pub(crate) fn renew(&self, token: Token) -> bool {
        self.timers.reset_timeout_for_key(&token, LEASE) == 1
    }

    pub(crate) fn release(&self, name: Name, token: Token) {
        if self.has_bug {
            return self.vacate(name); // The timer of this lease will free the name again, whoever has it by then.
        }
        self.timers.force_complete_for_key(&token);
    }

    fn vacate(&self, name: Name) {
        self.held.lock().unwrap().remove(&name);
        self.waiting.check_and_complete(&name);
    }

    /// Ends what is due. In a server an [`Expirer`](ixion::Expirer) drives both.
    pub(crate) fn drive(&self) {
        while self.timers.expire().more | self.waiting.expire().more {}
    }
}
