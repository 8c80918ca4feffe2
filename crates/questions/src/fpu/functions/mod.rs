//! `kiln fpu prove --tree`: interrupts a kernel tree's library functions before every instruction.

mod row;
mod run;
mod view;

pub(super) use row::FunctionRow;
pub(super) use run::{prove, Asked};
