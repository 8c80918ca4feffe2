//! `kiln linux`: runs Kiln's ciphers in real Linux. Each subcommand has its own file.
//!
//! | file | contents |
//! |---|---|
//! | `args.rs` | the command |
//! | `kernel_args.rs`, `qemu_args.rs`, `seconds.rs` | flags that several subcommands share |
//! | `build.rs`, `boot.rs` | builds and boots user mode Linux and Kiln's module |
//! | `tcrypt.rs`, `selftest.rs`, `view.rs` | runs Linux's benchmark and tests on Kiln's ciphers |
//! | `fidelity.rs`, `nested.rs`, `fidelity_view.rs` | a stock kernel's ring 0 under QEMU |
//! | `dkms.rs` | the module of the package kiln-crypto-dkms in a stock kernel |
//! | `record.rs` | records a stock kernel as a machine for `kiln here` |
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
