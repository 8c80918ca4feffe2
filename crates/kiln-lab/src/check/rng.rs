//! Numbers that follow from a seed, the same with every version of every library: a replay line must stay good.

/// SplitMix64 (Steele, Lea and Flood, 2014).
pub(crate) struct Rng(u64);

impl Rng {
    /// The stream of item `number` of `seed`. Each is a stretch of 2^32 or so of the one period, from a place
    /// that a full mix of both numbers gives.
    pub fn of(seed: u64, number: u64) -> Rng {
        let seed = Rng(seed).next();
        Rng(Rng(seed ^ number).next())
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`, which is not zero; biased by less than n / 2^64.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_and_repeat() {
        let first = |seed, number| Rng::of(seed, number).next();
        assert_eq!(first(1, 2), first(1, 2));
        let mut all: Vec<u64> = (0..100)
            .flat_map(|s| (0..100).map(move |n| first(s, n)))
            .collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 10_000);
    }

    #[test]
    fn below_reaches_both_ends_and_no_further() {
        let mut rng = Rng::of(0, 0);
        let drawn: Vec<usize> = (0..1000).map(|_| rng.below(7)).collect();
        assert_eq!(drawn.iter().max(), Some(&6));
        assert_eq!(drawn.iter().min(), Some(&0));
    }
}
