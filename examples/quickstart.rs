//! An operation that an event completes and one that expires: first on a clock moved by hand, then in real time.
//!
//! `cargo run --example quickstart`

use ixion::{DelayedOperation, Expirer, ManualClock, Outcome, Purgatory, RejectReason};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// A produce request with acks=all: answered when the high watermark is past its last offset.
struct Produce {
    high_watermark: Arc<AtomicU64>,
    last_offset: u64,
    reply: mpsc::Sender<(u64, Outcome)>,
}

impl DelayedOperation for Produce {
    fn try_complete(&mut self) -> bool {
        self.high_watermark.load(Ordering::Acquire) > self.last_offset
    }

    fn on_complete(self, outcome: Outcome) {
        let _ = self.reply.send((self.last_offset, outcome));
    }
}

/// Two requests wait on the partition's key, for offsets 41 and 99. The replicas catch up to 42.
fn two_requests(
    purgatory: &Purgatory<&str, Produce>,
) -> Result<mpsc::Receiver<(u64, Outcome)>, RejectReason> {
    let (high_watermark, (reply, replies)) = (Arc::new(AtomicU64::new(40)), mpsc::channel());
    for last_offset in [41, 99] {
        let produce = Produce { high_watermark: high_watermark.clone(), last_offset, reply: reply.clone() };
        let _ = purgatory.try_complete_else_watch(produce, Duration::from_millis(300), ["orders-0"])?;
    }
    println!("  {} wait", purgatory.len());
    high_watermark.store(42, Ordering::Release); // First the state,
    let ended = purgatory.check_and_complete("orders-0"); // then the signal.
    println!("  the high watermark is 42: {ended} ended, {} waits", purgatory.len());
    Ok(replies)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("On a clock moved by hand:");
    let clock = ManualClock::new();
    let purgatory = Purgatory::builder("Produce").clock(clock.clone()).build();
    let replies = two_requests(&purgatory)?;
    assert_eq!(replies.try_recv()?, (41, Outcome::Satisfied));
    clock.advance(Duration::from_millis(299));
    println!("  at 299 ms {} expired", purgatory.expire().expired);
    clock.advance(Duration::from_millis(1));
    println!("  at 300 ms {} expired", purgatory.expire().expired);
    assert_eq!(replies.try_recv()?, (99, Outcome::Expired));

    println!("In real time, driven by a thread that sleeps until something is due:");
    let (expirer, start) = (Expirer::spawn("expirer")?, Instant::now());
    let purgatory = Purgatory::builder("Produce").build();
    expirer.drive(&purgatory);
    for (offset, outcome) in two_requests(&purgatory)? {
        println!("  {:3} ms: the request for offset {offset} is {outcome:?}", start.elapsed().as_millis());
    }
    let stats = purgatory.stats();
    println!("  {} registered = {} satisfied + {} expired", stats.registered, stats.satisfied, stats.expired);
    assert!(stats.balances() && purgatory.watched() == 0);
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
