//! Fields that `kiln ipsec` adds to the rows of the policy table.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Additional fields of a row in a packet-rate sweep.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Sweep {
    /// In packet-rate sweeps: the emulated scheduler, `cfs-6.1`, `eevdf-6.12` or `eevdf-7.3`.
    #[schemars(extend("x-role" = "key"))]
    pub scheduler: String,
    /// Number of CPUs for which the scheduler's time slices are scaled.
    pub scheduler_cpus: u32,
    /// Time between two scheduler ticks.
    #[schemars(extend("unit" = "µs"))]
    pub tick_us: u64,
    /// Base slice of EEVDF, or minimal granularity of CFS.
    #[schemars(extend("unit" = "µs"))]
    pub slice_us: u64,
    /// Time added to each packet to account for the rest of the network stack.
    #[schemars(extend("unit" = "ns"))]
    pub stack_ns: u64,
    /// Packet rate offered; null in rows about knees and in rows of controls.
    #[schemars(extend("unit" = "1/s", "x-role" = "key"))]
    pub offered_pps: Option<f64>,
    /// `offered_pps` in bits of IP packets per second.
    #[schemars(extend("unit" = "10^9 bits/s"))]
    pub offered_gbit_s: Option<f64>,
    /// The packet rate above which packets are lost: the geometric mean of the highest rate without
    /// losses and the lowest rate with losses. A rate has losses if more than 0.1% of the packets
    /// in all trials at this rate are lost, or if the core falls behind in most of these trials.
    /// Null in rows about a single rate, in rows of controls, and if the knee is outside the range
    /// of rates tried.
    #[schemars(extend(
        "unit" = "1/s",
        "x-role" = "main",
        "x-heading" = "packet loss starts at (packets/s)",
        "x-interval" = ["knee_pps_low", "knee_pps_high"],
        "x-better" = "more"
    ))]
    pub knee_pps: Option<f64>,
    /// Lower end of the interval of `knee_pps`: one step (9%) below the highest rate without
    /// losses, taken from the round in which this rate was lowest. If `knee_pps` is null, the
    /// interval begins at the highest rate without losses. Null if a round had losses even at the
    /// lowest rate.
    #[schemars(extend("unit" = "1/s"))]
    pub knee_pps_low: Option<f64>,
    /// Upper end of the interval of `knee_pps`: one step (9%) above the lowest rate with losses,
    /// taken from the round in which this rate was highest. If `knee_pps` is null, the interval
    /// ends at the lowest rate with losses. Null if a round had no losses at any rate.
    #[schemars(extend("unit" = "1/s"))]
    pub knee_pps_high: Option<f64>,
    /// `knee_pps` in bits of IP packets per second.
    #[schemars(extend("unit" = "10^9 bits/s", "x-role" = "main", "x-heading" = "Gbit/s"))]
    pub knee_gbit_s: Option<f64>,
    /// `core_share` at the highest rate tried that is not above the knee.
    #[schemars(extend("x-role" = "main", "x-heading" = "share of the core that packets take"))]
    pub knee_core_share: Option<f64>,
    /// Where most packets were lost at the lowest rate with losses: `cryptd` (its queue), `core`
    /// (the network card's ring) or `replay` (an anti-replay window).
    pub knee_loss: Option<String>,
    /// Packets per second that the receivers accepted.
    #[schemars(extend(
        "unit" = "1/s",
        "x-role" = "figure",
        "x-heading" = "delivered packets/s",
        "x-better" = "more"
    ))]
    pub delivered_pps: Option<f64>,
    /// Share of the offered packets that the receivers did not accept, from 0 to 1.
    #[schemars(extend("x-role" = "figure", "x-heading" = "lost"))]
    pub lost_share: Option<f64>,
    /// Share of the core that packet processing takes from the task, from 0 to 1: 1 minus the ratio
    /// of the task's throughput to its throughput in the control.
    #[schemars(extend("x-role" = "figure", "x-heading" = "share of the core that packets take at the offered rate"))]
    pub core_share: Option<f64>,
    /// Number of trials at this rate.
    pub trials: Option<u32>,
    /// Number of softirqs raised by a hardirq that interrupted another softirq. They wait until the
    /// interrupted softirq is done.
    pub softirqs_behind: Option<u64>,
}
