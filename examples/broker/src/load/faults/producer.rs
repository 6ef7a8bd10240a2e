//! An idempotent producer: it sends a batch again until it is acknowledged, over a new connection if it has lost patience.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use kafka_protocol::messages::{ApiKey, InitProducerIdRequest, InitProducerIdResponse};

use super::super::process::PATIENCE;
use super::{PARTITIONS, TOPICS};
use crate::demo::check::{self, Span};
use crate::demo::client::{Client, Target, encode};

const INIT_PRODUCER_ID_VERSION: i16 = 4;

const NONE: i16 = 0;
const REQUEST_TIMED_OUT: i16 = 7;
const NOT_ENOUGH_REPLICAS: i16 = 19;
const NOT_ENOUGH_REPLICAS_AFTER_APPEND: i16 = 20;

/// How long the broker may wait for the followers.
const TIMEOUT: Duration = Duration::from_millis(250);
/// How long a producer waits before it sends a batch again.
const BACKOFF: Duration = Duration::from_millis(50);
/// How long between batches, so that their number has a limit.
const PAUSE: Duration = Duration::from_millis(2);
/// One request of so many is waited for no longer than this: shorter than the broker may take, so that the producer hangs
/// up on some that are appended already.
const IMPATIENT_EVERY: u64 = 5;
const IMPATIENCE: Duration = Duration::from_millis(100);

/// A batch that was acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Acknowledged {
    pub(super) target: Target,
    pub(super) base_offset: i64,
    pub(super) values: Vec<Bytes>,
    /// When it was first sent, and when it was acknowledged.
    pub(super) span: Span,
}

/// What has become of the requests to one topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) batches: u64,
    pub(super) acknowledged: u64,
    /// Requests with a batch that was sent before.
    pub(super) again: u64,
    pub(super) timed_out: u64,
    pub(super) too_few: u64,
    pub(super) too_few_after: u64,
    /// Requests whose answer the producer did not wait for.
    pub(super) hung_up: u64,
    /// The longest that a batch took.
    pub(super) longest: Duration,
}

impl Counts {
    pub(super) fn requests(&self) -> u64 {
        self.batches + self.again
    }

    pub(super) fn add(&mut self, other: Counts) {
        self.batches += other.batches;
        self.acknowledged += other.acknowledged;
        self.again += other.again;
        self.timed_out += other.timed_out;
        self.too_few += other.too_few;
        self.too_few_after += other.too_few_after;
        self.hung_up += other.hung_up;
        self.longest = self.longest.max(other.longest);
    }

    /// Every request was answered, unless its producer has hung up; and there was something to see.
    pub(super) fn check(&self) -> Result<(), String> {
        let answered = self.acknowledged + self.timed_out + self.too_few + self.too_few_after;
        if answered + self.hung_up != self.requests() || self.acknowledged != self.batches {
            return Err(format!("a request was not answered: {self:?}"));
        }
        if self.acknowledged == 0 || self.timed_out == 0 {
            return Err(format!("nothing was acknowledged, or nothing timed out: {self:?}"));
        }
        Ok(())
    }
}

pub(super) struct Producer {
    number: usize,
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    acknowledged: Vec<Acknowledged>,
    /// Of each topic.
    counts: [Counts; TOPICS.len()],
    requests: u64,
}

impl Producer {
    pub(super) fn new(number: usize, address: SocketAddr, stop: Arc<AtomicBool>) -> Producer {
        let counts = [Counts::default(); TOPICS.len()];
        Producer { number, address, stop, acknowledged: Vec::new(), counts, requests: 0 }
    }

    /// Writes to all partitions in turn until it is stopped, and what it has begun is acknowledged.
    pub(super) async fn produce(mut self) -> Result<(Vec<Acknowledged>, [Counts; TOPICS.len()]), String> {
        let number = self.number;
        let wrong = |wrong: String| format!("producer {number}: {wrong}");
        self.produce_until_stopped().await.map_err(wrong)?;
        Ok((self.acknowledged, self.counts))
    }

