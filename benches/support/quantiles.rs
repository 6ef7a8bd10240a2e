//! Medians and other quantiles.

/// The middle one; of an even number, the mean of the two in the middle.
///
/// # Panics
///
/// If there are none.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    if values.len() % 2 == 1 { values[half] } else { f64::midpoint(values[half - 1], values[half]) }
}

/// For each share the smallest value that at least such a share of them does not exceed. Sorts them.
///
/// # Panics
///
/// If there are none.
pub fn quantiles<T: Ord + Copy, const N: usize>(values: &mut [T], shares: [f64; N]) -> [T; N] {
    values.sort_unstable();
    shares.map(|share| {
        let rank = (share * values.len() as f64).ceil() as usize;
        values[rank.clamp(1, values.len()) - 1]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn a_quantile_is_one_of_the_values() {
        let mut values: Vec<u32> = (1..=1000).rev().collect();
        assert_eq!(quantiles(&mut values, [0.0, 0.5, 0.99, 0.999, 1.0]), [1, 500, 990, 999, 1000]);
        assert_eq!(quantiles(&mut [7], [0.999]), [7]);
    }
}
