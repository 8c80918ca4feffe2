//! The arguments of `kiln fpu`, which prints the policy table. Other questions about FPU policies
//! are subcommands.

use clap::{Args, Subcommand};
use kiln_question::{parse_seconds, Error, Exit, Question, RowType, Session, Shard};

use super::ask::Ask;
use super::cpu_args::CpuArgs;
use super::inject::Inject;
use super::load_args::LoadArgs;
use super::overhead::OverheadArgs;
use super::plan::{implementation, Plan};
use super::policy_args::PolicyArgs;
use super::prove_args::ProveArgs;
use super::row::Row;
use super::usable_args::UsableArgs;
use super::{run, view};

/// Cost of each FPU policy under softirq load; which policies lose registers
///
/// An FPU policy decides whether FPU sections disable preemption or softirqs, and what a softirq
/// does if it needs SIMD while a section is open. On an emulated CPU, a task encrypts, and
/// interrupts raise softirqs that also encrypt. Each policy is compared with a baseline run under
/// the same policy, in which the interrupts do nothing. Kiln checks the output of every encryption,
/// and that no user-mode register was changed.
#[derive(Args)]
#[command(after_long_help = "\
What happens if a softirq needs SIMD while an FPU section is open (--policy):
  legacy       Linux up to 6.14: the softirq runs scalar code, or defers its
               request to cryptd (--fallback)
  bh-off       Linux from 6.15: softirqs are disabled during sections
  nested       the softirq saves the section's registers and restores them
  nested-v1    nested as first posted for Linux, without later corrections
  preemptible  as nested, but sections can be preempted (arm64, Linux 6.12)
  none         the control, broken on purpose: the softirq saves no registers

Sources of interrupts (--inject):
  timer        a timer, at regular intervals
  poisson      a timer, at random intervals
  signal       signals from another core, at regular intervals
  replay:FILE  a timer; each line of FILE is an interval in ns

Exit status:
  1 if a policy other than \"none\" lost register contents, or completed
    requests out of order
  1 if a loss could have gone unnoticed (\"no power\"): the control \"none\"
    lost too little, or sections were interrupted too rarely
  Without \"none\" in --policy, status 0 does not prove that nothing was lost.

Environment:
  KILN_TIERS=generic,aesni   use only these ISA tiers; 'kiln list' shows all

Examples:
  kiln fpu
  kiln fpu --policy legacy,bh-off --load xts-16 --irq-rate 4000
  kiln fpu --policy legacy,bh-off --fallback scalar,cryptd
  kiln fpu --policy legacy,tree:DIR    compare legacy with a kernel tree

See also:
  docs/EMULATION.md, docs/TREES.md")]
pub struct FpuArgs {
    #[command(subcommand)]
    command: Option<FpuCommand>,
    #[command(flatten)]
    policies: PolicyArgs,
    #[command(flatten)]
    load: LoadArgs,
    /// Interrupts per second [default: 2000]
    #[arg(long, value_name = "HZ", allow_hyphen_values = true)]
    irq_rate: Option<f64>,
    /// Source of the interrupts: timer, poisson, signal, replay:FILE
    #[arg(long, default_value = "timer", value_name = "SOURCE")]
    inject: String,
    /// AES-XTS driver that the task and the softirqs use [default: the one with the highest
    /// priority]
    #[arg(long = "impl", value_name = "NAME")]
    imp: Option<String>,
    /// Total measuring time in seconds, for all policies and loads together [default: 48; with
    /// --quick: 12]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    seconds: Option<f64>,
    #[command(flatten)]
    cpu: CpuArgs,
}

#[derive(Subcommand)]
enum FpuCommand {
    Overhead(OverheadArgs),
    Prove(Box<ProveArgs>),
    Usable(UsableArgs),
}

impl FpuArgs {
    fn plan(&self, session: &Session) -> Result<Plan, Error> {
        let usual = self.cpu.plan(session)?;
        let inject: Inject = self.inject.parse()?;
        let policies = self.policies.own()?;
        Ok(Plan {
            imp: implementation(self.imp.as_deref(), &policies)?,
            fallbacks: self.load.fallbacks(usual.fallbacks, &policies)?,
            policies,
            loads: self.load.loads(usual.loads)?,
            inject,
            irq_rate: self.irq_rate.unwrap_or(usual.irq_rate),
            budget: parse_seconds(self.seconds, 0.1)?.unwrap_or(usual.budget),
            ..usual
        })
    }
}

impl Question for FpuArgs {
    const NAME: &'static str = "fpu";
    const TIMED: bool = true;
    const OF_TIERS: bool = true;

    fn shard(&self) -> Option<Shard> {
        match &self.command {
            Some(FpuCommand::Prove(args)) => args.shard(),
            _ => None,
        }
    }

    fn row_types() -> Vec<RowType> {
        let mut all = vec![RowType::at::<Row>(31)];
        all.extend(OverheadArgs::row_types());
        all.extend(ProveArgs::row_types());
        all.extend(UsableArgs::row_types());
        all
    }

    fn run(&self, session: &Session) -> Result<Exit, Error> {
        match &self.command {
            Some(FpuCommand::Overhead(args)) => args.run(session),
            Some(FpuCommand::Prove(args)) => args.run(session),
            Some(FpuCommand::Usable(args)) => args.run(session),
            None => {
                let ask = Ask::<Row> {
                    measure: run::run,
                    view: view::tables,
                    measures: true,
                    policy: |row| &row.policy,
                };
                let plan = self.plan(session)?;
                ask.run::<Self>(plan, &self.policies, self.imp.as_deref(), session)
            }
        }
    }
}
