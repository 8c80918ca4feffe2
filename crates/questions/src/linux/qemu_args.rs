//! Arguments shared by the commands that boot a kernel under QEMU.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use kiln_kbuild::Compiler;
use kiln_linux::debian::{self, Kernel};
use kiln_linux::fidelity::asker::{Plan, Wanted};
use kiln_linux::qemu::{self, Accel};
use kiln_question::{Error, Progress, Session};

use super::seconds::seconds;

/// The kernel to boot, and how QEMU runs it.
#[derive(Args, Clone, Debug)]
pub(super) struct QemuArgs {
    /// Boot Debian's stock kernel of this version; if it is not installed, apt-get downloads it
    /// into Kiln's cache
    #[arg(long, value_name = "VERSION", default_value = "6.12", value_parser = version, conflicts_with = "kernel")]
    debian: String,
    /// Boot this kernel image, such as arch/x86/boot/bzImage, instead of Debian's kernel; needs
    /// --headers
    #[arg(long, value_name = "BZIMAGE", requires = "headers")]
    kernel: Option<PathBuf>,
    /// With --kernel: directory of the kernel's headers, or the tree in which the kernel was built
    #[arg(
        long,
        value_name = "DIR",
        requires = "kernel",
        conflicts_with = "debian"
    )]
    headers: Option<PathBuf>,
    /// How QEMU runs the guest: kvm (hardware virtualization), tcg (QEMU's translator), or auto
    /// (kvm if the kernel boots with it, else tcg). Under tcg, 'linux fidelity' does not measure
    /// the costs of the real kernel
    #[arg(long, value_enum, default_value = "auto")]
    accel: AccelArg,
    /// Compiler for the module [default: $KILN_CC, else the first of cc, gcc, clang on PATH]
    #[arg(long, value_name = "CC")]
    cc: Option<String>,
    /// Kill the guest after this many seconds; 'linux dkms' and 'linux nested' add the planned
    /// duration of their tests to this limit
    #[arg(long, value_name = "SECONDS", default_value_t = 120.0, value_parser = seconds)]
    limit: f64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum AccelArg {
    Auto,
    Kvm,
    Tcg,
}

/// Checks a version such as 6.12. The text becomes part of a search pattern for apt.
pub(super) fn version(text: &str) -> Result<String, String> {
    let numbers: Vec<&str> = text.split('.').collect();
    let number = |n: &&str| !n.is_empty() && n.len() < 6 && n.bytes().all(|b| b.is_ascii_digit());
    match numbers.len() == 2 && numbers.iter().all(number) {
        true => Ok(text.to_owned()),
        false => Err("two numbers, such as 6.12".into()),
    }
}

impl QemuArgs {
    /// Finds the requested kernel and compiler.
    pub(super) fn find(&self, progress: &Progress) -> Result<(Kernel, Compiler), Error> {
        let named = match (&self.kernel, &self.headers) {
            (Some(image), Some(headers)) => Some(Kernel::from_user(image, headers)?),
            _ => None,
        };
        qemu::check()?;
        let compiler = match &self.cc {
            Some(name) => Compiler::find(name),
            None => Compiler::from_env(),
        };
        let compiler = compiler.map_err(kiln_linux::Error::Compiler)?;
        let kernel = match named {
            Some(kernel) => kernel,
            None => debian::find(&self.debian, &|what| progress.report(0.05, what))?,
        };
        Ok((kernel, compiler))
    }

    /// Returns the plan for a run with this kernel.
    pub(super) fn plan<'a>(
        &self,
        kernel: &'a Kernel,
        compiler: &'a Compiler,
        session: &'a Session,
        progress: &'a dyn Fn(f64, &str),
    ) -> Plan<'a> {
        Plan {
            kernel,
            compiler,
            accel: match self.accel {
                AccelArg::Auto => Wanted::Auto,
                AccelArg::Kvm => Wanted::Only(Accel::Kvm),
                AccelArg::Tcg => Wanted::Only(Accel::Tcg),
            },
            limit: Duration::from_secs_f64(self.limit),
            stop: &session.stop,
            progress,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_two_numbers() {
        assert!(version("6.12").is_ok());
        for bad in ["6", "6.", "6.12.1", "6.*", "", "v6.1", "6.123456"] {
            assert!(version(bad).is_err(), "{bad}");
        }
    }
}
