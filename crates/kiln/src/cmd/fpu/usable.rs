//! `kiln fpu usable`.

use clap::Args;
use kiln_lab::fpu::{self, AnswerRow, Plan};
use kiln_lab::Error;

use super::policies::PolicyArgs;
use super::question::Question;
use crate::session::{Exit, Session};
use crate::table;

/// May SIMD be used here? Each FPU policy's answer in every context
///
/// In a task, in softirqs, in hardirqs and in an NMI, with an FPU section in progress below and without. Kiln opens a section
/// where the answer was yes and counts what a debug kernel would warn of.
#[derive(Args)]
#[command(after_long_help = "\
Row fields (--json):
  policy, version, context, in_section, over_section, usable, warnings,
  preempt_count, preempt_after

Examples:
  kiln fpu usable
  kiln fpu usable --policy legacy,tree:DIR    compare a kernel tree's answers

See also:
  docs/EMULATION.md, docs/TREES.md")]
pub struct UsableArgs {
    #[command(flatten)]
    policies: PolicyArgs,
}

/// Runs it.
pub fn run(args: &UsableArgs, session: &Session) -> Result<Exit, Error> {
    let question = Question::<AnswerRow> {
        command: "fpu-usable",
        ask: |plan, bench, _, _| Ok(fpu::answers(plan, bench)),
        text: table::fpu::answers,
        measures: false,
        policy: |row| &row.policy,
    };
    let plan = Plan {
        policies: args.policies.own()?,
        ..Plan::new(session.seed, session.global.quick)
    };
    question.run(plan, &args.policies, None, session)
}
