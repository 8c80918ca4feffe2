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

/// Does an FPU policy lose registers? Sections are interrupted at every instruction
///
/// Kiln single-steps each FPU section and injects an interrupt before every instruction, from the
/// first instruction of kernel_fpu_begin to the last of kernel_fpu_end. These interrupts are the
/// same each time the command runs. Then Kiln injects pairs of interrupts: one in the section, and
/// one in the softirq that the first one raised. Kiln checks the output of every encryption and
/// decryption, and that no user-mode register was changed. The policy 'none' saves no registers and
/// is included as a control. If the control loses too little, the run fails, because losses of
/// other policies could go unnoticed, too. To interrupt random instructions in millions of
/// sections, use 'kiln fpu prove breakpoint'.
///
/// With --tree, Kiln instead examines crypto library functions of a kernel tree (Linux 6.9 and
/// later): the exported functions, and the functions called by the KUnit suites' interrupt tests.
/// Each function is called in a task and in a softirq, and interrupted before every instruction. In
/// a hardirq, where nothing can interrupt it, the function is only single-stepped. Kiln checks that
/// results are right, and that interrupts change no vector register of an open section. Kiln also
/// checks that functions preserve callee-saved registers, and use vector registers only in
/// sections. These checks do not find a missing vzeroupper; for that, use kiln test --tree DIR
/// --oracle registers.
#[derive(Args)]
#[command(after_long_help = "\
Exit status:
  1 if register contents were lost under a policy other than \"none\", which is
    the control
  1 if the control \"none\", which saves no registers, lost so few that losses
    under other policies could have gone unnoticed (\"no power\")
  With --tree: 1 if a check failed, or if a function was never interrupted

Environment:
  KILN_TIERS=generic,aesni   use only these ISA tiers; 'kiln list' shows all

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
    /// Examine the crypto library functions of this kernel tree, instead of FPU policies
    #[arg(long, value_name = "DIR", conflicts_with_all = ["policy", "imp", "len", "op", "hardirq_fpu"])]
    tree: Option<PathBuf>,
    /// With --tree: examine only the functions that these KUnit suites or cases call. Write SUITE,
    /// SUITE.CASE or, for a single exported function, library.FUNCTION; * and ? are wildcards
    /// [default: all]
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "PATTERN,…",
        requires = "tree"
    )]
    suite: Vec<String>,
    /// With --tree: contexts in which to call the functions, one or more of task, softirq and
    /// hardirq [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAME,…", requires = "tree")]
    context: Vec<String>,
    /// With --tree: interrupt each instruction of a section in its first N executions
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..), requires = "tree")]
    visits: u64,
    /// Cipher implementation for the task and the softirqs; with 'pattern', the task keeps a
    /// pattern in all registers instead of encrypting [default: all implementations, and 'pattern']
    #[arg(long = "impl", value_name = "NAME")]
    imp: Option<String>,
    /// Lengths of the task's messages in bytes [default: 16,31,512,4096]
    #[arg(long, value_name = "LIST")]
    len: Option<String>,
    /// What the task does with its messages: encrypt, decrypt [default: both]
    #[arg(long, value_delimiter = ',', value_name = "OP,…")]
    op: Vec<String>,
    /// Inject only one interrupt, before instruction K of the section; with K,K2, a second before
    /// instruction K2 of the softirq that the first raises. With --tree: inject until instruction
    /// K2 of the K-th call
    #[arg(long, value_name = "K[,K2]", allow_hyphen_values = true)]
    at: Option<String>,
    /// With --at: let hardirq handlers open FPU sections, too
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
        // clap does not require --tree if a flag is given that conflicts with --tree.
        let of_tree = [
            ("--suite", self.suite.is_empty()),
            ("--context", self.context.is_empty()),
        ];
        let given = of_tree.iter().find(|(_, absent)| !absent);
        if let (None, Some((flag, _))) = (&self.tree, given) {
            return Err(Error::input(format!(
                "{flag} selects functions of a kernel tree: add --tree DIR, or leave {flag} out"
            )));
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
