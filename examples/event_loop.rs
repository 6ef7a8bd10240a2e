//! A foreign event loop drives the purgatory: a UDP server on mio whose only sleep is `poll`.
//!
//! No thread is added. The loop asks how long nothing is due, and sleeps no longer; and since another thread may register
//! an earlier deadline while it sleeps, `on_earlier_deadline` wakes it.
//!
//! `cargo run --example event_loop`
//!
//! You will see a `get` that a `put` answers and one that its timeout answers, both over the socket; one that another
//! thread makes while the loop sleeps without end; and how few turns the loop has taken for all that.

use ixion::{DelayedOperation, Outcome, Purgatory};
use mio::net::UdpSocket;
use mio::{Events, Interest, Poll, Token, Waker};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

const SOCKET: Token = Token(0);
const WAKE: Token = Token(1);

type Values = Arc<Mutex<HashMap<String, String>>>;

/// Asks for a value that may not be there yet.
struct Get {
    name: String,
    values: Values,
    answer: Box<dyn FnOnce(Option<String>) + Send>,
}

impl DelayedOperation for Get {
    fn try_complete(&mut self) -> bool {
        self.values.lock().unwrap().contains_key(&self.name)
    }

    fn on_complete(self, _outcome: Outcome) {
        let value = self.values.lock().unwrap().get(&self.name).cloned();
        (self.answer)(value);
    }
}

/// What the loop serves, and other threads may use.
struct Board {
    values: Values,
    waiting: Purgatory<String, Get>,
}

impl Board {
    fn get(&self, name: &str, timeout: Duration, answer: impl FnOnce(Option<String>) + Send + 'static) {
        let get = Get { name: name.to_owned(), values: Arc::clone(&self.values), answer: Box::new(answer) };
        let _ = self.waiting.try_complete_else_watch(get, timeout, [name.to_owned()]);
    }

    fn put(&self, name: &str, value: &str) {
        self.values.lock().unwrap().insert(name.to_owned(), value.to_owned());
        self.waiting.check_and_complete(name);
    }

    /// `get NAME MILLISECONDS` or `put NAME VALUE`.
    fn handle(&self, datagram: &str, socket: &Arc<UdpSocket>, from: SocketAddr) {
        let words: Vec<&str> = datagram.split(' ').collect();
        match (words.as_slice(), words.last().and_then(|word| word.parse().ok())) {
            (["get", name, _], Some(millis)) => {
                let socket = Arc::clone(socket);
                self.get(name, Duration::from_millis(millis), move |value| {
                    let _ = socket.send_to(value.as_deref().unwrap_or("nothing").as_bytes(), from);
                });
            }
            (["put", name, value], _) => self.put(name, value),
            _ => {} // Not ours.
        }
    }
}

/// Runs until the purgatory is shut down; returns how many turns that took.
fn run(mut poll: Poll, mut socket: UdpSocket, board: &Board) -> io::Result<u32> {
    poll.registry().register(&mut socket, SOCKET, Interest::READABLE)?;
    let (socket, mut events, mut turns) = (Arc::new(socket), Events::with_capacity(64), 0);
    while !board.waiting.is_shutdown() {
        turns += 1;
        match poll.poll(&mut events, board.waiting.time_to_next()) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        // mio tells of a datagram once, so all are read; and however many come, what is due does not wait for them.
        loop {
            while board.waiting.expire().more {}
            let mut buffer = [0; 512];
            match socket.recv_from(&mut buffer) {
                Ok((length, from)) => {
                    board.handle(&String::from_utf8_lossy(&buffer[..length]), &socket, from)
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
    }
    Ok(turns)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let poll = Poll::new()?;
    let waker = Arc::new(Waker::new(poll.registry(), WAKE)?);
    let wake = Arc::clone(&waker);
    let waiting = Purgatory::builder("gets").on_earlier_deadline(move || _ = wake.wake()).build();
    let board = Arc::new(Board { values: Values::default(), waiting });
    let socket = UdpSocket::bind("127.0.0.1:0".parse()?)?;
    let server = socket.local_addr()?;
    let shared = Arc::clone(&board);
    let event_loop = thread::spawn(move || run(poll, socket, &shared));

    let client = std::net::UdpSocket::bind("127.0.0.1:0")?;
    client.set_read_timeout(Some(Duration::from_secs(10)))?;
    let send = |datagram: &str| client.send_to(datagram.as_bytes(), server);
    let receive = || {
        let mut buffer = [0; 512];
        let length = client.recv(&mut buffer)?;
        Ok::<_, io::Error>(String::from_utf8_lossy(&buffer[..length]).into_owned())
    };
    send("get colour 30000")?;
    send("put colour blue")?;
    assert_eq!(receive()?, "blue");
    println!("a get that waited is answered by a put");

    let start = Instant::now();
    send("get shape 50")?;
    assert_eq!(receive()?, "nothing");
    println!("a get of 50 ms is answered with nothing after {} ms", start.elapsed().as_millis());

    let ((answer, answers), start) = (mpsc::channel(), Instant::now());
    board.get("size", Duration::from_millis(50), move |value| answer.send(value).unwrap());
    assert_eq!(answers.recv_timeout(Duration::from_secs(10))?, None);
    println!("so is another thread's, after {} ms", start.elapsed().as_millis());

    board.waiting.shutdown();
    waker.wake()?;
    println!("the loop has taken {} turns", event_loop.join().unwrap()?);
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
