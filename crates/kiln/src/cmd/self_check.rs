//! `kiln self-check`.

use clap::Args;
use kiln_lab::{read_facts, Error};
use kiln_measure::self_check;

use crate::progress::Progress;
use crate::session::{Exit, Session};
use crate::table;

/// How far measurements can be trusted on this machine
///
/// Before figures are believed: measures the clock, the machine's quiet and the method itself, and says which differences
/// can be trusted. Takes about 10 s, with --quick 4 s.
#[derive(Args)]
#[command(after_long_help = "\
Row fields (--json):
  check, value, unit, verdict (ok, poor or bad), meaning

Examples:
  kiln self-check --cpu 0
  kiln self-check --json | jq -r '.notes[]'

See also:
  docs/METHODOLOGY.md")]
pub struct SelfCheckArgs {}

/// Runs it.
pub fn run(_: &SelfCheckArgs, session: &Session) -> Result<Exit, Error> {
    session.settle();
    let facts = read_facts();
    let trust = {
        let progress = Progress::start();
        self_check(session.global.quick, &session.stop, &mut |done, total| {
            progress.report(done as f64 / total as f64, "self-check");
        })
    };
    let notes = [trust.sentence.clone()];
    session.emit("self-check", &facts, &trust.rows, &notes, || {
        format!("{}\n\n{}", table::machine(&facts), table::trust(&trust))
    })?;
    Ok(if session.stopped() {
        Exit::Interrupted
    } else {
        Exit::Done
    })
}
