//! `kiln fpu`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use kiln_kernel::fpu::Policy;
use kiln_lab::algorithm::{parse_op, usable_impl};
use kiln_lab::fpu::esp::{EspLoad, Settings};
use kiln_lab::fpu::{
    self, AnswerRow, Bench, Contender, Inject, Outcome, Plan, Proof, Steps, Workload,
};
use kiln_lab::lens::Lens;
use kiln_lab::{overhead, read_facts, Algorithm, Error};
use kiln_record::Facts;
use schemars::JsonSchema;
use serde::Serialize;

use super::fpu_tree;
use crate::progress::Progress;
use crate::session::{Exit, Session};
use crate::table;
use crate::tree_args::TreeBuildArgs;

/// What each FPU policy costs under softirq load, and whether it loses state
///
/// For anyone choosing how to use SIMD in softirqs. A task encrypts on an emulated CPU; interrupts raise softirqs that
/// interrupt it and encrypt, too. Every row has a baseline run in which the same interrupts do nothing; all results and the
/// user's registers are checked.
#[derive(Args)]
#[command(after_long_help = "\
Sources of interrupts (--inject):
  timer, poisson, signal   by the clock; signal: from another core
  replay:FILE              gaps in ns, one a line
  breakpoint               random instructions of FPU sections: a campaign of
                           --seconds or --interrupts, with totals at its end
  step                     proof: one interrupt before every instruction, then
                           pairs; exhaustive: no --seconds, no --interrupts
  step:K, step:K1,K2       one injection again, as a proof run printed it

Row fields (--json):
  policy, version, fallback, load, impl, inject, control, seconds, sections,
  irqs, irqs_in_section, softirqs, task_mb_per_s, of_control (task over
  control), ratio (policy over the first), softirq_mb_per_s, softirq_us_*,
  section_us_*, sections_timed, sections_stolen, nested_saves,
  scalar_fallbacks, async_punts, reordered, dropped, warnings, corrupted,
  user_corrupted, expected_wrong (had the policy lost state as often as the
  control), preemptions, pair_cycles, first_section_cycles
  of packets: packets, own_packets, ring_missed, replay_lost; at one rate:
  scheduler, offered_pps, delivered_pps, lost_share, core_share; of the rate
  from which packets are lost: knee_pps, knee_pps_low, knee_pps_high,
  knee_gbit_s, knee_core_share, knee_loss; in phases: esp_mb_per_s,
  esp_ratio, recovery_us
  with --overhead: alg, len, policy, path, cycles_per_op, ns_per_op,
  mb_per_s, ratio (cycles over direct), ci_low, ci_high, baseline, speedup
  (the baseline's cycles over these), time_speedup, each with _low and _high,
  rounds

Exit status:
  1 if state was lost under any policy other than \"none\" (the control, which
  saves nothing); also if a loss could not have been seen (\"no power\"),
  because that control lost too little or a policy was interrupted too rarely.
  breakpoint and step add the control by themselves; a table without it has no
  verdict on lost state.

Environment:
  KILN_TIERS=generic,aesni   restricts the tiers

Examples:
  kiln fpu
  kiln fpu --policy legacy,bh-off --load xts-16 --irq-rate 4000
  kiln fpu --load esp --out DIR        from which rate is traffic lost?
  kiln fpu --load esp --packet-rate 220000 --scheduler cfs-6.1
  kiln fpu --inject step --policy nested,bh-off
  kiln fpu --inject breakpoint --policy nested --interrupts 1G
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
    /// IPsec packets that interrupt it: esp, esp-cbc, pcap:FILE, pcap-cbc:FILE
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    load: Vec<String>,
    /// With --load esp: packets per second. One rate, or low and high for phases
    /// [default: a search for the rate from which packets are lost]
    #[arg(
        long,
        value_delimiter = ',',
        num_args = 1,
        value_name = "N[,HIGH]",
        allow_hyphen_values = true
    )]
    packet_rate: Vec<f64>,
    /// With --load esp and pcap: numbers an anti-replay window knows [default: 64]
    #[arg(long, value_name = "N")]
    replay_window: Option<u32>,
    /// With --load esp and pcap: ns that the network stack takes per packet
    /// [default: 0]
    #[arg(long, value_name = "N")]
    stack_ns: Option<u64>,
    /// With --load esp and pcap: sectors after which the task sends a packet of
    /// its own, 0: never [default: 0; with phases and captures 64]
    #[arg(long, value_name = "N")]
    own_every: Option<u32>,
    /// Interrupts a second [default: 2000; loads of packets: 4000]
    #[arg(long, value_name = "HZ", allow_hyphen_values = true)]
    irq_rate: Option<f64>,
    /// Where interrupts come from
    #[arg(long, default_value = "timer", value_name = "SOURCE")]
    inject: String,
    /// When tasks are preempted
    #[arg(long, value_enum, default_value_t)]
    preempt: Preempt,
    /// Whose scheduler: cfs-6.1, eevdf-6.12, eevdf-7.3
    #[arg(long, default_value = "eevdf-6.12", value_name = "NAME")]
    scheduler: String,
    /// CPUs of the machine that its times are scaled for [default: 1]
    #[arg(long, value_name = "N")]
    scheduler_cpus: Option<u32>,
    /// Microseconds a task runs while another waits [default: the scheduler's]
    #[arg(long, value_name = "N")]
    slice_us: Option<u64>,
    /// Microseconds between two ticks [default: 4000, 250 Hz]
    #[arg(long, value_name = "N")]
    tick_us: Option<u64>,
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
    /// Measure for about so long, all loads together [default: 48, with
    /// --quick 12; with --interrupts no limit]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    seconds: Option<f64>,
    /// With --inject breakpoint: stop after N interrupts into FPU sections, summed
    /// over all policies except the control (suffixes k, M, G; also 1e9)
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    interrupts: Option<String>,
    /// The methods to reach a cipher against each other
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

