//! A virtio-crypto device on a vhost-user socket.
//!
//! Each connection is a guest of its own, with a process of its own ([`Inside`]), its own sessions, its own queues and
//! a thread for each of them. `kiln-virtio` interprets requests; this crate copies each request out of the guest's
//! memory once, and its answer back.
//!
//! This crate processes the rings itself instead of using a library, so that it can serve, publish and notify in
//! batches, and distinguish a malformed chain from a short one.

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
