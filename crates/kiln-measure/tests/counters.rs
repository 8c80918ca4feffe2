//! Tests the sampler's use of hardware counters on a simulated machine with known counts.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;

use kiln_measure::{measure_with, Hardware, Plan, Series, Software, Subject, TimeSource};

/// Core cycles per chain on the simulated machine.
const CHAIN: f64 = 3000.0;
/// Core cycles per TSC tick on the simulated machine.
const RATIO: f64 = 1.5;

struct Machine {
    /// Cycles of work that the subject has requested in the current run.
    work: Rc<Cell<f64>>,
    counted: Hardware,
    has_counters: bool,
    counts_misses: bool,
    /// Number of core cycles that the sampler assumes a chain takes.
    believed: f64,
    runs: u64,
}

impl Machine {
    fn new() -> Machine {
        Machine {
            work: Rc::default(),
            counted: Hardware::default(),
            has_counters: true,
            counts_misses: true,
            believed: CHAIN,
            runs: 0,
        }
    }

    fn measure(mut self) -> Series {
        let work = self.work.clone();
        // Each operation takes 100 cycles.
        let run = move |iters: u64| work.set(work.get() + 100.0 * iters as f64);
        let mut subjects = [Subject::new("s", run)];
        let plan = Plan::quick(1);
        let stop = AtomicBool::new(false);
        let mut series = measure_with(&mut self, &mut subjects, &plan, &stop, &mut |_, _| ());
        series.remove(0)
    }
}

impl TimeSource for Machine {
    fn chain(&mut self) -> u64 {
        // Count the cycles of chains as well, because the sampler must exclude them from the
        // subject's counts.
        self.counted.cycles += CHAIN;
        (CHAIN / RATIO) as u64
    }

    fn time(&mut self, f: &mut dyn FnMut(u64), iters: u64) -> u64 {
        self.runs += 1;
        self.work.set(0.0);
        f(iters);
        let cycles = self.work.get();
        self.counted.cycles += cycles;
        self.counted.instructions += 2.0 * cycles;
        if let Some(misses) = &mut self.counted.branch_misses {
            *misses += cycles / 1000.0;
        }
        (cycles / RATIO).round() as u64
    }

    fn chain_cycles(&self) -> f64 {
        self.believed
    }

    fn hz(&self) -> f64 {
        2e9
    }

    fn hardware(&mut self) -> Option<Hardware> {
        self.counted.branch_misses = match self.counts_misses {
            true => Some(self.counted.branch_misses.unwrap_or(0.0)),
            false => None,
        };
        self.has_counters.then_some(self.counted)
    }

    /// Each run adds one context switch and two page faults.
    fn software(&mut self) -> Option<Software> {
        Some(Software {
            task_clock_s: self.runs as f64 * 1e-3,
            context_switches: self.runs,
            page_faults: 2 * self.runs,
            migrations: None,
        })
    }
}

#[track_caller]
fn near(got: f64, want: f64) {
    assert!((got / want - 1.0).abs() < 1e-3, "{got}, not {want}");
}

#[test]
fn counts_are_per_operation_and_without_chains() {
    let series = Machine::new().measure();
    assert_eq!(series.counted.len(), 20, "once per round");
    let counts = series.counts().unwrap();
    near(counts.cycles, 100.0);
    near(counts.instructions, 200.0);
    near(counts.branch_misses.unwrap(), 0.1);
    near(counts.clock_ratio, RATIO);
    near(counts.estimate_ratio.unwrap(), 1.0);
    near(series.estimate().unwrap().best, 100.0);
    assert!(series.in_ns().counts().is_some());
}

/// Control: if a multiplication takes four cycles but the sampler assumes three, the estimate is
/// too small by a quarter.
#[test]
fn a_wrong_estimate_of_the_clock_shows() {
    let series = Machine {
        believed: CHAIN * 0.75,
        ..Machine::new()
    }
    .measure();
    near(series.counts().unwrap().estimate_ratio.unwrap(), 0.75);
    near(series.estimate().unwrap().best, 75.0);
}

#[test]
fn what_is_not_counted_is_absent() {
    let series = Machine {
        counts_misses: false,
        ..Machine::new()
    }
    .measure();
    assert_eq!(series.counts().unwrap().branch_misses, None);
    let series = Machine {
        has_counters: false,
        ..Machine::new()
    }
    .measure();
    assert_eq!((series.counts(), series.counted.len()), (None, 0));
}

#[test]
fn what_the_kernel_counts_is_summed_over_samples() {
    let software = Machine::new().measure().software.unwrap();
    // There are 20 rounds of 8 samples. The runs that read the CPU's counters are not samples.
    assert_eq!(software.context_switches, 160);
    assert_eq!(software.page_faults, 320);
    assert!((software.task_clock_s - 0.160).abs() < 1e-9);
    assert_eq!(software.migrations, None);
}
