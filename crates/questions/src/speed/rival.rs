//! Fields of a row that compare it with the best competing row.

use kiln_measure::Verdict;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The comparison of Kiln's fastest API call with the fastest library function, measured in
/// interleaved pairs. Only the row of Kiln's call contains it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BestPeer {
    /// Name of the fastest library function. Only the row of Kiln's fastest API call has this
    /// field. The fields `best_peer_*` compare that call with the library function.
    pub best_peer: String,
    /// Library that provides `best_peer`, with the library's version.
    pub best_peer_provider: String,
    /// Cycles of Kiln's fastest API call divided by the cycles of `best_peer`.
    pub best_peer_ratio: f64,
    /// Lower end of the 95 % interval of `best_peer_ratio`.
    pub best_peer_ratio_low: f64,
    /// Upper end of the 95 % interval of `best_peer_ratio`.
    pub best_peer_ratio_high: f64,
    /// Time of Kiln's fastest API call divided by the time of `best_peer`.
    pub best_peer_time_ratio: f64,
    /// Lower end of the 95 % interval of `best_peer_time_ratio`.
    pub best_peer_time_ratio_low: f64,
    /// Upper end of the 95 % interval of `best_peer_time_ratio`.
    pub best_peer_time_ratio_high: f64,
    /// Comparison of Kiln's fastest API call with `best_peer`: `faster` or `slower` (in both cycles
    /// and time), `disagree` (cycles and time contradict each other) or `same` (otherwise).
    #[schemars(with = "String")]
    pub best_peer_verdict: Verdict,
    /// Driver of Kiln's fastest API call without 512-bit vectors. Present only if Kiln's fastest
    /// API call uses 512-bit vectors. It is not known whether `best_peer` uses them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub best_peer_ymm_impl: Option<String>,
    /// Time of the call to `best_peer_ymm_impl` divided by the time of `best_peer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64")]
    pub best_peer_ymm_time_ratio: Option<f64>,
    /// Lower end of the 95 % interval of `best_peer_ymm_time_ratio`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64")]
    pub best_peer_ymm_time_ratio_low: Option<f64>,
    /// Upper end of the 95 % interval of `best_peer_ymm_time_ratio`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64")]
    pub best_peer_ymm_time_ratio_high: Option<f64>,
}

/// The comparison of Kiln's fastest function with the fastest function of a kernel tree, measured
/// in interleaved pairs. Only the row of Kiln's function contains it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BestTree {
    /// Symbol of the kernel tree's fastest function. Only the row of Kiln's fastest function has
    /// this field. The fields `best_tree_*` compare the two functions.
    pub best_tree: String,
    /// Kernel tree that `best_tree` belongs to, with the tree's version.
    pub best_tree_provider: String,
    /// Cycles of Kiln's fastest function divided by the cycles of `best_tree`.
    pub best_tree_ratio: f64,
    /// Lower end of the 95 % interval of `best_tree_ratio`.
    pub best_tree_ratio_low: f64,
    /// Upper end of the 95 % interval of `best_tree_ratio`.
    pub best_tree_ratio_high: f64,
    /// Time of Kiln's fastest function divided by the time of `best_tree`.
    pub best_tree_time_ratio: f64,
    /// Lower end of the 95 % interval of `best_tree_time_ratio`.
    pub best_tree_time_ratio_low: f64,
    /// Upper end of the 95 % interval of `best_tree_time_ratio`.
    pub best_tree_time_ratio_high: f64,
    /// Comparison of Kiln's fastest function with `best_tree`: `faster` or `slower` (in both cycles
    /// and time), `disagree` (cycles and time contradict each other) or `same` (otherwise).
    #[schemars(with = "String")]
    pub best_tree_verdict: Verdict,
}

/// The comparison of Kiln with the fastest library function that processes several messages at
/// once. Kiln's side is its fastest function of the same type or, if Kiln has none, its fastest
/// function for a single message. Only the row of the library function contains the comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ManyRival {
    /// Kiln's fastest function that processes several messages at once or, if Kiln has none, its
    /// fastest function for a single message. Only the row of the fastest library function that
    /// processes several messages at once has this field.
    pub kiln_impl: String,
    /// Time of `kiln_impl` divided by the time of this row's function.
    pub kiln_time_ratio: f64,
    /// Lower end of the 95 % interval of `kiln_time_ratio`.
    pub kiln_time_ratio_low: f64,
    /// Upper end of the 95 % interval of `kiln_time_ratio`.
    pub kiln_time_ratio_high: f64,
    /// Comparison of `kiln_impl` with this row's function: `faster` or `slower` (in both cycles and
    /// time), `disagree` (cycles and time contradict each other) or `same` (otherwise).
    #[schemars(with = "String")]
    pub kiln_verdict: Verdict,
}
