//! `kiln speed --tcrypt`: the tree's own benchmark, its own lines.

use std::io::{self, Write};
use std::path::Path;

use kiln_lab::{read_facts, Error};
use kiln_tree::tcrypt::{self, Request};
use kiln_tree::Plan;

use super::tree::fault;
use crate::progress::Progress;
use crate::session::{Exit, Session};
use crate::tree_args::TreeBuildArgs;

/// Runs it.
pub fn run(
    request: Request,
    dir: &Path,
    build: &TreeBuildArgs,
    session: &Session,
) -> Result<Exit, Error> {
    if let Some(order) = &session.child {
        session.settle();
        tcrypt::measure(order, request).map_err(fault)?;
        return Ok(Exit::Done);
    }
    let (source, compiler, config) = build.resolve(dir)?;
    let version = source.version.to_string();
    let progress = Progress::start();
    let built = kiln_tree::build(&Plan {
        source,
        compiler,
        config,
        seed: session.seed,
        stop: &session.stop,
        progress: &|done, what| progress.report(done, what),
    });
    drop(progress);
    let built = match built {
        Err(kiln_tree::Error::Interrupted) => return Ok(Exit::Interrupted),
        other => other.map_err(fault)?,
    };
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let (json, mut lines) = (session.global.json, 0u64);
    let mut out = io::stdout();
    let outcome = tcrypt::run(
        &built,
        session.seed,
        &arguments,
        &session.stop,
        &mut |line| {
            lines += 1;
            if !json {
                // Who no longer listens sees the exit status.
                let _ = writeln!(out, "{line}");
            }
        },
    );
    let outcome = match outcome {
        Err(kiln_tree::Error::Interrupted) => return Ok(Exit::Interrupted),
        other => other.map_err(fault)?,
    };
    if let Some(crash) = &outcome.fault {
        return Err(Error::Failed(format!(
            "the tree's tcrypt crashed: {}",
            crash.line(&built.image)
        )));
    }
    if let Some(status) = outcome.refused {
        // It has told why on stderr.
        return Ok(Exit::Refused(status));
    }
    if lines == 0 {
        return Err(Error::input(format!(
            "--tcrypt {}: the tcrypt of Linux {version} says nothing to this number: its do_test() has the list",
            request.mode
        )));
    }
    let mut notes = built.notes.clone();
    notes.push(format!("configuration: {}", built.config));
    if json || session.global.out.is_some() {
        session.emit("speed", &read_facts(), &outcome.rows, &notes, String::new)?;
    }
    Ok(Exit::Done)
}
