//! The rows of `budget --tree`: the results of one function at one message length.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// FPU sections of one function that a kernel tree's library exports, at one message length. The
/// rows show how long these sections disable preemption and softirqs. The call is repeated, and
/// every section is timed. Because disturbances only lengthen sections, Kiln keeps the shortest
/// time measured for each section of the call; `section_us` is the longest of these times.
/// Functions that open no FPU section have no rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(
    rename = "budget-tree",
    title = "Section lengths of a kernel tree",
    extend(
        "x-question" = "How long do the library functions of a kernel tree keep softirqs off?",
        "x-commands" = ["budget --tree"],
        "x-view" = {
            "how": "The longest FPU section of one call, by message length. Farther left is better.",
            "each": ["bytes", "provider", "config"],
            "name": ["function", "alg", "op"],
            "pictures": [{
                "form": "bars",
                "value": "section_us",
                "unit": "µs",
                "log": true
            }]
        }
    )
)]
pub(in crate::budget) struct Row {
    /// Name of the function, such as `sha256`. A name that ends in `_update` means a series of
    /// calls that hash a message in two halves.
    #[schemars(extend("x-role" = "key"))]
    pub function: String,
    /// Algorithm, such as `sha256`.
    #[schemars(extend("x-role" = "key"))]
    pub alg: String,
    /// Operation: `encrypt`, `decrypt`, `crypt` (encryption and decryption are the same), `digest`
    /// or `derive`.
    #[schemars(extend("x-role" = "key"))]
    pub op: String,
    /// Kernel tree and its version, such as `linux-6.15`.
    #[schemars(extend("x-role" = "key"))]
    pub provider: String,
    /// Configuration that the kernel tree was built with.
    #[schemars(extend("x-role" = "key"))]
    pub config: String,
    /// Size of a message.
    #[schemars(extend("unit" = "bytes", "x-role" = "key"))]
    pub bytes: u64,
    /// The highest ISA tier that the tree was allowed to use.
    pub tier: String,
    /// Length of the longest FPU section in a call. To exclude disturbances, the length of each
    /// section is the shortest one measured in all repetitions of the call.
    #[schemars(extend(
        "unit" = "µs",
        "x-role" = "main",
        "x-interval" = ["section_low", "section_high"],
        "x-better" = "less",
        "x-benchmark" = "real_time"
    ))]
    pub section_us: f64,
    /// Lower end of the interval of `section_us`. The interval extends to both sides by the spread
    /// of the longest section's length over the five best calls.
    #[schemars(extend("unit" = "µs"))]
    pub section_low: f64,
    /// Upper end of the interval of `section_us`.
    #[schemars(extend("unit" = "µs"))]
    pub section_high: f64,
    /// Number of calls that were measured.
    pub repetitions: u64,
    /// Number of measured calls in which the host took the CPU away during a section.
    pub stolen: u64,
    /// Number of FPU sections per call. All calls have the same number.
    #[schemars(extend("x-role" = "main", "x-heading" = "sections per call"))]
    pub sections_per_call: u64,
    /// Average number of bytes per section: `bytes` divided by `sections_per_call`.
    #[schemars(extend("unit" = "bytes", "x-role" = "figure", "x-heading" = "bytes per section"))]
    pub bytes_per_section: f64,
    /// Throughput of the fastest call.
    #[schemars(extend("unit" = "MB/s", "x-role" = "figure", "x-heading" = "MB/s", "x-better" = "more"))]
    pub mb_per_s: f64,
    /// Message length beyond which the longest section does not grow further. All rows of a
    /// function have the same value. Null if the section keeps growing with the message, or if this
    /// cannot be determined from the measured lengths.
    #[schemars(extend("unit" = "bytes", "x-role" = "main", "x-heading" = "bound, bytes"))]
    pub bound: Option<u64>,
    /// Median time from a timer interrupt to the start of the softirq that it raises. The
    /// interrupts occur at random moments while a task calls the function repeatedly. Measured only
    /// at the shortest and the longest message length; null at other lengths.
    #[schemars(extend("unit" = "µs", "x-role" = "figure", "x-heading" = "softirq delay µs p50"))]
    pub delay_us_p50: Option<f64>,
    /// Maximum time from a timer interrupt to the start of the softirq that it raises. Includes any
    /// time during which the host took the CPU away. Null if `delay_us_p50` is null.
    #[schemars(extend("unit" = "µs", "x-role" = "figure", "x-heading" = "softirq delay µs max"))]
    pub delay_us_max: Option<f64>,
    /// Number of interrupts whose delay was measured.
    pub delays: u64,
}
