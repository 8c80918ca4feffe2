//! `kiln test --tree`: the tree's own self-tests, as KTAP.

use std::io::{self, ErrorKind, Write};
use std::path::Path;

use kiln_lab::record::Facts;
use kiln_lab::Error;
use kiln_tree::contexts::{self, Tried};
use kiln_tree::event::Contexts;
use kiln_tree::Plan;
use serde::Serialize;

use super::test::TestArgs;
use super::tree::fault;
use crate::progress::Progress;
use crate::session::{Exit, Session};

/// A driver's test.
#[derive(Serialize)]
struct Row {
    alg: String,
    #[serde(rename = "impl")]
    implementation: String,
    suite: &'static str,
    context: String,
    cases: u64,
    failed: u64,
    skipped: u64,
    reason: Option<String>,
    test_us: Option<u64>,
    config: String,
}

impl Row {
    fn new(row: kiln_tree::Row) -> Row {
        let is = |status: &str| u64::from(row.status == status);
        Row {
            failed: is("failed"),
            skipped: is("untested"),
            cases: is("failed") + is("tested"),
            // What does not compile, or ends the process, is no algorithm's test.
            suite: match row.kind {
                "algorithm" => "testmgr",
                _ => "build",
            },
            context: "task, interrupted".into(),
            alg: row.alg.unwrap_or_default(),
            implementation: row.name,
            reason: Some(row.reason).filter(|r| !r.is_empty()),
            test_us: row.test_us,
            config: row.config,
        }
    }

    /// One a context, or one that says why there are none.
    fn contexts((driver, result): &Tried, config: &str) -> Vec<Row> {
        let row = |context: &str, cases: u64, failed: u64, reason: Option<String>| Row {
            alg: driver.alg.clone(),
            implementation: driver.name.clone(),
            suite: "contexts",
            context: context.into(),
            cases,
            failed,
            skipped: u64::from(failed == 0 && reason.is_some()),
            reason,
            test_us: None,
            config: config.into(),
        };
        let all = contexts::NAMES.join("; ");
        match result {
            Err(crash) => vec![row(&all, 1, 1, Some(crash.clone()))],
            Ok(seen) if seen.generic_error != 0 => {
                let reason = format!("{} is not to be had: {}", seen.generic, seen.generic_error);
                vec![row(&all, 0, 0, Some(reason))]
            }
            Ok(seen) if seen.error != 0 => {
                let reason = format!("not opened by name and key: {}", seen.error);
                vec![row(&all, 0, 0, Some(reason))]
            }
            Ok(seen) => (contexts::NAMES.iter().zip(seen.cases).zip(seen.wrong))
                .map(|((name, cases), wrong)| {
                    let reason = match (cases, wrong) {
                        (0, _) => Some("no interrupt came meanwhile".to_string()),
                        (_, 0) => None,
                        (_, n) => Some(format!(
                            "{n} of {cases} answers differ from {}",
                            seen.generic
                        )),
                    };
                    row(name, cases, wrong, reason)
                })
                .collect(),
        }
    }

    /// With the number that comes before it.
    fn ktap(&self, number: usize, out: &mut dyn Write) -> io::Result<()> {
        let reason = self.reason.as_deref().unwrap_or("");
        if self.failed > 0 {
            writeln!(out, "# {}: {reason}", self.implementation)?;
        }
        let ok = if self.failed > 0 { "not ok" } else { "ok" };
        let of = match self.alg.as_str() {
            "" => String::new(),
            alg => format!(" {alg}"),
        };
        let place = match self.suite {
            "contexts" => format!(" in {}", self.context),
            _ => String::new(),
        };
        // A number sign begins a directive.
        let name = format!("{}{of}{place}", self.implementation).replace('#', "_");
        match self.skipped {
            0 => writeln!(out, "{ok} {number} {name}"),
            _ => writeln!(out, "{ok} {number} {name} # SKIP {reason}"),
        }
    }
}

