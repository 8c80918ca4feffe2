//! Runs `kiln test --constant-time`.

use kiln_question::{Error, Exit, Question, Session};

use super::run::{run, Plan};
use super::view;

/// Number of measurements per implementation and direction.
const FULL: usize = 400_000;
const QUICK: usize = 60_000;

/// Tests the given algorithms and implementations.
pub(crate) fn ask<Q: Question>(
    algs: &[String],
    impls: &[String],
    session: &Session,
) -> Result<Exit, Error> {
    let plan = Plan {
        algs: algs.to_vec(),
        impls: impls.to_vec(),
        samples: if session.global.quick { QUICK } else { FULL },
        seed: session.seed,
    };
    session.settle().answer::<Q, _>(
        |_, progress| run(&plan, &session.stop, progress),
        view::format_tables,
    )
}
