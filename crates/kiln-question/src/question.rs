//! The trait that every command implements: arguments, and a run that ends with an exit status.

use clap::Args;
use kiln_record::{describe, Description};
use schemars::JsonSchema;

use crate::{Error, Exit, Session, Shard};

/// A command. Its structure has the arguments; the doc comment and `after_long_help` of that structure are its help.
pub trait Question: Args {
    /// Name in records: `--out DIR` writes `DIR/NAME.json`. A subcommand's name has its command's before it.
    const NAME: &'static str;
    /// Whether other activity on the machine affects the results.
    const TIMED: bool = false;
    /// Whether the results depend on which tiers are usable.
    const OF_TIERS: bool = false;
    /// Whether `--out` may name a file.
    const WRITES_A_FILE: bool = false;

    /// The types of rows that the command and its subcommands write.
    fn row_types() -> Vec<RowType> {
        Vec::new()
    }

    /// The shard that was asked for, of a command that can be divided. Its plan's list of items goes through
    /// [`Session::share`].
    fn shard(&self) -> Option<Shard> {
        None
    }

    /// Runs the command: validates the request, measures, and outputs the results.
    ///
    /// # Errors
    /// Wrong arguments, or something that the machine lacks.
    fn run(&self, session: &Session) -> Result<Exit, Error>;
}

pub struct RowType {
    /// Reports and `docs/RECORDS.md` show types in ascending order of this number.
    pub place: u32,
    /// The description that follows from the row structure and its attributes.
    pub description: Description,
}

impl RowType {
    /// The description of `R`, shown at position `place`.
    pub fn at<R: JsonSchema>(place: u32) -> RowType {
        RowType {
            place,
            description: describe::<R>(),
        }
    }
}
