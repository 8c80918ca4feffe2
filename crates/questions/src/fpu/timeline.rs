//! Throughput and queue length over time, averaged over the rounds.

use kiln_kernel::esp::Outcome;

/// The timeline of a policy, with one value per millisecond.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    rounds: u32,
    bytes: Vec<f64>,
    queued: Vec<f64>,
}

/// Number of milliseconds over which throughput is averaged.
const BIN: usize = 3;

impl Timeline {
    pub(crate) fn add(&mut self, outcome: &Outcome) {
        let samples = &outcome.samples;
        let Some(last) = samples.last() else { return };
        let len = last.ms as usize;
        if self.bytes.len() < len {
            self.bytes.resize(len, 0.0);
            self.queued.resize(len, 0.0);
        }
        self.rounds += 1;
        let mut i = 0;
        for ms in 0..len {
            while i + 1 < samples.len() && samples[i + 1].ms <= ms as f64 {
                i += 1;
            }
            let (a, b) = (&samples[i], &samples[(i + 1).min(samples.len() - 1)]);
            let part = match b.ms > a.ms {
                true => ((ms as f64 - a.ms) / (b.ms - a.ms)).clamp(0.0, 1.0),
                false => 0.0,
            };
            self.bytes[ms] += a.bytes as f64 + part * (b.bytes - a.bytes) as f64;
            self.queued[ms] += f64::from(a.queued);
        }
    }

    /// Returns pairs of a time in milliseconds and the throughput at that time in MB/s.
    pub(crate) fn throughput(&self) -> Vec<(f64, f64)> {
        let rounds = f64::from(self.rounds.max(1));
        let steps = self.bytes.len().saturating_sub(BIN);
        (0..steps)
            .map(|i| {
                let bytes = (self.bytes[i + BIN] - self.bytes[i]).max(0.0) / rounds;
                (i as f64 + BIN as f64 / 2.0, bytes / (BIN as f64 * 1e3))
            })
            .collect()
    }

    /// Returns pairs of a time in milliseconds and the number of requests in cryptd's queue at that
    /// time.
    pub(crate) fn queue(&self) -> Vec<(f64, f64)> {
        let rounds = f64::from(self.rounds.max(1));
        let of = |(i, q): (usize, &f64)| (i as f64, q / rounds);
        self.queued.iter().enumerate().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_kernel::esp::Sample;

    #[test]
    fn a_steady_load_is_a_level_line() {
        let mut line = Timeline::default();
        for round in 0..2 {
            let samples = (0..50).map(|i| Sample {
                ms: f64::from(i) * 1.1,
                bytes: (f64::from(i) * 1.1 * 2000.0) as u64,
                queued: 10 + 20 * round,
                ..Sample::default()
            });
            line.add(&Outcome {
                samples: samples.collect(),
                ..Outcome::default()
            });
        }
        for (ms, mb) in line.throughput() {
            assert!((mb - 2.0).abs() < 0.02, "{ms}: {mb}");
        }
        assert!(line.queue().iter().all(|(_, q)| (*q - 20.0).abs() < 1e-9));
        assert_eq!(line.queue().len(), 53);
    }
}
