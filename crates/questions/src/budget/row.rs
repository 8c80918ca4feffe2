//! The rows of `kiln budget`: the results of one implementation under one chunking strategy.

use std::collections::BTreeMap;

use kiln_kernel::cpu::Histogram;
use kiln_measure::median_of_rounds;
use schemars::JsonSchema;
use serde::Serialize;

/// One implementation under one chunking strategy. For comparison, null sections alternate with the
/// messages. A null section only does arithmetic, for as long as the target. Percentiles of times
/// are upper edges of histogram buckets, which are 3 to 6 % wide. The strategy `fixed` has rows
/// only for implementations whose byte limit was posted in 2022 ("crypto: x86 - limit FPU
/// preemption").
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(
    rename = "budget",
    title = "Bytes per FPU section",
    extend(
        "x-question" = "How many bytes may one FPU section process before it hurts latency?",
        "x-commands" = ["budget"],
        "x-view" = {
            "how": "How long sections last with each chunking strategy; the dashed line is the target. The diamond is the \
                    99.9th percentile of null sections, which only do arithmetic for as long as the target. If even the \
                    diamond is beyond the target, it is the machine that makes sections too long, not the strategy.",
            "each": ["impl", "op", "data", "target_us"],
            "name": ["mode"],
            "pictures": [{
                "form": "bands",
                "unit": "length of a section",
                "histogram": "section_hist_ns",
                "p50": "section_us_p50",
                "tail": ["section_us_p999", "p99.9"],
                "max": "section_us_max",
                "beside": ["null_us_p999", "p99.9 of sections that only compute"],
                "target": "target_us"
            }]
        }
    )
)]
pub(super) struct Row {
    /// Algorithm, by its name in the kernel's crypto API, such as `xts(aes)`.
    #[schemars(extend("x-role" = "key"))]
    pub alg: &'static str,
    /// Driver name of the implementation, such as `xts-aes-aesni`.
    #[serde(rename = "impl")]
    #[schemars(extend("x-role" = "key"))]
    pub imp: &'static str,
    /// `encrypt`, `decrypt` or `digest`.
    #[schemars(extend("x-role" = "key"))]
    pub op: &'static str,
    /// Chunking strategy, which determines how messages are split into FPU sections: `unbounded`,
    /// `page`, `fixed`, `class`, `calibrated`, `clocked` or `on-demand`. `kiln budget --help`
    /// explains them.
    #[schemars(extend("x-role" = "key"))]
    pub mode: &'static str,
    /// State of the message in the CPU's caches before each operation: `warm` (as the previous
    /// operation left it) or `cold` (flushed).
    #[schemars(extend("x-role" = "key"))]
    pub data: &'static str,
    /// Target maximum length of a section.
    #[schemars(extend("unit" = "µs", "x-role" = "key"))]
    pub target_us: f64,
    /// Size of a message.
    #[schemars(extend("unit" = "bytes", "x-role" = "key"))]
    pub len: usize,
    /// ISA tier of the implementation.
    pub tier: &'static str,
    /// Bytes per section: the limit that the strategy sets, but at most `len`. The strategies
    /// `unbounded`, `clocked` and `on-demand` set no such limit; for them, the average over all
    /// sections.
    #[schemars(extend("unit" = "bytes", "x-role" = "main"))]
    pub bytes: u64,
    /// Number of bytes after which `clocked` and `on-demand` first check whether the section should
    /// end. Null for the other strategies.
    #[schemars(extend("unit" = "bytes"))]
    pub step_bytes: Option<u64>,
    /// Number of bytes that fit into the target without a safety margin, at most `len`. Computed
    /// from the time that a whole message takes in a single section (10th percentile), with the
    /// caches as in `data`.
    #[schemars(extend("unit" = "bytes", "x-role" = "main", "x-heading" = "target holds, bytes"))]
    pub holds_bytes: Option<u64>,
    /// Byte budget for the target, computed from the speed measured at the start of the run. The
    /// budget keeps a fifth of the target free and assumes that every byte misses the cache. Null
    /// if not even one block fits.
    #[schemars(extend("unit" = "bytes", "x-role" = "main", "x-heading" = "budget with margin, bytes"))]
    pub budget_bytes: Option<u64>,
    /// Median length of an FPU section.
    #[schemars(extend(
        "unit" = "µs",
        "x-role" = "main",
        "x-heading" = "section µs p50",
        "x-benchmark" = "real_time"
    ))]
    pub section_us_p50: Option<f64>,
    /// 95th percentile of the length of an FPU section.
    #[schemars(extend("unit" = "µs", "x-role" = "main", "x-heading" = "p95"))]
    pub section_us_p95: Option<f64>,
    /// 99.9th percentile of the length of an FPU section.
    #[schemars(extend("unit" = "µs", "x-role" = "main", "x-heading" = "p99.9"))]
    pub section_us_p999: Option<f64>,
    /// Maximum length of an FPU section.
    #[schemars(extend("unit" = "µs", "x-role" = "main", "x-heading" = "max"))]
    pub section_us_max: Option<f64>,
    /// 95th percentile of the length of null sections, which only do arithmetic for as long as the
    /// target.
    #[schemars(extend("unit" = "µs"))]
    pub null_us_p95: Option<f64>,
    /// 99.9th percentile of the length of null sections, which only do arithmetic for as long as
    /// the target.
    #[schemars(extend("unit" = "µs", "x-role" = "main", "x-heading" = "null p99.9"))]
    pub null_us_p999: Option<f64>,
    /// Throughput that the strategy loses, compared with processing the whole message in one
    /// section.
    #[schemars(extend(
        "unit" = "%",
        "x-role" = "main",
        "x-heading" = "loss %",
        "x-interval" = ["loss_low", "loss_high"]
    ))]
    pub loss_pct: Option<f64>,
    /// Lower end of the 95 % interval of `loss_pct`.
    #[schemars(extend("unit" = "%"))]
    pub loss_low: Option<f64>,
    /// Upper end of the 95 % interval of `loss_pct`.
    #[schemars(extend("unit" = "%"))]
    pub loss_high: Option<f64>,
    /// Median time from when a softirq is raised until its handler runs.
    #[schemars(extend("unit" = "µs"))]
    pub softirq_us_p50: Option<f64>,
    /// 95th percentile of the time from when a softirq is raised until its handler runs.
    #[schemars(extend("unit" = "µs"))]
    pub softirq_us_p95: Option<f64>,
    /// 99.9th percentile of the time from when a softirq is raised until its handler runs.
    #[schemars(extend("unit" = "µs", "x-role" = "figure", "x-heading" = "softirq µs p99.9"))]
    pub softirq_us_p999: Option<f64>,
    /// Like `softirq_us_p95`, but measured during null sections, which only do arithmetic.
    #[schemars(extend("unit" = "µs"))]
    pub null_softirq_us_p95: Option<f64>,
    /// Like `softirq_us_p999`, but measured during null sections, which only do arithmetic.
    #[schemars(extend("unit" = "µs"))]
    pub null_softirq_us_p999: Option<f64>,
    /// Median time from the interrupt that wakes a task until the task runs.
    #[schemars(extend("unit" = "µs"))]
    pub wake_us_p50: Option<f64>,
    /// 95th percentile of the time from the interrupt that wakes a task until the task runs.
    #[schemars(extend("unit" = "µs"))]
    pub wake_us_p95: Option<f64>,
    /// 99.9th percentile of the time from the interrupt that wakes a task until the task runs.
    #[schemars(extend("unit" = "µs", "x-role" = "figure", "x-heading" = "wake µs p99.9"))]
    pub wake_us_p999: Option<f64>,
    /// Like `wake_us_p95`, but measured during null sections, which only do arithmetic.
    #[schemars(extend("unit" = "µs"))]
    pub null_wake_us_p95: Option<f64>,
    /// Like `wake_us_p999`, but measured during null sections, which only do arithmetic.
    #[schemars(extend("unit" = "µs"))]
    pub null_wake_us_p999: Option<f64>,
    /// Sections per message.
    #[schemars(extend("x-role" = "figure", "x-heading" = "sections per message"))]
    pub sections_per_op: f64,
    /// Message length below which scalar code is faster.
    #[schemars(extend("unit" = "bytes", "x-role" = "figure", "x-heading" = "SIMD from, bytes"))]
    pub min_bytes: u64,
    /// Number of sections that the watchdog found to be longer than 1.1 times the target. The
    /// watchdog checks only when an interrupt occurs.
    #[schemars(extend("x-role" = "figure"))]
    pub stalls: u64,
    /// Core cycles per byte, without the overhead per call. Measured at the start of the run.
    #[schemars(extend("unit" = "cycles", "x-better" = "less"))]
    pub cycles_per_byte: f64,
    /// Number of messages processed.
    pub ops: u64,
    /// Number of softirqs whose delay was measured.
    pub softirqs: u64,
    /// Share of the timed sections that were interrupted.
    #[schemars(extend("unit" = "%"))]
    pub interrupted_pct: Option<f64>,
    /// Share of the timed sections that were not interrupted, but during which the host took the
    /// CPU away.
    #[schemars(extend("unit" = "%"))]
    pub stolen_pct: Option<f64>,
    /// Share of the sections that were longer than 1.1 times the target. This is an exact count,
    /// not derived from the histogram.
    #[schemars(extend("unit" = "%"))]
    pub long_pct: Option<f64>,
    /// Share of the null sections (which only do arithmetic for as long as the target) that were
    /// longer than 1.1 times the target.
    #[schemars(extend("unit" = "%"))]
    pub null_long_pct: Option<f64>,
    /// Among the sections longer than 1.1 times the target, the share that were interrupted or lost
    /// the CPU to the host.
    #[schemars(extend("unit" = "%"))]
    pub long_witnessed_pct: Option<f64>,
}

