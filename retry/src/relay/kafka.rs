//! The edge to librdkafka: its settings, its records, its errors and its callbacks. What is decided is decided elsewhere.

use super::config::{Config, Setting, Wrong};
use super::desk::Desk;
use super::hold::{Commit, Failure, Kind, Parcel};
use super::record::{Header, Headers, Record, Rules, TopicPartition};
use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::{
    BorrowedMessage, DeliveryResult, Header as KafkaHeader, Headers as _, Message, OwnedHeaders,
};
use rdkafka::producer::{BaseProducer, BaseRecord, ProducerContext, ThreadedProducer};
use rdkafka::{Offset, TopicPartitionList};
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// What the relay sets if the configuration does not.
const DEFAULTS: [(&str, &str); 3] = [
    ("client.id", "ixion-relay"),
    // A topic that is made later is seen by then.
    ("topic.metadata.refresh.interval.ms", "10000"),
    ("socket.keepalive.enable", "true"),
];
const READING: [(&str, &str); 3] = [
    // What is in a retry topic was put there to be delivered.
    ("auto.offset.reset", "earliest"),
    // What a partition holds stays held when another joins the group.
    ("partition.assignment.strategy", "cooperative-sticky"),
    // Beside what is held: for each partition.
    ("queued.max.messages.kbytes", "16384"),
];
const WRITING: [(&str, &str); 6] = [
    ("acks", "all"),
    ("enable.idempotence", "true"),
    // Keys go to the partition where a Java producer puts them.
    ("partitioner", "murmur2_random"),
    // What was read must not be too large to be written: the broker decides.
    ("message.max.bytes", "1000000000"),
    ("topic.metadata.propagation.max.ms", "10000"),
    // What is due together is sent together anyway, and what is alone should not wait for more.
    ("linger.ms", "1"),
];
/// How long a rebalance waits for the offsets that are committed.
const COMMITTED: Duration = Duration::from_secs(10);
/// How long it waits for what is being sent from a partition that is taken away.
const LAST_REPORTS: Duration = Duration::from_secs(1);

pub(crate) type Reader = BaseConsumer<Reading>;
pub(crate) type Writer = ThreadedProducer<Writing>;
/// How the sending of a parcel has ended, and when.
pub(crate) struct Report {
    pub(crate) number: usize,
    pub(crate) result: Result<(), Failure>,
    pub(crate) at: Duration,
}

/// The consumer's callbacks.
pub(crate) struct Reading {
    pub(crate) desk: Arc<Desk>,
}

/// The producer's callbacks.
pub(crate) struct Writing {
    pub(crate) desk: Arc<Desk>,
    pub(crate) reports: Sender<Report>,
}

/// Asks librdkafka about each of its settings, and about all of them together.
pub(crate) fn check(config: &Config) -> Result<(), Wrong> {
    for Setting { key, value, line } in &config.kafka {
        let result = ClientConfig::new().set(key, value).create_native_config();
        if let Err(error) = result {
            let what = match error {
                KafkaError::ClientConfig(_, what, ..) => what,
                other => other.to_string(),
            };
            return Err(Wrong { line: Some(*line), what: format!("kafka.{key:?}: {what}") });
        }
    }
    // Clients that know no broker connect to none.
    let check = |settings: &mut ClientConfig| settings.remove("bootstrap.servers").clone();
    let producer = check(&mut writing(config)).create::<BaseProducer>().map(drop);
    let consumer = check(&mut reading(config)).create::<BaseConsumer>().map(drop);
    producer.and(consumer).map_err(|error| Wrong { line: None, what: format!("kafka: {error}") })
}

/// Makes the consumer, which has not subscribed yet.
pub(crate) fn reader(config: &Config, context: Reading) -> KafkaResult<Reader> {
    BaseConsumer::from_config_and_context(&reading(config), context)
}

