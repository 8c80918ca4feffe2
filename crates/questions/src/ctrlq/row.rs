//! The rows that `kiln ctrlq` outputs, each with the results of one waiting method.

use kiln_driver::Histogram;
use kiln_measure::warning::is_busy;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// Number of upper bounds in a histogram. The bounds are powers of two, from 1 to 16384
/// microseconds.
const BOUNDS: usize = 15;

/// A histogram of times whose buckets are bounded by powers of two. Each bucket counts the times
/// that are at most its bound but longer than the previous bound; the last bucket counts the times
/// that are longer than all bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Octaves {
    prefix: &'static str,
    counts: Vec<u64>,
    more: u64,
}

impl Octaves {
    pub(super) fn new(prefix: &'static str, h: &Histogram) -> Octaves {
        let bounds: Vec<u64> = (0..BOUNDS).map(|i| 1000 << i).collect();
        let mut counts = h.counted_to(&bounds);
        let more = counts.pop().unwrap_or(0);
        Octaves {
            prefix,
            counts,
            more,
        }
    }
}

impl Serialize for Octaves {
    /// Serializes the histogram as the flat fields `PREFIX_le_1`, `PREFIX_le_2` and so on, and
    /// `PREFIX_more`.
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = s.serialize_map(Some(BOUNDS + 1))?;
        for (i, count) in self.counts.iter().enumerate() {
            map.serialize_entry(&format!("{}_le_{}", self.prefix, 1_u64 << i), count)?;
        }
        map.serialize_entry(&format!("{}_more", self.prefix), &self.more)?;
        map.end()
    }
}

