//! `kiln test --tree`: runs the tree's own self-tests and prints KTAP.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use kiln_kernel::Tier;
use kiln_question::{unknown, Error, Exit, Outcome, Progress, Question, Session, TreeBuildArgs};
use kiln_report::ktap::{Ktap, Verdict};
use kiln_tree::child::Label;
use kiln_tree::contexts;
use kiln_tree::event::Contexts;
use kiln_tree::kunit::{self, Ran};
use kiln_tree::library;
use kiln_tree::oracle::{self, Found, Oracle};
use kiln_tree::{Change, Known, Plan, TestRow, Touched, Version};

use crate::speed::check_library;

/// The parsed arguments of `kiln test --tree`.
pub(super) struct Asked<'a> {
    pub build: &'a TreeBuildArgs,
    /// Algorithm names. If empty, all algorithms are tested.
    pub algs: &'a [String],
    /// `testmgr`, `contexts`, `library`, and patterns that select KUnit suites. If empty,
    /// everything is tested.
    pub suites: &'a [String],
    /// Number of repetitions of random tests; `None` for the tree's default.
    pub fuzz: Option<u32>,
    /// Whether to also run KUnit benchmarks.
    pub bench: bool,
    /// The oracles to run. If `None`, all oracles are run unless suites are named, in which case
    /// none is run.
    pub oracles: Option<Vec<Oracle>>,
    /// Whether to run more cases under each oracle.
    pub thorough: bool,
    /// Files that contain known findings.
    pub known: &'a [PathBuf],
    /// Git revision. If given, only the parts affected by the tree's changes since this revision
    /// are tested.
    pub since: Option<&'a OsStr>,
}

/// Parses the names of oracles, including `all` and `none`.
pub(super) fn parse_oracles(names: &[String]) -> Result<Option<Vec<Oracle>>, Error> {
    let known = oracle::ALL.map(|o| o.name);
    let parse = |name: &String| oracle::find(name).ok_or_else(|| unknown("oracle", name, &known));
    match names {
        [] => Ok(None),
        [name] if name == "none" => Ok(Some(Vec::new())),
        _ if names.iter().any(|name| name == "none") => Err(Error::input(
            "--oracle none excludes every oracle: leave 'none' or the others out",
        )),
        _ if names.iter().any(|name| name == "all") => Ok(Some(oracle::ALL.to_vec())),
        _ => names.iter().map(parse).collect::<Result<_, _>>().map(Some),
    }
}

/// Collects the known findings for a kernel version, from the compiled-in list and from files.
fn known_findings(files: &[PathBuf], version: &Version) -> Result<Known, Error> {
    let mut known = Known::built_in(version);
    for file in files {
        let name = file.display().to_string();
        let text = fs::read_to_string(file);
        let text = text.map_err(|e| Error::input(format!("--known {name}: {e}")))?;
        known.read(&text, &name, version).map_err(Error::input)?;
    }
    let oracles = oracle::ALL.map(|o| o.name);
    match known.of_no_oracle(&oracles) {
        None => Ok(known),
        Some((place, name)) => {
            let all = oracles.join(", ");
            let why = format!("{place}: unknown oracle '{name}': choose from {all}");
            Err(Error::input(why))
        }
    }
}

