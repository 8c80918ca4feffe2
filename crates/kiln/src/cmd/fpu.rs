//! `kiln fpu`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use kiln_kernel::fpu::Policy;
use kiln_lab::algorithm::{parse_op, usable_xts};
use kiln_lab::fpu::esp::{EspLoad, Settings};
use kiln_lab::fpu::{
    self, AnswerRow, Bench, Contender, Inject, Outcome, Plan, Proof, Steps, Workload,
};
use kiln_lab::lens::Lens;
use kiln_lab::record::Facts;
use kiln_lab::{overhead, Algorithm, Error};

use super::fpu_tree;
use crate::progress::Progress;
use crate::session::{Exit, Session};
use crate::table;
use crate::tree_args::TreeBuildArgs;

/// What each FPU policy costs under softirq load, and whether it loses state
///
/// For whoever weighs ways of using SIMD in softirqs. A task encrypts on an emulated CPU; interrupts raise softirqs that
/// encrypt over it. Every row has a control in which the same interrupts do nothing; all results and the user's registers
/// are checked.
#[derive(Args)]
#[command(after_long_help = "\
Sources of interrupts (--inject):
  timer, poisson, signal   by the clock; signal: from another core
  replay:FILE              gaps in ns, one a line
  breakpoint               random instructions, as many as can be had
  step                     proof: one before every instruction, then pairs
  step:K, step:K1,K2       one injection again, as a proof run printed it

Row fields (--json):
  policy, version, fallback, load, impl, inject, control, seconds, sections,
  irqs, irqs_in_section, softirqs, task_mb_per_s, of_control (task over
  control), ratio (policy over the first), softirq_mb_per_s, softirq_us_*,
  section_us_*, sections_timed, sections_stolen, nested_saves,
  scalar_fallbacks, async_punts, reordered, dropped, warnings, corrupted,
  user_corrupted, preemptions, pair_cycles, first_section_cycles
  of packets: packets, own_packets, ring_missed, esp_mb_per_s, esp_ratio,
  replay_lost, recovery_us
  with --overhead: alg, len, policy, path, cycles_per_op, mb_per_s, ratio,
  ci_low, ci_high

Exit status:
  1 if state was lost under any policy but none, the broken control

Environment:
  KILN_TIERS=generic,aesni   restricts the tiers

Examples:
  kiln fpu
  kiln fpu --policy legacy,bh-off --load xts-16 --irq-rate 4000
  kiln fpu --load esp --out DIR
  kiln fpu --inject step --policy nested,bh-off
  kiln fpu --inject breakpoint --quick --json
  kiln fpu --policy legacy,tree:DIR    beside a kernel tree's own code
  kiln fpu --overhead --policy legacy,bh-off,nested

See also:
  docs/EMULATION.md, docs/TREES.md")]
pub struct FpuArgs {
    /// legacy, bh-off, nested, nested-v1, preemptible, none [default: these],
    /// tree:DIR: a Linux source tree's own code, built and hosted
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    policy: Vec<String>,
    /// What softirqs do under legacy where SIMD is not usable: scalar, cryptd
    /// [default: scalar; loads of packets: cryptd]
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    fallback: Vec<String>,
    /// What the task does: xts-16, xts-4096 [default: both], pattern; or
    /// packets of IPsec over it: esp, esp-cbc, pcap:FILE, pcap-cbc:FILE
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    load: Vec<String>,
    /// With --load esp: packets a second, low and high [default: by what one
    /// takes here]
    #[arg(
        long,
        value_delimiter = ',',
        num_args = 1,
        value_name = "LOW,HIGH",
        allow_hyphen_values = true
    )]
    packet_rate: Vec<f64>,
    /// With --load esp and pcap: numbers an anti-replay window knows [default: 64]
    #[arg(long, value_name = "N")]
    replay_window: Option<u32>,
    /// Interrupts a second [default: 2000; loads of packets: 4000]
    #[arg(long, value_name = "HZ", allow_hyphen_values = true)]
    irq_rate: Option<f64>,
    /// Where interrupts come from
    #[arg(long, default_value = "timer", value_name = "SOURCE")]
    inject: String,
    /// When tasks are preempted
    #[arg(long, value_enum, default_value_t)]
    preempt: Preempt,
    /// Microseconds a task runs while another waits [default: 3000]
    #[arg(long, value_name = "N")]
    slice_us: Option<u64>,
    /// Implementation of task and softirqs [default: the best; proofs: all]
    #[arg(long = "impl", value_name = "NAME")]
    imp: Option<String>,
    /// With --inject step: lengths in bytes [default: 16,31,512,4096]; with
    /// --overhead [default: 16,512,4096]
    #[arg(long, value_name = "LIST")]
    len: Option<String>,
    /// With --inject step: operations [default: encrypt,decrypt]
    #[arg(long, value_delimiter = ',', value_name = "OP,…")]
    op: Vec<String>,
    /// With --inject step:K: hardirq handlers open sections, too
    #[arg(long)]
    hardirq_fpu: bool,
    /// Measure for about so long, all loads together [default: 48; with --quick 12]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    seconds: Option<f64>,
    /// The ways to reach a cipher against each other
    #[arg(long)]
    overhead: bool,
    /// Whether the FPU is usable, in every context, and nothing else
    #[arg(long)]
    usable: bool,
    #[command(flatten)]
    build: TreeBuildArgs,
}

