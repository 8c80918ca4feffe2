//! `kiln speed`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use kiln_lab::lens::Lens;
use kiln_lab::peer::Wanted;
use kiln_lab::record::Facts;
use kiln_lab::speed::{self, Level, Op, Outcome, Plan};
use kiln_lab::Error;
use kiln_tree::child::Order;
use kiln_tree::tcrypt::Request;

use super::hosted::{self, Hosted};
use super::tcrypt;

use crate::progress::Progress;
use crate::session::{Exit, Session};
use crate::table;
use crate::tree_args::TreeBuildArgs;

/// Cycles a byte by implementation, key size and length; all are measured in turn, each figure has an interval.
#[derive(Args)]
#[command(after_help = "\
Every implementation's results are checked against the generic one's
before and after timing; one that errs has no figure, and the exit status
is 1. Row fields: alg, impl, provider, tier, level, op, key_bits, len,
latency, cycles_per_op, cycles_per_byte, mb_per_s, ci_low, ci_high (of
cycles_per_op), limit_cycles; with --latency chain_cycles; with --baseline
ratio, ratio_low, ratio_high, verdict.

Environment:
  KILN_TIERS=generic,aesni   restricts the tiers
  KILN_OPENSSL=FILE          the libcrypto to use

Examples:
  kiln speed
  kiln speed 'xts(aes)' --op encrypt,decrypt --key-bits 128,256 --len 512
  kiln speed --len 16..4112 --impl xts-aes-aesni    every length; finds the largest step
  kiln speed --baseline openssl --json > speed.json
  kiln speed 'gcm(aes)' --tree ~/linux     a kernel tree's own beside them
  kiln speed --len 16 --latency    each call waits for the one before")]
pub struct SpeedArgs {
    /// Algorithms, by the kernel's names [default: all]
    #[arg(value_name = "ALG")]
    algs: Vec<String>,
    /// Operations: encrypt, decrypt, digest [default: encrypt, of hashes digest; all if no ALG is named]
    #[arg(long, value_delimiter = ',', value_name = "OP,…")]
    op: Vec<String>,
    /// Lengths in bytes: 16,64 or 16..4112 or 16..4112/16 [default: 16,64,256,512,1024,1420,4096,16384]
    #[arg(long, value_name = "LIST")]
    len: Option<String>,
    /// Bits of the cipher's key (XTS takes two): 128, 192, 256 [default: 256]
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    key_bits: Vec<u32>,
    /// Implementations, by driver names [default: all that run here]
    #[arg(long = "impl", value_delimiter = ',', value_name = "NAME,…")]
    impls: Vec<String>,
    /// Other libraries: auto, none, or names (openssl)
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "auto",
        value_name = "NAME,…"
    )]
    peers: Vec<String>,
    /// A Linux source tree, built and hosted: its implementations become rows
    #[arg(long, value_name = "DIR")]
    tree: Option<PathBuf>,
    /// Run the tree's own tcrypt with this mode and print what it prints
    #[arg(long, value_name = "MODE", requires = "tree", conflicts_with_all = ["algs", "impls", "len", "baseline"])]
    tcrypt: Option<u32>,
    /// With --tcrypt: seconds for each test; 0 counts cycles of a few operations
    #[arg(long, value_name = "N", default_value_t = 0)]
    sec: u32,
    #[command(flatten)]
    build: TreeBuildArgs,
    /// Compare all with this implementation or provider
    #[arg(long, value_name = "IMPL|PROVIDER")]
    baseline: Option<String>,
    /// The function itself, or a request through a tree's crypto API [default: both]
    #[arg(long, value_name = "LEVEL")]
    level: Option<Level>,
    /// Where buffers lie: as a user stores them, or as tcrypt does (tcrypt: not in this build yet)
    #[arg(long, value_enum, default_value_t)]
    layout: Layout,
    /// Dependent calls: each IV is the last result's first block
    #[arg(long)]
    latency: bool,
    /// One of the turns of 'kiln compare', for so many milliseconds
    #[arg(long, hide = true, value_name = "MS")]
    turn_ms: Option<u64>,
    /// One line a row instead of the table
    #[arg(long)]
    rows: bool,
}

#[derive(Clone, Copy, Default, PartialEq, ValueEnum)]
enum Layout {
    #[default]
    Plain,
    Tcrypt,
}

