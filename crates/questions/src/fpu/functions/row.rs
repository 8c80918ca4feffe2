//! The rows that `kiln fpu prove --tree` outputs. Each row is about one function in one context
//! with one set of tiers.

use kiln_tree::event::{Finding, Proof};
use kiln_tree::kunit::Ran;
use schemars::JsonSchema;
use serde::Serialize;

/// A kernel tree's library function that was interrupted before every instruction. The library
/// exports the function, or an interrupt test of the tree's KUnit suites calls it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(
    rename = "fpu-function",
    title = "An interrupt before each instruction of a library function",
    extend(
        "x-question" = "Does every library function keep its results and registers, wherever it is interrupted?",
        "x-commands" = ["fpu prove --tree"],
        "x-view" = {"check": {"fail": ["findings"], "why": "finding"}}
    )
)]
pub(crate) struct FunctionRow {
    /// Name of the KUnit suite; `library` if Kiln itself called a function that the tree's library
    /// exports.
    #[schemars(extend("x-role" = "key"))]
    pub suite: String,
    /// Name of the interrupted library function, or of the case in the KUnit suite that calls the
    /// interrupted function. Empty if the finding concerns the whole suite.
    #[schemars(extend("x-role" = "key"))]
    pub case: String,
    /// The highest ISA tier that was visible to the tree.
    #[schemars(extend("x-role" = "key"))]
    pub tier: &'static str,
    /// The context in which the function was called: `task`, `softirq` or `hardirq`. Empty in a row
    /// about a whole suite.
    #[schemars(extend("x-role" = "key"))]
    pub context: &'static str,
    /// The configuration with which the tree was built.
    #[schemars(extend("x-role" = "key"))]
    pub config: String,
    /// Names of the functions that ran inside FPU sections, separated by spaces. Empty if no
    /// section was opened.
    #[schemars(extend("x-role" = "main"))]
    pub functions: String,
    /// Number of calls to the function that were single-stepped.
    #[schemars(extend("x-role" = "main"))]
    pub calls: u64,
    /// Number of distinct instructions that the single-stepped calls executed.
    #[schemars(extend("x-role" = "main"))]
    pub instructions: u64,
    /// Number of distinct instructions that were interrupted. Each was interrupted the first few
    /// times that it was executed; `--visits` limits how often.
    #[schemars(extend("x-role" = "main"))]
    pub points: u64,
    /// Number of interrupts injected.
    #[schemars(extend("x-role" = "figure"))]
    pub injected: u64,
    /// Number of injected interrupts that arrived while interrupts were disabled, and were
    /// therefore served later. In the context `hardirq`, this applies to all injected interrupts.
    pub masked: u64,
    /// Number of the function's results that were checked: results of the single-stepped calls, of
    /// calls in the injected interrupts, and of 128 further calls afterwards.
    #[schemars(extend("x-role" = "figure"))]
    pub answers: u64,
    /// Number of checked results that came from softirqs raised by the injected interrupts. 0 in
    /// the contexts `softirq` and `hardirq`, which softirqs cannot interrupt.
    #[schemars(extend("x-role" = "main"))]
    pub in_softirqs: u64,
    /// Number of checked results that were wrong.
    #[schemars(extend("x-role" = "figure", "x-heading" = "wrong"))]
    pub wrong: u64,
    /// Number of rule violations reported. For a function, these are wrong results, changed vector
    /// registers, nested sections, vector registers used outside sections, callee-saved registers
    /// that were not preserved, and sections left open. For a whole suite, these are failed cases,
    /// warnings and crashes.
    #[schemars(extend("x-role" = "figure"))]
    pub findings: u64,
    /// Description of the first rule violation: the rule, the function and instruction, and what
    /// happened. Null if no rule was violated.
    #[schemars(extend("x-role" = "figure"))]
    pub finding: Option<String>,
    /// The command that reproduces the first rule violation. Null if no rule was violated.
    #[schemars(extend("x-role" = "figure"))]
    pub replay: Option<String>,
}

impl FunctionRow {
    pub(super) fn new(
        ran: &Ran,
        proof: &Proof,
        config: &str,
        replay: impl Fn(&Finding) -> String,
    ) -> FunctionRow {
        let first = proof.findings.first();
        FunctionRow {
            suite: ran.suite.clone(),
            case: proof.case.clone(),
            tier: ran.tier.name(),
            context: proof.context.name(),
            config: config.into(),
            functions: proof.functions.join(" "),
            calls: proof.calls,
            instructions: proof.addresses,
            points: proof.points,
            injected: proof.injected,
            masked: proof.masked,
            answers: proof.answers,
            in_softirqs: proof.in_softirqs,
            wrong: proof.wrong,
            findings: proof.findings.len() as u64,
            finding: first.map(describe),
            replay: first.map(replay),
        }
    }

    /// Creates a row about a whole suite: a failed case, a warning, or a crash. If a library
    /// function crashed, `case` is the name of that function.
    pub(super) fn of_suite(
        ran: &Ran,
        case: String,
        what: String,
        config: &str,
        replay: String,
    ) -> FunctionRow {
        FunctionRow {
            suite: ran.suite.clone(),
            case,
            tier: ran.tier.name(),
            context: "",
            config: config.into(),
            functions: String::new(),
            calls: 0,
            instructions: 0,
            points: 0,
            injected: 0,
            masked: 0,
            answers: 0,
            in_softirqs: 0,
            wrong: 0,
            findings: 1,
            finding: Some(what),
            replay: Some(replay),
        }
    }
}

/// Describes a finding in one line.
pub(super) fn describe(finding: &Finding) -> String {
    let Finding {
        rule, place, what, ..
    } = finding;
    match place.is_empty() {
        true => format!("{}: {what}", rule.name()),
        false => format!("{}: {place}: {what}", rule.name()),
    }
}
