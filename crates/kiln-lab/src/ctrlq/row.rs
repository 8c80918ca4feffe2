//! What came of one way of waiting.

use kiln_driver::Histogram;
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

/// A row of `ctrlq`. Latencies are of creates and closes, microseconds; `hist_us_*` counts closes alone, as the paper's
/// histogram does, and `hold_hist_us_*` how long the lock was held.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)] // the names are those of the contract
pub struct Row {
    pub mode: &'static str,
    pub workers: usize,
    pub session: &'static str,
    /// How the device serves control requests; null of one that was there.
    pub ctrl: Option<&'static str>,
    /// In flight at most.
    pub depth: usize,
    /// Cores that both processes share.
    pub cores: usize,
    /// Threads that have work at the same time, each of which needs a core: workers, interrupt thread, device.
    pub cores_needed: usize,
    /// Measured, all rounds together.
    pub seconds: f64,
    /// Creates and closes, each counted, of all rounds together.
    pub ops: u64,
    /// `ops` per second.
    pub ops_per_s: f64,
    /// A create and the close of its session, per second: the median of the rounds and its 95 % interval.
    pub pairs_per_s: Option<f64>,
    pub pairs_per_s_low: Option<f64>,
    pub pairs_per_s_high: Option<f64>,
    /// The same of each round, in the order measured.
    pub rounds_pairs_per_s: Vec<f64>,
    /// Of both processes; null of a device that was there.
    pub cpu_pct: Option<f64>,
    pub driver_cpu_pct: Option<f64>,
    pub device_cpu_pct: Option<f64>,
    pub cpu_us_per_op: Option<f64>,
    pub lat_us_p50: Option<f64>,
    pub lat_us_p99: Option<f64>,
    pub lat_us_p999: Option<f64>,
    pub lat_us_p9999: Option<f64>,
    pub lat_us_max: Option<f64>,
    pub hold_us_p50: Option<f64>,
    pub hold_us_p99: Option<f64>,
    pub hold_us_p999: Option<f64>,
    pub hold_us_max: Option<f64>,
    pub kicks: u64,
    pub interrupts: u64,
    /// Times that a thread let others have its core because the lock stayed taken.
    pub yields: u64,
    /// `pairs_per_s` over that of `wait` with as many workers, the same device and kind of session: the median of the
    /// rounds' ratios and its 95 % interval.
    pub ops_ratio_to_wait: Option<f64>,
    pub ops_ratio_to_wait_low: Option<f64>,
    pub ops_ratio_to_wait_high: Option<f64>,
    pub cpu_ratio_to_wait: Option<f64>,
    #[serde(flatten)]
    pub closes: Octaves,
    #[serde(flatten)]
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
