//! `kiln linux fidelity`.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use kiln_lab::{read_facts, Error};
use kiln_linux::debian;
use kiln_linux::fidelity::compare;
use kiln_record::Facts;

use super::qemu_args::QemuArgs;
use super::Fault;
use crate::progress::Progress;
use crate::session::{Exit, Session};
use crate::table;

/// Where records are, from the top of a checkout.
const RECORDS: &str = "linux/records";

/// The emulated CPU compared with a real kernel's ring 0, question by question
///
/// Boots a stock x86-64 kernel under QEMU, puts questions to its ring 0 and the same ones to the emulated CPU, and
/// compares the answers one by one.
#[derive(Args)]
#[command(after_long_help = "\
Asked: where the FPU is usable, when softirqs run, what cryptd and the simd
helper answer and in what order. Kernels before 6.15 are compared with the
policy legacy, later ones with bh-off.

Row fields (--json):
  kind (answer, cost), kernel, cpu, accel, policy, number, question, asked,
  real, emulated, agree, cycles_min, cycles, kiln_cycles, ratio and kiln_ratio
  (helper over direct)

Exit status:
  1 if an answer differs

Examples:
  kiln linux fidelity
  kiln linux fidelity --debian 6.1 --accel tcg
  kiln linux fidelity --kernel arch/x86/boot/bzImage --headers .
  kiln linux fidelity --record    renew linux/records/6.12.json

See also:
  docs/LINUX.md, docs/EMULATION.md")]
pub struct FidelityArgs {
    #[command(flatten)]
    qemu: QemuArgs,
    /// Write the record VERSION.json, to which the tests hold the emulated CPU
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = RECORDS)]
    record: Option<PathBuf>,
}

/// Runs it.
pub fn run(args: &FidelityArgs, session: &Session) -> Result<Exit, Fault> {
    if let Some(dir) = args.record.as_deref().filter(|d| !d.is_dir()) {
        return Err(Error::input(format!(
            "--record: '{}' is no directory: run it at the top of Kiln's checkout, or name one",
            dir.display()
        ))
        .into());
    }
    let progress = Progress::start();
    let (kernel, compiler) = args.qemu.find(&progress)?;
    let report = |done: f64, what: &str| progress.report(done, what);
    let outcome = compare::run(&args.qemu.plan(&kernel, &compiler, session, &report))?;
    drop(progress);
    let facts = read_facts();
    if let Some(dir) = &args.record {
        write(
            dir,
            &debian::version(&kernel.release),
            session,
            &facts,
            &outcome,
        )?;
    }
    let (rows, notes) = (&outcome.rows, &outcome.notes);
    session.emit("linux-fidelity", &facts, rows, notes, || {
        table::linux_fidelity::all(rows) + &table::notes(notes, session.seed)
    })?;
    Ok(match rows.iter().any(|r| r.agree == Some(false)) {
        true => Exit::Failed,
        false => Exit::Done,
    })
}

fn write(
    dir: &Path,
    version: &str,
    session: &Session,
    facts: &Facts,
    outcome: &compare::Outcome,
) -> Result<(), Error> {
    let record = session.record("linux-fidelity", facts, &outcome.rows, &outcome.notes);
    let path = dir.join(format!("{version}.json"));
    fs::write(&path, record.to_json()).map_err(|e| {
        Error::input(format!(
            "--record: cannot write '{}': {e}: name a directory you may write to",
            path.display()
        ))
    })
}
