//! Random numbers from a seed: `SplitMix64`, written out here so that a seed gives the same run in every version.

/// A stream of random numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng(u64);

impl Rng {
    /// The stream of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A stream of its own for a part of a run; the same for the same seed and part.
    #[must_use]
    pub fn of(seed: u64, part: u64) -> Self {
        let mut rng = Self(seed ^ part.wrapping_mul(0xd134_2543_de82_ef95));
        Self(rng.bits())
    }

    /// A stream of its own for every list of numbers.
    #[must_use]
    pub fn of_all(seeds: &[u64]) -> Self {
        Self(seeds.iter().fold(0, |state, &seed| Self(state ^ seed).bits()))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `bound`; 0 if that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.bits()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// A number below `bound`.
    pub fn below32(&mut self, bound: u32) -> u32 {
        u32::try_from(self.below(bound.into())).unwrap_or(0)
    }

    /// An index into a slice of so many elements; 0 if it has none.
    pub fn index(&mut self, count: usize) -> usize {
        usize::try_from(self.below(count as u64)).unwrap_or(0)
    }

    /// True once in `times`, never if that is 0.
    pub fn once_in(&mut self, times: u64) -> bool {
        times > 0 && self.below(times) == 0
    }

    /// One of these.
    ///
    /// # Panics
    /// If there is none.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }

    /// A number from `low` to `high`, every order of magnitude as likely as any other.
    pub fn magnitude(&mut self, low: u64, high: u64) -> u64 {
        let (mut low, mut steps) = (low.max(1), 0);
        let first = low;
        while low < high {
            low = low.saturating_mul(2);
            steps += 1;
        }
        let base = first.saturating_mul(1 << self.below(steps + 1).min(62));
        base.saturating_add(self.below(base)).min(high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_numbers_of_a_seed_never_change() {
        // From the reference implementation of SplitMix64.
        let mut rng = Rng::new(1_234_567);
        assert_eq!(rng.bits(), 6_457_827_717_110_365_317);
        assert_eq!(rng.bits(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn every_list_of_numbers_has_its_stream() {
        let first = |seeds: &[u64]| Rng::of_all(seeds).bits();
        assert_eq!(first(&[1, 2]), first(&[1, 2]));
        assert_ne!(first(&[1, 2]), first(&[2, 1]));
        assert_ne!(first(&[1, 2]), first(&[1, 3]));
    }

    #[test]
    fn every_index_comes_up_as_often() {
        let mut rng = Rng::new(7);
        let mut times = [0; 6];
        (0..600).for_each(|_| times[rng.index(6)] += 1);
        assert!(times.iter().all(|&times| times > 50), "{times:?}");
    }

    #[test]
    fn magnitudes_stay_in_their_range_and_reach_both_ends_of_it() {
        let mut rng = Rng::new(1);
        let drawn: Vec<u64> = (0..1000).map(|_| rng.magnitude(10, 1000)).collect();
        assert!(drawn.iter().all(|number| (10..=1000).contains(number)));
        assert!(
            drawn.iter().any(|&number| number < 20) && drawn.iter().any(|&number| number > 500)
        );
    }
}
