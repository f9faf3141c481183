//! Random numbers from a seed: the same on every node that throws the same random.

/// SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Debug, Clone)]
pub(super) struct RandomSource(u64);

impl RandomSource {
    /// RandomSource of their own for every list of numbers.
    pub(super) fn new(seeds: &[u64]) -> Self {
        let mut random = Self(0);
        for &seed in seeds {
            random.0 ^= seed;
            random.0 = random.next();
        }
        random
    }

    /// 64 random bits.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `limit`, which is small.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).expect("smaller than a usize")
    }

    /// True once in `times`.
    pub(super) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seeds_throw_the_same_and_others_do_not() {
        let throw = |seeds: &[u64]| RandomSource::new(seeds).next();
        assert_eq!(throw(&[1, 2]), throw(&[1, 2]));
        assert_ne!(throw(&[1, 2]), throw(&[2, 1]));
        assert_ne!(throw(&[1, 2]), throw(&[1, 3]));
    }

    #[test]
    fn every_face_comes_up() {
        let mut random = RandomSource::new(&[7]);
        let mut faces = [0; 6];
        (0..600).for_each(|_| faces[random.below(6)] += 1);
        assert!(faces.iter().all(|&times| times > 50), "{faces:?}");
    }
}
