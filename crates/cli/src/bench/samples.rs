//! Samples and their statistics: the median, and the 99th percentile for the tail.

use serde::{Deserialize, Serialize};

/// Times of one operation, nanoseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples(Vec<f64>);

/// What is printed of samples, microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Summary {
    pub(super) samples: usize,
    pub(super) median_us: f64,
    pub(super) p99_us: f64,
}

impl Samples {
    /// None yet.
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    /// One operation took so long.
    pub(super) fn push(&mut self, nanos: f64) {
        self.0.push(nanos);
    }

    /// Takes over the samples of another round.
    pub(super) fn append(&mut self, mut other: Samples) {
        self.0.append(&mut other.0);
    }

    /// Every sample times `factor`: half a round trip, one of a group of operations.
    pub(super) fn scaled(mut self, factor: f64) -> Self {
        self.0.iter_mut().for_each(|nanos| *nanos *= factor);
        self
    }

    /// Median and 99th percentile; zeroes without samples.
    pub(super) fn summary(&self) -> Summary {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        Summary {
            samples: sorted.len(),
            median_us: at_share(&sorted, 50) / 1e3,
            p99_us: at_share(&sorted, 99) / 1e3,
        }
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(nanos: I) -> Self {
        Self(nanos.into_iter().collect())
    }
}

/// The value that `percent` of a sorted list do not exceed (nearest rank).
fn at_share(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0.0)
}

/// The middle one; 0 of none.
pub(super) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    at_share(&sorted, 50)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples_by_nearest_rank() {
        let samples: Samples = (1..=200).rev().map(|n| f64::from(n) * 1e3).collect();
        let summary = samples.summary();
        assert_eq!((summary.samples, summary.median_us, summary.p99_us), (200, 100.0, 198.0));
        let one: Samples = core::iter::once(7e3).collect();
        assert_eq!(one.summary(), Summary { samples: 1, median_us: 7.0, p99_us: 7.0 });
    }

    #[test]
    fn no_samples_are_all_zeroes_and_no_panic() {
        assert_eq!(Samples::default().summary(), Summary::default());
        assert!(median([]).abs() < f64::EPSILON);
    }

    #[test]
    fn half_a_round_trip_is_half_of_every_sample() {
        let samples: Samples = [2e3, 4e3, 6e3].into_iter().collect();
        assert!((samples.scaled(0.5).summary().median_us - 2.0).abs() < 1e-9);
    }
}
