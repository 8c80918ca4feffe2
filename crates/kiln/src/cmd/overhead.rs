//! `kiln fpu --overhead`.

use kiln_lab::overhead::{self, Outcome, Plan};
use kiln_lab::record::Facts;
use kiln_lab::Error;

use crate::progress::Progress;
use crate::session::{Exit, Session};
use crate::table;

/// Runs it.
pub fn run(plan: &Plan, session: &Session) -> Result<Exit, Error> {
    session.settle();
    let facts = Facts::read();
    let outcome = measure(plan, &facts, session)?;
    session.emit("fpu", &facts, &outcome.rows, &outcome.notes, || {
        format!(
            "{}\n\n{}\n{}",
            table::machine(&facts),
            table::overhead::all(&outcome.rows),
            table::notes(&outcome.notes, session.seed)
        )
    })?;
    Ok(if outcome.failed {
        Exit::Failed
    } else if outcome.interrupted {
        Exit::Interrupted
    } else {
        Exit::Done
    })
}

/// Measures with a bar.
pub fn measure(plan: &Plan, facts: &Facts, session: &Session) -> Result<Outcome, Error> {
    let progress = Progress::start();
    overhead::run(
        plan,
        facts.machine.core_hz,
        &session.stop,
        &mut |done, what| progress.report(done, what),
    )
}
