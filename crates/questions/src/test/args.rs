//! Arguments of `kiln test`.

use std::ffi::OsString;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Args;
use kiln_kernel::cipher::Impl;
use kiln_measure::CoreList;
use kiln_question::algorithm::{usable_impl, Drivers, Names};
use kiln_question::{
    unknown, Algorithm, Error, Exit, Outcome, Progress, Question, RowType, Session, Shard,
    ShardArgs, Share, TreeBuildArgs,
};
use kiln_report::ktap::{Ktap, Verdict};
use kiln_tree::TestRow;

use super::masks::{self, Event, Plan, Row, INTERRUPTS};
use super::{constant_time, fault, tree, Suite};

/// Default numbers of tests. `random` and `requests` are totals over all implementations and masks.
/// `in_contexts` (with timer interrupts) and `interrupted` (with interrupts at random instructions)
/// are totals over all policies. `forgeries` and `many` are numbers per algorithm and mask.
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

/// Is every implementation correct? KTAP on stdout
///
/// Tests Kiln's ciphers and hashes with known answers and random messages, and calls them from
/// tasks, softirqs and hardirqs. Each failure is printed with a command that repeats it. With
/// --tree, the code of a kernel tree is tested instead.
#[derive(Args, Clone, Debug, Default)]
#[command(after_long_help = "\
An ISA tier is an instruction-set level (see kiln list). The tests of an
algorithm are repeated with more and more tiers allowed: generic, then
generic and aesni, and so on. With each set of tiers, Kiln first checks that
the expected implementation has the highest priority, and then runs the
suites. Each buffer is between guard pages. After every call, Kiln checks
that the callee-saved registers and the memory around the buffer are intact.

Suites (--suite):
  vectors        known answers
  wycheproof     the test vectors of Project Wycheproof
  keys           keys of every length; invalid lengths must be refused
  lengths        messages of every length
  splits         messages cut in two; another tier processes the second part
  forgeries      a message with a changed tag, text or nonce must be refused
  requests       crypto API requests with buffers in scatterlist pieces
  refusals       invalid crypto API requests are refused, valid ones accepted
  many           implementations that take several messages per call
  wiped          no key remains in memory after its transform is freed
  random         random messages, compared with the generic implementation
  contexts:POLICY     calls from tasks, softirqs and hardirqs on all cores,
                      while a timer interrupts them; POLICY is an FPU policy
                      (kiln fpu --help lists them)
  interrupted:POLICY  like contexts:POLICY, but on one core, and interrupts
                      occur before random instructions of FPU sections

Oracles (--oracle): rules that every driver of a kernel tree must follow.
By default, all oracles run after the suites, but test only some instances of
each template, such as cbc(aes). --thorough tests all instances. The oracles:
  memory     nothing outside the buffers of a request is read or written
  context    nothing sleeps in atomic context; FPU sections begin only where
             they are allowed
  values     right results for unusual keys, lengths and scatterlists, and
             for counters about to wrap
  sequence   right results if calls follow each other: a second key, the next
             IV, the next part of a message
  leaks      everything that is allocated is freed
  failures   the failure of any allocation is handled
  fill       no result depends on uninitialised memory
  queues     a queued request completes once, in order, with the right result
  sharing    two requests on one transform do not disturb each other
  registers  functions preserve the registers of their callers
  features   code that needs a CPU feature runs only after a check for it
  bounds     FPU sections stay short, even if a message is long

Exit status:
  1 if a case failed, or if an oracle reports a fault that is neither in a
    --known file nor in Kiln's own list of known findings

Environment:
  KILN_TIERS=generic,aesni   use only these ISA tiers; 'kiln list' shows all

Examples:
  kiln test --quick
  kiln test 'gcm(aes)' ghash --suite forgeries,random
  kiln test 'xts(aes)' --impl xts-aes-aesni --cases 100000
  kiln test sha256 --suite contexts:nested
  kiln test 'ccm(aes)' --seed 7 --suite random --case 4711    one case again
  kiln test --constant-time --quick
  kiln test --shard 2/8 --out DIR    part 2 of 8 of the tests (docs/FLEET.md)
  kiln test --tree ~/linux --fuzz 1000    a kernel tree's own tests
  kiln test --tree ~/linux --oracle memory    accesses outside of buffers
  kiln test --tree ~/linux --suite 'sha256.*irq*'    some KUnit cases
  kiln test --tree . --since HEAD~3    what three commits and uncommitted
                                       edits touch
  kiln test --tree HEAD~1    a commit of the git repository here

