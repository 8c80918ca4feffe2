//! What a policy has counted so far, slice by slice.

use std::time::{Duration, Instant};

use kiln_kernel::cpu::{Cpu, Histogram, Stats};
use kiln_kernel::fpu::Policy;
use kiln_kernel::load::{Counts, Load};
use kiln_measure::{Ratio, Round, Series};

use super::workload::Workload;

/// Sums over slices, and the rates of each.
#[derive(Default)]
pub(crate) struct Tally {
    pub stats: Stats,
    pub counts: Counts,
    pub seconds: f64,
    pub section: Option<Histogram<u64>>,
    pub latency: Option<Histogram<u64>>,
    /// Task messages a second, a round each.
    rates: Series,
}

impl Tally {
    /// Run the task for one slice under a policy, with interrupts that raise softirqs or with `empty` ones.
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
        // Caches, predictors and what the last policy left to do.
        load.run(work.entry);
        // Under the broken control softirqs spoil the registers of whatever they interrupt, this function included:
        // none may come while it computes what it keeps.
        load.set_empty(true);
        load.cpu().reset_stats();
        let before = load.counts();
        let (start, had) = (Instant::now(), cpu_time());
        load.set_empty(empty);
        while start.elapsed() < time {
            load.run(work.entry);
        }
        load.set_empty(true);
        let lasted = cpu_time() - had;
        let done = load.counts() - before;
        self.add(load, done, lasted);
        let rate = done.task_ops as f64 / lasted.as_secs_f64().max(1e-9);
        self.rates.rounds.push(round(rate));
    }

    /// Take over what the CPU has counted since the last reset, and the load in `lasted`.
    pub(crate) fn add(&mut self, load: &mut Load<'_>, done: Counts, lasted: Duration) {
        let cpu = load.cpu();
        self.stats += cpu.stats();
        self.counts += done;
        self.seconds += lasted.as_secs_f64();
        merge(&mut self.section, cpu.section_time());
        merge(&mut self.latency, cpu.softirq_latency());
    }

    /// Take over what the CPU has counted since the last reset, and a round of so many seconds.
    pub(crate) fn take(&mut self, cpu: &mut Cpu, done: Counts, seconds: f64) {
        self.stats += cpu.stats();
        self.counts += done;
        self.seconds += seconds;
        merge(&mut self.section, cpu.section_time());
        merge(&mut self.latency, cpu.softirq_latency());
        let rate = done.task_ops as f64 / seconds.max(1e-9);
        self.rates.rounds.push(round(rate));
    }

    /// Results that came out wrong, of whomever.
    pub(crate) fn corrupted(&self) -> u64 {
        let c = &self.counts;
        c.task_corrupted + c.softirq_corrupted + c.second_corrupted
    }

    /// Task messages a second: the median of the rounds and its interval. None of fewer than six rounds.
    pub(crate) fn rate(&self) -> Option<Ratio> {
        let one = Series {
            rounds: vec![round(1.0); self.rates.rounds.len()],
            ..Series::default()
        };
        kiln_measure::ratio(&self.rates, &one)
    }

    /// The same over another's, round by round.
    pub(crate) fn ratio(&self, other: &Tally) -> Option<Ratio> {
        kiln_measure::ratio(&self.rates, &other.rates)
    }
}

/// What this thread has had of a core: when the host gives it to others, the emulated CPU stands still.
pub(crate) fn cpu_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a valid, writable timespec; every Linux has the clock, else the time stays zero.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
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
