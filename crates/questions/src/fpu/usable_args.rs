//! `kiln fpu usable`: the command's arguments and its entry point.

use clap::Args;
use kiln_question::{Error, Exit, Question, RowType, Session};

use super::answers::{answers, AnswerRow};
use super::ask::Ask;
use super::plan::Plan;
use super::policy_args::PolicyArgs;
use super::view;

/// May SIMD be used? The answer of each FPU policy in every context
///
/// Calls irq_fpu_usable() in a task, in softirqs, in hardirqs and in an NMI, both with and without
/// an open FPU section in the task. Then Kiln opens a section in the same context, and counts the
/// warnings that a debug kernel would print. In a task, Kiln always opens this section; in softirqs
/// and hardirqs, only if irq_fpu_usable() returned true; in an NMI, never.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  kiln fpu usable
  kiln fpu usable --policy legacy,tree:DIR    compare a kernel tree's answers

See also:
  docs/EMULATION.md, docs/TREES.md")]
pub(super) struct UsableArgs {
    #[command(flatten)]
    policies: PolicyArgs,
}

impl Question for UsableArgs {
    const NAME: &'static str = "fpu-usable";

    fn row_types() -> Vec<RowType> {
        vec![RowType::at::<AnswerRow>(34)]
    }

    fn run(&self, session: &Session) -> Result<Exit, Error> {
        let ask = Ask::<AnswerRow> {
            measure: |plan, bench, _, _| Ok(answers(plan, bench)),
            view: view::answers,
            measures: false,
            policy: |row| &row.policy,
        };
        let plan = Plan {
            policies: self.policies.own()?,
            ..Plan::new(session.seed, session.global.quick)
        };
        ask.run::<Self>(plan, &self.policies, None, session)
    }
}
