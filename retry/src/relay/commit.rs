//! What was republished beyond the committed offset, as a note beside it.
//!
//! One record may wait for two hours, and the committed offset stays below it. Without more, a restart would republish all
//! that was read behind it. So each commit says in its metadata which offsets are done, and a relay that is assigned the
//! partition passes over them.
//!
//! A note is lengths of runs of offsets from the committed one, in turns waiting and done: with 100 committed,
//! `ixion-relay/1 1,4,6,90` means that 100 waits, 101 to 104 are done, 105 to 110 wait, and 111 to 200 are done. What it leaves
//! out waits. A broker takes 4096 bytes by default; where that is not enough the shortest runs are left out, and republished
//! after a crash.

use std::fmt::Write;
use std::ops::Range;

const MARK: &str = "ixion-relay/1 ";
/// What a broker takes by default: `offset.metadata.max.bytes`.
pub(crate) const LONGEST: usize = 4096;

/// Writes down which offsets from `base` on are done, in at most so many bytes. The ranges rise and do not touch.
pub(crate) fn write(base: u64, done: &[Range<u64>], longest: usize) -> String {
    let mut least = 1;
    loop {
        let note = write_runs(base, done.iter().filter(|range| range.end - range.start >= least));
        if note.len() <= longest || least > u64::MAX / 2 {
            return if note.len() <= longest { note } else { String::new() };
        }
        least *= 2;
    }
}

fn write_runs<'a>(base: u64, done: impl Iterator<Item = &'a Range<u64>>) -> String {
    let mut note = String::new();
    let mut at = base;
    for range in done {
        let before = if note.is_empty() { MARK } else { "," };
        // Writing to a string does not fail.
        let _ = write!(note, "{before}{},{}", range.start - at, range.end - range.start);
        at = range.end;
    }
    note
}

/// Reads what [`write`] has written. Of anything else nothing is done.
pub(crate) fn read(base: u64, note: &str) -> Vec<Range<u64>> {
    note.strip_prefix(MARK).and_then(|runs| read_runs(base, runs)).unwrap_or_default()
}

fn read_runs(base: u64, runs: &str) -> Option<Vec<Range<u64>>> {
    let (mut done, mut at) = (Vec::new(), base);
    let mut runs = runs.split(',').map(|run| run.parse::<u64>().ok());
    while let Some(waiting) = runs.next() {
        let start = at.checked_add(waiting?)?;
        at = start.checked_add(runs.next()??)?;
        done.push(start..at);
    }
    Some(done)
}

/// Returns what lies between these offsets, which rise, and from there to the end.
pub(crate) fn between(unfinished: impl Iterator<Item = u64>, from: u64, end: u64) -> Vec<Range<u64>> {
    let mut done = Vec::new();
    let mut at = from;
    for offset in unfinished.chain([end]) {
        if offset > at {
            done.push(at..offset);
        }
        at = at.max(offset.saturating_add(1));
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_note_says_which_offsets_are_done() {
        let done = between([100, 105, 106, 107, 108, 109, 110].into_iter(), 100, 201);
        assert_eq!(done, [101..105, 111..201]);
        let note = write(100, &done, LONGEST);
        assert_eq!(note, "ixion-relay/1 1,4,6,90");
        assert_eq!(read(100, &note), done);
        assert_eq!(write(100, &[], LONGEST), "", "nothing is done, and nothing to be said");
    }

    #[test]
    fn a_note_of_another_program_says_nothing() {
        let notes = [
            "",
            "consumer-1",
            "ixion-relay/2 1,4",
            "ixion-relay/1",
            "ixion-relay/1 ",
            "ixion-relay/1 1",
            "ixion-relay/1 1,4,6",
            "ixion-relay/1 1,-4",
            "ixion-relay/1 1,4 ",
            "ixion-relay/1 18446744073709551615,1",
        ];
        for note in notes {
            assert_eq!(read(7, note), [0..0; 0], "{note:?}");
        }
    }

    #[test]
    fn what_does_not_fit_is_the_shortest() {
        let done: Vec<_> = (0..1000).map(|n| n * 10..n * 10 + if n % 100 == 50 { 9 } else { 2 }).collect();
        let note = write(0, &done, 100);
        assert!(note.len() <= 100, "{note}");
        assert_eq!(read(0, &note).len(), 10, "{note}");
        assert!(read(0, &note).iter().all(|range| range.end - range.start == 9), "{note}");
        assert_eq!(write(0, &done, 10), "", "not even one fits");
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_was_written_or_less(
            base in 0..u64::MAX / 2,
            gaps in prop::collection::vec((1..50_u64, 1..5000_u64), 0..2000),
            longest in 0..5000_usize,
        ) {
            let (mut done, mut at) = (Vec::new(), base);
            for (gap, length) in gaps {
                done.push(at + gap..at + gap + length);
                at += gap + length;
            }
            let note = write(base, &done, longest);
            prop_assert!(note.len() <= longest);
            let back = read(base, &note);
            prop_assert!(back.iter().all(|range| done.contains(range)));
            if write(base, &done, usize::MAX).len() <= longest {
                prop_assert_eq!(back, done);
            }
        }

        #[test]
        fn any_text_can_be_read(base: u64, text in "(ixion-relay/1 )?[0-9,]{0,60}.{0,3}") {
            let done = read(base, &text);
            prop_assert!(done.iter().all(|range| base <= range.start && range.start <= range.end));
        }
    }
}
