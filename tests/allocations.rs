//! What allocates and what does not. A binary of its own: the allocator that counts is the process's.

use ixion::{DelayedOperation, ManualClock, Outcome, Purgatory};
use std::time::Duration;

#[global_allocator]
static COUNTING: dhat::Alloc = dhat::Alloc;

struct Plain(bool);

impl DelayedOperation for Plain {
    fn try_complete(&mut self) -> bool {
        self.0
    }

    fn on_complete(self, _: Outcome) {}
}

fn blocks(run: impl FnOnce()) -> u64 {
    let before = dhat::HeapStats::get().total_blocks;
    run();
    dhat::HeapStats::get().total_blocks - before
}

/// One test, since the counts are the process's.
#[test]
fn calls_allocate_no_more_than_they_say() {
    let _profiler = dhat::Profiler::builder().testing().build();
    assert!(blocks(|| drop(Box::new(1))) > 0, "allocations are counted");
    let clock = ManualClock::new();
    let purgatory: Purgatory<String, Plain> = Purgatory::builder("alloc").clock(clock.clone()).build();
    let wait = |keys: &[&str]| {
        let keys: Vec<String> = keys.iter().map(|key| key.to_string()).collect();
        let registration = purgatory.try_complete_else_watch(Plain(false), Duration::from_secs(1), keys);
        registration.expect("open").id().expect("waits")
    };
    // Warm-up: tables, slabs and chunks.
    for _ in 0..1000 {
        wait(&["a", "b"]);
    }
    drop(purgatory.cancel_for_key("a"));

    let satisfied = blocks(|| {
        for _ in 0..100 {
            let keys = std::iter::empty();
            let _ = purgatory.try_complete_else_watch(Plain(true), Duration::from_secs(1), keys);
        }
    });
    assert_eq!(satisfied, 0, "an operation that its first look satisfies never allocates");

    let unwatched = blocks(|| {
        for _ in 0..100 {
            assert_eq!(purgatory.check_and_complete("nobody"), 0);
            assert!(!purgatory.contains_key("nobody"));
            assert_eq!(purgatory.force_complete_for_key("nobody"), 0);
        }
    });
    assert_eq!(unwatched, 0, "to ask by a borrowed key for nobody allocates nothing");

    wait(&["a"]);
    let looks = blocks(|| {
        for _ in 0..100 {
            assert_eq!(purgatory.check_and_complete("a"), 0);
        }
    });
    assert_eq!(looks, 0, "nor does a look that says no");

    // The operation's cell; the key's list is kept by the one that waits. The key itself and the vector are the test's.
    let registered = blocks(|| {
        let id = wait(&["a"]);
        assert!(purgatory.force_complete(id));
    });
    assert_eq!(registered - 2, 1, "one allocation for an operation on one key");

    clock.advance(Duration::from_secs(1));
    let expired = blocks(|| assert_eq!(purgatory.expire().expired, 1));
    assert_eq!(expired, 0, "expiring allocates nothing");
    let idle = blocks(|| assert_eq!((purgatory.expire().expired, purgatory.next_expiration()), (0, None)));
    assert_eq!(idle, 0, "nor does finding nothing to do");
}
