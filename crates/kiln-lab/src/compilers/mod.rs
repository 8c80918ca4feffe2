//! Which compiler, at which flags, ruins which cipher.
//!
//! | file | its noun |
//! |---|---|
//! | `toolchain.rs` | a compiler on this machine, and the flags it knows |
//! | `variant.rs` | a kind of build: sanitizers, flags |
//! | `subject.rs` | what is compiled, and how it is called |
//! | `kernel.rs` | the subjects of `kernel/ciphers` |
//! | `file.rs` | subjects that are files of the user's |
//! | `tree.rs` | subjects that are files of a kernel tree |
//! | `cell.rs` | one subject by one compiler at one level in one variant, and what became of it |
//! | `build.rs` | cells into executables, on all cores |
//! | `store.rs` | where executables are kept, by content |
//! | `object.rs` | what an object file tells: bytes of code, stack |
//! | `answer.rs` | what a cell must answer |
//! | `bench.rs` | cells timed in rounds, beside a reference |
//! | `baseline.rs` | what cells are judged against |
//! | `row.rs` | rows |
//! | `run.rs` | from a plan to rows |
//! | `code.rs` | the hot loop of a cell, read from its machine code |
//! | `culprit.rs` | the flag between two levels that makes the difference |
//! | `explain.rs` | a cell beside its neighbour |
//! | `reproduce.rs` | a directory for a compiler's bug tracker |
//! | `picture.rs` | the heat map |

mod answer;
pub mod baseline;
pub mod bench;
pub mod build;
pub mod cell;
pub mod code;
pub mod culprit;
pub mod explain;
mod file;
mod kernel;
mod object;
pub mod picture;
pub mod reproduce;
pub mod row;
pub mod run;
mod store;
pub mod subject;
pub mod toolchain;
pub mod tree;
pub mod variant;

pub use baseline::Baseline;
pub use cell::{Abi, Cell, Opt, Status};
pub use row::Row;
pub use run::{run, Outcome, Plan};
pub use subject::Subject;
pub use toolchain::Toolchain;
pub use tree::Tree;
pub use variant::Variant;
