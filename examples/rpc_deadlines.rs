//! Remote calls over one connection: each has an id, a deadline, and exactly one result.
//!
//! Answers come in any order, too late, or not at all; and when the connection breaks, every call on it has to fail
//! at once, one that is being made at that moment too. Here a call waits under two keys, its id and its connection:
//! the answer takes it out by the one, the loss of the connection ends it by the other.
//!
//! `cargo run --example rpc_deadlines`
//!
//! You will see, over a real socket, answers out of order, a deadline that passes and the late answer recognised, and
//! a connection that breaks under three calls.

use ixion::{DelayedOperation, Expirer, Outcome, Purgatory};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

type Answer = Result<String, RpcError>;

#[derive(Debug, PartialEq)]
enum RpcError {
    DeadlineExceeded,
    ConnectionLost,
}

#[derive(Hash, PartialEq, Eq)]
enum Key {
    Call(u32, u64),
    Connection(u32),
}

struct Call {
    is_lost: Arc<AtomicBool>,
    reply: mpsc::Sender<Answer>,
}

impl DelayedOperation for Call {
    /// Whether the connection is gone. The engine looks once more after it has entered the keys, so a call that is made
    /// while the connection breaks does not wait for its deadline.
    fn try_complete(&mut self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    fn on_complete(self, outcome: Outcome) {
        let _ = self.reply.send(Err(match outcome {
            Outcome::Expired => RpcError::DeadlineExceeded,
            _ => RpcError::ConnectionLost,
        }));
    }
}

/// Calls over one connection. The purgatory is shared by all connections of the process.
struct Client {
    calls: Arc<Purgatory<Key, Call>>,
    connection: u32,
    stream: Mutex<TcpStream>,
    next_id: AtomicU64,
    is_lost: Arc<AtomicBool>,
    late_answers: AtomicU64,
}

impl Client {
    fn call(&self, request: &str, timeout: Duration) -> mpsc::Receiver<Answer> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (reply, answer) = mpsc::channel();
        let call = Call { is_lost: Arc::clone(&self.is_lost), reply };
        let keys = [Key::Call(self.connection, id), Key::Connection(self.connection)];
        // It waits before it is sent: an answer finds it however fast it comes.
        if self.calls.try_complete_else_watch(call, timeout, keys).is_ok() {
            let line = format!("{id} {request}\n");
            let _ = self.stream.lock().unwrap().write_all(line.as_bytes()); // The reader notices a failure.
        }
        answer
    }

    /// Runs on a thread of its own, until the connection ends.
    fn read_answers(&self, answers: impl BufRead) {
        for line in answers.lines().map_while(Result::ok) {
            let Some((id, answer)) = line.split_once(' ') else { break };
            let Ok(id) = id.parse() else { break };
            // Whoever takes the call out answers it. Nobody is `Busy` with one: all looks are over by now.
            match self.calls.cancel_first(&Key::Call(self.connection, id)).taken() {
                Some(call) => _ = call.reply.send(Ok(answer.to_owned())),
                None => _ = self.late_answers.fetch_add(1, Ordering::Relaxed),
            }
        }
        self.is_lost.store(true, Ordering::Release); // First the state, then the signal.
        self.calls.check_and_complete(&Key::Connection(self.connection));
    }
}

/// Answers `hold` after the next request, and breaks off at `crash`.
fn serve(stream: TcpStream) -> io::Result<()> {
    let (mut out, mut held) = (stream.try_clone()?, Vec::new());
    for line in BufReader::new(stream).lines() {
        let line = line?;
        match line.split_once(' ').expect("an id and a request") {
            (_, "hold") => held.push(line),
            (_, "crash") => return out.shutdown(Shutdown::Both),
            _ => std::iter::once(line).chain(held.drain(..)).try_for_each(|line| writeln!(out, "{line}"))?,
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let stream = TcpStream::connect(listener.local_addr()?)?;
    let accepted = listener.accept()?.0;
    thread::spawn(move || serve(accepted));
    let (expirer, calls) = (Expirer::spawn("deadlines")?, Arc::new(Purgatory::builder("calls").build()));
    expirer.drive(&calls);
    let answers = BufReader::new(stream.try_clone()?);
    let client = Arc::new(Client {
        calls: Arc::clone(&calls),
        connection: 1,
        stream: Mutex::new(stream),
        next_id: AtomicU64::new(1),
        is_lost: Arc::default(),
        late_answers: AtomicU64::new(0),
    });
    let reader = Arc::clone(&client);
    thread::spawn(move || reader.read_answers(answers));
    let (long, short) = (Duration::from_secs(30), Duration::from_millis(50));

    let (held, echoed) = (client.call("hold", long), client.call("echo", long));
    assert_eq!((echoed.recv()?.unwrap(), held.recv()?.unwrap()), ("echo".to_owned(), "hold".to_owned()));
    println!("two answers, the second call's first: each is given to its own");

    assert_eq!(client.call("hold", short).recv()?, Err(RpcError::DeadlineExceeded));
    client.call("echo", long).recv()?.unwrap(); // Behind it comes the answer that was held,
    client.call("echo", long).recv()?.unwrap(); // and before this it has been read.
    println!("deadline exceeded after {short:?}; then the answer came, too late");
    assert_eq!(client.late_answers.load(Ordering::Relaxed), 1);

    let answers = ["hold", "hold", "crash"].map(|request| client.call(request, long));
    assert!(answers.iter().all(|answer| answer.recv() == Ok(Err(RpcError::ConnectionLost))));
    assert_eq!(client.call("echo", long).recv()?, Err(RpcError::ConnectionLost));
    println!("the connection breaks: its calls fail at once, and so does a new one");
    assert!(calls.is_empty() && calls.watched() == 0);
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
