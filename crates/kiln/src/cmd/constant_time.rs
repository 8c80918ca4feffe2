//! `kiln test --constant-time`.

use kiln_lab::constant_time::{self, Plan};
use kiln_lab::{read_facts, Error};

use super::test::TestArgs;
use crate::progress::Progress;
use crate::session::{Exit, Session};
use crate::table;

/// Measurements of each implementation, each way.
const FULL: usize = 400_000;
const QUICK: usize = 60_000;

/// Runs it.
pub fn run(args: &TestArgs, session: &Session) -> Result<Exit, Error> {
    if args.build.given() {
        return Err(Error::input(
            "--cc and --config build a tree, and --constant-time tries Kiln's own: leave them out",
        ));
    }
    session.settle();
    let facts = read_facts();
    let plan = Plan {
        algs: args.algs.clone(),
        impls: args.impls.clone(),
        samples: if session.global.quick { QUICK } else { FULL },
        seed: session.seed,
    };
    let outcome = {
        let progress = Progress::start();
        constant_time::run(&plan, &session.stop, &mut |done, what| {
            progress.report(done, what);
        })?
    };
    session.emit("test", &facts, &outcome.rows, &outcome.notes, || {
        format!(
            "{}\n\n{}\n{}",
            table::machine(&facts),
            table::constant_time::all(&outcome.rows),
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
