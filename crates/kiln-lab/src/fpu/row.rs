//! A row of the policy table. Its field names are a promise (`CLI.md`).

use std::borrow::Cow;

use kiln_kernel::cpu::Histogram;
use kiln_measure::Ratio;
use serde::{Deserialize, Serialize};

use super::costs::Costs;
use super::esp::{Course, Sweep};
use super::plan::{Entry, Fallback, Plan};
use super::power::{is_control, Count};
use super::spread::{Spread, Spreads};
use super::tally::Tally;
use super::workload::Workload;

/// A policy under a load, with interrupts that encrypt or, the control, with interrupts that do nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs)] // the names are those of the contract
pub struct Row {
    pub policy: Cow<'static, str>,
    /// Of the tree whose own policy it is.
    pub version: Option<String>,
    /// What softirqs do where SIMD is not usable: `scalar`, or `own` of a tree, which knows by itself.
    pub fallback: Cow<'static, str>,
    pub load: Cow<'static, str>,
    /// Driver of task and softirqs.
    #[serde(rename = "impl")]
    pub imp: Cow<'static, str>,
    /// `timer`, `poisson`, `signal`, `replay` or `breakpoint`.
    pub inject: Cow<'static, str>,
    /// Interrupts do nothing.
    pub control: bool,
    /// Time measured: the thread's on its core, without what the host gave to others.
    pub seconds: f64,
    pub sections: u64,
    pub irqs: u64,
    /// Of `irqs`: a section of what they interrupted was in progress.
    pub irqs_in_section: u64,
    pub softirqs: u64,
    /// Median of the rounds.
    pub task_mb_per_s: Option<f64>,
    /// Interval of 95 % for that median.
    pub task_mb_per_s_low: Option<f64>,
    pub task_mb_per_s_high: Option<f64>,
    /// Task throughput over that of its control, from pairs of neighbouring slices.
    pub of_control: Option<f64>,
    pub of_control_low: Option<f64>,
    pub of_control_high: Option<f64>,
    /// Task throughput over that of the first policy, from pairs of one round.
    pub ratio: Option<f64>,
    pub ratio_low: Option<f64>,
    pub ratio_high: Option<f64>,
    pub softirq_mb_per_s: Option<f64>,
    pub softirq_us_p50: Option<f64>,
    pub softirq_us_p99: Option<f64>,
    pub softirq_us_max: Option<f64>,
    pub section_us_p50: Option<f64>,
    pub section_us_p999: Option<f64>,
    pub section_us_max: Option<f64>,
    /// Sections the section clock timed; the others stand in its histogram through these.
    pub sections_timed: u64,
    /// Of those timed: the host took the CPU away meanwhile.
    pub sections_stolen: u64,
    pub nested_saves: u64,
    pub scalar_fallbacks: u64,
    pub async_punts: Option<u64>,
    pub reordered: Option<u64>,
    pub dropped: Option<u64>,
    pub warnings: u64,
    pub corrupted: u64,
    pub user_corrupted: u64,
    /// Wrong results that there would have been if the policy lost state as often as the control that saves nothing.
    pub expected_wrong: Option<f64>,
    pub preemptions: u64,
    /// ESP packets answered; null where the load is none of packets, as the fields below.
    pub packets: Option<u64>,
    /// Of the packets put, sent by the task.
    pub own_packets: Option<u64>,
    /// Packets that found the card's ring full.
    pub ring_missed: Option<u64>,
    /// Payload that arrived in the high phase and was taken by a receiver: the median of the rounds, and its interval.
    pub esp_mb_per_s: Option<f64>,
    pub esp_mb_per_s_low: Option<f64>,
    pub esp_mb_per_s_high: Option<f64>,
    /// The same over that of the first policy, from pairs of one round.
    pub esp_ratio: Option<f64>,
    pub esp_ratio_low: Option<f64>,
    pub esp_ratio_high: Option<f64>,
    /// Packets that a receiver's anti-replay window refused.
    pub replay_lost: Option<u64>,
    /// From the end of the high phase until no packet waited.
    pub recovery_us: Option<f64>,
    /// An empty begin/end pair, user state saved, cycles.
    pub pair_cycles: Option<f64>,
    /// The same without the section clock.
    pub pair_untimed_cycles: Option<f64>,
    /// What the first section of a kernel entry costs more: the user state's save and restore.
    pub first_section_cycles: Option<f64>,
    /// Of a load of packets: how it went over time.
    #[serde(flatten)]
    pub course: Option<Course>,
    /// Of packets at one rate, or of a knee.
    #[serde(flatten)]
    pub sweep: Option<Sweep>,
    /// How the times above are spread.
    #[serde(flatten)]
    pub spreads: Spreads,
}

