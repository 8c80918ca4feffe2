//! Tests the kiln-crypto-dkms package's module in a stock kernel. IPsec packets pass between
//! network namespaces while dm-crypt writes on the same CPU, first without the module and then with
//! it.

mod judge;
mod mistake;
mod row;
mod script;

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::boot::Scratch;
use crate::fidelity::asker::{Plan, Wanted};
use crate::init::{initramfs, static_program, Order};
use crate::modinfo::Modules;
use crate::module::{known_answer, Module};
use crate::program;
use crate::qemu::{choose, Qemu};
use crate::Error;

use judge::Reached;
use row::PLANTED;
pub use row::{Outcome, Row};
pub use script::Load;

/// Source of the program that generates the load.
const TRAFFIC: &[(&str, &str)] = &[(
    "traffic.c",
    include_str!("../../../../linux/judge/traffic.c"),
)];

/// Kernel modules that the test needs: the modules for IPsec and dm-crypt, Linux's fastest drivers,
/// and the random number generator for IVs.
const NEEDED: [&str; 26] = [
    "sha512_generic",
    "sha256_generic",
    "hmac",
    "cryptd",
    "aesni_intel",
    "ghash_clmulni_intel",
    "sha256_ssse3",
    "sha512_ssse3",
    "xts",
    "cbc",
    "ctr",
    "gcm",
    // drbg must follow the modes and hashes above, because its self-tests need them.
    "drbg",
    "seqiv",
    "echainiv",
    "authenc",
    "esp4",
    "xfrm_user",
    "veth",
    "sch_netem",
    "brd",
    "dm_mod",
    "dm_crypt",
    "chacha_x86_64",
    "poly1305_x86_64",
    "chacha20poly1305",
];

/// Additional modules for the disk that holds the Debian system.
const NEEDED_BY_DISK: [&str; 4] = ["virtio_pci", "virtio_blk", "crc32c_generic", "ext4"];

/// Programs copied from this machine into the guest to set it up.
const PROGRAMS: [&str; 3] = ["ip", "tc", "dmsetup"];

/// Additional programs for installing the package.
const INSTALL_PROGRAMS: [&str; 4] = ["mount", "cp", "chroot", "xz"];

/// Size of the disk that holds the Debian system.
const DISK_SIZE: &str = "8G";

/// Memory size of the guest in MiB.
const MEMORY: &str = "1024";

/// Two builds of Kiln's module: one as the package builds it, and one with additional module
/// parameters for the controls.
pub struct Built<'a> {
    pub package: &'a Module,
    pub controls: &'a Module,
}

/// A Debian system that is copied to the guest's disk. The guest installs the package in it with
/// apt-get.
pub struct System<'a> {
    /// Root directory of the system, which contains DKMS and the kernel's headers.
    pub root: &'a Path,
    /// Path of the package file.
    pub package: &'a Path,
}

