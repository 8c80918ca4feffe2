//! `kiln survey`, and `kiln` alone: the overview of this machine. So far the questions of speed and of FPU policies.

use std::time::Duration;

use clap::Args;
use kiln_kernel::xts::Impl;
use kiln_kernel::Tier;
use kiln_lab::fpu::{self, Workload};
use kiln_lab::record::Facts;
use kiln_lab::speed::{self, Plan, KILN};
use kiln_lab::{list, overhead, Algorithm, Error};
use serde::Serialize;

use crate::session::{Exit, Session};
use crate::table;

/// What was chosen for this machine, and how fast it is beside the other tiers, OpenSSL and the hardware's limit.
#[derive(Args)]
#[command(after_help = "\
Takes about 20 s, with --quick 6 s.

Examples:
  kiln
  kiln --quick --out results
  KILN_TIERS=generic,aesni kiln            as if the CPU had no VAES")]
pub struct SurveyArgs {}

/// A row of `survey`: a headline, and the row of `speed` it stands on.
#[derive(Serialize)]
struct Row<'a> {
    question: &'static str,
    headline: String,
    value: f64,
    unit: &'static str,
    /// What it is compared with: the peer, or the generic implementation.
    baseline: &'a str,
    /// Its ratio to the baseline, where the question has one: above 1 is faster.
    #[serde(skip_serializing_if = "Option::is_none")]
    policy_ratio: Option<f64>,
    #[serde(flatten)]
    row: Answer<'a>,
}

/// The row a headline stands on.
#[derive(Serialize)]
#[serde(untagged)]
enum Answer<'a> {
    Speed(&'a speed::Row),
    Fpu(&'a fpu::Row),
    Way(&'a overhead::Row),
}

/// Runs it.
pub fn run(_: &SurveyArgs, session: &Session) -> Result<Exit, Error> {
    session.settle();
    let facts = Facts::read();
    let mut plan = Plan {
        algs: vec![Algorithm::XTS_AES.name().to_string()],
        quick: session.global.quick,
        ..Plan::new(session.seed)
    };
    let peer_here = list::peers()
        .iter()
        .any(|p| p.available && p.name == "openssl");
    let baseline = if peer_here {
        "openssl"
    } else {
        "xts-aes-generic"
    };
    plan.baseline = Some(baseline.to_string());
    let outcome = super::speed::measure(plan, &facts, session)?;
    let policies = measure_policies(session)?;
    let ways = measure_ways(&facts, session)?;
    let peer = outcome.rows.iter().find(|r| r.provider != KILN);
    let baseline = peer.map_or(baseline, |r| r.provider.as_str());
    let rows: Vec<Row> = outcome
        .rows
        .iter()
        .map(|row| Row {
            question: "speed",
            headline: format!("{} {} {} B, {}", row.alg, row.op, row.len, row.imp),
            value: row.cycles_per_op,
            unit: "cycles",
            baseline,
            policy_ratio: None,
            row: Answer::Speed(row),
        })
        .chain(policies.rows.iter().filter(|r| !r.control).map(policy_row))
        .chain(ways.rows.iter().filter_map(way_row))
        .collect();
    let notes = [
        outcome.notes.clone(),
        policies.notes.clone(),
        ways.notes.clone(),
    ]
    .concat();
    session.emit("survey", &facts, &rows, &notes, || {
        format!(
            "{}\n{}\n\n{}\n{}\n{}\n{}\n{}",
            table::machine(&facts),
            table::list::chosen(&list::impls(), Algorithm::XTS_AES.name()),
            table::speed::overview(&outcome.rows, session.tty),
            headline(&outcome.rows, baseline),
            table::fpu::overview(&policies.rows),
            table::overhead::overview(&ways.rows),
            table::notes(&notes, session.seed)
        )
    })?;
    Ok(
        match (super::speed::exit(&outcome), super::fpu::exit(&policies)) {
            (Exit::Done, exit) => exit,
            (Exit::Interrupted, Exit::Failed) => Exit::Failed,
            (exit, _) if ways.failed && exit != Exit::Interrupted => Exit::Failed,
            (exit, _) => exit,
        },
    )
}

/// The ways to a cipher, at the length where they differ most.
fn measure_ways(facts: &Facts, session: &Session) -> Result<overhead::Outcome, Error> {
    if session.stopped() || Impl::best().tier() == Tier::Generic {
        return Ok(overhead::Outcome::default());
    }
    let policies = ["legacy", "bh-off"].map(String::from);
    let plan = overhead::Plan {
        policies: fpu::policies(&policies)?,
        lens: vec![16],
        imp: None,
        seed: session.seed,
        quick: true,
    };
    super::overhead::measure(&plan, facts, session)
}

fn way_row(row: &overhead::Row) -> Option<Row<'_>> {
    row.mb_per_s?;
    Some(Row {
        question: "overhead",
        headline: format!(
            "{} of {} B by {} under {}",
            row.alg, row.len, row.path, row.policy
        ),
        value: row.cycles_per_op?,
        unit: "cycles",
        baseline: "direct",
        policy_ratio: None,
        row: Answer::Way(row),
    })
}

/// The policy table in short: one load.
fn measure_policies(session: &Session) -> Result<fpu::Outcome, Error> {
    if session.stopped() {
        return Ok(fpu::Outcome::default());
    }
    let plan = fpu::Plan {
        loads: vec![Workload::XTS[0]],
        budget: Duration::from_secs(if session.global.quick { 4 } else { 8 }),
        ..fpu::Plan::new(session.seed, true)
    };
    super::fpu::measure(&plan.checked()?, session)
}

fn policy_row(row: &fpu::Row) -> Row<'_> {
    Row {
        question: "fpu",
        headline: format!("policy {} under {}", row.policy, row.load),
        value: row.task_mb_per_s.unwrap_or(f64::NAN),
        unit: "mb_per_s",
        baseline: "legacy",
        policy_ratio: row.ratio,
        row: Answer::Fpu(row),
    }
}

/// The chosen implementation at a usual length, in a sentence.
fn headline(rows: &[speed::Row], baseline: &str) -> String {
    let list = list::impls();
    let chosen = list.iter().find(|r| r.chosen == Some(true));
    let Some(row) = rows
        .iter()
        .find(|r| r.len == 4096 && chosen.is_some_and(|c| c.name == r.imp))
    else {
        return String::new();
    };
    let mut text = format!(
        "{} at {} B: {:.1} GB/s a core",
        row.imp,
        row.len,
        row.mb_per_s / 1e3
    );
    if let Some(ratio) = row.against.and_then(|a| a.ratio) {
        text.push_str(&format!(", {:.1} times {baseline}", 1.0 / ratio));
    }
    if let Some(limit) = row.limit_cycles {
        let share = 100.0 * limit / row.cycles_per_op;
        text.push_str(&format!(", {share:.0} % of what the AES unit can do"));
    }
    table::paragraph(&text) + "\n"
}
