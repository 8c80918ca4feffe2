//! `kiln fpu prove`.

use clap::{Args, Subcommand};
use kiln_question::algorithm::parse_op;
use kiln_question::lens::Lens;
use kiln_question::{Algorithm, Error, Exit, Question, RowType, Session};

use super::ask::Ask;
use super::breakpoint_args::BreakpointArgs;
use super::cpu_args::CpuArgs;
use super::inject::{Inject, Steps};
use super::plan::{implementation, Plan};
use super::policy_args::PolicyArgs;
use super::probe::PATTERN;
use super::step::prove;
use super::step_row::StepRow;
use super::view;

/// Does an FPU policy lose state? An interrupt before every instruction of a section
///
/// One interrupt before each instruction of kernel_fpu_begin, the cipher and kernel_fpu_end, then pairs of interrupts, by
/// single steps: exhaustive, and the same in every run. All results and the user's registers are checked. The control that
/// saves nothing is added and must lose state. For random instructions of millions of sections: kiln fpu prove breakpoint.
#[derive(Args)]
#[command(after_long_help = "\
Exit status:
  1 if state was lost under any policy other than \"none\" (the control, which
  saves nothing); also if a loss could not have been seen (\"no power\"),
  because that control lost too little

Environment:
  KILN_TIERS=generic,aesni   use only these tiers

Examples:
  kiln fpu prove --policy nested,bh-off
  kiln fpu prove --policy tree:DIR --quick    a kernel tree's own sections
  kiln fpu prove --policy none --impl pattern --at 44    repeats one interrupt

See also:
  docs/EMULATION.md, docs/TREES.md")]
pub(super) struct ProveArgs {
    #[command(subcommand)]
    command: Option<ProveCommand>,
    #[command(flatten)]
    policies: PolicyArgs,
    /// Implementation of task and softirqs, or pattern: a task that keeps a pattern in all registers [default: all]
    #[arg(long = "impl", value_name = "NAME")]
    imp: Option<String>,
    /// Lengths of the task's messages in bytes [default: 16,31,512,4096]
    #[arg(long, value_name = "LIST")]
    len: Option<String>,
    /// Operations [default: encrypt,decrypt]
    #[arg(long, value_delimiter = ',', value_name = "OP,…")]
    op: Vec<String>,
    /// Repeat one injection: before instruction K, or K1 and K2 of its softirq
    #[arg(long, value_name = "K[,K2]", allow_hyphen_values = true)]
    at: Option<String>,
    /// With --at: hardirq handlers open sections, too
    #[arg(long, requires = "at")]
    hardirq_fpu: bool,
    #[command(flatten)]
    cpu: CpuArgs,
}

#[derive(Subcommand)]
enum ProveCommand {
    Breakpoint(BreakpointArgs),
}

impl ProveArgs {
    fn plan(&self, session: &Session) -> Result<Plan, Error> {
        let at: Option<Steps> = self.at.as_deref().map(str::parse).transpose()?;
        let lens: Option<Lens> = self.len.as_deref().map(str::parse).transpose()?;
        let ops = self.op.iter().map(|op| parse_op(Algorithm::XTS_AES, op));
        let pattern = self.imp.as_deref() == Some(PATTERN);
        let policies = self.policies.own()?;
        Ok(Plan {
            imp: match pattern {
                true => None,
                false => implementation(self.imp.as_deref(), &policies)?,
            },
            policies,
            pattern,
            inject: Inject::Step(at.unwrap_or(Steps::All)),
            lens: lens.map_or(Vec::new(), |l| l.0),
            ops: ops.collect::<Result<_, _>>()?,
            hardirq_fpu: self.hardirq_fpu,
            ..self.cpu.plan(session)?
        })
    }
}

impl Question for ProveArgs {
    const NAME: &'static str = "fpu-prove";
    const TIMED: bool = true;
    const OF_TIERS: bool = true;

    fn row_types() -> Vec<RowType> {
        vec![RowType::at::<StepRow>(33)]
    }

    fn run(&self, session: &Session) -> Result<Exit, Error> {
        if let Some(ProveCommand::Breakpoint(args)) = &self.command {
            return args.run(session);
        }
        let ask = Ask::<StepRow> {
            measure: prove,
            view: match self.at {
                None => view::proof,
                Some(_) => view::replay,
            },
            measures: true,
            policy: |row| &row.policy,
        };
        let driver = self.imp.as_deref().filter(|name| *name != PATTERN);
        ask.run::<Self>(self.plan(session)?, &self.policies, driver, session)
    }
}
