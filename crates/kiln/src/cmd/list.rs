//! `kiln list`.

use clap::Args;
use kiln_lab::{list, read_facts, Error};

use crate::session::{Exit, Session};
use crate::table;

/// What is here: tiers, implementations, peers, compilers, hardware limits
///
/// The first command on a new machine: what can be measured there, what cannot, and why. All usable implementations are
/// measured: of each algorithm the fastest is chosen, of equals the one of highest priority.
#[derive(Args)]
#[command(after_long_help = "\
Row fields (--json):
  kind (tier, impl, feature, peer, compiler or limit), name, available, reason

Environment:
  KILN_TIERS=generic,aesni   restricts the tiers

Examples:
  kiln list
  kiln list --json | jq '.rows[] | select(.chosen)'
  KILN_TIERS=generic kiln list    what would be chosen without SIMD")]
pub struct ListArgs {}

/// Runs it.
pub fn run(_: &ListArgs, session: &Session) -> Result<Exit, Error> {
    session.settle();
    let facts = read_facts();
    let rows = list::run(
        session.seed,
        facts.machine.core_hz / facts.machine.tsc_hz,
        &session.stop,
    );
    session.emit("list", &facts, &rows, &[], || {
        format!(
            "{}\n\n{}\n{}",
            table::machine(&facts),
            table::list::all(&rows),
            table::notes(&[], session.seed)
        )
    })?;
    Ok(if session.stopped() {
        Exit::Interrupted
    } else {
        Exit::Done
    })
}
