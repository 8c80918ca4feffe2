//! Is the FPU usable? Every policy's answer in every context, with a section in progress below or without.

use kiln_kernel::fpu::{usable, Context};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bench::Bench;
use super::outcome::Outcome;
use super::plan::Plan;

/// Whether a policy allows the FPU to be used in one context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(
    rename = "fpu-answers",
    title = "Is the FPU usable?",
    extend(
        "x-question" = "What does each policy answer in each context?",
        "x-commands" = ["fpu usable"],
        "x-old-commands" = ["fpu --usable"]
    )
)]
pub struct AnswerRow {
    /// FPU policy.
    #[schemars(extend("x-role" = "key"))]
    pub policy: String,
    /// For a policy of a kernel tree: the tree's version.
    #[schemars(extend("x-role" = "condition"))]
    pub version: Option<String>,
    /// The context in which the question was asked.
    #[schemars(extend("x-role" = "key"))]
    pub context: String,
    /// Whether the interrupted task was in an FPU section.
    #[schemars(extend("x-role" = "key"))]
    pub in_section: bool,
    /// Whether the policy allows the FPU to be used there.
    #[schemars(extend("x-role" = "main"))]
    pub usable: bool,
    /// Whether the task's section was still open at that time; a softirq may have to wait for its end.
    #[schemars(extend("x-role" = "figure", "x-heading" = "over the section"))]
    pub over_section: bool,
    /// Warnings about a section opened there: by a task in any case, elsewhere only if the FPU was usable.
    #[schemars(extend("x-role" = "figure"))]
    pub warnings: u64,
    /// The preempt count there, in the kernel's layout.
    pub preempt_count: u32,
    /// The task's preempt count after everything had ended.
    pub preempt_after: u32,
}

/// A context's name, as in `docs/EMULATION.md`.
fn name(context: Context) -> &'static str {
    match context {
        Context::Task => "task",
        Context::TaskBhOff => "task, BH off",
        Context::Softirq => "softirq",
        Context::Hardirq => "hardirq",
        Context::HardirqOverBhOff => "hardirq over BH off",
        Context::HardirqOverSoftirq => "hardirq over softirq",
        Context::Nmi => "NMI",
    }
}

/// Asks every policy of the plan in every context.
pub fn answers(plan: &Plan, bench: &mut Bench) -> Outcome<AnswerRow> {
    let mut outcome = Outcome::default();
    for &policy in &plan.policies {
        policy.set(bench.cpu());
        for context in Context::ALL {
            for in_section in [false, true] {
                let answer = usable(bench.cpu(), context, in_section);
                outcome.rows.push(AnswerRow {
                    policy: plan.name(policy).into_owned(),
                    version: plan.tree_of(policy).map(|t| t.version.clone()),
                    context: name(context).to_string(),
                    in_section,
                    over_section: answer.over_section,
                    usable: answer.usable,
                    warnings: answer.warnings,
                    preempt_count: answer.preempt_count,
                    preempt_after: answer.preempt_after,
                });
            }
        }
    }
    bench.put_back();
    outcome
}
