//! The rows that `kiln fpu`, `kiln fpu prove breakpoint` and `kiln ipsec` output.

use std::borrow::Cow;

use kiln_kernel::cpu::Histogram;
use kiln_measure::Ratio;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::costs::Costs;
use super::course::Course;
use super::packets::Sweep;
use super::plan::{Entry, Fallback, Plan};
use super::power::{is_control, Count};
use super::spread::{Spread, Spreads};
use super::tally::Tally;
use super::workload::Workload;

/// One FPU policy under one load. Interrupts raise softirqs that encrypt; in the control, the
/// interrupts do nothing.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(
    rename = "fpu",
    title = "FPU policies under softirq load",
    extend(
        "x-question" = "What does each FPU policy cost the task and the softirqs that interrupt it?",
        "x-commands" = ["fpu", "fpu prove breakpoint"],
        "x-old-commands" = ["fpu --inject breakpoint"],
        "x-view" = {
            "how": "All policies get the same interrupts. The pictures show the task's throughput, the time from raising a \
                    softirq until its handler runs, and the lengths of FPU sections. In the distributions, a bar's height is \
                    the square root of its count.",
            "only": ["!control"],
            "each": ["load", "inject!=timer"],
            "name": ["policy", "fallback!=none|own|scalar"],
            "pictures": [
                {
                    "form": "bars",
                    "title": "throughput of the task",
                    "value": "task_mb_per_s",
                    "unit": "MB/s"
                },
                {
                    "form": "bands",
                    "title": "time from raising a softirq to its handler",
                    "unit": "time",
                    "histogram": "softirq_hist_ns",
                    "p50": "softirq_us_p50",
                    "tail": ["softirq_us_p99", "p99"],
                    "max": "softirq_us_max"
                },
                {
                    "form": "bands",
                    "title": "FPU sections",
                    "unit": "time",
                    "histogram": "section_hist_ns",
                    "p50": "section_us_p50",
                    "tail": ["section_us_p999", "p99.9"],
                    "max": "section_us_max"
                }
            ],
            "check": {"only": ["policy!=none"], "fail": ["corrupted", "user_corrupted"]},
            "loss": {
                "only": ["!control"],
                "of": "policy",
                "control": "policy=none",
                "wrong": ["corrupted", "user_corrupted"],
                "hit": "irqs_in_section",
                "expected": "expected_wrong"
            }
        }
    )
)]
pub(crate) struct Row {
    /// FPU policy, such as `legacy` or `bh-off`, or the name of the kernel tree that provided the
    /// policy.
    #[schemars(extend("x-role" = "key"))]
    pub policy: Cow<'static, str>,
    /// Version of the kernel tree. Null for Kiln's own policies.
    #[schemars(extend("x-role" = "condition"))]
    pub version: Option<String>,
    /// What softirqs use if SIMD is not usable: `scalar` (scalar code), `cryptd`, `own` (the kernel
    /// tree's own fallback) or `none`.
    #[schemars(extend("x-role" = "key"))]
    pub fallback: Cow<'static, str>,
    /// Name of the load that the task and the softirqs process, such as `xts-4096`.
    #[schemars(extend("x-role" = "key"))]
    pub load: Cow<'static, str>,
    /// Driver that processes the messages or packets.
    #[serde(rename = "impl")]
    #[schemars(extend("x-role" = "key"))]
    pub imp: Cow<'static, str>,
    /// Source of the interrupts: `timer`, `poisson`, `signal`, `replay` or `breakpoint`.
    #[schemars(extend("x-role" = "key"))]
    pub inject: Cow<'static, str>,
    /// Whether this row is the control of its policy. In a control, interrupts do nothing.
    #[schemars(extend("x-role" = "key"))]
    pub control: bool,
    /// Fields of packet-rate sweeps. They describe one packet rate or one knee.
    #[serde(flatten)]
    pub sweep: Option<Sweep>,
    /// Duration of the measurement, excluding periods in which the host ran other work.
    #[schemars(extend("unit" = "s"))]
    pub seconds: f64,
    /// Number of FPU sections that were opened.
    pub sections: u64,
    /// Number of hardware interrupts.
    pub irqs: u64,
    /// Number of hardware interrupts that interrupted an FPU section.
    pub irqs_in_section: u64,
    /// Number of softirqs that ran.
    pub softirqs: u64,
    /// Median throughput of the task over all rounds. Null for the load `pattern`, with fewer than
    /// six rounds, or if interrupts take most of the time (`inject` is `breakpoint`, or there are
    /// more than 4000 interrupts per second).
    #[schemars(extend(
        "unit" = "10^6 bytes/s",
        "x-role" = "main",
        "x-heading" = "task MB/s",
        "x-interval" = ["task_mb_per_s_low", "task_mb_per_s_high"],
        "x-better" = "more",
        "x-only" = "fpu"
    ))]
    pub task_mb_per_s: Option<f64>,
    /// Lower end of the 95 % interval of `task_mb_per_s`.
    #[schemars(extend("unit" = "10^6 bytes/s"))]
    pub task_mb_per_s_low: Option<f64>,
    /// Upper end of the 95 % interval of `task_mb_per_s`.
    #[schemars(extend("unit" = "10^6 bytes/s"))]
    pub task_mb_per_s_high: Option<f64>,
    /// The task's throughput divided by its throughput in the control, computed from pairs of
    /// adjacent time slices. Null for controls, in packet-rate sweeps, with fewer than six rounds,
    /// or if interrupts take most of the time.
    #[schemars(extend(
        "x-role" = "main",
        "x-heading" = "task, relative to its control",
        "x-interval" = ["of_control_low", "of_control_high"]
    ))]
    pub of_control: Option<f64>,
    /// Lower end of the 95 % interval of `of_control`.
    pub of_control_low: Option<f64>,
    /// Upper end of the 95 % interval of `of_control`.
    pub of_control_high: Option<f64>,
    /// The task's throughput divided by its throughput under the first policy, paired round by
    /// round. A control is compared with the first policy's control.
    #[schemars(extend(
        "x-role" = "main",
        "x-heading" = "task, relative to the first policy",
        "x-interval" = ["ratio_low", "ratio_high"],
        "x-only" = "fpu"
    ))]
    pub ratio: Option<f64>,
    /// Lower end of the 95 % interval of `ratio`.
    pub ratio_low: Option<f64>,
    /// Upper end of the 95 % interval of `ratio`.
    pub ratio_high: Option<f64>,
    /// Median time from raising a softirq to its handler's first action.
    #[schemars(extend("unit" = "µs", "x-role" = "main", "x-heading" = "softirq µs p50", "x-only" = "fpu"))]
    pub softirq_us_p50: Option<f64>,
    /// 99th percentile of the time from raising a softirq to its handler's first action.
    #[schemars(extend("unit" = "µs", "x-role" = "main", "x-heading" = "softirq µs p99"))]
    pub softirq_us_p99: Option<f64>,
    /// Maximum time from raising a softirq to its handler's first action.
    #[schemars(extend("unit" = "µs", "x-role" = "main", "x-heading" = "softirq µs max", "x-only" = "fpu"))]
    pub softirq_us_max: Option<f64>,
    /// Median length of an FPU section.
    #[schemars(extend(
        "unit" = "µs",
        "x-role" = "figure",
        "x-heading" = "section µs p50",
        "x-benchmark" = "real_time",
        "x-only" = "fpu"
    ))]
    pub section_us_p50: Option<f64>,
    /// 99.9th percentile of the length of an FPU section.
    #[schemars(extend("unit" = "µs", "x-role" = "figure", "x-heading" = "section µs p99.9", "x-only" = "fpu"))]
    pub section_us_p999: Option<f64>,
    /// Maximum length of an FPU section.
    #[schemars(extend("unit" = "µs", "x-role" = "figure", "x-heading" = "section µs max", "x-only" = "fpu"))]
    pub section_us_max: Option<f64>,
    /// Throughput of all softirqs together. Null if interrupts take most of the time. Also null in
    /// packet-rate sweeps; see `delivered_pps` instead.
    #[schemars(extend(
        "unit" = "10^6 bytes/s",
        "x-role" = "figure",
        "x-heading" = "softirq MB/s",
        "x-only" = "fpu"
    ))]
    pub softirq_mb_per_s: Option<f64>,
    /// Number of FPU sections whose length the section timer measured. The fields `section_us_*`
    /// are computed from these sections.
    pub sections_timed: u64,
    /// Number of timed sections during which the host ran other work on the CPU. Sections that an
    /// emulated interrupt hit are not counted.
    pub sections_stolen: u64,
    /// Number of FPU sections that began while another section was open, and therefore saved the
    /// registers of the outer section first.
    #[schemars(extend("x-role" = "figure"))]
    pub nested_saves: u64,
    /// Number of messages that softirqs processed without SIMD.
    #[schemars(extend("x-role" = "figure", "x-heading" = "scalar", "x-only" = "fpu"))]
    pub scalar_fallbacks: u64,
    /// Number of requests that were deferred to cryptd. Null if the load calls the cipher directly
    /// instead of submitting requests.
    #[schemars(extend("x-role" = "figure", "x-heading" = "to cryptd"))]
    pub async_punts: Option<u64>,
    /// Number of requests that completed after a request that was submitted later. Null if the load
    /// calls the cipher directly instead of submitting requests.
    #[schemars(extend("x-role" = "figure"))]
    pub reordered: Option<u64>,
    /// Number of requests that were rejected because cryptd's queue was full. Null if the load
    /// calls the cipher directly instead of submitting requests.
    #[schemars(extend("x-role" = "figure"))]
    pub dropped: Option<u64>,
    /// Number of warnings that a debug kernel would have printed.
    pub warnings: u64,
    /// Number of wrong results that the task and the softirqs produced.
    #[schemars(extend("x-role" = "figure", "x-heading" = "wrong"))]
    pub corrupted: u64,
    /// Number of kernel entries that changed the FPU state of the user program.
    #[schemars(extend("x-role" = "figure", "x-heading" = "user wrong"))]
    pub user_corrupted: u64,
    /// Expected number of wrong results if the policy lost state as often as `none`, the policy
    /// that saves no registers. A verdict on the policy requires a total of at least 6.9 (ln 1000)
    /// over all of the policy's rows with the same load. Null for controls, for `none` itself, or
    /// if `none` did not run or had too few wrong results.
    #[schemars(extend("x-role" = "figure", "x-heading" = "wrong results to expect if as bad as the control", "x-only" = "fpu"))]
    pub expected_wrong: Option<f64>,
    /// Number of times that the task was preempted.
    pub preemptions: u64,
    /// Number of ESP packets that were processed. Null if the load has no packets.
    #[schemars(extend("x-role" = "figure"))]
    pub packets: Option<u64>,
    /// Number of packets that the task itself sent. Null if the load has no packets.
    pub own_packets: Option<u64>,
    /// Number of packets that were lost because the network card's receive ring was full. Null if
    /// the load has no packets.
    pub ring_missed: Option<u64>,
    /// Payload throughput in the high phase, when the packet rate is at its highest: the median
    /// over all rounds. It includes only payload that the receivers accepted, and excludes the
    /// task's own packets. Null for loads without packets, for controls, in packet-rate sweeps,
    /// with fewer than six rounds, or with more than 4000 interrupts per second.
    #[schemars(extend(
        "unit" = "10^6 bytes/s",
        "x-role" = "figure",
        "x-heading" = "ESP MB/s",
        "x-interval" = ["esp_mb_per_s_low", "esp_mb_per_s_high"],
        "x-better" = "more"
    ))]
    pub esp_mb_per_s: Option<f64>,
    /// Lower end of the 95 % interval of `esp_mb_per_s`.
    #[schemars(extend("unit" = "10^6 bytes/s"))]
    pub esp_mb_per_s_low: Option<f64>,
    /// Upper end of the 95 % interval of `esp_mb_per_s`.
    #[schemars(extend("unit" = "10^6 bytes/s"))]
    pub esp_mb_per_s_high: Option<f64>,
    /// `esp_mb_per_s` divided by its value under the first policy, paired round by round.
    #[schemars(extend(
        "x-role" = "figure",
        "x-heading" = "ESP, relative to the first",
        "x-interval" = ["esp_ratio_low", "esp_ratio_high"]
    ))]
    pub esp_ratio: Option<f64>,
    /// Lower end of the 95 % interval of `esp_ratio`.
    pub esp_ratio_low: Option<f64>,
    /// Upper end of the 95 % interval of `esp_ratio`.
    pub esp_ratio_high: Option<f64>,
    /// Number of packets that a receiver's anti-replay window rejected. Null if the load has no
    /// packets.
    #[schemars(extend("x-role" = "figure"))]
    pub replay_lost: Option<u64>,
    /// Time from the end of the high phase, when the packet rate is at its highest, until no packet
    /// was waiting or in flight: the median over all rounds. Null for loads without packets, for
    /// controls, in packet-rate sweeps, or if packets were still waiting at the end of most rounds.
    #[schemars(extend("unit" = "µs", "x-role" = "figure", "x-heading" = "recovery µs"))]
    pub recovery_us: Option<f64>,
    /// Cost of an empty `kernel_fpu_begin`/`kernel_fpu_end` pair, including the section timer, when
    /// the user's FPU state is already saved.
    #[schemars(extend("unit" = "cycles"))]
    pub pair_cycles: Option<f64>,
    /// Cost of an empty `kernel_fpu_begin`/`kernel_fpu_end` pair, without the section timer, when
    /// the user's FPU state is already saved.
    #[schemars(extend("unit" = "cycles"))]
    pub pair_untimed_cycles: Option<f64>,
    /// Additional cost of the first FPU section in a kernel entry. This section saves the user's
    /// FPU state, which must then be restored before the return to user space.
    #[schemars(extend("unit" = "cycles"))]
    pub first_section_cycles: Option<f64>,
    /// Throughput and queue length over time, for a load with packets.
    #[serde(flatten)]
    pub course: Option<Course>,
    /// Histograms of softirq latency and section length.
    #[serde(flatten)]
    pub spreads: Spreads,
}

