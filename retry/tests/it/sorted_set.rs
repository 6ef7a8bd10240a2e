//! What is wrong with the sorted-set recipe: each fault happens to the recipe, and the same done with a queue shows that it
//! does not happen there. Both use the same server; time is moved by hand, and what crashes is stopped between two commands.

use crate::queue::{counts, pass, s};
use crate::recipe::{Next, PERIOD, Recipe};
use crate::waiting::{Woken, poll};
use ixion::{ManualClock, Resolution};
use ixion_redis_server::Server;
use ixion_retry::{Backoff, Delivery, RedisStore, RetryQueue};
use std::ops::ControlFlow::{Break, Continue};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

struct Setting {
    server: Server,
    clock: ManualClock,
}

const VISIBILITY: Duration = Duration::from_secs(60);
const DELAY: Duration = Duration::from_secs(5);
const ATTEMPTS: u32 = 5;

impl Setting {
    fn new() -> Self {
        Setting::with_clock(ManualClock::new())
    }

    fn with_clock(clock: ManualClock) -> Self {
        Setting { server: Server::start().unwrap(), clock }
    }

    /// A producer's or a job's connection.
    fn recipe(&self) -> Recipe {
        Recipe::connect(&self.server.url()).unwrap()
    }

    /// A producer's or a worker's queue.
    fn queue(&self) -> RetryQueue<RedisStore> {
        let store = RedisStore::open(&self.server.url(), "retries").unwrap();
        let backoff = Backoff::fixed(DELAY).max_attempts(ATTEMPTS);
        let queue = RetryQueue::builder(store).backoff(backoff).clock(self.clock.clone()).build();
        queue.drive(); // it looks at what the store has from before
        queue
    }

    /// By which the recipe scores.
    fn now(&self) -> u64 {
        self.clock.now().as_u64()
    }

    /// How much the server has done since it started, by a name in its statistics.
    fn stat(&self, name: &str) -> usize {
        let stats = self.server.ask("INFO stats").unwrap();
        let line = stats.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap().trim().parse().unwrap()
    }
}

fn take(queue: &RetryQueue<RedisStore>, n: usize) -> Vec<Delivery> {
    queue.try_take(n, VISIBILITY).unwrap()
}

/// What is taken now, and acknowledged.
fn done(queue: &RetryQueue<RedisStore>) -> Vec<String> {
    let taken = take(queue, usize::MAX);
    assert!(taken.iter().all(|delivery| queue.ack(&delivery.receipt).unwrap()));
    taken.into_iter().map(|delivery| String::from_utf8(delivery.payload).unwrap()).collect()
}

/// What a poll sends now.
fn sent(recipe: &mut Recipe, now: u64) -> Vec<String> {
    let sent = recipe.poll_all(now).unwrap();
    sent.into_iter().map(|payload| String::from_utf8(payload).unwrap()).collect()
}

const NONE: [&str; 0] = [];

#[test]
fn whatever_is_read_and_not_sent_when_its_process_crashes_is_not_lost() {
    // Before which of: the removal, and three sendings. Without the last ones: three acknowledgements.
    for steps in 0..=3 {
        let setting = Setting::new();
        let (mut recipe, mut seen) = (setting.recipe(), Vec::new());
        for payload in ["a", "b", "c"] {
            recipe.add(&[(setting.now(), payload)]).unwrap();
        }
        let mut made = 0;
        recipe
            .poll(setting.now(), |next| {
                if made == steps {
                    return Break(());
                }
                made += 1;
                if let Next::Send(payload) = next {
                    seen.push(String::from_utf8(payload).unwrap());
                }
                Continue(())
            })
            .unwrap();
        seen.extend(sent(&mut setting.recipe(), setting.now()));
        seen.sort();
        assert_eq!(seen.len(), [3, 0, 1, 2][steps], "the recipe has lost the rest: {seen:?}");

        let mut seen = Vec::new();
        {
            let queue = setting.queue();
            for payload in ["a", "b", "c"] {
                queue.push(payload.as_bytes(), s(0)).unwrap();
            }
            for delivery in take(&queue, 3).into_iter().take(steps) {
                seen.push(String::from_utf8(delivery.payload).unwrap());
                assert!(queue.ack(&delivery.receipt).unwrap());
            }
        }
        let queue = setting.queue();
        pass(&setting.clock, &queue, (VISIBILITY + DELAY).as_secs());
        seen.extend(done(&queue));
        assert_eq!(seen, ["a", "b", "c"], "after {steps}");
    }
}

