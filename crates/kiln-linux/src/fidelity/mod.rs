//! Compares Kiln's emulated CPU, question by question, with a real x86 kernel under QEMU. Also
//! tests Kiln's module in that kernel, where the module's drivers open FPU sections inside other
//! sections.

pub mod answer;
pub mod asker;
pub mod compare;
pub mod costs;
pub mod emulated;
pub mod nested;
pub mod question;
pub mod row;
