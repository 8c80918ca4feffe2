//! Kiln's main program. `README.md` describes the behaviour that users and scripts can rely on.
#![forbid(unsafe_code)]

mod cli;
mod completions;
mod defaults;
mod fault;
mod fields;
mod help;
mod man;
mod survey;
mod version;

use std::process::ExitCode;

use cli::Cli;
use defaults::Defaults;
use kiln_question::{enter_directory, Exit, Session};
use kiln_record::Setting;

fn main() -> ExitCode {
    let (cli, defaults) = match read() {
        Ok(read) => read,
        Err(status) => return status,
    };
    let file = cli.command.as_ref().is_some_and(|c| c.writes_a_file());
    let shard = cli.command.as_ref().and_then(|c| c.shard());
    let started = Session::start(version::program(), &cli.global, file, shard, defaults);
    let done = started.and_then(|session| {
        let done = cli::run(cli.command, &session);
        // Ctrl-C in a terminal also interrupts child processes, such as a compiler or a guest.
        // Their failure is then not an error, and must not make git bisect skip the commit.
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

/// Parses the command line, using the defaults from the configuration file. Returns the arguments,
/// and the settings from the file that the run uses.
fn read() -> Result<(Cli, Vec<Setting>), ExitCode> {
    let parse = |defaults: &Defaults| Cli::read(defaults).map_err(|e| fault::report_arguments(&e));
    // Parse the command line without defaults first, because it may name the configuration file.
    let (cli, matches) = parse(&Defaults::default())?;
    let report = |e| fault::report(&e);
    enter_directory(&cli.global).map_err(report)?;
    let defaults = Defaults::find(&cli.global).map_err(report)?;
    let (mut cli, _) = parse(&defaults)?;
    let records = cli.command.as_ref().is_none_or(|c| c.writes_records());
    let used = defaults.complete(&mut cli.global, &matches, records);
    Ok((cli, used.map_err(report)?))
}