/// A count such as 500000, 10M, 1G or 1e9.
fn parse_count(text: &str) -> Result<u64, Error> {
    let (number, scale) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1e3),
        Some((at, 'M')) => (&text[..at], 1e6),
        Some((at, 'G')) => (&text[..at], 1e9),
        _ => (text, 1.0),
    };
    let count = number.parse::<f64>().map(|n| n * scale);
    match count {
        // Beyond that a double has no whole numbers.
        Ok(n) if (1.0..=9e15).contains(&n) && n.fract() == 0.0 => Ok(n as u64),
        _ => Err(Error::input(format!(
            "--interrupts {text}: this takes a whole number from 1 to 9e15, such as 500000, 10M, 1G or 1e9"
        ))),
    }
}

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
        let limits = [
            ("--seconds", self.seconds.is_some()),
            ("--interrupts", self.interrupts.is_some()),
        ];
        let limit = limits.iter().find(|(_, given)| *given).map(|l| l.0);
        if let Some(limit) = limit.filter(|_| step) {
            return Err(Error::input(format!(
                "{limit} does not go with --inject step, which interrupts before every instruction and ends when all are \
                 done: use --inject breakpoint for a campaign"
            )));
        }
        if let Some(limit) = limit.filter(|_| self.usable) {
            return Err(Error::input(format!(
                "{limit} does not go with --usable, which takes no time to speak of: leave it out"
            )));
        }
        if self.interrupts.is_some() && inject != Inject::Breakpoint {
            return Err(Error::input(format!(
                "--interrupts does not go with --inject {}: use --seconds, or --inject breakpoint",
                inject.name()
            )));
        }
        let interrupts = self.interrupts.as_deref().map(parse_count).transpose()?;
        let no_end = interrupts.is_some() && self.seconds.is_none();
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
            Some(name) if !pattern && !own(&contenders).is_empty() => {
                Some(usable_impl(Algorithm::XTS_AES, name)?)
            }
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
            scheduler: fpu::scheduler(&self.scheduler)?,
            scheduler_cpus: self.scheduler_cpus.unwrap_or(1),
            slice_us: self.slice_us,
            tick_us: self.tick_us,
            budget: match super::seconds(self.seconds, 0.1)? {
                Some(asked) => asked,
                None if no_end => Duration::MAX,
                None => usual.budget,
            },
            interrupts,
            ..usual
        };
        Ok(plan)
    }
}

