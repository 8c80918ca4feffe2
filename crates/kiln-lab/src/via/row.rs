//! What came of it.

use serde::Serialize;

/// A row of `speed --via virtio`. Latency is from the submission of a message to its return, microseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)] // the names are those of the contract
pub struct Row {
    pub alg: &'static str,
    #[serde(rename = "impl")]
    pub imp: &'static str,
    pub provider: &'static str,
    pub level: &'static str,
    pub op: &'static str,
    pub key_bits: u32,
    pub len: usize,
    pub queues: usize,
    pub depth: usize,
    pub cores: usize,
    pub ops: u64,
    pub ops_per_s: f64,
    pub mb_per_s: f64,
    pub lat_us_p50: Option<f64>,
    pub lat_us_p99: Option<f64>,
    pub lat_us_p999: Option<f64>,
    pub lat_us_max: Option<f64>,
    /// The best implementation in this process, one thread; and this as a share of it.
    pub direct_mb_per_s: Option<f64>,
    pub ratio_to_direct: Option<f64>,
}
