//! The command line of Kiln. What users and scripts may rely on is in `README.md`.
#![forbid(unsafe_code)]

mod cli;
mod cmd;
mod fault;
mod help;
mod output;
mod progress;
mod session;
mod table;
mod tree_args;

use std::process::ExitCode;

use clap::Parser;

use cli::Cli;
use session::Session;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => return fault::of_arguments(&e),
    };
    let done = Session::start(&cli.global).and_then(|session| cmd::run(cli.command, &session));
    match done {
        Ok(exit) => exit.into(),
        Err(e) => fault::report(&e),
    }
}
