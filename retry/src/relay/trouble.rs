//! Troubles, each of which is said once when it begins and once when it is over.

use std::collections::BTreeMap;
use std::time::Duration;

/// What is wrong at present.
#[derive(Debug, Default)]
pub(crate) struct Troubles {
    open: BTreeMap<String, Open>,
}

#[derive(Debug)]
struct Open {
    since: Duration,
    last: Duration,
    times: u64,
    /// Whether it has gone well since the last time.
    is_well: bool,
}

/// More at once are not told apart: a target may be named by any record.
const MOST: usize = 1000;
/// It is over when it has gone well, and no more ill, for so long. Else what fails now and then would be said each time.
const QUIET: Duration = Duration::from_secs(1);

impl Troubles {
    /// Enters that something goes ill. Returns whether that is to be said: it is new.
    pub(crate) fn ill(&mut self, subject: &str, now: Duration) -> bool {
        if let Some(open) = self.open.get_mut(subject) {
            open.times += 1;
            open.last = now;
            open.is_well = false;
            return false;
        }
        let is_new = self.open.len() < MOST;
        if is_new {
            let open = Open { since: now, last: now, times: 1, is_well: false };
            self.open.insert(subject.to_owned(), open);
        }
        is_new
    }

    /// Enters that something goes well.
    pub(crate) fn well(&mut self, subject: &str) {
        if let Some(open) = self.open.get_mut(subject) {
            open.is_well = true;
        }
    }

    /// Takes out what is over, and returns what is to be said of it.
    pub(crate) fn over(&mut self, now: Duration) -> Vec<String> {
        let mut lines = Vec::new();
        self.open.retain(|subject, open| {
            let is_over = open.is_well && now.saturating_sub(open.last) >= QUIET;
            if is_over {
                let seconds = now.saturating_sub(open.since).as_secs_f64();
                let times = if open.times == 1 { "once".to_owned() } else { format!("{} times", open.times) };
                lines.push(format!("{subject}: well again, {seconds:.1} s later; it happened {times}"));
            }
            !is_over
        });
        lines
    }

    /// Whether all is well.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_trouble_is_said_when_it_begins_and_when_it_is_over() {
        let mut troubles = Troubles::default();
        troubles.well("orders");
        assert_eq!(troubles.over(seconds(9)), [""; 0], "it was well all the time");
        assert!(troubles.ill("orders", seconds(10)));
        assert!(!troubles.ill("orders", seconds(11)));
        assert!(troubles.ill("orders.dead", seconds(12)), "another one");
        assert_eq!(troubles.over(seconds(100)), [""; 0], "nothing says that it is well");
        troubles.well("orders");
        assert_eq!(troubles.over(seconds(100)), ["orders: well again, 90.0 s later; it happened 2 times"]);
        assert_eq!(troubles.over(seconds(100)), [""; 0], "it was said");
        assert!(!troubles.is_empty());
        troubles.well("orders.dead");
        assert_eq!(troubles.over(seconds(101)), ["orders.dead: well again, 89.0 s later; it happened once"]);
        assert!(troubles.is_empty());
        assert!(troubles.ill("orders", seconds(102)), "it begins again");
    }

    #[test]
    fn what_fails_now_and_then_is_one_trouble() {
        let mut troubles = Troubles::default();
        assert!(troubles.ill("orders", seconds(0)));
        for half in 1..20 {
            let now = Duration::from_millis(500 * half);
            troubles.well("orders");
            assert_eq!(troubles.over(now), [""; 0]);
            assert!(!troubles.ill("orders", now));
        }
    }

    #[test]
    fn no_more_are_kept_than_so_many() {
        let mut troubles = Troubles::default();
        for n in 0..2 * MOST {
            assert_eq!(troubles.ill(&n.to_string(), Duration::ZERO), n < MOST, "{n}");
        }
        assert_eq!(troubles.open.len(), MOST);
    }
}
