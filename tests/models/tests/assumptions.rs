//! What the models take for granted.
#![cfg(ixion_loom)]

use ixion::{DelayedOperation, Outcome};
use ixion_models::{model, of_shards};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Notes which of them ends first.
struct Noted(u32, Arc<Mutex<Vec<u32>>>);

impl DelayedOperation for Noted {
    fn try_complete(&mut self) -> bool {
        false
    }

    fn on_complete(self, _: Outcome) {
        self.1.lock().unwrap().push(self.0);
    }
}

#[test]
fn with_two_shards_the_two_keys_live_apart() {
    model(2, || {
        let (purgatory, ended) = (of_shards(2), Arc::default());
        for key in [1, 2] {
            let op = Noted(key, Arc::clone(&ended));
            let _ = purgatory.try_complete_else_watch(op, Duration::ZERO, [key]).expect("open");
        }
        assert_eq!(purgatory.expire().expired, 2);
        // What is due in the same tick ends in order of registration within a shard, but shard by shard.
        assert_eq!(*ended.lock().unwrap(), [2, 1]);
    });
}