/// Makes a producer; one that is `alone` sends each record in a batch of its own.
pub(crate) fn writer(config: &Config, context: Writing, is_alone: bool) -> KafkaResult<Writer> {
    let mut settings = writing(config);
    if is_alone {
        settings.set("batch.num.messages", "1");
    }
    ThreadedProducer::from_config_and_context(&settings, context)
}

/// All that librdkafka is told of its own settings, for either side.
pub(crate) fn defaults() -> impl Iterator<Item = (&'static str, &'static str)> {
    DEFAULTS.into_iter().chain(READING).chain(WRITING)
}

fn reading(config: &Config) -> ClientConfig {
    let mut settings = settings(config, &READING);
    settings.set("group.id", &config.group);
    settings.set("enable.auto.commit", "false").set("enable.auto.offset.store", "false");
    settings
}

fn writing(config: &Config) -> ClientConfig {
    settings(config, &WRITING)
}

fn settings(config: &Config, more: &[(&str, &str)]) -> ClientConfig {
    let mut settings = ClientConfig::new();
    for (key, value) in DEFAULTS.iter().chain(more) {
        settings.set(*key, *value);
    }
    for Setting { key, value, .. } in &config.kafka {
        settings.set(key, value);
    }
    settings.set("bootstrap.servers", &config.brokers);
    settings.set_log_level(RDKafkaLogLevel::Emerg);
    settings
}

/// Takes a record out of the client.
pub(crate) fn record(rules: &Rules, message: &BorrowedMessage<'_>) -> Record {
    let topic = message.topic();
    let known = rules.topics.iter().find(|known| ***known == *topic);
    Record {
        place: TopicPartition {
            topic: known.map_or_else(|| topic.into(), Arc::clone),
            partition: message.partition(),
        },
        // Neither is below zero.
        offset: u64::try_from(message.offset()).unwrap_or(0),
        timestamp: message.timestamp().to_millis().and_then(|millis| u64::try_from(millis).ok()),
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers: headers(message),
    }
}

fn headers(message: &BorrowedMessage<'_>) -> Headers {
    let Some(headers) = message.headers() else { return Headers::Read(Vec::new()) };
    let owned = |header: KafkaHeader<'_, &[u8]>| Header {
        name: header.key.to_owned(),
        value: header.value.map(<[u8]>::to_vec),
    };
    match quietly(|| headers.iter().map(owned).collect()) {
        Some(headers) => Headers::Read(headers),
        None => Headers::Unreadable(Box::new(headers.detach())),
    }
}

/// Gives a record to the client. `Err`: not now, or not at all.
pub(crate) fn send(writer: &Writer, rules: &Rules, parcel: &Parcel) -> KafkaResult<()> {
    let (without, with) = rules.changes(&parcel.record, &parcel.plan);
    let insert = |headers: OwnedHeaders, header: &Header| {
        headers.insert(KafkaHeader { key: &header.name, value: header.value.as_deref() })
    };
    let kept = match &parcel.record.headers {
        Headers::Read(headers) => {
            let kept = headers.iter().filter(|header| !without.contains(&header.name.as_str()));
            kept.fold(OwnedHeaders::new_with_capacity(headers.len() + with.len()), insert)
        }
        Headers::Unreadable(copy) => copy.downcast_ref::<OwnedHeaders>().cloned().unwrap_or_default(),
    };
    let record = BaseRecord {
        topic: &parcel.plan.to,
        partition: None,
        payload: parcel.record.value.as_deref(),
        key: parcel.record.key.as_deref(),
        timestamp: None,
        headers: Some(with.iter().fold(kept, insert)),
        delivery_opaque: parcel.number,
    };
    writer.send(record).map_err(|(error, _)| error)
}

/// Commits, with the notes, and waits for the answer: what the client does without it tells nobody that it has failed.
pub(crate) fn commit(reader: &Reader, commits: &[Commit]) -> KafkaResult<()> {
    let mut list = TopicPartitionList::with_capacity(commits.len());
    for Commit { place, offset, note } in commits {
        let mut entry = list.add_partition(&place.topic, place.partition);
        entry.set_offset(Offset::Offset(i64::try_from(*offset).unwrap_or(i64::MAX)))?;
        entry.set_metadata(note);
    }
    reader.commit(&list, CommitMode::Sync)
}