/// Runs it.
pub fn run(args: &TestArgs, dir: &Path, session: &Session) -> Result<Exit, Error> {
    if let Some(order) = &session.child {
        // One child for the tree's own tests, another for the contexts.
        match order.tests {
            true => kiln_tree::interrupted(order, args.fuzz),
            false => contexts::measure(order),
        }
        .map_err(fault)?;
        return Ok(Exit::Done);
    }
    if !args.impls.is_empty() || args.case.is_some() || args.cases.is_some() {
        return Err(Error::input(
            "--impl, --case and --cases are Kiln's own tests': with --tree use --fuzz N and names of algorithms",
        ));
    }
    let (source, compiler, config) = args.build.resolve(dir)?;
    let title = format!("Linux {}, built by {compiler}", source.version);
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
    let outcome = kiln_tree::test(&plan, &arguments, args.fuzz);
    let outcome = match outcome {
        Err(kiln_tree::Error::Interrupted) => return Ok(Exit::Interrupted),
        other => other.map_err(fault)?,
    };
    let named = |alg: &str| args.algs.is_empty() || args.algs.iter().any(|a| a == alg);
    let mut drivers = contexts::drivers(&outcome.rows);
    drivers.retain(|driver| named(&driver.alg));
    let tried = contexts::run(
        &outcome.image,
        session.seed,
        &arguments,
        drivers,
        &session.stop,
        &|done, what| progress.report(done, what),
    );
    drop(progress);
    let tried = match tried {
        Err(kiln_tree::Error::Interrupted) => return Ok(Exit::Interrupted),
        other => other.map_err(fault)?,
    };
    let mut rows: Vec<Row> = (outcome.rows.into_iter())
        .filter(|row| match row.kind {
            "algorithm" => named(row.alg.as_deref().unwrap_or("")),
            _ => row.status == "failed",
        })
        .map(Row::new)
        .collect();
    for tried in &tried {
        rows.extend(Row::contexts(tried, &outcome.config));
    }
    if rows.is_empty() {
        return Err(Error::input(format!(
            "the tree registers no {}: kiln tree {} lists what there is",
            args.algs.join(", "),
            dir.display()
        )));
    }
    let mut notes = outcome.notes;
    notes.push(format!("configuration: {}", outcome.config));
    notes.push(format!("built in {}", outcome.cache.display()));
    let failed = rows.iter().any(|row| row.failed > 0);
    let softirqs = |what: fn(&Contexts) -> u64| -> u64 {
        tried
            .iter()
            .filter_map(|(_, r)| r.as_ref().ok())
            .map(what)
            .sum()
    };
    notes.push(format!(
        "contexts: {} answers compared, {} of them of softirqs; {} requests of softirqs had no room",
        softirqs(|c| c.cases.iter().sum()),
        softirqs(|c| c.cases[2]),
        softirqs(|c| c.refused)
    ));
    if session.global.json || session.global.out.is_some() {
        session.emit("test", &Facts::read(), &rows, &notes, String::new)?;
    }
    if !session.global.json {
        let mut out = io::stdout().lock();
        match ktap(&title, session.seed, &rows, &notes, &mut out) {
            Err(e) if e.kind() != ErrorKind::BrokenPipe => {
                return Err(Error::lacks(format!("standard output: {e}")))
            }
            _ => {}
        }
    }
    Ok(match failed {
        true => Exit::Failed,
        false => Exit::Done,
    })
}

fn ktap(
    title: &str,
    seed: u64,
    rows: &[Row],
    notes: &[String],
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(
        out,
        "KTAP version 1\n# {title}\n# seed {seed}\n1..{}",
        rows.len()
    )?;
    for (i, row) in rows.iter().enumerate() {
        row.ktap(i + 1, out)?;
    }
    for note in notes {
        writeln!(out, "# {note}")?;
    }
    let sum = |of: fn(&Row) -> bool| rows.iter().filter(|r| of(r)).count() as u64;
    let (failed, skipped) = (sum(|r| r.failed > 0), sum(|r| r.skipped > 0));
    let passed = rows.len() as u64 - failed - skipped;
    writeln!(
        out,
        "# Totals: pass:{passed} fail:{failed} skip:{skipped} error:0"
    )?;
    out.flush()
}
