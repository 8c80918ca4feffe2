//! The rows of `kiln speed`.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use kiln_measure::{Series, Verdict};

use super::rival::{BestPeer, BestTree, ManyRival};
use kiln_timing::{Layout, Level};

/// The speed of one implementation at one message length.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(
    rename = "speed",
    title = "Speed",
    extend(
        "x-question" = "How fast is each implementation, and how close is it to the limit of the AES unit?",
        "x-commands" = ["speed"],
        "x-view" = {
            "how": "Cycles per byte by message length, for the fastest implementation of Kiln, of each library and of the \
                    kernel tree. For AES, one line is the lower bound: the cycles that the AES unit needs for the AES rounds \
                    alone, without GCM's hash, XTS's tweaks, and loads and stores. Lower is better.",
            "only": ["!latency", "!threads", "!cold"],
            "each": ["alg"],
            "name": ["impl"],
            "pictures": [{
                "form": "fastest",
                "provider": "provider",
                "x": "len",
                "y": "cycles_per_op",
                "limit": "limit_cycles",
                "limit_name": "the AES unit's limit: AES rounds alone",
                "prefer": ["op=encrypt", "op=digest", "level!=api", "key_bits"],
                "title": ["alg", "op", "key_bits", "level=api"],
                "aside": "together",
                "along": "bytes of a message",
                "upwards": "cycles per byte"
            }],
            "across": {"each": "alg", "by": "len", "hint": ["cycles_per_byte", "mb_per_s", "limit_cycles"]}
        }
    )
)]
pub struct Row {
    /// Name of the algorithm in the kernel's crypto API, such as `xts(aes)`.
    #[schemars(extend("x-role" = "key"))]
    pub alg: Cow<'static, str>,
    /// The operation: `encrypt`, `decrypt`, `digest`, or `derive` (a key agreement).
    #[schemars(extend("x-role" = "key"))]
    pub op: Cow<'static, str>,
    /// Size of the key. XTS takes two keys of this size. 0 if the algorithm takes no key.
    #[schemars(extend("unit" = "bits", "x-role" = "key"))]
    pub key_bits: u32,
    /// Size of a message.
    #[schemars(extend("unit" = "bytes", "x-role" = "key"))]
    pub len: usize,
    /// Name of the measured implementation: the driver, the library's function, or the symbol of
    /// the kernel tree's function.
    #[serde(rename = "impl")]
    #[schemars(extend("x-role" = "key"))]
    pub imp: String,
    /// The provider of the measured code: `kiln`, or a library or kernel tree with its version,
    /// such as `openssl-3.0.19`.
    #[schemars(extend("x-role" = "key"))]
    pub provider: String,
    /// The configuration that the kernel tree was built with. Absent unless `provider` is a kernel
    /// tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("x-role" = "key"))]
    pub config: Option<String>,
    /// How the implementation is called. `primitive`: by direct calls to its function, or to a
    /// library's public function. `api`: by requests through the crypto API. `library`: by direct
    /// calls to a function that a kernel tree's library exports. Such a function opens its own FPU
    /// sections.
    #[schemars(with = "String", extend("x-role" = "key"))]
    pub level: Level,
    /// Memory layout of the messages: `tcrypt` (as in the kernel's tcrypt benchmark) or `kunit`
    /// (one message that is processed repeatedly). Absent for the plain layout, which has many
    /// messages with contiguous buffers.
    #[serde(default, skip_serializing_if = "Layout::is_plain")]
    #[schemars(with = "String", extend("x-role" = "key"))]
    pub layout: Layout,
    /// Whether each call depends on the result of the previous one, so that calls cannot overlap.
    #[schemars(extend("x-role" = "key"))]
    pub latency: bool,
    /// Whether the calls were made with cold caches (`--cold`): single calls, each starting with
    /// its code, key, tables and message in neither the L1 nor the L2 cache. The results are
    /// medians of these calls. Absent for warm calls.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("x-role" = "key"))]
    pub cold: bool,
    /// Number of threads that made these calls at the same time, each on its own logical CPU.
    /// Absent if there was only one thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", extend("x-role" = "key", "x-benchmark" = "threads"))]
    pub threads: Option<u32>,
    /// ISA tier of the implementation. Null if the tier is not known, for example because a library
    /// selects its code itself.
    pub tier: Option<Cow<'static, str>>,
    /// Year in which the first release of the library's release series appeared. Absent if the year
    /// is not known or `provider` is not a library.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u16")]
    pub released: Option<u16>,
    /// Core cycles per call: the minimum over all rounds, or, with `cold`, the median of all
    /// samples. With `threads`, each sample is the cycles per call of one thread, averaged over all
    /// threads. Null if the call could not be measured.
    #[serde(deserialize_with = "null_is_nan")]
    #[schemars(
        with = "Option<f64>",
        extend(
            "unit" = "cycles",
            "x-role" = "main",
            "x-heading" = "cycles per message",
            "x-interval" = ["ci_low", "ci_high"],
            "x-better" = "less",
            "x-time" = "ns_per_op",
            "x-benchmark" = "real_time"
        )
    )]
    pub cycles_per_op: f64,
    /// Lower end of the prediction interval of `cycles_per_op`. A rerun is expected to give a
    /// result within this interval. With `cold`, the lower end of the 95 % interval of the median.
    #[serde(deserialize_with = "null_is_nan")]
    #[schemars(with = "Option<f64>", extend("unit" = "cycles"))]
    pub ci_low: f64,
    /// Upper end of the prediction interval of `cycles_per_op`. With `cold`, the upper end of the
    /// 95 % interval of the median.
    #[serde(deserialize_with = "null_is_nan")]
    #[schemars(with = "Option<f64>", extend("unit" = "cycles"))]
    pub ci_high: f64,
    /// Time per call: the minimum over all rounds, or, with `cold`, the median. The TSC measured it
    /// in the same samples as `cycles_per_op`. With `threads`, the time per call of a thread that
    /// runs at the mean rate. Null if the call could not be measured.
    #[serde(deserialize_with = "null_is_nan")]
    #[schemars(
        with = "Option<f64>",
        extend(
            "unit" = "ns",
            "x-role" = "figure",
            "x-heading" = "ns per message",
            "x-interval" = ["ns_low", "ns_high"],
            "x-since" = 2
        )
    )]
    pub ns_per_op: f64,
    /// Lower end of the prediction interval of `ns_per_op`. A rerun is expected to give a result
    /// within this interval.
    #[serde(deserialize_with = "null_is_nan")]
    #[schemars(with = "Option<f64>", extend("unit" = "ns", "x-since" = 2))]
    pub ns_low: f64,
    /// Upper end of the prediction interval of `ns_per_op`.
    #[serde(deserialize_with = "null_is_nan")]
    #[schemars(with = "Option<f64>", extend("unit" = "ns", "x-since" = 2))]
    pub ns_high: f64,
    /// `cycles_per_op` divided by `len`.
    #[serde(deserialize_with = "null_is_nan")]
    #[schemars(with = "Option<f64>", extend("unit" = "cycles", "x-role" = "figure"))]
    pub cycles_per_byte: f64,
    /// Throughput: `len` divided by `ns_per_op`. With `threads`, the throughput of one thread,
    /// averaged over all threads.
    #[serde(deserialize_with = "null_is_nan")]
    #[schemars(
        with = "Option<f64>",
        extend(
            "unit" = "10^6 bytes/s",
            "x-role" = "figure",
            "x-heading" = "MB/s",
            "x-benchmark" = "bytes_per_second"
        )
    )]
    pub mb_per_s: f64,
    /// The combined result of all threads.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub all: Option<AllThreads>,
    /// Lower bound on `cycles_per_op`: the cycles that the AES rounds alone take with the vectors
    /// of the row's `tier`, without GHASH, XTS tweaks, loads and stores. Null if no bound is known
    /// for the row.
    #[schemars(extend("unit" = "cycles", "x-role" = "figure", "x-heading" = "AES rounds alone, cycles"))]
    pub limit_cycles: Option<f64>,
    /// Cycles that the chain of dependent AES rounds alone takes when calls cannot overlap
    /// (`latency`). `limit_cycles` is at least this large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64", extend("unit" = "cycles"))]
    pub chain_cycles: Option<f64>,
    /// Cycles per call in each round, for at most the first 64 rounds. Each element is the smallest
    /// sample of its round, rounded to four significant digits. The n-th rounds of all rows with
    /// the same `alg`, `op`, `key_bits` and `len` were measured during the same period. An element
    /// is null if its round has no result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("unit" = "cycles"))]
    pub rounds: Vec<Option<f64>>,
    /// Time per call in each round, in the same format as `rounds`. Each element is the smallest
    /// sample of its round.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("unit" = "ns"))]
    pub rounds_ns: Vec<Option<f64>>,
    /// With `--kunit`: KUnit's result compared with Kiln's. Absent if no benchmark of this function
    /// at this length succeeded.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub kunit: Option<Kunit>,
    /// The values that the CPU's counters reported, if the CPU has such counters.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub counted: Option<CountedPerOp>,
    /// The events that the kernel counted for the measuring thread.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub events: Option<Events>,
    /// The comparison with the baseline, if one was requested.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub against: Option<Against>,
    /// Whether each call processes several messages at once. A message processed alone would take
    /// longer than the time in this row.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub together: bool,
    /// In the row of Kiln's fastest API call, if libraries were measured: the comparison with the
    /// fastest library.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub best_peer: Option<BestPeer>,
    /// In the row of Kiln's fastest function, if a kernel tree was measured: the comparison with
    /// the tree's fastest function.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub best_tree: Option<BestTree>,
    /// In the row of the fastest library function that processes several messages at once: the
    /// comparison with Kiln's fastest function.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub many: Option<ManyRival>,
}

