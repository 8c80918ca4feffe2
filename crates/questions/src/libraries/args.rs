//! The arguments of `kiln libraries`, and the function that runs the command.

use clap::{Args, Subcommand};
use kiln_question::{Error, Exit, Outcome, Question, RowType, Session};

use super::install_args::InstallArgs;
use super::row::{list_libraries, Row};
use super::view;

/// Show which crypto libraries are installed, and how to get current versions
///
/// Lists the libraries that 'kiln speed' can measure. Each library is listed with the version to be
/// measured, the year in which that release series began, its file, and how to get the current
/// version. Nothing is downloaded.
#[derive(Args)]
#[command(after_long_help = "\
'kiln speed' uses the newest version of a library that it finds in Kiln's
cache or on the system. 'kiln libraries install' fills the cache and needs
no root.

Environment:
  KILN_OPENSSL=FILE          the libcrypto to use; likewise KILN_LIBGCRYPT,
                             KILN_NETTLE, KILN_IPSEC_MB and KILN_AWS_LC
  XDG_CACHE_HOME=DIR         the cache [default: ~/.cache]

Examples:
  kiln libraries
  kiln libraries --json | jq '.rows[] | {name, version, year, file}'

See also:
  docs/METHODOLOGY.md, docs/INSTALL.md")]
pub struct LibrariesArgs {
    #[command(subcommand)]
    command: Option<LibrariesCommand>,
}

#[derive(Subcommand)]
enum LibrariesCommand {
    Install(InstallArgs),
}

impl Question for LibrariesArgs {
    const NAME: &'static str = "libraries";

    fn row_types() -> Vec<RowType> {
        vec![RowType::at::<Row>(121)]
    }

    fn run(&self, session: &Session) -> Result<Exit, Error> {
        match &self.command {
            Some(LibrariesCommand::Install(args)) => args.run(session),
            None => session.answer::<Self, _>(
                |_, _| {
                    Ok(Outcome {
                        rows: list_libraries(),
                        ..Outcome::default()
                    })
                },
                view::format_table,
            ),
        }
    }
}
