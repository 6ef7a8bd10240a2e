//! The queue, step by step on a clock that is moved by hand; each scenario with each store.

use crate::redis::{in_a_cluster, in_redis};
use ixion::ManualClock;
use ixion_retry::{
    Answer, Backoff, Counts, Delivery, ItemId, MemoryStore, REASON, RedbStore, RetryQueue, Store,
};
use proptest::prelude::*;
use std::thread;
use std::time::Duration;

pub(crate) const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) struct Bench<S: Store> {
    pub(crate) clock: ManualClock,
    pub(crate) queue: RetryQueue<S>,
}

impl<S: Store> Bench<S> {
    pub(crate) fn new(store: S, backoff: Backoff, max_in_flight: usize) -> Self {
        let clock = ManualClock::new();
        let queue =
            RetryQueue::builder(store).backoff(backoff).max_in_flight(max_in_flight).clock(clock.clone());
        Bench { clock, queue: queue.build() }
    }

    pub(crate) fn push(&self, payload: &str, delay: u64) -> ItemId {
        self.queue.push(payload.as_bytes(), s(delay)).unwrap()
    }

    pub(crate) fn take(&self, n: usize, visibility: u64) -> Vec<Delivery> {
        self.queue.try_take(n, s(visibility)).unwrap()
    }

    pub(crate) fn take_one(&self, visibility: u64) -> Delivery {
        let mut taken = self.take(2, visibility);
        assert_eq!(taken.len(), 1);
        taken.remove(0)
    }

    pub(crate) fn pass(&self, seconds: u64) {
        pass(&self.clock, &self.queue, seconds);
    }

    pub(crate) fn counts(&self) -> [usize; 3] {
        counts(&self.queue)
    }
}

/// Moves the clock, a second at a time, and drives.
pub(crate) fn pass<S: Store>(clock: &ManualClock, queue: &RetryQueue<S>, seconds: u64) {
    for _ in 0..seconds {
        clock.advance(s(1));
        queue.drive();
    }
}

/// How many wait, are in flight and are dead.
pub(crate) fn counts<S: Store>(queue: &RetryQueue<S>) -> [usize; 3] {
    let Counts { waiting, in_flight, dead, .. } = queue.counts().unwrap();
    [waiting, in_flight, dead]
}

fn text(delivery: &Delivery) -> &str {
    std::str::from_utf8(&delivery.payload).unwrap()
}

fn texts(taken: &[Delivery]) -> Vec<&str> {
    taken.iter().map(text).collect()
}

fn items_come_when_due_by_due_time_and_then_in_order_of_pushing<S: Store>(store: S) {
    let bench = Bench::new(store, Backoff::standard(), usize::MAX);
    for (payload, delay) in [("d", 2), ("b", 1), ("e", 2), ("a", 0), ("c", 1)] {
        bench.push(payload, delay);
    }
    assert_eq!(texts(&bench.take(9, 60)), ["a"]);
    bench.clock.advance(s(1) - Duration::from_nanos(1));
    assert_eq!(texts(&bench.take(9, 60)), [""; 0], "never early");
    bench.clock.advance(Duration::from_nanos(1));
    assert_eq!(texts(&bench.take(1, 60)), ["b"]);
    bench.clock.advance(s(1));
    assert_eq!(texts(&bench.take(9, 60)), ["c", "d", "e"]);
    assert_eq!(bench.counts(), [0, 5, 0]);
}

fn what_is_not_delayed_is_there_at_once<S: Store>(store: S) {
    let bench = Bench::new(store, Backoff::fixed(s(0)), usize::MAX);
    bench.clock.advance(Duration::from_nanos(300_001));
    bench.push("a", 0);
    let taken = bench.take_one(60);
    assert!(bench.queue.nack(&taken.receipt, "no").unwrap());
    assert_eq!(text(&bench.take_one(60)), "a", "given back without a delay");
}

