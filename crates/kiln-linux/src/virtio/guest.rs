//! A guest that has the virtio_crypto driver: user mode Linux, or a stock kernel under QEMU.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::boot::{Boot, Outcome};
use crate::console::Line;
use crate::debian::Kernel;
use crate::modinfo::Modules;
use crate::qemu::{Accel, Qemu};
use crate::uml::Built;
use crate::Error;

/// The virtio device ID of a crypto device (virtio 1.2, section 5).
const DEVICE_ID: u32 = 20;

/// Memory sizes of guests: `MEMORY` for user mode Linux, and `QEMU_MEMORY` for QEMU.
const MEMORY: &str = "256M";
const QEMU_MEMORY: &str = "512M";

pub enum Guest<'a> {
    /// User mode Linux. Its virtio_uml driver is itself a vhost-user front end.
    User { built: &'a Built },
    /// A kernel under QEMU. QEMU connects to the device with `cryptodev-vhost-user`.
    Qemu {
        kernel: &'a Kernel,
        /// How QEMU executes the guest's instructions.
        accel: Accel,
    },
}

impl Guest<'_> {
    pub(super) fn front_end(&self) -> &'static str {
        match self {
            Guest::User { .. } => "user-mode",
            Guest::Qemu { .. } => "qemu",
        }
    }

    pub(super) fn accel(&self) -> &'static str {
        match self {
            Guest::User { .. } => "native",
            Guest::Qemu { accel, .. } => accel.name(),
        }
    }

    pub(super) fn release(&self) -> String {
        match self {
            Guest::User { built } => built.version.clone(),
            Guest::Qemu { kernel, .. } => kernel.release.clone(),
        }
    }

    pub(super) fn name(&self) -> String {
        match self {
            Guest::User { built } => format!("user mode Linux {}", built.version),
            Guest::Qemu { kernel, .. } => format!("Linux {}", kernel.release),
        }
    }

    /// Returns the kernel's own modules with these names, together with all modules that they
    /// depend on. In the result, each module comes after its dependencies.
    pub(super) fn modules(&self, names: &[&str]) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let dir = match self {
            Guest::User { built } => built.cache.objects.as_path(),
            Guest::Qemu { kernel, .. } => kernel.modules.as_path(),
        };
        let modules = Modules::find(dir)?.with_needed(names)?;
        if !modules.iter().any(|(name, _)| name == "virtio_crypto") {
            return Err(Error::NoVirtioCrypto(self.name()));
        }
        Ok(modules)
    }

    /// Boots the guest and waits until the guest exits, the time limit is reached or `stop` is set.
    pub(super) fn boot(
        &self,
        socket: &Path,
        initramfs: Vec<u8>,
        limit: Duration,
        stop: &AtomicBool,
        line: &mut dyn FnMut(&Line),
    ) -> Result<Outcome, Error> {
        match self {
            Guest::User { built } => Boot {
                linux: &built.linux,
                initramfs,
                memory: MEMORY,
                arguments: &[&user_mode(socket)?],
                limit,
                stop,
            }
            .run(line),
            Guest::Qemu { kernel, accel, .. } => Qemu {
                image: &kernel.image,
                initramfs: &initramfs,
                accel: *accel,
                arguments: &qemu(socket)?,
                limit,
                stop,
            }
            .run(line),
        }
    }
}

/// Returns the argument that adds the device to user mode Linux's command line.
fn user_mode(socket: &Path) -> Result<String, Error> {
    let path = text(socket, [' ', ':', '"'])?;
    Ok(format!("virtio_uml.device={path}:{DEVICE_ID}"))
}

/// Returns the QEMU arguments that add the device and the memory that QEMU shares with it. MSI-X is
/// disabled: under software emulation, QEMU 7.2 crashes when the vectors of a vhost device are
/// unmasked.
fn qemu(socket: &Path) -> Result<Vec<String>, Error> {
    let path = text(socket, [' ', ',', '"'])?;
    let words = [
        "-object",
        &format!("memory-backend-memfd,id=ram,size={QEMU_MEMORY},share=on"),
        "-machine",
        "memory-backend=ram",
        "-chardev",
        &format!("socket,id=kiln,path={path}"),
        "-object",
        "cryptodev-vhost-user,id=crypto,chardev=kiln",
        "-device",
        "virtio-crypto-pci,cryptodev=crypto,vectors=0",
    ];
    Ok(words.map(str::to_owned).to_vec())
}

/// Returns the socket's path as text. Fails if the path contains one of the characters in `apart`,
/// which separate options on a command line.
fn text(socket: &Path, apart: [char; 3]) -> Result<&str, Error> {
    let path = socket.to_str().filter(|path| !path.contains(apart));
    path.ok_or_else(|| Error::SocketPath(socket.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_would_be_several_words_is_refused() {
        assert!(user_mode(Path::new("/run/kiln.sock"))
            .unwrap()
            .ends_with("=/run/kiln.sock:20"));
        assert!(user_mode(Path::new("/run/a:1")).is_err() && user_mode(Path::new("/a b")).is_err());
        assert!(qemu(Path::new("/run/a,server=on")).is_err());
        assert!(qemu(Path::new("/run/a.sock"))
            .unwrap()
            .iter()
            .any(|w| w.ends_with("path=/run/a.sock")));
    }
}
