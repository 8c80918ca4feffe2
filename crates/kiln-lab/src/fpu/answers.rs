//! Is the FPU usable? Every policy's answer in every context, with a section in progress below or without.

use kiln_kernel::fpu::{usable, Context};
use serde::{Deserialize, Serialize};

use super::bench::Bench;
use super::outcome::Outcome;
use super::plan::Plan;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerRow {
    /// Policy.
    pub policy: String,
    /// Of the tree whose own policy it is.
    pub version: Option<String>,
    /// Where the question was put.
    pub context: String,
    /// With a section of the task in progress.
    pub in_section: bool,
    /// Whether that section was still in progress then: softirqs may wait for its end.
    pub over_section: bool,
    /// The answer.
    pub usable: bool,
    /// Warnings of a section opened there: by a task whatever the answer was, elsewhere if it was yes.
    pub warnings: u64,
    /// The preempt count there, in the kernel's layout.
    pub preempt_count: u32,
    /// And in the task when all was over.
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
