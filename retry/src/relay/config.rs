//! The configuration: a file in TOML, of which each thing that is wrong is named with its line and its key.

use super::record::{Names, Rules, is_topic};
use ixion_retry::{Backoff, Jitter};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;
use toml::{Spanned, Value};

/// What the relay is to do.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) brokers: String,
    pub(crate) group: String,
    pub(crate) rules: Arc<Rules>,
    pub(crate) max_in_flight: usize,
    pub(crate) http: Option<SocketAddr>,
    pub(crate) progress_interval: Duration,
    /// For librdkafka, as it is.
    pub(crate) kafka: Vec<Setting>,
    delays: Vec<u64>,
    jitter: &'static str,
}

/// A setting of librdkafka, and the line where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) line: usize,
}

/// What is wrong with a configuration, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) line: Option<usize>,
    pub(crate) what: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    brokers: Spanned<String>,
    group: Spanned<String>,
    topics: Spanned<Vec<Spanned<String>>>,
    dead_letter_topic: Spanned<String>,
    target: Option<Spanned<String>>,
    max_in_flight: Option<Spanned<usize>>,
    http: Option<Spanned<String>>,
    progress_interval_ms: Option<Spanned<u64>>,
    #[serde(default)]
    backoff: BackoffTable,
    #[serde(default)]
    headers: BTreeMap<Spanned<String>, Spanned<String>>,
    #[serde(default)]
    kafka: BTreeMap<Spanned<String>, Spanned<Value>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct BackoffTable {
    delays_ms: Option<Spanned<Vec<u64>>>,
    jitter: Option<Spanned<String>>,
    max_attempts: Option<Spanned<u32>>,
    max_age_ms: Option<Spanned<u64>>,
}

/// Ten seconds to two hours, as [`Backoff::standard`].
const DELAYS: [u64; 9] = [10_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000, 7_200_000];
const ATTEMPTS: u32 = 9;
const IN_FLIGHT: usize = 10_000;
const PROGRESS: u64 = 10_000;
const JITTERS: [(&str, Jitter); 4] = [
    ("none", Jitter::None),
    ("full", Jitter::Full),
    ("equal", Jitter::Equal),
    ("decorrelated", Jitter::Decorrelated),
];
/// What the relay sets by itself, and cannot do without.
const OURS: [(&str, &str); 8] = [
    ("bootstrap.servers", "it is what `brokers` says"),
    ("metadata.broker.list", "it is what `brokers` says"),
    ("group.id", "it is what `group` says"),
    ("enable.auto.commit", "only what is safely republished may be committed"),
    ("enable.auto.offset.store", "only what is safely republished may be committed"),
    ("acks", "it is all: what is republished must outlive a broker"),
    ("request.required.acks", "it is all: what is republished must outlive a broker"),
    ("transactional.id", "the relay makes no transactions"),
];

impl Config {
    /// Reads a configuration.
    pub(crate) fn parse(text: &str) -> Result<Self, Wrong> {
        let file: File = toml::from_str(text).map_err(|error| Wrong::of_toml(text, &error))?;
        let lines = Lines(text);
        let brokers = lines.not_empty("brokers", &file.brokers)?;
        let group = lines.not_empty("group", &file.group)?;
        let topics = lines.topics(&file.topics)?;
        let dead_letter_topic: Arc<str> = lines.topic("dead_letter_topic", &file.dead_letter_topic)?.into();
        let is_read = |topic: &str| topics.iter().any(|read| **read == *topic);
        lines.refuse(is_read(&dead_letter_topic), &file.dead_letter_topic, || {
            "dead_letter_topic: it is one of the topics that are read: what is dead would go round".to_owned()
        })?;
        if let Some(target) = &file.target {
            lines.topic("target", target)?;
            lines.refuse(is_read(target.get_ref()), target, || {
                "target: it is one of the topics that are read: what is due would go round".to_owned()
            })?;
            lines.refuse(*target.get_ref() == *dead_letter_topic, target, || {
                "target: it is the dead letter topic".to_owned()
            })?;
        }
        let (backoff, delays, jitter) = lines.backoff(&file.backoff)?;
        let max_attempts =
            file.backoff.max_attempts.as_ref().map_or(ATTEMPTS, |attempts| *attempts.get_ref());
        let rules = Rules {
            topics: topics.clone(),
            dead_letter_topic,
            target: file.target.map(|target| target.into_inner().into()),
            backoff: backoff.max_attempts(max_attempts),
            max_attempts,
            max_age: file.backoff.max_age_ms.map(|age| Duration::from_millis(age.into_inner())),
            names: lines.names(&file.headers)?,
        };
        Ok(Config {
            brokers,
            group,
            rules: Arc::new(rules),
            max_in_flight: lines.at_least_one("max_in_flight", file.max_in_flight, IN_FLIGHT)?,
            http: file.http.map(|http| lines.address(&http)).transpose()?,
            progress_interval: Duration::from_millis(lines.at_least_one(
                "progress_interval_ms",
                file.progress_interval_ms,
                PROGRESS,
            )?),
            kafka: lines.kafka(&file.kafka)?,
            delays,
            jitter,
        })
    }

