//! Other libraries to compare with: which are here, and how to get the current ones into Kiln's cache.
//!
//! | file | contents |
//! |---|---|
//! | `args.rs`, `install_args.rs` | the commands |
//! | `row.rs`, `view.rs` | the rows, and the table for people |
//! | `catalogue.rs` | the libraries that can be installed, and what that needs |
//! | `install.rs` | an installation, from an empty directory to its final name |
//! | `job.rs` | an installation under way, and how it can end early |
//! | `registry.rs` | downloads through cargo and apt, which verify them |
//! | `build.rs` | how each library is built or unpacked |
//! | `step.rs` | running a program with a log, progress and Ctrl-C |

mod args;
mod build;
mod catalogue;
mod install;
mod install_args;
mod job;
mod registry;
mod row;
mod step;
mod view;

pub(crate) use args::LibrariesArgs;
