//! Uses real Linux as the reference for what Kiln emulates. Builds Linux with Kiln's ciphers in a
//! module (`linux/module/`) and boots it in user space (ARCH=um). Linux's own testmgr tests the
//! ciphers, and its own tcrypt measures them.

pub mod boot;
pub mod build;
pub mod console;
pub mod debian;
pub mod dkms;
mod error;
pub mod fidelity;
pub mod hosted;
pub mod init;
pub mod initramfs;
pub mod live;
pub mod machine;
pub mod modinfo;
pub mod module;
pub mod program;
pub mod qemu;
pub mod selftest;
pub mod source;
pub mod tcrypt;
pub mod uml;
pub mod virtio;

pub use error::Error;