    /// All of it, with what was left out, as the file could say it.
    pub(crate) fn effective(
        &self,
        defaults: impl IntoIterator<Item = (&'static str, &'static str)>,
    ) -> String {
        let rules = &self.rules;
        let mut text = String::new();
        let quoted = |value: &str| Value::from(value).to_string();
        let mut line = |key: &str, value: String| {
            // Writing to a string does not fail.
            let _ =
                if value.is_empty() { writeln!(text, "{key}") } else { writeln!(text, "{key} = {value}") };
        };
        line("brokers", quoted(&self.brokers));
        line("group", quoted(&self.group));
        line(
            "topics",
            Value::from(rules.topics.iter().map(ToString::to_string).collect::<Vec<_>>()).to_string(),
        );
        line("dead_letter_topic", quoted(&rules.dead_letter_topic));
        if let Some(target) = &rules.target {
            line("target", quoted(target));
        }
        line("max_in_flight", self.max_in_flight.to_string());
        if let Some(http) = &self.http {
            line("http", quoted(&http.to_string()));
        }
        line("progress_interval_ms", self.progress_interval.as_millis().to_string());
        line("[backoff]", String::new());
        line("delays_ms", format!("{:?}", self.delays));
        line("jitter", quoted(self.jitter));
        line("max_attempts", rules.max_attempts.to_string());
        if let Some(age) = rules.max_age {
            line("max_age_ms", age.as_millis().to_string());
        }
        line("[headers]", String::new());
        let mut names = rules.names.clone();
        for (key, name) in fields(&mut names) {
            line(key, quoted(name));
        }
        line("[kafka]", String::new());
        for setting in &self.kafka {
            line(&quoted(&setting.key), quoted(&setting.value));
        }
        line("# and what the relay sets:", String::new());
        for (key, value) in defaults {
            if !self.kafka.iter().any(|setting| setting.key == key) {
                line(&quoted(key), quoted(value));
            }
        }
        text
    }
}

/// The text that was read, which knows where each thing stands.
struct Lines<'a>(&'a str);