/// The results of a KUnit benchmark, and of the row's calls timed by the benchmark's method. Both
/// took turns in one process. Rows without a benchmark lack these fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Kunit {
    /// Throughput that the benchmark in the tree's KUnit suite reports (`--kunit`). The value is
    /// the median of 12 to 60 means, each over at most 10 MB. With `--quick`, or if the message is
    /// shorter than 4096 bytes, there are only two means. A run that was stopped may have fewer.
    #[schemars(extend("unit" = "10^6 bytes/s", "x-role" = "figure", "x-heading" = "KUnit, MB/s"))]
    pub kunit_mb_per_s: f64,
    /// Throughput of the row's calls, timed by the method of the KUnit benchmark and in alternation
    /// with that benchmark (`--kunit`). The value is a median of means. It is usually lower than
    /// `mb_per_s`, which is calculated from the best sample.
    #[schemars(extend("unit" = "10^6 bytes/s", "x-role" = "figure", "x-heading" = "mean, MB/s"))]
    pub mean_mb_per_s: f64,
    /// Throughput of the KUnit benchmark divided by the throughput of the row's calls. Both are
    /// measured in turn, and the value is the median of the ratios of all turns. If the throughputs
    /// differ by more than 2 %, a second process repeats the measurement, and the value is the
    /// geometric mean of the two processes' ratios. Null if there are fewer than six turns.
    #[schemars(extend(
        "x-role" = "figure",
        "x-heading" = "KUnit to Kiln",
        "x-interval" = ["kunit_ratio_low", "kunit_ratio_high"]
    ))]
    pub kunit_ratio: Option<f64>,
    /// Lower end of the interval of `kunit_ratio`. The interval is only nominally a 95 % interval,
    /// because turns are added until it shows whether the two throughputs agree within 2 %. If two
    /// processes measured the ratio, this is the lower of their lower ends.
    pub kunit_ratio_low: Option<f64>,
    /// Upper end of the interval of `kunit_ratio`. If two processes measured the ratio, this is the
    /// higher of their upper ends.
    pub kunit_ratio_high: Option<f64>,
}

