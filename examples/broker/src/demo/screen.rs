//! What the demo writes to: lines that stay and, on a terminal, one below them that is written anew.

use std::io::{self, IsTerminal, Write as _};
use std::time::Duration;

use terminal_size::{Width, terminal_size};

use super::load::Verdict;

/// How wide what is no terminal is taken to be.
const WIDTH: usize = 80;
/// Narrower has no room for the tables.
const MIN_WIDTH: usize = 50;
/// Wider is hard to read.
const MAX_WIDTH: usize = 100;

/// The standard output.
#[derive(Clone, Copy)]
pub(super) struct Screen {
    is_terminal: bool,
    has_colour: bool,
}

impl Screen {
    pub(super) fn new() -> Screen {
        let is = |name: &str, value: &str| std::env::var_os(name).is_some_and(|found| found == value);
        let is_terminal = io::stdout().is_terminal() && !is("TERM", "dumb");
        let has_colour = is_terminal && std::env::var_os("NO_COLOR").is_none_or(|found| found.is_empty());
        Screen { is_terminal, has_colour }
    }

    /// How often the [status](Self::status) is worth writing.
    pub(super) fn interval(self) -> Duration {
        Duration::from_millis(100)
    }

    /// How many columns a line may take. It changes when somebody drags the window.
    pub(super) fn width(self) -> usize {
        let found = if self.is_terminal { terminal_size() } else { None };
        found.map_or(WIDTH, |(Width(columns), _)| usize::from(columns)).clamp(MIN_WIDTH, MAX_WIDTH)
    }

    /// Writes lines that stay.
    pub(super) fn say(self, text: &str) -> Verdict {
        let begin = if self.is_terminal { "\r\x1b[K" } else { "" };
        write(&format!("{begin}{text}\n"))
    }

    /// Writes words that stay, in lines that fit.
    pub(super) fn paragraph(self, words: &str) -> Verdict {
        self.say(&wrap(words, self.width()).join("\n"))
    }

    /// Writes the last line anew, as far as there is room for it.
    pub(super) fn status(self, text: &str) -> Verdict {
        if !self.is_terminal {
            return Ok(());
        }
        // In the last column some terminals begin a new line.
        let shown: String = text.chars().take(self.width() - 1).collect();
        write(&format!("\r\x1b[K{shown}"))
    }

    pub(super) fn good(self, text: &str) -> String {
        self.coloured(text, 32)
    }

    pub(super) fn bad(self, text: &str) -> String {
        self.coloured(text, 31)
    }

    fn coloured(self, text: &str, colour: u8) -> String {
        if self.has_colour { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }

    #[cfg(test)]
    pub(super) fn plain() -> Screen {
        Screen { is_terminal: false, has_colour: false }
    }
}

fn write(text: &str) -> Verdict {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    crate::written(written).map_err(|error| error.to_string())
}

/// Breaks a text into lines of so many columns, between words. A word that is longer has a line of its own.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is one");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_broken_between_words_and_loses_none() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("one two three", 6), ["one", "two", "three"]);
        assert_eq!(wrap("a extraordinary b", 5), ["a", "extraordinary", "b"]);
        assert_eq!(wrap("", 5), [""]);
    }

    #[test]
    fn without_colours_a_text_is_as_it_was() {
        assert_eq!((Screen::plain().good("ok"), Screen::plain().bad("no")), ("ok".into(), "no".into()));
        let colourful = Screen { has_colour: true, ..Screen::plain() };
        assert_eq!(colourful.good("ok"), "\x1b[32mok\x1b[0m");
    }
}