#[derive(Clone, Copy, Default, PartialEq, ValueEnum)]
enum Preempt {
    #[default]
    Voluntary,
    Full,
}

/// What `--impl` takes for the task that keeps a pattern in all registers.
const PATTERN: &str = "pattern";

impl FpuArgs {
    fn plan(&self, session: &Session) -> Result<Plan, Error> {
        let alg = Algorithm::XTS_AES;
        let inject: Inject = self.inject.parse()?;
        let step = matches!(inject, Inject::Step(_));
        let usual = Plan::new(session.seed, session.global.quick);
        let loads = self
            .load
            .iter()
            .filter(|name| !EspLoad::is_meant(name))
            .map(|name| name.parse())
            .collect::<Result<Vec<Workload>, _>>()?;
        let one_by_one = self.len.is_some() || !self.op.is_empty() || self.hardirq_fpu;
        if one_by_one && !step {
            return Err(Error::input(
                "--len, --op and --hardirq-fpu go with --inject step: choose messages with --load",
            ));
        }
        if self.seconds.is_some() && (step || self.usable) {
            return Err(Error::input(
                "--seconds goes with tables: a proof ends when all is proved",
            ));
        }
        if step && !loads.is_empty() {
            return Err(Error::input(
                "--load goes with interrupts by the clock: choose messages with --len and --op",
            ));
        }
        let by_clock = matches!(inject, Inject::Timer | Inject::Poisson | Inject::Signal);
        if self.irq_rate.is_some() && !by_clock {
            return Err(Error::input(
                "--irq-rate goes with --inject timer, poisson and signal: leave it out",
            ));
        }
        let pattern = step && self.imp.as_deref() == Some(PATTERN);
        let contenders = fpu::contenders(&self.policy)?;
        // A tree has drivers of its own, by names of its own.
        let imp = match self.imp.as_deref() {
            Some(name) if !pattern && !own(&contenders).is_empty() => Some(usable_xts(name)?),
            _ => None,
        };
        let lens: Option<Lens> = self.len.as_deref().map(str::parse).transpose()?;
        let plan = Plan {
            policies: own(&contenders),
            fallbacks: match self.fallback.as_slice() {
                [] => usual.fallbacks,
                names => fpu::fallbacks(names)?,
            },
            loads: if loads.is_empty() { usual.loads } else { loads },
            inject,
            irq_rate: self.irq_rate.unwrap_or(usual.irq_rate),
            imp,
            pattern,
            lens: lens.map_or(Vec::new(), |l| l.0),
            ops: self
                .op
                .iter()
                .map(|name| parse_op(alg, name))
                .collect::<Result<_, _>>()?,
            hardirq_fpu: self.hardirq_fpu,
            preempt_full: self.preempt == Preempt::Full,
            slice_us: self.slice_us.unwrap_or(usual.slice_us),
            budget: super::seconds(self.seconds, 0.1)?.unwrap_or(usual.budget),
            ..usual
        };
        Ok(plan)
    }
}