See also:
  docs/TESTING.md, docs/CONSTANT-TIME.md")]
pub struct TestArgs {
    /// Algorithms, such as 'xts(aes)' [default: all]
    #[arg(value_name = "ALG", value_parser = Names, hide_possible_values = true)]
    algs: Vec<String>,
    /// Test only these implementations, by driver name, such as xts-aes-aesni [default: all]
    #[arg(
        long = "impl",
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = Drivers,
        hide_possible_values = true
    )]
    impls: Vec<String>,
    /// Run only these suites [default: all; with --case, only 'random']. With --tree, name
    /// 'testmgr', 'contexts', 'library', or patterns for KUnit suites and cases, such as sha256 or
    /// 'sha*.test_hash_*'
    #[arg(long = "suite", value_name = "LIST", value_delimiter = ',')]
    suites: Vec<String>,
    /// Replay only case N of --suite; needs the --seed of the run in which it failed
    #[arg(long, value_name = "N", conflicts_with = "cases")]
    case: Option<u64>,
    /// Number of random cases per algorithm. The suites 'random' and 'requests' run N cases for
    /// each set of ISA tiers; the suites 'contexts' and 'interrupted' run N cases for each FPU
    /// policy [default: chosen so that the total is about 17 million, or 0.9 million with --quick]
    #[arg(long, value_name = "N")]
    cases: Option<u64>,
    /// Test this Linux source tree, or a git revision of one, instead of Kiln's code. During the
    /// tree's self-tests, Kiln injects interrupts into the tree's FPU sections
    #[arg(long, value_name = "DIR|REV")]
    tree: Option<PathBuf>,
    /// With --tree: let testmgr run each random test N times [default: 100, as in the kernel]
    #[arg(long, value_name = "N", requires = "tree", value_parser = clap::value_parser!(u32).range(1..))]
    fuzz: Option<u32>,
    /// With --tree: check only these oracles, which are rules for all drivers (docs/TREES.md
    /// explains them). LIST is all, none, or some of memory, context, values, sequence, leaks,
    /// failures, fill, queues, sharing, registers, features, bounds [default: all; if --suite is
    /// given, none]
    ///
    /// If --oracle names oracles, suites run only if --suite names them. With --oracle none, the
    /// suites run without oracles.
    #[arg(
        long = "oracle",
        value_name = "LIST",
        value_delimiter = ',',
        requires = "tree"
    )]
    oracles: Vec<String>,
    /// With --tree: read a list of known findings from this file (format: docs/TREES.md). Known
    /// findings are still printed, but do not make the exit status 1
    #[arg(long, value_name = "FILE", requires = "tree")]
    known: Vec<PathBuf>,
    /// With --tree: let each oracle run more cases, and test every instance of each template
    #[arg(long, requires = "tree")]
    thorough: bool,
    /// With --tree: also run the benchmarks in the KUnit suites
    #[arg(long, requires = "tree")]
    bench: bool,
    /// With --tree: test only what changed since this git revision, including changes that are not
    /// committed
    #[arg(long, value_name = "REV", requires = "tree")]
    since: Option<OsString>,
    /// Instead of running suites, measure whether the run time of keyed algorithms depends on the
    /// key or the message
    #[arg(long, conflicts_with_all = ["case", "cases", "tree", "suites"])]
    constant_time: bool,
    #[command(flatten)]
    shard: ShardArgs,
    #[command(flatten)]
    build: TreeBuildArgs,
}

impl Question for TestArgs {
    const NAME: &'static str = "test";

    fn shard(&self) -> Option<Shard> {
        self.shard.shard
    }

    fn row_types() -> Vec<RowType> {
        vec![
            RowType::at::<Row>(80),
            RowType::at::<TestRow>(81),
            RowType::at::<constant_time::Row>(82),
        ]
    }

