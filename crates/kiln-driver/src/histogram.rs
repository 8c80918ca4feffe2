//! A histogram of durations with a relative resolution of 1/32.

/// Number of buckets per octave.
const FINE: u64 = 32;
/// Number of octaves needed to cover all `u64` values. The values below 32 share one octave.
const OCTAVES: usize = 60;

/// A histogram of durations in nanoseconds. It keeps only a duration's leading bit and the next 5
/// bits, so durations up to 63 ns are exact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram {
            counts: vec![0; OCTAVES * FINE as usize],
            total: 0,
            max: 0,
        }
    }
}

impl Histogram {
    pub fn add(&mut self, ns: u64) {
        self.counts[bucket(ns)] += 1;
        self.total += 1;
        self.max = self.max.max(ns);
    }

    /// Adds the counts of another histogram to this one.
    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
        self.max = self.max.max(other.max);
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the longest duration, exact to the nanosecond.
    pub fn max(&self) -> Option<u64> {
        (self.total > 0).then_some(self.max)
    }

    /// Returns the `q` quantile of the durations, rounded up to the end of its bucket but not
    /// beyond the longest duration. Returns `None` if the histogram is empty.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        if self.total == 0 {
            return None;
        }
        let rank = ((q * self.total as f64).ceil() as u64).clamp(1, self.total);
        let mut seen = 0;
        for (at, &n) in self.counts.iter().enumerate() {
            seen += n;
            if seen >= rank {
                return Some(last_of(at).min(self.max));
            }
        }
        Some(self.max)
    }

    /// Counts the durations up to the first bound, between each pair of consecutive bounds, and
    /// beyond the last bound. Bounds have a resolution of 1/32.
    pub fn counted_to(&self, bounds: &[u64]) -> Vec<u64> {
        let mut counts = vec![0; bounds.len() + 1];
        for (at, &n) in self.counts.iter().enumerate().filter(|(_, &n)| n > 0) {
            counts[bounds.partition_point(|&bound| bound < first_of(at))] += n;
        }
        counts
    }

    /// Counts durations, in whole microseconds, in the intervals 0 to 1, 2 to 3, 4 to 7 and so on,
    /// as bcc's histograms do. Returns `octaves` counts; the last one includes all longer
    /// durations.
    pub fn microseconds(&self, octaves: usize) -> Vec<u64> {
        let mut counts = vec![0; octaves];
        for (at, &n) in self.counts.iter().enumerate().filter(|(_, &n)| n > 0) {
            let us = first_of(at) / 1000;
            let octave = us.max(1).ilog2() as usize;
            counts[octave.min(octaves - 1)] += n;
        }
        counts
    }
}

fn bucket(ns: u64) -> usize {
    if ns < FINE {
        return ns as usize;
    }
    let octave = ns.ilog2() - FINE.ilog2();
    ((u64::from(octave) + 1) * FINE + (ns >> octave) - FINE) as usize
}

fn first_of(at: usize) -> u64 {
    let at = at as u64;
    if at < FINE {
        return at;
    }
    (at % FINE + FINE) << (at / FINE - 1)
}

fn last_of(at: usize) -> u64 {
    first_of(at + 1).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_what_belongs_there() {
        for ns in (0..5000).chain([1 << 20, (1 << 40) + 12345, u64::MAX >> 1]) {
            let at = bucket(ns);
            assert!(first_of(at) <= ns && ns <= last_of(at), "{ns}");
            assert!(last_of(at) - first_of(at) <= ns / 32, "{ns}");
        }
        assert!(bucket(u64::MAX) < OCTAVES * FINE as usize);
    }

    #[test]
    fn quantiles_and_octaves() {
        let mut h = Histogram::default();
        assert_eq!(h.quantile(0.5), None);
        for ns in [500, 1_500, 2_500, 9_000, 9_000_000] {
            h.add(ns);
        }
        assert_eq!(h.total(), 5);
        assert_eq!(h.max(), Some(9_000_000));
        assert_eq!(h.quantile(1.0), Some(9_000_000));
        let half = h.quantile(0.5).unwrap();
        assert!((2_500..2_600).contains(&half), "{half}");
        let counts = h.microseconds(15);
        assert_eq!((counts[0], counts[1], counts[3], counts[13]), (2, 1, 1, 1));
        let mut twice = h.clone();
        twice.merge(&h);
        assert_eq!(twice.total(), 10);
        assert_eq!(twice.quantile(0.5), h.quantile(0.5));
    }
}
