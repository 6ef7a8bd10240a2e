//! What was seen: what was asked for, what it took, and whether that is right.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::screen::{Screen, wrap};

/// How late what is to happen may be on a busy machine. It is far less than what anybody here waits for.
const LATE: Duration = Duration::from_secs(5);
/// The columns for what was asked, what it took, and whether it is right.
const FIGURES: [usize; 3] = [10, 12, 7];
/// What needs more columns than this for its name is broken into lines.
const MAX_NAME: usize = 58;

/// When something was to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// When its time is up, and not before.
    After(Duration),
    /// The same, but that time may be extended.
    AtLeast(Duration),
    /// As soon as something else has.
    AtOnce,
}

/// One thing that was seen.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    what: &'static str,
    asked: Asked,
    /// How long it took.
    took: Duration,
    /// What is wrong with it, if anything.
    wrong: Option<String>,
}

impl Seen {
    /// From when on it was waited for, when it came, and what is wrong with what came.
    pub(super) fn new(
        what: &'static str,
        asked: Asked,
        since: Instant,
        came: Instant,
        answer: Result<(), String>,
    ) -> Seen {
        let took = came.saturating_duration_since(since);
        let wrong = answer.err().or_else(|| match asked {
            _ if came < since => Some(format!("it came {:?} too early", since.duration_since(came))),
            Asked::After(time) | Asked::AtLeast(time) if took < time => {
                Some(format!("it came {:?} too early", time.abs_diff(took)))
            }
            Asked::After(time) if took > time + LATE => Some("it came too late".to_owned()),
            Asked::AtOnce if took > LATE => Some("it came too late".to_owned()),
            _ => None,
        });
        Seen { what, asked, took, wrong }
    }

    pub(super) fn is_right(&self) -> bool {
        self.wrong.is_none()
    }

    /// As it is told when it has just been seen.
    pub(super) fn line(&self, elapsed: Duration, screen: Screen) -> String {
        let mut text = format!("{}: {}", self.what, ms(self.took));
        if let Some(wrong) = &self.wrong {
            let _ = write!(text, ": WRONG: {wrong}");
        }
        let mut out = String::new();
        for (number, line) in wrap(&text, screen.width() - 10).into_iter().enumerate() {
            let _ = match number {
                0 => write!(out, "{:6.1} s  {line}", elapsed.as_secs_f64()),
                _ => write!(out, "\n          {line}"),
            };
        }
        out
    }
}

/// All of it.
pub(super) fn table(seen: &[Seen], screen: Screen) -> String {
    let name = (screen.width() - FIGURES.iter().sum::<usize>()).min(MAX_NAME);
    let [asked, took, check] = FIGURES;
    let mut out = format!("{:<name$}{:>asked$}{:>took$}\n", "what was seen", "asked", "measured");
    for one in seen {
        let wanted = match one.asked {
            Asked::After(time) => format!("{} ms", time.as_millis()),
            Asked::AtLeast(time) => format!("> {} ms", time.as_millis()),
            Asked::AtOnce => "at once".to_owned(),
        };
        let mut lines = wrap(one.what, name - 1).into_iter();
        let first = lines.next().unwrap_or_default();
        let verdict = match one.is_right() {
            true => screen.good(&format!("{:>check$}", "ok")),
            false => screen.bad(&format!("{:>check$}", "WRONG")),
        };
        let _ = writeln!(out, "{first:<name$}{wanted:>asked$}{:>took$}{verdict}", ms(one.took));
        for line in lines.chain(one.wrong.iter().flat_map(|wrong| wrap(wrong, screen.width() - 4))) {
            let _ = writeln!(out, "  {line}");
        }
    }
    out
}

fn ms(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn seen(asked: Asked, took: Duration, answer: Result<(), String>) -> Seen {
        let since = Instant::now();
        Seen::new(
            "something that takes its time and more words than a line has",
            asked,
            since,
            since + took,
            answer,
        )
    }

    #[test]
    fn what_is_early_late_or_answered_wrongly_is_wrong() {
        let after = Asked::After(100 * MS);
        for (asked, took, is_right) in [
            (after, 100 * MS, true),
            (after, 100 * MS - Duration::from_nanos(1), false),
            (after, 100 * MS + LATE, true),
            (after, 101 * MS + LATE, false),
            (Asked::AtLeast(100 * MS), 99 * MS, false),
            (Asked::AtLeast(100 * MS), 100 * MS, true),
            (Asked::AtOnce, Duration::ZERO, true),
            (Asked::AtOnce, LATE, true),
            (Asked::AtOnce, LATE + MS, false),
        ] {
            assert_eq!(seen(asked, took, Ok(())).is_right(), is_right, "{asked:?} {took:?}");
            assert!(!seen(asked, took, Err("not that".to_owned())).is_right());
        }
        let since = Instant::now();
        assert!(!Seen::new("before", Asked::AtOnce, since + MS, since, Ok(())).is_right());
    }

    #[test]
    fn the_table_has_what_was_asked_and_measured_and_what_is_wrong() {
        let all = [
            seen(Asked::After(250 * MS), 251 * MS, Ok(())),
            seen(Asked::AtOnce, Duration::from_micros(1250), Err("error 9".to_owned())),
        ];
        let table = table(&all, Screen::plain());
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines.iter().all(|line| line.chars().count() <= Screen::plain().width()), "{table}");
        let row = lines.iter().find(|line| line.contains("250 ms")).expect("it was asked");
        assert!(row.contains("251.0 ms") && row.ends_with("ok"), "{table}");
        let row = lines.iter().position(|line| line.contains("at once")).expect("it was asked");
        assert!(lines[row].contains("1.2 ms") && lines[row].ends_with("WRONG"), "{table}");
        assert_eq!(lines.last(), Some(&"  error 9"), "{table}");
        let line = all[1].line(Duration::from_secs(3), Screen::plain());
        assert!(line.starts_with("   3.0 s  something") && line.contains("WRONG: error 9"), "{line}");
    }
}
