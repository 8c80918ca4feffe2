//! `kiln here`: determines from the running kernel's own files whether this machine has the
//! problems behind the five questions.
//!
//! | file | contents |
//! |---|---|
//! | `args.rs` | the command |
//! | `files.rs` | which files are read, and how |
//! | `recording.rs` | stores the same files in a directory |
//! | `config.rs`, `crypto.rs`, `kernel.rs` | the kernel's configuration, drivers and versions |
//! | `machine.rs` | the parsed contents of all files |
//! | `deferral.rs` | questions 1 and 2: softirqs, and IPsec |
//! | `sections.rs` | question 3: the length of FPU sections |
//! | `compiler.rs` | question 4: compiler and flags |
//! | `queue.rs` | question 5: the virtio-crypto control queue |
//! | `answer.rs`, `row.rs` | an answer, and the row created from it |
//! | `run.rs`, `view.rs` | all five answers; the table and the sentences |
//! | `script.rs`, `live.rs` | writes the bpftrace script, and runs it |

mod answer;
mod args;
mod compiler;
mod config;
mod crypto;
mod deferral;
mod files;
mod kernel;
mod live;
mod machine;
mod queue;
mod recording;
mod row;
mod run;
mod script;
mod sections;
#[cfg(test)]
mod tests;
mod view;

pub(crate) use args::HereArgs;
pub(crate) use config::condense_config;
pub(crate) use files::{condense, SOURCES};
pub(crate) use recording::{check_recording, write_recording};
