//! What the command line says.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use ixion_broker::Config;
use lexopt::prelude::{Long, Short, Value, ValueExt};

use crate::demo::polls::Shape;

/// What everybody must know first.
pub(crate) const WARNING: &str =
    "ixion-broker keeps everything in memory: a restart loses it. An example, not for production.";

pub(crate) const HELP: &str = "\
ixion-broker keeps everything in memory: a restart loses it. An example, not for production.

usage: ixion-broker serve [options]
       ixion-broker follow --leader ADDRESS --node N [options]
       ixion-broker demo [--seconds N]
       ixion-broker polls [options]

serve listens for Kafka clients. follow is a follower of it in a process of its own. demo starts a broker on free ports
and its load, checks every answer and ends with a table; it fails if an answer is wrong or early, or if the books do not
balance. polls starts a broker in a process of its own, lets many polls wait there at once, and ends with a table of what they
take; it fails if an answer is wrong or early, or if something is kept of a poll that has ended.

options of demo:
  --seconds N                     how long the load runs, at least 2  [20]

options of polls:
  --polls N                       how many wait at once, each on a connection of its own  [10000]
  --partitions N                  partitions of their topic, which share them evenly  [100]
  --wait-ms MS                    how long each waits  [20000]
  --replicas N                    nodes of the broker, followers included  [3]

options of serve:
  --listen ADDRESS                where clients connect            [127.0.0.1:9092]
  --control ADDRESS               where the control port listens   [none]
  --replicas N                    nodes in all: one leader and N - 1 followers; not heard with --follower  [3]
  --follower ADDRESS              where node 2 listens, if it is a process of its own; once more for node 3, and so on
  --partitions N                  partitions of a topic whose creator does not say  [3]
  --no-auto-create                asking for an unknown topic does not create it
  --min-insync-replicas N         replicas that acks=all needs in sync  [1]
  --replica-lag-time-max-ms MS    how long a follower may lag before it leaves the in-sync set  [30000]
  --replica-fetch-wait-ms MS      how long a follower's fetch may wait  [500]
  --retention-bytes N             bytes kept per partition  [268435456]
  --retention-total-bytes N       bytes kept in all  [1073741824]
  --max-request-bytes N           the largest request that is read  [104857600]
  --max-message-bytes N           the largest record batch that is accepted  [1048588]
  --connections-max-idle-ms MS    how long a connection may be without a request  [600000]
  --group-initial-rebalance-delay-ms MS   how long an empty group waits for more members  [3000]
  --group-min-session-timeout-ms MS       the shortest session that a member may have  [6000]
  --group-max-session-timeout-ms MS       the longest session that a member may have  [1800000]
  --group-max-size N                      the most members of a group  [10000]

options of follow, besides --listen, --replica-fetch-wait-ms, --connections-max-idle-ms and --max-request-bytes:
  --leader ADDRESS                where the leader serves
  --node N                        the follower's number, from 2 on

  -h, --help                      print this
  -V, --version                   print the version

commands of the control port, one a line: pause [node], resume [node], stats
";

const DEMO_SECONDS: u64 = 20;
/// Less has no time for a follower to be paused and come back.
const MIN_DEMO_SECONDS: u64 = 2;
/// An hour: the broker keeps everything in memory.
const MAX_DEMO_SECONDS: u64 = 3600;

/// What is to be done. A command has a variant here, an arm in [`parse`] and an arm in `main`.
#[derive(Debug)]
pub(crate) enum Command {
    Help,
    Version,
    Serve(Box<Config>),
    Demo(Duration),
    Polls(Shape),
    Follow { leader: SocketAddr, node: u16, config: Box<Config> },
}

/// Reads the command line, the program's name first.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, lexopt::Error> {
    let mut parser = lexopt::Parser::from_iter(args);
    match parser.next()? {
        None => Err("a command is missing: serve, follow, demo or polls".into()),
        Some(Short('h') | Long("help")) => Ok(Command::Help),
        Some(Short('V') | Long("version")) => Ok(Command::Version),
        Some(Value(command)) if command == "serve" => serve(&mut parser),
        Some(Value(command)) if command == "follow" => follow(&mut parser),
        Some(Value(command)) if command == "demo" => demo(&mut parser),
        Some(Value(command)) if command == "polls" => polls(&mut parser),
        Some(Value(command)) => Err(format!("unknown command {command:?}").into()),
        Some(option) => Err(option.unexpected()),
    }
}