fn a_thousand_alike_of_one_moment_are_a_thousand<S: Store>(store: S) {
    let bench = Bench::new(store, Backoff::standard(), usize::MAX);
    let ids: Vec<ItemId> = (0..1000).map(|_| bench.push("same", 1)).collect();
    bench.pass(1);
    let taken = bench.take(2000, 60);
    assert_eq!(taken.iter().map(|delivery| delivery.receipt.id()).collect::<Vec<_>>(), ids);
    assert!(taken.iter().all(|delivery| bench.queue.ack(&delivery.receipt).unwrap()));
    assert_eq!(bench.counts(), [0, 0, 0]);
}

/// A worker on a thread of its own that panics with a delivery in its hands: nothing more is heard of that.
fn panic_with(delivery: Delivery) {
    let worker = thread::spawn(move || panic!("a worker with {}", text(&delivery)));
    assert!(worker.join().is_err());
}

fn attempts_count_however_they_fail_and_the_last_one_ends_in_the_dead_letter<S: Store>(store: S) {
    let bench = Bench::new(store, Backoff::fixed(s(1)).max_attempts(5), usize::MAX);
    let id = bench.push("x", 0);
    for attempt in 1..=5 {
        let delivery = bench.take_one(10);
        assert_eq!(delivery.receipt.attempt(), attempt);
        match attempt % 3 {
            0 => {
                panic_with(delivery);
                bench.pass(10);
            }
            1 => assert!(bench.queue.nack(&delivery.receipt, format!("no {attempt}")).unwrap()),
            _ => bench.pass(10),
        }
        let counts = if attempt < 5 { [1, 0, 0] } else { [0, 0, 1] };
        assert_eq!(bench.counts(), counts, "before anybody has asked for it");
        assert!(bench.take(1, 10).is_empty());
        bench.pass(1);
    }
    let dead = &bench.queue.dead_letters(None, 10).unwrap()[0];
    assert_eq!((dead.id, dead.attempts, dead.payload.as_slice()), (id, 5, &b"x"[..]));
    let history: Vec<(u32, u64, &str)> = dead
        .history
        .iter()
        .map(|failure| (failure.attempt, failure.at.as_u64(), failure.reason.as_str()))
        .collect();
    let late = "not acknowledged in time";
    assert_eq!(
        history,
        [(1, 0, "no 1"), (2, 11_000, late), (3, 22_000, late), (4, 23_000, "no 4"), (5, 34_000, late)]
    );
    bench.pass(1000);
    assert!(bench.take(1, 1).is_empty());
}

fn a_redriven_item_has_a_fresh_budget_and_its_old_history<S: Store>(store: S) {
    let bench = Bench::new(store, Backoff::fixed(s(0)).max_attempts(3).max_age(s(100)), usize::MAX);
    let id = bench.push("x", 0);
    for _ in 0..3 {
        assert!(bench.queue.nack(&bench.take_one(10).receipt, "first round").unwrap());
    }
    bench.pass(1000); // older than its age
    assert!(bench.queue.redrive(id).unwrap());
    assert!(!bench.queue.redrive(id).unwrap() && !bench.queue.purge(id).unwrap(), "it is dead no more");
    let again = bench.take_one(10);
    assert_eq!((again.receipt.id(), again.receipt.attempt()), (id, 1));
    assert!(bench.queue.nack(&again.receipt, "second round").unwrap());
    for _ in 0..2 {
        assert!(bench.queue.nack(&bench.take_one(10).receipt, "second round").unwrap());
    }
    let dead = &bench.queue.dead_letters(None, 10).unwrap()[0];
    let rounds: Vec<(u32, u32)> =
        dead.history.iter().map(|failure| (failure.round, failure.attempt)).collect();
    assert_eq!((dead.attempts, rounds), (3, vec![(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3)]));
    assert!(bench.queue.redrive(id).unwrap());
    assert!(bench.queue.nack(&bench.take_one(10).receipt, "third round").unwrap());
    assert!(bench.queue.ack(&bench.take_one(10).receipt).unwrap());
    assert_eq!(bench.counts(), [0, 0, 0]);
}

