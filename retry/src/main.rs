//! The program: what the queue does when its workers are killed, and the relay between topics of a broker.

mod demo;
#[cfg(feature = "relay")]
mod relay;

use lexopt::prelude::{Long, Short, Value, ValueExt};
use std::error::Error;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

const HELP: &str = "\
ixion-retry: a retry queue with back-off and dead letter

usage: ixion-retry demo [--store FILE|URL] [--workers N] [--items N] [--kills N] [--seed N] [--lie]
       ixion-retry relay --config FILE [--check]

demo pushes items into a queue of its own, from worker processes that deliver them, let some fail and some hang, and kills these
processes with SIGKILL again and again. It ends with a table of what became of the items, and fails if one was lost, or was
delivered again after the queue had said that it was done.

options of demo:
  --store FILE  where the queue is kept, a file that is not there yet; it stays  [a temporary file]
  --store URL   or a Redis server, redis://HOST:PORT; the queue's keys are removed at the end
  --workers N   how many processes work at once: on a file one  [1, on Redis 3]
  --items N     how many items are pushed  [100000]
  --kills N     how often a worker is killed  [20]
  --seed N      of which items fail, how often, and when the kills come  [1]
  --lie         lets workers say of some items that they are done and not tell the queue: now the demo fails

  -h, --help    print this

relay holds the records of Kafka's retry topics until they are due: ixion-retry relay --help
";
#[cfg(not(feature = "relay"))]
const NO_RELAY: &str =
    "this program was built without the relay, which needs librdkafka. To build it with that:
cargo run --release -p ixion-retry --features relay -- relay --config FILE";

/// Why the program has failed.
type Failure = Box<dyn Error + Send + Sync>;

/// What is to be done.
enum Command {
    Help,
    Demo(demo::Plan),
    /// What the demo starts.
    Work(demo::Work),
    #[cfg(feature = "relay")]
    Relay(Option<relay::Options>),
}

fn main() -> ExitCode {
    let command = match parse(std::env::args_os()) {
        Ok(command) => command,
        Err(error) => {
            let is_relay =
                cfg!(feature = "relay") && std::env::args_os().nth(1).is_some_and(|it| it == "relay");
            let command = if is_relay { " relay" } else { "" };
            eprintln!("ixion-retry: {error}\ntry ixion-retry{command} --help");
            return ExitCode::from(2);
        }
    };
    let result = match command {
        Command::Help => say(HELP),
        Command::Demo(plan) => demo::run(&plan),
        Command::Work(work) => demo::work(&work),
        #[cfg(feature = "relay")]
        Command::Relay(None) => say(relay::HELP),
        #[cfg(feature = "relay")]
        Command::Relay(Some(options)) => relay::relay(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ixion-retry: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes to the standard output.
fn say(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, lexopt::Error> {
    let mut parser = lexopt::Parser::from_iter(args);
    let is_work = match parser.next()? {
        None => return Err("a command is missing: demo or relay".into()),
        Some(Short('h') | Long("help")) => return Ok(Command::Help),
        Some(Value(command)) if command == "demo" => false,
        Some(Value(command)) if command == "demo-worker" => true,
        Some(Value(command)) if command == "relay" => return parse_relay(parser),
        Some(Value(command)) => {
            return Err(format!("unknown command {command:?}: there are demo and relay").into());
        }
        Some(option) => return Err(option.unexpected()),
    };
    let mut plan = demo::Plan::default();
    let (mut queue, mut from, mut batch, mut stays) = (String::new(), Vec::new(), 1, false);
    while let Some(option) = parser.next()? {
        match option {
            Short('h') | Long("help") => return Ok(Command::Help),
            Long("store") => plan.store = Some(demo::Place::parse(parser.value()?)?),
            Long("items") => plan.items = parser.value()?.parse()?,
            Long("kills") if !is_work => plan.kills = parser.value()?.parse()?,
            Long("seed") => plan.seed = parser.value()?.parse()?,
            Long("workers") => plan.workers = Some(parser.value()?.parse()?),
            Long("lie") => plan.lies = true,
            Long("queue") if is_work => queue = parser.value()?.string()?,
            Long("from") if is_work => from.push(parser.value()?.parse()?),
            Long("batch") if is_work => batch = parser.value()?.parse()?,
            Long("stay") if is_work => stays = true,
            other => return Err(other.unexpected()),
        }
    }
    plan.check()?;
    if !is_work {
        return Ok(Command::Demo(plan));
    }
    let place = plan.store.clone().ok_or("demo-worker needs --store")?.named(queue);
    Ok(Command::Work(demo::Work { plan, place, from, batch, stays }))
}

#[cfg(not(feature = "relay"))]
fn parse_relay(_: lexopt::Parser) -> Result<Command, lexopt::Error> {
    Err(NO_RELAY.into())
}

#[cfg(feature = "relay")]
fn parse_relay(mut parser: lexopt::Parser) -> Result<Command, lexopt::Error> {
    let (mut file, mut is_check) = (None, false);
    while let Some(option) = parser.next()? {
        match option {
            Short('h') | Long("help") => return Ok(Command::Relay(None)),
            Long("config") => file = Some(std::path::PathBuf::from(parser.value()?)),
            Long("check") => is_check = true,
            other => return Err(other.unexpected()),
        }
    }
    let file = file.ok_or("relay needs --config FILE")?;
    Ok(Command::Relay(Some(relay::Options::read(&file, is_check)?)))
}
