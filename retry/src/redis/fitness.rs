//! What a server must be, to keep a queue: asked with each new connection, in one turn.

use super::connections::is_answer;
use redis::{Connection, RedisResult, Value, from_redis_value};
use std::collections::HashMap;

/// Asks a server whether it can keep a queue, and whether the queue's keys are its.
pub(super) struct Fitness {
    /// The keys, and what lies there.
    keys: Vec<(String, &'static str)>,
    channel: String,
}

/// What a server takes in one argument, if it does not say so.
const MAX_BULK: usize = 512 << 20;
/// The first version whose scripts have flags.
const VERSION: u32 = 7;

impl Fitness {
    pub(super) fn new(keys: Vec<(String, &'static str)>, channel: String) -> Self {
        Fitness { keys, channel }
    }

    /// Returns how many bytes the server takes in one argument, or why it cannot keep the queue.
    pub(super) fn ask(&self, connection: &mut Connection) -> RedisResult<Result<usize, String>> {
        let mut questions = redis::pipe();
        for (key, _) in &self.keys {
            questions.cmd("TYPE").arg(key);
        }
        // Whether it may be done.
        questions.cmd("PUBLISH").arg(&self.channel).arg("");
        questions.cmd("INFO");
        questions.cmd("CONFIG").arg("GET").arg("proto-max-bulk-len");
        // One by one: the client would wait for each of them, also when the first does not come.
        connection.send_packed_command(&questions.get_packed_pipeline())?;
        let mut answer = || connection.recv_response().and_then(Value::extract_error);

        for (key, expected) in &self.keys {
            let found: String = from_redis_value(answer()?)?;
            if found != "none" && found != *expected {
                return Ok(Err(format!("the key {key:?} is another program's: it holds a {found}")));
            }
        }
        answer()?;
        // Some let nobody ask these. Then nothing is known against it.
        let info =
            asked(answer())?.and_then(|info| from_redis_value::<String>(info).ok()).unwrap_or_default();
        let limits =
            asked(answer())?.and_then(|limits| from_redis_value::<HashMap<String, usize>>(limits).ok());
        let max_bulk = limits.unwrap_or_default().into_values().next().unwrap_or(MAX_BULK);
        Ok(unfit(&info).map_or(Ok(max_bulk), Err))
    }
}

/// What a server has answered, or nothing if it was an error.
fn asked(answer: RedisResult<Value>) -> RedisResult<Option<Value>> {
    match answer {
        Err(error) if !is_answer(&error) => Err(error),
        answer => Ok(answer.ok()),
    }
}

/// Why a server that says this of itself cannot keep a queue.
fn unfit(info: &str) -> Option<String> {
    let field =
        |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    if let Some(version) = field("redis_version")
        && let Some(Ok(major)) = version.split('.').next().map(str::parse::<u32>)
        && major < VERSION
    {
        return Some(format!("its version is {version}, and {VERSION}.0 is needed"));
    }
    if field("role") == Some("slave") {
        return Some("it is a replica, which takes no writes: give the address of its master".into());
    }
    let policy = field("maxmemory_policy")?;
    policy.starts_with("allkeys").then(|| {
        format!("its maxmemory-policy is {policy}: it may throw away parts of a queue. Set it to noeviction")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_flags_for_scripts_is_too_old() {
        for old in ["6.2.14", "4.0.0", "6"] {
            let why = unfit(&format!("# Server\r\nredis_version:{old}\r\nrole:master\r\n")).unwrap();
            assert!(why.contains(old) && why.contains("7.0 is needed"), "{why}");
        }
        for new in ["7.0.0", "10.1", "unstable"] {
            assert_eq!(unfit(&format!("redis_version:{new}\r\nmaxmemory_policy:noeviction\r\n")), None);
        }
    }

    #[test]
    fn nothing_is_held_against_a_server_that_says_nothing() {
        assert_eq!(unfit(""), None);
    }
}
