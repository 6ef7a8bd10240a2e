//! What must be true of every answer. Each function says what is wrong, or nothing.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ixion_broker::PurgatoryStats;

use super::client::{Polled, Target};

/// Answered in time.
const NONE: i16 = 0;
/// The replicas did not have it in time.
const REQUEST_TIMED_OUT: i16 = 7;

/// When a request was sent and answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) sent: Instant,
    pub(crate) answered: Instant,
}

impl Span {
    pub(crate) fn length(self) -> Duration {
        self.answered.duration_since(self.sent)
    }
}

/// When a follower was paused. Each spell begins before the command is sent and ends after it has been answered.
#[derive(Debug, Default)]
pub(super) struct Pauses(Mutex<Vec<(Instant, Option<Instant>)>>);

impl Pauses {
    pub(super) fn begin(&self, at: Instant) {
        self.0.lock().expect("nobody panics in here").push((at, None));
    }

    pub(super) fn end(&self, at: Instant) {
        if let Some(last) = self.0.lock().expect("nobody panics in here").last_mut() {
            last.1 = Some(at);
        }
    }

    /// Whether a follower is paused now.
    pub(super) fn is_paused(&self) -> bool {
        self.0.lock().expect("nobody panics in here").last().is_some_and(|last| last.1.is_none())
    }

    fn touch(&self, span: Span) -> bool {
        let spells = self.0.lock().expect("nobody panics in here");
        spells
            .iter()
            .any(|&(begun, ended)| begun <= span.answered && ended.is_none_or(|ended| ended >= span.sent))
    }
}

/// The value of a producer's record number `number`.
pub(crate) fn value(target: Target, number: i64) -> Bytes {
    // Of different lengths, so that a record at a wrong place does not look like the right one.
    let padding = "·".repeat(usize::try_from(number.rem_euclid(37)).unwrap_or(0));
    Bytes::from(format!("{} {} {number} {padding}", target.topic, target.partition))
}

/// A produce request with acks=all whose first record is number `next` of its partition's only producer. `Ok`: how
/// late the broker gave it up, if it did.
pub(super) fn produced(
    answer: (i16, i64),
    next: i64,
    span: Span,
    timeout: Duration,
    pauses: &Pauses,
) -> Result<Option<Duration>, String> {
    let (error, base_offset) = answer;
    match error {
        NONE | REQUEST_TIMED_OUT if base_offset != next => {
            Err(format!("record {next} was appended at offset {base_offset}"))
        }
        NONE => Ok(None),
        REQUEST_TIMED_OUT => {
            if !pauses.touch(span) {
                return Err(format!("record {next} timed out though no follower was paused"));
            }
            lateness(span, timeout).map(Some)
        }
        other => Err(format!("record {next} was answered with error {other}")),
    }
}

/// A poll from offset `next`. `Ok`: how late it was answered, if its time was up.
pub(super) fn polled(
    answer: &Polled,
    target: Target,
    next: i64,
    span: Span,
    max_wait: Duration,
    min_bytes: i32,
) -> Result<Option<Duration>, String> {
    if answer.error != NONE {
        return Err(format!("a poll from offset {next} was answered with error {}", answer.error));
    }
    for (expected, (offset, found)) in (next..).zip(&answer.records) {
        if *offset != expected {
            return Err(format!("offset {offset} was read where {expected} was due"));
        }
        if *found != value(target, expected) {
            return Err(format!("offset {expected} holds {:?}", String::from_utf8_lossy(found)));
        }
    }
    if answer.bytes >= usize::try_from(min_bytes).unwrap_or(0) {
        return Ok(None);
    }
    lateness(span, max_wait).map(Some)
}

/// How late an answer is that came because the time was up.
pub(crate) fn lateness(span: Span, timeout: Duration) -> Result<Duration, String> {
    let took = span.length();
    took.checked_sub(timeout).ok_or_else(|| format!("early: {timeout:?} were up after {took:?}"))
}

/// The books of a purgatory.
pub(super) fn books(name: &str, stats: &PurgatoryStats) -> Result<(), String> {
    let ended = ended(stats);
    if stats.registered == ended + stats.pending {
        return Ok(());
    }
    let (registered, pending) = (stats.registered, stats.pending);
    Err(format!("{name}: {registered} registered, but {ended} ended and {pending} pending"))
}

/// What holds after the broker has shut down.
pub(super) fn nothing_kept(name: &str, stats: &PurgatoryStats) -> Result<(), String> {
    books(name, stats)?;
    match stats {
        PurgatoryStats { pending: 1.., .. } | PurgatoryStats { watched: 1.., .. } => {
            Err(format!("{name}: something is kept: {stats:?}"))
        }
        PurgatoryStats { panicked: 1.., .. } => Err(format!("{name}: an operation panicked: {stats:?}")),
        _ => Ok(()),
    }
}

