//! `kiln compare`.

use std::path::PathBuf;

use clap::Args;
use kiln_lab::compare::{self, Side};
use kiln_lab::record::Facts;
use kiln_lab::Error;

use crate::fault;
use crate::session::{Exit, Session};
use crate::table;

/// What changed between two records beyond the noise, worst first.
#[derive(Args)]
#[command(after_help = "\
A record is what --json printed or --out wrote. Rows are matched by what they
are of (algorithm, implementation, length, ...). Row fields: key, unit, a, b,
ratio (of costs, B over A: above 1, B is slower), ci_low, ci_high, verdict.

Exit status 1 if B is slower by more than --max-regression allows, the whole
interval beyond it, or has no figure where A has one. With --bisect the status
is 125 if a side cannot be built or tried, as git bisect run wants it.

Examples:
  kiln speed --json > before.json; ...; kiln speed --json > after.json
  kiln compare before.json after.json --max-regression 5")]
pub struct CompareArgs {
    /// What is compared with
    #[arg(value_name = "A")]
    a: PathBuf,
    /// What is judged
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Exit status 1 if B is slower by more than this, beyond the noise
    #[arg(long, value_name = "PCT", allow_negative_numbers = true)]
    max_regression: Option<f64>,
    /// Exit status 125 if a side cannot be built or tried
    #[arg(long)]
    bisect: bool,
}

/// Runs it.
pub fn run(args: &CompareArgs, session: &Session) -> Result<Exit, Error> {
    if let Some(percent) = args.max_regression {
        if !(0.0..=10_000.0).contains(&percent) {
            return Err(Error::input(format!(
                "--max-regression {percent}: per cent, 0 or more"
            )));
        }
    }
    let (a, b) = match sides(args) {
        Ok(sides) => sides,
        Err(e) if args.bisect => {
            fault::tell(&e);
            return Ok(Exit::Untried);
        }
        Err(e) => return Err(e),
    };
    let outcome = compare::compare(&a, &b, args.max_regression);
    session.emit(
        "compare",
        &Facts::read(),
        &outcome.rows,
        &outcome.notes,
        || {
            format!(
                "A  {}\nB  {}\n\n{}\n{}",
                a.name,
                b.name,
                table::compare::rows(&outcome.rows, false),
                table::notes(&outcome.notes, session.seed)
            )
        },
    )?;
    Ok(match outcome.failed {
        true => Exit::Failed,
        false => Exit::Done,
    })
}

fn sides(args: &CompareArgs) -> Result<(Side, Side), Error> {
    Ok((Side::read(&args.a)?, Side::read(&args.b)?))
}
