//! A virtio-crypto device on a vhost-user socket.
//!
//! Each connection is a guest of its own, with a process of its own ([`Inside`]), its own sessions, its own queues and a
//! thread for each of them. What a request means is `kiln-virtio`'s to say; here it is copied out of the guest's memory once, and the answer into it.
//!
//! The rings are walked here and not by a library: all that is available is served, shown and told of in batches, and
//! a malformed chain is distinguished from a short one.

mod account;
pub mod adapter;
mod alarm;
mod backend;
mod chain;
mod closer;
mod config;
mod confine;
mod cpu;
mod duty;
mod error;
mod guest;
#[cfg(test)]
mod hostile;
mod inflight;
mod inside;
mod line;
pub mod log;
mod memory;
mod metrics;
mod notify;
mod pace;
mod process;
#[cfg(any(test, feature = "rig"))]
pub mod rig;
mod ring;
mod runner;
mod sandbox;
mod server;
mod tally;

pub use config::{Config, ControlBy};
pub use error::Error;
pub use inside::Inside;
pub use kiln_virtio::Limits;
pub use pace::Rates;
pub use server::{Served, Server};
