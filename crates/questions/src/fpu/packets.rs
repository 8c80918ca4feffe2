//! Fields that `kiln ipsec` adds to the rows of the policy table.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Additional fields of a row in a packet-rate sweep.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Sweep {
    /// The emulated scheduler: `cfs-6.1`, `eevdf-6.12` or `eevdf-7.3`. Present only in packet-rate
    /// sweeps.
    #[schemars(extend("x-role" = "key"))]
    pub scheduler: String,
    /// Number of CPUs that the emulated scheduler assumes when it scales its time slices.
    pub scheduler_cpus: u32,
    /// Time between two scheduler ticks.
    #[schemars(extend("unit" = "µs"))]
    pub tick_us: u64,
    /// Base slice of the emulated scheduler (EEVDF), or its minimum granularity (CFS).
    #[schemars(extend("unit" = "µs"))]
    pub slice_us: u64,
    /// CPU time added to the processing of each packet, to account for the rest of the network
    /// stack.
    #[schemars(extend("unit" = "ns"))]
    pub stack_ns: u64,
    /// Offered packet rate. Null in rows that give a knee (`knee_pps`) and in rows of controls.
    #[schemars(extend("unit" = "1/s", "x-role" = "key"))]
    pub offered_pps: Option<f64>,
    /// `offered_pps` as a bit rate, counting the bits of the IP packets.
    #[schemars(extend("unit" = "10^9 bits/s"))]
    pub offered_gbit_s: Option<f64>,
    /// The knee: the packet rate above which packets are lost. The value is the geometric mean of
    /// the highest rate without losses and the lowest rate with losses. A rate has losses if more
    /// than 0.1% of all packets offered at the rate are lost, or if the core falls behind in most
    /// trials at the rate. Null in rows about a single rate, in rows of controls, and if the knee
    /// is outside the range of rates tried.
    #[schemars(extend(
        "unit" = "1/s",
        "x-role" = "main",
        "x-heading" = "packet loss starts at (packets/s)",
        "x-interval" = ["knee_pps_low", "knee_pps_high"],
        "x-better" = "more"
    ))]
    pub knee_pps: Option<f64>,
    /// Lower end of the interval of `knee_pps`. Each round finds a highest rate without losses; the
    /// interval begins one step (9%) below the lowest of these rates. If `knee_pps` is null, the
    /// interval begins at the lowest of these rates itself. Null if a round had losses even at the
    /// lowest rate tried.
    #[schemars(extend("unit" = "1/s"))]
    pub knee_pps_low: Option<f64>,
    /// Upper end of the interval of `knee_pps`. Each round finds a lowest rate with losses; the
    /// interval ends one step (9%) above the highest of these rates. If `knee_pps` is null, the
    /// interval ends at the highest of these rates itself. Null if a round had no losses at any
    /// rate tried.
    #[schemars(extend("unit" = "1/s"))]
    pub knee_pps_high: Option<f64>,
    /// `knee_pps` as a bit rate, counting the bits of the IP packets.
    #[schemars(extend("unit" = "10^9 bits/s", "x-role" = "main", "x-heading" = "Gbit/s"))]
    pub knee_gbit_s: Option<f64>,
    /// Share of the core that packet processing takes at the knee: `core_share` at the highest rate
    /// tried that does not exceed the knee.
    #[schemars(extend("x-role" = "main", "x-heading" = "share of the core that packets take"))]
    pub knee_core_share: Option<f64>,
    /// Place where most packets were lost at the lowest rate with losses: `cryptd` (in its queue),
    /// `core` (in the network card's ring) or `replay` (at an anti-replay window). Null if
    /// `knee_pps_high` is null.
    pub knee_loss: Option<String>,
    /// Rate at which the receivers accepted packets.
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
    /// Share of the core that packet processing takes from the task, from 0 to 1. It is 1 minus the
    /// task's throughput divided by its throughput in the control, which has no packets.
    #[schemars(extend("x-role" = "figure", "x-heading" = "share of the core that packets take at the offered rate"))]
    pub core_share: Option<f64>,
    /// Number of trials at the offered rate.
    pub trials: Option<u32>,
    /// Number of softirqs that a hardirq raised while it was interrupting another softirq. They
    /// wait until the interrupted softirq is done.
    pub softirqs_behind: Option<u64>,
}
