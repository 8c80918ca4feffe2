//! `kiln libraries`: lists other libraries to compare with, and installs their current versions.

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
