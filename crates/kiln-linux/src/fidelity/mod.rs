//! Kiln's emulated CPU compared, question by question, with a real x86 kernel under QEMU.

pub mod answer;
pub mod emulated;
pub mod question;
