//! The trait that every command implements. A command consists of arguments and a run that ends
//! with an exit status.

use clap::Args;
use kiln_record::{describe, Description};
use schemars::JsonSchema;

use crate::{Error, Exit, Session, Shard};

/// A command. The fields of the structure that implements this trait are the command's arguments.
/// The structure's doc comment and `after_long_help` provide the help text.
pub trait Question: Args {
    /// Name of the command in records, and of the file `DIR/NAME.json` that `--out DIR` writes. The
    /// name of a subcommand starts with the name of its parent command.
    const NAME: &'static str;
    /// Whether other activity on the machine affects the results.
    const TIMED: bool = false;
    /// Whether the results depend on which ISA tiers are usable.
    const OF_TIERS: bool = false;
    /// Whether the argument of `--out` may be a file.
    const WRITES_A_FILE: bool = false;

    /// Returns the row types that the command and its subcommands write.
    fn row_types() -> Vec<RowType> {
        Vec::new()
    }

    /// Returns the requested shard, if the command's work can be divided. Such a command must pass
    /// its list of items to [`Session::share`].
    fn shard(&self) -> Option<Shard> {
        None
    }

    /// Runs the command: validates the request, measures, and outputs the results.
    ///
    /// # Errors
    /// Fails if the arguments are wrong, or the machine lacks something that the command needs.
    fn run(&self, session: &Session) -> Result<Exit, Error>;
}

pub struct RowType {
    /// Position of the type in reports and in `docs/RECORDS.md`, which list types in ascending
    /// order of this number.
    pub place: u32,
    /// The description derived from the row structure and its attributes.
    pub description: Description,
}

impl RowType {
    /// Returns the row type `R`, which is shown at position `place`.
    pub fn at<R: JsonSchema>(place: u32) -> RowType {
        RowType {
            place,
            description: describe::<R>(),
        }
    }
}
