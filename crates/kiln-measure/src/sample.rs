//! The sampler, which interleaves the subjects in time and takes each sample between calibrating
//! chains.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::counters::{Counters, Software};
use crate::rng::SplitMix64;
use crate::series::{Counted, Round, Series};
use crate::source::{TimeSource, Tsc, Within};

/// Number of calibrating chains run before each sample, and also after it. With too few chains, the
/// minimum over hundreds of samples comes from a sample whose chains were *all* lengthened. In a
/// simulation with 0.2% noise and two chains on each side of a sample, one result in 200 was 0.5%
/// too small.
const CHAINS: u32 = 3;
/// Maximum relative difference between the durations of the chains before and after a sample. If
/// the difference is larger, the clock was not steady, and the sample is rejected.
const AGREE: f64 = 0.01;
/// Maximum number of times that a rejected sample is repeated.
const RETAKES: u32 = 4;
/// Number of runs in `choose_iters` for each iteration count that it tries. Only the shortest of
/// these runs counts.
const CALIBRATION_RUNS: u32 = 5;
/// A run that takes more than this many seconds, and more than the target length of a sample, is
/// not repeated: ordinary disturbances are shorter, and five such runs would take too long.
const CLEARLY_LONG: f64 = 0.05;
/// Maximum number of iterations to try. Only a subject that takes no time at all reaches it.
const MAX_ITERS: u64 = 1 << 40;

pub struct Subject<'a> {
    /// The subject's name, which is also the name of its series.
    pub name: String,
    /// Performs the operation `n` times when called as `run(n)`. It must consume its results
    /// (`black_box`, a checksum), because the compiler may otherwise remove the work.
    pub run: Box<dyn FnMut(u64) + 'a>,
    /// Every sample consists of a multiple of this number of operations.
    pub step: u64,
}

impl<'a> Subject<'a> {
    /// Creates a subject from a closure that performs an operation the given number of times.
    pub fn new(name: impl Into<String>, run: impl FnMut(u64) + 'a) -> Self {
        Subject {
            name: name.into(),
            run: Box::new(run),
            step: 1,
        }
    }

    /// Makes the number of operations in every sample a multiple of `step`, for a subject that
    /// processes `step` operations at a time and is slower with fewer.
    pub fn in_steps_of(self, step: u64) -> Self {
        Subject {
            step: step.max(1),
            ..self
        }
    }
}

/// How many samples to take, and how long they are.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// Number of rounds. A comparison uses one pair of results per round and needs at least six
    /// pairs.
    pub rounds: u32,
    /// Samples per subject per round.
    pub samples: u32,
    /// Target length of one sample, in microseconds.
    pub sample_us: f64,
    /// Seed that determines the order of the samples.
    pub seed: u64,
    /// The time at which measuring ends, even if not all rounds are complete; `None` means no
    /// limit. Samples taken before then are kept.
    #[serde(skip)]
    pub deadline: Option<Instant>,
}

impl Plan {
    /// Returns a plan that takes about 17 ms per subject.
    pub fn quick(seed: u64) -> Plan {
        Plan {
            rounds: 20,
            samples: 8,
            sample_us: 50.0,
            seed,
            deadline: None,
        }
    }

    /// Returns a plan that takes about 130 ms per subject.
    pub fn standard(seed: u64) -> Plan {
        Plan {
            rounds: 50,
            samples: 16,
            sample_us: 100.0,
            seed,
            deadline: None,
        }
    }

    /// Returns the same plan with a deadline that is `limit` from now.
    pub fn within(self, limit: Duration) -> Plan {
        Plan {
            deadline: Some(Instant::now() + limit),
            ..self
        }
    }

    /// Returns the total number of samples for `subjects` subjects.
    fn total(&self, subjects: usize) -> u64 {
        u64::from(self.rounds) * u64::from(self.samples) * subjects as u64
    }
}

/// Calls [`measure_with`] with the real clock, without counters.
pub fn measure(
    subjects: &mut [Subject],
    plan: &Plan,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u64, u64),
) -> Vec<Series> {
    measure_with(&mut Tsc::default(), subjects, plan, stop, progress)
}

