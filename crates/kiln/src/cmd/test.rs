//! `kiln test`: is every implementation right?

use std::io::{self, ErrorKind, IsTerminal};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use clap::Args;
use kiln_kernel::cipher::Impl;
use kiln_lab::algorithm::{self, Algorithm};
use kiln_lab::check::ktap::Ktap;
use kiln_lab::check::masks::{self, Event, Outcome};
use kiln_lab::check::{fault, Plan, Suite};
use kiln_lab::Error;

use crate::tree_args::TreeBuildArgs;

/// How much is drawn unless told otherwise: random cases and requests of all implementations under all masks, those in contexts
/// under all policies (by the clock, and at random instructions), and forged messages of each algorithm under each mask.
struct Amount {
    random: u64,
    requests: u64,
    in_contexts: u64,
    interrupted: u64,
    forgeries: u64,
    many: u64,
}

const FULL: Amount = Amount {
    random: 12_000_000,
    requests: 1_200_000,
    in_contexts: 3_000_000,
    interrupted: 1_000_000,
    forgeries: 80,
    many: 3_000,
};
const QUICK: Amount = Amount {
    random: 600_000,
    requests: 40_000,
    in_contexts: 200_000,
    interrupted: 80_000,
    forgeries: 6,
    many: 200,
};

/// Is every implementation right? KTAP on stdout
///
/// For whoever changed a cipher, or wants to trust one: known answers and random cases, in every context in which a
/// kernel calls it. What fails is printed with the command that replays it.
#[derive(Args, Clone, Debug, Default)]
#[command(after_long_help = "\
Each mask of tiers (generic, generic + aesni, ...) is one group of rows for
each algorithm: is the right implementation chosen, then the suites. Every
buffer lies between guard pages and poison, every call goes through a look at
the registers.

Suites (--suite):
  vectors        known answers
  wycheproof     Project Wycheproof's
  keys           every length, good and bad
  lengths        every length of a message
  splits         a message cut in two anywhere, carried on by another tier
  forgeries      every bit of a tag
  requests       to the crypto API, over memory divided anywhere
  refusals       requests of every form, good and bad
  many           messages encrypted side by side, where there is such code
  wiped          keys in memory after free
  random         compared with the plainest implementation
  contexts:POLICY     from a task, with softirqs off, in softirqs and
                      hardirqs, on all cores, while interrupts come by the
                      clock
  interrupted:POLICY  the same, with interrupts before random instructions

Row fields (--json):
  alg, impl, suite, context, tiers, cases, failed, skipped

Exit status:
  1 if a case failed

Environment:
  KILN_TIERS=generic,aesni   as if the CPU had no more

Examples:
  kiln test --quick
  kiln test 'gcm(aes)' ghash --suite forgeries,random
  kiln test 'xts(aes)' --impl xts-aes-aesni --cases 100000
  kiln test sha256 --suite contexts:nested
  kiln test 'ccm(aes)' --seed 7 --suite random --case 4711    one case again
  kiln test --constant-time --quick
  kiln test --tree ~/linux --fuzz 1000    a kernel tree's own testmgr

See also:
  docs/TESTING.md, docs/CONSTANT-TIME.md")]
pub struct TestArgs {
    /// Algorithms, such as 'xts(aes)' [default: all]
    #[arg(value_name = "ALG")]
    pub algs: Vec<String>,
    /// Implementations, by driver name [default: all]
    #[arg(long = "impl", value_name = "LIST", value_delimiter = ',')]
    pub impls: Vec<String>,
    /// Suites [default: all; with --case: random]
    #[arg(long = "suite", value_name = "LIST", value_delimiter = ',')]
    pub suites: Vec<String>,
    /// Replay this case of the suite and --seed, and nothing else
    #[arg(long, value_name = "N", conflicts_with = "cases")]
    pub case: Option<u64>,
    /// Random cases of an algorithm under each mask, and in contexts under each policy [default: about 10
    /// million for all together, half a million with --quick]
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
    let plan = plan(args, context)?;
    let comments = vec![format!("seed {}", context.seed)];
    let absent = |n: &u64| masks::replayed_groups(&plan, *n) == 0;
    if let Some(number) = args.case.filter(absent) {
        return Err(Error::input(format!(
            "--case {number}: there is no such case: name its suite with --suite"
        )));
    }
    fault::bail_out_on_stdout(!context.json);

