//! The main program of Kiln. `README.md` describes what users and scripts may rely on.
#![forbid(unsafe_code)]

mod cli;
mod completions;
mod fault;
mod fields;
mod help;
mod man;
mod survey;
mod version;

use std::process::ExitCode;

use cli::Cli;
use kiln_question::{Exit, Session};

fn main() -> ExitCode {
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(e) => return fault::report_arguments(&e),
    };
    let file = cli.command.as_ref().is_some_and(|c| c.writes_a_file());
    let shard = cli.command.as_ref().and_then(|c| c.shard());
    let started = Session::start(version::program(), &cli.global, file, shard);
    let done = started.and_then(|session| {
        let done = cli::run(cli.command, &session);
        // A terminal's Ctrl-C also reaches child processes. If it ended a compiler or a guest, this
        // is not an error, and git bisect must not skip the commit because of it.
        match done {
            Err(_) | Ok(Exit::Untried | Exit::Refused(_)) if session.stopped() => {
                Ok(Exit::Interrupted)
            }
            done => done,
        }
    });
    match done {
        Ok(exit) => exit.into(),
        Err(e) => fault::report(&e),
    }
}
