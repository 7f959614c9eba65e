//! Reproducible pseudo-random numbers.

/// A SplitMix64 generator: simple, and sufficient to select a user's next action.
pub struct Random(u64);

impl Random {
    /// Creates one of several streams of the same seed.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut own = Self(seed ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03));
        own.next();
        own
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Returns a number below `bound`, or 0 if `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn one_of<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        list.get(self.below(list.len()))
    }

    /// Returns `count` different numbers below `bound`, or all of them if there are fewer.
    pub fn some(&mut self, count: usize, bound: usize) -> Vec<usize> {
        let mut chosen = Vec::new();
        while chosen.len() < count.min(bound) {
            let one = self.below(bound);
            if !chosen.contains(&one) {
                chosen.push(one);
            }
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_streams_differ() {
        let numbers = |seed, stream| {
            let mut random = Random::new(seed, stream);
            (0..20).map(|_| random.below(1_000_000)).collect::<Vec<_>>()
        };
        assert_eq!(numbers(7, 1), numbers(7, 1));
        assert_ne!(numbers(7, 1), numbers(7, 2));
        assert_ne!(numbers(7, 1), numbers(8, 1));
        assert_eq!(Random::new(7, 0).some(9, 3).len(), 3);
    }
}