impl FpuArgs {
    /// Loads of packets, if any are asked for.
    fn packets(&self, plan: &mut Plan) -> Result<Option<Settings>, Error> {
        let rates = match self.packet_rate.as_slice() {
            [] => None,
            [low, high] => Some((*low, *high)),
            _ => return Err(Error::input("--packet-rate takes two rates: LOW,HIGH")),
        };
        let names: Vec<_> = self.load.iter().filter(|n| EspLoad::is_meant(n)).collect();
        if names.is_empty() {
            let other = match (rates.is_some(), self.replay_window.is_some()) {
                (true, _) => "--packet-rate",
                (_, true) => "--replay-window",
                _ => return Ok(None),
            };
            return Err(Error::input(format!(
                "{other} goes with loads of packets: --load esp"
            )));
        }
        let others = [
            ("--load with other loads", names.len() < self.load.len()),
            ("--usable", self.usable),
            ("--impl", self.imp.is_some()),
            (
                "--fallback scalar",
                self.fallback.iter().any(|f| f != "cryptd"),
            ),
        ];
        if let Some((what, _)) = others.iter().find(|(_, given)| *given) {
            return Err(Error::input(format!(
                "{what} does not go with --load {}: requests take the best drivers, by cryptd where they must",
                names[0]
            )));
        }
        if self.irq_rate.is_none() {
            plan.irq_rate = 4000.0;
        }
        let loads = names
            .into_iter()
            .map(|name| name.parse())
            .collect::<Result<Vec<EspLoad>, _>>()?;
        let settings = Settings {
            loads,
            rates,
            window: self.replay_window.unwrap_or(64),
        };
        settings.checked(plan).map(Some)
    }

    /// The plan of `--overhead`, which takes few of the other arguments.
    fn overhead_plan(&self, session: &Session) -> Result<overhead::Plan, Error> {
        let others = [
            ("--load", !self.load.is_empty()),
            ("--irq-rate", self.irq_rate.is_some()),
            ("--inject", self.inject != "timer"),
            ("--op", !self.op.is_empty()),
            ("--slice-us", self.slice_us.is_some()),
            ("--hardirq-fpu", self.hardirq_fpu),
            ("--packet-rate", !self.packet_rate.is_empty()),
            ("--replay-window", self.replay_window.is_some()),
            ("--seconds", self.seconds.is_some()),
        ];
        if let Some((name, _)) = others.iter().find(|(_, given)| *given) {
            return Err(Error::input(format!(
                "{name} goes with the policy table: --overhead takes --policy, --len and --impl"
            )));
        }
        let lens: Option<Lens> = self.len.as_deref().map(str::parse).transpose()?;
        let lens = lens.map_or(vec![16, 512, 4096], |l| l.0);
        if let Some(len) = lens.iter().find(|l| !(16..=65536).contains(*l)) {
            return Err(Error::input(format!(
                "--len {len}: xts(aes) is measured at 16 to 65536 bytes"
            )));
        }
        let policies = match self.policy.as_slice() {
            [] => fpu::policies(&["legacy".to_string(), "bh-off".to_string()])?,
            names => own(&fpu::contenders(names)?),
        };
        Ok(overhead::Plan {
            imp: match self.imp.as_deref() {
                // A tree has drivers of its own, by names of its own.
                Some(name) if !policies.is_empty() => Some(usable_xts(name)?),
                _ => None,
            },
            policies,
            lens,
            seed: session.seed,
            quick: session.global.quick,
        })
    }
}

/// Runs it.
pub fn run(args: &FpuArgs, session: &Session) -> Result<Exit, Error> {
    if args.overhead {
        let plan = args.overhead_plan(session)?;
        if let Some(order) = &session.child {
            return super::overhead::in_child(&plan, args.imp.as_deref(), order, session);
        }
        let trees = trees(&fpu::contenders(&args.policy)?);
        return super::overhead::run(&plan, &trees, &args.build, session);
    }
    let mut plan = args.plan(session)?;
    let packets = args.packets(&mut plan)?;
    if let Some(order) = &session.child {
        return fpu_tree::in_child(plan, args.imp.as_deref(), args.what(), order, session);
    }
    let contenders = fpu::contenders(&args.policy)?;
    let tree = contenders.iter().find(|c| matches!(c, Contender::Tree(_)));
    if let Some(settings) = packets {
        if let Some(Contender::Tree(dir)) = tree {
            return Err(Error::input(format!(
                "--policy tree:{}: loads of packets take Kiln's own policies only",
                dir.display()
            )));
        }
        return super::fpu_esp::run(&plan.checked()?, &settings, session);
    }
    if tree.is_some() {
        fpu_tree::check(&plan, &contenders, args.imp.as_deref())?;
        return fpu_tree::run(&contenders, args.what(), &args.build, session);
    }
    let plan = plan.checked()?;
    session.settle();
    let facts = Facts::read();
    let mut bench = Bench::own(&plan)?;
    measured(&plan, &mut bench, args.what(), session)?.emit(&facts, session)
}