fn the_dead_are_listed_by_pages_and_purged<S: Store>(store: S) {
    let bench = Bench::new(store, Backoff::standard().max_attempts(1), usize::MAX);
    let ids: Vec<ItemId> = (0..5).map(|n| bench.push(&n.to_string(), 0)).collect();
    let living = bench.push("living", 100);
    for delivery in bench.take(5, 60) {
        assert!(bench.queue.nack(&delivery.receipt, "no").unwrap());
    }
    let page = |after, n| -> Vec<ItemId> {
        bench.queue.dead_letters(after, n).unwrap().iter().map(|letter| letter.id).collect()
    };
    assert_eq!(page(None, 2), ids[..2]);
    assert_eq!(page(Some(ids[1]), 2), ids[2..4]);
    assert_eq!(page(Some(ids[3]), 2), ids[4..]);
    assert!(!bench.queue.purge(living).unwrap() && !bench.queue.redrive(living).unwrap());
    assert!(bench.queue.purge(ids[2]).unwrap() && !bench.queue.purge(ids[2]).unwrap());
    assert_eq!((page(None, 9).len(), bench.counts()), (4, [1, 0, 4]));
}

fn only_an_ack_of_the_item_itself_ends_its_back_off<S: Store>(store: S) {
    let delays = [1, 2, 4, 8, 16].map(s);
    let bench = Bench::new(store, Backoff::table(delays), usize::MAX);
    let id = bench.push("x", 0);
    for delay in [1, 2, 4, 8, 16] {
        let delivery = bench.take_one(60);
        assert!(bench.queue.extend(&delivery.receipt, s(60)).unwrap());
        bench.push("other", 0);
        assert!(bench.queue.ack(&bench.take_one(60).receipt).unwrap());
        assert!(bench.queue.nack(&delivery.receipt, "no").unwrap());
        bench.pass(delay - 1);
        assert!(bench.take(1, 60).is_empty(), "less than {delay} s");
        bench.pass(1);
    }
    assert_eq!(bench.take_one(60).receipt.id(), id);
}

fn an_extension_counts_from_the_call_and_a_receipt_that_ran_out_changes_nothing<S: Store>(store: S) {
    let bench = Bench::new(store, Backoff::fixed(s(0)), usize::MAX);
    bench.push("x", 0);
    bench.push("once", 0);
    let [old, once] = bench.take(2, 60).try_into().unwrap();
    bench.pass(15);
    assert!([&old, &once].iter().all(|taken| bench.queue.extend(&taken.receipt, s(10)).unwrap()));
    bench.pass(5);
    assert!(bench.queue.extend(&old.receipt, s(60)).unwrap());
    bench.pass(4);
    assert_eq!(bench.counts(), [0, 2, 0]);
    bench.pass(1);
    assert_eq!(bench.counts(), [1, 1, 0]);
    assert!(bench.queue.ack(&bench.take_one(60).receipt).unwrap());
    bench.pass(54);
    assert_eq!(bench.counts(), [0, 1, 0]);
    bench.clock.advance(s(1));
    // Run out, but nothing was driven yet: the receipt is worth nothing all the same.
    assert!(!bench.queue.extend(&old.receipt, s(30)).unwrap() && !bench.queue.ack(&old.receipt).unwrap());
    bench.queue.drive();
    assert_eq!(bench.counts(), [1, 0, 0]);
    let refused = |bench: &Bench<S>| {
        !bench.queue.ack(&old.receipt).unwrap()
            && !bench.queue.extend(&old.receipt, s(30)).unwrap()
            && !bench.queue.nack(&old.receipt, "late").unwrap()
            && !bench.queue.nack_after(&old.receipt, s(0), "late").unwrap()
    };
    assert!(refused(&bench), "due again, and nobody has taken it");
    let new = bench.take_one(2);
    assert!(refused(&bench));
    bench.pass(1);
    assert_eq!(bench.counts(), [0, 1, 0], "the new receipt is as it was");
    assert!(bench.queue.ack(&new.receipt).unwrap() && !bench.queue.ack(&new.receipt).unwrap());
    assert!(refused(&bench), "there is nothing left");
}

