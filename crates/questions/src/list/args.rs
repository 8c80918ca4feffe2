//! The arguments of `kiln list`, and the function that runs the command.

use clap::Args;
use kiln_question::{Error, Exit, Outcome, Question, RowType, Session};

use super::row::{self, Row};
use super::view;

/// List this machine's ISA tiers, ciphers, libraries, compilers and CPU limits
///
/// Run this first on a new machine: it shows what can be measured there, what cannot, and why. An
/// ISA tier is an instruction-set level, such as aesni. The CPU limits are the throughput and
/// latency of instructions such as AESENC, as measured. Kiln also measures all implementations that
/// this CPU can run. For each algorithm, Kiln's crypto API uses the fastest implementation. If the
/// implementation with the highest priority is almost as fast, the API uses that one instead.
#[derive(Args)]
#[command(after_long_help = "\
Environment:
  KILN_TIERS=generic,aesni   use only these ISA tiers

Examples:
  kiln list
  kiln list --json | jq '.rows[] | select(.chosen)'
  KILN_TIERS=generic kiln list    what would be chosen without SIMD")]
pub struct ListArgs {}

impl Question for ListArgs {
    const NAME: &'static str = "list";

    fn row_types() -> Vec<RowType> {
        vec![RowType::at::<Row>(120)]
    }

    fn run(&self, session: &Session) -> Result<Exit, Error> {
        session.settle().answer::<Self, _>(
            |facts, _| {
                let ratio = facts.machine.core_hz / facts.machine.tsc_hz;
                Ok(Outcome {
                    rows: row::run(session.seed, ratio, &session.stop),
                    interrupted: session.stopped(),
                    ..Outcome::default()
                })
            },
            view::format_tables,
        )
    }
}