/// Builds the tree in this directory, tests it and prints KTAP. In a child process, only carries
/// out the parent's order (`session.child`).
pub(super) fn ask<Q: Question>(args: &Asked, dir: &Path, session: &Session) -> Result<Exit, Error> {
    if let Some(order) = &session.child {
        match (&order.kunit, &order.oracle) {
            (Some(wanted), _) => kunit::measure(order, wanted),
            (None, Some(wanted)) => oracle::measure(order, wanted),
            _ if order.library => return check_library(order).map(|()| Exit::Done),
            _ if order.tests => kiln_tree::interrupted(order, args.fuzz),
            _ => contexts::measure(order),
        }?;
        return Ok(Exit::Done);
    }
    let kinds = Kinds::new(args);
    let (source, compiler, config) = args.build.resolve(dir)?;
    let version = source.version.to_string();
    let known = known_findings(args.known, &source.version)?;
    let title = format!("{}, built by {compiler}", source.title());
    let progress = Progress::start();
    let plan = Plan {
        source,
        compiler,
        config,
        seed: session.seed,
        stop: &session.stop,
        progress: &|done, what| progress.report(done, what),
    };
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    // Check the revision before the build, so that an error is reported immediately.
    let change = args.since.map(|since| Change::find(&plan.source, since));
    let change = change.transpose()?;
    let built = match &kinds.kunit {
        Some(patterns) if kinds.only_suites() && args.since.is_none() => {
            kiln_tree::build_for_suites(&plan, patterns)?
        }
        _ => kiln_tree::build(&plan)?,
    };
    let touched = change.map(|change| built.touched_by(&change)).transpose()?;
    let touches = |of: fn(&Touched, &str) -> bool, name: &str| {
        touched.as_ref().is_none_or(|touched| of(touched, name))
    };
    let takes_driver = |name: &str| session.share.takes(&format!("driver {name}"));
    let of_drivers = kinds.testmgr || kinds.contexts;
    // Only the suites `testmgr` and `contexts` need the drivers.
    let outcome = match of_drivers && touched.as_ref().is_none_or(Touched::has_drivers) {
        true => kiln_tree::test(&plan, built, &arguments, args.fuzz)?,
        false => built.untested(),
    };
    let named = |alg: &str| args.algs.is_empty() || args.algs.iter().any(|a| a == alg);
    let mut drivers = contexts::drivers(&outcome.rows);
    drivers.retain(|driver| {
        kinds.contexts
            && named(&driver.alg)
            && touches(Touched::has_driver, &driver.name)
            && takes_driver(&driver.name)
    });
    let tried = contexts::run(
        &outcome.image,
        session.seed,
        &arguments,
        drivers,
        &session.stop,
        &|done, what| progress.report(done, what),
    );
    let tried = tried?;
    let label = Label {
        version,
        config: outcome.config.clone(),
        ..Label::default()
    };
    // With --since, run the library tests only if they were requested, because the affected KUnit
    // suites test the library's functions, too.
    let asked_for = args.suites.iter().any(|s| s == "library");
    let with_library = kinds.library && (touched.is_none() || asked_for);
    // If no driver implements any of the named algorithms, each name is either misspelt or the name
    // of a library function. In that case, every shard tests the library, because a shard that does
    // not test it cannot detect misspelt names.
    let is_driver = |row: &kiln_tree::Row| named(row.alg.as_deref().unwrap_or(""));
    let divided = args.algs.is_empty() || asked_for || outcome.rows.iter().any(is_driver);
    let checked = match with_library && (!divided || session.share.takes("library")) {
        true => library::run(
            &outcome.image,
            session.seed,
            &label,
            &arguments,
            &session.stop,
        )?,
        false => Vec::new(),
    };
    let ran = match &kinds.kunit {
        Some(patterns) => kunit::run(
            &outcome.image,
            session.seed,
            &arguments,
            &kunit::Wanted {
                patterns: patterns.clone(),
                bench: args.bench,
                prove: None,
                masks: Tier::tree_masks(),
            },
            &|mut suites| {
                suites.retain(|suite| {
                    touches(Touched::has_suite, suite)
                        && session.share.takes(&format!("suite {suite}"))
                });
                suites
            },
            &session.stop,
            &|done, what| progress.report(done, what),
        )?,
        None => Vec::new(),
    };
    let untouched = touched
        .as_ref()
        .is_some_and(|touched| !touched.has_drivers());
    let found = match kinds.oracles.is_empty() || untouched {
        true => Found::default(),
        false => oracle::run(&oracle::Wanted {
            image: &outcome.image,
            seed: session.seed,
            args: &arguments,
            oracles: &kinds.oracles,
            thorough: args.thorough,
            quick: args.oracles.is_none() && !args.thorough && args.algs.is_empty(),
            known: &known,
            chosen: &|subject| {
                let asked = |name: &String| [&subject.alg, &subject.driver].contains(&name);
                (args.algs.is_empty() || args.algs.iter().any(asked))
                    && touches(Touched::has_driver, &subject.driver)
                    && takes_driver(&subject.driver)
            },
            stop: &session.stop,
            progress: &|done, what| progress.report(done, what),
        })?,
    };
    drop(progress);
    let mut rows: Vec<TestRow> = (outcome.rows.into_iter())
        .filter(|row| match row.kind {
            "algorithm" => {
                kinds.testmgr
                    && named(row.alg.as_deref().unwrap_or(""))
                    && touches(Touched::has_driver, &row.name)
                    && takes_driver(&row.name)
            }
            _ => row.status == "failed",
        })
        .map(TestRow::new)
        .collect();
    for tried in &tried {
        rows.extend(TestRow::contexts(tried, &outcome.config));
    }
    let of_library = checked.iter().filter(|c| named(&c.alg) || c.alg.is_empty());
    rows.extend(of_library.map(|c| TestRow::library(c, &outcome.config)));
    for ran in &ran {
        rows.extend(TestRow::kunit(ran, &outcome.config));
    }
    let replay = |finding: &oracle::Finding| {
        format!(
            "{}kiln test --tree {} --oracle {} --seed {} '{}'",
            Tier::prefix(),
            dir.display(),
            finding.oracle,
            session.seed,
            finding.driver
        )
    };
    let of_oracles = found.ran.iter();
    rows.extend(of_oracles.map(|ran| TestRow::oracle(ran, &found, &outcome.config, &replay)));
    // A run without rows fails if a name is misspelt. It passes if the changes do not affect any
    // test or if the shard is empty.
    if rows.is_empty() && touched.is_none() && session.share.is_empty() {
        let asked: Vec<&str> = args
            .algs
            .iter()
            .chain(args.suites)
            .map(String::as_str)
            .collect();
        return Err(Error::input(format!(
            "{1} (Linux {2}) has no test of {0}: 'kiln tree {1}' lists its algorithms, and 'kiln test ALG --tree {1}' tests one; lib/crypto has KUnit suites from Linux 6.17 on",
            asked.join(", "),
            dir.display(),
            label.version
        )));
    }
    let mut notes = Vec::new();
    notes.extend(touched.map(|touched| touched.note));
    notes.extend(outcome.notes);
    notes.push(format!("configuration: {}", outcome.config));
    notes.push(format!("built in {}", outcome.cache.display()));
    let failed = rows.iter().any(|row| row.failed > 0);
    notes.extend(kunit_note(&ran));
    notes.extend(oracle_notes(&found, args.algs, args.thorough));
    let softirqs = |what: fn(&Contexts) -> u64| -> u64 {
        tried
            .iter()
            .filter_map(|(_, r)| r.as_ref().ok())
            .map(what)
            .sum()
    };
    let contexts = format!(
        "contexts: {} answers compared, {} of them of softirqs; {} requests of softirqs had no room",
        softirqs(|c| c.cases.iter().sum()),
        softirqs(|c| c.cases[2]),
        softirqs(|c| c.refused)
    );
    notes.extend((!tried.is_empty()).then_some(contexts));
    let outcome = Outcome {
        rows,
        notes,
        failed,
        ..Outcome::default()
    };
    session.save::<Q, _>(&outcome)?;
    if !session.global.json && !session.global.quiet {
        let out = io::stdout().lock();
        kiln_question::check(ktap(
            &title,
            session.seed,
            &outcome.rows,
            &outcome.notes,
            out,
        ))?;
    }
    Ok(outcome.exit())
}

