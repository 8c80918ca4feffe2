//! A small question for the test `new_question`, with arguments, rows and a table.

use clap::Args;
use kiln_question::table::{plain, text};
use kiln_question::{Error, Exit, Outcome, Question, RowType, Session};
use schemars::JsonSchema;
use serde::Serialize;

/// Whether a number is even.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(
    rename = "parity",
    title = "Parity",
    extend("x-question" = "Which numbers are even?", "x-commands" = ["parity"])
)]
struct Row {
    /// The number that is examined.
    #[schemars(extend("x-role" = "key"))]
    number: u32,
    /// Whether the number is even.
    #[schemars(extend("x-role" = "main"))]
    even: bool,
}

/// Which numbers are even?
///
/// Exists only for the test `new_question`.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  kiln parity 3 4")]
pub struct ParityArgs {
    /// Numbers to examine
    #[arg(value_name = "N", required = true)]
    numbers: Vec<u32>,
}

impl Question for ParityArgs {
    const NAME: &'static str = "parity";

    fn row_types() -> Vec<RowType> {
        vec![RowType::at::<Row>(1000)]
    }

    fn run(&self, session: &Session) -> Result<Exit, Error> {
        let row = |&number| Row {
            number,
            even: number % 2 == 0,
        };
        session.answer::<Self, _>(
            |_, _| {
                Ok(Outcome {
                    rows: self.numbers.iter().map(row).collect(),
                    ..Outcome::default()
                })
            },
            |rows| {
                let mut table = plain();
                for row in rows {
                    table.add_row([row.number.to_string(), row.even.to_string()]);
                }
                text(&table)
            },
        )
    }
}
