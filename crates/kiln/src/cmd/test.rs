//! `kiln test`: is every implementation right?

use std::io::{self, ErrorKind, IsTerminal};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use clap::Args;
use kiln_kernel::xts::Impl;
use kiln_lab::algorithm::{self, Algorithm};
use kiln_lab::check::case::Case;
use kiln_lab::check::ktap::Ktap;
use kiln_lab::check::suite::{self, Event, Outcome};
use kiln_lab::check::{fault, Plan};
use kiln_lab::Error;

use crate::tree_args::TreeBuildArgs;

/// Random cases under each mask, unless told otherwise.
const FULL: u64 = 1_000_000;
const QUICK: u64 = 100_000;

/// Is every implementation right? Known answers, refusals, random comparisons with the generic one
#[derive(Args, Clone, Debug, Default)]
#[command(after_help = "\
Each mask of tiers (generic, generic + aesni, ...) is one group of checks:
is the right implementation chosen; the vectors of IEEE 1619; messages too
short must be refused; random cases between guard pages, compared with the
generic implementation. A failure is printed with the command that replays
it; the exit status is then 1. Wycheproof's vectors are checked by
cargo test. Row fields (--json): alg, impl, suite, context, cases, failed,
skipped.

Examples:
  kiln test --quick
  kiln test 'xts(aes)' --impl xts-aes-aesni --cases 10000000
  kiln test --seed 7 --case 4711    one random case again
  kiln test --constant-time --quick        (fields: docs/CONSTANT-TIME.md)
  kiln test --tree ~/linux --fuzz 10000    a kernel tree's own testmgr")]
pub struct TestArgs {
    /// Algorithms, such as 'xts(aes)' [default: all]
    #[arg(value_name = "ALG")]
    pub algs: Vec<String>,
    /// Implementations, by driver name [default: all]
    #[arg(long = "impl", value_name = "LIST", value_delimiter = ',')]
    pub impls: Vec<String>,
    /// Replay this random case of --seed, and nothing else
    #[arg(long, value_name = "N", conflicts_with = "cases")]
    pub case: Option<u64>,
    /// Random cases under each mask of tiers [default: 1000000, 100000 with --quick]
    #[arg(long, value_name = "N")]
    pub cases: Option<u64>,
    /// A Linux source tree: its own self-tests, all of them, while interrupts land in its sections
    #[arg(long, value_name = "DIR")]
    pub tree: Option<PathBuf>,
    /// With --tree: repeat each random test so often [default: the tree's own number, 100]
    #[arg(long, value_name = "N", requires = "tree")]
    pub fuzz: Option<u32>,
    /// Instead: does the time of what has a key depend on key or text?
    #[arg(long, conflicts_with_all = ["case", "cases", "tree"])]
    pub constant_time: bool,
    #[command(flatten)]
    pub build: TreeBuildArgs,
}

/// What the command line says for all commands, and who wants to know how far it is.
pub struct Context<'a> {
    /// From which every case follows.
    pub seed: u64,
    /// Fewer cases.
    pub quick: bool,
    /// Rows are wanted and not KTAP: nothing is written on standard output.
    pub json: bool,
    /// Host threads that share the random cases; the result does not depend on it.
    pub threads: usize,
    /// Set by Ctrl-C.
    pub stop: &'a AtomicBool,
    /// Called with cases done and cases in all, from any thread.
    pub progress: &'a (dyn Fn(u64, u64) + Sync),
}

/// What came out.
#[derive(Clone, Debug, Default)]
pub struct TestRun {
    /// The rows, for `--json` and `--out`.
    pub rows: Vec<Outcome>,
    /// What a reader of them must know: failures with their replay lines, what was skipped.
    pub notes: Vec<String>,
    /// Whether a check failed: exit status 1.
    pub failed: bool,
}

/// Run the checks. KTAP goes to standard output as it comes, unless `json`.
///
/// # Errors
/// An unknown algorithm or implementation, or one that cannot run here; standard output that cannot be written.
pub fn run(args: &TestArgs, context: &Context<'_>) -> Result<TestRun, Error> {
    let plan = Plan {
        impls: impls(args)?,
        seed: context.seed,
        cases: args
            .cases
            .unwrap_or(if context.quick { QUICK } else { FULL }),
        threads: context.threads,
    };
    let mut comments = vec![format!("seed {}", context.seed)];
    comments.extend(args.case.map(|n| Case::draw(context.seed, n).to_string()));
    fault::bail_out_on_stdout(!context.json);

    let rows = if context.json {
        check(args, &plan, context, &mut |_| ())?
    } else {
        let masks = args.case.map_or(suite::masks().len(), |_| 1);
        let mut ktap = Ktap::new(io::stdout().lock(), masks, &comments);
        let rows = check(args, &plan, context, &mut |event| ktap.event(&event))?;
        ktap.finish().or_else(stdout)?;
        rows
    };

    let mut run = TestRun {
        failed: rows.iter().any(|row| row.failed > 0),
        notes: notes(&rows),
        rows,
    };
    if context.stop.load(Ordering::Relaxed) {
        run.notes.push("interrupted: not all was checked".into());
    }
    // KTAP has told it already, but whoever sees the terminal may not see standard output.
    if context.json || !io::stdout().is_terminal() {
        run.notes
            .iter()
            .for_each(|note| eprintln!("kiln test: {note}"));
    }
    Ok(run)
}

fn check(
    args: &TestArgs,
    plan: &Plan,
    context: &Context<'_>,
    tell: &mut dyn FnMut(Event<'_>),
) -> Result<Vec<Outcome>, Error> {
    let rows = match args.case {
        Some(number) => suite::replay(plan, number, tell),
        None => {
            let (done, total) = (AtomicU64::new(0), suite::total(plan));
            let progress = |n| {
                let done = done.fetch_add(n, Ordering::Relaxed) + n;
                (context.progress)(done, total);
            };
            suite::run(plan, context.stop, &progress, tell)
        }
    };
    rows.map_err(|e| Error::lacks(format!("cannot map guarded memory: {e}: free some memory")))
}

/// Those asked for, each once. One asked for by name must be able to run; without names, one that cannot is a
/// skipped row.
fn impls(args: &TestArgs) -> Result<Vec<Impl>, Error> {
    for name in &args.algs {
        let alg: Algorithm = name.parse()?;
        if alg != Algorithm::XTS_AES {
            return Err(Error::input(format!(
                "{alg}: not tested by this command yet: there is {}",
                Algorithm::XTS_AES
            )));
        }
    }
    if args.impls.is_empty() {
        return Ok(Impl::all());
    }
    let mut impls: Vec<Impl> = Vec::new();
    for driver in &args.impls {
        let imp = algorithm::usable_xts(driver)?;
        if impls.iter().all(|i| i.driver() != imp.driver()) {
            impls.push(imp);
        }
    }
    Ok(impls)
}

fn notes(rows: &[Outcome]) -> Vec<String> {
    let mut notes = Vec::new();
    for row in rows {
        if let Some(reason) = &row.reason {
            notes.push(format!("SKIPPED {}: {reason}", row.implementation));
        }
        for failure in &row.failures {
            notes.push(format!(
                "FAILED {}: {}; replay: {}",
                row.name(),
                failure.what,
                failure.replay
            ));
        }
    }
    notes
}

/// A closed pipe is the end and no fault: the exit status still tells how the checks went.
fn stdout(e: io::Error) -> Result<(), Error> {
    match e.kind() {
        ErrorKind::BrokenPipe => Ok(()),
        _ => Err(Error::input(format!(
            "cannot write to stdout: {e}: free some space, or redirect it elsewhere"
        ))),
    }
}
