//! What came of it.

use schemars::JsonSchema;
use serde::Serialize;

/// A cipher that is used through a virtio-crypto device.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(
    rename = "speed-via",
    title = "Speed through a virtio-crypto device",
    extend(
        "x-question" = "What does the path through a device cost?",
        "x-commands" = ["speed --via virtio"]
    )
)]
pub struct Row {
    /// The algorithm, by the kernel's name.
    #[schemars(extend("x-role" = "key"))]
    pub alg: &'static str,
    /// `encrypt` or `decrypt`.
    #[schemars(extend("x-role" = "key"))]
    pub op: &'static str,
    /// Size of the key.
    #[schemars(extend("unit" = "bits", "x-role" = "key"))]
    pub key_bits: u32,
    /// Size of a message.
    #[schemars(extend("unit" = "bytes", "x-role" = "key"))]
    pub len: usize,
    /// The implementation that serves the requests.
    #[serde(rename = "impl")]
    #[schemars(extend("x-role" = "key"))]
    pub imp: &'static str,
    /// Who provides that implementation.
    #[schemars(extend("x-role" = "key"))]
    pub provider: &'static str,
    /// `device`.
    #[schemars(extend("x-role" = "key"))]
    pub level: &'static str,
    /// Data queues.
    #[schemars(extend("x-role" = "key"))]
    pub queues: usize,
    /// Requests in flight at most.
    #[schemars(extend("x-role" = "key"))]
    pub depth: usize,
    /// Host cores that both sides share.
    #[schemars(extend("x-role" = "condition"))]
    pub cores: usize,
    /// Messages.
    pub ops: u64,
    /// Throughput.
    #[schemars(extend("unit" = "10^6 bytes/s", "x-role" = "main", "x-heading" = "MB/s", "x-better" = "more"))]
    pub mb_per_s: f64,
    /// Messages per second.
    #[schemars(extend("unit" = "1/s", "x-role" = "main", "x-heading" = "messages per second"))]
    pub ops_per_s: f64,
    /// Time from a message's submission to its return: the median.
    #[schemars(extend("unit" = "µs", "x-role" = "figure", "x-heading" = "latency µs p50"))]
    pub lat_us_p50: Option<f64>,
    /// The 99th percentile of that time.
    #[schemars(extend("unit" = "µs", "x-role" = "figure", "x-heading" = "p99"))]
    pub lat_us_p99: Option<f64>,
    /// The 99.9th percentile of that time.
    #[schemars(extend("unit" = "µs", "x-role" = "figure", "x-heading" = "p99.9"))]
    pub lat_us_p999: Option<f64>,
    /// The longest such time.
    #[schemars(extend("unit" = "µs", "x-role" = "figure", "x-heading" = "max"))]
    pub lat_us_max: Option<f64>,
    /// Throughput of the best implementation in this process, with one thread.
    #[schemars(extend("unit" = "10^6 bytes/s", "x-role" = "figure", "x-heading" = "direct MB/s"))]
    pub direct_mb_per_s: Option<f64>,
    /// `mb_per_s` divided by `direct_mb_per_s`.
    #[schemars(extend("x-role" = "figure", "x-heading" = "share of direct"))]
    pub ratio_to_direct: Option<f64>,
}
