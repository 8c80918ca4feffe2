//! Fields of a row that compare it with the best competing row.

use kiln_measure::Verdict;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// In the row of Kiln's fastest API call: the comparison with the fastest library function,
/// measured in interleaved pairs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BestPeer {
    /// In the row of Kiln's fastest API call: name of the fastest library function. The fields
    /// `best_peer_*` compare the call with this function.
    pub best_peer: String,
    /// The library that `best_peer` belongs to, with its version.
    pub best_peer_provider: String,
    /// Cycles of Kiln's call divided by cycles of the library's function.
    pub best_peer_ratio: f64,
    /// Lower end of the 95 % interval of `best_peer_ratio`.
    pub best_peer_ratio_low: f64,
    /// Upper end of the 95 % interval of `best_peer_ratio`.
    pub best_peer_ratio_high: f64,
    /// Time of Kiln's call divided by time of the library's function.
    pub best_peer_time_ratio: f64,
    /// Lower end of the 95 % interval of `best_peer_time_ratio`.
    pub best_peer_time_ratio_low: f64,
    /// Upper end of the 95 % interval of `best_peer_time_ratio`.
    pub best_peer_time_ratio_high: f64,
    /// Whether Kiln's call is `faster` or `slower` both by cycles and by time; `disagree` if cycles
    /// and time contradict each other; otherwise `same`.
    #[schemars(with = "String")]
    pub best_peer_verdict: Verdict,
    /// Driver of Kiln's fastest call without 512-bit vectors. Present only if Kiln's fastest call
    /// uses such vectors. Whether the library uses them is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub best_peer_ymm_impl: Option<String>,
    /// Time of the call to `best_peer_ymm_impl` divided by time of the library's function.
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

/// In the row of Kiln's fastest function: the comparison with the fastest function of a kernel
/// tree, measured in interleaved pairs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BestTree {
    /// In the row of Kiln's fastest function: symbol of the kernel tree's fastest function. The
    /// fields `best_tree_*` compare the two functions.
    pub best_tree: String,
    /// The kernel tree that `best_tree` belongs to, with its version.
    pub best_tree_provider: String,
    /// Cycles of Kiln's function divided by cycles of the tree's function.
    pub best_tree_ratio: f64,
    /// Lower end of the 95 % interval of `best_tree_ratio`.
    pub best_tree_ratio_low: f64,
    /// Upper end of the 95 % interval of `best_tree_ratio`.
    pub best_tree_ratio_high: f64,
    /// Time of Kiln's function divided by time of the tree's function.
    pub best_tree_time_ratio: f64,
    /// Lower end of the 95 % interval of `best_tree_time_ratio`.
    pub best_tree_time_ratio_low: f64,
    /// Upper end of the 95 % interval of `best_tree_time_ratio`.
    pub best_tree_time_ratio_high: f64,
    /// Whether Kiln's function is `faster` or `slower` both by cycles and by time; `disagree` if
    /// cycles and time contradict each other; otherwise `same`.
    #[schemars(with = "String")]
    pub best_tree_verdict: Verdict,
}

/// In the row of the fastest library function that processes several messages at once: the
/// comparison with Kiln's fastest function of this type or, if Kiln has none, with Kiln's fastest
/// function for a single message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ManyRival {
    /// In the row of the fastest library function that processes several messages at once: Kiln's
    /// fastest function of this type or, if Kiln has none, Kiln's fastest function for a single
    /// message.
    pub kiln_impl: String,
    /// Time of `kiln_impl` divided by time of this row's function.
    pub kiln_time_ratio: f64,
    /// Lower end of the 95 % interval of `kiln_time_ratio`.
    pub kiln_time_ratio_low: f64,
    /// Upper end of the 95 % interval of `kiln_time_ratio`.
    pub kiln_time_ratio_high: f64,
    /// Whether `kiln_impl` is `faster` or `slower` both by cycles and by time; `disagree` if cycles
    /// and time contradict each other; otherwise `same`.
    #[schemars(with = "String")]
    pub kiln_verdict: Verdict,
}
