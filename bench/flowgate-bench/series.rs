//! What the rounds of one contender gave.

use serde::Serialize;

/// Samples, one a round, in the order of the rounds.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct Series(Vec<f64>);

impl Series {
    pub fn push(&mut self, sample: f64) {
        self.0.push(sample);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    fn sorted(&self) -> Vec<f64> {
        let mut samples = self.0.clone();
        samples.sort_by(f64::total_cmp);
        samples
    }

    /// The least. What a machine shared with others does to a measurement only adds to it, so this is the
    /// nearest to what the code itself takes; verdicts go by it.
    pub fn best(&self) -> f64 {
        self.sorted().first().copied().unwrap_or(f64::NAN)
    }

    pub fn worst(&self) -> f64 {
        self.sorted().last().copied().unwrap_or(f64::NAN)
    }

    pub fn median(&self) -> f64 {
        let sorted = self.sorted();
        match sorted.len() {
            0 => f64::NAN,
            n if n % 2 == 1 => sorted[n / 2],
            n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
        }
    }
}

/// What so great a share of some sorted numbers does not pass.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a slice")]
    let place = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(samples: &[f64]) -> Series {
        Series(samples.to_vec())
    }

    #[test]
    fn best_median_and_worst_do_not_depend_on_the_order() {
        let odd = series(&[30.0, 10.0, 20.0]);
        assert_eq!((odd.best(), odd.median(), odd.worst()), (10.0, 20.0, 30.0));
        let even = series(&[40.0, 10.0, 20.0, 30.0]);
        assert_eq!((even.best(), even.median(), even.worst()), (10.0, 25.0, 40.0));
        assert!(series(&[]).median().is_nan());
    }

    #[test]
    fn a_quantile_is_one_of_the_numbers() {
        let sorted: Vec<f64> = (1..=1000).map(f64::from).collect();
        let quantiles = [0.0, 0.5, 0.999, 1.0].map(|share| quantile(&sorted, share));
        assert_eq!(quantiles, [1.0, 500.0, 999.0, 1000.0]);
        assert!(quantile(&[], 0.5).is_nan());
    }
}
