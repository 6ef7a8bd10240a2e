//! What the command line says.

mod conflicts;
pub(crate) mod values;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::time::Duration;

use ixion_broker::Config;
use lexopt::prelude::{Long, Short, Value};

use crate::load::{self, Load};
use values::Options;

/// What everybody must know first.
pub(crate) const WARNING: &str =
    "ixion-broker keeps everything in memory: a restart loses it. An example, not for production.";

pub(crate) const HELP: &str = "\
ixion-broker keeps everything in memory: a restart loses it. An example, not for production.

usage: ixion-broker serve [options]
       ixion-broker follow --leader ADDRESS --node N [options]
       ixion-broker demo [--seconds N]
       ixion-broker load [polls] [members] [faults] [hostile] [options]

serve listens for Kafka clients. follow is a follower of it in a process of its own. demo starts a broker on free ports,
shows each kind of delayed operation beside a load, checks every answer and ends with a table; it fails if an answer is wrong
or early, or if the books do not balance. load starts brokers in processes of their own and puts them under load, all four
programs if none is named, and ends each with a table; it fails if an answer is wrong or early, or if something is kept that
is over:
  polls      many fetch requests that wait at once
  members    many members of groups that beat, some of which fall silent
  faults     producers with acks=all, while a follower is killed and another is stopped, again and again
  hostile    clients that send junk, or very slowly, or do not read, beside one that behaves

options of demo:
  --seconds N                     how long the load runs, at least 5  [20]

options of load:
  --short                         all of it in little, some seconds each
  --polls N                       how many wait at once, each on a connection of its own  [10000]
  --partitions N                  partitions of their topic, which share them evenly  [100]
  --wait-ms MS                    how long each waits, at least 500  [20000]
  --replicas N                    nodes of their broker, followers included  [3]
  --groups N                      groups of members, of ten each  [1000]
  --rounds N                      how often a follower is killed and another stopped  [5]
  --connections N                 hostile clients of each kind  [50]

options of serve:
  --listen ADDRESS                where clients connect            [127.0.0.1:9092]
  --control ADDRESS               where the control port listens   [none]
  --http ADDRESS                  where the live page and Prometheus's /metrics are, a loopback address  [none]
  --replicas N                    nodes in all: one leader and N - 1 followers  [3]
  --follower ADDRESS              where node 2 listens, if it is a process of its own; once more for node 3, and so on;
                                  then these and the leader are all nodes, and --replicas is left out
  --partitions N                  partitions of a topic whose creator does not say  [3]
  --no-auto-create                asking for an unknown topic does not create it
  --min-insync-replicas N         replicas that acks=all needs in sync  [1]
  --replica-lag-time-max-ms MS    how long a follower may lag before it leaves the in-sync set  [30000]
  --replica-fetch-wait-ms MS      how long a follower's fetch may wait, at most a third of the lag  [500]
  --retention-bytes N             bytes kept per partition  [268435456]
  --retention-total-bytes N       bytes kept in all  [1073741824]
  --max-request-bytes N           the largest request that is read  [104857600]
  --max-message-bytes N           the largest record batch that is accepted  [1048588]
  --connections-max-idle-ms MS    how long a connection may be without a request  [600000]
  --max-connections N             the most connections of a node; one more is closed at once  [20000]
  --transfer-timeout-ms MS        how long a request may take to come, and its reply to be taken  [30000]
  --buffer-total-bytes N          bytes of requests that come and replies that go, beyond 64 KiB of each  [268435456]
  --group-initial-rebalance-delay-ms MS   how long an empty group waits for more members  [3000]
  --group-min-session-timeout-ms MS       the shortest session that a member may have  [6000]
  --group-max-session-timeout-ms MS       the longest session that a member may have  [1800000]
  --group-max-size N                      the most members of a group; one more is answered 81  [10000]
  --max-members N                         the most members of all groups; one more is answered 81  [100000]
  --max-groups N                          the most groups; who needs one more is answered 44  [10000]

options of follow, besides --replica-fetch-wait-ms and those that limit connections and their requests:
  --leader ADDRESS                where the leader serves
  --node N                        the follower's number: 2 for the leader's first --follower, and so on
  --listen ADDRESS                that --follower