/// The requested kinds of tests.
struct Kinds {
    testmgr: bool,
    contexts: bool,
    library: bool,
    /// Patterns that select KUnit suites.
    kunit: Option<Vec<String>>,
    oracles: Vec<Oracle>,
}

impl Kinds {
    fn new(args: &Asked) -> Kinds {
        let (named, suites): (Vec<&String>, Vec<&String>) = args
            .suites
            .iter()
            .partition(|s| ["testmgr", "contexts", "library"].contains(&s.as_str()));
        // If oracles are named and suites are not, run only the oracles.
        let only_oracles = args.oracles.as_ref().is_some_and(|o| !o.is_empty());
        let all = args.suites.is_empty() && !only_oracles;
        let usual = || match all {
            true => oracle::ALL.to_vec(),
            false => Vec::new(),
        };
        let is = |kind: &str| all || named.iter().any(|n| *n == kind);
        // Algorithm names also serve as patterns that select KUnit suites.
        let patterns = suites
            .into_iter()
            .chain(args.algs)
            .cloned()
            .collect::<Vec<_>>();
        Kinds {
            testmgr: is("testmgr"),
            contexts: is("contexts"),
            library: is("library"),
            kunit: (args.suites.len() > named.len() || all).then_some(patterns),
            oracles: args.oracles.clone().unwrap_or_else(usual),
        }
    }

