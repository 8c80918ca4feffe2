//! A virtio-crypto device on a vhost-user socket.
//!
//! Each connection is a separate guest, with its own process ([`Inside`]), sessions and queues, and
//! one thread per queue. `kiln-virtio` interprets requests; this crate copies each request out of
//! guest memory once, and copies the answer back.
//!
//! This crate processes the rings itself instead of using a library, so that it can serve, publish
//! and notify in batches, and distinguish a malformed chain from a short one.

// The bodies of the fuzz targets refer to this crate by name, as code outside the crate would. The
// name must therefore also be valid inside the crate.
#[cfg(test)]
extern crate self as kiln_device;

mod account;
mod backend;
mod chain;
mod child;
mod closer;
mod config;
mod confine;
#[cfg(test)]
mod corpora;
mod cpu;
mod crew;
mod duty;
mod error;
#[cfg(test)]
mod fork_lock;
mod forkserver;
mod guest;
#[cfg(test)]
mod hostile;
mod inflight;
mod inside;
mod line;
mod lines;
mod listener;
pub mod log;
mod memory;
mod metrics;
mod notify;
mod pace;
mod process;
mod relay;
#[cfg(any(test, feature = "rig"))]
pub mod rig;
mod ring;
mod runner;
mod sandbox;
mod server;
mod shared;
mod tally;
mod tasks;
pub mod vhost_user;
mod watch;
#[cfg(test)]
mod withheld;

pub use config::{Config, ControlBy};
pub use cpu::cpu_time;
pub use error::Error;
pub use forkserver::Forks;
pub use inside::Inside;
pub use kiln_virtio::Limits;
pub use pace::Rates;
pub use server::{Served, Server};
pub use tasks::warn_of_few_tasks;