fn what_runs_out_has_failed_at_its_deadline_whoever_notices_when<S: Store>(store: S) {
    let bench = Bench::new(store, Backoff::fixed(s(5)).max_attempts(2), usize::MAX);
    bench.push("long", 0);
    assert_eq!(texts(&bench.take(1, 11)), ["long"]);
    bench.push("short", 0);
    assert_eq!(texts(&bench.take(1, 10)), ["short"]);
    bench.clock.advance(s(12));
    bench.queue.drive();
    let mut due = Vec::new();
    for second in 13..20 {
        bench.pass(1);
        due.extend(bench.take(2, 60).iter().map(|delivery| (second, text(delivery).to_owned())));
    }
    assert_eq!(due, [(15, "short"), (16, "long")].map(|(second, text)| (second, text.to_owned())));
    bench.clock.advance(s(1000));
    bench.queue.drive();
    let ends: Vec<u64> = bench
        .queue
        .dead_letters(None, 9)
        .unwrap()
        .iter()
        .map(|letter| letter.history[1].at.as_u64())
        .collect();
    assert_eq!(ends, [76_000, 75_000]);

    // Over long ago, and so is the delay: due at once, in the order in which they came to be so.
    bench.push("long", 0);
    assert_eq!(texts(&bench.take(1, 11)), ["long"]);
    bench.push("short", 0);
    assert_eq!(texts(&bench.take(1, 10)), ["short"]);
    bench.clock.advance(s(1000));
    bench.queue.drive();
    assert_eq!(texts(&bench.take(2, 60)), ["short", "long"]);
}

fn no_visibility_and_no_delay_are_times_like_others<S: Store>(store: S) {
    let bench = Bench::new(store, Backoff::fixed(s(0)).max_attempts(3), usize::MAX);
    bench.push("x", 0);
    let first = bench.take_one(0);
    assert!(!bench.queue.ack(&first.receipt).unwrap(), "over as soon as it was given");
    bench.queue.drive();
    let second = bench.take_one(60);
    assert!(bench.queue.nack_after(&second.receipt, s(0), "now").unwrap());
    let third = bench.take_one(60);
    assert_eq!([first, second, third.clone()].map(|delivery| delivery.receipt.attempt()), [1, 2, 3]);
    assert!(bench.queue.extend(&third.receipt, s(0)).unwrap());
    bench.queue.drive();
    assert_eq!(bench.counts(), [0, 0, 1]);
}

fn the_age_ends_where_the_delay_that_a_worker_asks_for_does<S: Store>(store: S) {
    let bench = Bench::new(store, Backoff::fixed(s(50)).max_age(s(60)), usize::MAX);
    bench.push("x", 0);
    bench.pass(20);
    assert!(bench.queue.nack_after(&bench.take_one(60).receipt, s(40), "by then").unwrap());
    assert_eq!(bench.counts(), [1, 0, 0], "sooner than by the policy, and in time");
    bench.pass(40);
    assert!(bench.queue.nack_after(&bench.take_one(60).receipt, s(1), "too late").unwrap());
    assert_eq!(bench.counts(), [0, 0, 1]);
}

fn what_runs_out_frees_its_place_among_those_in_flight<S: Store>(store: S) {
    let bench = Bench::new(store, Backoff::fixed(s(0)), 2);
    for n in 0..5 {
        bench.push(&n.to_string(), 0);
    }
    let mut stale: Option<Delivery> = None;
    for _ in 0..100 {
        let taken = bench.take(5, 1);
        assert_eq!((taken.len(), bench.take(5, 1).len(), bench.counts()), (2, 0, [3, 2, 0]));
        if let Some(stale) = stale {
            assert!(!bench.queue.ack(&stale.receipt).unwrap());
        }
        stale = taken.into_iter().next();
        bench.pass(1);
        assert_eq!(bench.counts(), [5, 0, 0]);
    }
}

fn each_of_a_batch_has_a_deadline_of_its_own<S: Store>(store: S) {
    let bench = Bench::new(store, Backoff::fixed(s(5)), usize::MAX);
    for n in 0..10 {
        bench.push(&n.to_string(), 0);
    }
    let batch = bench.take(10, 60);
    assert!(batch[..3].iter().all(|done| bench.queue.ack(&done.receipt).unwrap()));
    assert!(batch[3..5].iter().all(|failed| bench.queue.nack(&failed.receipt, "no").unwrap()));
    assert!(bench.queue.extend(&batch[5].receipt, s(120)).unwrap());
    let mut seen = Vec::new();
    for second in 1..=130 {
        bench.pass(1);
        seen.extend(bench.take(10, 1_000_000).iter().map(|delivery| (second, text(delivery).to_owned())));
    }
    let expected = [(5, "3"), (5, "4"), (65, "6"), (65, "7"), (65, "8"), (65, "9"), (125, "5")];
    assert_eq!(seen, expected.map(|(second, text)| (second, text.to_owned())));
}

