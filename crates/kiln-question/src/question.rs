//! What every command is: arguments that are read, and a run that ends with an exit status.

use clap::Args;
use kiln_record::{describe, Description};
use schemars::JsonSchema;

use crate::{Error, Exit, Session};

/// A command. Its structure has the arguments; the doc comment and `after_long_help` of that structure are its help.
pub trait Question: Args {
    /// Name in records: `--out DIR` writes `DIR/NAME.json`. A subcommand's name has its command's before it.
    const NAME: &'static str;
    /// Whether the results suffer from what else the machine does.
    const TIMED: bool = false;
    /// Whether the results depend on which tiers are usable.
    const OF_TIERS: bool = false;
    /// Whether `--out` may name a file.
    const WRITES_A_FILE: bool = false;

    /// The types of rows that the command and its subcommands write.
    fn row_types() -> Vec<RowType> {
        Vec::new()
    }

    /// Runs the command: settles what is asked for, measures, and sends the results out.
    ///
    /// # Errors
    /// Arguments that are wrong, or a machine that lacks something.
    fn run(&self, session: &Session) -> Result<Exit, Error>;
}

/// A type of rows.
pub struct RowType {
    /// Reports and `docs/RECORDS.md` show types in ascending order of this number.
    pub place: u32,
    /// What schemars and the attributes of the row's structure say.
    pub description: Description,
}

impl RowType {
    /// The description of `R`, shown at this place.
    pub fn at<R: JsonSchema>(place: u32) -> RowType {
        RowType {
            place,
            description: describe::<R>(),
        }
    }
}

/// What a question has found out.
#[derive(Clone, Debug)]
pub struct Outcome<R> {
    /// The results.
    pub rows: Vec<R>,
    /// What a reader of the rows must know.
    pub notes: Vec<String>,
    /// A check failed: exit status 1.
    pub failed: bool,
    /// Stopped before its end.
    pub interrupted: bool,
}

impl<R> Default for Outcome<R> {
    fn default() -> Outcome<R> {
        Outcome {
            rows: Vec::new(),
            notes: Vec::new(),
            failed: false,
            interrupted: false,
        }
    }
}

impl<R> Outcome<R> {
    /// A failed check counts for more than an interruption.
    pub fn exit(&self) -> Exit {
        Exit::from_run(self.failed, self.interrupted)
    }

    /// Adds notes that are not there yet.
    pub fn add_notes(&mut self, notes: impl IntoIterator<Item = String>) {
        for note in notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }
}