fn serve(parser: &mut lexopt::Parser) -> Result<Command, lexopt::Error> {
    let mut config = Config::default();
    while let Some(option) = parser.next()? {
        match option {
            Short('h') | Long("help") => return Ok(Command::Help),
            Short('V') | Long("version") => return Ok(Command::Version),
            Long("listen") => config.listen = value(parser, "--listen")?,
            Long("control") => config.control = Some(value(parser, "--control")?),
            Long("replicas") => config.replicas = at_least_one(parser, "--replicas")?,
            Long("follower") => config.followers.push(value(parser, "--follower")?),
            Long("partitions") => config.default_partitions = at_least_one(parser, "--partitions")?,
            Long("no-auto-create") => config.auto_create_topics = false,
            Long("min-insync-replicas") => {
                config.min_insync_replicas = at_least_one(parser, "--min-insync-replicas")?;
            }
            Long("replica-lag-time-max-ms") => {
                config.replica_lag_time_max = milliseconds(parser, "--replica-lag-time-max-ms")?;
            }
            Long("replica-fetch-wait-ms") => {
                config.replica_fetch_wait = milliseconds(parser, "--replica-fetch-wait-ms")?;
            }
            Long("connections-max-idle-ms") => {
                config.connections_max_idle = milliseconds(parser, "--connections-max-idle-ms")?;
            }
            Long("group-initial-rebalance-delay-ms") => {
                let delay = value(parser, "--group-initial-rebalance-delay-ms")?;
                config.group_initial_rebalance_delay = Duration::from_millis(delay);
            }
            Long("group-min-session-timeout-ms") => {
                config.group_min_session_timeout = milliseconds(parser, "--group-min-session-timeout-ms")?;
            }
            Long("group-max-session-timeout-ms") => {
                config.group_max_session_timeout = milliseconds(parser, "--group-max-session-timeout-ms")?;
            }
            Long("group-max-size") => config.group_max_size = value(parser, "--group-max-size")?,
            Long("retention-bytes") => config.retention_bytes = value(parser, "--retention-bytes")?,
            Long("retention-total-bytes") => {
                config.retention_total_bytes = value(parser, "--retention-total-bytes")?;
            }
            Long("max-request-bytes") => config.max_request_bytes = value(parser, "--max-request-bytes")?,
            Long("max-message-bytes") => config.max_message_bytes = value(parser, "--max-message-bytes")?,
            other => return Err(other.unexpected()),
        }
    }
    Ok(Command::Serve(Box::new(config)))
}

fn follow(parser: &mut lexopt::Parser) -> Result<Command, lexopt::Error> {
    let mut config = Config::default();
    let (mut leader, mut node) = (None, None);
    while let Some(option) = parser.next()? {
        match option {
            Short('h') | Long("help") => return Ok(Command::Help),
            Short('V') | Long("version") => return Ok(Command::Version),
            Long("leader") => leader = Some(value(parser, "--leader")?),
            Long("node") => node = Some(value(parser, "--node")?),
            Long("listen") => config.listen = value(parser, "--listen")?,
            Long("replica-fetch-wait-ms") => {
                config.replica_fetch_wait = milliseconds(parser, "--replica-fetch-wait-ms")?;
            }
            Long("connections-max-idle-ms") => {
                config.connections_max_idle = milliseconds(parser, "--connections-max-idle-ms")?;
            }
            Long("max-request-bytes") => config.max_request_bytes = value(parser, "--max-request-bytes")?,
            other => return Err(other.unexpected()),
        }
    }
    let leader = leader.ok_or("follow needs --leader")?;
    match node.ok_or("follow needs --node")? {
        node @ 2.. => Ok(Command::Follow { leader, node, config: Box::new(config) }),
        _ => Err("--node must be at least 2: node 1 leads".into()),
    }
}

