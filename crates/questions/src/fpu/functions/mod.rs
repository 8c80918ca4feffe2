//! `kiln fpu prove --tree`: injects an interrupt before every instruction of a kernel tree's
//! library functions.

mod row;
mod run;
mod view;

pub(super) use row::FunctionRow;
pub(super) use run::{prove, Asked};
