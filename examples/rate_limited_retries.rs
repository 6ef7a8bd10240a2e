//! Deliveries with a rate limit, retries that back off, and an end to them: what fails four times is given up.
//!
//! Everything that waits here, for its turn or for its next attempt, is an operation, and no thread sleeps for any of
//! it. What wants a token watches a key; a back-off and the refill of the tokens have no key: they are timers.
//!
//! `cargo run --example rate_limited_retries`
//!
//! You will see, in virtual time, six deliveries at four a second: three at once from what the bucket holds, the others
//! as tokens come. One succeeds at its third attempt, one ends as a dead letter.

use ixion::{Clock, DelayedOperation, ManualClock, Outcome, Purgatory};
use std::sync::{Arc, Mutex, Weak, mpsc};
use std::time::Duration;

/// How soon a token comes after another, and how many the bucket holds.
const REFILL: Duration = Duration::from_millis(250);
const BURST: u32 = 3;
/// How long a job waits after its first attempt. Doubled with each; where many fail together, add some jitter.
const BACK_OFF: Duration = Duration::from_millis(400);
const ATTEMPTS: u32 = 4;

#[derive(Debug, PartialEq)]
struct Job {
    url: &'static str,
    attempt: u32,
}

/// Sends jobs, and again those that fail.
struct Courier {
    waiting: Purgatory<Token, Task>,
    /// How many tokens there are, and whether a refill is under way.
    bucket: Mutex<(u32, bool)>,
    send: Box<dyn Fn(&Job) -> bool + Send + Sync>,
    dead_letters: Mutex<Vec<Job>>,
}

/// The key that all watch who want a token.
#[derive(Hash, PartialEq, Eq)]
struct Token;

/// What waits. The courier owns it, so it must not own the courier.
struct Task {
    courier: Weak<Courier>,
    step: Step,
}

enum Step {
    Attempt(Job),
    BackOff(Job),
    Refill,
}

impl DelayedOperation for Task {
    fn try_complete(&mut self) -> bool {
        let wants_token = matches!(self.step, Step::Attempt(_));
        wants_token && self.courier.upgrade().is_some_and(|courier| courier.take_token())
    }

    fn on_complete(self, outcome: Outcome) {
        let Some(courier) = self.courier.upgrade() else { return };
        match (self.step, outcome) {
            (Step::Attempt(job), Outcome::Satisfied) => courier.attempt(job),
            (Step::BackOff(job), Outcome::Expired) => courier.deliver(job),
            (Step::Refill, Outcome::Expired) => courier.refill(),
            _ => {} // Shut down. Jobs that must survive that are kept somewhere else as well.
        }
    }
}

impl Courier {
    fn new(clock: impl Clock + 'static, send: impl Fn(&Job) -> bool + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Courier {
            waiting: Purgatory::builder("deliveries").clock(clock).build(),
            bucket: Mutex::new((BURST, false)),
            send: Box::new(send),
            dead_letters: Mutex::default(),
        })
    }

    fn deliver(self: &Arc<Self>, job: Job) {
        self.wait(Step::Attempt(job), Duration::MAX, Some(Token));
    }

    fn wait(self: &Arc<Self>, step: Step, timeout: Duration, key: Option<Token>) {
        let task = Task { courier: Arc::downgrade(self), step };
        let _ = self.waiting.try_complete_else_watch(task, timeout, key);
    }

    fn attempt(self: &Arc<Self>, mut job: Job) {
        if !std::mem::replace(&mut self.bucket.lock().unwrap().1, true) {
            self.wait(Step::Refill, REFILL, None);
        }
        let is_delivered = (self.send)(&job);
        if !is_delivered && job.attempt == ATTEMPTS {
            self.dead_letters.lock().unwrap().push(job);
        } else if !is_delivered {
            let back_off = BACK_OFF * 2_u32.pow(job.attempt - 1);
            job.attempt += 1;
            self.wait(Step::BackOff(job), back_off, None);
        }
    }

    fn take_token(&self) -> bool {
        let mut bucket = self.bucket.lock().unwrap();
        let taken = bucket.0.min(1);
        bucket.0 -= taken;
        taken == 1
    }

    fn refill(self: &Arc<Self>) {
        let mut bucket = self.bucket.lock().unwrap();
        let tokens = BURST.min(bucket.0 + 1);
        *bucket = (tokens, tokens < BURST);
        drop(bucket); // A signal looks, and a look locks the bucket.
        self.waiting.check_and_complete(&Token);
        if tokens < BURST {
            self.wait(Step::Refill, REFILL, None);
        }
    }
}

fn main() {
    let clock = ManualClock::new(); // In a service: SystemClock, and an Expirer that drives `waiting`.
    let ((sent, times), watch) = (mpsc::channel(), clock.clone());
    let courier = Courier::new(clock.clone(), move |job| {
        let is_delivered = job.url != "/gone" && (job.url != "/flaky" || job.attempt > 2);
        let (at, how) = (watch.elapsed().as_millis(), if is_delivered { "delivered" } else { "failed" });
        println!("{at:4} ms  {}, attempt {}: {how}", job.url, job.attempt);
        sent.send(at).unwrap();
        is_delivered
    });
    for url in ["/a", "/flaky", "/gone", "/b", "/c", "/d"] {
        courier.deliver(Job { url, attempt: 1 });
    }
    // Nothing is waited for: the clock jumps to what comes next, until nothing does.
    while let Some(until_next) = courier.waiting.time_to_next() {
        clock.advance(until_next);
        while courier.waiting.expire().more {}
    }
    let dead_letters = courier.dead_letters.lock().unwrap();
    println!("dead letters: {dead_letters:?}");
    assert_eq!(*dead_letters, [Job { url: "/gone", attempt: ATTEMPTS }]);
    assert!(times.try_iter().eq([0, 0, 0, 250, 500, 750, 1000, 1250, 1800, 2050, 3650]));
}

#[test]
fn it_runs() {
    main();
}