    let rows = if context.json {
        check(args, &plan, context, &mut |_| ())?
    } else {
        let groups = match args.case {
            Some(number) => masks::replayed_groups(&plan, number),
            None => masks::groups(&plan),
        };
        let mut ktap = Ktap::new(io::stdout().lock(), groups, &comments);
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
        Some(number) => masks::replay(plan, number, tell),
        None => {
            let (done, total) = (AtomicU64::new(0), masks::total(plan));
            let progress = |n| {
                let done = done.fetch_add(n, Ordering::Relaxed) + n;
                (context.progress)(done, total);
            };
            masks::run(plan, context.stop, &progress, tell)
        }
    };
    rows.map_err(|e| match e.kind() {
        ErrorKind::Other => Error::lacks(e.to_string()),
        _ => Error::lacks(format!("cannot map guarded memory: {e}: free some memory")),
    })
}

fn plan(args: &TestArgs, context: &Context<'_>) -> Result<Plan, Error> {
    let amount = if context.quick { QUICK } else { FULL };
    let impls = impls(args)?;
    let suites = match (args.suites.is_empty(), args.case) {
        (false, _) => args
            .suites
            .iter()
            .map(|s| s.parse())
            .collect::<Result<Vec<Suite>, Error>>()?,
        (true, Some(_)) => vec![Suite::Random],
        (true, None) => Suite::OF_MASKS
            .into_iter()
            .chain(Suite::of_policies())
            .collect(),
    };
    // What the implementations get together is shared by all there are, under all masks they run under.
    let masks = masks::masks();
    let runs = |mask: &[_]| impls.iter().filter(|i| mask.contains(&i.tier())).count() as u64;
    let of_masks: u64 = masks.iter().map(|m| runs(m)).sum();
    let policies = Suite::of_policies().len() as u64 / 2;
    let of_policies = masks.last().map_or(0, |m| runs(m)) * policies;
    let share = |all: u64, among: u64| args.cases.unwrap_or(all / among.max(1));
    Ok(Plan {
        seed: context.seed,
        cases: share(amount.random, of_masks),
        requests: share(amount.requests, of_masks),
        in_contexts: share(amount.in_contexts, of_policies),
        interrupted: share(amount.interrupted, of_policies),
        many: amount.many.min(args.cases.unwrap_or(u64::MAX)),
        forgeries: amount.forgeries.min(args.cases.unwrap_or(u64::MAX)),
        longest: !context.quick,
        threads: context.threads,
        impls,
        suites,
    })
}

/// Those asked for, each once. One asked for by name must be able to run; without names, one that cannot is a
/// skipped row.
fn impls(args: &TestArgs) -> Result<Vec<Impl>, Error> {
    let mut algs: Vec<Algorithm> = Vec::new();
    for name in &args.algs {
        let alg = name.parse()?;
        if !algs.contains(&alg) {
            algs.push(alg);
        }
    }
    if algs.is_empty() {
        algs = Algorithm::all();
    }
    if args.impls.is_empty() {
        return Ok(algs.into_iter().flat_map(Algorithm::impls).collect());
    }
    let mut impls: Vec<Impl> = Vec::new();
    for driver in &args.impls {
        let has = |a: &&Algorithm| a.impls().iter().any(|i| i.driver() == driver);
        let Some(alg) = algs.iter().find(has) else {
            let all: Vec<Impl> = algs.iter().flat_map(|a| a.impls()).collect();
            let names: Vec<&str> = all.iter().map(|i| i.driver()).collect();
            return Err(algorithm::unknown("implementation", driver, &names));
        };
        let imp = algorithm::usable_impl(*alg, driver)?;
        if !impls.contains(&imp) {
            impls.push(imp);
        }
    }
    // Implementations of an algorithm are tested side by side.
    let place = |i: &Impl| algs.iter().position(|a| a.name() == i.alg());
    impls.sort_by_key(place);
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