impl Row {
    /// Creates a row from a policy's tally. `ticks_per_us` is the number of TSC ticks per
    /// microsecond.
    pub(crate) fn new(
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
            Some(Spread::new(h, ticks_per_us))
        };
        let (s, c) = (&tally.stats, &tally.counts);
        // The pattern load processes no bytes, so it has no throughput.
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
            preemptions: s.preemptions,
            spreads: Spreads {
                softirq: spread(&tally.latency),
                section: spread(&tally.section),
            },
            ..Row::default()
        }
    }

    /// Sets the ratio of the task's throughput to its throughput in the control.
    pub(crate) fn set_of_control(&mut self, r: Option<Ratio>) {
        self.of_control = r.map(|r| r.ratio);
        self.of_control_low = r.map(|r| r.low);
        self.of_control_high = r.map(|r| r.high);
    }

    /// Sets the ratio of the task's throughput to its throughput under the first policy.
    pub(crate) fn set_ratio(&mut self, r: Option<Ratio>) {
        self.ratio = r.map(|r| r.ratio);
        self.ratio_low = r.map(|r| r.low);
        self.ratio_high = r.map(|r| r.high);
    }

    /// Sets the packet throughput, and the ratio to the throughput under the first policy.
    pub(crate) fn set_esp(&mut self, rate: Option<Ratio>, to_first: Option<Ratio>) {
        self.esp_mb_per_s = rate.map(|r| r.ratio);
        self.esp_mb_per_s_low = rate.map(|r| r.low);
        self.esp_mb_per_s_high = rate.map(|r| r.high);
        self.esp_ratio = to_first.map(|r| r.ratio);
        self.esp_ratio_low = to_first.map(|r| r.low);
        self.esp_ratio_high = to_first.map(|r| r.high);
    }

    /// Sets the costs of FPU sections under the policy, measured without interrupts.
    pub(crate) fn set_costs(&mut self, costs: &Costs) {
        self.pair_cycles = costs.pair;
        self.pair_untimed_cycles = costs.pair_untimed;
        self.first_section_cycles = costs.first_section;
    }

    /// Removes rates and throughputs, which are meaningless if interrupts take most of the time.
    pub(crate) fn without_throughput(&mut self) {
        self.task_mb_per_s = None;
        self.task_mb_per_s_low = None;
        self.task_mb_per_s_high = None;
        self.softirq_mb_per_s = None;
        self.set_esp(None, None);
        self.set_of_control(None);
        self.set_ratio(None);
    }

    /// Returns half the width of the interval of the task's throughput, as a percentage of the
    /// throughput.
    pub(crate) fn plus_minus_pct(&self) -> Option<f64> {
        let width = self.task_mb_per_s_high? - self.task_mb_per_s_low?;
        Some(50.0 * width / self.task_mb_per_s?)
    }

    /// Returns whether results or user states are wrong under a policy that should preserve them.
    pub(crate) fn fails(&self) -> bool {
        !is_control(&self.policy) && self.corrupted + self.user_corrupted > 0
    }

    /// Returns the counts that determine whether a loss could have been detected. `None` for
    /// controls, because their interrupts do nothing.
    pub(crate) fn count(&self) -> Option<Count<'_>> {
        (!self.control).then_some(Count {
            policy: &self.policy,
            load: &self.load,
            hit: self.irqs_in_section,
            wrong: self.corrupted,
        })
    }
}
