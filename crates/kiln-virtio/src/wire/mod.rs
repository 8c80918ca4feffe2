//! Parses and emits requests and answers in the wire format of the queues (virtio 1.4, section
//! 5.9).
//!
//! All numbers are little-endian. The legacy format pads the fixed part of a request to 56 bytes
//! (control) or 48 bytes (data). Under `VIRTIO_CRYPTO_F_REVISION_1`, each fixed part has the size
//! of its structure. Services with a negotiated stateless mode use a third format.

pub mod algo;
mod bytes;
pub mod config;
pub mod control;
pub mod data;
mod fault;
pub mod feature;
pub mod opcode;
mod operation;
pub mod session;
mod stateless;
pub mod status;

pub use config::Config;
pub use control::Control;
pub use data::{Operation, Request};
pub use fault::Fault;
pub use feature::Features;
pub use opcode::{Action, Service};
pub use session::Create;
pub use status::Status;

/// The virtio device ID of crypto devices.
pub const DEVICE_ID: u32 = 20;