fn demo(parser: &mut lexopt::Parser) -> Result<Command, lexopt::Error> {
    let mut seconds = DEMO_SECONDS;
    while let Some(option) = parser.next()? {
        match option {
            Short('h') | Long("help") => return Ok(Command::Help),
            Short('V') | Long("version") => return Ok(Command::Version),
            Long("seconds") => seconds = value(parser, "--seconds")?,
            other => return Err(other.unexpected()),
        }
    }
    if !(MIN_DEMO_SECONDS..=MAX_DEMO_SECONDS).contains(&seconds) {
        return Err(format!("--seconds must be {MIN_DEMO_SECONDS} to {MAX_DEMO_SECONDS}").into());
    }
    Ok(Command::Demo(Duration::from_secs(seconds)))
}

fn polls(parser: &mut lexopt::Parser) -> Result<Command, lexopt::Error> {
    let mut shape = Shape { polls: 10_000, partitions: 100, wait: Duration::from_secs(20), replicas: 3 };
    while let Some(option) = parser.next()? {
        match option {
            Short('h') | Long("help") => return Ok(Command::Help),
            Short('V') | Long("version") => return Ok(Command::Version),
            Long("polls") => shape.polls = usize::from(at_least_one::<u16>(parser, "--polls")?),
            Long("partitions") => shape.partitions = at_least_one(parser, "--partitions")?,
            Long("wait-ms") => {
                shape.wait = Duration::from_millis(at_least_one::<u32>(parser, "--wait-ms")?.into())
            }
            Long("replicas") => shape.replicas = at_least_one(parser, "--replicas")?,
            other => return Err(other.unexpected()),
        }
    }
    Ok(Command::Polls(shape))
}

/// The value of an option; what is wrong with it is said with the option's name.
fn value<T>(parser: &mut lexopt::Parser, option: &str) -> Result<T, lexopt::Error>
where
    T: FromStr,
    T::Err: Into<Box<dyn std::error::Error + Send + Sync + 'static>>,
{
    parser.value()?.parse().map_err(|error| format!("{option}: {error}").into())
}

/// A number of milliseconds, at least one.
fn milliseconds(parser: &mut lexopt::Parser, option: &str) -> Result<Duration, lexopt::Error> {
    at_least_one(parser, option).map(Duration::from_millis)
}

