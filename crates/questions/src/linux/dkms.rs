//! The arguments of `kiln linux dkms`, and the function that runs the command.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use kiln_linux::dkms;
use kiln_linux::module;
use kiln_question::{read_facts, table, Error, Exit, Progress, Question, RowType, Session};

use super::fidelity_view;
use super::qemu_args::QemuArgs;

/// IPsec and dm-crypt in a stock kernel, with and without the kiln-crypto-dkms module
///
/// Boots a stock x86-64 kernel under QEMU with the module that the package builds. On one CPU,
/// packets pass through IPsec between network namespaces while dm-crypt writes; every byte is
/// compared.
#[derive(Args)]
#[command(after_long_help = "\
Two modes (transport, in which a softirq decrypts; tunnel, in which softirqs
encrypt and decrypt) and two algorithms (AES-GCM; AES-CBC with HMAC-SHA-256),
first with Linux's own drivers and then with Kiln's (prefer=1). Packets move on
in bursts, in the softirq of a timer's interrupt, which often interrupts an FPU
section of dm-crypt. Finally the module is loaded, used and unloaded again and
again under load. Before the loads it must unload after the boot's first
security association, leave Linux's drivers their place without prefer=1, and
refuse parameters that name no driver.

--sections counts nested sections of another load (mode timer), which has no
network: a task encrypts and decrypts sectors (XTS) and messages (ChaCha20-
Poly1305) of up to 4 KiB. A timer interrupts it, and its softirq encrypts and
decrypts 1 to 8 messages of 40 to 1372 bytes (AES-GCM or ChaCha20-Poly1305).
Each result is compared with one that was computed before the timer started.

Controls: a module with one wrong bit in a known answer must not offer that
driver; one that does not save registers must be found out, on the disk, in a
program's registers and in the mode timer; one whose self-test of nested
sections fails must give them up; and one that leaves the kernel's random
number generator to itself must fail to unload. Last, the guest makes one
mistake per detector that the kernel was built with (PROVE_LOCKING, KASAN,
KCSAN and others), and the kernel must report each.

The programs ip, tc and dmsetup are copied from this machine.

The module is built on this machine from the package's sources. With --system,
apt-get and DKMS install the package in the guest and build the module there,
which takes minutes if QEMU translates; after the loads the package is removed,
and must leave no file. --system needs root, to read the system's files, and
mke2fs; mount, cp, chroot and xz are copied from this machine, too.

The boot is killed --limit seconds after its planned time, which is
10 * (SECONDS + 20) + 20 * CYCLES + SECTIONS / 1000 + 120 seconds, and 3600
more with --system.

Exit status:
  1 if a byte was wrong, or a packet was lost or deferred to cryptd in
    spite of the module, or the kernel reported a fault, or a control found
    nothing, or a load did not run, or there were fewer than 100 nested
    sections, or fewer sections or cycles than asked for, or a driver was
    missing or had not passed its self-test, or the module did not load or
    unload as above, or with --system DKMS did not install it or the removed
    package left a file

Examples:
  kiln linux dkms
  kiln linux dkms --debian 6.1 --seconds 60 --cycles 100
  kiln linux dkms --debian 6.1 --sections 10000000
  kiln linux dkms --debian 6.1 --system ROOT --package kiln-crypto-dkms.deb

See also:
  docs/MODULE.md")]
pub(super) struct DkmsArgs {
    #[command(flatten)]
    qemu: QemuArgs,
    /// Seconds per mode and algorithm
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Number of times to load, use and unload the module under load
    #[arg(long, value_name = "CYCLES", default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    cycles: u32,
    /// Number of nested sections that a timer's softirqs open, without a network; 0: none
    #[arg(long, value_name = "SECTIONS", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(0..=1_000_000_000))]
    sections: u64,
    /// The root directory of a Debian system that has DKMS and the kernel's headers: apt-get
    /// installs the package there, in the guest
    #[arg(long, value_name = "DIR", requires = "package")]
    system: Option<PathBuf>,
    /// The package file that packaging/dkms.sh creates
    #[arg(long, value_name = "DEB", requires = "system")]
    package: Option<PathBuf>,
}

/// Number of loads per boot: two modes and two algorithms, each combination measured twice, plus
/// the control, which takes twice as long. The help text contains the formula for the planned time.
const LOADS: u64 = 10;
/// Time in seconds to set up a load and to wait for its last packets on a slow host. The next
/// constant is the time per cycle.
const LOAD_SECS: u64 = 20;
const CYCLE_SECS: u64 = 20;
/// Minimum number of nested sections per second in mode `timer`, even under the translator on a
/// busy machine.
const SECTIONS_PER_SEC: u64 = 1000;
/// Time in seconds to load the module with various parameters.
const PARAMETERS_SECS: u64 = 120;
/// Time in seconds to install and remove the package. This includes compiling the module in the
/// guest, possibly under the translator.
const INSTALL_SECS: u64 = 3600;

impl Question for DkmsArgs {
    const NAME: &'static str = "linux-dkms";

    fn row_types() -> Vec<RowType> {
        vec![RowType::at::<dkms::Row>(75)]
    }

    fn run(&self, session: &Session) -> Result<Exit, Error> {
        let progress = Progress::start();
        let (kernel, compiler) = self.qemu.find(&progress)?;
        let building = |what: &str| progress.report(0.05, what);
        let built = dkms::Built {
            package: &module::for_package(&kernel.headers, &compiler, &session.stop, &building)?,
            controls: &module::for_headers(&kernel.headers, &compiler, &session.stop, &building)?,
        };
        let report = |done: f64, what: &str| progress.report(done, what);
        let mut plan = self.qemu.plan(&kernel, &compiler, session, &report);
        let loads = LOADS * (u64::from(self.seconds) + LOAD_SECS);
        let cycles = CYCLE_SECS * u64::from(self.cycles);
        let sections = self.sections / SECTIONS_PER_SEC;
        plan.limit += Duration::from_secs(loads + cycles + sections + PARAMETERS_SECS);
        let system = self.system.as_deref().zip(self.package.as_deref());
        let system = system.map(|(root, package)| dkms::System { root, package });
        if system.is_some() {
            plan.limit += Duration::from_secs(INSTALL_SECS);
        }
        let load = dkms::Load {
            seconds: self.seconds,
            cycles: self.cycles,
            sections: self.sections,
        };
        let outcome = dkms::run(&plan, &built, system.as_ref(), &load)?;
        drop(progress);
        let mut notes = outcome.findings.clone();
        notes.extend(outcome.notes);
        let rows = &outcome.rows;
        session.emit::<DkmsArgs, _>(&read_facts(), rows, &notes, || {
            fidelity_view::dkms(rows) + &table::notes(&notes, session.seed)
        })?;
        Ok(Exit::from_run(
            !outcome.findings.is_empty(),
            outcome.interrupted,
        ))
    }
}