fn of_a_batch_only_what_fails_comes_again<S: Store>(store: S) {
    let bench = Bench::new(store, Backoff::fixed(s(5)), usize::MAX);
    let items: Vec<_> = (0..10).map(|n| (n.to_string(), s(1))).collect();
    bench.queue.push_all(&items).unwrap();
    bench.pass(1);
    let mut batch = bench.take(10, 60);
    panic_with(batch.remove(7));
    let answers = batch.iter().map(|delivery| match text(delivery) {
        "4" => (delivery.receipt, Answer::Nack("no".to_owned())),
        _ => (delivery.receipt, Answer::Ack),
    });
    assert_eq!(bench.queue.settle_all(answers).unwrap(), [true; 9]);
    bench.pass(5);
    assert_eq!(texts(&bench.take(10, 1000)), ["4"]);
    bench.pass(59);
    assert_eq!(texts(&bench.take(10, 1000)), [""; 0]);
    bench.pass(1);
    assert_eq!((texts(&bench.take(10, 1000)), bench.counts()), (vec!["7"], [0, 2, 0]));
}

fn what_is_delayed_for_long_comes_at_its_time_though_others_keep_coming<S: Store>(store: S) {
    let bench = Bench::new(store, Backoff::standard(), usize::MAX);
    bench.push("long", 100);
    let mut taken = Vec::new();
    for _ in 0..100 {
        bench.push("short", 90);
        bench.pass(1);
        taken.extend(bench.take(2, 1000).iter().map(|delivery| text(delivery).to_owned()));
    }
    // At 90 to 99 those of 0 to 9; at 100 it, before the one of 10 that is due then too.
    assert_eq!(taken, [vec!["short"; 10], vec!["long", "short"]].concat());
}

fn an_item_that_has_failed_elsewhere_goes_on_from_there<S: Store>(store: S) {
    let bench = Bench::new(store, Backoff::table([1, 2, 4].map(s)).max_attempts(3), usize::MAX);
    let second = bench.queue.push_failed(b"x", 2, "elsewhere").unwrap();
    let third = bench.queue.push_failed(b"y", 3, "elsewhere").unwrap();
    assert_eq!(bench.queue.dead_letters(None, 9).unwrap()[0].id, third);
    bench.pass(1);
    assert!(bench.take(1, 60).is_empty());
    bench.pass(1);
    let last = bench.take_one(60);
    assert_eq!((last.receipt.id(), last.receipt.attempt()), (second, 3));
    assert!(bench.queue.nack(&last.receipt, "here").unwrap());
    let letters = bench.queue.dead_letters(Some(ItemId::from_u64(0)), 9).unwrap();
    let of_second = letters.iter().find(|letter| letter.id == second).unwrap();
    let reasons: Vec<&str> = of_second.history.iter().map(|failure| failure.reason.as_str()).collect();
    assert_eq!(reasons, ["elsewhere", "here"]);
}

fn a_history_keeps_the_latest<S: Store>(store: S) {
    let bench = Bench::new(store, Backoff::fixed(s(0)).max_attempts(100), usize::MAX);
    bench.push("x", 0);
    for n in 1..=100 {
        assert!(bench.queue.nack(&bench.take_one(60).receipt, n.to_string()).unwrap());
    }
    let history = &bench.queue.dead_letters(None, 1).unwrap()[0].history;
    let attempts: Vec<u32> = history.iter().map(|failure| failure.attempt).collect();
    assert_eq!(attempts, (69..=100).collect::<Vec<u32>>());
}