/// What the load is there to show.
pub(super) fn shown(name: &str, stats: &PurgatoryStats) -> Result<(), String> {
    match stats {
        PurgatoryStats { satisfied: 0, .. } => Err(format!("{name}: nothing was satisfied: {stats:?}")),
        PurgatoryStats { expired: 0, .. } => Err(format!("{name}: nothing expired: {stats:?}")),
        _ => Ok(()),
    }
}

fn ended(stats: &PurgatoryStats) -> u64 {
    stats.satisfied + stats.expired + stats.forced + stats.cancelled + stats.shut_down + stats.panicked
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Target = Target { topic: "t", partition: 1 };
    const WAIT: Duration = Duration::from_millis(100);

    fn span(ms: u64) -> Span {
        let sent = Instant::now();
        Span { sent, answered: sent + Duration::from_millis(ms) }
    }

    fn answer(offsets: &[i64]) -> Polled {
        let records = offsets.iter().map(|&offset| (offset, value(TARGET, offset))).collect();
        Polled { error: NONE, bytes: offsets.len() * 100, records }
    }

    #[test]
    fn a_right_poll_is_right_and_an_expired_one_tells_its_lateness() {
        assert_eq!(polled(&answer(&[5, 6, 7]), TARGET, 5, span(3), WAIT, 1), Ok(None));
        assert_eq!(polled(&answer(&[]), TARGET, 5, span(103), WAIT, 1), Ok(Some(Duration::from_millis(3))));
        assert_eq!(polled(&answer(&[5]), TARGET, 5, span(100), WAIT, 101), Ok(Some(Duration::ZERO)));
    }

    #[test]
    fn a_record_missing_twice_elsewhere_or_changed_is_seen() {
        for offsets in [&[6][..], &[5, 7], &[5, 5], &[4, 5], &[5, 6, 6]] {
            assert!(polled(&answer(offsets), TARGET, 5, span(3), WAIT, 1).is_err(), "{offsets:?}");
        }
        let mut changed = answer(&[5, 6]);
        changed.records[1].1 = value(TARGET, 7);
        assert!(polled(&changed, TARGET, 5, span(3), WAIT, 1).is_err());
        let other = Target { partition: 2, ..TARGET };
        assert!(polled(&answer(&[5]), other, 5, span(3), WAIT, 1).is_err());
    }

    #[test]
    fn an_early_or_failed_poll_is_seen() {
        assert!(polled(&answer(&[]), TARGET, 5, span(99), WAIT, 1).is_err());
        assert!(polled(&answer(&[5]), TARGET, 5, span(99), WAIT, 101).is_err());
        assert!(polled(&Polled { error: 3, ..answer(&[]) }, TARGET, 5, span(100), WAIT, 1).is_err());
    }

    #[test]
    fn a_produce_request_times_out_only_while_a_follower_is_paused_and_never_early() {
        let pauses = Pauses::default();
        let spent = span(150);
        assert_eq!(produced((NONE, 9), 9, spent, WAIT, &pauses), Ok(None));
        assert!(produced((REQUEST_TIMED_OUT, 9), 9, spent, WAIT, &pauses).is_err());
        pauses.begin(spent.sent + WAIT);
        assert!(pauses.is_paused());
        assert_eq!(
            produced((REQUEST_TIMED_OUT, 9), 9, spent, WAIT, &pauses),
            Ok(Some(Duration::from_millis(50)))
        );
        assert!(produced((REQUEST_TIMED_OUT, 9), 9, spent, WAIT * 2, &pauses).is_err(), "early");
        assert!(produced((NONE, 8), 9, spent, WAIT, &pauses).is_err(), "a wrong offset");
        assert!(produced((19, 9), 9, spent, WAIT, &pauses).is_err());
        pauses.end(spent.sent + WAIT);
        assert!(!pauses.is_paused());
        let later = Span { sent: spent.answered, answered: spent.answered + WAIT };
        assert!(produced((REQUEST_TIMED_OUT, 9), 9, later, WAIT, &pauses).is_err());
    }

    #[test]
    fn books_that_do_not_balance_are_seen() {
        let good = PurgatoryStats { registered: 10, satisfied: 6, expired: 4, ..Default::default() };
        assert_eq!(
            (books("p", &good), nothing_kept("p", &good), shown("p", &good)),
            (Ok(()), Ok(()), Ok(()))
        );
        for bad in [
            PurgatoryStats { registered: 11, ..good },
            PurgatoryStats { expired: 5, ..good },
            PurgatoryStats { pending: 1, ..good },
        ] {
            assert!(books("p", &bad).is_err(), "{bad:?}");
        }
        for bad in [
            PurgatoryStats { registered: 11, pending: 1, ..good },
            PurgatoryStats { watched: 1, ..good },
            PurgatoryStats { registered: 11, panicked: 1, ..good },
        ] {
            assert!(nothing_kept("p", &bad).is_err(), "{bad:?}");
        }
        for bad in [PurgatoryStats { satisfied: 0, ..good }, PurgatoryStats { expired: 0, ..good }] {
            assert!(shown("p", &bad).is_err(), "{bad:?}");
        }
    }
}