/// Calls [`measure_with`] using the real clock and the counters that this machine has.
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

/// Calls [`measure_with`] using the real clock, for subjects that do their own timing. Each run
/// times one operation and stores its duration, in TSC ticks, in `ticks`. Each sample is one
/// operation.
pub fn measure_single(
    ticks: &Cell<u64>,
    subjects: &mut [Subject],
    plan: &Plan,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u64, u64),
) -> Vec<Series> {
    measure_with(&mut Within { ticks }, subjects, plan, stop, progress)
}

/// Samples all subjects in an interleaved order and returns one series for each subject, in the
/// order of `subjects`.
///
/// A round consists of `plan.samples` passes. In each pass every subject is sampled once, in an
/// order drawn from the seed. Samples that are compared with each other are therefore taken within
/// milliseconds of each other, and the order of the subjects changes from pass to pass. Before each
/// sample, its subject runs untimed for a sixteenth of a sample, which restores caches and
/// predictors to that subject's state, unless the source does this itself.
///
/// If the source has CPU counters, each subject runs once more at the end of each round. Events are
/// counted only in this run, so reading the counters does not disturb any sample.
///
/// `stop` and the deadline are checked between samples. If either ends the measurement, the samples
/// taken so far are returned, and the last round is marked incomplete. `progress(done, total)` is
/// called between samples, so the time it takes is not measured.
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
    for (i, (one, subject)) in series.iter_mut().zip(subjects.iter_mut()).enumerate() {
        source.select(i);
        let fixed = source.fixed_iters();
        let choose = || choose_iters(source, subject, plan.sample_us, &over);
        match fixed.or_else(choose) {
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
                source.select(i);
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
        for (i, (one, subject)) in series.iter_mut().zip(subjects.iter_mut()).enumerate() {
            source.select(i);
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

/// Takes a sample and adds it to the last round of a subject's series. A sample is discarded and
/// repeated if the chains around it disagree or if the source finds it unsound.
fn take<T: TimeSource>(
    source: &mut T,
    run: &mut dyn FnMut(u64),
    series: &mut Series,
    over: &dyn Fn() -> bool,
) {
    for _ in 0..=RETAKES {
        let switches = source.switches();
        if !source.warms_up() {
            run((series.iters / 16).max(1));
        }
        let before = source.chains(CHAINS);
        let ticks = source.time(run, series.iters);
        let sound = source.is_sound();
        let after = source.chains(CHAINS);
        series.switched += u64::from(source.switches() != switches);
        let cycles = core_cycles(ticks, before, after, source.chain_cycles());
        if let Some(cycles) = cycles.filter(|_| sound) {
            let (iters, hz) = (series.iters as f64, source.hz());
            let ns = ticks as f64 * 1e9 / hz;
            if series.is_fastest(ns / iters) {
                let shares = source.shares().iter();
                series.shares = shares.map(|&t| t as f64 * 1e9 / hz / iters).collect();
            }
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

/// Runs a subject and returns how much the CPU's counters increased per operation. Returns `None`
/// if the source has no such counters.
fn count<T: TimeSource>(source: &mut T, run: &mut dyn FnMut(u64), iters: u64) -> Option<Counted> {
    // If counters are not available, return before running the subject.
    source.hardware()?;
    run((iters / 16).max(1));
    let before = source.chains(CHAINS);
    let start = source.hardware()?;
    let ticks = source.time(run, iters);
    let counted = source.hardware()?.since(&start);
    let after = source.chains(CHAINS);
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

/// Converts the duration of a sample from TSC ticks to core cycles. The chains before and after the
/// sample took `before` and `after` ticks. Returns `None` if these two disagree.
///
/// The shorter chain is used. An interrupt can only lengthen a chain, and a lengthened chain makes
/// the sample look short. If the longer chain or the mean were used, the minimum over all samples
/// would therefore select disturbed samples. If the core's clock frequency really changed in
/// between, the shorter chain makes the result too large, and the minimum discards that result.
pub(crate) fn core_cycles(ticks: u64, before: u64, after: u64, chain_cycles: f64) -> Option<f64> {
    let (short, long) = (before.min(after) as f64, before.max(after) as f64);
    if short <= 0.0 || long > short * (1.0 + AGREE) {
        return None;
    }
    Some(ticks as f64 * chain_cycles / short)
}

/// Chooses a number of operations that takes about `sample_us` and is a multiple of the subject's
/// step. Returns `None` if `over` returns true.
///
/// The number is doubled until the *shortest* of several runs reaches a quarter of the target, so a
/// single disturbed run can neither end the search early nor distort the result.
fn choose_iters<T: TimeSource>(
    source: &mut T,
    subject: &mut Subject,
    sample_us: f64,
    over: &dyn Fn() -> bool,
) -> Option<u64> {
    let (run, step) = (&mut subject.run, subject.step);
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
            let chosen = (iters as f64 * target / least).round() as u64;
            return Some(chosen.max(1).next_multiple_of(step));
        }
        if iters >= MAX_ITERS {
            return Some(MAX_ITERS.next_multiple_of(step));
        }
        iters *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_chain_counts() {
        // The sample takes 1000 cycles. A chain takes 300 cycles, which is 300 ticks if the chain
        // is not disturbed.
        assert_eq!(core_cycles(1000, 300, 300, 300.0), Some(1000.0));
        for disturbed in 300..=303 {
            assert!(core_cycles(1000, 300, disturbed, 300.0) >= Some(1000.0));
            assert!(core_cycles(1000, disturbed, 300, 300.0) >= Some(1000.0));
        }
        // Control: the sample looks too short if both chains are lengthened. Using the longer
        // chain would have the same effect.
        assert!(core_cycles(1000, 303, 303, 300.0) < Some(1000.0));
    }

    #[test]
    fn a_subject_that_times_itself_runs_once_for_each_sample() {
        let (ticks, runs) = (Cell::new(0), Cell::new(0));
        let subject = Subject::new("s", |calls| {
            assert_eq!(calls, 1);
            runs.set(runs.get() + 1);
            ticks.set(1000 + runs.get());
        });
        let plan = Plan {
            rounds: 3,
            samples: 2,
            sample_us: 1.0,
            seed: 1,
            deadline: None,
        };
        let stop = AtomicBool::new(false);
        let series = measure_single(&ticks, &mut [subject], &plan, &stop, &mut |_, _| {});
        let (kept, rejected) = (series[0].kept(), series[0].rejected);
        assert_eq!(runs.get(), kept + rejected);
        let hz = Within { ticks: &ticks }.hz();
        let times = series[0].rounds_ns.iter().flat_map(|round| &round.samples);
        for ns in times {
            let of = ns * hz / 1e9;
            assert!((1000.0..=1000.5 + runs.get() as f64).contains(&of), "{of}");
        }
    }

    #[test]
    fn samples_consist_of_whole_steps() {
        // A sample with a target length of zero runs one step, which is the minimum.
        let plan = Plan {
            rounds: 1,
            samples: 1,
            sample_us: 0.0,
            seed: 1,
            deadline: None,
        };
        let stop = AtomicBool::new(false);
        let timed = Cell::new(0);
        let run = |calls| timed.set(calls);
        let mut subjects = [Subject::new("seven", run).in_steps_of(7)];
        let series = measure(&mut subjects, &plan, &stop, &mut |_, _| {});
        assert_eq!((series[0].iters, timed.get()), (7, 7));
        // Control: without a step, one operation suffices.
        let series = measure(
            &mut [Subject::new("one", run)],
            &plan,
            &stop,
            &mut |_, _| {},
        );
        assert_eq!((series[0].iters, timed.get()), (1, 1));
    }

    #[test]
    fn disagreeing_or_empty_chains_reject() {
        assert_eq!(core_cycles(1000, 300, 304, 300.0), None);
        assert_eq!(core_cycles(1000, 304, 300, 300.0), None);
        assert_eq!(core_cycles(1000, 0, 0, 300.0), None);
    }
}
