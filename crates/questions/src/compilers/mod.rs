//! Finds the combinations of compiler, flags and cipher that give slow or wrong code.
//!
//! | file | contents |
//! |---|---|
//! | `args.rs` | the command |
//! | `toolchain.rs` | a compiler on this machine, and the flags it accepts |
//! | `variant.rs` | a kind of build: sanitizers, flags |
//! | `subject.rs` | what is compiled, and how it is called |
//! | `catalogue.rs` | subjects by their names |
//! | `kernel.rs` | the subjects of `kernel/ciphers` |
//! | `file.rs` | subjects that are source files of the user |
//! | `tree.rs` | subjects that are files of a kernel tree |
//! | `cell.rs` | one combination of subject, compiler, level, variant and width, and its status |
//! | `arguments.rs` | the arguments for compiling a source |
//! | `build.rs` | builds executables, on all cores |
//! | `store.rs` | the cache of executables, by content |
//! | `object.rs` | the code size, stack usage and symbols of an object file |
//! | `answer.rs` | the expected results |
//! | `bench.rs` | times cells in rounds, together with a reference |
//! | `baseline.rs` | the baseline against which cells are judged |
//! | `row.rs` | rows |
//! | `run.rs` | builds, times and judges the cells of a plan |
//! | `code.rs` | the hot loop of a cell, read from its machine code |
//! | `culprit.rs` | finds the flag that causes the difference between two levels |
//! | `checks.rs` | the checks of a sanitizer, to try them one at a time |
//! | `explain.rs`, `explain_run.rs`, `explain_view.rs` | `--explain`: a cell and similar ones |
//! | `reproduce.rs` | a directory for a compiler's bug tracker |
//! | `view.rs` | the human-readable tables |
//! | `survey.rs`, `headline.rs` | the command's part of the survey, and its headlines |
//! | `harness/` | the C code around a subject |

mod answer;
mod args;
mod arguments;
mod baseline;
mod bench;
mod build;
mod catalogue;
mod cell;
mod checks;
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
