//! `kiln fpu prove`: the command's arguments and its entry point.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use kiln_question::algorithm::parse_op;
use kiln_question::lens::Lens;
use kiln_question::{Algorithm, Error, Exit, Question, RowType, Session, Shard, ShardArgs};

use super::ask::Ask;
use super::breakpoint_args::BreakpointArgs;
use super::cpu_args::CpuArgs;
use super::functions::{self, Asked, FunctionRow};
use super::inject::{Inject, Steps};
use super::plan::{implementation, Plan};
use super::policy_args::PolicyArgs;
use super::probe::PATTERN;
use super::step::prove;
use super::step_row::StepRow;
use super::view;

/// Does an FPU policy lose state? An interrupt before every instruction of a section
///
/// Kiln single-steps each section and injects an interrupt before every instruction, from the first
/// of kernel_fpu_begin to the last of kernel_fpu_end. Every run injects the same interrupts. Then
/// Kiln injects pairs: one interrupt in the section, one in the softirq that follows. The output of
/// every call and the user-mode registers are checked. The policy none, which saves nothing, is
/// included as a control: it must lose state, or else losses would go unnoticed. To interrupt
/// random instructions in millions of sections, use kiln fpu prove breakpoint.
///
/// With --tree, the library functions of a kernel tree (Linux 6.9 and later) are examined instead:
/// those that the tree exports, and those that the interrupt tests of its KUnit suites call. In a
/// task and in a softirq, each function is interrupted before every instruction. In a hardirq,
/// where nothing can interrupt it, the function is only single-stepped. Kiln checks that answers
/// are right, and that interrupts change no vector register of an open section. Functions must
/// preserve callee-saved registers, and use vector registers only in sections. These checks do not
/// find a missing vzeroupper; for that, use kiln test --tree DIR --oracle registers.
#[derive(Args)]
#[command(after_long_help = "\
Exit status:
  1 if a policy lost state; the control \"none\", which saves nothing, does not
    count. Also 1 if the control lost so little that a policy's losses could
    have gone unnoticed (\"no power\"). With --tree: 1 if a check failed, or if
    no interrupt reached one of the functions

Environment:
  KILN_TIERS=generic,aesni   use only these instruction-set tiers (kiln list)

Examples:
  kiln fpu prove --policy nested,bh-off
  kiln fpu prove --policy tree:DIR --quick    a kernel tree's own sections
  kiln fpu prove --policy none --impl pattern --at 44    repeats one interrupt
  kiln fpu prove --shard 2/8 --out DIR    part 2 of 8 (docs/FLEET.md)
  kiln fpu prove --tree DIR    all library functions of a kernel tree
  kiln fpu prove --tree DIR --suite sha256,'crc.crc32c*' --context softirq
  kiln fpu prove --tree DIR --suite 'library.aes_gcm_*'    only AES-GCM
  kiln fpu prove --tree DIR --shard 2/8 --out OUT    part 2 of 8

See also:
  docs/EMULATION.md, docs/TREES.md")]
pub(super) struct ProveArgs {
    #[command(subcommand)]
    command: Option<ProveCommand>,
    #[command(flatten)]
    policies: PolicyArgs,
    /// Examine the library functions of this kernel tree instead
    #[arg(long, value_name = "DIR", conflicts_with_all = ["policy", "imp", "len", "op", "hardirq_fpu"])]
    tree: Option<PathBuf>,
    /// With --tree: only these suites, cases (SUITE.CASE) or exported functions
    /// (library.FUNCTION); * and ? are wildcards [default: all]
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "PATTERN,…",
        requires = "tree"
    )]
    suite: Vec<String>,
    /// With --tree: call functions in these contexts: task, softirq, hardirq [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAME,…", requires = "tree")]
    context: Vec<String>,
    /// With --tree: interrupt each instruction of a section at its first N executions
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..), requires = "tree")]
    visits: u64,
    /// Cipher implementation for the task and the softirqs; with 'pattern', the task calls no
    /// cipher, but keeps a pattern in all registers [default: all]
    #[arg(long = "impl", value_name = "NAME")]
    imp: Option<String>,
    /// Lengths of the task's messages in bytes [default: 16,31,512,4096]
    #[arg(long, value_name = "LIST")]
    len: Option<String>,
    /// Operations [default: encrypt,decrypt]
    #[arg(long, value_delimiter = ',', value_name = "OP,…")]
    op: Vec<String>,
    /// Repeat an interrupt before instruction K of the section; with K,K2, add one before
    /// instruction K2 of its softirq. With --tree: interrupt only up to instruction K2 of call K
    #[arg(long, value_name = "K[,K2]", allow_hyphen_values = true)]
    at: Option<String>,
    /// With --at: let hardirq handlers open sections, too
    #[arg(long, requires = "at")]
    hardirq_fpu: bool,
    #[command(flatten)]
    shard: ShardArgs,
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
            share: session.share.clone(),
            ..self.cpu.plan(session)?
        })
    }
}

impl Question for ProveArgs {
    const NAME: &'static str = "fpu-prove";
    const TIMED: bool = true;
    const OF_TIERS: bool = true;

    fn shard(&self) -> Option<Shard> {
        self.shard.shard
    }

    fn row_types() -> Vec<RowType> {
        vec![RowType::at::<StepRow>(33), RowType::at::<FunctionRow>(35)]
    }

    fn run(&self, session: &Session) -> Result<Exit, Error> {
        if let Some(ProveCommand::Breakpoint(args)) = &self.command {
            return args.run(session);
        }
        if self.shard.shard.is_some() && self.at.is_some() {
            return Err(Error::input(
                "--shard divides a proof, and --at repeats a single interrupt: leave one of them out",
            ));
        }
        if let Some(dir) = &self.tree {
            let at: Option<Steps> = self.at.as_deref().map(str::parse).transpose()?;
            let asked = Asked {
                dir,
                build: &self.policies.build,
                suites: &self.suite,
                contexts: &self.context,
                visits: self.visits,
                at: match at {
                    None => None,
                    Some(Steps::Pair(call, step)) => Some((call, step)),
                    Some(_) => {
                        return Err(Error::input(
                            "--at with --tree: name the call and the instruction: --at CALL,INSTRUCTION, as in a replay line",
                        ))
                    }
                },
            };
            return functions::prove::<Self>(&asked, session);
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