impl Row {
    /// Returns whether 95 % of the sections ended within 1.1 times the target; see
    /// [`keeps_target()`].
    pub(super) fn keeps_target(&self) -> Option<bool> {
        let by_bytes = self.step_bytes.is_none();
        let over = by_bytes.then_some(self.bytes as f64 / self.holds_bytes? as f64);
        keeps_target(self.long_pct?, self.null_long_pct?, over)
    }
}

/// Returns whether a target was met, given the exact percentages of long sections and of long null
/// sections. For sections with a fixed number of bytes, `over` is this number divided by the number
/// of bytes that fit into the target without disturbances.
///
/// Returns `None` if the sections missed the target but the machine may be to blame. There are two
/// such cases: null sections missed the target as well, or sections with this number of bytes would
/// have met the target without disturbances. The second case is needed because neither a lower
/// clock nor a busy SMT sibling lengthens null sections. It does not excuse a section timer, whose
/// purpose is to react to the elapsed time.
pub(super) fn keeps_target(long_pct: f64, null_long_pct: f64, over: Option<f64>) -> Option<bool> {
    const MISSED_PCT: f64 = 5.0;
    const LONG: f64 = 1.1;
    if long_pct <= MISSED_PCT {
        return Some(true);
    }
    (null_long_pct <= MISSED_PCT && over.is_none_or(|x| x > LONG)).then_some(false)
}

