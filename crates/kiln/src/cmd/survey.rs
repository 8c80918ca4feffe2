//! `kiln survey`, and `kiln` alone: the overview of this machine. So far the question of speed.

use clap::Args;
use kiln_lab::record::Facts;
use kiln_lab::speed::{self, Plan, KILN};
use kiln_lab::{list, Error};
use serde::Serialize;

use crate::session::{Exit, Session};
use crate::table;

/// What was chosen for this machine, and how fast it is beside the other tiers, OpenSSL and the hardware's limit.
#[derive(Args)]
#[command(after_help = "\
Takes about 10 s, with --quick 3 s.

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
    #[serde(flatten)]
    speed: &'a speed::Row,
}

/// Runs it.
pub fn run(_: &SurveyArgs, session: &Session) -> Result<Exit, Error> {
    session.settle();
    let facts = Facts::read();
    let mut plan = Plan {
        quick: session.global.quick,
        ..Plan::new(session.seed)
    };
    let peer_here = list::peers().iter().any(|p| p.available);
    let baseline = if peer_here {
        "openssl"
    } else {
        "xts-aes-generic"
    };
    plan.baseline = Some(baseline.to_string());
    let outcome = super::speed::measure(plan, &facts, session)?;
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
            speed: row,
        })
        .collect();
    session.emit("survey", &facts, &rows, &outcome.notes, || {
        format!(
            "{}\n{}\n\n{}\n{}\n{}",
            table::machine(&facts),
            table::list::chosen(&list::impls()),
            table::speed::overview(&outcome.rows, session.tty),
            headline(&outcome.rows, baseline),
            table::notes(&outcome.notes, session.seed)
        )
    })?;
    Ok(super::speed::exit(&outcome))
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
