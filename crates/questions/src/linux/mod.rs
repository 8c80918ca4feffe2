//! `kiln linux`: Kiln's ciphers in real Linux. One file per subcommand.
//!
//! | file | contents |
//! |---|---|
//! | `args.rs` | the command |
//! | `kernel_args.rs`, `qemu_args.rs`, `seconds.rs` | flags shared by several subcommands |
//! | `build.rs`, `boot.rs` | user mode Linux and Kiln's module, built and booted |
//! | `tcrypt.rs`, `selftest.rs`, `view.rs` | Linux's own benchmark and tests of Kiln's ciphers, and their tables |
//! | `fidelity.rs`, `nested.rs`, `fidelity_view.rs` | a stock kernel's ring 0 under QEMU |
//! | `dkms.rs` | the module of the package kiln-crypto-dkms in a stock kernel |
//! | `record.rs` | a stock kernel recorded as a machine for `kiln here` |
//! | `virtio.rs`, `virtio_view.rs` | Linux's own virtio_crypto driver |

mod args;
mod boot;
mod build;
mod dkms;
mod fidelity;
mod fidelity_view;
mod kernel_args;
mod nested;
mod qemu_args;
mod record;
mod seconds;
mod selftest;
mod tcrypt;
mod view;
mod virtio;
mod virtio_view;

pub(crate) use args::LinuxArgs;