An ADDRESS is HOST:PORT. Port 0 is a free port, where another process need not know it.

  -h, --help                      print this
  -V, --version                   print the version

commands of the control port, one a line: pause [node], resume [node], stats
";

const DEMO_SECONDS: u64 = 20;
/// Less has no time for all that there is to be shown.
const MIN_DEMO_SECONDS: u64 = 5;
/// An hour: the broker keeps everything in memory.
const MAX_DEMO_SECONDS: u64 = 3600;
/// Polls that wait for less are over before all of them have come.
pub(crate) const MIN_POLL_MS: u64 = 500;
/// A broker in one address has no more ports for connections.
pub(crate) const MAX_POLLS: usize = 65_535;
/// Nodes of a broker; followers in its process take a listener and a task each, and all fetch all the time.
pub(crate) const MAX_NODES: u16 = 100;
/// The most partitions that a broker has, of all topics together.
pub(crate) const MAX_PARTITIONS: i32 = 10_000;
/// The protocol has 31 bits for the length of a frame.
const MAX_FRAME_BYTES: usize = i32::MAX as usize;
/// What a follower still takes in one piece.
const MAX_BATCH_BYTES: usize = 100 << 20;

/// What is to be done. A command has a variant here, an arm in [`parse`] and an arm in `main`.
#[derive(Debug)]
pub(crate) enum Command {
    Help,
    Version,
    Serve(Box<Config>),
    Demo(Duration),
    Load(Box<Load>),
    Follow { leader: SocketAddr, node: u16, config: Box<Config> },
}

/// Reads the command line, the program's name first.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, lexopt::Error> {
    let mut parser = lexopt::Parser::from_iter(args);
    match parser.next()? {
        None => Err("a command is missing: serve, follow, demo or load".into()),
        Some(Short('h') | Long("help")) => Ok(Command::Help),
        Some(Short('V') | Long("version")) => Ok(Command::Version),
        Some(Value(command)) if command == "help" => Ok(Command::Help),
        Some(Value(command)) if command == "serve" => serve(&mut parser),
        Some(Value(command)) if command == "follow" => follow(&mut parser),
        Some(Value(command)) if command == "demo" => demo(&mut parser),
        Some(Value(command)) if command == "load" => load::parse(&mut parser),
        Some(Value(command)) => {
            Err(format!("unknown command {command:?}: there are serve, follow, demo and load").into())
        }
        Some(option) => Err(option.unexpected()),
    }
}

fn serve(parser: &mut lexopt::Parser) -> Result<Command, lexopt::Error> {
    let mut config = Config::default();
    let mut options = Options::new(parser);
    while let Some(option) = options.next()? {
        match option.as_str() {
            "help" => return Ok(Command::Help),
            "version" => return Ok(Command::Version),
            "listen" => config.listen = options.address()?,
            "control" => config.control = Some(options.address()?),
            "http" => config.http = Some(options.address()?),
            "replicas" => config.replicas = options.number(1..=MAX_NODES)?,
            "follower" => config.followers.push(options.remote_address()?),
            "partitions" => config.default_partitions = options.number(1..=MAX_PARTITIONS)?,
            "no-auto-create" => config.auto_create_topics = false,
            "min-insync-replicas" => config.min_insync_replicas = options.number(1..=MAX_NODES)?,
            "replica-lag-time-max-ms" => config.replica_lag_time_max = options.milliseconds(1)?,
            "replica-fetch-wait-ms" => config.replica_fetch_wait = options.milliseconds(1)?,
            "connections-max-idle-ms" => config.connections_max_idle = options.milliseconds(1)?,
            "group-initial-rebalance-delay-ms" => {
                config.group_initial_rebalance_delay = options.milliseconds(0)?;
            }
            "group-min-session-timeout-ms" => config.group_min_session_timeout = options.milliseconds(1)?,
            "group-max-session-timeout-ms" => config.group_max_session_timeout = options.milliseconds(1)?,
            "group-max-size" => config.group_max_size = options.number(1..=usize::MAX)?,
            "max-members" => config.max_members = options.number(1..=usize::MAX)?,
            "max-groups" => config.max_groups = options.number(1..=usize::MAX)?,
            "max-connections" => config.max_connections = options.number(1..=usize::MAX)?,
            "transfer-timeout-ms" => config.transfer_timeout = options.milliseconds(1)?,
            "buffer-total-bytes" => config.buffer_total_bytes = options.number(1..=u64::MAX)?,
            "retention-bytes" => config.retention_bytes = options.number(1..=u64::MAX)?,
            "retention-total-bytes" => config.retention_total_bytes = options.number(1..=u64::MAX)?,
            "max-request-bytes" => config.max_request_bytes = options.number(1..=MAX_FRAME_BYTES)?,
            "max-message-bytes" => config.max_message_bytes = options.number(1..=MAX_BATCH_BYTES)?,
            _ => return Err(options.unknown()),
        }
    }
    let replicas = options.has("replicas").then_some(config.replicas);
    conflicts::check_serve(&config, replicas)?;
    Ok(Command::Serve(Box::new(config)))
}

