use kiln_measure::Machine;
use schemars::JsonSchema;
use serde::Serialize;

/// The machine on which a record was made. A fact that could not be read is null; no value is ever
/// guessed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "machine", title = "machine")]
pub struct Facts {
    #[serde(flatten)]
    pub machine: Machine,
    /// The compiler that built Kiln's kernel code (`kernel/`), with its version.
    #[schemars(extend("x-role" = "condition", "x-heading" = "compiler of the ciphers", "x-side" = "compiler"))]
    pub kernel_cc: String,
    /// ISA tiers that this run could use: the tiers that the CPU supports, without the ones that
    /// `KILN_TIERS` excludes.
    #[schemars(extend("x-role" = "condition"))]
    pub tiers: Vec<&'static str>,
}
