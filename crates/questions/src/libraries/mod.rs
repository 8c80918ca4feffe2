//! Other libraries to compare with: which are installed, and how to install the current ones.

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
