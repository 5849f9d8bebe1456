//! How long something took, in classes: what the control core measures of itself and of targets, for whoever wants
//! more than a mean. A few dozen bytes and a search among a dozen bounds a value; nothing is ever thrown away.

#![forbid(unsafe_code)]

use std::time::Duration;

/// Bounds for checks of health: from the answer of a neighbour on the wire to the longest timeout that there is.
pub const CHECK_BOUNDS: &[f64] =
    &[0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0];

/// Bounds for writing to a disk: from what lies in memory to one that hangs.
pub const DISK_BOUNDS: &[f64] = &[0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

/// Bounds for how fast workers follow: a round takes microseconds, and a millisecond is what is promised (H-7).
pub const FOLLOW_BOUNDS: &[f64] =
    &[0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.1];

/// Durations, counted by class.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// The upper bound of each class but the last, in seconds.
    bounds: &'static [f64],
    /// How many there were of each class; one more than there are bounds.
    counts: Vec<u64>,
    sum: Duration,
}

impl Histogram {
    /// An empty one with these upper bounds, in seconds and ascending.
    pub fn new(bounds: &'static [f64]) -> Self {
        Histogram { bounds, counts: vec![0; bounds.len() + 1], sum: Duration::ZERO }
    }

    /// Counts a duration; one that is a bound is of the class below.
    pub fn observe(&mut self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let class = self.bounds.partition_point(|bound| *bound < seconds);
        self.counts[class] += 1;
        self.sum += duration;
    }

    /// Each class's upper bound in seconds, infinity for the last, and how many there were in it.
    pub fn classes(&self) -> impl Iterator<Item = (f64, u64)> {
        self.bounds.iter().copied().chain([f64::INFINITY]).zip(self.counts.iter().copied())
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// What they took together.
    pub fn sum(&self) -> Duration {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_of_the_class_whose_bound_it_does_not_exceed() {
        let mut histogram = Histogram::new(&[0.001, 0.01]);
        for micros in [0, 1_000, 1_001, 10_000, 10_001, 5_000_000] {
            histogram.observe(Duration::from_micros(micros));
        }
        let classes: Vec<_> = histogram.classes().collect();
        assert_eq!(classes, [(0.001, 2), (0.01, 2), (f64::INFINITY, 2)]);
        assert_eq!((histogram.count(), histogram.sum()), (6, Duration::from_micros(5_022_002)));
    }

    #[test]
    fn bounds_ascend() {
        for bounds in [CHECK_BOUNDS, DISK_BOUNDS, FOLLOW_BOUNDS] {
            assert!(bounds.is_sorted() && bounds.len() < 20, "{bounds:?}");
        }
    }
}