#[test]
fn what_is_added_while_a_batch_is_given_out_is_not_lost() {
    let setting = Setting::new();
    let (mut job, mut producer) = (setting.recipe(), setting.recipe());
    producer.add(&[(setting.now(), b"before")]).unwrap();
    let mut seen = Vec::new();
    job.poll(setting.now(), |next| {
        match next {
            Next::Remove => producer.add(&[(setting.now(), b"meanwhile")]).unwrap(),
            Next::Send(payload) => seen.push(payload),
        }
        Continue(())
    })
    .unwrap();
    assert_eq!(seen, [b"before"]);
    assert_eq!(sent(&mut job, setting.now()), NONE, "the recipe has removed what it has not read");

    let (worker, producer) = (setting.queue(), setting.queue());
    producer.push(b"before", s(0)).unwrap();
    let batch = take(&worker, usize::MAX);
    producer.push(b"meanwhile", s(0)).unwrap();
    assert!(batch.len() == 1 && worker.ack(&batch[0].receipt).unwrap());
    assert_eq!(done(&worker), ["meanwhile"]);
}

#[test]
fn two_workers_never_have_the_same_item() {
    let setting = Setting::new();
    let (mut one, mut other) = (setting.recipe(), setting.recipe());
    one.add(&[(setting.now(), b"pay")]).unwrap();
    let mut times = 0;
    one.poll(setting.now(), |next| {
        match next {
            Next::Remove => times += other.poll_all(setting.now()).unwrap().len(),
            Next::Send(_) => times += 1,
        }
        Continue(())
    })
    .unwrap();
    assert_eq!(times, 2, "the recipe pays twice");

    let (one, other) = (setting.queue(), setting.queue());
    for _ in 0..10 {
        one.push(b"pay", s(0)).unwrap();
    }
    let (mut first, second) = (take(&one, 5), take(&other, usize::MAX));
    assert_eq!((first.len(), second.len(), take(&one, usize::MAX).len()), (5, 5, 0));
    first.extend(second);
    first.dedup_by_key(|delivery| delivery.receipt.id());
    assert_eq!(first.len(), 10);
}

#[test]
fn items_come_by_due_time_and_those_of_one_moment_as_they_were_pushed() {
    let setting = Setting::new();
    let (mut recipe, queue) = (setting.recipe(), setting.queue());
    for (payload, delay) in [("late", 2), ("9", 1), ("10", 1), ("8", 1), ("early", 0)] {
        recipe.add(&[(setting.now() + delay * 1000, payload)]).unwrap();
        queue.push(payload.as_bytes(), s(delay)).unwrap();
    }
    pass(&setting.clock, &queue, 2);
    assert_eq!(sent(&mut recipe, setting.now()), ["late", "9", "8", "10", "early"], "the recipe");
    assert_eq!(done(&queue), ["early", "9", "10", "8", "late"]);
}

#[test]
fn as_many_items_come_as_were_pushed_though_they_are_alike() {
    let setting = Setting::new();
    let (mut recipe, queue) = (setting.recipe(), setting.queue());
    for delay in [1, 1, 3] {
        recipe.add(&[(setting.now() + delay * 1000, b"remind 17")]).unwrap();
        queue.push(b"remind 17", s(delay)).unwrap();
    }
    pass(&setting.clock, &queue, 1);
    assert_eq!(sent(&mut recipe, setting.now()), NONE, "the recipe has moved the first ones");
    assert_eq!(done(&queue), ["remind 17"; 2]);
    pass(&setting.clock, &queue, 2);
    assert_eq!(sent(&mut recipe, setting.now()), ["remind 17"], "one of three");
    assert_eq!(done(&queue), ["remind 17"]);
}

#[test]
fn nothing_is_asked_of_the_server_before_something_is_due() {
    const HOUR: u64 = 3600;
    let setting = Setting::new();
    let (mut recipe, queue) = (setting.recipe(), setting.queue());
    recipe.add(&[(HOUR * 1000, b"x")]).unwrap();
    queue.push(b"x", s(HOUR)).unwrap();
    let woken = Arc::new(Woken::default());
    let mut worker = pin!(queue.take(1, VISIBILITY, s(2 * HOUR)));
    assert_eq!(poll(worker.as_mut(), &woken), None);

    let (before, mut polls) = (setting.stat("total_commands_processed"), 0);
    for second in (0..HOUR).step_by(PERIOD.as_secs() as usize) {
        assert_eq!(sent(&mut recipe, second * 1000), NONE);
        polls += 1;
    }
    let between = setting.stat("total_commands_processed");
    assert!(polls == 1800 && between - before >= 2 * polls, "the recipe asks and removes");

    pass(&setting.clock, &queue, HOUR - 1);
    // When a store begins to listen, its queue looks once. And it may ask whether the server is there, by the real time.
    assert!(woken.take() <= 1 && setting.stat("total_commands_processed") - between < 10);
    assert_eq!(poll(worker.as_mut(), &woken), None);
    pass(&setting.clock, &queue, 1);
    assert_eq!((woken.take(), poll(worker, &woken)), (1, Some(1)));
}

