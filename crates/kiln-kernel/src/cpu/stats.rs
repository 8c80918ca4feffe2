//! The counters and histograms of a CPU.

use crate::derive::add_fields;
use crate::sys;

/// Counts since boot or since [`crate::cpu::Cpu::reset_stats`].
pub use crate::sys::CpuStats as Stats;

add_fields!(Stats, irqs irqs_user irqs_in_section softirqs softirqs_deferred softirqs_behind sections sections_timed
    sections_interrupted sections_stolen user_saves user_restores nested_saves task_saves warnings switches preemptions
    sections_long sections_long_witnessed stalls; max stall_max);

const BUCKETS: usize = sys::HISTOGRAM_BUCKETS as usize;

/// A histogram of TSC intervals with sixteen buckets per octave. With 64-bit counts, it can also
/// hold the sum of many histograms.
#[derive(Clone, Debug)]
pub struct Histogram<Count = u32> {
    max: u64,
    count: [Count; BUCKETS],
}

impl<Count: Copy + Default> Default for Histogram<Count> {
    fn default() -> Histogram<Count> {
        Histogram {
            max: 0,
            count: [Count::default(); BUCKETS],
        }
    }
}

impl From<&sys::Histogram> for Histogram {
    fn from(raw: &sys::Histogram) -> Histogram {
        Histogram {
            max: raw.max,
            count: raw.count,
        }
    }
}

impl<Count: Copy + Into<u64>> Histogram<Count> {
    /// Returns the number of recorded intervals.
    pub fn total(&self) -> u64 {
        self.count.iter().map(|&c| c.into()).sum()
    }

    /// Returns the longest interval in TSC ticks.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Returns the `q`-quantile in TSC ticks: the upper end of the bucket that contains it, but at
    /// most the maximum. Returns `None` if the histogram is empty.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let total = self.total();
        if total == 0 {
            return None;
        }
        let rank = ((q * total as f64).ceil() as u64).clamp(1, total);
        let mut seen = 0;
        for (bucket, &count) in self.count.iter().enumerate() {
            seen += count.into();
            if seen >= rank {
                return Some(upper_end(bucket).min(self.max));
            }
        }
        Some(self.max)
    }

    /// Returns the upper end, in TSC ticks, and the count of each non-empty bucket.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        let all = self.count.iter().map(|&n| n.into()).enumerate();
        all.filter(|&(_, n)| n > 0)
            .map(|(bucket, n)| (upper_end(bucket).min(self.max), n))
            .collect()
    }
}

impl Histogram<u64> {
    /// Adds the 32-bit counts of a CPU's histogram.
    pub fn add(&mut self, other: &Histogram) {
        self.max = self.max.max(other.max);
        for (a, &b) in self.count.iter_mut().zip(&other.count) {
            *a += u64::from(b);
        }
    }
}

impl Histogram {
    /// Adds the counts of another histogram of the same type.
    pub fn merge(&mut self, other: &Histogram) {
        self.max = self.max.max(other.max);
        for (a, b) in self.count.iter_mut().zip(&other.count) {
            *a += b;
        }
    }
}

/// Returns the largest value that belongs to a bucket. This is the inverse of the C function
/// `histogram_bucket()`.
fn upper_end(bucket: usize) -> u64 {
    if bucket < 16 {
        return bucket as u64;
    }
    let (octave, step) = (bucket / 16 + 3, bucket as u64 % 16);
    ((16 + step + 1) << (octave - 4)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A copy of the C function `histogram_bucket()`, used to check that `upper_end` inverts it.
    fn bucket(v: u64) -> usize {
        if v < 16 {
            return v as usize;
        }
        let top = 63 - v.leading_zeros() as usize;
        (top - 3) * 16 + (v >> (top - 4) & 15) as usize
    }

    #[test]
    fn upper_ends_are_the_last_of_their_bucket() {
        for b in 0..BUCKETS {
            assert_eq!(bucket(upper_end(b)), b, "{b}");
            assert_eq!(bucket(upper_end(b) + 1), b + 1, "{b}");
        }
    }

    #[test]
    fn a_sum_counts_beyond_32_bits() {
        let mut one = Histogram::default();
        one.count[7] = u32::MAX;
        let mut sum = Histogram::<u64>::default();
        sum.add(&one);
        sum.add(&one);
        assert_eq!(sum.total(), 2 * u64::from(u32::MAX));
        assert_eq!(sum.buckets()[0].1, sum.total());
    }

    #[test]
    fn quantiles() {
        let mut h: Histogram = Histogram {
            max: 1000,
            count: [0; BUCKETS],
        };
        assert_eq!(h.quantile(0.5), None);
        h.count[bucket(10)] = 99;
        h.count[bucket(1000)] = 1;
        assert_eq!(h.quantile(0.5), Some(10));
        assert_eq!(h.quantile(0.99), Some(10));
        assert_eq!(h.quantile(0.999), Some(1000));
    }
}
