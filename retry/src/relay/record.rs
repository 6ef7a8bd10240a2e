//! What a record's headers say, when it is due and where it goes, and the headers with which it goes there.
//!
//! Pure: no client, no clock, no I/O. Whatever the bytes are, there is an answer, and the worst is the dead letter topic.

use ixion_retry::{Backoff, Failed, Verdict};
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Milliseconds since the epoch.
pub(crate) type Millis = u64;

/// A partition of a retry topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TopicPartition {
    pub(crate) topic: Arc<str>,
    pub(crate) partition: i32,
}

/// A record that was read from a retry topic.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) place: TopicPartition,
    pub(crate) offset: u64,
    /// When it was written to the retry topic, if it says so.
    pub(crate) timestamp: Option<Millis>,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Headers,
}

/// A record's headers, in order.
#[derive(Debug)]
pub(crate) enum Headers {
    Read(Vec<Header>),
    /// Names that are no text, which the client cannot show. It can copy them: what it needs for that.
    Unreadable(Box<dyn Any + Send>),
}

/// A header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) name: String,
    pub(crate) value: Option<Vec<u8>>,
}

/// By which rules records are relayed.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// The topics that are read: none of them may be a target.
    pub(crate) topics: Vec<Arc<str>>,
    pub(crate) dead_letter_topic: Arc<str>,
    /// Where records go that do not say it.
    pub(crate) target: Option<Arc<str>>,
    pub(crate) backoff: Backoff,
    pub(crate) max_attempts: u32,
    pub(crate) max_age: Option<Duration>,
    pub(crate) names: Names,
}

/// How the headers are called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) attempt: String,
    pub(crate) due: String,
    pub(crate) target: String,
    pub(crate) first: String,
    pub(crate) reason: String,
    pub(crate) topic: String,
    pub(crate) partition: String,
    pub(crate) offset: String,
}

/// What is to become of a record, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) due: Millis,
    /// The topic that it goes to.
    pub(crate) to: Arc<str>,
    /// When its first failure was seen.
    pub(crate) first: Millis,
    pub(crate) purpose: Purpose,
}

/// Why a record is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Once more; it will be this delivery.
    Again(u32),
    /// It is dead, for a reason.
    Dead(Cause, String),
}

/// Why a record is dead, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    /// The last attempt has failed.
    Attempts,
    /// It has become too old.
    Age,
    /// A header of the relay's cannot be read.
    Header,
    /// It has no target, or one where it must not go.
    Target,
    /// The target does not take it.
    Refused,
}

/// The last millisecond of the year 9999. Who gives a later one has taken another unit.
const LAST: Millis = 253_402_300_799_999;
/// How much of a header's value a reason quotes, in bytes.
const QUOTED: usize = 64;
/// The longest name of a topic.
const NAME: usize = 249;

impl Rules {
    /// Decides about a record that is read at this time.
    pub(crate) fn plan(&self, record: &Record, now: Millis) -> Plan {
        // A clock that is ahead must not make a record wait for longer.
        let failed = record.timestamp.unwrap_or(now).min(now);
        let mut first = failed;
        match self.next(record, failed, now, &mut first) {
            Ok(plan) => plan,
            Err((cause, reason)) => Plan {
                due: now,
                to: self.dead_letter_topic.clone(),
                first,
                purpose: Purpose::Dead(cause, reason),
            },
        }
    }

    /// The plan for a record that is not dead; `first` is set as soon as it is known.
    fn next(
        &self,
        record: &Record,
        failed: Millis,
        now: Millis,
        first: &mut Millis,
    ) -> Result<Plan, (Cause, String)> {
        let Headers::Read(headers) = &record.headers else {
            return Err((Cause::Header, "the name of a header is no text".to_owned()));
        };
        let names = &self.names;
        *first = number(headers, &names.first, LAST)?.unwrap_or(failed);
        let attempt = number(headers, &names.attempt, u64::from(u32::MAX))?.unwrap_or(1) as u32;
        let due = number(headers, &names.due, LAST)?;
        let to = self.target(headers)?;
        let delay = match self.backoff.decide(self.failure(attempt), salt(record)) {
            Verdict::Retry(delay) => delay,
            Verdict::Dead(_) => {
                let reason = format!("attempt {attempt} has failed, of at most {}", self.max_attempts);
                return Err((Cause::Attempts, reason));
            }
        };
        let delay = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        // Not before it was written: so long it cannot be late.
        let due = due.unwrap_or(failed.saturating_add(delay)).max(failed);
        let age = Duration::from_millis(due.max(now).saturating_sub(*first));
        match self.max_age.filter(|most| age > *most) {
            Some(most) => {
                let reason =
                    format!("it would be {} ms old, of at most {}", age.as_millis(), most.as_millis());
                Err((Cause::Age, reason))
            }
            None => Ok(Plan { due, to, first: *first, purpose: Purpose::Again(attempt.saturating_add(1)) }),
        }
    }

