//! Runs `kiln compilers --explain` and `--reproduce`, which examine a single cell.

use std::path::PathBuf;

use kiln_question::{print, read_facts, table, Error, Exit, Progress, Question, Session};

use super::cell::Cell;
use super::explain::{explain, Explained};
use super::row::Row;
use super::tree::Tree;
use super::{explain_view, reproduce};

/// The request to explain or reproduce a cell.
pub(super) struct CellQuestion<'a> {
    /// Name of the cell to examine: `CC/LEVEL/SUBJECT/VARIANT`.
    pub cell: &'a str,
    /// The cell to compare with. If `None`, one of the similar cells is chosen.
    pub against: Option<&'a str>,
    /// Whether to write a directory of files for a compiler bug report.
    pub reproduce: bool,
    /// Message length in bytes.
    pub len: usize,
    /// Directories that contain headers for the user's source file.
    pub include: &'a [PathBuf],
    /// The values of `--subject`. Cells may refer to these subjects by file name alone.
    pub subjects: &'a [String],
    /// Whether to print the hot code of the two compared cells.
    pub code: bool,
}

/// Explains the cell's speed. Prints the result, or writes the directory for a bug report. The
/// output names `Q` as the command.
pub(super) fn run<Q: Question>(
    question: &CellQuestion,
    tree: Option<&Tree>,
    session: &Session,
) -> Result<Exit, Error> {
    let out = match (&session.global.out, question.reproduce) {
        (None, true) => {
            return Err(Error::input(
                "--reproduce needs a directory to write: add --out DIR",
            ))
        }
        (out, _) => out.clone(),
    };
    let parse = |text| Cell::parse(text, tree, question.include, question.subjects);
    let cell = parse(question.cell)?;
    let against = question.against.map(parse).transpose()?;
    if let Some(other) = against.as_ref() {
        check_subjects(&cell, other)?;
    }
    let progress = Progress::start();
    let found = explain(
        &cell,
        against.as_ref(),
        question.len,
        session.seed,
        &session.stop,
        &|done, what| progress.report(done, what),
    );
    drop(progress);
    if session.stopped() {
        return Ok(Exit::Interrupted);
    }
    let found = found?;
    if let (Some(dir), true) = (&out, question.reproduce) {
        let written = reproduce::write(dir, &found, question.len, session.seed)?;
        let files = format!("{}: {}", dir.display(), written.files.join(" "));
        let paragraphs = [table::paragraph(&written.verdict), table::paragraph(&files)];
        return print(&(paragraphs.join("\n") + "\n")).map(|()| Exit::Done);
    }
    let rows = rows(&found, question.len);
    session.emit::<Q, _>(&read_facts(), &rows, &[], || {
        format!(
            "{}\n{}",
            explain_view::format_tables(&found, question.code),
            table::notes(&[], session.seed)
        )
    })?;
    Ok(Exit::Done)
}

/// Checks that two cells build the same subject. Only then can a compiler or a flag explain the
/// difference.
fn check_subjects(cell: &Cell, other: &Cell) -> Result<(), Error> {
    match cell.subject.name == other.subject.name {
        true => Ok(()),
        false => Err(Error::input(format!(
            "--against '{other}': its subject is not that of '{cell}': name a cell of {}",
            cell.subject.name
        ))),
    }
}

fn rows(found: &Explained, len: usize) -> Vec<Row> {
    let seen = [&found.own, &found.other].into_iter().chain(&found.more);
    let seen = seen.chain(found.checks.iter().map(|(_, seen)| seen));
    seen.map(|s| s.row(len)).collect()
}