/// Boots once, loads the module with various parameters, and runs the load in four phases: without
/// the module, with the module, with a module that does not save registers, and while the module is
/// loaded and unloaded. As a control, a module with a planted wrong answer is loaded after the
/// first phase. At the end, the guest makes mistakes that a debug kernel must report. With
/// `system`, the package is installed first and removed last, and the phases use the module that
/// DKMS built.
///
/// # Errors
/// Fails if the kernel cannot be booted, lacks a module or cannot be set up, or if the boot ends
/// before the first load has finished.
pub fn run(
    plan: &Plan,
    built: &Built,
    system: Option<&System>,
    load: &Load,
) -> Result<Outcome, Error> {
    let content = read(&built.package.path)?;
    let modules = Modules::find(&plan.kernel.modules)?;
    let mut needed = NEEDED.to_vec();
    let mut programs = PROGRAMS.to_vec();
    if system.is_some() {
        needed.extend(NEEDED_BY_DISK);
        programs.extend(INSTALL_PROGRAMS);
    }
    let mut linux = modules.with_needed(&needed)?;
    for (name, needed) in modules.needed(&content)? {
        if !linux.iter().any(|(n, _)| *n == name) {
            linux.push((name, needed));
        }
    }
    let names: Vec<&str> = linux.iter().map(|(name, _)| name.as_str()).collect();
    let release = system.map(|_| plan.kernel.release.as_str());
    let script = script::write(&names, load, release)?;
    let mut files = vec![
        (
            "traffic",
            static_program(plan.compiler, "traffic", TRAFFIC)?,
        ),
        ("planted.ko", plant(&content)?),
        ("kiln.ko", content),
        ("controls.ko", read(&built.controls.path)?),
        ("nest.ko", read(&built.controls.nest)?),
        ("fault.ko", read(&built.controls.fault)?),
        ("sa.a", script::batch().into_bytes()),
        ("sa.b", script::batch().into_bytes()),
        // Add empty files so that the parent directories exist: ip-netns(8) creates only its own
        // directory.
        ("run/kiln", Vec::new()),
        ("var/run/kiln", Vec::new()),
    ];
    let mut arguments = vec!["-m".to_owned(), MEMORY.to_owned()];
    // Keep this value until the boot has ended, because dropping it removes the file.
    let disk = Scratch::new("disk")?;
    if let Some(system) = system {
        (plan.progress)(0.2, "writing the disk with the Debian system");
        write_disk(system.root, &disk.path)?;
        arguments.extend(disk_arguments(&disk.path));
        let package = fs::read(system.package).map_err(|e| Error::read(system.package, e))?;
        files.push(("package.deb", package));
        files.push(("system/mount-point", Vec::new()));
    }
    let archive = |orders: &[Order]| -> Result<Vec<u8>, Error> {
        let mut archive = initramfs(plan.compiler, orders)?;
        for (name, content) in &linux {
            archive.file(&format!("{name}.ko"), content);
        }
        for name in &programs {
            program::add(&mut archive, name)?;
        }
        for (name, content) in &files {
            archive.file(name, content);
        }
        Ok(archive.finish())
    };
    (plan.progress)(0.3, "trying hardware virtualisation");
    let (accel, why) = match plan.accel {
        Wanted::Only(accel) => (accel, String::new()),
        Wanted::Auto => choose(&plan.kernel.image, &archive(&[])?, plan.stop)?,
    };
    let mut heard = judge::Heard::default();
    let last = script.orders.len() as f64;
    let ended = Qemu {
        image: &plan.kernel.image,
        initramfs: &archive(&script.orders)?,
        accel,
        arguments: &arguments,
        limit: plan.limit,
        stop: plan.stop,
    }
    .run(&mut |line| {
        heard.line(line);
        let what = format!("Linux {} under {}", plan.kernel.release, accel.name());
        (plan.progress)(0.4 + 0.6 * f64::from(heard.order) / last, &what);
    });
    let (reached, fault) = match ended {
        Ok(ended) if ended.exit == Some(0) => (Reached::End, None),
        Ok(ended) => (
            Reached::Failure,
            Some(Error::Console {
                what: format!("the load on Linux {} failed", plan.kernel.release),
                tail: ended.tail,
            }),
        ),
        Err(Error::Interrupted) => (Reached::Interruption, Some(Error::Interrupted)),
        Err(e) => (Reached::Failure, Some(e)),
    };
    let mut outcome = judge::judge(&script, &heard, load, reached)?;
    if let Some(fault) = fault {
        if outcome.rows.is_empty() {
            return Err(fault);
        }
        if reached == Reached::Failure {
            let text = fault.to_string();
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            outcome.findings.push(lines.join(" / "));
        }
    }
    for row in &mut outcome.rows {
        row.kernel = plan.kernel.release.clone();
        row.accel = accel.name().into();
    }
    if !why.is_empty() {
        outcome.notes.push(format!("by software emulation: {why}"));
    }
    Ok(outcome)
}

/// Writes a sparse disk image that contains the system's files.
fn write_disk(root: &Path, to: &Path) -> Result<(), Error> {
    let output = Command::new("mke2fs")
        .args(["-q", "-t", "ext4", "-m", "0", "-E", "root_owner=0:0", "-d"])
        .args([root, to])
        .arg(DISK_SIZE)
        .output()
        .map_err(|e| kiln_tree::Error::tool("cannot run mke2fs", "e2fsprogs", e))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(Error::SystemDisk {
            root: root.to_owned(),
            line: String::from_utf8_lossy(&output.stderr)
                .lines()
                .last()
                .unwrap_or("no message")
                .to_owned(),
        }),
    }
}

fn disk_arguments(disk: &Path) -> [String; 4] {
    let drive = format!(
        "file={},format=raw,if=none,id=system,cache=unsafe",
        disk.display()
    );
    let device = "virtio-blk-pci,drive=system";
    ["-drive", &drive, "-device", device].map(str::to_owned)
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|e| Error::cache(path, e))
}

/// Flips one bit in a known-answer ciphertext, and returns the changed module.
fn plant(module: &[u8]) -> Result<Vec<u8>, Error> {
    let answer = known_answer(PLANTED);
    let at = module
        .windows(answer.len())
        .position(|window| window == answer)
        .ok_or_else(|| Error::Answer(format!("the module has no known answer of {PLANTED}")))?;
    let mut planted = module.to_vec();
    planted[at + answer.len() - 1] ^= 1;
    Ok(planted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bit_of_the_answer_is_flipped() {
        let answer = known_answer(PLANTED);
        assert_eq!(answer.len(), 64);
        let module = [b"before", &answer[..], b"after"].concat();
        let planted = plant(&module).unwrap();
        let changed = module.iter().zip(&planted).filter(|(a, b)| a != b);
        assert_eq!(changed.count(), 1);
        assert!(plant(b"not a module").is_err());
    }
}
