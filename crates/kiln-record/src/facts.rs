//! The machine that a record is from.

use kiln_measure::Machine;
use schemars::JsonSchema;
use serde::Serialize;

/// The machine that a record is from. What could not be read is null, never guessed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "machine", title = "machine")]
pub struct Facts {
    /// Hardware and host.
    #[serde(flatten)]
    pub machine: Machine,
    /// The compiler that built `kernel/`.
    pub kernel_cc: String,
    /// The tiers that were usable; `KILN_TIERS` may have excluded others.
    pub tiers: Vec<&'static str>,
}
