//! `kiln linux record`: records a kernel as a machine that `kiln here --root` can judge.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use kiln_kbuild::Compiler;
use kiln_linux::debian::{self, Kernel};
use kiln_linux::machine::{configuration, Files, Plan};
use kiln_linux::qemu;
use kiln_question::{print, Error, Exit, Progress, Question, Session};

use super::qemu_args::version;
use super::seconds::seconds;
use crate::here;

/// Modules that a gateway would load: AES, ChaCha and hashes with SIMD, IPsec, disk encryption, and
/// virtio-crypto. A kernel may lack some of them.
const GATEWAY: &[&str] = &[
    "virtio_pci",
    "virtio_crypto",
    "virtio_rng",
    "aesni_intel",
    "xts",
    "chacha_x86_64",
    "chacha20poly1305",
    "ghash_clmulni_intel",
    "sha1_ssse3",
    "sha256_ssse3",
    "sha512_ssse3",
    "sm3_avx_x86_64",
    "crct10dif_pclmul",
    "crc32_pclmul",
    "crc32c_intel",
    "authenc",
    "echainiv",
    "esp4",
    "xfrm_user",
    "dm_crypt",
];

/// Boot a stock kernel under QEMU, and save its files for 'kiln here --root'
///
/// Boots the kernel, loads the modules that a gateway would load, and saves in DIR the files that
/// 'kiln here' reads.
#[derive(Args)]
#[command(after_long_help = "\
The files are saved in DIR/proc, DIR/sys and DIR/boot. Lines that kiln here
does not need are left out. The machine that QEMU emulates has one CPU and a
virtio-crypto device. QEMU translates the CPU's instructions (no KVM).

Examples:
  kiln linux record machine
  kiln linux record machine-6.1 --debian 6.1 --idle

See also:
  docs/HERE.md, docs/LINUX.md")]
pub(super) struct RecordArgs {
    /// Directory for the saved files; it must be empty or not exist yet
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Boot Debian's stock kernel of this version; if it is not installed, apt-get downloads it
    /// into Kiln's cache
    #[arg(long, value_name = "VERSION", default_value = "6.12", value_parser = version, conflicts_with = "kernel")]
    debian: String,
    /// Instead of Debian's kernel, boot this kernel image, for example from a package unpacked with
    /// dpkg-deb -x; needs --modules
    #[arg(long, value_name = "BZIMAGE", requires = "modules")]
    kernel: Option<PathBuf>,
    /// With --kernel: directory of the kernel's modules, lib/modules/RELEASE
    #[arg(
        long,
        value_name = "DIR",
        requires = "kernel",
        conflicts_with = "debian"
    )]
    modules: Option<PathBuf>,
    /// Do not load the modules that a gateway would load
    #[arg(long)]
    idle: bool,
    /// Kill the booted kernel after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 170.0, value_parser = seconds)]
    limit: f64,
}

impl Question for RecordArgs {
    const NAME: &'static str = "linux-record";

    fn run(&self, session: &Session) -> Result<Exit, Error> {
        if session.global.json {
            return Err(Error::input(
                "--json: a recording is a directory without rows: leave --json out",
            ));
        }
        here::check_recording(&self.dir)?;
        let named = match (&self.kernel, &self.modules) {
            (Some(image), Some(modules)) => Some(from_package(image, modules)?),
            _ => None,
        };
        qemu::check()?;
        let compiler = Compiler::from_env().map_err(kiln_linux::Error::Compiler)?;
        let progress = Progress::start();
        let kernel = match named {
            Some(kernel) => kernel,
            None => debian::find(&self.debian, &|what| progress.report(0.05, what))?,
        };
        progress.report(0.3, &format!("booting Linux {}", kernel.release));
        let (_, config) = configuration(&kernel)?;
        let files: Vec<Files> = here::SOURCES
            .iter()
            .map(|source| Files {
                pattern: source.pattern,
                words: source.words,
            })
            .collect();
        let plan = Plan {
            kernel: &kernel,
            compiler: &compiler,
            load: if self.idle { &[] } else { GATEWAY },
            files: &files,
            limit: Duration::from_secs_f64(self.limit),
            stop: &session.stop,
        };
        let mut recorded: BTreeMap<String, Vec<String>> = plan
            .record()?
            .into_iter()
            .map(|(path, lines)| (path.clone(), here::condense(&path, lines)))
            .filter(|(_, lines)| !lines.is_empty())
            .collect();
        recorded.insert(
            format!("boot/config-{}", kernel.release),
            here::condense_config(&config),
        );
        drop(progress);
        let bytes = here::write_recording(&self.dir, &recorded)?;
        print(&format!(
            "Linux {}: {} files, {bytes} bytes in {}\n",
            kernel.release,
            recorded.len(),
            self.dir.display()
        ))?;
        Ok(Exit::Done)
    }
}

/// Creates a kernel from an image and a directory of modules. The name of that directory is the
/// kernel's release.
fn from_package(image: &Path, modules: &Path) -> Result<Kernel, Error> {
    let fault = |path: &Path, e: std::io::Error| {
        Error::input(format!(
            "'{}': {e}: name a package's image and its lib/modules/RELEASE",
            path.display()
        ))
    };
    let modules = fs::canonicalize(modules).map_err(|e| fault(modules, e))?;
    let release = modules.file_name().and_then(|n| n.to_str()).unwrap_or("");
    Ok(Kernel {
        release: release.to_owned(),
        image: fs::canonicalize(image).map_err(|e| fault(image, e))?,
        headers: modules.join("build"),
        modules: modules.join("kernel"),
    })
}
