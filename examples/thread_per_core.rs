//! Queues with a blocking pop, one thread for each part of them: nothing is shared, so nothing is locked.
//!
//! A thread that owns its data can hold it in an `Rc`, and so can its operations: a purgatory asks for `Send` only where
//! it is shared. The thread sleeps on its channel until a message comes or its next operation is due.
//!
//! `cargo run --example thread_per_core`
//!
//! You will see eight hundred pops wait on two threads and be served in their order, one that ends with its timeout and one
//! whose client has gone away, and the books of each thread.

use ixion::{Cancelled, DelayedOperation, Outcome, Purgatory, Stats};
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::rc::Rc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SendError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

type Queues = Rc<RefCell<HashMap<String, VecDeque<String>>>>;

enum Message {
    Push { queue: String, item: String },
    Pop { queue: String, timeout: Duration, reply: Sender<Option<String>> },
}

/// Waits for an item. The `Rc` keeps it, and the purgatory that it waits in, on its thread.
struct Pop {
    queue: String,
    queues: Queues,
    item: Option<String>,
    reply: Sender<Option<String>>,
}

impl DelayedOperation for Pop {
    fn try_complete(&mut self) -> bool {
        self.item = self.queues.borrow_mut().get_mut(&self.queue).and_then(VecDeque::pop_front);
        self.item.is_some()
    }

    fn on_complete(self, _outcome: Outcome) {
        if let Err(SendError(Some(item))) = self.reply.send(self.item) {
            self.queues.borrow_mut().entry(self.queue).or_default().push_front(item);
        }
    }
}

/// What one thread owns.
struct Part {
    queues: Queues,
    waiting: Purgatory<String, Pop>,
}

impl Part {
    fn run(messages: &Receiver<Message>) -> Stats {
        // One shard: no other thread ever comes. Its one lock is never contended.
        let part = Part { queues: Queues::default(), waiting: Purgatory::builder("pops").shards(1).build() };
        loop {
            let timeout = part.waiting.time_to_next().unwrap_or(Duration::MAX);
            match messages.recv_timeout(timeout) {
                Ok(Message::Push { queue, item }) => part.push(queue, item),
                Ok(Message::Pop { queue, timeout, reply }) => part.pop(queue, timeout, reply),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            while part.waiting.expire().more {}
        }
        part.waiting.shutdown();
        part.waiting.stats()
    }

    /// Gives the item to whoever has waited longest, else keeps it.
    fn push(&self, queue: String, mut item: String) {
        while let Cancelled::Taken(pop) = self.waiting.cancel_first(queue.as_str()) {
            match pop.reply.send(Some(item)) {
                Ok(()) => return,
                Err(SendError(back)) => item = back.expect("it was sent"), // That client has gone away.
            }
        }
        self.queues.borrow_mut().entry(queue).or_default().push_back(item);
    }

    fn pop(&self, queue: String, timeout: Duration, reply: Sender<Option<String>>) {
        let pop = Pop { queue: queue.clone(), queues: Rc::clone(&self.queues), item: None, reply };
        let _ = self.waiting.try_complete_else_watch(pop, timeout, [queue]);
    }
}

/// Sends each queue's messages to the thread that owns it.
struct Server {
    parts: Vec<Sender<Message>>,
    threads: Vec<JoinHandle<Stats>>,
}

impl Server {
    fn start(parts: usize) -> Server {
        let (parts, messages): (_, Vec<_>) = (0..parts).map(|_| mpsc::channel()).unzip();
        let start = |messages| thread::spawn(move || Part::run(&messages));
        Server { parts, threads: messages.into_iter().map(start).collect() }
    }

    fn send(&self, queue: &str, message: Message) {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(queue);
        self.parts[hash as usize % self.parts.len()].send(message).expect("the thread runs");
    }

    fn push(&self, queue: &str, item: &str) {
        self.send(queue, Message::Push { queue: queue.to_owned(), item: item.to_owned() });
    }

    fn pop(&self, queue: &str, timeout: Duration) -> Receiver<Option<String>> {
        let (reply, answer) = mpsc::channel();
        self.send(queue, Message::Pop { queue: queue.to_owned(), timeout, reply });
        answer
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start(2);
    let (long, short) = (Duration::from_secs(30), Duration::from_millis(50));
    let queue = |n| format!("queue-{}", n % 8);
    let answers: Vec<_> = (0..800).map(|n| server.pop(&queue(n), long)).collect();
    (0..800).for_each(|n| server.push(&queue(n), &format!("item {n}")));
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!(answer.recv()?, Some(format!("item {n}")));
    }
    println!("{} pops have waited and are served, each queue's in order", answers.len());

    assert_eq!(server.pop("queue-0", short).recv()?, None);
    println!("one has waited for {short:?} in vain");
    drop(server.pop("queue-0", long));
    let next = server.pop("queue-0", long);
    server.push("queue-0", "for whoever is there");
    println!("the first client has gone away, the second gets {:?}", next.recv()?.unwrap());

    drop(server.parts);
    let books: Vec<Stats> = server.threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    for (part, stats) in books.iter().enumerate() {
        let Stats { registered, cancelled: taken, expired, .. } = stats;
        println!("thread {part}: {registered} registered = {taken} taken out + {expired} expired");
    }
    assert!(books.iter().all(|stats| stats.balances() && stats.pending == 0));
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