impl Row {
    /// From a tally of a policy of this plan. Latencies and throughput are those of the load's messages; `ticks_per_us` of the TSC.
    pub fn new(
        plan: &Plan,
        entry: Entry,
        work: Workload,
        packet: usize,
        tally: &Tally,
        control: bool,
        ticks_per_us: f64,
    ) -> Row {
        let us = |h: &Option<Histogram<u64>>, q: f64| {
            h.as_ref()
                .and_then(|h| h.quantile(q))
                .map(|t| t as f64 / ticks_per_us)
        };
        let max = |h: &Option<Histogram<u64>>| {
            let h = h.as_ref().filter(|h| h.total() > 0)?;
            Some(h.max() as f64 / ticks_per_us)
        };
        let spread = |h: &Option<Histogram<u64>>| {
            let h = h.as_ref().filter(|h| h.total() > 0)?;
            Some(Spread::of(h, ticks_per_us))
        };
        let (s, c) = (&tally.stats, &tally.counts);
        // Patterns have no bytes.
        let rate = tally.rate().filter(|_| work.len > 0);
        let mb = |per_s: f64| per_s * work.len as f64 / 1e6;
        let Entry { policy, fallback } = entry;
        let tree = plan.tree_of(policy);
        let asks = tree.is_some() || fallback == Fallback::Cryptd;
        let later = |n: u64| asks.then_some(n);
        Row {
            policy: plan.name(policy),
            version: tree.map(|t| t.version.clone()),
            fallback: tree.map_or(fallback.name(), |_| "own").into(),
            load: work.name.into(),
            imp: "".into(),
            inject: plan.inject.name().into(),
            control,
            seconds: tally.seconds,
            sections: s.sections,
            irqs: s.irqs,
            irqs_in_section: s.irqs_in_section,
            softirqs: s.softirqs,
            task_mb_per_s: rate.map(|r| mb(r.ratio)),
            task_mb_per_s_low: rate.map(|r| mb(r.low)),
            task_mb_per_s_high: rate.map(|r| mb(r.high)),
            of_control: None,
            of_control_low: None,
            of_control_high: None,
            ratio: None,
            ratio_low: None,
            ratio_high: None,
            softirq_mb_per_s: (tally.seconds > 0.0)
                .then(|| c.softirq_ops as f64 * packet as f64 / tally.seconds / 1e6),
            softirq_us_p50: us(&tally.latency, 0.5),
            softirq_us_p99: us(&tally.latency, 0.99),
            softirq_us_max: max(&tally.latency),
            section_us_p50: us(&tally.section, 0.5),
            section_us_p999: us(&tally.section, 0.999),
            section_us_max: max(&tally.section),
            sections_timed: s.sections_timed,
            sections_stolen: s.sections_stolen,
            nested_saves: s.nested_saves,
            scalar_fallbacks: c.scalar_fallbacks,
            async_punts: later(c.async_punts),
            reordered: later(c.reordered),
            dropped: later(c.dropped),
            warnings: s.warnings,
            corrupted: tally.corrupted(),
            user_corrupted: c.user_corrupted,
            expected_wrong: None,
            preemptions: s.preemptions,
            packets: None,
            own_packets: None,
            ring_missed: None,
            esp_mb_per_s: None,
            esp_mb_per_s_low: None,
            esp_mb_per_s_high: None,
            esp_ratio: None,
            esp_ratio_low: None,
            esp_ratio_high: None,
            replay_lost: None,
            recovery_us: None,
            pair_cycles: None,
            pair_untimed_cycles: None,
            first_section_cycles: None,
            course: None,
            sweep: None,
            spreads: Spreads {
                softirq: spread(&tally.latency),
                section: spread(&tally.section),
            },
        }
    }

    /// Against its control.
    pub fn set_of_control(&mut self, r: Option<Ratio>) {
        self.of_control = r.map(|r| r.ratio);
        self.of_control_low = r.map(|r| r.low);
        self.of_control_high = r.map(|r| r.high);
    }

    /// Against the first policy.
    pub fn set_ratio(&mut self, r: Option<Ratio>) {
        self.ratio = r.map(|r| r.ratio);
        self.ratio_low = r.map(|r| r.low);
        self.ratio_high = r.map(|r| r.high);
    }

    /// Packets' throughput, and that against the first policy's.
    pub fn set_esp(&mut self, rate: Option<Ratio>, to_first: Option<Ratio>) {
        self.esp_mb_per_s = rate.map(|r| r.ratio);
        self.esp_mb_per_s_low = rate.map(|r| r.low);
        self.esp_mb_per_s_high = rate.map(|r| r.high);
        self.esp_ratio = to_first.map(|r| r.ratio);
        self.esp_ratio_low = to_first.map(|r| r.low);
        self.esp_ratio_high = to_first.map(|r| r.high);
    }

    /// What the policy's sections cost without interrupts.
    pub fn set_costs(&mut self, costs: &Costs) {
        self.pair_cycles = costs.pair;
        self.pair_untimed_cycles = costs.pair_untimed;
        self.first_section_cycles = costs.first_section;
    }

    /// No figure of a rate or a throughput: the interrupts were most of what ran.
    pub fn without_throughput(&mut self) {
        self.task_mb_per_s = None;
        self.task_mb_per_s_low = None;
        self.task_mb_per_s_high = None;
        self.softirq_mb_per_s = None;
        self.set_esp(None, None);
        self.set_of_control(None);
        self.set_ratio(None);
    }

    /// Half the interval's width in per cent of the figure.
    pub fn plus_minus_pct(&self) -> Option<f64> {
        let width = self.task_mb_per_s_high? - self.task_mb_per_s_low?;
        Some(50.0 * width / self.task_mb_per_s?)
    }

    /// A wrong result or a wrong user state, where none is allowed.
    pub fn fails(&self) -> bool {
        !is_control(&self.policy) && self.corrupted + self.user_corrupted > 0
    }

    /// What it counted, for the question whether a loss could have been seen. Empty interrupts have nothing to lose.
    pub fn count(&self) -> Option<Count<'_>> {
        (!self.control).then_some(Count {
            policy: &self.policy,
            load: &self.load,
            hit: self.irqs_in_section,
            wrong: self.corrupted,
        })
    }
}
