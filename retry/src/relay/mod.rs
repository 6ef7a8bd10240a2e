//! The relay: brings records from retry topics back to their targets when they are due.
//!
//! See [`HELP`] for what it promises and how it is used. Its core is [`hold`]; [`record`] decides about one record; [`commit`]
//! writes down what was done beyond the committed offset; [`config`] reads the file. None of these knows a client: that
//! is [`kafka`], and [`run`] is the loop over it. [`desk`] is what both share.

mod commit;
mod config;
mod desk;
mod figures;
mod hold;
mod kafka;
mod record;
mod run;
mod trouble;

use crate::{Failure, say};
use config::Config;
use std::io::{self, Write};
use std::path::Path;

/// What is asked of the relay.
#[derive(Debug)]
pub(crate) struct Options {
    config: Config,
    is_check: bool,
}

pub(crate) const HELP: &str = include_str!("help.txt");

impl Options {
    /// Reads the configuration. An error says which file and which line.
    pub(crate) fn read(file: &Path, is_check: bool) -> Result<Self, String> {
        let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        let text = std::fs::read_to_string(file).map_err(|error| wrong(&error))?;
        let config = Config::parse(&text).map_err(|error| wrong(&error))?;
        kafka::check(&config).map_err(|error| wrong(&error))?;
        Ok(Options { config, is_check })
    }
}

/// Runs the relay until a signal ends it.
pub(crate) fn relay(options: &Options) -> Result<(), Failure> {
    match options.is_check {
        true => say(&options.config.effective(kafka::defaults())),
        false => run::run(&options.config),
    }
}

/// Writes a line to the standard output, if somebody reads it: the relay goes on without.
fn note(line: &str) {
    let _ = say(&format!("{line}\n"));
}

/// Writes a line of trouble to the standard error.
fn complain(line: &str) {
    let _ = writeln!(io::stderr(), "ixion-retry: {line}");
}
