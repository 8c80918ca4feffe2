//! Tests Linux's virtio_crypto driver for `kiln linux virtio`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use kiln_linux::debian::{self, Kernel};
use kiln_linux::qemu::{self, Accel};
use kiln_linux::virtio::{self, Device, Guest, Outcome, Row};
use kiln_question::{read_facts, table, Error, Exit, Progress, Question, RowType, Session};

use super::kernel_args::KernelArgs;
use super::seconds::seconds;
use super::{qemu_args, virtio_view};
use crate::device::socket_path;

/// Test Linux's own virtio_crypto driver with Kiln's or another device
///
/// Boots Linux, whose virtio_crypto driver then uses a device on a vhost-user socket. First, the
/// kernel's self-tests of this driver run on the device. Then threads in the guest create and
/// destroy sessions and send messages, and the rates are measured.
#[derive(Args)]
#[command(after_long_help = "\
Without --socket, the command starts 'kiln serve' and uses it as the device.
By default, the guest is user mode Linux, built from --tree. With --qemu, the
guest is Debian's stock kernel under QEMU. QEMU's cryptodev-vhost-user then
connects the guest to the device.

Threads in the guest make three kinds of traffic:
  cipher-sessions    set new keys of cbc(aes); each new key destroys two
                     sessions and creates two
  akcipher-sessions  set new keys of rsa; each new key destroys one session
                     and creates one
  cipher-data        encrypt messages with cbc(aes), and compare each result
                     with that of Linux's generic code

Exit status:
  1 if the guest lacks the driver for cbc(aes), if a self-test did not pass,
    if a call failed, or if an encrypted message was wrong

Examples:
  kiln linux virtio --tree ~/linux
  kiln linux virtio --workers 1,2,8 --seconds 5
  kiln linux virtio --qemu
  kiln linux virtio --socket /run/kiln.sock --json | jq '.rows[].ops_per_s'

See also:
  docs/VIRTIO-GUESTS.md")]
pub(super) struct VirtioArgs {
    #[command(flatten)]
    kernel: KernelArgs,
    /// vhost-user socket of the device to test [default: start 'kiln serve' and use its socket]
    #[arg(long, value_name = "PATH", value_parser = socket_path())]
    socket: Option<PathBuf>,
    /// Without --socket: pass this argument to 'kiln serve'; for example, --serve=--ctrl=thread
    /// passes --ctrl=thread (repeatable)
    #[arg(long, value_name = "ARG", conflicts_with = "socket")]
    serve: Vec<String>,
    /// Boot Debian's stock kernel under QEMU, instead of user mode Linux
    #[arg(long, conflicts_with = "tree")]
    qemu: bool,
    /// With --qemu: version of Debian's kernel to boot
    #[arg(long, value_name = "VERSION", default_value = "6.12", requires = "qemu", value_parser = qemu_args::version)]
    debian: String,
    /// With --qemu: use KVM instead of QEMU's translator
    #[arg(long, requires = "qemu")]
    kvm: bool,
    /// Numbers of guest threads; each kind of traffic is measured once with each number
    #[arg(long, value_name = "LIST", default_value = "1,8", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=64))]
    workers: Vec<u32>,
    /// Duration of each measurement in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    seconds: f64,
    /// Size of each message in bytes: a multiple of 16, at most 65536
    #[arg(long, value_name = "BYTES", default_value_t = 4096, value_parser = len)]
    len: u32,
    /// Kill the guest after this many seconds, even if measurements are still running
    #[arg(long, value_name = "SECONDS", default_value_t = 170.0, value_parser = seconds)]
    limit: f64,
}

fn len(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(n) if (16..=65536).contains(&n) && n % 16 == 0 => Ok(n),
        _ => Err("a multiple of 16, 65536 at most".into()),
    }
}

impl Question for VirtioArgs {
    const NAME: &'static str = "linux-virtio";

    fn row_types() -> Vec<RowType> {
        vec![RowType::at::<Row>(72)]
    }

    fn run(&self, session: &Session) -> Result<Exit, Error> {
        if let Some(socket) = self.socket.as_ref().filter(|socket| !socket.exists()) {
            return Err(Error::input(format!(
                "--socket '{}': No such file or directory: start a device there (kiln serve --socket PATH), or leave --socket out",
                socket.display()
            )));
        }
        let progress = Progress::start();
        let outcome = match self.qemu {
            true => under_qemu(self, session, &progress)?,
            false => {
                let built = self.kernel.build(session, &progress)?;
                let compiler = built.compiler.clone();
                let guest = Guest::User { built: &built };
                with(self, session, &progress, guest, &compiler)?
            }
        };
        drop(progress);
        let mut notes = outcome.findings.clone();
        notes.extend(outcome.notes);
        let rows = &outcome.rows;
        session.emit::<VirtioArgs, _>(&read_facts(), rows, &notes, || {
            virtio_view::format_tables(rows) + &table::notes(&notes, session.seed)
        })?;
        Ok(Exit::from_run(!outcome.findings.is_empty(), false))
    }
}

fn under_qemu(args: &VirtioArgs, session: &Session, progress: &Progress) -> Result<Outcome, Error> {
    qemu::check()?;
    let compiler = args.kernel.compiler()?;
    let kernel: Kernel = debian::find(&args.debian, &|what| progress.report(0.05, what))?;
    let accel = if args.kvm { Accel::Kvm } else { Accel::Tcg };
    let guest = Guest::Qemu {
        kernel: &kernel,
        accel,
    };
    with(args, session, progress, guest, &compiler)
}

fn with(
    args: &VirtioArgs,
    session: &Session,
    progress: &Progress,
    guest: Guest,
    compiler: &kiln_kbuild::Compiler,
) -> Result<Outcome, Error> {
    let own = match &args.socket {
        Some(_) => None,
        None => {
            let program = std::env::current_exe()
                .map_err(|e| Error::lacks(format!("kiln cannot find itself: {e}")))?;
            Some(Device::start(&program, &args.serve)?)
        }
    };
    let socket = match (&args.socket, &own) {
        (Some(path), _) => path.as_path(),
        (None, Some(device)) => device.socket(),
        (None, None) => unreachable!("one of them is there"),
    };
    let outcome = virtio::run(&virtio::Plan {
        guest,
        compiler,
        socket,
        workers: &args.workers,
        each: Duration::from_secs_f64(args.seconds),
        len: args.len,
        limit: Duration::from_secs_f64(args.limit),
        stop: &session.stop,
        progress: &|done, what| progress.report(done, what),
    });
    match (outcome, own) {
        (Ok(outcome), Some(device)) => {
            device.stop()?;
            Ok(outcome)
        }
        (Ok(outcome), None) => Ok(outcome),
        (Err(e), Some(device)) => {
            let said = device.read_log();
            if !said.is_empty() {
                eprintln!("{}", said.trim_end());
            }
            Err(e.into())
        }
        (Err(e), None) => Err(e.into()),
    }
}
