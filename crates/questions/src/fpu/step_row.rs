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
    /// Driver that the task and the softirqs use; `pattern` if the task keeps a pattern in all
    /// registers instead.
    #[serde(rename = "impl")]
    #[schemars(extend("x-role" = "key"))]
    pub imp: Cow<'static, str>,
    /// `encrypt` or `decrypt`; null for `pattern`.
    #[schemars(extend("x-role" = "key"))]
    pub op: Option<Cow<'static, str>>,
    /// Size of the task's message; null for `pattern`.
    #[schemars(extend("unit" = "bytes", "x-role" = "key"))]
    pub len: Option<usize>,
    /// Number of instructions that the section executes without interrupts.
    #[schemars(extend("x-role" = "main"))]
    pub instructions: u64,
    /// Number of instructions before which an interrupt was injected in the first pass, in which
    /// hardirqs open no FPU sections. Softirqs that run at the end of the section count as part of
    /// it.
    #[schemars(extend("x-role" = "main"))]
    pub points: u64,
    /// Number of instructions that were also interrupted individually, in a separate run for each.
    /// In sections of more than 800 instructions, only the first 160 have separate runs; a single
    /// run interrupts all later ones, except under `none`.
    #[schemars(extend("x-role" = "main"))]
    pub singles: u64,
    /// Number of interrupts injected, summed over all runs of this row.
    #[schemars(extend("x-role" = "figure"))]
    pub injected: u64,
    /// Number of injected interrupts that arrived while interrupts were disabled and were served
    /// later.
    pub masked: u64,
    /// Number of instructions in the softirq that an interrupt in the middle of the section raises.
    pub softirq_instructions: u64,
    /// Number of instructions in that softirq before which an interrupt was injected.
    pub softirq_points: u64,
    /// Number of pairs of interrupts that were tried: one in the section, and one in the softirq
    /// that the first one raises.
    #[schemars(extend("x-role" = "figure"))]
    pub pairs: u64,
    /// Number of wrong results, of the task and of the softirqs together.
    #[schemars(extend("x-role" = "figure", "x-heading" = "wrong"))]
    pub corrupted: u64,
    /// Number of kernel entries after which the FPU state of user space had changed.
    #[schemars(extend("x-role" = "figure", "x-heading" = "user wrong"))]
    pub user_corrupted: u64,
    /// Number of wrong results to expect if the policy loses state as often as `none`, the control
    /// that saves nothing. A verdict on the policy requires at least 6.9 (ln 1000), summed over the
    /// policy's rows with the same load. Null for controls, and if `none` did not run or lost too
    /// little.
    #[serde(default)]
    #[schemars(extend("x-role" = "figure", "x-heading" = "wrong results to expect if as bad as the control"))]
    pub expected_wrong: Option<f64>,
    /// Number of warnings that a debug kernel would have printed.
    #[schemars(extend("x-role" = "figure"))]
    pub warnings: u64,
    /// Command that reproduces the first loss of state; null if no reproducible loss was found.
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