/// The section lengths shown in a row's chart.
#[derive(Clone, Debug)]
pub(super) struct Lengths {
    /// Name of the chunking strategy.
    pub mode: &'static str,
    /// Upper bound of each bucket in microseconds, and the number of sections in the bucket.
    pub buckets: Vec<(f64, u64)>,
}

impl Lengths {
    /// Returns the total time spent in sections, grouped by section length into buckets of an
    /// eighth of an octave. Each item contains the bucket's lower bound, its upper bound and the
    /// total time, in microseconds. Weighting by time makes a few long sections visible among many
    /// short ones.
    pub(super) fn by_time(&self) -> Vec<(f64, f64, f64)> {
        const BARS: f64 = 8.0;
        let mut bars: BTreeMap<i32, f64> = BTreeMap::new();
        for &(us, n) in self.buckets.iter().filter(|b| b.0 > 0.0) {
            *bars.entry((us.log2() * BARS).floor() as i32).or_default() += us * n as f64;
        }
        let end = |bar: i32| (f64::from(bar) / BARS).exp2();
        let bars = bars.into_iter();
        bars.map(|(bar, time)| (end(bar), end(bar + 1), time))
            .collect()
    }
}

/// Returns the quantile `q` of a histogram of TSC ticks, in microseconds.
pub(super) fn us(h: &Histogram, q: f64, tsc_hz: f64) -> Option<f64> {
    h.quantile(q).map(|ticks| ticks as f64 / tsc_hz * 1e6)
}

