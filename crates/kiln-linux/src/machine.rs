//! What a stock kernel says of itself in `/proc` and `/sys`, read in a boot under QEMU: the recordings that `kiln here`
//! is tested with.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use kiln_kbuild::Compiler;

use crate::console::Line;
use crate::debian::Kernel;
use crate::init::{initramfs, Order};
use crate::modinfo::Modules;
use crate::qemu::{Accel, Qemu};
use crate::Error;

/// A virtio-crypto device of QEMU's own, and one that is not.
const DEVICES: [&str; 6] = [
    "-object",
    "cryptodev-backend-builtin,id=crypto",
    "-device",
    "virtio-crypto-pci,cryptodev=crypto",
    "-device",
    "virtio-rng-pci",
];

/// Files to record: a pattern of glob(7) without its first slash, and the words of which a line must have one.
pub struct Files<'a> {
    pub pattern: &'a str,
    /// None: every line.
    pub words: &'a [&'a str],
}

/// A boot that records.
pub struct Plan<'a> {
    pub kernel: &'a Kernel,
    /// For the first program.
    pub compiler: &'a Compiler,
    /// Modules to load first, with those that they need; those that the kernel does not have are passed over.
    pub load: &'a [&'a str],
    pub files: &'a [Files<'a>],
    /// A boot is killed then.
    pub limit: Duration,
    /// Set by Ctrl-C.
    pub stop: &'a AtomicBool,
}

impl Plan<'_> {
    /// The lines of each file, by its path without the first slash. A file that is not there, cannot be read or is empty
    /// is not among them.
    ///
    /// # Errors
    /// There is no QEMU, a module cannot be read, or the boot does not end well.
    pub fn record(&self) -> Result<BTreeMap<String, Vec<String>>, Error> {
        let load = Modules::find(&self.kernel.modules)?.with_needed(self.load)?;
        let mut orders: Vec<Order> = load
            .iter()
            .map(|(name, _)| Order::module(&format!("/{name}.ko"), "").may_fail())
            .collect();
        orders.extend(self.files.iter().map(|files| {
            let pattern = format!("/{}", files.pattern);
            Order::lines(&pattern, files.words).may_fail()
        }));
        let mut archive = initramfs(self.compiler, &orders)?;
        for (name, content) in &load {
            archive.file(&format!("{name}.ko"), content);
        }
        let mut recorded = BTreeMap::new();
        let outcome = Qemu {
            image: &self.kernel.image,
            initramfs: &archive.finish(),
            accel: Accel::Tcg,
            arguments: &DEVICES.map(str::to_owned),
            limit: self.limit,
            stop: self.stop,
        }
        .run(&mut |line| {
            if let Line::Out(text) = line {
                keep(text, &mut recorded);
            }
        })?;
        if outcome.exit != Some(0) {
            return Err(Error::Console {
                what: format!("Linux {} could not be recorded", self.kernel.release),
                tail: outcome.tail,
            });
        }
        Ok(recorded)
    }
}

/// Takes a line of the order `lines`: a path, a tab, the line.
fn keep(text: &str, recorded: &mut BTreeMap<String, Vec<String>>) {
    let Some((path, line)) = text.split_once('\t') else {
        return;
    };
    let Some(path) = path.strip_prefix('/') else {
        return;
    };
    let lines = recorded.entry(path.to_owned()).or_default();
    lines.push(line.to_owned());
}

/// The configuration that a kernel was built with: beside its image or its modules.
///
/// # Errors
/// It is in neither place, or cannot be read.
pub fn configuration(kernel: &Kernel) -> Result<(PathBuf, String), Error> {
    let boot = kernel.image.parent().unwrap_or(Path::new("."));
    let modules = kernel.modules.parent().unwrap_or(Path::new("."));
    let beside = boot.join(format!("config-{}", kernel.release));
    let places = [beside.clone(), modules.join("config"), boot.join("config")];
    let path = places.into_iter().find(|p| p.is_file()).unwrap_or(beside);
    let text = fs::read_to_string(&path).map_err(|e| Error::read(&path, e))?;
    Ok((path, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_kept_by_their_files() {
        let mut recorded = BTreeMap::new();
        for text in [
            "/proc/a\tone",
            "/sys/b c\tflags\t: x",
            "/proc/a\t",
            "/proc/a\ttwo",
            "no tab",
            "relative\tx",
        ] {
            keep(text, &mut recorded);
        }
        assert_eq!(recorded.len(), 2);
        assert_eq!(recorded["proc/a"], ["one", "", "two"]);
        assert_eq!(recorded["sys/b c"], ["flags\t: x"]);
    }

    #[test]
    fn a_configuration_is_found_in_either_place() {
        let dir = tempfile::tempdir().unwrap();
        let kernel = |modules: &Path| Kernel {
            release: "7.3".into(),
            image: dir.path().join("boot/vmlinuz"),
            headers: dir.path().to_owned(),
            modules: modules.join("kernel"),
        };
        let modules = dir.path().join("lib/modules/7.3");
        for place in [dir.path().join("boot"), modules.clone()] {
            fs::create_dir_all(place).unwrap();
        }
        assert!(configuration(&kernel(&modules)).is_err());
        fs::write(modules.join("config"), "of the modules").unwrap();
        let found = || configuration(&kernel(&modules)).unwrap().1;
        assert_eq!(found(), "of the modules");
        fs::write(dir.path().join("boot/config-7.3"), "of the image").unwrap();
        assert_eq!(found(), "of the image");
    }
}
