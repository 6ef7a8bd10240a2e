//! The tour: each kind of delayed operation once, by itself, on topics that nobody else uses.

mod groups;
mod paused;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::mpsc::UnboundedSender;

use super::check::{self, Span};
use super::client::{Client, Polled, Target};
use super::load::{Shared, Verdict};
use super::seen::{Asked, Seen};

pub(super) const TOPIC: &str = "tour";
pub(super) const DOOMED: &str = "doomed";
pub(super) const SHARED: &str = "shared";
/// Partitions of the topic that a group shares.
pub(super) const SHARED_PARTITIONS: i32 = 6;

const TARGET: Target = Target { topic: TOPIC, partition: 0 };
/// A wait that is never sat out: what is answered in less was woken.
const LONG: Duration = Duration::from_secs(60);
/// Bytes that one poll waits for.
const MANY_BYTES: i32 = 4_000;
/// Records that have so many bytes together.
const MANY_RECORDS: i64 = 200;
const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;

/// What the tour has to tell.
pub(super) enum News {
    /// What it waits for now.
    Now(&'static str),
    Seen(Seen),
}

/// The tour and what it needs to know.
pub(super) struct Tour {
    pub(super) shared: Arc<Shared>,
    pub(super) control: SocketAddr,
    /// How long each thing waits that is seen to wait.
    pub(super) beat: Duration,
    pub(super) session: Duration,
    pub(super) news: UnboundedSender<News>,
    /// Records that are in its topic.
    pub(super) written: i64,
}

impl Tour {
    /// Goes through all of it. What is seen to be wrong does not end it.
    ///
    /// # Errors
    ///
    /// Says which connection is broken.
    pub(super) async fn run(mut self) -> Verdict {
        self.acknowledged().await?;
        self.woken().await?;
        self.slept().await?;
        self.enough().await?;
        self.deleted().await?;
        self.paused().await?;
        self.group().await
    }

    async fn acknowledged(&mut self) -> Verdict {
        self.begin("a producer with acks=all").await;
        let (answer, span) = append(self.shared.address, self.written, 1, LONG).await?;
        let answer = self.is_acknowledged(answer, span);
        self.written += 1;
        self.seen(
            "acks=all is answered once all three nodes have it",
            Asked::AtOnce,
            span.sent,
            span.answered,
            answer,
        );
        Ok(())
    }

    async fn woken(&mut self) -> Verdict {
        self.begin("a poll, and no record yet").await;
        let (address, next) = (self.shared.address, self.written);
        let write = self.later(append(address, next, 1, LONG));
        let ((polled, poll), (answer, written)) = tokio::try_join!(poll(address, next, LONG, 1), write)?;
        let right = woke(&polled, next, poll, 1).and(self.is_acknowledged(answer, written));
        self.written += 1;
        self.seen(
            "a poll is woken by the record it waits for",
            Asked::AtOnce,
            written.sent,
            poll.answered,
            right,
        );
        Ok(())
    }

    async fn slept(&mut self) -> Verdict {
        self.begin("a poll, and no record at all").await;
        let (polled, span) = poll(self.shared.address, self.written, self.beat, 1).await?;
        let right = is_empty(&polled);
        self.seen(
            "a poll gets nothing: it ends after its wait",
            Asked::After(self.beat),
            span.sent,
            span.answered,
            right,
        );
        Ok(())
    }

    async fn enough(&mut self) -> Verdict {
        self.begin("a poll for 4000 bytes, and a record of fewer").await;
        let (address, next) = (self.shared.address, self.written);
        let write = async {
            let (few, span) = self.later(append(address, next, 1, LONG)).await?;
            self.is_acknowledged(few, span)?;
            self.later(append(address, next + 1, MANY_RECORDS, LONG)).await
        };
        let ((polled, poll), (many, written)) =
            tokio::try_join!(poll(address, next, LONG, MANY_BYTES), write)?;
        let right = woke(&polled, next, poll, MANY_BYTES);
        let right = right.and(check::produced(many, next + 1, written, LONG, &self.shared.pauses).map(drop));
        self.written += 1 + MANY_RECORDS;
        self.seen(
            "a poll for 4000 bytes waits until they are there",
            Asked::AtOnce,
            written.sent,
            poll.answered,
            right,
        );
        Ok(())
    }