/// Returns `part` as a percentage of `of`, or `None` if `of` is 0.
pub(super) fn pct(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| 100.0 * part as f64 / of as f64)
}

/// Returns the number of bytes that can be processed in `ticks`, but at most `len`. `messages`
/// contains the times of messages of `len` bytes. The rate is computed from the 10th percentile of
/// these times, because disturbances only lengthen them.
pub(super) fn holds(messages: &[u64], len: usize, ticks: u64) -> Option<u64> {
    let mut took = messages.to_vec();
    took.sort_unstable();
    let undisturbed = *took.get(took.len() / 10)?;
    Some((len as u64 * ticks / undisturbed.max(1)).min(len as u64))
}

/// Returns the percentage of throughput that `judged` loses compared with `free`. The loss is
/// computed for each pair of times; the result is the median of these losses and its 95 % interval.
pub(super) fn loss(judged: &[u64], free: &[u64]) -> Option<(f64, f64, f64)> {
    let pairs = judged.iter().zip(free);
    let pairs = pairs.filter(|(&a, &b)| a > 0 && b > 0);
    let lost: Vec<f64> = pairs
        .map(|(&a, &b)| 100.0 * (1.0 - b as f64 / a as f64))
        .collect();
    median_of_rounds(&lost).map(|lost| (lost.ratio, lost.low, lost.high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_medians_of_pairs() {
        let free = [100; 40];
        let judged: Vec<u64> = (0..40)
            .map(|i| if i == 7 { 900 } else { 100 + i % 3 })
            .collect();
        let (median, low, high) = loss(&judged, &free).unwrap();
        assert!((0.9..1.1).contains(&median), "{median}");
        assert!(low <= median && median <= high);
        assert_eq!(loss(&[1; 5], &[1; 5]), None);
        // A faster strategy has a negative loss.
        assert!(loss(&[99; 9], &[110; 9]).unwrap().0 < 0.0);
    }

    #[test]
    fn a_target_holds_what_undisturbed_messages_give_and_no_more_than_was_run() {
        // The fastest message takes 600 µs at 1 GHz, so a twentieth of 1 MiB fits into 30 µs. The
        // slower messages were disturbed and do not matter.
        let took = [9_000_000, 600_000, 9_000_000, 1_200_000];
        assert_eq!(holds(&took, 1 << 20, 30_000), Some((1 << 20) / 20));
        // A single implausibly short time among many is ignored.
        let mut many = [300_000; 40];
        many[7] = 1_000;
        assert_eq!(holds(&many, 1 << 20, 30_000), Some((1 << 20) / 10));
        assert_eq!(holds(&[10_000; 3], 1 << 20, 30_000), Some(1 << 20));
        assert_eq!(holds(&[], 1 << 20, 30_000), None);
    }

    #[test]
    fn a_target_is_missed_only_where_the_machine_is_not_the_cause() {
        assert_eq!(keeps_target(5.0, 0.1, Some(2.0)), Some(true));
        assert_eq!(keeps_target(5.1, 0.1, Some(1.11)), Some(false));
        assert_eq!(keeps_target(5.1, 0.1, Some(1.09)), None);
        assert_eq!(keeps_target(5.1, 5.1, Some(2.0)), None);
        assert_eq!(keeps_target(0.0, 60.0, Some(2.0)), Some(true));
        // The third argument is `None` for a section timer, which has no fixed number of bytes.
        assert_eq!(keeps_target(5.1, 0.1, None), Some(false));
    }

    #[test]
    fn bars_have_the_time() {
        let lengths = Lengths {
            mode: "clocked",
            buckets: vec![(10.0, 10), (40.0, 5), (40.1, 0)],
        };
        let bars = lengths.by_time();
        assert_eq!(bars.len(), 2);
        assert!(bars[0].0 <= 10.0 && 10.0 < bars[0].1, "{bars:?}");
        assert_eq!((bars[0].2, bars[1].2), (100.0, 200.0));
    }

    #[test]
    fn shares_of_nothing_are_none() {
        assert_eq!(pct(1, 0), None);
        assert_eq!(pct(1, 4), Some(25.0));
    }
}
