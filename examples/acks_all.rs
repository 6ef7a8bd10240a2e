//! acks=all: a write is acknowledged when every replica in sync has it, or refused when its time is up.
//!
//! A busy partition has thousands of writes waiting, each for another offset. To ask all of them whenever the high
//! watermark moves is quadratic. Here each waits *at its number*, and an event looks at those that it has reached.
//!
//! `cargo run --example acks_all`
//!
//! You will see a thousand writes acknowledged by two followers, at three looks each; then one follower stops, a write
//! runs into its timeout, and the next is acknowledged once that follower is no longer waited for.

use ixion::{DelayedOperation, Equivalent, Expirer, Outcome, Purgatory, Watch};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

/// The offset up to which a write is replicated, or how it ended instead.
type Ack = Result<u64, Outcome>;
type Writes = Purgatory<(String, u32), Write>;

/// A partition's name for those who only ask: it hashes and compares as the key does and allocates no `String`.
#[derive(Hash)]
struct Name<'a>(&'a str, u32);

impl Equivalent<(String, u32)> for Name<'_> {
    fn equivalent(&self, (topic, partition): &(String, u32)) -> bool {
        self.0 == topic && self.1 == *partition
    }
}

/// A write that waits until the high watermark has come as far as its last record.
struct Write {
    partition: Arc<Partition>,
    required: u64,
    ack: mpsc::Sender<Ack>,
}

impl DelayedOperation for Write {
    fn try_complete(&mut self) -> bool {
        self.partition.looks.fetch_add(1, Ordering::Relaxed);
        self.partition.high_watermark.load(Ordering::Acquire) >= self.required
    }

    fn on_complete(self, outcome: Outcome) {
        let ack = if outcome == Outcome::Satisfied { Ok(self.required) } else { Err(outcome) };
        let _ = self.ack.send(ack); // A client may have gone away.
    }
}

#[derive(Default)]
struct Partition {
    /// How far the log of each replica in sync goes; replica 0 is the leader.
    log_ends: Mutex<BTreeMap<u32, u64>>,
    /// As far as all of them go.
    high_watermark: AtomicU64,
    looks: AtomicU64,
}

struct Leader {
    topic: &'static str,
    number: u32,
    partition: Arc<Partition>,
    writes: Arc<Writes>,
}

impl Leader {
    /// Appends records to the leader's log; the answer comes when the others have them as well.
    fn append(&self, records: u64, timeout: Duration) -> mpsc::Receiver<Ack> {
        let required = self.change(|log_ends| {
            let end = log_ends.get_mut(&0).expect("the leader is in sync");
            *end += records;
            *end
        });
        let (ack, answer) = mpsc::channel();
        let write = Write { partition: Arc::clone(&self.partition), required, ack };
        let watch = Watch::at((self.topic.to_owned(), self.number), required);
        if let Err(rejected) = self.writes.try_complete_else_watch_at(write, timeout, [watch]) {
            rejected.op.on_complete(Outcome::Shutdown);
        }
        answer
    }

    /// What a follower reports when it has copied the log up to `end`. One that is out of sync does not count.
    fn replicated(&self, follower: u32, end: u64) {
        self.change(|log_ends| log_ends.get_mut(&follower).map(|log_end| *log_end = end));
    }

    /// Takes a follower that does not keep up out of those that a write waits for.
    fn shrink(&self, follower: u32) {
        self.change(|log_ends| log_ends.remove(&follower));
    }

    /// First the state, under its lock; then, with the lock let go, the signal.
    fn change<R>(&self, change: impl FnOnce(&mut BTreeMap<u32, u64>) -> R) -> R {
        let mut log_ends = self.partition.log_ends.lock().unwrap();
        let result = change(&mut log_ends);
        let high_watermark = log_ends.values().copied().min().unwrap_or(0);
        self.partition.high_watermark.store(high_watermark, Ordering::Release);
        drop(log_ends);
        self.writes.check_and_complete_up_to(&Name(self.topic, self.number), high_watermark);
        result
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let expirer = Expirer::spawn("expirer")?;
    let writes = Arc::new(Purgatory::builder("Produce").build());
    expirer.drive(&writes);
    let in_sync = Mutex::new(BTreeMap::from([(0, 0), (1, 0), (2, 0)]));
    let partition = Arc::new(Partition { log_ends: in_sync, ..Partition::default() });
    let leader = Arc::new(Leader { topic: "orders", number: 0, partition, writes });
    let (patient, short) = (Duration::from_secs(30), Duration::from_millis(100));
    let answers: Vec<_> = (1..=1000).map(|_| leader.append(1, patient)).collect();
    println!("{} writes wait", leader.writes.len());
    // Each follower copies record by record, and may be told to stop.
    let follow = |follower, records: std::ops::RangeInclusive<u64>| {
        let leader = Arc::clone(&leader);
        thread::spawn(move || records.for_each(|end| leader.replicated(follower, end)))
    };
    let followers = [follow(1, 1..=1000), follow(2, 1..=1000)];
    for (answer, offset) in answers.iter().zip(1..) {
        assert_eq!(answer.recv()?, Ok(offset));
    }
    followers.into_iter().for_each(|follower| follower.join().unwrap());
    let looks = leader.partition.looks.load(Ordering::Relaxed);
    println!("all acknowledged after 2000 reports, by {looks} looks");
    assert!(looks <= 3000);

    println!("follower 2 stops");
    let answer = leader.append(1, short);
    follow(1, 1001..=1001).join().unwrap();
    assert_eq!(answer.recv()?, Err(Outcome::Expired));
    println!("  a write that has waited {short:?} is refused");
    let answer = leader.append(1, patient);
    follow(1, 1002..=1002).join().unwrap();
    assert_eq!(leader.writes.len(), 1);
    leader.shrink(2);
    assert_eq!(answer.recv()?, Ok(1002));
    println!("  the next is acknowledged once it is out of sync");
    assert!(leader.writes.is_empty() && leader.writes.stats().balances());
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