    /// Returns whether only KUnit suites will run.
    fn only_suites(&self) -> bool {
        let others = self.testmgr || self.contexts || self.library;
        self.kunit.is_some() && !others && self.oracles.is_empty()
    }
}

/// Formats notes about what the oracles did, and about the templates and drivers that they could
/// not examine. The notes explain why these were not examined if they belong to one of the
/// algorithms `algs`, or if `algs` is empty and `thorough` is set.
fn oracle_notes(found: &Found, algs: &[String], thorough: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if found.subjects == 0 {
        return notes;
    }
    let cases: u64 = found.ran.iter().map(|r| r.cases).sum();
    let known = found.findings.iter().filter(|f| f.known.is_some()).count();
    notes.push(format!(
        "oracles: {} drivers, {cases} cases, {} findings, {known} of them known",
        found.subjects,
        found.findings.len()
    ));
    if found.left_out > 0 {
        notes.push(format!(
            "of these drivers {} were left out, instances of templates: three of each family were examined; --thorough examines all",
            found.left_out
        ));
    }
    let unseen = found.unseen.iter();
    notes.extend(unseen.map(|entry| format!("a known finding was not seen, {entry}")));
    let concerns = |name: &str| algs.iter().any(|alg| is_made_of(alg, name));
    let asked: Vec<&(String, String)> = match algs.is_empty() {
        true => found.unreached.iter().filter(|_| thorough).collect(),
        false => (found.unreached.iter().filter(|(name, _)| concerns(name))).collect(),
    };
    if algs.is_empty() && !thorough && !found.unreached.is_empty() {
        notes.push(format!(
            "oracles cannot examine {} templates and drivers, such as ciphers of single blocks; --thorough lists them",
            found.unreached.len()
        ));
    }
    let mut why: Vec<&str> = asked.iter().map(|(_, why)| why.as_str()).collect();
    why.sort_unstable();
    why.dedup();
    for why in why {
        let of = asked.iter().filter(|(_, other)| other == why);
        let names: Vec<&str> = of.map(|(name, _)| name.as_str()).collect();
        notes.push(format!(
            "oracles do not examine {}: {why}",
            names.join(", ")
        ));
    }
    notes
}

/// Returns whether `name` is `alg` itself, a driver named after it (`alg` followed by `-`), or one
/// of the names that `alg` is composed of, such as `gcm` in `gcm(aes)`.
fn is_made_of(alg: &str, name: &str) -> bool {
    let implements = name
        .strip_prefix(alg)
        .is_some_and(|rest| rest.starts_with('-'));
    alg == name || implements || alg.split(['(', ',']).any(|word| word == name)
}