/// The throughput of several threads, and the clock of their cores. Single-threaded rows lack these
/// fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AllThreads {
    /// Throughput of all threads together: `threads` times `mb_per_s`. Only the time during which
    /// all threads ran is counted.
    #[schemars(extend(
        "unit" = "10^6 bytes/s",
        "x-role" = "figure",
        "x-heading" = "MB/s of all threads",
        "x-interval" = ["total_low", "total_high"]
    ))]
    pub total_mb_per_s: f64,
    /// Lower end of the prediction interval of `total_mb_per_s`, derived from the interval of
    /// `ns_per_op`.
    #[schemars(extend("unit" = "10^6 bytes/s"))]
    pub total_low: f64,
    /// Upper end of the prediction interval of `total_mb_per_s`, derived from the interval of
    /// `ns_per_op`.
    #[schemars(extend("unit" = "10^6 bytes/s"))]
    pub total_high: f64,
    /// Throughput of each thread in the sample with the highest total.
    #[schemars(extend("unit" = "10^6 bytes/s"))]
    pub thread_mb_per_s: Vec<f64>,
    /// Clock frequency of a core while all threads ran. It is estimated with chains of
    /// multiplications that all cores run directly before and after each sample. The value is the
    /// mean over all cores and the median over all samples.
    #[schemars(extend("unit" = "GHz", "x-role" = "figure", "x-heading" = "clock, GHz"))]
    pub core_ghz: f64,
}

