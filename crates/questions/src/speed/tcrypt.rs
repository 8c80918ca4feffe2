//! `kiln speed --tcrypt`: runs the tree's own benchmark and prints its output.

use std::io::{self, Write};
use std::path::Path;

use kiln_question::hosted::Hosted;
use kiln_question::{Error, Exit, Outcome, Question, Session, TreeBuildArgs};
use kiln_tree::tcrypt::{self, Request};

/// Runs one mode of the tcrypt module in a hosted kernel tree.
pub(super) fn ask<Q: Question>(
    request: Request,
    dir: &Path,
    build: &TreeBuildArgs,
    session: &Session,
) -> Result<Exit, Error> {
    if let Some(order) = &session.child {
        session.settle();
        tcrypt::measure(order, request)?;
        return Ok(Exit::Done);
    }
    let Some(hosted) = Hosted::build(build.resolve(dir)?, session)? else {
        return Ok(Exit::Interrupted);
    };
    let Hosted { built, version, .. } = hosted;
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let (json, mut lines) = (session.global.json, 0u64);
    let mut out = io::stdout();
    let outcome = tcrypt::run(
        &built,
        session.seed,
        &arguments,
        &session.stop,
        &mut |line| {
            lines += 1;
            if !json {
                // If stdout is closed, continue the run, because the exit status is still needed.
                let _ = writeln!(out, "{line}");
            }
        },
    )?;
    if let Some(crash) = &outcome.fault {
        return Err(Error::Failed(format!(
            "the tree's tcrypt crashed: {}",
            crash.line(&built.image)
        )));
    }
    if let Some(status) = outcome.refused {
        // The child has already printed the reason on stderr.
        return Ok(Exit::Refused(status));
    }
    if lines == 0 {
        return Err(Error::input(format!(
            "--tcrypt {}: tcrypt of Linux {version} printed nothing for this mode: its do_test() lists the modes",
            request.mode
        )));
    }
    let mut notes = built.notes.clone();
    notes.push(format!("configuration: {}", built.config));
    session.save::<Q, _>(&Outcome {
        rows: outcome.rows,
        notes,
        ..Outcome::default()
    })?;
    Ok(Exit::Done)
}
