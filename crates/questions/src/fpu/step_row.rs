//! The rows that `kiln fpu prove` outputs.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::power::Count;

/// A proof run: interrupts are injected before every instruction of an FPU section.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(
    rename = "fpu-step",
    title = "An interrupt before each instruction",
    extend(
        "x-question" = "Does a policy lose state, wherever it is interrupted?",
        "x-commands" = ["fpu prove"],
        "x-old-commands" = ["fpu --inject step"],
        "x-view" = {
            "check": {"only": ["policy!=none"], "fail": ["corrupted", "user_corrupted"]},
            "loss": {
                "of": "policy",
                "control": "policy=none",
                "wrong": ["corrupted", "user_corrupted"],
                "hit": "injected",
                "expected": "expected_wrong",
                "together": true
            }
        }
    )
)]
pub(crate) struct StepRow {
    /// FPU policy, such as `legacy` or `bh-off`, or the name of the kernel tree that provided the
    /// policy.
    #[schemars(extend("x-role" = "key"))]
    pub policy: Cow<'static, str>,
    /// Driver that the task and the softirqs use. `pattern` means that the task uses no driver and
    /// instead keeps a pattern in all registers.
    #[serde(rename = "impl")]
    #[schemars(extend("x-role" = "key"))]
    pub imp: Cow<'static, str>,
    /// Operation of the task: `encrypt` or `decrypt`. Null for `pattern`.
    #[schemars(extend("x-role" = "key"))]
    pub op: Option<Cow<'static, str>>,
    /// Size of the task's message. Null for `pattern`.
    #[schemars(extend("unit" = "bytes", "x-role" = "key"))]
    pub len: Option<usize>,
    /// Number of instructions that the section executes if it is not interrupted.
    #[schemars(extend("x-role" = "main"))]
    pub instructions: u64,
    /// Number of instructions that had an interrupt injected before them in the first pass. In that
    /// pass, hardirqs open no FPU sections. Softirqs that run at the end of the section count as
    /// part of the section.
    #[schemars(extend("x-role" = "main"))]
    pub points: u64,
    /// Number of instructions that were interrupted again in additional runs, one run per
    /// instruction. In sections of more than 800 instructions, only the first 160 instructions have
    /// a run each. All later instructions are interrupted in a single run, or not at all under
    /// `none`.
    #[schemars(extend("x-role" = "main"))]
    pub singles: u64,
    /// Number of interrupts injected, summed over all runs of this row.
    #[schemars(extend("x-role" = "figure"))]
    pub injected: u64,
    /// Number of injected interrupts that were delayed because they arrived while interrupts were
    /// disabled.
    pub masked: u64,
    /// Number of instructions in the softirq that an interrupt in the middle of the section raises.
    pub softirq_instructions: u64,
    /// Number of softirq instructions that had an interrupt injected before them, out of
    /// `softirq_instructions`.
    pub softirq_points: u64,
    /// Number of pairs of interrupts that were injected. The first interrupt of a pair hits the
    /// section, and the second one hits the softirq that the first one raises, or code that runs
    /// just before or after the softirq.
    #[schemars(extend("x-role" = "figure"))]
    pub pairs: u64,
    /// Total number of wrong results in the task and the softirqs.
    #[schemars(extend("x-role" = "figure", "x-heading" = "wrong"))]
    pub corrupted: u64,
    /// Number of kernel entries after which the FPU state of user space had changed.
    #[schemars(extend("x-role" = "figure", "x-heading" = "user wrong"))]
    pub user_corrupted: u64,
    /// Number of wrong results to expect if the policy loses state as often as `none`, the control
    /// that saves nothing. A verdict on a policy requires a sum of at least 6.9 (ln 1000) over its
    /// rows. Null for `none` itself, for a replay with `--at`, or if `none` did not run or had too
    /// few wrong results.
    #[serde(default)]
    #[schemars(extend("x-role" = "figure", "x-heading" = "wrong results to expect if as bad as the control"))]
    pub expected_wrong: Option<f64>,
    /// Number of warnings that a debug kernel would have printed.
    #[schemars(extend("x-role" = "figure"))]
    pub warnings: u64,
    /// Command that reproduces the first loss of state. Null if no reproducible loss was found.
    #[schemars(extend("x-role" = "figure"))]
    pub replay: Option<String>,
}

impl StepRow {
    /// Returns the counts that determine whether a loss could have been detected.
    pub(super) fn count(&self) -> Count<'_> {
        Count {
            policy: &self.policy,
            load: "single steps",
            hit: self.injected,
            wrong: self.corrupted,
        }
    }
}
