//! Compares Kiln's emulated CPU with a real x86 kernel under QEMU, question by question. Also tests
//! Kiln's module in that kernel, where the module's drivers open FPU sections inside other
//! sections.

pub mod answer;
pub mod asker;
pub mod compare;
pub mod costs;
pub mod emulated;
pub mod nested;
pub mod question;
pub mod row;
