//! Defines the arguments of `kiln linux dkms`, and runs the command.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use kiln_linux::dkms;
use kiln_linux::module;
use kiln_question::{read_facts, table, Error, Exit, Progress, Question, RowType, Session};

use super::fidelity_view;
use super::qemu_args::QemuArgs;

/// Test IPsec and dm-crypt in a stock kernel, with and without kiln-crypto-dkms
///
/// Boots a stock x86-64 kernel under QEMU with the module of the package kiln-crypto-dkms. On one
/// CPU, packets pass through IPsec between network namespaces while dm-crypt writes to a disk.
/// Every byte that is received or read back is checked.
#[derive(Args)]
#[command(after_long_help = "\
Packets are sent in two IPsec modes: transport, in which softirqs only
decrypt, and tunnel, in which softirqs encrypt and decrypt. Each mode runs
with AES-GCM, and with AES-CBC plus HMAC-SHA-256. These four workloads run
first with Linux's own drivers, then with Kiln's drivers (module parameter
prefer=1). A timer's softirq sends the packets in bursts, and often
interrupts an FPU section of dm-crypt. Finally, the module is repeatedly
loaded, used and unloaded while packets and disk writes continue (--cycles).

Before these workloads, three properties of the module are checked. The
module can be unloaded after it served the boot's first security association.
Without the parameter prefer=1, Linux's drivers keep the highest priorities.
If the parameters match no driver, the module refuses to load.

--sections N adds a workload that needs no network: the mode 'timer'. This
workload ends after N nested FPU sections. A task encrypts and decrypts
sectors of 4 KiB (XTS) and messages of up to 4 KiB (ChaCha20-Poly1305). A
timer interrupts the task, and the timer's softirq encrypts or decrypts 1 to
8 messages of 40 to 1372 bytes (AES-GCM or ChaCha20-Poly1305). All results
are compared with reference results, which were computed before the timer
started.

Controls (first a planted fault, then the effect that this fault must have):
  one bit of a known answer is wrong: the drivers with this known answer must
    not appear in /proc/crypto
  registers are not saved: damage must be found in packets or on the disk, in
    the registers of a program, and in the workload 'timer'
  the self-test of nested sections fails: nested sections must be turned off
  the kernel's random number generator gets Kiln's driver: unloading the
    module must fail
  one mistake for each error detector that the kernel was built with, such as
    PROVE_LOCKING, KASAN or KCSAN: the kernel must report every mistake

The programs ip, tc and dmsetup are copied from this machine into the guest.

By default, the module is built on this machine from the package's sources.
With --system, apt-get installs the package in the guest, and DKMS builds the
module there; this takes many minutes under QEMU's translator. After the
workloads, the package is removed, and must not leave a file. --system needs
mke2fs, and root rights to read the files of the system in DIR. It also
copies mount, cp, chroot and xz from this machine into the guest.

The planned duration of a boot in seconds is
10 * (SECONDS + 20) + 20 * CYCLES + SECTIONS / 1000 + 120;
--system adds 3600. Kiln kills a boot that has run for --limit seconds longer
than the planned duration.

Exit status:
  1 if one of these happened:
    a byte was wrong, or the kernel reported a fault
    in an IPsec workload with the module, a packet was lost or a request was
      deferred to cryptd
    a control did not have the effect that is described above
    a workload did not run, or ended before it reached --sections or --cycles
    the IPsec workloads with the module opened fewer than 100 nested sections
      in total
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
    /// Duration of each IPsec workload in seconds; each pair of mode and algorithm is one workload
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Number of times to load, use and unload the module while packets and disk writes continue
    #[arg(long, value_name = "CYCLES", default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    cycles: u32,
    /// Also run the workload 'timer', which needs no network, until this many nested FPU sections
    /// were opened; 0 omits this workload
    #[arg(long, value_name = "SECTIONS", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(0..=1_000_000_000))]
    sections: u64,
    /// In the guest, install the package with apt-get in a copy of the Debian system in DIR. DIR
    /// must contain a whole system, including DKMS and the kernel's headers
    #[arg(long, value_name = "DIR", requires = "package")]
    system: Option<PathBuf>,
    /// With --system: the package file to install, which packaging/dkms.sh creates
    #[arg(long, value_name = "DEB", requires = "system")]
    package: Option<PathBuf>,
}

/// Number of loads per boot, each of which takes `--seconds`. Both modes are tested with both
/// algorithms, once with Linux's drivers and once with Kiln's, which makes eight loads. The control
/// takes twice as long, so it counts as two. If this number changes, also change the formula for
/// the planned time in the help text.
const LOADS: u64 = 10;
/// Time in seconds to set up a load and to wait for its last packets on a slow host.
const LOAD_SECS: u64 = 20;
/// Time in seconds per cycle of loading, using and unloading the module.
const CYCLE_SECS: u64 = 20;
/// Lowest expected number of nested sections per second in mode `timer`. QEMU's translator reaches
/// it even on a busy machine.
const SECTIONS_PER_SEC: u64 = 1000;
/// Time in seconds to load the module with various parameters.
const PARAMETERS_SECS: u64 = 120;
/// Time in seconds to install and remove the package. This includes compiling the module in the
/// guest, possibly under QEMU's translator.
const INSTALL_SECS: u64 = 3600;

impl Question for DkmsArgs {
    const NAME: &'static str = "linux-dkms";

    fn row_types() -> Vec<RowType> {
        vec![RowType::at::<dkms::Row>(75)]
    }

    fn run(&self, session: &Session) -> Result<Exit, Error> {
        for (flag, path) in [("--system", &self.system), ("--package", &self.package)] {
            if let Some(path) = path.as_ref().filter(|path| !path.exists()) {
                return Err(Error::input(format!(
                    "{flag} '{}': No such file or directory: see 'kiln linux dkms --help'",
                    path.display()
                )));
            }
        }
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
