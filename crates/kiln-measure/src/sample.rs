//! The sampler: interleaves the subjects in time and takes each sample between calibrating chains.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::counters::{Counters, Software};
use crate::rng::SplitMix64;
use crate::series::{Counted, Round, Series};
use crate::source::{TimeSource, Tsc};

/// Number of chains on each side of a sample. The minimum over hundreds of samples selects the sample in which *all*
/// chains were lengthened: with two per side, simulated noise of 0.2 % made one result in 200 too small by 0.5 %.
const CHAINS: u32 = 3;
/// Largest relative difference between the two sides of a kept sample; below it, the clock was steady during the
/// sample.
const AGREE: f64 = 0.01;
/// Maximum number of times that a rejected sample is repeated.
const RETAKES: u32 = 4;
/// The smallest of this many runs determines the number of iterations.
const CALIBRATION_RUNS: u32 = 5;
/// In seconds. A single run of this length is trusted: no ordinary disturbance lasts that long, and five runs would
/// take too long.
const CLEARLY_LONG: f64 = 0.05;
/// Upper limit of the search, for a subject that takes no time at all.
const MAX_ITERS: u64 = 1 << 40;

pub struct Subject<'a> {
    /// Copied into the series.
    pub name: String,
    /// `run(n)` performs the operation `n` times. It must consume its results (`black_box`, a checksum), or the
    /// compiler may remove the work.
    pub run: Box<dyn FnMut(u64) + 'a>,
}

impl<'a> Subject<'a> {
    /// A subject from a closure that performs its operation a given number of times.
    pub fn new(name: impl Into<String>, run: impl FnMut(u64) + 'a) -> Self {
        Subject {
            name: name.into(),
            run: Box::new(run),
        }
    }
}

/// How much to measure.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// Number of rounds. A comparison uses one pair per round and needs at least six.
    pub rounds: u32,
    /// Number of samples of each subject per round.
    pub samples: u32,
    /// Target length of one sample, in microseconds.
    pub sample_us: f64,
    /// Determines the order of the samples.
    pub seed: u64,
    /// Measuring ends at this time and keeps the samples taken so far.
    #[serde(skip)]
    pub deadline: Option<Instant>,
}

impl Plan {
    /// About 17 ms per subject.
    pub fn quick(seed: u64) -> Plan {
        Plan {
            rounds: 20,
            samples: 8,
            sample_us: 50.0,
            seed,
            deadline: None,
        }
    }

    /// About 130 ms per subject.
    pub fn standard(seed: u64) -> Plan {
        Plan {
            rounds: 50,
            samples: 16,
            sample_us: 100.0,
            seed,
            deadline: None,
        }
    }

    /// The same plan, but measuring ends after `limit` at the latest.
    pub fn within(self, limit: Duration) -> Plan {
        Plan {
            deadline: Some(Instant::now() + limit),
            ..self
        }
    }

    /// Total number of samples for `subjects` subjects.
    fn total(&self, subjects: usize) -> u64 {
        u64::from(self.rounds) * u64::from(self.samples) * subjects as u64
    }
}

/// Calls [`measure_with`] on the real clock, without counters.
pub fn measure(
    subjects: &mut [Subject],
    plan: &Plan,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u64, u64),
) -> Vec<Series> {
    measure_with(&mut Tsc::default(), subjects, plan, stop, progress)
}

/// Calls [`measure_with`] on the real clock, with the counters that this machine has.
pub fn measure_counted(
    subjects: &mut [Subject],
    plan: &Plan,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u64, u64),
) -> Vec<Series> {
    let mut source = Tsc {
        counters: Some(Counters::open()),
    };
    measure_with(&mut source, subjects, plan, stop, progress)
}

/// Samples all subjects interleaved and returns one series for each, in their order.
///
/// A round is `plan.samples` passes; in a pass each subject is sampled once, in an order drawn from the seed. So the
/// samples of a round that are compared lie within milliseconds of each other and no subject always follows the same
/// one. Before each sample its subject runs untimed for a sixteenth of a sample, so that caches and predictors are in
/// that subject's state again.
///
/// If the source has counters of the CPU, each subject runs once more at the end of each round while these count, so that
/// reading them disturbs no sample.
///
/// `stop` and the deadline are checked between samples. After either, the samples taken so far are returned, and the
/// last round is marked incomplete. `progress(done, total)` is called between samples, outside everything timed.
pub fn measure_with<T: TimeSource>(
    source: &mut T,
    subjects: &mut [Subject],
    plan: &Plan,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u64, u64),
) -> Vec<Series> {
    let over =
        || stop.load(Ordering::Relaxed) || plan.deadline.is_some_and(|end| Instant::now() >= end);
    let mut series: Vec<Series> = subjects
        .iter()
        .map(|subject| Series {
            name: subject.name.clone(),
            ..Series::default()
        })
        .collect();
    for (one, subject) in series.iter_mut().zip(subjects.iter_mut()) {
        match choose_iters(source, &mut subject.run, plan.sample_us, &over) {
            Some(iters) => one.iters = iters,
            None => return series,
        }
    }

    let total = plan.total(subjects.len());
    let mut done = 0;
    let mut rng = SplitMix64(plan.seed);
    let mut order: Vec<usize> = (0..subjects.len()).collect();
    'rounds: for _ in 0..plan.rounds {
        for series in &mut series {
            series.rounds.push(Round::default());
            series.rounds_ns.push(Round::default());
        }
        for _ in 0..plan.samples {
            rng.shuffle(&mut order);
            for &i in &order {
                if over() {
                    break 'rounds;
                }
                let before = source.software();
                take(source, &mut subjects[i].run, &mut series[i], &over);
                if let Some((before, after)) = before.zip(source.software()) {
                    let sum = series[i].software.get_or_insert_with(Software::default);
                    sum.add(&before, &after);
                }
                done += 1;
                progress(done, total);
            }
        }
        for (one, subject) in series.iter_mut().zip(subjects.iter_mut()) {
            one.counted
                .extend(count(source, &mut subject.run, one.iters));
        }
        series
            .iter_mut()
            .flat_map(|s| [s.rounds.last_mut(), s.rounds_ns.last_mut()])
            .flatten()
            .for_each(|round| round.complete = true);
    }
    series
}

