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

/// The smallest value that at least such a share of them does not exceed; they are sorted.
///
/// # Panics
///
/// If there are none.
#[must_use]
pub fn quantile(sorted: &[u32], share: f64) -> u32 {
    debug_assert!(sorted.is_sorted());
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
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
        let values: Vec<u32> = (1..=1000).collect();
        let quantiles = [0.0, 0.5, 0.99, 0.999, 1.0].map(|share| quantile(&values, share));
        assert_eq!(quantiles, [1, 500, 990, 999, 1000]);
        assert_eq!(quantile(&[7], 0.999), 7);
    }
}
