//! What came of one way of waiting.

use kiln_driver::Histogram;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// Powers of two, in microseconds, to which times are counted: up to 1, 2, 4 ... 16384.
const BOUNDS: usize = 15;

/// How many took longer than half of each power of two, and not longer than it; and how many took longer than all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Octaves {
    prefix: &'static str,
    counts: Vec<u64>,
    more: u64,
}

impl Octaves {
    pub(super) fn of(prefix: &'static str, h: &Histogram) -> Octaves {
        let bounds: Vec<u64> = (0..BOUNDS).map(|i| 1000 << i).collect();
        let mut counts = h.counted_to(&bounds);
        let more = counts.pop().unwrap_or(0);
        Octaves {
            prefix,
            counts,
            more,
        }
    }

    /// All that were counted.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum::<u64>() + self.more
    }
}

impl Serialize for Octaves {
    /// Flat: `PREFIX_1`, `PREFIX_2` and so on.
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

/// A method of waiting. Latencies are those of creates and closes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(
    rename = "ctrlq",
    title = "A virtio-crypto control queue",
    extend(
        "x-question" = "How should a control queue wait, and how fast can it get?",
        "x-commands" = ["ctrlq"],
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
pub struct Row {
    /// How the driver waits: `poll`, `wait` or `async`.
    #[schemars(extend("x-role" = "key"))]
    pub mode: &'static str,
    /// Threads.
    #[schemars(extend("x-role" = "key"))]
    pub workers: usize,
    /// `cipher` or `akcipher`.
    #[schemars(extend("x-role" = "key"))]
    pub session: &'static str,
    /// How the device serves control requests; null for a device that was already running.
    #[schemars(extend("x-role" = "key"))]
    pub ctrl: Option<&'static str>,
    /// Requests in flight at most.
    #[schemars(extend("x-role" = "key"))]
    pub depth: usize,
    /// Host cores that both sides share.
    #[schemars(extend("x-role" = "condition"))]
    pub cores: usize,
    /// Pairs per second of a create and the close of its session, the unit of the published results: the median of
    /// the rounds; null with fewer than six rounds.
    #[schemars(extend(
        "unit" = "1/s",
        "x-role" = "main",
        "x-heading" = "pairs per second",
        "x-interval" = ["pairs_per_s_low", "pairs_per_s_high"],
        "x-better" = "more"
    ))]
    pub pairs_per_s: Option<f64>,
    /// Lower end of its 95 % interval over the rounds (sign test).
    #[schemars(extend("unit" = "1/s"))]
    pub pairs_per_s_low: Option<f64>,
    /// Upper end of that interval.
    #[schemars(extend("unit" = "1/s"))]
    pub pairs_per_s_high: Option<f64>,
    /// Threads that have work at the same time, each of which needs a core: workers, interrupt thread, threads of the
    /// device; with fewer `cores`, the row shows the result of the host's scheduler.
    #[schemars(extend("x-role" = "main"))]
    pub cores_needed: usize,
    /// CPU time of both processes; null for a device that was already running.
    #[schemars(extend("unit" = "%", "x-role" = "main", "x-heading" = "CPU %"))]
    pub cpu_pct: Option<f64>,
    /// CPU time of the driver.
    #[schemars(extend("unit" = "%"))]
    pub driver_cpu_pct: Option<f64>,
    /// CPU time of the device.
    #[schemars(extend("unit" = "%"))]
    pub device_cpu_pct: Option<f64>,
    /// CPU time per operation.
    #[schemars(extend("unit" = "µs", "x-role" = "main", "x-heading" = "CPU µs per operation"))]
    pub cpu_us_per_op: Option<f64>,
    /// Latency of creates and closes: the median.
    #[schemars(extend("unit" = "µs", "x-role" = "main", "x-heading" = "latency µs p50"))]
    pub lat_us_p50: Option<f64>,
    /// The 99th percentile of that latency.
    #[schemars(extend("unit" = "µs", "x-role" = "main", "x-heading" = "p99"))]
    pub lat_us_p99: Option<f64>,
    /// The 99.9th percentile of that latency.
    #[schemars(extend("unit" = "µs", "x-role" = "figure", "x-heading" = "p99.9"))]
    pub lat_us_p999: Option<f64>,
    /// The 99.99th percentile of that latency.
    #[schemars(extend("unit" = "µs", "x-role" = "figure", "x-heading" = "p99.99"))]
    pub lat_us_p9999: Option<f64>,
    /// The longest latency.
    #[schemars(extend("unit" = "µs", "x-role" = "figure", "x-heading" = "max"))]
    pub lat_us_max: Option<f64>,
    /// How long the lock was held: the median.
    #[schemars(extend("unit" = "µs", "x-role" = "figure", "x-heading" = "lock held µs p50"))]
    pub hold_us_p50: Option<f64>,
    /// The 99th percentile of that time.
    #[schemars(extend("unit" = "µs", "x-role" = "figure", "x-heading" = "lock held µs p99"))]
    pub hold_us_p99: Option<f64>,
    /// The 99.9th percentile of that time.
    #[schemars(extend("unit" = "µs"))]
    pub hold_us_p999: Option<f64>,
    /// The longest such time.
    #[schemars(extend("unit" = "µs"))]
    pub hold_us_max: Option<f64>,
    /// `pairs_per_s` divided by that of `wait` with as many workers, the same device and kind of session: the median
    /// of the rounds' ratios; null with fewer than six rounds.
    #[schemars(extend(
        "x-role" = "figure",
        "x-heading" = "pairs, relative to wait",
        "x-interval" = ["ops_ratio_to_wait_low", "ops_ratio_to_wait_high"]
    ))]
    pub ops_ratio_to_wait: Option<f64>,
    /// Lower end of its 95 % interval over the rounds (sign test).
    pub ops_ratio_to_wait_low: Option<f64>,
    /// Upper end of that interval.
    pub ops_ratio_to_wait_high: Option<f64>,
    /// CPU time divided by that of `wait`.
    #[schemars(extend("x-role" = "figure", "x-heading" = "CPU, relative to wait"))]
    pub cpu_ratio_to_wait: Option<f64>,
    /// Time measured, summed over all rounds.
    #[schemars(extend("unit" = "s"))]
    pub seconds: f64,
    /// Creates and closes, each counted, summed over all rounds.
    pub ops: u64,
    /// `ops` divided by `seconds`: single operations.
    #[schemars(extend("unit" = "1/s"))]
    pub ops_per_s: f64,
    /// Pairs per second of each round, in the order in which they were measured; round i of every row was measured
    /// before round i + 1 of any.
    #[schemars(extend("unit" = "1/s"))]
    pub rounds_pairs_per_s: Vec<f64>,
    /// Notifications to the device.
    pub kicks: u64,
    /// Interrupts from the device.
    pub interrupts: u64,
    /// How often a thread yielded its core because the lock stayed taken.
    pub yields: u64,
    /// Histogram of closes.
    #[serde(flatten)]
    #[schemars(skip)]
    pub closes: Octaves,
    /// Histogram of how long the lock was held.
    #[serde(flatten)]
    #[schemars(skip)]
    pub holds: Octaves,
    /// Closes in the paper's octaves of whole microseconds, for its picture.
    #[serde(skip)]
    pub closes_bcc: Vec<u64>,
    /// The same of how long the lock was held.
    #[serde(skip)]
    pub holds_bcc: Vec<u64>,
}

/// A quantile in microseconds.
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
        let octaves = Octaves::of("hist_us", &h);
        assert_eq!(octaves.total(), 6);
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