    async fn produce_until_stopped(&mut self) -> Result<(), String> {
        let mut client = self.connect().await?;
        let request =
            InitProducerIdRequest::default().with_transactional_id(None).with_transaction_timeout_ms(0);
        let own: InitProducerIdResponse =
            client.ask(ApiKey::InitProducerId, INIT_PRODUCER_ID_VERSION, &request).await.map_err(broken)?;
        let mut sequences = [[0; PARTITIONS as usize]; TOPICS.len()];
        for number in 0.. {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let topic = number % TOPICS.len();
            let partition = number / TOPICS.len() % PARTITIONS as usize;
            let target = Target { topic: TOPICS[topic].0, partition: partition as i32 };
            let sequence = &mut sequences[topic][partition];
            let values: Vec<Bytes> =
                (0..1 + number % 3).map(|record| self.value(target, *sequence, record)).collect();
            let batch = encode(&values, (own.producer_id.0, *sequence)).map_err(broken)?;
            *sequence += values.len() as i32;
            let begun = Instant::now();
            let base_offset = self.deliver(&mut client, topic, target, batch).await?;
            let span = Span { sent: begun, answered: Instant::now() };
            let counts = &mut self.counts[topic];
            counts.longest = counts.longest.max(span.length());
            // What all have is there for everybody, at once.
            let read = client.fetch(target, base_offset, 0, 1).await.map_err(broken)?;
            if read.records.first().map(|(_, value)| value) != values.first() {
                return Err(format!(
                    "{target:?}: offset {base_offset} was acknowledged, and is not to be read"
                ));
            }
            self.acknowledged.push(Acknowledged { target, base_offset, values, span });
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Different for each record of all producers.
    fn value(&self, target: Target, sequence: i32, record: usize) -> Bytes {
        let number = i64::from(sequence) + record as i64;
        Bytes::from([format!("{} ", self.number).as_bytes(), &check::value(target, number)].concat())
    }

    async fn connect(&self) -> Result<Client, String> {
        Client::connect(self.address).await.map_err(broken)
    }

    /// Sends a batch until it is acknowledged. Returns its offset.
    async fn deliver(
        &mut self,
        client: &mut Client,
        topic: usize,
        target: Target,
        batch: Bytes,
    ) -> Result<i64, String> {
        let begun = Instant::now();
        self.counts[topic].batches += 1;
        loop {
            if begun.elapsed() > PATIENCE {
                return Err(format!("a batch for {target:?} is not acknowledged after {PATIENCE:?}"));
            }
            self.requests += 1;
            let is_patient = !self.requests.is_multiple_of(IMPATIENT_EVERY);
            let patience = if is_patient { PATIENCE } else { IMPATIENCE };
            let answer = client.append(target, batch.clone(), -1, TIMEOUT.as_millis() as i32);
            let answer = tokio::time::timeout(patience, answer).await;
            let counts = &mut self.counts[topic];
            match answer {
                Ok(Ok((NONE, offset))) => {
                    counts.acknowledged += 1;
                    return Ok(offset);
                }
                Ok(Ok((REQUEST_TIMED_OUT, _))) => counts.timed_out += 1,
                Ok(Ok((NOT_ENOUGH_REPLICAS, _))) => counts.too_few += 1,
                Ok(Ok((NOT_ENOUGH_REPLICAS_AFTER_APPEND, _))) => counts.too_few_after += 1,
                Ok(Ok((error, _))) => return Err(format!("{target:?} is answered with error {error}")),
                Ok(Err(error)) => return Err(format!("{target:?}: {error}")),
                Err(_) if is_patient => return Err(format!("no answer for {target:?} after {PATIENCE:?}")),
                Err(_) => {
                    counts.hung_up += 1;
                    *client = self.connect().await?;
                }
            }
            self.counts[topic].again += 1;
            tokio::time::sleep(BACKOFF).await;
        }
    }
}

fn broken(error: io::Error) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_without_an_answer_is_missed() {
        let right =
            Counts { batches: 5, acknowledged: 5, again: 3, timed_out: 2, hung_up: 1, ..Counts::default() };
        assert_eq!(right.check(), Ok(()));
        for wrong in [
            Counts { again: 4, ..right },
            Counts { hung_up: 2, ..right },
            Counts { batches: 6, timed_out: 3, ..right },
            Counts { again: 1, timed_out: 0, ..right },
            Counts::default(),
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }
}
