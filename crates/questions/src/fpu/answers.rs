//! `kiln fpu usable`: determines, for every policy and every context, whether the FPU is usable
//! there with and without an open FPU section in the task.

use kiln_kernel::fpu::{usable, Answer, Context, Policy};
use kiln_question::Outcome;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bench::Bench;
use super::plan::Plan;

/// Whether one policy allows the use of the FPU in one context.
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
pub(crate) struct AnswerRow {
    /// FPU policy, such as `legacy` or `bh-off`, or the name of the kernel tree that provided the
    /// policy.
    #[schemars(extend("x-role" = "key"))]
    pub policy: String,
    /// Version of the kernel tree. Null for Kiln's own policies.
    #[schemars(extend("x-role" = "condition"))]
    pub version: Option<String>,
    /// Context in which `irq_fpu_usable()` was called, such as `softirq` or `hardirq over BH off`.
    #[schemars(extend("x-role" = "key"))]
    pub context: String,
    /// Whether the task opened an FPU section before `irq_fpu_usable()` was called.
    #[schemars(extend("x-role" = "key"))]
    pub in_section: bool,
    /// Whether `irq_fpu_usable()` returned true in `context`.
    #[schemars(extend("x-role" = "main"))]
    pub usable: bool,
    /// Whether the task's FPU section was still open when `irq_fpu_usable()` was called. Some
    /// policies delay a softirq until the section ends.
    #[schemars(extend("x-role" = "figure", "x-heading" = "over the section"))]
    pub over_section: bool,
    /// Number of warnings that a debug kernel would have printed when an FPU section was opened in
    /// `context`. A task always opens a section, a softirq or hardirq opens one only if the FPU is
    /// usable, and an NMI never opens one.
    #[schemars(extend("x-role" = "figure"))]
    pub warnings: u64,
    /// Value of `preempt_count()` in `context`, in the kernel's bit layout.
    pub preempt_count: u32,
    /// Value of the task's `preempt_count()` after all contexts and sections had ended.
    pub preempt_after: u32,
}

/// Returns the context's name as used in `docs/EMULATION.md`.
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

/// Returns the Kiln policy that models this Linux version. Since Linux 6.15, FPU sections disable
/// softirqs.
fn rule_of(version: &str) -> Option<Policy> {
    let mut numbers = version.split('.').map(|n| n.parse::<u32>().ok());
    let series = (numbers.next()??, numbers.next()??);
    let name = if series >= (6, 15) {
        "bh-off"
    } else {
        "legacy"
    };
    Policy::all().into_iter().find(|p| p.name() == name)
}

/// Returns the parts of an answer that are compared. Only whether there were any warnings is
/// compared, not how many, because the same section may cause one warning or two.
fn judged(answer: &Answer) -> (bool, bool, bool) {
    (answer.usable, answer.over_section, answer.warnings > 0)
}

/// Determines the answer of every policy in the plan in every context. The outcome is marked as
/// failed if a tree's answers differ from those of the policy that models the tree's Linux version.
pub(super) fn answers(plan: &Plan, bench: &mut Bench) -> Outcome<AnswerRow> {
    let mut outcome = Outcome::default();
    for &policy in &plan.policies {
        let tree = plan.tree_of(policy);
        let rule = tree.and_then(|t| rule_of(&t.version));
        let mut others = Vec::new();
        for context in Context::ALL {
            for in_section in [false, true] {
                policy.set(bench.cpu());
                let answer = usable(bench.cpu(), context, in_section);
                if let Some(rule) = rule {
                    rule.set(bench.cpu());
                    let right = usable(bench.cpu(), context, in_section);
                    if judged(&answer) != judged(&right) {
                        others.push(difference(context, in_section, &answer, &right));
                    }
                }
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
        if let (Some(tree), Some(rule), false) = (tree, rule, others.is_empty()) {
            outcome.failed = true;
            outcome.notes.push(format!(
                "{} answers otherwise than the rule of Linux {} ('{}'): {}",
                tree.name,
                tree.version,
                rule.name(),
                others.join("; ")
            ));
        }
    }
    bench.put_back();
    outcome
}

/// Describes how a tree's answer in one context differs from the answer of the expected policy.
fn difference(context: Context, in_section: bool, answer: &Answer, right: &Answer) -> String {
    let over = if in_section {
        " during the task's section"
    } else {
        ""
    };
    let what = match (answer.usable, right.usable) {
        (true, false) => "the FPU is usable, but should not be",
        (false, true) => "the FPU is not usable, but should be",
        _ if answer.over_section && !right.over_section => {
            "runs before the section ends, but should wait for its end"
        }
        _ if right.over_section && !answer.over_section => {
            "waits for the section's end, but should run before"
        }
        _ if answer.warnings > 0 => "opening a section causes a warning, but should not",
        _ => "opening a section causes no warning, but should",
    };
    format!("{}{over}: {what}", name(context))
}