/// Readings of the CPU's counters (`perf_event_open`, user mode), taken over one run of the row's
/// calls in each round; the values are medians over rounds. Rows from a machine without such
/// counters lack these fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CountedPerOp {
    /// Core cycles per call, as counted by the CPU's cycle counter. The value is a median over
    /// rounds, whereas `cycles_per_op` is the best sample.
    #[schemars(extend(
        "unit" = "cycles",
        "x-role" = "figure",
        "x-heading" = "cycles per message, counted"
    ))]
    pub counted_cycles: f64,
    /// Instructions per call, as counted by the CPU.
    #[schemars(extend("x-role" = "figure", "x-heading" = "instructions per message"))]
    pub counted_instructions: f64,
    /// Mispredicted branches per call, as counted by the CPU. Null if the CPU does not count them.
    #[schemars(extend("x-role" = "figure", "x-heading" = "branch misses per message"))]
    pub counted_branch_misses: Option<f64>,
    /// Core cycles per tick of the TSC while the calls ran. A value above 1 means that the core's
    /// clock was faster than the TSC.
    #[schemars(extend("x-role" = "figure"))]
    pub clock_ratio: f64,
    /// Estimated cycles divided by the counted cycles of the same run. The estimate is made with
    /// chains of multiplications; if it is exact, the value is 1. Null if every estimate was
    /// disturbed.
    #[schemars(extend("x-role" = "figure"))]
    pub estimate_to_counted: Option<f64>,
}

/// Events that the kernel counted for the measuring thread while the row's samples were measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Events {
    /// CPU time that the measuring thread used while the row's samples were measured.
    #[schemars(extend("unit" = "ms"))]
    pub task_clock_ms: f64,
    /// Number of times that the measuring thread was switched out.
    pub context_switches: u64,
    /// Number of page faults of the measuring thread.
    pub page_faults: u64,
    /// Number of times that the measuring thread changed cores. Null if the kernel does not let
    /// this process count migrations.
    pub migrations: Option<u64>,
}

