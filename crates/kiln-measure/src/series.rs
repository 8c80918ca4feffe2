//! The samples that the sampler has kept for one subject.

use serde::{Deserialize, Serialize};

use crate::counters::Software;

/// The samples of one subject in one round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Smallest number of cycles per operation in this round; `None` if every sample was rejected.
    pub best: Option<f64>,
    /// Cycles per operation of every kept sample, in the order they were taken.
    pub samples: Vec<f64>,
    /// Whether the round was completed for all subjects. Only complete rounds are compared, because
    /// comparing the best of five samples with the best of one would be unfair.
    pub complete: bool,
}

impl Round {
    pub(crate) fn keep(&mut self, cycles: f64) {
        self.samples.push(cycles);
        self.best = Some(self.best.map_or(cycles, |best| best.min(cycles)));
    }
}

/// Readings of the CPU's performance counters for one run of a subject. This run takes place in
/// addition to the runs that provide the samples. Counts are per operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    pub cycles: f64,
    pub instructions: f64,
    /// Mispredicted branches; `None` if the CPU does not count them.
    pub branch_misses: Option<f64>,
    /// Core cycles per TSC tick.
    pub clock_ratio: f64,
    /// For the same run, the number of cycles estimated from multiplication chains, divided by the
    /// number that the CPU counted; `None` if the chains disagreed.
    pub estimate_ratio: Option<f64>,
}

/// All measurements of one subject.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Name of the measured subject.
    pub name: String,
    /// Number of operations in one sample.
    pub iters: u64,
    /// The rounds. In all series from one `measure` call, round `i` covers the same period of time.
    pub rounds: Vec<Round>,
    /// The same samples in nanoseconds per operation, from the TSC alone.
    pub rounds_ns: Vec<Round>,
    /// Each thread's nanoseconds per operation in the fastest sample; empty if there is only one
    /// thread.
    pub shares: Vec<f64>,
    /// Number of samples discarded because their chains disagreed or the source found them unsound.
    pub rejected: u64,
    /// Number of samples, kept or discarded, during which the kernel switched this thread out.
    pub switched: u64,
    /// One reading of the CPU's counters per round; empty if counters are not available.
    pub counted: Vec<Counted>,
    /// How much the kernel's counters for this thread increased while the samples were taken;
    /// `None` if the time source does not provide these counters.
    pub software: Option<Software>,
}

impl Series {
    /// Converts the series to nanoseconds, so that estimates and ratios refer to time. This matters
    /// for code that makes the core lower its clock frequency: such code can take fewer cycles but
    /// more time.
    pub fn in_ns(&self) -> Series {
        Series {
            name: self.name.clone(),
            rounds: self.rounds_ns.clone(),
            rounds_ns: self.rounds_ns.clone(),
            shares: self.shares.clone(),
            counted: self.counted.clone(),
            ..*self
        }
    }

    /// Returns the best sample of each of the first `most` complete rounds, in order. If every
    /// sample of a round was rejected, its entry is `None`.
    pub fn bests(&self, most: usize) -> Vec<Option<f64>> {
        let complete = self.rounds.iter().filter(|round| round.complete);
        complete.map(|round| round.best).take(most).collect()
    }

    /// Returns whether a sample of `ns` nanoseconds per operation is faster than every sample kept
    /// so far.
    pub(crate) fn is_fastest(&self, ns: f64) -> bool {
        let mut bests = self.rounds_ns.iter().filter_map(|round| round.best);
        bests.all(|best| ns < best)
    }

    /// Returns the number of samples kept in all rounds, complete or not.
    pub fn kept(&self) -> u64 {
        self.rounds
            .iter()
            .map(|round| round.samples.len() as u64)
            .sum()
    }
}
