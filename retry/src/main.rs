//! The program: what the queue does when its workers are killed, and the relay between topics of a broker.

mod demo;
#[cfg(feature = "relay")]
mod relay;

use lexopt::prelude::{Long, Short, Value, ValueExt};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

const HELP: &str = "\
ixion-retry: a retry queue with back-off and dead letter, in a file

usage: ixion-retry demo [--items N] [--kills N] [--seed N]
       ixion-retry relay --config FILE [--check]

demo pushes items into a queue in a temporary file, from a worker process that delivers them, lets some fail and some hang, and
kills that process with SIGKILL again and again. It ends with a table of what became of the items, and fails if one was lost,
or was delivered again after the queue had said that it was done.

options of demo:
  --items N     how many items are pushed  [100000]
  --kills N     how often the worker is killed  [20]
  --seed N      of which items fail, and how often  [1]

  -h, --help    print this

relay holds the records of Kafka's retry topics until they are due: ixion-retry relay --help
";
#[cfg(not(feature = "relay"))]
const NO_RELAY: &str =
    "this program was built without the relay, which needs librdkafka. To build it with that:
cargo run --release -p ixion-retry --features relay -- relay --config FILE";

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
            eprintln!("ixion-retry: {error}\ntry ixion-retry --help");
            return ExitCode::from(2);
        }
    };
    let result = match command {
        Command::Help => demo::say(HELP),
        Command::Demo(plan) => demo::run(plan),
        Command::Work(work) => demo::work(&work),
        #[cfg(feature = "relay")]
        Command::Relay(None) => demo::say(relay::HELP),
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
    let (mut plan, mut file, mut from) = (demo::Plan::default(), None, Vec::new());
    while let Some(option) = parser.next()? {
        match option {
            Short('h') | Long("help") => return Ok(Command::Help),
            Long("items") => plan.items = parser.value()?.parse()?,
            Long("kills") if !is_work => plan.kills = parser.value()?.parse()?,
            Long("seed") => plan.seed = parser.value()?.parse()?,
            Long("file") if is_work => file = Some(PathBuf::from(parser.value()?)),
            Long("from") if is_work => from.push(parser.value()?.parse()?),
            other => return Err(other.unexpected()),
        }
    }
    match file {
        Some(file) => Ok(Command::Work(demo::Work { plan, file, from })),
        None if is_work => Err("demo-worker needs --file".into()),
        None => Ok(Command::Demo(plan)),
    }
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
            Long("config") => file = Some(PathBuf::from(parser.value()?)),
            Long("check") => is_check = true,
            other => return Err(other.unexpected()),
        }
    }
    let file = file.ok_or("relay needs --config FILE")?;
    Ok(Command::Relay(Some(relay::Options::read(&file, is_check)?)))
}
