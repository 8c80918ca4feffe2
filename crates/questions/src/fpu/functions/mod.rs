//! An interrupt before every instruction of a kernel tree's library functions: `kiln fpu prove --tree`.

mod row;
mod run;
mod view;

pub(super) use row::FunctionRow;
pub(super) use run::{prove, Asked};
