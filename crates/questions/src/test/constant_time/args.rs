//! `kiln test --constant-time`.

use kiln_question::{Error, Exit, Session};

use super::run::{run, Plan};
use super::view;
use crate::test::TestArgs;

/// Measurements of each implementation, each way.
const FULL: usize = 400_000;
const QUICK: usize = 60_000;

/// Asks for the algorithms and implementations that `kiln test` was given.
pub(crate) fn ask(args: &TestArgs, session: &Session) -> Result<Exit, Error> {
    if args.build.given() {
        return Err(Error::input(
            "--cc and --config build a tree, and --constant-time tries Kiln's own: leave them out",
        ));
    }
    let plan = Plan {
        algs: args.algs.clone(),
        impls: args.impls.clone(),
        samples: if session.global.quick { QUICK } else { FULL },
        seed: session.seed,
    };
    session
        .settle()
        .answer::<TestArgs, _>(|_, progress| run(&plan, &session.stop, progress), view::all)
}
