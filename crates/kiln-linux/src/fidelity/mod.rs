//! Kiln's emulated CPU compared, question by question, with a real x86 kernel under QEMU; and Kiln's module in it,
//! whose drivers open sections over other sections.

pub mod answer;
pub mod asker;
pub mod compare;
pub mod costs;
pub mod emulated;
pub mod nested;
pub mod question;
pub mod row;
