//! `kiln linux selftest`.

use std::time::Duration;

use clap::Args;
use kiln_lab::record::Facts;
use kiln_linux::selftest;

use super::{build_module, Fault, KernelArgs};
use crate::progress::Progress;
use crate::session::{Exit, Session};
use crate::table;

/// Boots user mode Linux and loads Kiln's module: every implementation becomes a driver of the real crypto API, and the
/// real testmgr tests it: all vectors, random layouts, and random messages against Linux's own generic code.
#[derive(Args)]
#[command(after_help = "\
Rows: driver, alg, tier, selftest (passed, failed, untested, absent, unknown),
reason. 'untested' is what Linux has no test for, 'absent' what this CPU cannot run:
neither is proven by this. Exit status 1 if a driver failed or nobody knows.

Examples:
  kiln linux selftest --tree ~/linux
  kiln linux selftest 'gcm(aes)' --fuzz 5000
  kiln linux selftest xts-aes-vaes-avx512 --json | jq '.rows[].selftest'")]
pub struct SelftestArgs {
    #[command(flatten)]
    kernel: KernelArgs,
    /// Only this: an algorithm, such as 'xts(aes)', or an implementation, such as xts-aes-aesni
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Rounds of each random test [default: Linux's own, 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    fuzz: Option<u32>,
    /// Kill the boot after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 170.0, value_parser = super::seconds)]
    limit: f64,
}

/// Runs it.
pub fn run(args: &SelftestArgs, session: &Session) -> Result<Exit, Fault> {
    let only = args.name.as_deref().map(known).transpose()?;
    let progress = Progress::start();
    let built = args.kernel.build(session, &progress)?;
    let module = build_module(&built, session, &progress)?;
    let outcome = selftest::run(&selftest::Plan {
        built: &built,
        module: &module,
        only,
        fuzz: args.fuzz,
        limit: Duration::from_secs_f64(args.limit),
        stop: &session.stop,
        progress: &|done, what| progress.report(0.95 + done * 0.05, what),
    })?;
    drop(progress);
    let mut notes = outcome.notes.clone();
    notes.push(format!("Linux {} by {}", built.version, built.compiler));
    session.emit(
        "linux-selftest",
        &Facts::read(),
        &outcome.rows,
        &notes,
        || table::linux::selftest(&outcome.rows) + &table::notes(&notes, session.seed),
    )?;
    Ok(match outcome.failed() {
        true => Exit::Failed,
        false => Exit::Done,
    })
}

/// With or without the prefix it has in Linux.
fn known(name: &str) -> Result<&str, kiln_lab::Error> {
    let name = name
        .strip_prefix(kiln_linux::module::PREFIX)
        .unwrap_or(name);
    let all = kiln_kernel::cipher::Impl::all();
    match all.iter().any(|i| i.alg() == name || i.driver() == name) {
        true => Ok(name),
        false => Err(kiln_lab::Error::input(format!(
            "'{name}' is no algorithm and no implementation: 'kiln list' names them"
        ))),
    }
}
