//! Boots a stock kernel under QEMU and records the content of files in `/proc` and `/sys`. The
//! tests of `kiln here` use these recordings.

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

/// QEMU arguments that add a virtio-crypto device and a virtio device of another type.
const DEVICES: [&str; 6] = [
    "-object",
    "cryptodev-backend-builtin,id=crypto",
    "-device",
    "virtio-crypto-pci,cryptodev=crypto",
    "-device",
    "virtio-rng-pci",
];

/// The files to record, given as a glob(7) pattern without the leading slash.
pub struct Files<'a> {
    pub pattern: &'a str,
    /// Record only lines that contain one of these words. An empty list records all lines.
    pub words: &'a [&'a str],
}

/// A boot that records files.
pub struct Plan<'a> {
    pub kernel: &'a Kernel,
    /// The compiler that builds init.
    pub compiler: &'a Compiler,
    /// Modules to load first, together with their dependencies. Modules that the kernel lacks are
    /// skipped.
    pub load: &'a [&'a str],
    pub files: &'a [Files<'a>],
    /// The boot is killed after this time.
    pub limit: Duration,
    /// Set when the user presses Ctrl-C.
    pub stop: &'a AtomicBool,
}

impl Plan<'_> {
    /// Boots the kernel and returns each file's lines. The key is the file's path without the
    /// leading slash. Files that do not exist, cannot be read or are empty are left out.
    ///
    /// # Errors
    /// Fails if QEMU is missing, a module cannot be read, or the boot fails.
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

/// Records a line that the command `lines` printed. The line consists of a path, a tab, and one
/// line of the file at that path.
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

/// Finds a kernel's build configuration, which is stored next to the kernel's image or next to its
/// modules.
///
/// # Errors
/// Fails if the configuration is in neither place, or cannot be read.
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
