//! Checks at start-up that libcrypto works. The test keys are part of this crate and protect
//! nothing.

use std::sync::OnceLock;

use super::key::{Curve, Padding, Scheme};
use super::library::Library;
use super::Key;
use crate::sample::{P256, RSA};
use crate::wire::algo::akcipher as algo;
use crate::wire::{session, Action, Status};
use crate::Limits;

/// Loads the library and tries each of its operations once. Returns `None` if the library is not
/// installed or computes a wrong result.
///
/// This takes several milliseconds. Once this function returns, the library has read all the files
/// that it needs, so it keeps working after the process enters a sandbox. After a fork, the library
/// reseeds its random number generators.
pub(crate) fn load() -> Option<Library> {
    static LOADED: OnceLock<Option<Library>> = OnceLock::new();
    let load = || Library::load().filter(works);
    LOADED.get_or_init(load).clone()
}

/// Returns whether decryption reverses encryption and a wrong signature is rejected.
fn works(library: &Library) -> bool {
    rsa(library).is_ok_and(|right| right) && ecdsa(library).is_ok_and(|right| right)
}

fn key(library: &Library, scheme: Scheme, encoded: &[u8]) -> Result<Key, Status> {
    let (algo, para) = match scheme {
        Scheme::Rsa(Padding::Raw) => (algo::RSA, [algo::RAW_PADDING, 0]),
        Scheme::Rsa(_) => (algo::RSA, [algo::PKCS1_PADDING, algo::RSA_SHA256]),
        Scheme::Ecdsa(_) => (algo::ECDSA, [algo::P256, 0]),
    };
    let create = session::Akcipher {
        algo,
        key_type: algo::PRIVATE,
        key_len: encoded.len() as u32,
        para,
    };
    Key::new(library, &Limits::default(), &create, encoded)
}

fn rsa(library: &Library) -> Result<bool, Status> {
    let raw = key(library, Scheme::Rsa(Padding::Raw), RSA)?;
    let message = [0x5a; 63];
    let (mut there, mut back) = ([0; 64], [0; 64]);
    let a = raw.serve(Action::Encrypt, &message, &[], &mut there)?;
    let b = raw.serve(Action::Decrypt, &there, &[], &mut back)?;
    let same = (a, b) == (64, 64) && back[1..] == message && back[0] == 0 && there != back;
    let pkcs1 = key(library, Scheme::Rsa(Padding::Pkcs1(None)), RSA)?;
    Ok(same && signs(&pkcs1, &[0x33; 32], &[0x34; 32])?)
}

fn ecdsa(library: &Library) -> Result<bool, Status> {
    let key = key(library, Scheme::Ecdsa(Curve::P256), P256)?;
    signs(&key, &[0x33; 32], &[0x34; 32])
}

fn signs(key: &Key, digest: &[u8], other: &[u8]) -> Result<bool, Status> {
    let mut signature = [0; 80];
    let len = key.serve(Action::Sign, digest, &[], &mut signature)?;
    let signature = &signature[..len];
    let right = key.serve(Action::Verify, signature, digest, &mut []);
    let wrong = key.serve(Action::Verify, signature, other, &mut []);
    Ok((right, wrong) == (Ok(0), Err(Status::KeyRejected)))
}