impl FpuArgs {
    /// Loads of packets, if any are asked for.
    fn packets(&self, plan: &mut Plan) -> Result<Option<Settings>, Error> {
        let names: Vec<_> = self.load.iter().filter(|n| EspLoad::is_meant(n)).collect();
        if names.is_empty() {
            let others = [
                ("--packet-rate", !self.packet_rate.is_empty()),
                ("--replay-window", self.replay_window.is_some()),
                ("--stack-ns", self.stack_ns.is_some()),
                ("--own-every", self.own_every.is_some()),
            ];
            let Some((other, _)) = others.iter().find(|(_, given)| *given) else {
                return Ok(None);
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
            rates: self.packet_rate.clone(),
            stack_ns: self.stack_ns.unwrap_or(0),
            own_every: self.own_every,
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
            ("--tick-us", self.tick_us.is_some()),
            ("--scheduler-cpus", self.scheduler_cpus.is_some()),
            ("--scheduler", self.scheduler != "eevdf-6.12"),
            ("--stack-ns", self.stack_ns.is_some()),
            ("--own-every", self.own_every.is_some()),
            ("--hardirq-fpu", self.hardirq_fpu),
            ("--packet-rate", !self.packet_rate.is_empty()),
            ("--replay-window", self.replay_window.is_some()),
            ("--seconds", self.seconds.is_some()),
            ("--interrupts", self.interrupts.is_some()),
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
                Some(name) if !policies.is_empty() => Some(usable_impl(Algorithm::XTS_AES, name)?),
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
    let facts = read_facts();
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
                let rows = match outcome.rows.iter().any(|r| r.inject == "breakpoint") {
                    true => table::fpu::campaign(&outcome.rows),
                    false => table::fpu::tables(&outcome.rows),
                };
                emit_with_replays(
                    &rows,
                    (&outcome.rows, &outcome.notes, &outcome.replays),
                    facts,
                    session,
                )?;
                Ok(ended(outcome.failed, outcome.interrupted))
            }
            Measured::Proof(proof, steps) => prove(proof, *steps, facts, session),
            Measured::Answers(rows) => {
                session.emit("fpu", facts, rows, &[], || table::fpu::answers(rows))?;
                Ok(Exit::Done)
            }
        }
    }
}

fn prove(proof: &Proof, steps: Steps, facts: &Facts, session: &Session) -> Result<Exit, Error> {
    let rows = match steps {
        Steps::All => table::fpu::proof(&proof.rows),
        _ => table::fpu::replay(&proof.rows),
    };
    emit_with_replays(
        &rows,
        (&proof.rows, &proof.notes, &proof.replays),
        facts,
        session,
    )?;
    Ok(ended(proof.failed, proof.interrupted))
}

/// Sends rows out, with the commands that repeat what was lost: as notes, and for people as lines of their own.
fn emit_with_replays<R: Serialize + JsonSchema>(
    text: &str,
    (rows, notes, replays): (&[R], &[String], &[String]),
    facts: &Facts,
    session: &Session,
) -> Result<(), Error> {
    let lines: Vec<String> = replays.iter().map(|r| format!("replay: {r}")).collect();
    let all = [notes, &lines].concat();
    session.emit("fpu", facts, rows, &all, || {
        // A replay line is copied whole, so it is not broken.
        let lines: String = lines.iter().map(|l| format!("{l}\n")).collect();
        format!(
            "{}\n\n{text}\n{lines}{}",
            table::machine(facts),
            table::notes(notes, session.seed)
        )
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_suffixes() {
        for (text, want) in [
            ("1", 1),
            ("500000", 500_000),
            ("1.5k", 1500),
            ("10M", 10_000_000),
            ("1G", 1_000_000_000),
            ("1e9", 1_000_000_000),
        ] {
            assert_eq!(parse_count(text), Ok(want), "{text}");
        }
        for text in ["", "0", "-1", "1.5", "nan", "inf", "1T", "k", "1e16", "é"] {
            assert_eq!(parse_count(text).unwrap_err().exit_code(), 2, "{text}");
        }
    }
}
