//! Tests nested FPU sections in a real kernel for `kiln linux nested`.

use clap::Args;
use kiln_linux::fidelity::nested;
use kiln_linux::module;
use kiln_question::{read_facts, table, Error, Exit, Progress, Question, RowType, Session};

use super::fidelity_view;
use super::qemu_args::QemuArgs;

/// Test Kiln's drivers in softirqs that interrupt FPU sections, in a stock kernel under QEMU
///
/// Boots a stock x86-64 kernel under QEMU with Kiln's module, and checks that no register content
/// is lost. A softirq that has interrupted an FPU section calls one of the module's drivers. The
/// driver saves the registers of the interrupted section, and later restores them.
#[derive(Args)]
#[command(after_long_help = "\
Everything runs on one CPU. Threads encrypt with Linux's own drivers, while a
timer's softirq and a tasklet encrypt with Kiln's drivers. Each ciphertext is
compared with a ciphertext that was computed before the test. The modes are:
  saved     Kiln's drivers save the registers of the interrupted section
  scalar    in a softirq that interrupted a section, Kiln's drivers do not
            use SIMD
  unsaved   the control: Kiln's drivers save no registers, so ciphertexts of
            the threads must be wrong
Each mode runs twice: in the first run, the threads encrypt with AES-XTS
(AES-NI); in the second, with ChaCha20.

Exit status:
  1 if registers were lost, if too few nested sections were opened to judge,
    or if the control, which saves no registers, showed no wrong result

Examples:
  kiln linux nested
  kiln linux nested --debian 6.1 --seconds 60

See also:
  docs/LINUX.md")]
pub(super) struct NestedArgs {
    #[command(flatten)]
    qemu: QemuArgs,
    /// Duration of each run in seconds; each of the three modes runs twice
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=120))]
    seconds: u32,
}

impl Question for NestedArgs {
    const NAME: &'static str = "linux-nested";

    fn row_types() -> Vec<RowType> {
        vec![RowType::at::<nested::Row>(71)]
    }

    fn run(&self, session: &Session) -> Result<Exit, Error> {
        let progress = Progress::start();
        let (kernel, compiler) = self.qemu.find(&progress)?;
        let module = module::for_headers(&kernel.headers, &compiler, &session.stop, &|what| {
            progress.report(0.05, what);
        })?;
        let report = |done: f64, what: &str| progress.report(done, what);
        let mut plan = self.qemu.plan(&kernel, &compiler, session, &report);
        // Each of the three modes runs once with each of two sets of drivers.
        plan.limit += std::time::Duration::from_secs(6 * u64::from(self.seconds));
        let outcome = nested::run(&plan, &module, self.seconds * 1000)?;
        drop(progress);
        let mut notes = outcome.findings.clone();
        notes.extend(outcome.notes);
        let rows = &outcome.rows;
        session.emit::<NestedArgs, _>(&read_facts(), rows, &notes, || {
            fidelity_view::nested(rows) + &table::notes(&notes, session.seed)
        })?;
        Ok(Exit::from_run(!outcome.findings.is_empty(), false))
    }
}