/// Formats a note that states the number of KUnit cases.
fn kunit_note(ran: &[Ran]) -> Option<String> {
    let cases = || ran.iter().flat_map(|r| &r.cases);
    let skipped = cases()
        .filter(|c| matches!(c.verdict, kunit::Verdict::Skipped(_)))
        .count();
    let suites: BTreeSet<&str> = ran.iter().map(|r| r.suite.as_str()).collect();
    let tiers: BTreeSet<Tier> = ran.iter().map(|r| r.tier).collect();
    let tiers: Vec<&str> = tiers.iter().map(|t| t.name()).collect();
    (!ran.is_empty()).then(|| {
        format!(
            "KUnit: {} cases of {} suites, each suite under these highest tiers: {}; {skipped} skipped",
            cases().count(),
            suites.len(),
            tiers.join(", ")
        )
    })
}

fn ktap(
    title: &str,
    seed: u64,
    rows: &[TestRow],
    notes: &[String],
    out: impl Write,
) -> io::Result<()> {
    let comments = [title.to_string(), format!("seed {seed}")];
    let mut ktap = Ktap::new(out, rows.len(), &comments);
    for row in rows {
        let reason = row.reason.clone().unwrap_or_default();
        let verdict = match (row.failed, row.skipped) {
            (0, 0) => Verdict::Ok,
            (0, _) => Verdict::Skip(reason.clone()),
            _ => Verdict::NotOk,
        };
        let why = (row.failed > 0).then_some(reason.as_str());
        let lines = row.finding.as_deref().or(why).unwrap_or("").lines();
        for (i, line) in lines.enumerate() {
            ktap.comment(&match i {
                0 => format!("{}: {line}", row.implementation),
                _ => format!("  {line}"),
            });
        }
        ktap.result(&row.name(), verdict);
    }
    notes.iter().for_each(|note| ktap.comment(note));
    let sum = |of: fn(&TestRow) -> bool| rows.iter().filter(|r| of(r)).count() as u64;
    let (failed, skipped) = (sum(|r| r.failed > 0), sum(|r| r.skipped > 0));
    let passed = rows.len() as u64 - failed - skipped;
    ktap.comment(&format!(
        "Totals: pass:{passed} fail:{failed} skip:{skipped} error:0"
    ));
    ktap.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_oracles_cannot_examine_is_named_if_it_was_asked_for() {
        let mut found = Found::default();
        found.subjects = 1;
        let names = [
            ("aes-aesni", "single blocks"),
            ("serpent-avx", "single blocks"),
            ("lrw", "refuses all"),
        ];
        found.unreached = names.map(|(n, why)| (n.into(), why.into())).to_vec();
        let notes = |algs: &[&str], thorough| {
            let algs: Vec<String> = algs.iter().map(|a| a.to_string()).collect();
            oracle_notes(&found, &algs, thorough)[1..].to_vec()
        };
        assert_eq!(notes(&["sha256", "xts(camellia)"], true), [""; 0]);
        for (alg, named) in [
            ("aes", "aes-aesni: single"),
            ("serpent-avx", "serpent-avx: single"),
            ("lrw(twofish)", "lrw: refuses"),
        ] {
            let notes = notes(&[alg], false);
            assert_eq!(notes.len(), 1, "{alg}: {notes:?}");
            assert!(notes[0].contains(named), "{alg}: {notes:?}");
        }
        let all = notes(&[], false);
        assert_eq!(all.len(), 1);
        assert!(all[0].contains("3 templates and drivers") && !all[0].contains("lrw"));
        let named = notes(&[], true);
        assert_eq!(named.len(), 2);
        assert!(named.concat().contains("aes-aesni, serpent-avx: single"));
    }
}
