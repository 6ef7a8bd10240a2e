//! What the command line says about the load.

use std::ffi::OsString;
use std::time::Duration;

use super::{Part, faults, hostile, members, polls};
use crate::args::values::Options;
use crate::args::{Command, MAX_NODES, MAX_PARTITIONS, MAX_POLLS, MIN_POLL_MS};

/// Which programs are to run, and how large they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) parts: Vec<Part>,
    pub(crate) polls: polls::Shape,
    pub(crate) members: members::Shape,
    pub(crate) faults: faults::Shape,
    pub(crate) hostile: hostile::Shape,
}

impl Load {
    /// What the figures are of.
    fn full() -> Load {
        Load {
            parts: Vec::new(),
            polls: polls::Shape {
                polls: 10_000,
                partitions: 100,
                wait: Duration::from_secs(20),
                replicas: 3,
            },
            members: members::Shape { groups: 1000, group_size: 10, session: Duration::from_secs(6) },
            faults: faults::Shape { producers: 4, rounds: 5 },
            hostile: hostile::Shape { connections: 50 },
        }
    }

    /// The same in little, to see that all of it works.
    fn short() -> Load {
        Load {
            parts: Vec::new(),
            polls: polls::Shape { polls: 300, partitions: 10, wait: Duration::from_secs(3), replicas: 3 },
            members: members::Shape { groups: 20, group_size: 5, session: Duration::from_secs(3) },
            faults: faults::Shape { producers: 3, rounds: 1 },
            hostile: hostile::Shape { connections: 5 },
        }
    }
}

/// The most groups and the most hostile clients: each takes ports of one address.
const MAX_GROUPS: usize = 6000;
const MAX_CONNECTIONS: usize = 10_000;
const MAX_ROUNDS: u32 = 1000;

/// Reads what stands after the command: the names of programs, then options.
pub(crate) fn parse(parser: &mut lexopt::Parser) -> Result<Command, lexopt::Error> {
    let mut parts = Vec::new();
    while let Some(name) = next_name(parser) {
        match Part::ALL.into_iter().find(|part| name == part.name()) {
            Some(part) => parts.push(part),
            None => return Err(format!("there is no load {name:?}").into()),
        }
    }
    // What says how large something is counts on top of `--short`, wherever it stands.
    let mut sizes: Vec<Box<dyn FnOnce(&mut Load)>> = Vec::new();
    let mut options = Options::new(parser);
    while let Some(option) = options.next()? {
        match option.as_str() {
            "help" => return Ok(Command::Help),
            "version" => return Ok(Command::Version),
            "short" => {}
            "polls" => {
                let polls = options.number(1..=MAX_POLLS)?;
                sizes.push(Box::new(move |load| load.polls.polls = polls));
            }
            "partitions" => {
                let partitions = options.number(1..=MAX_PARTITIONS)?;
                sizes.push(Box::new(move |load| load.polls.partitions = partitions));
            }
            "wait-ms" => {
                let wait = options.milliseconds(MIN_POLL_MS)?;
                sizes.push(Box::new(move |load| load.polls.wait = wait));
            }
            "replicas" => {
                let replicas = options.number(1..=MAX_NODES)?;
                sizes.push(Box::new(move |load| load.polls.replicas = replicas));
            }
            "groups" => {
                let groups = options.number(1..=MAX_GROUPS)?;
                sizes.push(Box::new(move |load| load.members.groups = groups));
            }
            "rounds" => {
                let rounds = options.number(1..=MAX_ROUNDS)?;
                sizes.push(Box::new(move |load| load.faults.rounds = rounds));
            }
            "connections" => {
                let connections = options.number(1..=MAX_CONNECTIONS)?;
                sizes.push(Box::new(move |load| load.hostile.connections = connections));
            }
            _ => return Err(options.unknown()),
        }
    }
    let mut load = if options.has("short") { Load::short() } else { Load::full() };
    load.parts = if parts.is_empty() { Part::ALL.to_vec() } else { parts };
    sizes.into_iter().for_each(|size| size(&mut load));
    Ok(Command::Load(Box::new(load)))
}

/// The next word, if it is no option.
fn next_name(parser: &mut lexopt::Parser) -> Option<OsString> {
    parser.try_raw_args()?.next_if(|word| !word.as_encoded_bytes().starts_with(b"-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Load, String> {
        let mut parser = lexopt::Parser::from_args(line.split_whitespace());
        match parse(&mut parser).map_err(|error| error.to_string())? {
            Command::Load(load) => Ok(*load),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn without_a_name_all_run_and_sizes_count_on_top_of_the_short_form() {
        let all = parse_line("").expect("a right line");
        assert_eq!((all.parts, all.polls.polls), (Part::ALL.to_vec(), 10_000));
        let line = "hostile polls --polls 7 --short --partitions 8 --wait-ms 900 --replicas 1 --groups 2 \
                    --rounds 3 --connections 4";
        let load = parse_line(line).expect("a right line");
        let short = Load::short();
        let polls = polls::Shape { polls: 7, partitions: 8, wait: Duration::from_millis(900), replicas: 1 };
        assert_eq!(load.parts, [Part::Hostile, Part::Polls]);
        assert_eq!((load.polls, load.members), (polls, members::Shape { groups: 2, ..short.members }));
        assert_eq!(load.faults, faults::Shape { rounds: 3, ..short.faults });
        assert_eq!(load.hostile, hostile::Shape { connections: 4 });
        for (line, word) in
            [("poll", "poll"), ("--groups 0", "--groups"), ("--bogus", "--bogus"), ("--short polls", "polls")]
        {
            let error = parse_line(line).expect_err(line);
            assert!(error.contains(word), "{line:?}: {error}");
        }
    }
}
