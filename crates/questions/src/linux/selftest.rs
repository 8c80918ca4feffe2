//! `kiln linux selftest`: tests every cipher with Linux's own testmgr, either in a booted kernel or
//! in a hosted tree.

use std::time::Duration;

use clap::Args;
use kiln_linux::selftest::{self, Outcome};
use kiln_linux::{hosted, module};
use kiln_question::{
    read_facts, table, unknown, Error, Exit, Progress, Question, RowType, Session,
};

use super::kernel_args::{build_module, KernelArgs};
use super::seconds::seconds;
use super::view;

/// Test every cipher of Kiln with Linux's own testmgr, including testmgr's random tests
///
/// Boots user mode Linux and loads Kiln's module, which registers every implementation as a driver
/// of Linux's crypto API. Linux's testmgr tests each driver with all of its test vectors, in fixed
/// and random memory layouts, and compares it with Linux's generic code on random messages. With --hosted, no kernel is
/// booted: the tree's crypto code and Kiln's drivers run in a child process, on the emulated CPU.
#[derive(Args)]
#[command(after_long_help = "\
--hosted links Kiln's drivers with the tree's crypto API, testmgr and x86 FPU
core. testmgr runs while interrupts arrive; no kernel is built or booted.
A driver that passes is then also called in softirqs, which interrupt the FPU
sections that the driver opens in a task. A driver that crashes counts as
failed; the other drivers are still tested. With --hosted, Kiln's code
replaces the rest of the kernel, so a boot is the better test of module
loading and memory management. --hosted is the better test of FPU sections:
in user mode Linux, their beginning and end do nothing.

Exit status:
  1 if the result of a driver is 'failed' or 'unknown'

Examples:
  kiln linux selftest --tree ~/linux
  kiln linux selftest 'gcm(aes)' --fuzz 5000
  kiln linux selftest --hosted --tree ~/linux
  kiln linux selftest xts-aes-vaes-avx512 --json | jq '.rows[].selftest'

See also:
  docs/LINUX.md")]
pub(super) struct SelftestArgs {
    #[command(flatten)]
    kernel: KernelArgs,
    /// Test only this algorithm, such as 'xts(aes)', or this implementation, such as xts-aes-aesni
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Number of rounds of each random test [default: 100, as in Linux]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    fuzz: Option<u32>,
    /// Instead of booting a kernel, run the tests in a child process on Kiln's emulated CPU
    #[arg(long, conflicts_with = "limit")]
    hosted: bool,
    /// Kill the booted kernel after this many seconds, even if tests are still running
    #[arg(long, value_name = "SECONDS", default_value_t = 170.0, value_parser = seconds)]
    limit: f64,
}

impl Question for SelftestArgs {
    const NAME: &'static str = "linux-selftest";

    fn row_types() -> Vec<RowType> {
        vec![RowType::at::<selftest::Row>(73)]
    }

    fn run(&self, session: &Session) -> Result<Exit, Error> {
        let only = self.name.as_deref().map(known).transpose()?;
        if let Some(order) = &session.child {
            hosted::judge(order, only, self.fuzz)?;
            return Ok(Exit::Done);
        }
        let outcome = match self.hosted {
            true => without_boot(self, only, session)?,
            false => with_boot(self, only, session)?,
        };
        let notes = &outcome.notes;
        session.emit::<SelftestArgs, _>(&read_facts(), &outcome.rows, notes, || {
            view::selftest(&outcome.rows) + &table::notes(notes, session.seed)
        })?;
        Ok(Exit::from_run(outcome.failed(), false))
    }
}

fn with_boot(args: &SelftestArgs, only: Option<&str>, session: &Session) -> Result<Outcome, Error> {
    let progress = Progress::start();
    let built = args.kernel.build(session, &progress)?;
    let module = build_module(&built, session, &progress)?;
    let mut outcome = selftest::run(&selftest::Plan {
        built: &built,
        module: &module,
        only,
        fuzz: args.fuzz,
        limit: Duration::from_secs_f64(args.limit),
        stop: &session.stop,
        progress: &|done, what| progress.report(0.95 + done * 0.05, what),
    })?;
    let title = format!("Linux {} by {}", built.version, built.compiler);
    outcome.notes.push(title);
    Ok(outcome)
}

fn without_boot(
    args: &SelftestArgs,
    only: Option<&str>,
    session: &Session,
) -> Result<Outcome, Error> {
    let progress = Progress::start();
    let progress = |done: f64, what: &str| progress.report(done, what);
    let (source, compiler) = args.kernel.resolve(&progress)?;
    let title = format!("Linux {}, hosted, by {compiler}", source.version);
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let mut outcome = hosted::run(&hosted::Plan {
        source,
        compiler,
        edit: &module::unchanged,
        only,
        fuzz: args.fuzz,
        seed: session.seed,
        arguments: &arguments,
        stop: &session.stop,
        progress: &progress,
    })?;
    outcome.notes.push(title);
    Ok(outcome)
}

/// Checks that `name` is one of Kiln's algorithms or drivers. A driver may be given with the prefix
/// that Kiln's drivers have in Linux. The returned name has no prefix.
fn known(name: &str) -> Result<&str, Error> {
    let name = name
        .strip_prefix(kiln_linux::module::PREFIX)
        .unwrap_or(name);
    let all = kiln_kernel::cipher::Impl::all();
    let known: Vec<&str> = all.iter().flat_map(|i| [i.alg(), i.driver()]).collect();
    match known.contains(&name) {
        true => Ok(name),
        false => Err(unknown("algorithm or implementation", name, &known)),
    }
}
