//! What was republished beyond the committed offset, as a note beside it.
//!
//! One record may wait for two hours, and the committed offset stays below it. Without more, a restart would republish all
//! that was read behind it. So each commit says in its metadata which offsets are done, and a relay that is assigned the
//! partition passes over them.
//!
//! A note is the lengths of the runs of offsets from the committed one on, in turns waiting and done. What it leaves out
//! waits. With 100 committed the runs 1, 4, 6, 90 mean that 100 waits, 101 to 104 are done, 105 to 110 wait, and 111 to 200 are
//! done. Where delays are mixed runs are short, and behind a record that waits for long they are long: so a length is written
//! in Elias' gamma code, which takes one bit for 1, three for 2 and 3, five up to 7; and six bits make a letter. A
//! broker takes 4096 bytes by default, which is 24,000 offsets at random. Where that is not enough the shortest runs of what is
//! done are left out, and republished after a crash.

use std::ops::Range;

const MARK: &str = "ixion-relay/1 ";
/// What a broker takes by default: `offset.metadata.max.bytes`.
pub(crate) const LONGEST: usize = 4096;
const LETTERS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
/// Bits of a letter.
const BITS: u32 = 6;

/// Writes down which offsets from `base` on are done, in at most so many bytes. The ranges rise and do not touch.
pub(crate) fn write(base: u64, done: &[Range<u64>], longest: usize) -> String {
    let room = longest.saturating_sub(MARK.len()).saturating_mul(BITS as usize);
    let fits = |least: &u64| runs(base, done, *least).map(bits_of).sum::<usize>() <= room;
    let mut letters = Letters::default();
    if let Some(least) = (0..u64::BITS).map(|bit| 1 << bit).find(fits) {
        runs(base, done, least).for_each(|run| letters.push(run));
    }
    letters.finish()
}

/// The runs, without those of what is done that are shorter than this. There is no code for 0, and only the first may be that:
/// it is one more.
fn runs(base: u64, done: &[Range<u64>], least: u64) -> impl Iterator<Item = u64> {
    let (mut at, mut more) = (base, 1);
    done.iter().filter(move |range| range.end - range.start >= least).flat_map(move |range| {
        let waiting = range.start - at + more;
        (at, more) = (range.end, 0);
        [waiting, range.end - range.start]
    })
}

/// How many bits the code of a number has: as many zeros as bits follow its first, and then its bits.
fn bits_of(number: u64) -> usize {
    2 * number.max(1).ilog2() as usize + 1
}

/// Reads what [`write`] has written. Of anything else nothing is done.
pub(crate) fn read(base: u64, note: &str) -> Vec<Range<u64>> {
    note.strip_prefix(MARK).and_then(|letters| read_runs(base, letters)).unwrap_or_default()
}

fn read_runs(base: u64, letters: &str) -> Option<Vec<Range<u64>>> {
    let mut bits = Vec::with_capacity(letters.len() * BITS as usize);
    for letter in letters.bytes() {
        let value = LETTERS.iter().position(|known| *known == letter)?;
        bits.extend((0..BITS).rev().map(|bit| value >> bit & 1 == 1));
    }
    let mut bits = bits.into_iter();
    // What fills the last letter is no code.
    let mut next = || {
        let zeros = bits.position(|bit| bit).filter(|zeros| *zeros < 64)?;
        (0..zeros).try_fold(1_u64, |number, _| Some(number << 1 | u64::from(bits.next()?)))
    };
    let (mut done, mut at) = (Vec::new(), base);
    while let Some(waiting) = next() {
        let start = at.checked_add(waiting - u64::from(done.is_empty()))?;
        at = start.checked_add(next()?)?;
        done.push(start..at);
    }
    Some(done)
}

/// Numbers in their code, six bits a letter.
#[derive(Default)]
struct Letters {
    note: String,
    value: usize,
    bits: u32,
}

impl Letters {
    fn push(&mut self, number: u64) {
        for bit in (0..bits_of(number)).rev() {
            self.push_bit(number.unbounded_shr(bit as u32) & 1 == 1);
        }
    }

    fn push_bit(&mut self, bit: bool) {
        self.value = self.value << 1 | usize::from(bit);
        self.bits += 1;
        if self.bits == BITS {
            self.note.push(char::from(LETTERS[self.value]));
            (self.value, self.bits) = (0, 0);
        }
    }

    fn finish(mut self) -> String {
        while self.bits > 0 {
            self.push_bit(false);
        }
        match self.note.is_empty() {
            true => self.note,
            false => format!("{MARK}{}", self.note),
        }
    }
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
        // The first run is one more: 010, then 4 is 00100, 6 is 00110 and 90 is 0000001011010.
        assert_eq!(note, "ixion-relay/1 H30MW");
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
            "ixion-relay/1 H30M",
            "ixion-relay/1 H",
            "ixion-relay/1 H3,0MW",
            "ixion-relay/1 H30MW ",
            "ixion-relay/1 H30M\u{e4}",
            "ixion-relay/1 00000000000W",
        ];
        for note in notes {
            assert_eq!(read(7, note), [0..0; 0], "{note:?}");
        }
    }

    #[test]
    fn offsets_at_random_take_a_bit_each_and_long_runs_take_few() {
        let mut random = fastrand::Rng::with_seed(1);
        let waiting: Vec<_> = (0..20_000).filter(|_| random.bool()).collect();
        let done = between(waiting.into_iter(), 0, 20_000);
        assert_eq!(read(0, &write(0, &done, LONGEST)), done, "all of it fits");
        let done = between((0..1000).map(|n| n * 1000), 0, 1_000_000);
        assert_eq!(read(0, &write(0, &done, LONGEST)), done, "all of it fits");
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
            gaps in prop::collection::vec((1..50_u64, 1..5000_u64), 0..100),
            longest in 0..300_usize,
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
        fn any_text_can_be_read(base: u64, text in "(ixion-relay/1 )?[0-9A-Za-z_-]{0,60}.{0,2}") {
            let done = read(base, &text);
            prop_assert!(done.iter().all(|range| base <= range.start && range.start <= range.end));
        }
    }
}
