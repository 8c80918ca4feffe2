//! The rows of `kiln speed --via virtio`.

use schemars::JsonSchema;
use serde::Serialize;

/// The speed of a cipher when it is used through a virtio-crypto device.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(
    rename = "speed-via",
    title = "Speed through a virtio-crypto device",
    extend(
        "x-question" = "What does the path through a device cost?",
        "x-commands" = ["speed --via virtio"]
    )
)]
pub(crate) struct Row {
    /// Name of the algorithm in the kernel's crypto API, such as `xts(aes)`.
    #[schemars(extend("x-role" = "key"))]
    pub alg: &'static str,
    /// The operation, which is always `encrypt`.
    #[schemars(extend("x-role" = "key"))]
    pub op: &'static str,
    /// Size of the AES key. XTS takes two keys of this size.
    #[schemars(extend("unit" = "bits", "x-role" = "key"))]
    pub key_bits: u32,
    /// Size of a message.
    #[schemars(extend("unit" = "bytes", "x-role" = "key"))]
    pub len: usize,
    /// The measured implementation, which is always `virtio-crypto`.
    #[serde(rename = "impl")]
    #[schemars(extend("x-role" = "key"))]
    pub imp: &'static str,
    /// The provider of the measured code, which is always `device`.
    #[schemars(extend("x-role" = "key"))]
    pub provider: &'static str,
    /// Interface through which the implementation is called, which is always `virtio`.
    #[schemars(extend("x-role" = "key"))]
    pub level: &'static str,
    /// Number of data queues. Each queue is served by one thread of the driver and one thread of
    /// the device.
    #[schemars(extend("x-role" = "key"))]
    pub queues: usize,
    /// Maximum number of requests in flight on each data queue.
    #[schemars(extend("x-role" = "key"))]
    pub depth: usize,
    /// Number of host cores that the driver and the device share.
    #[schemars(extend("x-role" = "condition"))]
    pub cores: usize,
    /// Number of messages processed in the measured time.
    #[schemars(extend("x-benchmark" = "iterations"))]
    pub ops: u64,
    /// Throughput of the device, summed over all queues.
    #[schemars(extend(
        "unit" = "10^6 bytes/s",
        "x-role" = "main",
        "x-heading" = "MB/s",
        "x-better" = "more",
        "x-benchmark" = "bytes_per_second"
    ))]
    pub mb_per_s: f64,
    /// Number of messages processed per second, summed over all queues.
    #[schemars(extend("unit" = "1/s", "x-role" = "main", "x-heading" = "messages per second"))]
    pub ops_per_s: f64,
    /// Median of the time from the submission of a message to its return.
    #[schemars(extend(
        "unit" = "µs",
        "x-role" = "figure",
        "x-heading" = "latency µs p50",
        "x-benchmark" = "real_time"
    ))]
    pub lat_us_p50: Option<f64>,
    /// 99th percentile of the time from the submission of a message to its return.
    #[schemars(extend("unit" = "µs", "x-role" = "figure", "x-heading" = "p99"))]
    pub lat_us_p99: Option<f64>,
    /// 99.9th percentile of the time from the submission of a message to its return.
    #[schemars(extend("unit" = "µs", "x-role" = "figure", "x-heading" = "p99.9"))]
    pub lat_us_p999: Option<f64>,
    /// Longest time from the submission of a message to its return.
    #[schemars(extend("unit" = "µs", "x-role" = "figure", "x-heading" = "max"))]
    pub lat_us_max: Option<f64>,
    /// Throughput of Kiln's fastest implementation of the same cipher when one thread calls it
    /// directly. Null if it could not be measured.
    #[schemars(extend("unit" = "10^6 bytes/s", "x-role" = "figure", "x-heading" = "direct MB/s"))]
    pub direct_mb_per_s: Option<f64>,
    /// `mb_per_s` divided by `direct_mb_per_s`. Null if `direct_mb_per_s` is null.
    #[schemars(extend("x-role" = "figure", "x-heading" = "share of direct"))]
    pub ratio_to_direct: Option<f64>,
}
