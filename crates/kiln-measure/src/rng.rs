//! SplitMix64, used for every random choice. It is implemented here, so that a seed gives the same
//! choices regardless of the versions of external libraries.

/// The SplitMix64 generator (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", 2014).
#[derive(Clone, Debug, Default)]
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// Returns stream `number` derived from `seed`. Each stream is a section of the generator's
    /// single period, about 2^32 values long. The start of the section depends on every bit of
    /// both `seed` and `number`.
    pub fn stream(seed: u64, number: u64) -> SplitMix64 {
        let seed = SplitMix64(seed).next_u64();
        SplitMix64(SplitMix64(seed ^ number).next_u64())
    }

    // Inline this function even in unoptimised builds: kiln-kernel's breakpoint handler uses it to
    // choose addresses, and that handler must not execute code that may contain a breakpoint.
    #[inline(always)]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a random number from 0 to `n` - 1. `n` must not be zero. The bias is less than n /
    /// 2^64.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next_u64()) * n as u128) >> 64) as usize
    }

    /// Returns true with probability 1 / `n`.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }

    /// Shuffles a list (Fisher-Yates). The bias of each choice is less than n / 2^64, where n is
    /// the length of the list.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            list.swap(i, (self.next_u64() % (i as u64 + 1)) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_values_are_those_of_the_reference_code() {
        let mut rng = SplitMix64(0);
        assert_eq!(rng.next_u64(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(rng.next_u64(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn streams_differ_and_repeat() {
        let first = |seed, number| SplitMix64::stream(seed, number).next_u64();
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
        let mut rng = SplitMix64::stream(0, 0);
        let drawn: Vec<usize> = (0..1000).map(|_| rng.below(7)).collect();
        assert_eq!(drawn.iter().max(), Some(&6));
        assert_eq!(drawn.iter().min(), Some(&0));
    }

    #[test]
    fn shuffle_permutes_and_repeats() {
        let shuffled = |seed| {
            let mut list: Vec<u32> = (0..100).collect();
            SplitMix64(seed).shuffle(&mut list);
            list
        };
        let mut sorted = shuffled(7);
        assert_eq!(sorted, shuffled(7));
        assert_ne!(sorted, shuffled(8));
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<_>>());
    }
}
