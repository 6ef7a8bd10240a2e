//! A task that waits against what can come to it.
#![cfg(any(ixion_loom, ixion_shuttle))]

use ixion::{Purgatory, WaitError, Waiting};
use ixion_models::checker::thread::{JoinHandle, spawn};
use ixion_models::{Flag, Sleeper, assert_quiet, block_on, drive, model, of_shards};
use std::sync::Arc;
use std::time::Duration;

const NEVER: Duration = Duration::MAX;
const NOW: Duration = Duration::ZERO;

type Waits = Arc<Purgatory<u32, Waiting>>;

fn signal(purgatory: &Waits, flag: &Arc<Flag>, key: u32) -> JoinHandle<()> {
    let (purgatory, flag) = (Arc::clone(purgatory), Arc::clone(flag));
    spawn(move || {
        flag.set();
        purgatory.check_and_complete(&key);
    })
}

fn look(flag: &Arc<Flag>) -> impl FnMut() -> Option<u32> + Send + 'static {
    let flag = Arc::clone(flag);
    move || flag.is_set().then_some(7)
}

#[test]
fn an_event_against_a_wait() {
    for shards in [1, 2] {
        model(2, move || {
            let (purgatory, flag): (Waits, _) = (Arc::new(of_shards(shards)), Flag::new());
            let event = signal(&purgatory, &flag, 2);
            assert_eq!(block_on(purgatory.wait(NEVER, [1, 2], look(&flag))), Ok(7));
            event.join().unwrap();
            assert_quiet(&purgatory, 0, 0);
        });
    }
}

#[test]
fn two_events_against_a_wait_for_both() {
    model(3, || {
        let (purgatory, a, b): (Waits, _, _) = (Arc::new(of_shards(1)), Flag::new(), Flag::new());
        let events = [signal(&purgatory, &a, 1), signal(&purgatory, &b, 2)];
        let both = || (a.is_set() && b.is_set()).then_some(7);
        assert_eq!(block_on(purgatory.wait(NEVER, [1, 2], both)), Ok(7));
        events.into_iter().for_each(|event| event.join().unwrap());
        // What a tired holder handed on: the task does not wait for it.
        drive(&purgatory);
        assert_quiet(&purgatory, 0, 0);
    });
}

#[test]
fn a_wait_that_is_dropped_against_an_event() {
    for shards in [1, 2] {
        model(2, move || {
            let (purgatory, flag): (Waits, _) = (Arc::new(of_shards(shards)), Flag::new());
            let task = Arc::new(Sleeper::default());
            let mut wait = purgatory.wait(NEVER, [1, 2], look(&flag));
            assert!(task.poll(&mut wait).is_pending());
            let event = signal(&purgatory, &flag, 2);
            drop(wait);
            event.join().unwrap();
            assert_quiet(&purgatory, 0, 0);
            assert_eq!(Arc::strong_count(&task), 1, "nobody has a waker");
        });
    }
}

#[test]
fn an_expiry_against_a_wait() {
    model(2, || {
        let purgatory: Waits = Arc::new(of_shards(1));
        let mut wait = purgatory.wait(NOW, [1], || None::<u32>);
        // By another task: the waker is replaced while the time runs out.
        assert!(Arc::new(Sleeper::default()).poll(&mut wait).is_pending());
        let driven = Arc::clone(&purgatory);
        let driver = spawn(move || assert_eq!(driven.expire().expired, 1));
        assert_eq!(block_on(wait), Err(WaitError::Elapsed));
        driver.join().unwrap();
        assert_quiet(&purgatory, 0, 0);
    });
}

#[test]
fn an_expiry_and_an_event_against_a_wait() {
    model(3, || {
        let (purgatory, flag): (Waits, _) = (Arc::new(of_shards(1)), Flag::new());
        let mut wait = purgatory.wait(NOW, [1], look(&flag));
        assert!(Arc::new(Sleeper::default()).poll(&mut wait).is_pending());
        let driven = Arc::clone(&purgatory);
        let driver = spawn(move || driven.expire().expired);
        let event = signal(&purgatory, &flag, 1);
        let end = block_on(wait);
        event.join().unwrap();
        let expired = driver.join().unwrap();
        let stats = purgatory.stats();
        assert_eq!((stats.expired, stats.satisfied), (expired as u64, 1 - expired as u64));
        if end != Ok(7) {
            assert_eq!((end, expired), (Err(WaitError::Elapsed), 1));
        }
        assert_quiet(&purgatory, 0, 0);
    });
}