impl Lines<'_> {
    fn line<T>(&self, at: &Spanned<T>) -> usize {
        line_of(self.0, at.span().start)
    }

    fn refuse<T>(&self, is_wrong: bool, at: &Spanned<T>, what: impl FnOnce() -> String) -> Result<(), Wrong> {
        match is_wrong {
            true => Err(Wrong { line: Some(self.line(at)), what: what() }),
            false => Ok(()),
        }
    }

    fn not_empty(&self, key: &str, value: &Spanned<String>) -> Result<String, Wrong> {
        self.refuse(value.get_ref().trim().is_empty(), value, || format!("{key}: it is empty"))?;
        Ok(value.get_ref().clone())
    }

    fn topic(&self, key: &str, value: &Spanned<String>) -> Result<String, Wrong> {
        let name = value.get_ref();
        self.refuse(!is_topic(name), value, || format!("{key}: no name of a topic: {name:?}"))?;
        Ok(name.clone())
    }

    fn topics(&self, topics: &Spanned<Vec<Spanned<String>>>) -> Result<Vec<Arc<str>>, Wrong> {
        self.refuse(topics.get_ref().is_empty(), topics, || "topics: there is none".to_owned())?;
        let mut names: Vec<Arc<str>> = Vec::new();
        for topic in topics.get_ref() {
            let name = self.topic("topics", topic)?;
            self.refuse(names.iter().any(|other| **other == *name), topic, || {
                format!("topics: {name} is there twice")
            })?;
            names.push(name.into());
        }
        Ok(names)
    }

    fn at_least_one<T: PartialEq + From<u8>>(
        &self,
        key: &str,
        value: Option<Spanned<T>>,
        default: T,
    ) -> Result<T, Wrong> {
        let Some(value) = value else { return Ok(default) };
        self.refuse(*value.get_ref() == T::from(0), &value, || format!("{key}: it must be at least 1"))?;
        Ok(value.into_inner())
    }

    fn backoff(&self, table: &BackoffTable) -> Result<(Backoff, Vec<u64>, &'static str), Wrong> {
        let delays = match &table.delays_ms {
            None => DELAYS.to_vec(),
            Some(delays) => {
                self.refuse(delays.get_ref().is_empty(), delays, || {
                    "backoff.delays_ms: there is none".to_owned()
                })?;
                delays.get_ref().clone()
            }
        };
        if let Some(attempts) = &table.max_attempts {
            self.refuse(*attempts.get_ref() == 0, attempts, || {
                "backoff.max_attempts: it must be at least 1".to_owned()
            })?;
        }
        let (name, jitter) = match &table.jitter {
            None => JITTERS[0],
            Some(name) => {
                let known = JITTERS.into_iter().find(|(jitter, _)| jitter == name.get_ref());
                let unknown = || Wrong {
                    line: Some(self.line(name)),
                    what: format!(
                        "backoff.jitter: {:?} is none of none, full, equal and decorrelated",
                        name.get_ref()
                    ),
                };
                known.ok_or_else(unknown)?
            }
        };
        let table: Vec<_> = delays.iter().copied().map(Duration::from_millis).collect();
        Ok((Backoff::table(table).jitter(jitter), delays, name))
    }

    fn names(&self, table: &BTreeMap<Spanned<String>, Spanned<String>>) -> Result<Names, Wrong> {
        let mut names = Names::default();
        for (key, name) in table {
            let mut known = fields(&mut names);
            let Some((_, field)) = known.iter_mut().find(|(known, _)| known == key.get_ref()) else {
                let known = known.map(|(known, _)| known).join(", ");
                let what = format!("headers.{}: unknown key: there are {known}", key.get_ref());
                return Err(Wrong { line: Some(self.line(key)), what });
            };
            **field = self.not_empty(&format!("headers.{}", key.get_ref()), name)?;
        }
        // Each with its own, or one would be taken for the other.
        let all = fields(&mut names).map(|(_, name)| name.clone());
        for (key, name) in table {
            self.refuse(all.iter().filter(|other| *other == name.get_ref()).count() > 1, name, || {
                format!("headers.{}: another header is called {:?} too", key.get_ref(), name.get_ref())
            })?;
        }
        Ok(names)
    }

    fn address(&self, http: &Spanned<String>) -> Result<SocketAddr, Wrong> {
        let text = http.get_ref();
        let address = text.to_socket_addrs().ok().and_then(|mut all| all.next());
        let what = || format!("http: no address of the form HOST:PORT: {text:?}");
        address.ok_or_else(|| Wrong { line: Some(self.line(http)), what: what() })
    }

    fn kafka(&self, table: &BTreeMap<Spanned<String>, Spanned<Value>>) -> Result<Vec<Setting>, Wrong> {
        let mut settings = Vec::new();
        for (key, value) in table {
            let name = key.get_ref();
            let ours = OURS.iter().find(|(ours, _)| ours == name);
            let line = self.line(key);
            let wrong = |why: &str| Wrong { line: Some(line), what: format!("kafka.{name:?}: {why}") };
            if let Some((_, why)) = ours {
                return Err(wrong(&format!("it is not to be set: {why}")));
            }
            let value = match value.get_ref() {
                Value::String(text) => text.clone(),
                Value::Integer(number) => number.to_string(),
                Value::Float(number) => number.to_string(),
                Value::Boolean(is_set) => is_set.to_string(),
                _ => return Err(wrong("it must be a string, a number or true or false")),
            };
            settings.push(Setting { key: name.clone(), value, line });
        }
        settings.sort_by_key(|setting| setting.line);
        Ok(settings)
    }
}

impl Wrong {
    /// The parser says what, and the text says at which key.
    fn of_toml(text: &str, error: &toml::de::Error) -> Self {
        let message = error.message().replace('\n', ", ");
        match error.span().filter(|_| !message.starts_with("missing field")) {
            None => Wrong { line: None, what: message },
            Some(span) => {
                let line = line_of(text, span.start);
                match key_of(text, line) {
                    Some(key) => Wrong { line: Some(line), what: format!("{key}: {message}") },
                    None => Wrong { line: Some(line), what: message },
                }
            }
        }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// The keys of `[headers]`, and their names.
fn fields(names: &mut Names) -> [(&'static str, &mut String); 8] {
    [
        ("attempt", &mut names.attempt),
        ("due", &mut names.due),
        ("target", &mut names.target),
        ("first", &mut names.first),
        ("reason", &mut names.reason),
        ("topic", &mut names.topic),
        ("partition", &mut names.partition),
        ("offset", &mut names.offset),
    ]
}

fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

/// The key at a line, with that of its table: that of the last line up to there which begins one.
fn key_of(text: &str, line: usize) -> Option<String> {
    let mut above = text.lines().take(line).map(str::trim).collect::<Vec<_>>().into_iter().rev().peekable();
    let is_header = |line: &str| line.starts_with('[') && line.ends_with(']') && !line.contains([',', '"']);
    let header = |line: &str| line.trim_matches(['[', ']']).trim().to_owned();
    if above.peek().is_some_and(|line| is_header(line)) {
        return above.next().map(header);
    }
    let key = above.find_map(|line| line.split_once('=').map(|(key, _)| key.trim().to_owned()))?;
    match above.find(|line| is_header(line)) {
        Some(table) => Some(format!("{}.{key}", header(table))),
        None => Some(key),
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
