//! Which compiler, at which flags, ruins which cipher.
//!
//! | file | its noun |
//! |---|---|
//! | `args.rs` | the command |
//! | `toolchain.rs` | a compiler on this machine, and the flags it knows |
//! | `variant.rs` | a kind of build: sanitizers, flags |
//! | `subject.rs` | what is compiled, and how it is called |
//! | `catalogue.rs` | subjects by their names |
//! | `kernel.rs` | the subjects of `kernel/ciphers` |
//! | `file.rs` | subjects that are files of the user's |
//! | `tree.rs` | subjects that are files of a kernel tree |
//! | `cell.rs` | one subject by one compiler at one level in one variant, and what became of it |
//! | `arguments.rs` | what a source is compiled with |
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
//! | `explain.rs`, `explain_run.rs`, `explain_view.rs` | a cell beside its neighbour (`--explain`) |
//! | `reproduce.rs` | a directory for a compiler's bug tracker |
//! | `view.rs` | the tables for people |
//! | `survey.rs`, `headline.rs` | its parts of the survey, and the headlines made of their records |
//! | `harness/` | the C code around a subject |

mod answer;
mod args;
mod arguments;
mod baseline;
mod bench;
mod build;
mod catalogue;
mod cell;
mod code;
mod culprit;
mod explain;
mod explain_run;
mod explain_view;
mod file;
mod headline;
mod kernel;
mod object;
mod reproduce;
mod row;
mod run;
mod store;
mod subject;
mod survey;
mod toolchain;
mod tree;
mod variant;
mod view;

pub(crate) use args::CompilersArgs;
pub(crate) use survey::SURVEY;
pub(crate) use toolchain::compilers_on_path;
pub use toolchain::Toolchain;
