//! Programs that put the broker under load and in trouble, each at a broker in a process of its own. They check every answer,
//! fail if one is wrong or early or if something is kept that is over, and end with a table.

mod faults;
mod hostile;
mod members;
mod options;
mod polls;
mod process;
mod table;

pub(crate) use options::{Load, parse};

use crate::demo::Verdict;

/// One of the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Polls,
    Members,
    Faults,
    Hostile,
}

impl Part {
    pub(crate) const ALL: [Part; 4] = [Part::Polls, Part::Members, Part::Faults, Part::Hostile];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Part::Polls => "polls",
            Part::Members => "members",
            Part::Faults => "faults",
            Part::Hostile => "hostile",
        }
    }
}

/// Runs the programs that are wanted, one after the other.
///
/// # Errors
///
/// Says what was wrong, and in which.
pub(crate) async fn run(load: Load) -> Verdict {
    for (at, part) in load.parts.iter().enumerate() {
        if at > 0 {
            say("")?;
        }
        let verdict = match part {
            Part::Polls => polls::run(load.polls).await,
            Part::Members => members::run(load.members).await,
            Part::Faults => faults::run(load.faults).await,
            Part::Hostile => hostile::run(load.hostile).await,
        };
        verdict.map_err(|wrong| format!("load {}: {wrong}", part.name()))?;
    }
    Ok(())
}

/// Prints a line.
fn say(line: &str) -> Verdict {
    crate::say(line).map_err(|error| error.to_string())
}