fn follow(parser: &mut lexopt::Parser) -> Result<Command, lexopt::Error> {
    let mut config = Config::default();
    let (mut leader, mut node) = (None, None);
    let mut options = Options::new(parser);
    while let Some(option) = options.next()? {
        match option.as_str() {
            "help" => return Ok(Command::Help),
            "version" => return Ok(Command::Version),
            "leader" => leader = Some(options.remote_address()?),
            "node" => node = Some(options.number(2..=MAX_NODES)?),
            "listen" => config.listen = options.address()?,
            "replica-fetch-wait-ms" => config.replica_fetch_wait = options.milliseconds(1)?,
            "connections-max-idle-ms" => config.connections_max_idle = options.milliseconds(1)?,
            "max-request-bytes" => config.max_request_bytes = options.number(1..=MAX_FRAME_BYTES)?,
            "max-connections" => config.max_connections = options.number(1..=usize::MAX)?,
            "transfer-timeout-ms" => config.transfer_timeout = options.milliseconds(1)?,
            "buffer-total-bytes" => config.buffer_total_bytes = options.number(1..=u64::MAX)?,
            _ => return Err(options.unknown()),
        }
    }
    let leader = leader.ok_or("follow needs --leader ADDRESS, where the leader serves")?;
    let node =
        node.ok_or("follow needs --node N: 2 for the first --follower that the leader was told, and so on")?;
    if !options.has("listen") {
        return Err("follow needs --listen ADDRESS, the same that the leader was told with --follower".into());
    }
    conflicts::check_follow(leader, &config)?;
    Ok(Command::Follow { leader, node, config: Box::new(config) })
}

