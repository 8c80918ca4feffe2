//! Accumulates the counts of one policy, slice by slice.

use std::time::{Duration, Instant};

use kiln_kernel::cpu::{Cpu, Histogram, Stats};
use kiln_kernel::fpu::Policy;
use kiln_kernel::load::{Counts, Load};
use kiln_measure::counters::thread_cpu_time;
use kiln_measure::{Ratio, Round, Series};

use super::workload::Workload;

/// Sums over all slices, and the rate of the task in each round.
#[derive(Default)]
pub(crate) struct Tally {
    pub stats: Stats,
    pub counts: Counts,
    pub seconds: f64,
    pub section: Option<Histogram<u64>>,
    pub latency: Option<Histogram<u64>>,
    /// Messages that the task processed per second, one value per round.
    rates: Series,
}

impl Tally {
    /// Runs the task under a policy for one slice. Interrupts raise softirqs, or do nothing if
    /// `empty` is true.
    pub(crate) fn slice(
        &mut self,
        load: &mut Load<'_>,
        policy: Policy,
        empty: bool,
        work: Workload,
        time: Duration,
    ) {
        policy.set(load.cpu());
        load.set_empty(empty);
        // Warm up caches and predictors, and finish work that the previous policy left pending.
        load.run(work.entry);
        // Under the broken control, softirqs corrupt the registers of any code that they interrupt,
        // including this function. No softirq may run while this function reads clocks and
        // counters.
        load.set_empty(true);
        load.cpu().reset_stats();
        let before = load.counts();
        // Unlike elapsed time, CPU time excludes the periods in which the host runs other threads and
        // the emulated CPU makes no progress.
        let (start, had) = (Instant::now(), thread_cpu_time());
        load.set_empty(empty);
        while start.elapsed() < time {
            load.run(work.entry);
        }
        load.set_empty(true);
        let lasted = thread_cpu_time() - had;
        let done = load.counts() - before;
        self.add(load, done, lasted);
        let rate = done.task_ops as f64 / lasted.as_secs_f64().max(1e-9);
        self.rates.rounds.push(round(rate));
    }

    /// Adds the CPU's statistics since they were last reset, and the counts of a load that ran for
    /// `lasted`.
    pub(crate) fn add(&mut self, load: &mut Load<'_>, done: Counts, lasted: Duration) {
        let cpu = load.cpu();
        self.stats += cpu.stats();
        self.counts += done;
        self.seconds += lasted.as_secs_f64();
        merge(&mut self.section, cpu.section_time());
        merge(&mut self.latency, cpu.softirq_latency());
    }

    /// Adds the CPU's statistics since they were last reset, and the counts and the rate of a round
    /// that took `seconds` seconds.
    pub(crate) fn take(&mut self, cpu: &mut Cpu, done: Counts, seconds: f64) {
        self.stats += cpu.stats();
        self.counts += done;
        self.seconds += seconds;
        merge(&mut self.section, cpu.section_time());
        merge(&mut self.latency, cpu.softirq_latency());
        let rate = done.task_ops as f64 / seconds.max(1e-9);
        self.rates.rounds.push(round(rate));
    }

    /// Returns how many results of the task and of the softirqs were wrong.
    pub(crate) fn corrupted(&self) -> u64 {
        let c = &self.counts;
        c.task_corrupted + c.softirq_corrupted + c.second_corrupted
    }

    /// Returns how many messages the task processed per second, as the median over the rounds and
    /// its confidence interval; `None` if there were fewer than six rounds.
    pub(crate) fn rate(&self) -> Option<Ratio> {
        let one = Series {
            rounds: vec![round(1.0); self.rates.rounds.len()],
            ..Series::default()
        };
        kiln_measure::ratio(&self.rates, &one)
    }

    /// Returns this tally's rate divided by the rate of `other`, round by round.
    pub(crate) fn ratio(&self, other: &Tally) -> Option<Ratio> {
        kiln_measure::ratio(&self.rates, &other.rates)
    }
}

fn round(rate: f64) -> Round {
    Round {
        best: Some(rate),
        samples: vec![rate],
        complete: true,
    }
}

fn merge(sum: &mut Option<Histogram<u64>>, more: Histogram) {
    sum.get_or_insert_default().add(&more);
}