/// A list of partitions, for the client.
pub(crate) fn list<'a>(places: impl IntoIterator<Item = &'a TopicPartition>) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    for place in places {
        list.add_partition(&place.topic, place.partition);
    }
    list
}

fn places(list: &TopicPartitionList) -> Vec<TopicPartition> {
    let place = |topic: &str, partition| TopicPartition { topic: topic.into(), partition };
    list.elements().iter().map(|entry| place(entry.topic(), entry.partition())).collect()
}

/// What an error means for the record that it stands for.
pub(crate) fn failure(error: &KafkaError) -> Failure {
    use RDKafkaErrorCode as Code;
    let kind = match error.rdkafka_error_code() {
        Some(Code::MessageSizeTooLarge | Code::MessageBatchTooLarge | Code::InvalidMessageSize) => {
            Kind::TooLarge
        }
        Some(
            Code::UnknownTopic
            | Code::UnknownTopicOrPartition
            | Code::UnknownPartition
            | Code::InvalidTopic
            | Code::TopicAuthorizationFailed
            | Code::InvalidTimestamp
            | Code::UnsupportedForMessageFormat
            | Code::PolicyViolation
            | Code::InvalidRecord
            | Code::InvalidArgument,
        ) => Kind::Permanent,
        // The broker has lost what it knew of the producer, or another has taken its place. The client takes that for fatal.
        Some(
            Code::Fatal
            | Code::UnknownProducerId
            | Code::OutOfOrderSequenceNumber
            | Code::InvalidProducerEpoch
            | Code::ProducerFenced,
        ) => Kind::Broken,
        Some(Code::PurgeQueue | Code::PurgeInflight) => Kind::GivenBack,
        _ => Kind::Transient,
    };
    Failure { kind, error: text(error) }
}

/// The error's own text, without what the client was about.
pub(crate) fn text(error: &KafkaError) -> String {
    error.rdkafka_error_code().map_or_else(|| error.to_string(), |code| code.to_string())
}

impl ClientContext for Reading {
    fn error(&self, error: KafkaError, reason: &str) {
        self.desk.client_error(&error, reason);
    }
}

impl ConsumerContext for Reading {
    fn pre_rebalance(&self, reader: &Reader, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Assign(list) => self.assign(reader, list),
            Rebalance::Revoke(list) => self.revoke(reader, &places(list)),
            Rebalance::Error(error) => self.desk.is_ill("the group", &error.to_string()),
        }
    }

    fn post_rebalance(&self, reader: &Reader, rebalance: &Rebalance<'_>) {
        if let Rebalance::Assign(list) = rebalance {
            // A partition that was paused when it was taken away may come back so.
            if let Err(error) = reader.resume(list) {
                self.desk.is_ill("the group", &error.to_string());
            }
        }
    }
}

impl Reading {
    fn assign(&self, reader: &Reader, list: &TopicPartitionList) {
        if list.count() == 0 {
            return;
        }
        let committed = reader.committed_offsets(list.clone(), COMMITTED);
        if let Err(error) = &committed {
            // The client finds them by itself; what is lost is the notes.
            self.desk.is_ill("offsets", &format!("cannot be read: {}", text(error)));
        }
        let mut offsets = Vec::new();
        for entry in committed.as_ref().unwrap_or(list).elements() {
            let place = TopicPartition { topic: entry.topic().into(), partition: entry.partition() };
            let offset = match entry.offset() {
                Offset::Offset(offset) => u64::try_from(offset).ok(),
                _ => None,
            };
            // Metadata of another program need not be text, and the client's own reading of it demands that.
            let note = || quietly(|| entry.metadata().to_owned()).unwrap_or_default();
            offsets.push((place, offset.map(|offset| (offset, note()))));
        }
        self.desk.assign(offsets);
    }

