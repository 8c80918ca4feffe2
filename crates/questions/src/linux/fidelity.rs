//! Compares the emulated CPU with a real kernel for `kiln linux fidelity`.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use kiln_linux::debian;
use kiln_linux::fidelity::compare;
use kiln_linux::fidelity::row::Row;
use kiln_question::{read_facts, table, Error, Exit, Progress, Question, RowType, Session};
use kiln_record::Facts;

use super::fidelity_view;
use super::qemu_args::QemuArgs;

/// Directory in Kiln's repository that contains the records.
const RECORDS: &str = "linux/records";

/// Compare Kiln's emulated CPU with a real kernel in ring 0
///
/// Boots a stock x86-64 kernel under QEMU, with a module that asks questions in ring 0, such as: is
/// the FPU usable in a softirq? Kiln's emulated CPU is asked the same questions, and each pair of
/// answers is compared.
#[derive(Args)]
#[command(after_long_help = "\
The questions ask in which contexts the FPU is usable, and when softirqs run.
For kernels before 6.15, further questions ask at what time and in what order
requests to the simd helper and to cryptd complete. To answer for a kernel
before 6.15, the emulated CPU uses Kiln's FPU policy 'legacy'; for 6.15 and
later kernels, it uses the policy 'bh-off'.

Exit status:
  1 if the answers to a question differ, or the real kernel does not answer

Examples:
  kiln linux fidelity
  kiln linux fidelity --debian 6.1 --accel tcg
  kiln linux fidelity --kernel arch/x86/boot/bzImage --headers .
  kiln linux fidelity --record    renew linux/records/6.12.json

See also:
  docs/LINUX.md, docs/EMULATION.md")]
pub(super) struct FidelityArgs {
    #[command(flatten)]
    qemu: QemuArgs,
    /// Also write the results to DIR/VERSION.json, such as 6.12.json; without DIR, to
    /// linux/records. Kiln's own tests compare the emulated CPU with these files
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = RECORDS)]
    record: Option<PathBuf>,
}

impl Question for FidelityArgs {
    const NAME: &'static str = "linux-fidelity";

    fn row_types() -> Vec<RowType> {
        vec![RowType::at::<Row>(70)]
    }

    fn run(&self, session: &Session) -> Result<Exit, Error> {
        if let Some(dir) = self.record.as_deref().filter(|d| !d.is_dir()) {
            return Err(Error::input(format!(
                "--record: '{}' is not a directory: run it at the top of Kiln's checkout, or name one",
                dir.display()
            )));
        }
        let progress = Progress::start();
        let (kernel, compiler) = self.qemu.find(&progress)?;
        let report = |done: f64, what: &str| progress.report(done, what);
        let outcome = compare::run(&self.qemu.plan(&kernel, &compiler, session, &report))?;
        drop(progress);
        let facts = read_facts();
        if let Some(dir) = &self.record {
            write(
                dir,
                &debian::version(&kernel.release),
                session,
                &facts,
                &outcome,
            )?;
        }
        let (rows, notes) = (&outcome.rows, &outcome.notes);
        session.emit::<FidelityArgs, _>(&facts, rows, notes, || {
            fidelity_view::format_tables(rows) + &table::notes(notes, session.seed)
        })?;
        let differs = rows.iter().any(|r| r.agree == Some(false));
        Ok(Exit::from_run(differs, false))
    }
}

fn write(
    dir: &Path,
    version: &str,
    session: &Session,
    facts: &Facts,
    outcome: &compare::Outcome,
) -> Result<(), Error> {
    let record = session.record::<FidelityArgs, _>(facts, &outcome.rows, &outcome.notes);
    let path = dir.join(format!("{version}.json"));
    fs::write(&path, record.to_json()).map_err(|e| {
        Error::input(format!(
            "--record: cannot write '{}': {e}: name a directory you may write to",
            path.display()
        ))
    })
}