    fn run(&self, session: &Session) -> Result<Exit, Error> {
        let whole = self.constant_time || self.case.is_some();
        if self.shard.shard.is_some() && whole {
            return Err(Error::input(
                "--shard divides tests by algorithm, or with --tree by driver and suite: leave it out with --case and --constant-time",
            ));
        }
        if self.case.is_some() && session.global.seed.is_none() {
            return Err(Error::input(
                "--case replays a case of an earlier run: add the --seed that this run printed",
            ));
        }
        if self.constant_time {
            if self.build.given() {
                return Err(Error::input(
                    "--cc and --config are for kernel trees, and --constant-time tests Kiln's own code: leave them out",
                ));
            }
            return constant_time::ask::<Self>(&self.algs, &self.impls, session);
        }
        if let Some(dir) = &self.tree {
            if !self.impls.is_empty() || self.case.is_some() || self.cases.is_some() {
                return Err(Error::input(
                    "--impl, --case and --cases select Kiln's own tests: with --tree use --fuzz N and names of algorithms",
                ));
            }
            if self.thorough && self.oracles == ["none"] {
                return Err(Error::input(
                    "--thorough is about oracles, and --oracle none runs none: leave one of them out",
                ));
            }
            let asked = tree::Asked {
                build: &self.build,
                algs: &self.algs,
                suites: &self.suites,
                fuzz: self.fuzz,
                bench: self.bench,
                oracles: tree::parse_oracles(&self.oracles)?,
                thorough: self.thorough,
                known: &self.known,
                since: self.since.as_deref(),
            };
            return tree::ask::<Self>(&asked, dir, session);
        }
        if self.build.given() {
            return Err(Error::input(
                "--cc and --config are for kernel trees: name one with --tree DIR",
            ));
        }
        let outcome = self.check_all(session)?;
        session.save::<Self, _>(&outcome)?;
        Ok(outcome.exit())
    }
}

impl TestArgs {
    /// Runs the checks on all available cores. KTAP goes to standard output as it is produced,
    /// unless `--json` or `--quiet` is given.
    ///
    /// # Errors
    /// Fails if an algorithm or implementation is unknown or cannot run here, or if standard output
    /// cannot be written.
    fn check_all(&self, session: &Session) -> Result<Outcome<Row>, Error> {
        // With --json or --quiet, do not write KTAP to standard output.
        let json = session.global.json || session.global.quiet;
        let plan = self.plan(session)?;
        // Check the suites against the whole plan, because a single shard may contain none of their
        // tests.
        self.check_suites(&plan)?;
        let plan = select(plan, &session.share);
        let absent = |n: &u64| masks::replayed_groups(&plan, *n) == 0;
        if let Some(number) = self.case.filter(absent) {
            return Err(Error::input(format!(
                "--case {number}: there is no such case: name its suite with --suite"
            )));
        }
        fault::bail_out_on_stdout(!json);
        // KTAP lines and a progress bar on one terminal would overwrite each other.
        let progress = match session.tty && !json {
            true => Progress::none(),
            false => Progress::start(),
        };
        let rows = if json {
            self.check(&plan, session, &progress, &mut |_| ())?
        } else {
            let groups = match self.case {
                Some(number) => masks::replayed_groups(&plan, number),
                None => masks::groups(&plan),
            };
            let mut comments = vec![format!("seed {}", session.seed)];
            if let Some(number) = self.case {
                let names: Vec<String> = plan.suites.iter().map(|s| s.name()).collect();
                comments.push(format!("case {number} of {}", names.join(", ")));
            }
            let mut ktap = Ktap::new(io::stdout().lock(), groups, &comments);
            let rows = self.check(&plan, session, &progress, &mut |event| {
                write(&mut ktap, &event)
            })?;
            // A closed pipe is not an error; the exit status still reflects the results of the
            // checks.
            kiln_question::check(ktap.finish())?;
            rows
        };
        drop(progress);
        let mut rows = rows;
        if let Some(shard) = self.shard.shard {
            // Every shard has its own row for messages that are processed in interrupts. Add the
            // shard's name to distinguish these rows.
            let own = rows
                .iter_mut()
                .filter(|row| row.implementation == INTERRUPTS);
            own.for_each(|row| row.implementation = format!("{INTERRUPTS} {shard}"));
        }
        let mut outcome = Outcome {
            failed: rows.iter().any(|row| row.failed > 0),
            interrupted: session.stopped(),
            notes: notes(&rows),
            rows,
        };
        if outcome.interrupted {
            let note = "interrupted: not all was checked";
            outcome.notes.push(note.into());
        }
        // KTAP already contains these notes, but the user does not see KTAP if standard output is
        // redirected.
        if json || !io::stdout().is_terminal() {
            for note in &outcome.notes {
                eprintln!("kiln test: {note}");
            }
        }
        Ok(outcome)
    }