/// A comparison of the row with the baseline's row, measured in interleaved pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Against {
    /// Cycles of this row divided by the cycles of the baseline. The value is the median over
    /// rounds in which both were measured alternately. Null if the baseline has no result, or if
    /// the two rows have fewer than six rounds in common.
    #[serde(deserialize_with = "there")]
    #[schemars(extend(
        "x-role" = "figure",
        "x-heading" = "to the baseline",
        "x-interval" = ["ratio_low", "ratio_high"]
    ))]
    pub ratio: Option<f64>,
    /// Lower end of the 95 % interval of `ratio`.
    pub ratio_low: Option<f64>,
    /// Upper end of the 95 % interval of `ratio`.
    pub ratio_high: Option<f64>,
    /// Time per call of this row divided by the time per call of the baseline, from the same rounds
    /// as `ratio`. Null if `ratio` is null.
    pub time_ratio: Option<f64>,
    /// Lower end of the 95 % interval of `time_ratio`.
    pub time_ratio_low: Option<f64>,
    /// Upper end of the 95 % interval of `time_ratio`.
    pub time_ratio_high: Option<f64>,
    /// Result of the comparison with the baseline: `faster` or `slower` if both cycles and time
    /// show it, `disagree` if cycles and time contradict each other, and `same` otherwise. Null if
    /// `ratio` is null.
    #[schemars(with = "Option<String>", extend("x-role" = "figure"))]
    pub verdict: Option<Verdict>,
}

/// Maximum number of recorded rounds.
const ROUNDS: usize = 64;

/// Rounds a number to four significant digits.
fn four_digits(x: f64) -> f64 {
    format!("{x:.3e}").parse().unwrap_or(x)
}

/// Reads null as NaN, because JSON has no NaN.
fn null_is_nan<'de, D: Deserializer<'de>>(d: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(d)?.unwrap_or(f64::NAN))
}

/// Reads a field that may be null but not absent: its presence shows that a row has a comparison.
fn there<'de, D: Deserializer<'de>>(d: D) -> Result<Option<f64>, D::Error> {
    Option::deserialize(d)
}

impl Row {
    /// Sets the results from a series. If the series has no results, the row remains unchanged.
    pub fn set(&mut self, series: &Series) {
        let ns = series.in_ns();
        let cold = self.cold;
        let result = |of: &Series| match cold {
            true => of.median_of_bests().map(|m| (m.ratio, m.low, m.high)),
            false => of.estimate().map(|e| (e.best, e.low, e.high)),
        };
        let Some(((cycles, ci_low, ci_high), (time, low, high))) = result(series).zip(result(&ns))
        else {
            return;
        };
        self.cycles_per_op = cycles;
        self.cycles_per_byte = cycles / self.len as f64;
        (self.ci_low, self.ci_high) = (ci_low, ci_high);
        self.ns_per_op = time;
        (self.ns_low, self.ns_high) = (low, high);
        let mb_per_s = |ns: f64| self.len as f64 / ns * 1e3;
        self.mb_per_s = mb_per_s(time);
        let clock = self.threads.zip(series.core_ghz());
        self.all = clock
            .map(|(n, ghz)| (f64::from(n), ghz))
            .map(|(threads, ghz)| AllThreads {
                total_mb_per_s: threads * mb_per_s(time),
                total_low: threads * mb_per_s(high),
                total_high: threads * mb_per_s(low),
                thread_mb_per_s: series
                    .shares
                    .iter()
                    .map(|&ns| four_digits(mb_per_s(ns)))
                    .collect(),
                core_ghz: four_digits(ghz),
            });
        let rounds = |of: &Series| of.bests(ROUNDS).into_iter().map(|x| x.map(four_digits));
        self.rounds = rounds(series).collect();
        self.rounds_ns = rounds(&ns).collect();
        self.counted = series.counts().map(|counted| CountedPerOp {
            counted_cycles: four_digits(counted.cycles),
            counted_instructions: four_digits(counted.instructions),
            counted_branch_misses: counted.branch_misses.map(four_digits),
            clock_ratio: four_digits(counted.clock_ratio),
            estimate_to_counted: counted.estimate_ratio.map(four_digits),
        });
        self.events = series.software.map(|counted| Events {
            task_clock_ms: four_digits(counted.task_clock_s * 1e3),
            context_switches: counted.context_switches,
            page_faults: counted.page_faults,
            migrations: counted.migrations,
        });
    }

