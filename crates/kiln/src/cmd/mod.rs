//! One file per command: its arguments, and what it does with them.

pub mod budget;
pub mod compare;
pub mod compilers;
mod compilers_explain;
pub mod completions;
mod constant_time;
pub mod crypt;
pub mod ctrlq;
pub mod fpu;
pub mod hosted;
pub mod ipsec;
pub mod linux;
pub mod list;
pub mod man;
pub mod report;
pub mod self_check;
pub mod serve;
pub mod speed;
pub mod survey;
pub mod tcrypt;
pub mod test;
mod test_tree;
pub mod tree;
pub mod via;
pub mod virtio_check;

use std::time::Duration;

use kiln_lab::{read_facts, Error};
use kiln_measure::CoreList;

use crate::cli::Command;
use crate::progress::Progress;
use crate::session::{Exit, Session};

/// Runs the command; without one, the survey.
pub fn run(command: Option<Command>, session: &Session) -> Result<Exit, Error> {
    match command {
        None => survey::run(&survey::SurveyArgs::default(), session),
        Some(Command::Survey(args)) => survey::run(&args, session),
        Some(Command::List(args)) => list::run(&args, session),
        Some(Command::Speed(args)) => speed::run(&args, session),
        Some(Command::Fpu(args)) => fpu::run(&args, session),
        Some(Command::Ipsec(args)) => ipsec::run(&args, session),
        Some(Command::Budget(args)) => budget::run(&args, session),
        Some(Command::Compare(args)) => compare::run(&args, session),
        Some(Command::Compilers(args)) => compilers::run(&args, session),
        Some(Command::Tree(args)) => tree::run(&args, session),
        Some(Command::Test(args)) if args.constant_time => constant_time::run(&args, session),
        Some(Command::Test(args)) => run_test(&args, session),
        Some(Command::Crypt(args)) => crypt::run(&args, session),
        Some(Command::Ctrlq(args)) => ctrlq::run(&args, session),
        Some(Command::Linux(args)) => linux::run(&args, session),
        Some(Command::Serve(args)) => serve::run(&args, session),
        Some(Command::VirtioCheck(args)) => virtio_check::run(&args, session),
        Some(Command::Report(args)) => report::run(&args, session),
        Some(Command::SelfCheck(args)) => self_check::run(&args, session),
        Some(Command::Completions(args)) => completions::run(&args, session),
        Some(Command::Man(args)) => man::run(&args, session),
    }
}

/// Of a `--seconds` that bounds a whole command.
pub fn seconds(asked: Option<f64>, least: f64) -> Result<Option<Duration>, Error> {
    match asked {
        Some(s) if !(least..=86_400.0).contains(&s) => Err(Error::input(format!(
            "--seconds {s}: this takes from {least} to 86400"
        ))),
        asked => Ok(asked.map(Duration::from_secs_f64)),
    }
}

/// `test` on all cores there are for it; its record, and how it ended.
fn run_test(args: &test::TestArgs, session: &Session) -> Result<Exit, Error> {
    if let Some(dir) = &args.tree {
        return test_tree::run(args, dir, session);
    }
    if args.build.given() {
        return Err(Error::input(
            "--cc and --config build a tree: name it with --tree DIR",
        ));
    }
    // KTAP lines and a bar on one terminal would run into each other.
    let progress = if session.tty && !session.global.json {
        Progress::none()
    } else {
        Progress::start()
    };
    let done = test::run(
        args,
        &test::Context {
            seed: session.seed,
            quick: session.global.quick,
            json: session.global.json,
            threads: CoreList::allowed().map_or(1, |list| list.cores().len()),
            stop: &session.stop,
            progress: &|n, of| progress.report(n as f64 / of.max(1) as f64, "test"),
        },
    )?;
    drop(progress);
    if session.global.json || session.global.out.is_some() {
        session.emit("test", &read_facts(), &done.rows, &done.notes, String::new)?;
    }
    Ok(if done.failed {
        Exit::Failed
    } else if session.stopped() {
        Exit::Interrupted
    } else {
        Exit::Done
    })
}