impl SpeedArgs {
    fn plan(&self, session: &Session) -> Result<Plan, Error> {
        if self.level == Some(Level::Api) && self.tree.is_none() {
            return Err(Error::input(
                "--level api: Kiln's own crypto API is not in this build yet: use --level primitive, or --tree DIR",
            ));
        }
        if self.layout == Layout::Tcrypt {
            return Err(Error::input(
                "--layout tcrypt: not in this build yet: use --layout plain",
            ));
        }
        let ops = self.op.iter().map(|name| Op::parse(name));
        let plan = Plan {
            ops: ops.collect::<Result<_, _>>()?,
            algs: self.algs.clone(),
            impls: self.impls.clone(),
            lens: self
                .len
                .as_deref()
                .map_or(Ok(Lens::default()), str::parse)?,
            key_bits: self.key_bits.clone(),
            latency: self.latency,
            peers: Wanted::parse(&self.peers)?,
            baseline: self.baseline.clone(),
            level: self.level,
            turn: self.turn_ms.map(Duration::from_millis),
            quick: session.global.quick,
            ..Plan::new(session.seed)
        };
        match self.tree {
            // What a tree has is known when it runs.
            Some(_) => Ok(plan),
            None => plan.checked(),
        }
    }
}

/// Runs it.
pub fn run(args: &SpeedArgs, session: &Session) -> Result<Exit, Error> {
    if let (Some(mode), Some(dir)) = (args.tcrypt, &args.tree) {
        let seconds = args.sec;
        return tcrypt::run(Request { mode, seconds }, dir, &args.build, session);
    }
    if args.tree.is_none() && args.build.given() {
        return Err(Error::input(
            "--cc and --config build a tree: name it with --tree DIR",
        ));
    }
    let plan = args.plan(session)?;
    if let Some(dir) = &args.tree {
        return match &session.child {
            Some(order) => in_child(plan, order, session),
            None => of_tree(args, dir, session),
        };
    }
    session.settle();
    let facts = Facts::read();
    let outcome = measure(plan, &facts, session)?;
    session.emit("speed", &facts, &outcome.rows, &outcome.notes, || {
        let tables = if args.rows {
            table::speed::rows(&outcome.rows)
        } else {
            table::speed::tables(&outcome.rows, session.tty)
        };
        let notes = table::notes(&outcome.notes, session.seed);
        format!("{}\n\n{tables}\n{notes}", table::machine(&facts))
    })?;
    Ok(exit(&outcome))
}

/// The parent's part: builds the tree, has a child measure, prints.
fn of_tree(args: &SpeedArgs, dir: &Path, session: &Session) -> Result<Exit, Error> {
    let hosted = match Hosted::build(dir, &args.build, session)? {
        Some(hosted) => hosted,
        None => return Ok(Exit::Interrupted),
    };
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let measured = match hosted.speed(&arguments, session)? {
        Ok(measured) => measured,
        Err(exit) => return Ok(exit),
    };
    let facts = Facts::read();
    session.emit("speed", &facts, &measured.rows, &measured.notes, || {
        let tables = if args.rows {
            table::speed::rows(&measured.rows)
        } else {
            table::speed::tables(&measured.rows, session.tty)
        };
        let notes = table::notes(&measured.notes, session.seed);
        let title = table::paragraph(&hosted.title);
        format!("{}\n{title}\n\n{tables}\n{notes}", table::machine(&facts))
    })?;
    Ok(measured.exit)
}

/// The child's part: all are measured beside each other, where the tree is.
fn in_child(plan: Plan, order: &Order, session: &Session) -> Result<Exit, Error> {
    session.settle();
    let facts = Facts::read();
    let tree = hosted::boot(order, &plan.algs)?;
    let progress = Progress::start();
    let outcome = speed::run_with(
        plan,
        &[&tree],
        facts.machine.core_hz,
        &session.stop,
        &mut |done, what| progress.report(done, what),
    )?;
    drop(progress);
    session.emit("speed", &facts, &outcome.rows, &outcome.notes, String::new)?;
    Ok(exit(&outcome))
}

/// Measures with a bar.
pub fn measure(plan: Plan, facts: &Facts, session: &Session) -> Result<Outcome, Error> {
    let progress = Progress::start();
    speed::run(
        plan,
        facts.machine.core_hz,
        &session.stop,
        &mut |done, what| {
            progress.report(done, what);
        },
    )
}

/// How it ended.
pub fn exit(outcome: &Outcome) -> Exit {
    if outcome.failed {
        Exit::Failed
    } else if outcome.interrupted {
        Exit::Interrupted
    } else {
        Exit::Done
    }
}