fn at_least_one<T>(parser: &mut lexopt::Parser, option: &str) -> Result<T, lexopt::Error>
where
    T: PartialOrd + From<u8> + FromStr,
    T::Err: Into<Box<dyn std::error::Error + Send + Sync + 'static>>,
{
    let value: T = value(parser, option)?;
    if value < T::from(1) { Err(format!("{option} must be at least 1").into()) } else { Ok(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Command, String> {
        let words = std::iter::once("ixion-broker").chain(line.split_whitespace());
        parse(words.map(OsString::from)).map_err(|error| error.to_string())
    }

    #[test]
    fn every_option_that_the_help_lists_is_read() {
        let line = "serve --listen 127.0.0.1:1 --control 127.0.0.1:2 --replicas 5 --partitions 7 --no-auto-create \
                    --min-insync-replicas 2 --replica-lag-time-max-ms 40 --replica-fetch-wait-ms 50 \
                    --retention-bytes 60 --retention-total-bytes 70 --max-request-bytes 80 --max-message-bytes 90 \
                    --group-initial-rebalance-delay-ms 100 --group-min-session-timeout-ms 110 \
                    --group-max-session-timeout-ms 120 --group-max-size 130 --connections-max-idle-ms 140 \
                    --follower 127.0.0.1:3 --follower 127.0.0.1:4";
        let Ok(Command::Serve(config)) = parse_line(line) else { panic!("it is a right line") };
        assert_eq!(config.listen, SocketAddr::from(([127, 0, 0, 1], 1)));
        assert_eq!(config.control, Some(SocketAddr::from(([127, 0, 0, 1], 2))));
        assert_eq!((config.replicas, config.default_partitions, config.auto_create_topics), (5, 7, false));
        assert_eq!(config.min_insync_replicas, 2);
        assert_eq!(config.replica_lag_time_max, Duration::from_millis(40));
        assert_eq!(config.replica_fetch_wait, Duration::from_millis(50));
        assert_eq!((config.retention_bytes, config.retention_total_bytes), (60, 70));
        assert_eq!((config.max_request_bytes, config.max_message_bytes), (80, 90));
        assert_eq!(config.group_initial_rebalance_delay, Duration::from_millis(100));
        assert_eq!(config.group_min_session_timeout, Duration::from_millis(110));
        assert_eq!(config.group_max_session_timeout, Duration::from_millis(120));
        assert_eq!((config.group_max_size, config.connections_max_idle), (130, Duration::from_millis(140)));
        assert_eq!(config.followers, [3, 4].map(|port| SocketAddr::from(([127, 0, 0, 1], port))));
        let follow = "follow --leader 127.0.0.1:5 --node 3 --listen 127.0.0.1:6 --replica-fetch-wait-ms 7 \
                      --connections-max-idle-ms 8 --max-request-bytes 9";
        let Ok(Command::Follow { leader, node, config }) = parse_line(follow) else {
            panic!("it is a right line")
        };
        assert_eq!((leader.port(), node, config.listen.port(), config.max_request_bytes), (5, 3, 6, 9));
        assert_eq!(config.replica_fetch_wait, Duration::from_millis(7));
        assert_eq!(config.connections_max_idle, Duration::from_millis(8));
        let Ok(Command::Demo(length)) = parse_line("demo --seconds 9") else { panic!("it is a right line") };
        assert_eq!(length, Duration::from_secs(9));
        let polls = "polls --polls 10 --partitions 11 --wait-ms 12 --replicas 13";
        let Ok(Command::Polls(shape)) = parse_line(polls) else { panic!("it is a right line") };
        let wait = Duration::from_millis(12);
        assert_eq!(shape, Shape { polls: 10, partitions: 11, wait, replicas: 13 });
        let options: Vec<&str> = line
            .split_whitespace()
            .chain(["--seconds", "--leader", "--node", "--polls", "--wait-ms"])
            .filter(|word| word.starts_with("--"))
            .collect();
        let listed = HELP.split([' ', '\n', ',', ':']).filter(|word| word.starts_with("--"));
        for option in listed.filter(|option| !matches!(*option, "--help" | "--version")) {
            assert!(options.contains(&option), "{option} is listed but not tried here");
        }
    }

    #[test]
    fn the_default_is_three_nodes_without_a_control_port() {
        let Ok(Command::Serve(config)) = parse_line("serve") else { panic!("it is a right line") };
        assert_eq!((config.replicas, config.control), (3, None));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, word) in [
            ("", "serve"),
            ("sreve", "sreve"),
            ("serve --listen", "--listen"),
            ("serve --listen nowhere", "nowhere"),
            ("serve --replicas 0", "--replicas"),
            ("serve --replicas x", "--replicas"),
            ("serve --max-request-bytes -1", "--max-request-bytes"),
            ("serve --control here", "--control"),
            ("follow --node 2", "--leader"),
            ("follow --leader 127.0.0.1:1", "--node"),
            ("follow --leader 127.0.0.1:1 --node 1", "--node"),
            ("demo --seconds soon", "--seconds"),
            ("polls --polls 0", "--polls"),
            ("polls --wait-ms 5000000000", "--wait-ms"),
            ("serve --bogus", "--bogus"),
            ("serve extra", "extra"),
            ("--bogus", "--bogus"),
        ] {
            let error = parse_line(line).expect_err(line);
            assert!(error.contains(word), "{line:?}: {error}");
        }
    }

    #[test]
    fn help_begins_with_the_warning() {
        assert!(HELP.starts_with(WARNING));
        assert!(matches!(parse_line("--help"), Ok(Command::Help)));
        assert!(matches!(parse_line("serve -h"), Ok(Command::Help)));
        assert!(matches!(parse_line("-V"), Ok(Command::Version)));
    }
}