fn demo(parser: &mut lexopt::Parser) -> Result<Command, lexopt::Error> {
    let mut seconds = DEMO_SECONDS;
    let mut options = Options::new(parser);
    while let Some(option) = options.next()? {
        match option.as_str() {
            "help" => return Ok(Command::Help),
            "version" => return Ok(Command::Version),
            "seconds" => seconds = options.number(MIN_DEMO_SECONDS..=MAX_DEMO_SECONDS)?,
            _ => return Err(options.unknown()),
        }
    }
    Ok(Command::Demo(Duration::from_secs(seconds)))
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
        let line = "serve --listen 127.0.0.1:1 --control 127.0.0.1:2 --replicas 3 --partitions 7 --no-auto-create \
                    --min-insync-replicas 2 --replica-lag-time-max-ms 40 --replica-fetch-wait-ms 50 \
                    --retention-bytes 60 --retention-total-bytes 70 --max-request-bytes 90 --max-message-bytes 80 \
                    --group-initial-rebalance-delay-ms 100 --group-min-session-timeout-ms 110 \
                    --group-max-session-timeout-ms 120 --group-max-size 130 --connections-max-idle-ms 140 \
                    --follower 127.0.0.1:3 --follower 127.0.0.1:4 --max-connections 150 --transfer-timeout-ms 160 \
                    --buffer-total-bytes 170 --max-members 180 --max-groups 190 --http 127.0.0.1:8";
        let Ok(Command::Serve(config)) = parse_line(line) else { panic!("it is a right line") };
        assert_eq!(config.listen, SocketAddr::from(([127, 0, 0, 1], 1)));
        assert_eq!(config.control, Some(SocketAddr::from(([127, 0, 0, 1], 2))));
        assert_eq!(config.http, Some(SocketAddr::from(([127, 0, 0, 1], 8))));
        assert_eq!((config.replicas, config.default_partitions, config.auto_create_topics), (3, 7, false));
        assert_eq!(config.min_insync_replicas, 2);
        assert_eq!(config.replica_lag_time_max, Duration::from_millis(40));
        assert_eq!(config.replica_fetch_wait, Duration::from_millis(50));
        assert_eq!((config.retention_bytes, config.retention_total_bytes), (60, 70));
        assert_eq!((config.max_request_bytes, config.max_message_bytes), (90, 80));
        assert_eq!(config.group_initial_rebalance_delay, Duration::from_millis(100));
        assert_eq!(config.group_min_session_timeout, Duration::from_millis(110));
        assert_eq!(config.group_max_session_timeout, Duration::from_millis(120));
        assert_eq!((config.group_max_size, config.connections_max_idle), (130, Duration::from_millis(140)));
        assert_eq!(config.followers, [3, 4].map(|port| SocketAddr::from(([127, 0, 0, 1], port))));
        assert_eq!((config.max_connections, config.transfer_timeout), (150, Duration::from_millis(160)));
        assert_eq!((config.buffer_total_bytes, config.max_members, config.max_groups), (170, 180, 190));
        let follow = "follow --leader 127.0.0.1:5 --node 3 --listen 127.0.0.1:6 --replica-fetch-wait-ms 7 \
                      --connections-max-idle-ms 8 --max-request-bytes 9 --max-connections 10 \
                      --transfer-timeout-ms 11 --buffer-total-bytes 12";
        let Ok(Command::Follow { leader, node, config }) = parse_line(follow) else {
            panic!("it is a right line")
        };
        assert_eq!((leader.port(), node, config.listen.port(), config.max_request_bytes), (5, 3, 6, 9));
        assert_eq!(config.replica_fetch_wait, Duration::from_millis(7));
        assert_eq!(config.connections_max_idle, Duration::from_millis(8));
        assert_eq!((config.max_connections, config.buffer_total_bytes), (10, 12));
        assert_eq!(config.transfer_timeout, Duration::from_millis(11));
        let Ok(Command::Demo(length)) = parse_line("demo --seconds 9") else { panic!("it is a right line") };
        assert_eq!(length, Duration::from_secs(9));
        // Those of load are tried where they are read.
        let elsewhere = ["--short", "--polls", "--wait-ms", "--groups", "--rounds", "--connections"];
        let options: Vec<&str> = line
            .split_whitespace()
            .chain(["--seconds", "--leader", "--node"])
            .chain(elsewhere)
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
            ("--bogus", "--bogus"),
            ("-q", "-q"),
            ("serve --listen", "--listen"),
            ("serve --listen nowhere", "HOST:PORT"),
            ("serve --control here", "--control"),
            ("serve --replicas 0", "--replicas takes a whole number from 1 to 100"),
            ("serve --replicas x", "--replicas"),
            ("serve --follower 127.0.0.1:0", "--follower"),
            ("serve --partitions 10001", "--partitions"),
            ("serve --min-insync-replicas 0", "--min-insync-replicas"),
            ("serve --replica-lag-time-max-ms 0", "--replica-lag-time-max-ms"),
            ("serve --retention-bytes 0", "--retention-bytes"),
            ("serve --group-max-size 0", "--group-max-size"),
            ("serve --max-request-bytes -1", "--max-request-bytes"),
            ("serve --max-message-bytes 104857601", "--max-message-bytes"),
            ("serve --no-auto-create=yes", "--no-auto-create"),
            ("serve --replicas 2 --replicas 3", "twice"),
            ("serve --bogus", "--bogus"),
            ("serve extra", "extra"),
            ("follow --node 2 --listen 127.0.0.1:2", "--leader"),
            ("follow --leader 127.0.0.1:1 --listen 127.0.0.1:2", "--node"),
            ("follow --leader 127.0.0.1:1 --node 1 --listen 127.0.0.1:2", "--node"),
            ("follow --leader 127.0.0.1:1 --node 2", "--listen"),
            ("follow --leader 127.0.0.1:0 --node 2 --listen 127.0.0.1:2", "--leader"),
            ("follow --leader 127.0.0.1:1 --node 2 --replicas 3", "--replicas"),
            ("demo --seconds soon", "--seconds"),
            ("demo --seconds 4", "--seconds"),
            ("load --polls 0", "--polls"),
            ("load --wait-ms 5000000000", "--wait-ms"),
            ("load --wait-ms 10", "--wait-ms"),
        ] {
            let error = parse_line(line).expect_err(line);
            assert!(error.contains(word), "{line:?}: {error}");
        }
    }

    fn many_followers(many: u16) -> String {
        (1..=many).fold("serve".to_owned(), |line, port| format!("{line} --follower 127.0.0.1:{port}"))
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        let followers = "--follower 127.0.0.1:2 --follower 127.0.0.1:3";
        for (line, words) in [
            (format!("serve --replicas 2 {followers}"), ["--replicas 2", "--follower"]),
            (format!("serve {followers} --replicas 4"), ["--replicas 4", "--follower"]),
            (format!("serve --listen 127.0.0.1:3 {followers}"), ["--listen", "--follower"]),
            (format!("serve --control 127.0.0.1:3 {followers}"), ["--control", "--follower"]),
            (
                format!("serve {followers} --follower 127.0.0.1:2"),
                ["--follower and --follower", "127.0.0.1:2"],
            ),
            ("serve --control 127.0.0.1:9092".to_owned(), ["--control", "--listen"]),
            ("serve --http 127.0.0.1:1 --control 127.0.0.1:1".to_owned(), ["--http", "--control"]),
            (format!("serve --http 127.0.0.1:2 {followers}"), ["--http", "--follower"]),
            (many_followers(100), ["--follower", "101 nodes"]),
            ("serve --min-insync-replicas 4".to_owned(), ["--min-insync-replicas 4", "3 nodes"]),
            (format!("serve --min-insync-replicas 4 {followers}"), ["--min-insync-replicas 4", "3 nodes"]),
            ("serve --group-max-session-timeout-ms 5999".to_owned(), ["--group-min-", "--group-max-"]),
            ("serve --max-request-bytes 1048587".to_owned(), ["--max-message-bytes", "--max-request-bytes"]),
            (
                "serve --buffer-total-bytes 104857599".to_owned(),
                ["--max-request-bytes", "--buffer-total-bytes"],
            ),
            ("serve --max-connections 2".to_owned(), ["--max-connections 2", "2 followers"]),
            ("serve --http 127.0.0.1:9092".to_owned(), ["--listen", "--http"]),
            (
                "follow --leader 127.0.0.1:1 --node 2 --listen 127.0.0.1:2 --buffer-total-bytes 9".to_owned(),
                ["--max-request-bytes", "--buffer-total-bytes"],
            ),
            (
                "follow --leader 127.0.0.1:1 --node 2 --listen 127.0.0.1:0".to_owned(),
                ["--listen", "--follower"],
            ),
            (
                "follow --leader 127.0.0.1:1 --node 2 --listen 127.0.0.1:1".to_owned(),
                ["--leader", "--listen"],
            ),
        ] {
            let error = parse_line(&line).expect_err(&line);
            assert!(words.iter().all(|word| error.contains(word)), "{line:?}: {error}");
        }
        assert!(matches!(parse_line(&many_followers(99)), Ok(Command::Serve(_))));
        let agreeing =
            format!("serve --replicas 3 {followers} --min-insync-replicas 3 --control 127.0.0.1:0");
        assert!(matches!(parse_line(&agreeing), Ok(Command::Serve(_))));
    }

    #[test]
    fn help_begins_with_the_warning() {
        assert!(HELP.starts_with(WARNING));
        assert!(matches!(parse_line("--help"), Ok(Command::Help)));
        assert!(matches!(parse_line("help"), Ok(Command::Help)));
        assert!(matches!(parse_line("serve -h"), Ok(Command::Help)));
        assert!(matches!(parse_line("-V"), Ok(Command::Version)));
    }
}