    /// Checks that the named suites have something to test.
    fn check_suites(&self, plan: &Plan) -> Result<(), Error> {
        let cases = |suites: Vec<Suite>| {
            let plan = Plan {
                suites,
                ..plan.clone()
            };
            masks::total(&plan)
        };
        // `--cases 0` only checks the selection of implementations, so the suites may be empty.
        if self.suites.is_empty() || self.cases == Some(0) || cases(plan.suites.clone()) > 0 {
            return Ok(());
        }
        let all = Suite::OF_MASKS.into_iter().chain(Suite::of_policies());
        let fit = all.filter(|suite| cases(vec![*suite]) > 0);
        let fit: Vec<String> = fit.map(Suite::name).collect();
        let mut algs: Vec<&str> = plan.impls.iter().map(|i| i.alg()).collect();
        algs.dedup();
        Err(Error::input(format!(
            "--suite {}: has no test for {}: use {}",
            self.suites.join(","),
            algs.join(", "),
            fit.join(", ")
        )))
    }

    fn check(
        &self,
        plan: &Plan,
        session: &Session,
        progress: &Progress,
        tell: &mut dyn FnMut(Event<'_>),
    ) -> Result<Vec<Row>, Error> {
        let rows = match self.case {
            Some(number) => masks::replay(plan, number, tell),
            None => {
                let (done, total) = (AtomicU64::new(0), masks::total(plan));
                let report = |n| {
                    let done = done.fetch_add(n, Ordering::Relaxed) + n;
                    progress.report(done as f64 / total.max(1) as f64, "test");
                };
                masks::run(plan, &session.stop, &report, tell)
            }
        };
        rows.map_err(|e| match e.kind() {
            ErrorKind::Other => Error::lacks(e.to_string()),
            _ => Error::lacks(format!("cannot map guarded memory: {e}: free some memory")),
        })
    }

    fn plan(&self, session: &Session) -> Result<Plan, Error> {
        let quick = session.global.quick;
        let amount = if quick { QUICK } else { FULL };
        let impls = self.impls()?;
        let suites = match (self.suites.is_empty(), self.case) {
            (false, _) => self
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
        // Divide the total number of cases among all pairs of an implementation and a mask that
        // allows the implementation.
        let masks = kiln_kernel::Tier::masks();
        let runs = |mask: &[_]| impls.iter().filter(|i| mask.contains(&i.tier())).count() as u64;
        let of_masks: u64 = masks.iter().map(|m| runs(m)).sum();
        let policies = Suite::of_policies().len() as u64 / 2;
        let of_policies = masks.last().map_or(0, |m| runs(m)) * policies;
        let share = |all: u64, among: u64| self.cases.unwrap_or(all / among.max(1));
        Ok(Plan {
            seed: session.seed,
            cases: share(amount.random, of_masks),
            requests: share(amount.requests, of_masks),
            in_contexts: share(amount.in_contexts, of_policies),
            interrupted: share(amount.interrupted, of_policies),
            many: amount.many.min(self.cases.unwrap_or(u64::MAX)),
            forgeries: amount.forgeries.min(self.cases.unwrap_or(u64::MAX)),
            longest: !quick,
            // The threads share the random cases. The number of threads does not affect the result.
            threads: CoreList::allowed().map_or(1, |list| list.cores().len()),
            impls,
            suites,
        })
    }

    /// Returns the requested implementations without duplicates. Fails if a named implementation
    /// cannot run here. If none is named, an implementation that cannot run here becomes a skipped
    /// row.
    fn impls(&self) -> Result<Vec<Impl>, Error> {
        let mut algs: Vec<Algorithm> = Vec::new();
        for name in &self.algs {
            let alg = name.parse()?;
            if !algs.contains(&alg) {
                algs.push(alg);
            }
        }
        if algs.is_empty() {
            algs = Algorithm::all();
        }
        if self.impls.is_empty() {
            return Ok(algs.into_iter().flat_map(Algorithm::impls).collect());
        }
        let mut impls: Vec<Impl> = Vec::new();
        for driver in &self.impls {
            let has = |a: &&Algorithm| a.impls().iter().any(|i| i.driver() == driver);
            let Some(alg) = algs.iter().find(has) else {
                let all: Vec<Impl> = algs.iter().flat_map(|a| a.impls()).collect();
                let names: Vec<&str> = all.iter().map(|i| i.driver()).collect();
                return Err(unknown("implementation", driver, &names));
            };
            let imp = usable_impl(*alg, driver)?;
            if !impls.contains(&imp) {
                impls.push(imp);
            }
        }
        // Sort by algorithm, because implementations of one algorithm are tested together.
        let place = |i: &Impl| algs.iter().position(|a| a.name() == i.alg());
        impls.sort_by_key(place);
        Ok(impls)
    }
}

/// Reduces the plan to this shard's algorithms. The numbers of cases do not change.
fn select(mut plan: Plan, share: &Share) -> Plan {
    let mut algs: Vec<&'static str> = plan.impls.iter().map(|i| i.alg()).collect();
    algs.dedup();
    let own = share.select(algs, |alg| alg.to_string());
    plan.impls.retain(|i| own.contains(&i.alg()));
    plan
}

fn notes(rows: &[Row]) -> Vec<String> {
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

/// Writes an event to KTAP. Groups become tests, and the rows of a group become subtests.
fn write(ktap: &mut Ktap<impl Write>, event: &Event<'_>) {
    match event {
        Event::Group { name, rows } => ktap.begin(name, *rows),
        Event::Row(row) => {
            if let Some(reason) = &row.reason {
                return ktap.result(&row.name(), Verdict::Skip(reason.clone()));
            }
            for failure in &row.failures {
                ktap.comment(&failure.what);
                ktap.comment(&format!("replay: {}", failure.replay));
            }
            ktap.comment(&format!("{} cases, {} failed", row.cases, row.failed));
            let failed = row.failed > 0;
            ktap.result(
                &row.name(),
                if failed { Verdict::NotOk } else { Verdict::Ok },
            );
        }
        Event::End => ktap.end(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::tally::Failure;

    #[test]
    fn a_failure_and_a_skip() {
        let row = |implementation: &str, failed: u64, reason: Option<&str>| Row {
            alg: "xts(aes)".into(),
            implementation: implementation.into(),
            suite: "random".into(),
            context: "task".into(),
            tiers: "generic".into(),
            cases: 7,
            failed,
            skipped: reason.is_some().into(),
            reason: reason.map(str::to_string),
            failures: (0..failed)
                .map(|_| Failure {
                    what: "output: byte 3".into(),
                    replay: "kiln test --case 5".into(),
                })
                .collect(),
        };
        let mut text = Vec::new();
        let mut ktap = Ktap::new(&mut text, 1, &["seed 3".into()]);
        let name = "xts(aes) generic";
        write(&mut ktap, &Event::Group { name, rows: 3 });
        write(&mut ktap, &Event::Row(&row("a", 0, None)));
        write(&mut ktap, &Event::Row(&row("b", 1, None)));
        let skipped = row("c", 0, Some("this CPU lacks VAES"));
        write(&mut ktap, &Event::Row(&skipped));
        write(&mut ktap, &Event::End);
        ktap.finish().unwrap();
        let want = "\
KTAP version 1
# seed 3
1..1
    KTAP version 1
    # Subtest: xts(aes) generic
    1..3
    # 7 cases, 0 failed
    ok 1 a random
    # output: byte 3
    # replay: kiln test --case 5
    # 7 cases, 1 failed
    not ok 2 b random
    ok 3 c random # SKIP this CPU lacks VAES
not ok 1 xts(aes) generic
";
        assert_eq!(String::from_utf8(text).unwrap(), want);
    }
}