/// Adds one sample of one subject to the last round of its series; repeats the sample if its chains disagree.
fn take<T: TimeSource>(
    source: &mut T,
    run: &mut dyn FnMut(u64),
    series: &mut Series,
    over: &dyn Fn() -> bool,
) {
    for _ in 0..=RETAKES {
        let switches = source.switches();
        run((series.iters / 16).max(1));
        let before = bracket(source);
        let ticks = source.time(run, series.iters);
        let after = bracket(source);
        series.switched += u64::from(source.switches() != switches);
        if let Some(cycles) = core_cycles(ticks, before, after, source.chain_cycles()) {
            let (iters, ns) = (series.iters as f64, ticks as f64 * 1e9 / source.hz());
            if let Some(round) = series.rounds.last_mut() {
                round.keep(cycles / iters);
            }
            if let Some(round) = series.rounds_ns.last_mut() {
                round.keep(ns / iters);
            }
            return;
        }
        series.rejected += 1;
        if over() {
            return;
        }
    }
}

/// Runs a subject while the CPU's counters count; `None` without such counters.
fn count<T: TimeSource>(source: &mut T, run: &mut dyn FnMut(u64), iters: u64) -> Option<Counted> {
    // Without counters, the subject does not run at all.
    source.hardware()?;
    run((iters / 16).max(1));
    let before = bracket(source);
    let start = source.hardware()?;
    let ticks = source.time(run, iters);
    let counted = source.hardware()?.since(&start);
    let after = bracket(source);
    if ticks == 0 || counted.cycles <= 0.0 {
        return None;
    }
    let per_operation = |value: f64| value / iters as f64;
    let estimate = core_cycles(ticks, before, after, source.chain_cycles());
    Some(Counted {
        cycles: per_operation(counted.cycles),
        instructions: per_operation(counted.instructions),
        branch_misses: counted.branch_misses.map(per_operation),
        clock_ratio: counted.cycles / ticks as f64,
        estimate_ratio: estimate.map(|cycles| cycles / counted.cycles),
    })
}

/// Ticks of a chain on one side of a sample: the shortest of three, since disturbances only lengthen a chain.
fn bracket<T: TimeSource>(source: &mut T) -> u64 {
    (0..CHAINS).map(|_| source.chain()).min().unwrap_or(0)
}

/// Core cycles of a sample of `ticks` between chains of `before` and `after` ticks; `None` if they disagree.
///
/// The shorter chain counts. An interrupt can only lengthen a chain, and a lengthened chain makes the sample look
/// short: taking the longer one, or the mean, would feed disturbed samples straight to the minimum. If the core's
/// clock did change in between, the shorter chain makes the result too large, and the minimum discards it.
pub(crate) fn core_cycles(ticks: u64, before: u64, after: u64, chain_cycles: f64) -> Option<f64> {
    let (short, long) = (before.min(after) as f64, before.max(after) as f64);
    if short <= 0.0 || long > short * (1.0 + AGREE) {
        return None;
    }
    Some(ticks as f64 * chain_cycles / short)
}

/// Number of operations that last about `sample_us`, at least 1; `None` if `stop` is set.
///
/// Doubles until a quarter of the target is reached by the *least* of several runs, so that one disturbed run can
/// neither end the search early nor scale its result.
fn choose_iters<T: TimeSource>(
    source: &mut T,
    run: &mut dyn FnMut(u64),
    sample_us: f64,
    over: &dyn Fn() -> bool,
) -> Option<u64> {
    let hz = source.hz();
    let target = sample_us * 1e-6 * hz;
    let mut iters = 1u64;
    loop {
        let mut least = f64::INFINITY;
        for _ in 0..CALIBRATION_RUNS {
            if over() {
                return None;
            }
            least = least.min(source.time(run, iters) as f64);
            if least > CLEARLY_LONG * hz && least > target {
                break;
            }
        }
        if least >= target / 4.0 {
            return Some(((iters as f64 * target / least).round() as u64).max(1));
        }
        if iters >= MAX_ITERS {
            return Some(MAX_ITERS);
        }
        iters *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_chain_counts() {
        // 1000 cycles were spent; a clean chain of 300 cycles takes 300 ticks.
        assert_eq!(core_cycles(1000, 300, 300, 300.0), Some(1000.0));
        for disturbed in 300..=303 {
            assert!(core_cycles(1000, 300, disturbed, 300.0) >= Some(1000.0));
            assert!(core_cycles(1000, disturbed, 300, 300.0) >= Some(1000.0));
        }
        // Control: taking the longer chain is the same as if both were lengthened, and the sample looks too short.
        assert!(core_cycles(1000, 303, 303, 300.0) < Some(1000.0));
    }

    #[test]
    fn disagreeing_or_empty_chains_reject() {
        assert_eq!(core_cycles(1000, 300, 304, 300.0), None);
        assert_eq!(core_cycles(1000, 304, 300, 300.0), None);
        assert_eq!(core_cycles(1000, 0, 0, 300.0), None);
    }
}
