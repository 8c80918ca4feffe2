//! Boots an x86-64 kernel under QEMU, with a time limit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::boot::{watch, Outcome, Scratch, Watch};
use crate::console::Line;
use crate::error::BootEnd;
use crate::Error;

const PROGRAM: &str = "qemu-system-x86_64";

/// Time limit for a boot that only probes hardware virtualisation. If init has not started by then,
/// hardware virtualisation does not work on this machine.
const PROBE: Duration = Duration::from_secs(20);

/// How QEMU executes the guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accel {
    Kvm,
    /// QEMU's TCG, which emulates the CPU in software. Guests compute the same results as on
    /// hardware, but their timings are meaningless.
    Tcg,
}

impl Accel {
    /// Returns the accelerator's name for QEMU's command line.
    pub fn name(self) -> &'static str {
        match self {
            Accel::Kvm => "kvm",
            Accel::Tcg => "tcg",
        }
    }
}

/// A virtual machine with one CPU.
pub struct Qemu<'a> {
    pub image: &'a Path,
    /// The archive that contains Kiln's init and the commands for it.
    pub initramfs: &'a [u8],
    pub accel: Accel,
    /// Additional arguments for QEMU, such as devices.
    pub arguments: &'a [String],
    pub limit: Duration,
    /// Set when the user presses Ctrl-C.
    pub stop: &'a AtomicBool,
}

impl Qemu<'_> {
    /// Boots the kernel and passes each line of the console to `line`.
    ///
    /// # Errors
    /// Fails if QEMU is missing, or the boot ends before init's last line.
    pub fn run(&self, line: &mut dyn FnMut(&Line)) -> Result<Outcome, Error> {
        let program = program()?;
        let initramfs = Scratch::new("initramfs")?;
        fs::write(&initramfs.path, self.initramfs).map_err(|e| Error::cache(&initramfs.path, e))?;
        // Let the shell merge both streams: QEMU prints the console on standard output, but reports
        // on standard error why it cannot run the guest.
        let mut command = Command::new("sh");
        command
            .args(["-c", "exec \"$@\" 2>&1", "qemu"])
            .arg(program)
            .args(["-accel", self.accel.name(), "-cpu", cpu(self.accel)])
            .args(["-m", "512", "-smp", "1", "-nodefaults", "-no-user-config"])
            .args(["-display", "none", "-serial", "stdio", "-no-reboot"])
            .args(self.arguments)
            .arg("-kernel")
            .arg(self.image)
            .arg("-initrd")
            .arg(&initramfs.path)
            // Disable full preemption, which would disturb the scripted requests. Also disable the
            // kernel's timer check, because the emulated timer may fail it on a busy host, and the
            // kernel would then panic.
            .args([
                "-append",
                "console=ttyS0 quiet panic=-1 preempt=voluntary no_timer_check",
            ]);
        let mut fault = None;
        let ended = watch(
            command,
            &Watch {
                name: "QEMU",
                limit: self.limit,
                stop: self.stop,
            },
            &mut |said| {
                line(said);
                if let Line::Noise(text) = said {
                    fault = is_fault(text).then(|| text.trim().to_owned());
                }
                fault.is_none()
            },
        );
        match fault {
            Some(said) => Err(Error::Kvm {
                kvm: kvm(Path::new("/sys/module")),
                said,
            }),
            None => ended,
        }
    }
}

/// Returns whether this line of QEMU's output reports that KVM cannot continue to run the guest.
fn is_fault(line: &str) -> bool {
    line.contains("KVM internal error") || line.contains("KVM: entry failed")
}

/// Returns a description of this machine's KVM module, for use in messages.
fn kvm(modules: &Path) -> String {
    let there = |name: &&&str| modules.join(name).is_dir();
    match ["kvm_intel", "kvm_amd", "kvm_pvm"].iter().find(there) {
        Some(&"kvm_pvm") => {
            "this machine's KVM (kvm_pvm: without hardware's help, for kernels made for it)".into()
        }
        Some(name) => format!("this machine's KVM ({name})"),
        None => "this machine's KVM".into(),
    }
}

/// Returns the CPU model to request from QEMU. It has all features that the accelerator supports,
/// except arch-capabilities: if a hypervisor hides this MSR from the host, KVM cannot offer it to a
/// guest.
fn cpu(accel: Accel) -> &'static str {
    match accel {
        Accel::Kvm => "host,-arch-capabilities",
        Accel::Tcg => "max",
    }
}

/// Checks that QEMU is installed. Call this before downloading or building anything for a boot.
///
/// # Errors
/// Fails if QEMU is missing.
pub fn check() -> Result<(), Error> {
    program().map(drop)
}

fn program() -> Result<PathBuf, Error> {
    kiln_kbuild::which(PROGRAM).ok_or(Error::NoQemu(PROGRAM))
}

/// Chooses hardware virtualisation if this kernel boots with it, and software emulation otherwise.
/// The returned string explains the choice.
///
/// # Errors
/// Fails if QEMU is missing, or Ctrl-C was pressed.
pub fn choose(image: &Path, initramfs: &[u8], stop: &AtomicBool) -> Result<(Accel, String), Error> {
    program()?;
    let device = Path::new("/dev/kvm");
    if fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(device)
        .is_err()
    {
        return Ok((
            Accel::Tcg,
            "there is no /dev/kvm that this user may open".into(),
        ));
    }
    let probe = Qemu {
        image,
        initramfs,
        accel: Accel::Kvm,
        arguments: &[],
        limit: PROBE,
        stop,
    };
    match probe.run(&mut |_| ()) {
        Ok(_) => Ok((Accel::Kvm, String::new())),
        Err(Error::Interrupted) => Err(Error::Interrupted),
        Err(Error::Boot {
            end: BootEnd::TimeLimit,
            ..
        }) => {
            let secs = PROBE.as_secs();
            let kvm = kvm(Path::new("/sys/module"));
            Ok((
                Accel::Tcg,
                format!("{kvm} does not bring this kernel to its init in {secs} s"),
            ))
        }
        Err(e) => {
            let said = e.to_string();
            let line = said.lines().next().unwrap_or("").split(": --accel");
            Ok((Accel::Tcg, line.take(1).collect()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_stands_still_is_seen() {
        assert!(is_fault("KVM internal error. Suberror: 1"));
        assert!(!is_fault("[    0.000000] Hypervisor detected: KVM"));
    }

    #[test]
    fn a_kvm_is_called_by_its_module() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(kvm(dir.path()), "this machine's KVM");
        fs::create_dir_all(dir.path().join("kvm_pvm")).unwrap();
        assert!(kvm(dir.path()).contains("kvm_pvm"));
        fs::create_dir_all(dir.path().join("kvm_amd")).unwrap();
        assert!(kvm(dir.path()).ends_with("(kvm_amd)"));
    }
}