    /// Returns whether the row has a result.
    pub fn measured(&self) -> bool {
        self.cycles_per_op.is_finite()
    }

    /// Returns half the width of the interval, as a percentage of the result.
    pub(super) fn plus_minus_pct(&self) -> f64 {
        50.0 * (self.ci_high - self.ci_low) / self.cycles_per_op
    }

    /// Returns whether both rows are for the same candidate and operation, at any length.
    pub(super) fn same_curve(&self, other: &Row) -> bool {
        self.imp == other.imp
            && self.alg == other.alg
            && self.op == other.op
            && (self.key_bits, self.level, self.layout)
                == (other.key_bits, other.level, other.layout)
            && (self.latency, self.cold, self.threads) == (other.latency, other.cold, other.threads)
            && (&self.provider, &self.config) == (&other.provider, &other.config)
    }
}

#[cfg(test)]
pub(crate) fn example(imp: &str, len: usize, cycles: f64) -> Row {
    let mut row = Row {
        alg: "xts(aes)".into(),
        imp: imp.to_string(),
        provider: "kiln".to_string(),
        tier: Some("generic".into()),
        op: "encrypt".into(),
        key_bits: 256,
        len,
        ..Row::default()
    };
    row.set(&steady(cycles));
    row
}

/// Creates nine rounds at 4 GHz. The fifth-fastest round is 1 % slower than the fastest, and the
/// last round was not completed.
#[cfg(test)]
pub(crate) fn steady(cycles: f64) -> Series {
    use kiln_measure::Round;
    let round = |n: u32, unit: f64| {
        let figure = cycles / unit * (1.0 + 0.01 * f64::from(n) / 4.0);
        Round {
            best: Some(figure),
            samples: vec![figure],
            complete: n < 8,
        }
    };
    Series {
        rounds: (0..9).map(|n| round(n, 1.0)).collect(),
        rounds_ns: (0..9).map(|n| round(n, 4.0)).collect(),
        ..Series::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        let row = example("a", 1000, 500.0);
        assert_eq!(row.cycles_per_byte, 0.5);
        assert!((row.mb_per_s - 8000.0).abs() < 1e-9);
        assert!((row.ns_per_op - 125.0).abs() < 1e-9);
        assert!((row.ns_high - 1.01 * row.ns_per_op).abs() < 1e-9);
        assert!((row.plus_minus_pct() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_cold_row_has_the_median_of_its_calls() {
        let mut row = Row {
            cold: true,
            ..example("a", 16, 50.0)
        };
        row.set(&steady(1000.0));
        // The best samples of the eight complete rounds are 1000, 1002.5, ... 1017.5.
        for (is, should_be) in [
            (row.cycles_per_op, 1008.75),
            (row.ci_low, 1000.0),
            (row.ci_high, 1017.5),
            (row.ns_per_op, 1008.75 / 4.0),
        ] {
            assert!((is - should_be).abs() < 1e-6, "{is}, {should_be}");
        }
        let json = serde_json::to_value(&row).unwrap();
        assert_eq!(json["cold"], true);
        assert!(serde_json::to_value(example("a", 16, 50.0))
            .unwrap()
            .get("cold")
            .is_none());
        assert!(!row.same_curve(&example("a", 16, 50.0)));
    }

    #[test]
    fn several_threads_have_a_total_and_a_clock() {
        let mut row = example("a", 1000, 500.0);
        assert_eq!(row.all, None);
        row.threads = Some(2);
        let series = Series {
            shares: vec![100.0, 200.0],
            ..steady(500.0)
        };
        row.set(&series);
        let all = row.all.clone().unwrap();
        assert!((all.total_mb_per_s - 2.0 * row.mb_per_s).abs() < 1e-9);
        assert!(all.total_low < all.total_mb_per_s && all.total_mb_per_s < all.total_high);
        assert_eq!(all.thread_mb_per_s, [10_000.0, 5_000.0]);
        assert_eq!(all.core_ghz, 4.0);
        let json = serde_json::to_value(&row).unwrap();
        assert_eq!(
            (&json["threads"], &json["core_ghz"]),
            (&2.into(), &4.0.into())
        );
        assert_eq!(serde_json::from_value::<Row>(json).unwrap(), row);
        let single = serde_json::to_value(example("a", 16, 50.0)).unwrap();
        assert!(single.get("threads").is_none() && single.get("core_ghz").is_none());
    }

    #[test]
    fn rounds_are_recorded_with_four_digits_and_only_whole_ones() {
        let row = example("a", 16, 123.456);
        assert_eq!(row.rounds.len(), 8);
        assert_eq!(row.rounds[..2], [Some(123.5), Some(123.8)]);
        assert_eq!(row.rounds_ns[0], Some(30.86));
        let mut many = steady(1.0);
        many.rounds = vec![many.rounds[0].clone(); 1000];
        many.rounds_ns = vec![many.rounds_ns[0].clone(); 1000];
        many.rounds[3].best = None;
        let mut row = row;
        row.set(&many);
        assert_eq!((row.rounds.len(), row.rounds_ns.len()), (ROUNDS, ROUNDS));
        assert_eq!(row.rounds[3], None);
        // A series without results leaves the row unchanged.
        let before = row.clone();
        row.set(&Series::default());
        assert_eq!(row, before);
    }

    #[test]
    fn fields_of_the_contract() {
        let mut row = example("a", 16, 50.0);
        let json = |row: &Row| serde_json::to_value(row).unwrap();
        for field in "alg impl provider level op key_bits len cycles_per_op cycles_per_byte mb_per_s ci_low ci_high \
                      ns_per_op ns_low ns_high rounds rounds_ns \
                      limit_cycles tier"
            .split_whitespace()
        {
            assert!(json(&row).get(field).is_some(), "{field}");
        }
        assert!(json(&row).get("ratio").is_none());
        row.against = Some(Against::default());
        for field in ["ratio", "ratio_low", "ratio_high", "verdict"] {
            assert!(json(&row)[field].is_null(), "{field}");
        }
        assert!(json(&row).get("against").is_none());
        row.cycles_per_op = f64::NAN;
        assert!(json(&row)["cycles_per_op"].is_null() && !row.measured());
    }

    #[test]
    fn a_row_comes_back_as_it_went() {
        let mut row = example("a", 16, 50.0);
        let back = |row: &Row| -> Row {
            serde_json::from_str(&serde_json::to_string(row).unwrap()).unwrap()
        };
        assert_eq!(back(&row), row);
        row.config = Some("tree".to_string());
        row.chain_cycles = Some(3.0);
        row.against = Some(Against {
            ratio: Some(1.5),
            ..Against::default()
        });
        assert_eq!(back(&row), row);
        row.against = Some(Against::default());
        assert_eq!(back(&row).against, row.against);
        row.together = true;
        row.best_peer = Some(BestPeer {
            best_peer: "EVP_x".into(),
            best_peer_provider: "openssl-3".into(),
            best_peer_ratio: 0.5,
            best_peer_ratio_low: 0.4,
            best_peer_ratio_high: 0.6,
            best_peer_time_ratio: 0.5,
            best_peer_time_ratio_low: 0.4,
            best_peer_time_ratio_high: 0.6,
            best_peer_verdict: Verdict::Disagree,
            best_peer_ymm_impl: None,
            best_peer_ymm_time_ratio: None,
            best_peer_ymm_time_ratio_low: None,
            best_peer_ymm_time_ratio_high: None,
        });
        row.released = Some(2021);
        assert_eq!(back(&row), row);
        row.cycles_per_op = f64::NAN;
        assert!(back(&row).cycles_per_op.is_nan());
    }
}