    fn revoke(&self, reader: &Reader, places: &[TopicPartition]) {
        let is_lost = reader.assignment_lost();
        let commits = self.desk.revoke(places, if is_lost { Duration::ZERO } else { LAST_REPORTS });
        if is_lost {
            return; // Others may have them by now.
        }
        self.desk.commit(&commits, |commits| commit(reader, commits));
    }
}

impl ClientContext for Writing {
    fn error(&self, error: KafkaError, reason: &str) {
        match failure(&error).kind {
            Kind::Broken => self.desk.is_broken(reason),
            _ => self.desk.client_error(&error, reason),
        }
    }
}

impl ProducerContext for Writing {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, number: usize) {
        let result = result.as_ref().map(drop).map_err(|(error, _)| failure(error));
        // When nobody listens any more the relay has ended.
        let _ = self.reports.send(Report { number, result, at: self.desk.now() });
    }
}

thread_local! {
    /// Whether a panic is expected on this thread.
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Calls what panics on bytes that are no text: the bindings have no other answer. `None`: it did.
fn quietly<T>(read: impl FnOnce() -> T) -> Option<T> {
    IS_QUIET.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(read));
    IS_QUIET.set(false);
    result.ok()
}

/// Lets expected panics print nothing.
pub(crate) fn hush() {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if !IS_QUIET.get() {
            hook(info);
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_for_a_while_for_a_batch_or_for_ever() {
        use RDKafkaErrorCode as Code;
        let cases = [
            (Code::MessageTimedOut, Kind::Transient),
            (Code::NotEnoughReplicas, Kind::Transient),
            (Code::NotLeaderForPartition, Kind::Transient),
            (Code::QueueFull, Kind::Transient),
            (Code::UnknownProducerId, Kind::Broken),
            (Code::Fatal, Kind::Broken),
            (Code::PurgeInflight, Kind::GivenBack),
            (Code::MessageSizeTooLarge, Kind::TooLarge),
            (Code::UnknownTopicOrPartition, Kind::Permanent),
            (Code::UnknownTopic, Kind::Permanent),
            (Code::TopicAuthorizationFailed, Kind::Permanent),
            (Code::InvalidTimestamp, Kind::Permanent),
        ];
        for (code, kind) in cases {
            let failure = failure(&KafkaError::MessageProduction(code));
            assert_eq!((failure.kind, failure.error.is_empty()), (kind, false), "{code}");
        }
        assert_eq!(failure(&KafkaError::Canceled).kind, Kind::Transient);
    }

    #[test]
    fn what_panics_on_bytes_that_are_no_text_says_nothing() {
        hush();
        assert_eq!(quietly(|| String::from_utf8(vec![0xff]).expect("it is text")), None);
        assert_eq!(quietly(|| "text"), Some("text"));
        assert!(!IS_QUIET.get(), "the next panic is heard");
    }

    #[test]
    fn a_setting_that_librdkafka_does_not_take_is_named_with_its_line() {
        let check = |kafka: &str| {
            let least = "brokers = \"a:1\"\ngroup = \"b\"\ntopics = [\"c\"]\ndead_letter_topic = \"d\"\n";
            check(&Config::parse(&format!("{least}[kafka]\n{kafka}")).unwrap())
                .map_err(|wrong| wrong.to_string())
        };
        assert_eq!(check("\"session.timeout.ms\" = 6000"), Ok(()));
        let wrong = check("\"session.timeout\" = 6000").unwrap_err();
        assert!(wrong.starts_with("line 6: kafka.\"session.timeout\": No such"), "{wrong}");
        let wrong = check("\n\"session.timeout.ms\" = \"long\"").unwrap_err();
        assert!(wrong.starts_with("line 7: kafka.\"session.timeout.ms\": Invalid"), "{wrong}");
        let wrong = check("\"max.in.flight\" = 6").unwrap_err();
        assert!(wrong.starts_with("kafka: ") && wrong.contains("idempotence"), "{wrong}");
    }
}