#[test]
fn an_item_comes_in_the_tick_in_which_it_is_due() {
    let setting = Setting::new();
    let (mut recipe, queue) = (setting.recipe(), setting.queue());
    assert_eq!(sent(&mut recipe, setting.now()), NONE);
    let (due, period) = (Duration::from_millis(1), PERIOD.as_millis() as u64);
    recipe.add(&[(1, b"x")]).unwrap();
    queue.push(b"x", due).unwrap();

    assert!(queue.time_to_next().unwrap() <= due, "it does not sleep longer");
    setting.clock.advance_to(due);
    queue.drive();
    assert_eq!(done(&queue), ["x"]);
    let (now, sent) = (1..)
        .map(|polls| (polls * period, sent(&mut recipe, polls * period)))
        .find(|(_, sent)| !sent.is_empty())
        .unwrap();
    assert_eq!((now - 1, sent.len()), (1999, 1), "so many ms late is the recipe");
}

#[test]
fn what_a_worker_has_taken_comes_to_another_when_that_one_dies() {
    let setting = Setting::new();
    let mut recipe = setting.recipe();
    recipe.add(&[(setting.now(), b"x")]).unwrap();
    assert_eq!(sent(&mut recipe, setting.now()), ["x"]);
    // Who got it dies here. Nobody else knows of it.
    assert_eq!(sent(&mut setting.recipe(), setting.now() + 1_000_000), NONE, "the recipe");

    let dies = setting.queue();
    dies.push(b"x", s(0)).unwrap();
    let lost = take(&dies, 1).remove(0).receipt;
    let lives = setting.queue();
    assert!(take(&lives, 1).is_empty());
    pass(&setting.clock, &lives, (VISIBILITY + DELAY).as_secs());
    let again = take(&lives, 1).remove(0).receipt;
    assert_eq!((again.id(), again.attempt()), (lost.id(), 2));
    assert!(!dies.ack(&lost).unwrap(), "if it was only slow, it has no say any more");
    assert!(lives.ack(&again).unwrap());
}

#[test]
fn what_fails_each_time_ends_and_its_failures_are_known() {
    let setting = Setting::new();
    let (mut recipe, queue) = (setting.recipe(), setting.queue());
    recipe.add(&[(setting.now(), b"poison")]).unwrap();
    queue.push(b"poison", s(0)).unwrap();
    for _ in 0..1000 {
        let now = setting.now();
        // Whoever got it could not do it, and adds it again.
        assert_eq!(sent(&mut recipe, now), ["poison"], "without end, and each time as if it were new");
        recipe.add(&[(now + DELAY.as_millis() as u64, b"poison")]).unwrap();
        for delivery in take(&queue, 1) {
            let attempt = delivery.receipt.attempt();
            assert!(queue.nack(&delivery.receipt, format!("no {attempt}")).unwrap());
        }
        setting.clock.advance(DELAY);
        queue.drive();
    }
    assert_eq!(counts(&queue), [0, 0, 1]);
    let dead = queue.dead_letters(None, 9).unwrap().remove(0);
    let reasons: Vec<&str> = dead.history.iter().map(|failure| failure.reason.as_str()).collect();
    assert_eq!((dead.attempts, reasons), (ATTEMPTS, vec!["no 1", "no 2", "no 3", "no 4", "no 5"]));
}

#[test]
fn no_item_comes_early_however_fine_and_large_the_clock_is() {
    // Some time in 2027, in nanoseconds: more than the 53 bits of a score.
    let start = Duration::from_nanos(1_800_000_000_000_000_001);
    let clock = ManualClock::with_resolution(Resolution::new(Duration::from_nanos(1)));
    clock.advance_to(start);
    let setting = Setting::with_clock(clock);
    let (mut recipe, queue) = (setting.recipe(), setting.queue());
    let delay = Duration::from_nanos(100);
    recipe.add(&[(setting.now() + 100, b"x")]).unwrap();
    queue.push(b"x", delay).unwrap();
    assert_eq!(sent(&mut recipe, setting.now()), ["x"], "the recipe, 100 ns too early");
    setting.clock.advance(delay - Duration::from_nanos(1));
    queue.drive();
    assert_eq!(done(&queue), NONE);
    setting.clock.advance(Duration::from_nanos(1));
    queue.drive();
    assert_eq!(done(&queue), ["x"]);
}

#[test]
fn a_worker_gets_no_more_than_it_asks_for_however_much_is_due() {
    const ITEMS: usize = 2000;
    let setting = Setting::new();
    let (mut recipe, queue) = (setting.recipe(), setting.queue());
    let payload = |item: usize| format!("{item:01000}");
    for item in 0..ITEMS {
        recipe.add(&[(setting.now(), payload(item))]).unwrap();
        queue.push(payload(item).as_bytes(), s(0)).unwrap();
    }
    let before = setting.stat("total_net_output_bytes");
    assert_eq!(sent(&mut recipe, setting.now()).len(), ITEMS);
    let between = setting.stat("total_net_output_bytes");
    assert!(between - before > ITEMS * 1000, "the recipe has it all in memory before it sends the first");
    assert_eq!(take(&queue, 10).len(), 10);
    let taken = setting.stat("total_net_output_bytes") - between;
    assert!(taken < 10 * 2000, "{taken} bytes were read for ten");
}
