//! Builds the kernel tree in this process, and starts a child process that measures the tree's
//! functions.

use std::ffi::OsString;
use std::path::Path;

use kiln_question::hosted::Hosted;
use kiln_question::{read_facts, table, Error, Exit, Outcome, Question, Session, TreeBuildArgs};

use super::row::Row;
use super::wanted::Wanted;
use super::{run, view};

/// Builds the tree and starts a child process that measures it. In the child process, this function
/// takes the measurements instead.
pub(in crate::budget) fn ask<Q: Question>(
    wanted: &Wanted,
    dir: &Path,
    build: &TreeBuildArgs,
    session: &Session,
) -> Result<Exit, Error> {
    if let Some(order) = &session.child {
        return session.settle().answer::<Q, Row>(
            |facts, progress| {
                run::run(wanted, order, facts.machine.tsc_hz, &session.stop, progress)
            },
            |_| String::new(),
        );
    }
    let Some(hosted) = Hosted::build(build.resolve(dir)?, session)? else {
        return Ok(Exit::Interrupted);
    };
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let measured = match hosted.measure::<Row>("", &arguments, session)? {
        Ok(measured) => measured,
        Err(refused) => return Ok(refused),
    };
    let mut outcome = Outcome {
        rows: measured.rows,
        ..Outcome::default()
    };
    outcome.add_notes(measured.notes);
    let facts = read_facts();
    session.emit::<Q, _>(&facts, &outcome.rows, &outcome.notes, || {
        format!(
            "{}\n{}\n\n{}\n{}",
            table::machine(&facts),
            table::paragraph(&hosted.title),
            view::format_tables(&outcome.rows),
            table::notes(&outcome.notes, session.seed)
        )
    })?;
    Ok(measured.exit)
}