    /// What the back-off is asked. The delay before is not known, so it is taken as it was before it was spread.
    fn failure(&self, attempt: u32) -> Failed {
        let previous = match attempt {
            0 | 1 => Duration::ZERO,
            _ => self.backoff.delay(attempt - 1),
        };
        Failed { attempt, previous, ..Failed::default() }
    }

    fn target(&self, headers: &[Header]) -> Result<Arc<str>, (Cause, String)> {
        let name = &self.names.target;
        let Some(header) = last(headers, name) else {
            let none =
                || (Cause::Target, format!("there is no {name}, and the configuration names no target"));
            return self.target.clone().ok_or_else(none);
        };
        let value = header.value.as_deref().unwrap_or_default();
        match str::from_utf8(value).ok().filter(|topic| is_topic(topic)) {
            None => Err((Cause::Target, format!("{name} is no name of a topic: {}", quote(header)))),
            Some(topic) if self.topics.iter().any(|read| **read == *topic) => {
                Err((Cause::Target, format!("{name} is a retry topic, where it would go round: {topic}")))
            }
            Some(topic) => Ok(match &self.target {
                Some(target) if **target == *topic => target.clone(),
                _ => topic.into(),
            }),
        }
    }

    /// Which headers a record is sent without, and which it gets at the end.
    pub(crate) fn changes(&self, record: &Record, plan: &Plan) -> (Vec<&str>, Vec<Header>) {
        let names = &self.names;
        let (mut without, mut with) = (Vec::new(), Vec::new());
        let mut set = |name, value: String| {
            without.push(name);
            with.push(Header { name: str::to_owned(name), value: Some(value.into_bytes()) });
        };
        match &plan.purpose {
            Purpose::Again(attempt) => {
                set(&names.attempt, attempt.to_string());
                without.push(&names.due);
            }
            Purpose::Dead(_, reason) => {
                set(&names.reason, reason.clone());
                set(&names.topic, record.place.topic.to_string());
                set(&names.partition, record.place.partition.to_string());
                set(&names.offset, record.offset.to_string());
            }
        }
        if matches!(&record.headers, Headers::Read(headers) if last(headers, &names.first).is_none()) {
            with.push(Header::number(&names.first, plan.first));
        }
        (without, with)
    }
}

impl Header {
    fn number(name: &str, number: u64) -> Self {
        Header { name: name.to_owned(), value: Some(number.to_string().into_bytes()) }
    }
}

impl Plan {
    /// Makes it a plan for a record that its target does not take.
    pub(crate) fn refused(&mut self, rules: &Rules, error: &str) {
        let reason = format!("{} does not take it: {error}", self.to);
        self.to = rules.dead_letter_topic.clone();
        self.purpose = Purpose::Dead(Cause::Refused, reason);
    }
}

impl Default for Names {
    fn default() -> Self {
        let name = |what| format!("retry-{what}");
        Names {
            attempt: name("attempt"),
            due: name("due"),
            target: name("target"),
            first: name("first"),
            reason: name("reason"),
            topic: name("topic"),
            partition: name("partition"),
            offset: name("offset"),
        }
    }
}

impl Cause {
    pub(crate) const ALL: [Cause; 5] =
        [Cause::Attempts, Cause::Age, Cause::Header, Cause::Target, Cause::Refused];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Cause::Attempts => "attempts",
            Cause::Age => "age",
            Cause::Header => "header",
            Cause::Target => "target",
            Cause::Refused => "refused",
        }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.topic, self.partition)
    }
}

/// Whether a topic may be called so.
pub(crate) fn is_topic(name: &str) -> bool {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    !matches!(name, "" | "." | "..") && name.len() <= NAME && name.bytes().all(is_legal)
}

/// Kafka's rule for headers that are there twice.
fn last<'a>(headers: &'a [Header], name: &str) -> Option<&'a Header> {
    headers.iter().rev().find(|header| header.name == name)
}

/// The number in a header, if it is there.
fn number(headers: &[Header], name: &str, most: u64) -> Result<Option<u64>, (Cause, String)> {
    let Some(header) = last(headers, name) else { return Ok(None) };
    let digits = header.value.as_deref().unwrap_or_default();
    let is_decimal = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let text = str::from_utf8(digits).ok().filter(|_| is_decimal);
    match text.and_then(|text| text.parse().ok()).filter(|number| *number <= most) {
        Some(number) => Ok(Some(number)),
        None => {
            let what = if text.is_some() { "too great a number" } else { "no decimal number" };
            Err((Cause::Header, format!("{name} is {what}: {}", quote(header))))
        }
    }
}

fn quote(header: &Header) -> String {
    match &header.value {
        None => "null".to_owned(),
        Some(value) if value.len() > QUOTED => format!("\"{}…\"", value[..QUOTED].escape_ascii()),
        Some(value) => format!("\"{}\"", value.escape_ascii()),
    }
}

/// Tells records apart that have failed together. The same after a restart, so that a record is due then as it was before.
fn salt(record: &Record) -> u64 {
    record.offset ^ (u64::from(record.place.partition.unsigned_abs()) << 48)
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