    async fn deleted(&mut self) -> Verdict {
        self.begin("a poll on a topic that will be deleted").await;
        let address = self.shared.address;
        let target = Target { topic: DOOMED, partition: 0 };
        let (polled, deleted) =
            tokio::try_join!(poll_on(address, target, 0, LONG, 1), self.later(delete(address, DOOMED)))?;
        let ((answer, span), (error, sent)) = (polled, deleted);
        let right = match (answer.error, error) {
            (UNKNOWN_TOPIC_OR_PARTITION, 0) => Ok(()),
            (polled, deleted) => {
                Err(format!("the poll was answered with {polled}, the deletion with {deleted}"))
            }
        };
        self.seen(
            "a topic is deleted: the poll on it gets error 3",
            Asked::AtOnce,
            sent,
            span.answered,
            right,
        );
        Ok(())
    }

    /// Says what comes next, and gives who watches time to read.
    async fn begin(&self, now: &'static str) {
        // Nobody listens when the demo has been interrupted; then this ends, too.
        let _ = self.news.send(News::Now(now));
        tokio::time::sleep(self.beat / 2).await;
    }

    /// Does something when what it is to wake has been there for a while.
    async fn later<T>(&self, what: impl Future<Output = T>) -> T {
        tokio::time::sleep(self.beat / 2).await;
        what.await
    }

    fn seen(&self, what: &'static str, asked: Asked, since: Instant, came: Instant, answer: Verdict) {
        let _ = self.news.send(News::Seen(Seen::new(what, asked, since, came, answer)));
    }

    /// The next record has been acknowledged.
    fn is_acknowledged(&self, answer: (i16, i64), span: Span) -> Verdict {
        match check::produced(answer, self.written, span, LONG, &self.shared.pauses)? {
            None => Ok(()),
            Some(_) => Err("acks=all timed out".to_owned()),
        }
    }
}

/// The poll has what it waited for.
fn woke(polled: &Polled, next: i64, span: Span, min_bytes: i32) -> Verdict {
    match check::polled(polled, TARGET, next, span, LONG, min_bytes)? {
        None => Ok(()),
        Some(_) => Err("the poll slept through it".to_owned()),
    }
}

fn is_empty(polled: &Polled) -> Verdict {
    match (polled.error, polled.records.len()) {
        (0, 0) => Ok(()),
        (error, records) => Err(format!("the poll was answered with error {error} and {records} records")),
    }
}

/// Each client has a connection of its own, which is there before anything is timed.
async fn connect(address: SocketAddr) -> Result<Client, String> {
    Client::connect(address).await.map_err(|error| format!("cannot connect: {error}"))
}

fn broken(error: std::io::Error) -> String {
    format!("{TOPIC}: {error}")
}

/// Appends so many records in one batch, the first with this number.
async fn append(
    address: SocketAddr,
    next: i64,
    count: i64,
    timeout: Duration,
) -> Result<((i16, i64), Span), String> {
    let mut client = connect(address).await?;
    let values: Vec<Bytes> = (next..next + count).map(|number| check::value(TARGET, number)).collect();
    let sent = Instant::now();
    let answer = client.produce(TARGET, &values, -1, millis(timeout)).await.map_err(broken)?;
    Ok((answer, Span { sent, answered: Instant::now() }))
}

async fn poll(
    address: SocketAddr,
    offset: i64,
    wait: Duration,
    min_bytes: i32,
) -> Result<(Polled, Span), String> {
    poll_on(address, TARGET, offset, wait, min_bytes).await
}

async fn poll_on(
    address: SocketAddr,
    target: Target,
    offset: i64,
    wait: Duration,
    min_bytes: i32,
) -> Result<(Polled, Span), String> {
    let mut client = connect(address).await?;
    let sent = Instant::now();
    let polled = client.fetch(target, offset, millis(wait), min_bytes).await.map_err(broken)?;
    Ok((polled, Span { sent, answered: Instant::now() }))
}

/// The error, and when it was asked.
async fn delete(address: SocketAddr, topic: &'static str) -> Result<(i16, Instant), String> {
    let mut client = connect(address).await?;
    let sent = Instant::now();
    Ok((client.delete(topic, millis(LONG)).await.map_err(broken)?, sent))
}

fn millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}