fn a_reason_is_cut_off_where_a_character_ends<S: Store>(store: S) {
    let bench = Bench::new(store, Backoff::fixed(s(0)).max_attempts(2), usize::MAX);
    bench.queue.push_failed(b"x", 1, "é".repeat(REASON)).unwrap();
    assert!(bench.queue.nack(&bench.take_one(60).receipt, format!("-{}", "é".repeat(REASON))).unwrap());
    let history = &bench.queue.dead_letters(None, 1).unwrap()[0].history;
    let reasons: Vec<&str> = history.iter().map(|failure| failure.reason.as_str()).collect();
    assert_eq!(reasons, ["é".repeat(REASON / 2), format!("-{}", "é".repeat(REASON / 2 - 1))]);
}

fn the_longest_durations_are_for_ever<S: Store>(store: S) {
    let bench = Bench::new(store, Backoff::fixed(Duration::MAX), usize::MAX);
    bench.queue.push(b"never", Duration::MAX).unwrap();
    bench.push("now", 0);
    let delivery = bench.queue.try_take(9, Duration::MAX).unwrap().remove(0);
    bench.clock.advance_to(Duration::MAX / 2);
    bench.queue.drive();
    assert_eq!(bench.counts(), [1, 1, 0]);
    assert!(bench.queue.nack(&delivery.receipt, "no").unwrap());
    assert_eq!(bench.counts(), [2, 0, 0]);
}

/// Runs each scenario with a store that `$store` makes.
macro_rules! scenarios {
    ($module:ident, $cases:expr, $store:expr) => {
        scenarios!($module, $cases, $store, [
            items_come_when_due_by_due_time_and_then_in_order_of_pushing,
            what_is_not_delayed_is_there_at_once,
            a_thousand_alike_of_one_moment_are_a_thousand,
            attempts_count_however_they_fail_and_the_last_one_ends_in_the_dead_letter,
            a_redriven_item_has_a_fresh_budget_and_its_old_history,
            the_dead_are_listed_by_pages_and_purged,
            only_an_ack_of_the_item_itself_ends_its_back_off,
            an_extension_counts_from_the_call_and_a_receipt_that_ran_out_changes_nothing,
            what_runs_out_has_failed_at_its_deadline_whoever_notices_when,
            no_visibility_and_no_delay_are_times_like_others,
            the_age_ends_where_the_delay_that_a_worker_asks_for_does,
            what_runs_out_frees_its_place_among_those_in_flight,
            each_of_a_batch_has_a_deadline_of_its_own,
            of_a_batch_only_what_fails_comes_again,
            what_is_delayed_for_long_comes_at_its_time_though_others_keep_coming,
            an_item_that_has_failed_elsewhere_goes_on_from_there,
            a_history_keeps_the_latest,
            a_reason_is_cut_off_where_a_character_ends,
            the_longest_durations_are_for_ever,
        ]);
    };
    ($module:ident, $cases:expr, $store:expr, [$($scenario:ident),* $(,)?]) => {
        mod $module {
            use super::*;
            use crate::model::{any_steps_agree_with_a_list as agree, step};

            $(#[test]
            fn $scenario() {
                $store(super::$scenario);
            })*

            proptest! {
                #![proptest_config(ProptestConfig::with_cases($cases))]
                #[test]
                fn any_steps_agree_with_a_list(steps in prop::collection::vec(step(), 1..100)) {
                    $store(|store| agree(store, steps));
                }
            }
        }
    };
}

fn in_memory(run: impl FnOnce(MemoryStore)) {
    run(MemoryStore::new());
}

fn in_a_file(run: impl FnOnce(RedbStore)) {
    let folder = tempfile::tempdir().unwrap();
    run(RedbStore::open(folder.path().join("queue.redb")).unwrap());
}

scenarios!(memory, 256, in_memory);
scenarios!(redb, 8, in_a_file);
scenarios!(redis, 8, in_redis);
scenarios!(
    cluster,
    2,
    in_a_cluster,
    [
        items_come_when_due_by_due_time_and_then_in_order_of_pushing,
        a_redriven_item_has_a_fresh_budget_and_its_old_history,
        the_dead_are_listed_by_pages_and_purged,
        the_longest_durations_are_for_ever,
    ]
);
