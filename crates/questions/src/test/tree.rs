//! `kiln test --tree`: the tree's own self-tests, as KTAP.

use std::io::{self, Write};
use std::path::Path;

use kiln_question::{Error, Exit, Outcome, Progress, Question, Session, TreeBuildArgs};
use kiln_report::ktap::{Ktap, Verdict};
use kiln_tree::contexts;
use kiln_tree::event::Contexts;
use kiln_tree::{Plan, TestRow};

/// Runs the self-tests of these algorithms, or of all, in the tree at `dir`; random tests `fuzz` times each.
pub(super) fn ask<Q: Question>(
    dir: &Path,
    build: &TreeBuildArgs,
    algs: &[String],
    fuzz: Option<u32>,
    session: &Session,
) -> Result<Exit, Error> {
    if let Some(order) = &session.child {
        // One child for the tree's own tests, another for the contexts.
        match order.tests {
            true => kiln_tree::interrupted(order, fuzz),
            false => contexts::measure(order),
        }?;
        return Ok(Exit::Done);
    }
    let (source, compiler, config) = build.resolve(dir)?;
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
    let outcome = kiln_tree::test(&plan, &arguments, fuzz)?;
    let named = |alg: &str| algs.is_empty() || algs.iter().any(|a| a == alg);
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
    let tried = tried?;
    let mut rows: Vec<TestRow> = (outcome.rows.into_iter())
        .filter(|row| match row.kind {
            "algorithm" => named(row.alg.as_deref().unwrap_or("")),
            _ => row.status == "failed",
        })
        .map(TestRow::new)
        .collect();
    for tried in &tried {
        rows.extend(TestRow::contexts(tried, &outcome.config));
    }
    if rows.is_empty() {
        return Err(Error::input(format!(
            "the tree registers no {}: kiln tree {} lists what there is",
            algs.join(", "),
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
    let outcome = Outcome {
        rows,
        notes,
        failed,
        ..Outcome::default()
    };
    session.save::<Q, _>(&outcome)?;
    if !session.global.json {
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
            (0, _) => Verdict::Skip(reason),
            _ => {
                ktap.comment(&format!("{}: {reason}", row.implementation));
                Verdict::NotOk
            }
        };
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
