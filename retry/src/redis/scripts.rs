//! The scripts, each of which is one step; and how what they take and give is written.

use crate::item::{Failure, ItemId, Receipt};
use ixion::Tick;
use redis::{FromRedisValue, ParsingError, Script, ScriptInvocation, Value};
use std::time::Duration;

/// The scripts of a queue.
#[derive(Debug)]
pub(super) struct Scripts {
    keys: Vec<String>,
    channel: String,
    /// Who asks: what is published bears its name.
    me: String,
    pub(super) push: Script,
    pub(super) take: Script,
    pub(super) settle: Script,
    pub(super) overdue: Script,
    pub(super) next: Script,
    pub(super) dead: Script,
    pub(super) redrive: Script,
    pub(super) purge: Script,
    pub(super) counts: Script,
}

/// The tables, and what lies there, in the order in which the scripts know them.
const TABLES: [(&str, &str); 8] = [
    ("id", "string"),
    ("items", "hash"),
    ("payloads", "hash"),
    ("histories", "hash"),
    ("waiting", "zset"),
    ("leased", "zset"),
    ("dead", "zset"),
    ("refused", "string"),
];

/// For a script that adds: a server that is full refuses it before it has begun.
const ADDS: &str = "";
/// For a script that changes what is there: that goes on when the server is full, or nothing would ever leave it.
const CHANGES: &str = " flags=allow-oom";
/// For a script that changes nothing.
const LOOKS: &str = " flags=no-writes";

/// The keys of a queue, and what lies there.
pub(super) fn keys(name: &str) -> Vec<(String, &'static str)> {
    TABLES.iter().map(|(table, kind)| (format!("{{{name}}}:{table}"), *kind)).collect()
}

/// The channel of a queue.
pub(super) fn channel(name: &str) -> String {
    format!("{{{name}}}:changed")
}

impl Scripts {
    pub(super) fn new(name: &str, me: String) -> Self {
        let script = |flags, body: &str| {
            Script::new(&format!("#!lua{flags}\n{}{body}", include_str!("lua/shared.lua")))
        };
        Scripts {
            keys: keys(name).into_iter().map(|(key, _)| key).collect(),
            channel: channel(name),
            me,
            push: script(ADDS, include_str!("lua/push.lua")),
            take: script(CHANGES, include_str!("lua/take.lua")),
            settle: script(CHANGES, include_str!("lua/settle.lua")),
            overdue: script(LOOKS, include_str!("lua/overdue.lua")),
            next: script(LOOKS, include_str!("lua/next.lua")),
            dead: script(LOOKS, include_str!("lua/dead.lua")),
            redrive: script(CHANGES, include_str!("lua/redrive.lua")),
            purge: script(CHANGES, include_str!("lua/purge.lua")),
            counts: script(LOOKS, include_str!("lua/counts.lua")),
        }
    }

    /// Begins a call of one of the scripts.
    pub(super) fn call<'a>(&self, script: &'a Script) -> ScriptInvocation<'a> {
        let mut call = script.prepare_invoke();
        call.key(&self.keys).arg(&self.channel).arg(&self.me);
        call
    }
}

/// A time or an id as the scripts know them: in their order also as text.
pub(super) fn digits(number: u64) -> String {
    format!("{number:020}")
}

/// A delay is nothing but kept.
pub(super) fn delay(delay: Duration) -> String {
    format!("{}.{:09}", delay.as_secs(), delay.subsec_nanos())
}

/// And so is a failure.
pub(super) fn failure(failure: &Failure) -> String {
    format!("{} {} {} {}", failure.round, failure.attempt, failure.at.as_u64(), failure.reason)
}

/// A receipt as a script gives it.
#[derive(Debug)]
pub(super) struct Given(pub(super) Receipt);

/// A failure as a script gives it.
#[derive(Debug)]
pub(super) struct Noted(pub(super) Failure);

type Fields = (u64, u64, u32, String, u32, u64);

impl FromRedisValue for Given {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let (id, delivery, attempt, delay, round, pushed): Fields = redis::from_redis_value(value)?;
        let previous = read_delay(&delay).ok_or_else(|| unreadable("delay", &delay))?;
        let (id, pushed) = (ItemId::from_u64(id), Tick::new(pushed));
        Ok(Given(Receipt { id, delivery, attempt, previous, round, pushed }))
    }
}

impl FromRedisValue for Noted {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let noted: String = redis::from_redis_value(value)?;
        Ok(Noted(read_failure(&noted).ok_or_else(|| unreadable("failure", &noted))?))
    }
}

fn read_delay(delay: &str) -> Option<Duration> {
    let (seconds, nanos) = delay.split_once('.')?;
    let nanos = nanos.parse().ok().filter(|nanos| *nanos < 1_000_000_000)?;
    Some(Duration::new(seconds.parse().ok()?, nanos))
}

fn read_failure(noted: &str) -> Option<Failure> {
    let mut fields = noted.splitn(4, ' ');
    let (round, attempt, at) = (fields.next()?, fields.next()?, fields.next()?);
    Some(Failure {
        round: round.parse().ok()?,
        attempt: attempt.parse().ok()?,
        at: Tick::new(at.parse().ok()?),
        reason: fields.next()?.to_owned(),
    })
}

fn unreadable(what: &str, text: &str) -> ParsingError {
    format!("no {what} that this store has written: {text:?}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_and_failures_come_back_as_they_were() {
        for given in [Duration::ZERO, Duration::new(3, 7), Duration::MAX] {
            assert_eq!(read_delay(&delay(given)), Some(given));
        }
        for reason in ["", " two  words ", "a\nline"] {
            let noted = Failure { round: 1, attempt: u32::MAX, at: Tick::MAX, reason: reason.to_owned() };
            assert_eq!(read_failure(&failure(&noted)), Some(noted));
        }
    }

    #[test]
    fn what_no_store_has_written_is_refused() {
        assert_eq!((read_delay("1"), read_delay("1.x"), read_failure("1 2 3")), (None, None, None));
        assert_eq!(read_delay("18446744073709551615.1000000000"), None, "no duration");
    }

    #[test]
    fn digits_lie_in_the_order_of_the_numbers() {
        let numbers = [0, 9, 10, (1 << 53) + 1, u64::MAX];
        assert!(numbers.map(digits).is_sorted());
        assert!(numbers.iter().all(|number| digits(*number).len() == 20));
    }
}
