//! What a CPU counts: `struct cpu_stats` and `struct histogram`, field by field.

use std::ops::AddAssign;

use crate::sys;

/// Counts since boot or [`crate::cpu::Cpu::reset_stats`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Hardirqs taken.
    pub irqs: u64,
    /// Hardirqs that interrupted user mode.
    pub irqs_user: u64,
    /// Hardirqs that interrupted an FPU section.
    pub irqs_in_section: u64,
    /// Softirq handlers run.
    pub softirqs: u64,
    /// Times the softirq loop left some to ksoftirqd.
    pub softirqs_deferred: u64,
    /// FPU sections.
    pub sections: u64,
    /// Sections that the section timer counted in the histogram.
    pub sections_timed: u64,
    /// Timed sections that were interrupted.
    pub sections_interrupted: u64,
    /// Timed sections, not interrupted, during which the host took the CPU away.
    pub sections_stolen: u64,
    /// User FPU states saved.
    pub user_saves: u64,
    /// User FPU states restored.
    pub user_restores: u64,
    /// Sections that saved the section they interrupted.
    pub nested_saves: u64,
    /// Sections saved because their task was switched out.
    pub task_saves: u64,
    /// Warnings that a debug kernel would print.
    pub warnings: u64,
    /// Switches of tasks.
    pub switches: u64,
    /// Involuntary switches.
    pub preemptions: u64,
    /// Timed sections longer than the `long_ticks` of [`crate::budget::Run`].
    pub sections_long: u64,
    /// Long sections that were interrupted or lost the CPU to the host.
    pub sections_long_witnessed: u64,
    /// Sections that the watchdog found too long.
    pub stalls: u64,
    /// The longest stall when the watchdog found it, TSC ticks.
    pub stall_max: u64,
    /// Raised by a hardirq that interrupted a softirq: they wait until that one is done.
    pub softirqs_behind: u64,
}

sys::assert_layout!(Stats, sys::CpuStats, irqs irqs_user irqs_in_section softirqs softirqs_deferred sections
    sections_timed sections_interrupted sections_stolen user_saves user_restores nested_saves task_saves warnings
    switches preemptions sections_long sections_long_witnessed stalls stall_max softirqs_behind);

impl AddAssign for Stats {
    fn add_assign(&mut self, other: Stats) {
        self.irqs += other.irqs;
        self.irqs_user += other.irqs_user;
        self.irqs_in_section += other.irqs_in_section;
        self.softirqs += other.softirqs;
        self.softirqs_deferred += other.softirqs_deferred;
        self.softirqs_behind += other.softirqs_behind;
        self.sections += other.sections;
        self.sections_timed += other.sections_timed;
        self.sections_interrupted += other.sections_interrupted;
        self.sections_stolen += other.sections_stolen;
        self.user_saves += other.user_saves;
        self.user_restores += other.user_restores;
        self.nested_saves += other.nested_saves;
        self.task_saves += other.task_saves;
        self.warnings += other.warnings;
        self.switches += other.switches;
        self.preemptions += other.preemptions;
        self.sections_long += other.sections_long;
        self.sections_long_witnessed += other.sections_long_witnessed;
        self.stalls += other.stalls;
        self.stall_max = self.stall_max.max(other.stall_max);
    }
}

const BUCKETS: usize = sys::HISTOGRAM_BUCKETS as usize;

/// TSC intervals, in buckets a sixteenth of an octave wide, or with 64-bit counts the sum of many of them.
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
    /// How many intervals.
    pub fn total(&self) -> u64 {
        self.count.iter().map(|&c| c.into()).sum()
    }

    /// The longest, in TSC ticks.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The interval that a share `q` of them does not exceed, in TSC ticks: the upper end
    /// of its bucket, the maximum at most. None of nothing.
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

    /// The upper end of each bucket that has any, in TSC ticks, and how many it has.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        let all = self.count.iter().map(|&n| n.into()).enumerate();
        all.filter(|&(_, n)| n > 0)
            .map(|(bucket, n)| (upper_end(bucket).min(self.max), n))
            .collect()
    }
}

impl Histogram<u64> {
    /// Add the counts of one CPU.
    pub fn add(&mut self, other: &Histogram) {
        self.max = self.max.max(other.max);
        for (a, &b) in self.count.iter_mut().zip(&other.count) {
            *a += u64::from(b);
        }
    }
}

impl Histogram {
    /// Add another's counts.
    pub fn merge(&mut self, other: &Histogram) {
        self.max = self.max.max(other.max);
        for (a, b) in self.count.iter_mut().zip(&other.count) {
            *a += b;
        }
    }
}

/// The largest value of a bucket; see `histogram_bucket()`.
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

    /// `histogram_bucket()` again, to hold `upper_end` against.
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
