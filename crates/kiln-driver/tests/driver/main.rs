//! Tests the driver with an in-process device that behaves honestly or violates the protocol.

mod data;
mod device;
mod hostile;
mod recovery;
mod sessions;

use std::time::Duration;

use kiln_driver::{Mode, Options, Request};
use kiln_virtio::wire::{algo, session::Cipher, Create};

/// Returns a request for an AES-CBC encryption session.
fn cbc(key_len: u32) -> Request {
    cipher(algo::cipher::AES_CBC, &vec![7; key_len as usize])
}

/// Returns a request for an encryption session.
fn cipher(algo: u32, key: &[u8]) -> Request {
    let create = Create::Cipher(Cipher {
        algo,
        key_len: key.len() as u32,
        op: algo::OP_ENCRYPT,
    });
    Request::new(create, key)
}

/// Returns options with time limits, so that a test fails instead of hanging.
fn options(mode: Mode) -> Options {
    Options {
        mode,
        timeout: Some(Duration::from_secs(20)),
        ..Options::default()
    }
}
