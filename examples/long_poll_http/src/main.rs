//! Long polling over HTTP: a reader's request waits in the server until there is something to read, or its time is up.
//!
//! Readers that ask again and again make load while nothing happens; a task that sleeps and looks makes it in the server. Here
//! a request waits in a purgatory, `server.rs`, and each message wakes those that it is for; one that waits for five
//! messages is not asked before the fifth. A client that hangs up takes its request out at once.
//!
//! `cargo run -p ixion-long-poll-http`, or with `-- 127.0.0.1:8080` for requests of your own.
//!
//! You will see a request that a message answers, one that waits for two, one whose time is up, one whose client hangs
//! up, and one that waits when the server stops.

mod server;

use ixion::Expirer;
use server::Topics;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::{signal, time};

type Error = Box<dyn std::error::Error>;

/// Serves until `stop` is there; what still waits then is answered at once.
async fn serve(
    listener: TcpListener,
    topics: Arc<Topics>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let router = Arc::clone(&topics).router();
    let stop = async move {
        stop.await;
        topics.polls.shutdown();
    };
    axum::serve(listener, router).with_graceful_shutdown(stop).await
}

/// Sends a request on a connection of its own.
async fn send(server: SocketAddr, method: &str, path: &str, body: &str) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(server).await?;
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {server}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await?;
    Ok(stream)
}

/// The status and the body of an answer.
async fn answer(mut stream: TcpStream) -> io::Result<String> {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let status = answer.split(' ').nth(1).unwrap_or_default();
    let body = answer.rsplit("\r\n").next().unwrap_or_default();
    Ok(format!("{status} {body}"))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    run(std::env::args().nth(1)).await
}

async fn run(address: Option<String>) -> Result<(), Error> {
    let topics = Topics::new();
    let expirer = Expirer::spawn("expirer")?;
    expirer.drive(&topics.polls);
    if let Some(address) = address {
        let listener = TcpListener::bind(&address).await?;
        println!("curl 'http://{address}/topics/orders?after=0&min=1&wait_ms=30000'   # waits for:");
        println!("curl -d 'a message' http://{address}/topics/orders");
        return Ok(serve(listener, topics, async { _ = signal::ctrl_c().await }).await?);
    }
    time::timeout(Duration::from_secs(10), show(topics)).await?
}

/// Plays some clients, each of which waits as long as it likes.
async fn show(topics: Arc<Topics>) -> Result<(), Error> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let (server, (stop, stopped)) = (listener.local_addr()?, oneshot::channel::<()>());
    let serving = tokio::spawn(serve(listener, Arc::clone(&topics), async { _ = stopped.await }));
    let get = async |query: &str| send(server, "GET", &format!("/topics/orders?{query}"), "").await;
    let post = async |message: &str| answer(send(server, "POST", "/topics/orders", message).await?).await;

    let (one, two) = (get("wait_ms=30000").await?, get("min=2&wait_ms=30000").await?);
    until(&topics, 2).await;
    post("a").await?;
    told("a message", one, r#"200 {"messages":["a"],"next":1}"#).await?;
    until(&topics, 1).await;
    post("b").await?;
    told("two at once", two, r#"200 {"messages":["a","b"],"next":2}"#).await?;
    told("time is up", get("after=2&wait_ms=50").await?, r#"200 {"messages":[],"next":2}"#).await?;

    let gone = get("after=2&wait_ms=30000").await?;
    until(&topics, 1).await;
    drop(gone);
    until(&topics, 0).await;
    println!("hung up:     taken out, {} cancelled", topics.polls.stats().cancelled);

    let last = get("after=2&wait_ms=30000").await?;
    until(&topics, 1).await;
    stop.send(()).expect("the server runs");
    told("stopped", last, "503 ").await?;
    Ok(serving.await??)
}

async fn told(what: &str, stream: TcpStream, expected: &str) -> io::Result<()> {
    let answer = answer(stream).await?;
    println!("{:12} {answer}", format!("{what}:"));
    assert_eq!(answer, expected);
    Ok(())
}

/// Comes back when so many requests wait.
async fn until(topics: &Topics, waiting: usize) {
    while topics.polls.len() != waiting {
        time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn it_runs() {
    run(None).await.unwrap();
}
