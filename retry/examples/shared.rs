//! Three machines share one queue in Redis. One of them dies with what it has taken; each order is done all the same.
//!
//! ```sh
//! cargo run -p ixion-retry --example shared                           # starts a server of its own
//! cargo run -p ixion-retry --example shared -- redis://127.0.0.1:6379
//! ```

use ixion_redis_server::Server;
use ixion_retry::{Backoff, Delivery, RedisStore, RetryQueue};
use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

type Failure = Box<dyn Error + Send + Sync>;

const ORDERS: usize = 200;
const MACHINES: usize = 3;
/// How long a machine may take for a batch. What it has taken comes to another when that is over.
const VISIBILITY: Duration = Duration::from_secs(1);

fn main() -> Result<(), Failure> {
    match env::args().nth(1) {
        Some(url) => run(&url),
        None => run(&Server::start()?.url()),
    }
}

fn run(url: &str) -> Result<(), Failure> {
    // The queue is one by its name: whoever opens it with the same name on the same server has a part in it.
    let name = format!("orders-{}", std::process::id());
    let producer = machine(url, &name)?;
    for order in 0..ORDERS {
        producer.push(order.to_string().as_bytes(), Duration::ZERO)?;
    }

    let lost = machine(url, &name)?.take_blocking(20, VISIBILITY, VISIBILITY)?;
    assert!(!lost.is_empty());
    println!("a machine has taken {} orders, and is gone", lost.len());

    // By order: which deliveries were done.
    let done = Mutex::new(BTreeMap::<String, Vec<u32>>::new());
    thread::scope(|scope| {
        let machines: Vec<_> =
            (0..MACHINES).map(|_| scope.spawn(|| work(&machine(url, &name)?, &done))).collect();
        machines.into_iter().try_for_each(|machine| machine.join().expect("it has not panicked"))
    })?;

    let done = done.into_inner()?;
    assert_eq!(done.len(), ORDERS, "each is done");
    assert!(done.values().all(|deliveries| deliveries.len() == 1), "and none twice: {done:?}");
    let second = done.values().filter(|deliveries| deliveries[0] == 2).count();
    println!("{ORDERS} orders are done, {second} of them in their second delivery");
    assert!(second >= lost.len());
    let counts = producer.counts()?;
    assert_eq!((counts.waiting, counts.in_flight, counts.dead), (0, 0, 0));
    Ok(())
}

/// What each machine does first.
fn machine(url: &str, name: &str) -> Result<RetryQueue<RedisStore>, Failure> {
    let store = RedisStore::open(url, name)?;
    let backoff = Backoff::fixed(Duration::from_millis(100)).max_attempts(5);
    Ok(RetryQueue::builder(store).backoff(backoff).start()?)
}

/// Works until all orders are done.
fn work(queue: &RetryQueue<RedisStore>, done: &Mutex<BTreeMap<String, Vec<u32>>>) -> Result<(), Failure> {
    while done.lock().expect("no other has panicked").len() < ORDERS {
        for delivery in queue.take_blocking(10, VISIBILITY, Duration::from_millis(200))? {
            match pay(&delivery) {
                Err(reason) => _ = queue.nack(&delivery.receipt, reason)?,
                // Only if the time was not over: else the order was another's by then.
                Ok(order) => {
                    if queue.ack(&delivery.receipt)? {
                        let mut done = done.lock().expect("no other has panicked");
                        done.entry(order).or_default().push(delivery.receipt.attempt());
                    }
                }
            }
        }
    }
    Ok(())
}

/// Every tenth order fails at first.
fn pay(delivery: &Delivery) -> Result<String, String> {
    let order = String::from_utf8_lossy(&delivery.payload).into_owned();
    if order.ends_with('7') && delivery.receipt.attempt() == 1 {
        return Err("the bank is closed".to_owned());
    }
    Ok(order)
}

#[test]
fn each_order_is_done_once_though_a_machine_dies() {
    run(&Server::start().unwrap().url()).unwrap();
}
