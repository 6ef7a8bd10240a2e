//! When an operation was registered, in six bytes: as many as are free beside the number of its home.

use std::time::Duration;

/// Microseconds are kept modulo so many: four and a half years.
const SPAN: u64 = 1 << 47;

/// A reading of the clock to a microsecond, and without the years: enough to say how long ago it was.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Since([u16; 3]);

impl Since {
    /// The clock was not read.
    pub(super) const UNKNOWN: Since = Since([0; 3]);

    #[inline]
    pub(super) fn new(elapsed: Duration) -> Self {
        let bits = SPAN | (micros(elapsed) % SPAN);
        Since([bits as u16, (bits >> 16) as u16, (bits >> 32) as u16])
    }

    /// How long ago that was at `now`. A clock that has stepped back stands still; so does one that has gone on for more
    /// than two years.
    #[inline]
    pub(super) fn until(self, now: Duration) -> Option<Duration> {
        if self == Self::UNKNOWN {
            return None;
        }
        let [low, middle, high] = self.0.map(u64::from);
        let ago = micros(now).wrapping_sub(low | middle << 16 | high << 32) % SPAN;
        let is_negative = ago > SPAN / 2;
        Some(Duration::from_micros(if is_negative { 0 } else { ago }))
    }
}

/// Whole microseconds. What overflows is a multiple of [`SPAN`].
#[inline]
const fn micros(elapsed: Duration) -> u64 {
    elapsed.as_secs().wrapping_mul(1_000_000).wrapping_add(elapsed.subsec_micros() as u64)
}

#[cfg(all(test, not(any(ixion_loom, ixion_shuttle))))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn it_fits_beside_a_number_of_sixteen_bits() {
        assert_eq!(size_of::<(u16, Since)>(), 8);
    }

    proptest! {
        #[test]
        fn the_time_that_has_passed_is_known_to_a_microsecond_at_any_uptime(
            secs in 0..u64::MAX / 2, nanos in 0..1_000_000_000u32, micros in 0..SPAN / 2, rest in 0..1000u64,
        ) {
            let start = Duration::new(secs, nanos);
            let passed = Duration::from_micros(micros) + Duration::from_nanos(rest);
            let told = Since::new(start).until(start + passed).expect("it is known");
            prop_assert!(told.abs_diff(passed) < Duration::from_micros(1), "{told:?} for {passed:?}");
        }
    }

    #[test]
    fn a_clock_that_steps_back_stands_still() {
        let since = Since::new(Duration::from_secs(10));
        assert_eq!(since.until(Duration::from_secs(9)), Some(Duration::ZERO));
        assert_eq!(since.until(Duration::ZERO), Some(Duration::ZERO));
        assert_eq!(Since::UNKNOWN.until(Duration::from_secs(9)), None);
        assert_eq!(Since::new(Duration::ZERO).until(Duration::from_secs(9)), Some(Duration::from_secs(9)));
    }
}
