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
/// Boots a stock x86-64 kernel under QEMU with the module of the package kiln-crypto-dkms. On one
/// CPU, packets pass through IPsec between network namespaces while dm-crypt writes to a disk.
/// Every byte that is received or read back is checked.
#[derive(Args)]
#[command(after_long_help = "\
The load has two IPsec modes: transport, in which softirqs only decrypt, and
tunnel, in which softirqs encrypt and decrypt. Each mode runs with AES-GCM,
and with AES-CBC plus HMAC-SHA-256. All four loads first use Linux's own
drivers, then Kiln's (prefer=1). A timer's softirq sends the packets in
bursts, and often interrupts an FPU section of dm-crypt. Finally, the module
is repeatedly loaded, used and unloaded while packets and disk writes
continue (--cycles).

Before these loads, three properties of the module are checked. It can be
unloaded after the first security association of the boot. Without prefer=1,
Linux's drivers keep the highest priorities. Parameters that match no driver
are refused.

--sections N adds a load without a network (mode timer), which ends after N
nested sections. A task encrypts and decrypts sectors of 4 KiB (XTS) and
messages of up to 4 KiB (ChaCha20-Poly1305). A timer interrupts the task, and
the timer's softirq encrypts or decrypts 1 to 8 messages of 40 to 1372 bytes
(AES-GCM or ChaCha20-Poly1305). All results are compared with results from
before the timer's start.

Controls (modules with a planted fault that must be noticed):
  one bit of a known answer is wrong: its driver must not be offered
  registers are not saved: damage must be found on the disk, in the registers
    of a program, and in mode timer
  the self-test of nested sections fails: they must be switched off
  the kernel's random number generator gets Kiln's driver: the module must
    fail to unload
  one mistake per detector that the kernel was built with (PROVE_LOCKING,
    KASAN, KCSAN and others): the kernel must report each

The programs ip, tc and dmsetup are copied from this machine.

The module is built on this machine from the package's sources. But with
--system, apt-get installs the package in the guest, and DKMS builds the
module there, which takes many minutes under QEMU's translator. After the
loads, the package is removed, and must not leave a file. --system needs
mke2fs, and root rights to read the system's files. It also copies mount, cp,
chroot and xz from this machine.

A boot is planned to take 10 * (SECONDS + 20) + 20 * CYCLES + SECTIONS / 1000 +
120 seconds, and 3600 more with --system. If it takes --limit seconds longer
than planned, it is killed.

Exit status:
  1 if one of these happened:
    a byte was wrong, or the kernel reported a fault
    with the module, a packet was lost or deferred to cryptd
    a control's fault was not noticed
    a load did not run, or ended before --sections or --cycles was reached
    IPsec with the module opened fewer than 100 nested sections
    a driver was missing, or had not passed its self-test
    the module did not load or unload as described above
    with --system, DKMS did not install the module, or files of the removed
      package remained

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
    /// Seconds that the load runs for each mode and algorithm
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Number of times to load, use and unload the module while packets and disk writes continue
    #[arg(long, value_name = "CYCLES", default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    cycles: u32,
    /// Number of nested sections in the load without a network (mode timer); 0 omits this load
    #[arg(long, value_name = "SECTIONS", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(0..=1_000_000_000))]
    sections: u64,
    /// Root directory of a Debian system with DKMS and the kernel's headers; the guest gets a copy,
    /// in which apt-get installs the package
    #[arg(long, value_name = "DIR", requires = "package")]
    system: Option<PathBuf>,
    /// With --system: the package file to install, which packaging/dkms.sh creates
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