/// Results for one method of waiting for the device. All latencies are those of session creates and
/// closes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(
    rename = "ctrlq",
    title = "A virtio-crypto control queue",
    extend(
        "x-question" = "How should a driver wait for its control queue, and how fast can the queue get?",
        "x-commands" = ["ctrlq"],
        "x-view" = {
            "how": "How long it takes to close a session, with one line per method of waiting. The higher a line is, the more often closing a session took the time on the horizontal axis.",
            "each": ["workers", "session", "ctrl", "cores"],
            "name": ["mode", "depth"],
            "pictures": [{
                "form": "octaves",
                "histogram": "hist_us",
                "also": ["pairs_per_s", "lat_us_p999"],
                "along": "time of a close",
                "upwards": "% of closes, by octave"
            }]
        },
        "patternProperties" = {
            "^hist_us_(le_[0-9]+|more)$": {
                "type": "integer",
                "description": "Closes that took longer than half this many µs and not longer than it; `more`: longer than all."
            },
            "^hold_hist_us_(le_[0-9]+|more)$": {
                "type": "integer",
                "description": "The same for how long the lock was held."
            }
        }
    )
)]
pub(super) struct Row {
    /// How the driver waits for the device: `poll` (holds the queue's lock and polls the used
    /// ring), `wait` (sleeps until the request completes) or `async` (handles each answer in a
    /// callback).
    #[schemars(extend("x-role" = "key"))]
    pub mode: &'static str,
    /// Number of driver threads that create and close sessions.
    #[schemars(extend("x-role" = "key", "x-benchmark" = "threads"))]
    pub workers: usize,
    /// Kind of session: `cipher` or `akcipher`.
    #[schemars(extend("x-role" = "key"))]
    pub session: &'static str,
    /// Where the device serves control requests: `inline` (on the queue's thread) or `thread` (on a
    /// separate one). Null for a device that was already running.
    #[schemars(extend("x-role" = "key"))]
    pub ctrl: Option<&'static str>,
    /// Maximum number of requests in flight.
    #[schemars(extend("x-role" = "key"))]
    pub depth: usize,
    /// Number of host cores that the driver and the device may use.
    #[schemars(extend("x-role" = "condition"))]
    pub cores: usize,
    /// Cores reserved for the device (`--device-cpu`), such as `1` or `2-3`. Absent if the driver
    /// and the device share all cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("x-role" = "condition"))]
    pub device_cpu: Option<String>,
    /// Median number of pairs per second over all rounds. A pair is the create and the close of one
    /// session; published results use the same unit. Null with fewer than six rounds.
    #[schemars(extend(
        "unit" = "1/s",
        "x-role" = "main",
        "x-heading" = "pairs per second",
        "x-interval" = ["pairs_per_s_low", "pairs_per_s_high"],
        "x-better" = "more"
    ))]
    pub pairs_per_s: Option<f64>,
    /// Lower end of the 95 % interval of `pairs_per_s` over the rounds (sign test).
    #[schemars(extend("unit" = "1/s"))]
    pub pairs_per_s_low: Option<f64>,
    /// Upper end of the 95 % interval of `pairs_per_s`.
    #[schemars(extend("unit" = "1/s"))]
    pub pairs_per_s_high: Option<f64>,
    /// Number of cores that this row needs: one for each thread of the driver and the device that
    /// has work at the same time as the others. If there are too few cores for the driver and the
    /// device together (or, with `device_cpu`, for either of them), the result depends on the
    /// host's scheduler.
    #[schemars(extend("x-role" = "main"))]
    pub cores_needed: usize,
    /// CPU time of the driver and the device together, as a percentage of the measured time; 100
    /// means one core. Null for a device that was already running.
    #[schemars(extend("unit" = "%", "x-role" = "main", "x-heading" = "CPU %"))]
    pub cpu_pct: Option<f64>,
    /// CPU time of the driver's process, as a percentage of the measured time.
    #[schemars(extend("unit" = "%"))]
    pub driver_cpu_pct: Option<f64>,
    /// CPU time of the device's process, as a percentage of the measured time. Null for a device
    /// that was already running.
    #[schemars(extend("unit" = "%"))]
    pub device_cpu_pct: Option<f64>,
    /// CPU time that other programs used on the cores of the driver and the device, as a percentage
    /// of the measured time; 100 means one core. The resolution is 10 ms per core and round. Absent
    /// for a device that was already running, because the device's own CPU time is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64", extend("unit" = "%"))]
    pub other_cpu_pct: Option<f64>,
    /// CPU time of the driver and the device together per session create or close. Null for a
    /// device that was already running.
    #[schemars(extend("unit" = "µs", "x-role" = "main", "x-heading" = "CPU µs per operation"))]
    pub cpu_us_per_op: Option<f64>,
    /// Median latency of session creates and closes.
    #[schemars(extend(
        "unit" = "µs",
        "x-role" = "main",
        "x-heading" = "latency µs p50",
        "x-benchmark" = "real_time"
    ))]
    pub lat_us_p50: Option<f64>,
    /// 99th percentile of the latency of session creates and closes.
    #[schemars(extend("unit" = "µs", "x-role" = "main", "x-heading" = "p99"))]
    pub lat_us_p99: Option<f64>,
    /// 99.9th percentile of the latency of session creates and closes.
    #[schemars(extend("unit" = "µs", "x-role" = "figure", "x-heading" = "p99.9"))]
    pub lat_us_p999: Option<f64>,
    /// 99.99th percentile of the latency of session creates and closes.
    #[schemars(extend("unit" = "µs", "x-role" = "figure", "x-heading" = "p99.99"))]
    pub lat_us_p9999: Option<f64>,
    /// Maximum latency of session creates and closes.
    #[schemars(extend("unit" = "µs", "x-role" = "figure", "x-heading" = "max"))]
    pub lat_us_max: Option<f64>,
    /// Median time for which the queue's lock was held.
    #[schemars(extend("unit" = "µs", "x-role" = "figure", "x-heading" = "lock held µs p50"))]
    pub hold_us_p50: Option<f64>,
    /// 99th percentile of the time for which the queue's lock was held.
    #[schemars(extend("unit" = "µs", "x-role" = "figure", "x-heading" = "lock held µs p99"))]
    pub hold_us_p99: Option<f64>,
    /// 99.9th percentile of the time for which the queue's lock was held.
    #[schemars(extend("unit" = "µs"))]
    pub hold_us_p999: Option<f64>,
    /// Maximum time for which the queue's lock was held.
    #[schemars(extend("unit" = "µs"))]
    pub hold_us_max: Option<f64>,
    /// `pairs_per_s` divided by its value in mode `wait` with the same `ctrl`, `session` and
    /// `workers`: the median of the per-round ratios. Null with fewer than six rounds, or if mode
    /// `wait` was not measured.
    #[schemars(extend(
        "x-role" = "figure",
        "x-heading" = "pairs, relative to wait",
        "x-interval" = ["ops_ratio_to_wait_low", "ops_ratio_to_wait_high"]
    ))]
    pub ops_ratio_to_wait: Option<f64>,
    /// Lower end of the 95 % interval of `ops_ratio_to_wait` over the rounds (sign test).
    pub ops_ratio_to_wait_low: Option<f64>,
    /// Upper end of the 95 % interval of `ops_ratio_to_wait`.
    pub ops_ratio_to_wait_high: Option<f64>,
    /// `cpu_us_per_op` divided by its value in mode `wait` with the same `ctrl`, `session` and
    /// `workers`.
    #[schemars(extend("x-role" = "figure", "x-heading" = "CPU, relative to wait"))]
    pub cpu_ratio_to_wait: Option<f64>,
    /// Measured time, summed over all rounds.
    #[schemars(extend("unit" = "s"))]
    pub seconds: f64,
    /// Total number of session creates and closes in all rounds.
    #[schemars(extend("x-benchmark" = "iterations"))]
    pub ops: u64,
    /// Session creates and closes per second (`ops` divided by `seconds`).
    #[schemars(extend("unit" = "1/s"))]
    pub ops_per_s: f64,
    /// Number of pairs per second in each round, in the order of measurement. A pair is the create
    /// and the close of one session. Each round measures every row once.
    #[schemars(extend("unit" = "1/s"))]
    pub rounds_pairs_per_s: Vec<f64>,
    /// Number of notifications (kicks) from the driver to the device.
    pub kicks: u64,
    /// Number of interrupts from the device.
    pub interrupts: u64,
    /// Number of times that a worker yielded its core because another thread still held the queue's
    /// lock.
    pub yields: u64,
    /// Whether more threads had work at the same time than there are cores for them.
    #[serde(skip)]
    pub is_starved: bool,
    /// Histogram of the latencies of closes.
    #[serde(flatten)]
    #[schemars(skip)]
    pub closes: Octaves,
    /// Histogram of how long the lock was held.
    #[serde(flatten)]
    #[schemars(skip)]
    pub holds: Octaves,
    /// Latencies of closes in the buckets of the published histogram, which are octaves of whole
    /// microseconds.
    #[serde(skip)]
    pub closes_bcc: Vec<u64>,
    /// Times for which the lock was held, in the same buckets as `closes_bcc`.
    #[serde(skip)]
    pub holds_bcc: Vec<u64>,
    /// CPU time of driver and device per operation in each round, in seconds. Empty if unknown.
    #[serde(skip)]
    pub rounds_cpu: Vec<f64>,
    /// 99.9th percentile of the latency in each round.
    #[serde(skip)]
    pub rounds_p999: Vec<f64>,
}

impl Row {
    /// Returns whether other programs used the cores during the measurement. The limits are those
    /// of the "busy machine" warning.
    pub(super) fn is_disturbed(&self) -> bool {
        let others = self.other_cpu_pct.map(|pct| pct / 100.0);
        others.is_some_and(|others| is_busy(others, self.cores))
    }
}

/// Returns the quantile `q` in microseconds. The histogram counts nanoseconds.
pub(super) fn us(h: &Histogram, q: f64) -> Option<f64> {
    h.quantile(q).map(|ns| ns as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octaves_are_flat_and_complete() {
        let mut h = Histogram::default();
        for ns in [1, 900, 1_500, 3_000, 16_000_000, 99_000_000] {
            h.add(ns);
        }
        let octaves = Octaves::new("hist_us", &h);
        assert_eq!(octaves.counts.iter().sum::<u64>() + octaves.more, 6);
        let json = serde_json::to_value(&octaves).unwrap();
        for (name, n) in [
            ("le_1", 2),
            ("le_2", 1),
            ("le_4", 1),
            ("le_16384", 1),
            ("more", 1),
        ] {
            assert_eq!(json[format!("hist_us_{name}")], n, "{name}");
        }
        assert_eq!(json.as_object().unwrap().len(), 16);
    }
}