/// Kiln's own among them.
fn own(contenders: &[Contender]) -> Vec<Policy> {
    let own = |c: &Contender| match c {
        Contender::Own(policy) => Some(*policy),
        Contender::Tree(_) => None,
    };
    contenders.iter().filter_map(own).collect()
}

/// The trees among them.
fn trees(contenders: &[Contender]) -> Vec<PathBuf> {
    let tree = |c: &Contender| match c {
        Contender::Own(_) => None,
        Contender::Tree(dir) => Some(dir.clone()),
    };
    contenders.iter().filter_map(tree).collect()
}

/// What is asked of the policies.
#[derive(Clone, Copy, PartialEq)]
pub enum What {
    Table,
    Proof(Steps),
    Answers,
}

impl FpuArgs {
    fn what(&self) -> What {
        match self.inject.parse() {
            _ if self.usable => What::Answers,
            Ok(Inject::Step(steps)) => What::Proof(steps),
            _ => What::Table,
        }
    }
}

/// What came of it, to be printed.
pub enum Measured {
    Table(Outcome),
    Proof(Proof, Steps),
    Answers(Vec<AnswerRow>),
}

/// Runs it on a CPU, with a bar.
pub fn measured(
    plan: &Plan,
    bench: &mut Bench,
    what: What,
    session: &Session,
) -> Result<Measured, Error> {
    let progress = Progress::start();
    let mut tell = |done: f64, what: &str| progress.report(done, what);
    Ok(match what {
        What::Table => Measured::Table(fpu::run_on(plan, bench, &session.stop, &mut tell)?),
        What::Proof(steps) => {
            Measured::Proof(fpu::prove_on(plan, bench, &session.stop, &mut tell)?, steps)
        }
        What::Answers => Measured::Answers(fpu::answers(plan, bench)),
    })
}

impl Measured {
    /// Sends it out.
    pub fn emit(&self, facts: &Facts, session: &Session) -> Result<Exit, Error> {
        match self {
            Measured::Table(outcome) => {
                session.emit("fpu", facts, &outcome.rows, &outcome.notes, || {
                    format!(
                        "{}\n\n{}\n{}",
                        table::machine(facts),
                        table::fpu::tables(&outcome.rows),
                        table::notes(&outcome.notes, session.seed)
                    )
                })?;
                Ok(exit(outcome))
            }
            Measured::Proof(proof, steps) => prove(proof, *steps, facts, session),
            Measured::Answers(rows) => {
                session.emit("fpu", facts, rows, &[], || table::fpu::answers(rows))?;
                Ok(Exit::Done)
            }
        }
    }
}

/// How it ended.
fn exit(outcome: &Outcome) -> Exit {
    ended(outcome.failed, outcome.interrupted)
}

fn prove(proof: &Proof, steps: Steps, facts: &Facts, session: &Session) -> Result<Exit, Error> {
    let mut notes = proof.notes.clone();
    notes.extend(proof.replays.iter().map(|line| format!("replay: {line}")));
    session.emit("fpu", facts, &proof.rows, &notes, || {
        // A replay line is copied whole, so it is not broken.
        let mut replays = String::new();
        for line in &proof.replays {
            replays.push_str(&format!("replay: {line}\n"));
        }
        let rows = if steps == Steps::All {
            table::fpu::proof(&proof.rows)
        } else {
            table::fpu::replay(&proof.rows)
        };
        format!(
            "{}\n\n{rows}\n{replays}{}",
            table::machine(facts),
            table::notes(&proof.notes, session.seed)
        )
    })?;
    Ok(ended(proof.failed, proof.interrupted))
}

pub fn ended(failed: bool, interrupted: bool) -> Exit {
    if failed {
        Exit::Failed
    } else if interrupted {
        Exit::Interrupted
    } else {
        Exit::Done
    }
}
