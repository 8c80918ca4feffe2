//! `kiln self-check`: measures how reliable measurements on this machine are.

use clap::Args;
use kiln_measure::{self_check, Grade, Trust, TrustRow};
use kiln_question::table::{self, align, paragraph, plain, text};
use kiln_question::{read_facts, Error, Exit, Progress, Question, RowType, Session};

/// How reliable measurements on this machine are
///
/// Run this before you rely on Kiln's results. It measures how steady the core's clock is, and how
/// often interrupts, other programs or the hypervisor take time away. Then it compares a piece of
/// code with longer versions that are known to be 1 % or 3 % slower, and tests whether these
/// differences are found. The last line states how large a difference must be to be trusted on this
/// machine. Takes about 10 s, or 4 s with --quick.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  kiln self-check --cpu 0
  kiln self-check --json | jq -r '.notes[]'

See also:
  docs/METHODOLOGY.md")]
pub struct SelfCheckArgs {}

impl Question for SelfCheckArgs {
    const NAME: &'static str = "self-check";

    fn row_types() -> Vec<RowType> {
        vec![RowType::at::<TrustRow>(100)]
    }

    fn run(&self, session: &Session) -> Result<Exit, Error> {
        session.settle();
        let facts = read_facts();
        let trust = {
            let progress = Progress::start();
            self_check(session.global.quick, &session.stop, &mut |done, total| {
                progress.report(done as f64 / total as f64, "self-check");
            })
        };
        let notes = [trust.sentence.clone()];
        session.emit::<Self, _>(&facts, &trust.rows, &notes, || {
            format!("{}\n\n{}", table::machine(&facts), view(&trust))
        })?;
        Ok(Exit::from_run(false, session.stopped()))
    }
}

/// Formats the table of checks, an explanation of each check that is not ok, and a one-sentence
/// summary.
fn view(trust: &Trust) -> String {
    let mut table = plain();
    for row in &trust.rows {
        table.add_row([
            row.check.clone(),
            format!("{:.2}", row.value),
            row.unit.clone(),
            row.verdict.to_string(),
        ]);
    }
    align(&mut table, [1]);
    let told: String = trust
        .rows
        .iter()
        .filter(|row| row.verdict != Grade::Ok)
        .map(|row| paragraph(&format!("{}: {}: {}", row.verdict, row.check, row.meaning)) + "\n")
        .collect();
    let gap = if told.is_empty() { "" } else { "\n" };
    format!("{}\n{told}{gap}{}\n", text(&table), trust.sentence)
}
