//! Graviola, compiled in if the cargo feature `peers` is enabled, and called as its documentation
//! recommends.
//!
//! An AEAD object is created once from the key. Its methods `encrypt` and `decrypt` process a whole
//! message in place and take the nonce, the associated data and the tag as separate arguments. All
//! libraries are measured with the result in a different buffer from the source, so Graviola's AEAD
//! times include copying the text to its destination. A hash needs a single call. For HMAC, an
//! object that holds the key is cloned for each message.

use std::slice::{from_raw_parts, from_raw_parts_mut};

use graviola::aead::{AesGcm, ChaCha20Poly1305};
use graviola::hashing::hmac::Hmac;
use graviola::hashing::{Hash, Sha256, Sha512};

use super::each::{call_each, Call};
use super::interface::Peer;
use crate::{Candidate, Messages, Op, Run, Shape, Work};

/// The name that selects the library in the flag `--peers`.
pub(super) const NAME: &str = "graviola";

pub(super) struct Graviola;

impl Graviola {
    /// Checks whether the processor can run the library. The library is part of this program, but
    /// aborts on processors that lack certain features.
    ///
    /// # Errors
    /// Returns a single line that names a feature that the processor lacks.
    pub(super) fn load() -> Result<Graviola, String> {
        let has = [
            ("aes", is_x86_feature_detected!("aes")),
            ("ssse3", is_x86_feature_detected!("ssse3")),
            ("pclmulqdq", is_x86_feature_detected!("pclmulqdq")),
            ("avx2", is_x86_feature_detected!("avx2")),
            ("bmi1", is_x86_feature_detected!("bmi1")),
            ("bmi2", is_x86_feature_detected!("bmi2")),
            ("adx", is_x86_feature_detected!("adx")),
        ];
        match has.iter().find(|(_, has)| !has) {
            Some((feature, _)) => Err(format!("{NAME} does not run on a CPU without {feature}")),
            None => Ok(Graviola),
        }
    }
}

impl Peer for Graviola {
    fn name(&self) -> &'static str {
        NAME
    }

    fn version(&self) -> &str {
        // The crate does not report its version, so the version in Cargo.toml is repeated here.
        "0.4.4"
    }

    fn file(&self) -> &str {
        "this program (--features peers)"
    }

    fn place(&self) -> &'static str {
        "program"
    }

    fn candidates(&self, work: &Work) -> Result<Vec<Candidate<'static>>, String> {
        let alg: &str = &work.spec.name;
        let (name, run) = match alg {
            "gcm(aes)" if work.key_bits == 192 => {
                return Err(format!("{} has no {alg} with AES-192", self.provider()))
            }
            "gcm(aes)" => ("AesGcm", gcm(work)),
            "rfc7539(chacha20,poly1305)" => ("ChaCha20Poly1305", chachapoly(work)?),
            "sha256" => ("Sha256", hash::<Sha256>()),
            "sha512" => ("Sha512", hash::<Sha512>()),
            "hmac(sha256)" => ("Hmac<Sha256>", hmac::<Sha256>(work)),
            "hmac(sha512)" => ("Hmac<Sha512>", hmac::<Sha512>(work)),
            _ => return Ok(Vec::new()),
        };
        Ok(vec![Candidate::primitive(name, self.provider(), None, run)])
    }
}

/// The parts of one AEAD message. The text has already been copied to its destination.
struct Parts<'a> {
    nonce: &'a [u8; 12],
    aad: &'a [u8],
    text: &'a mut [u8],
}

/// Copies the text to its destination and returns the parts of the message.
///
/// # Safety
/// The pointers in the call must be valid for this shape, and the shape must be that of an AEAD
/// with a 12-byte nonce.
#[inline(always)]
unsafe fn parts<'a>(c: &Call, shape: &Shape) -> Parts<'a> {
    // SAFETY: the caller promises that the pointers are valid for this shape. Source and
    // destination do not overlap.
    unsafe {
        c.dst.copy_from_nonoverlapping(c.src, shape.len);
        Parts {
            nonce: &*c.iv.cast(),
            aad: from_raw_parts(c.aad, shape.prefix),
            text: from_raw_parts_mut(c.dst, shape.len),
        }
    }
}

macro_rules! aead {
    ($aead:expr, $work:expr) => {{
        let (aead, decrypt) = ($aead, $work.op == Op::Decrypt);
        Box::new(move |m: &mut Messages, calls| {
            let (aead, shape) = (&aead, m.shape);
            if shape.iv != 12 || shape.tag != 16 {
                return Err("takes nonces of 12 bytes and tags of 16 only".to_string());
            }
            call_each(m, calls, |c| {
                // SAFETY: the sizes of nonce and tag were checked above, and the tag follows the
                // text.
                unsafe {
                    let p = parts(&c, &shape);
                    if decrypt {
                        let tag = from_raw_parts(c.tag_to_open(shape.len), 16);
                        aead.decrypt(p.nonce, p.aad, p.text, tag).is_ok()
                    } else {
                        let tag = &mut *c.tag_made(shape.len).cast::<[u8; 16]>();
                        aead.encrypt(p.nonce, p.aad, p.text, tag);
                        true
                    }
                }
            })
        })
    }};
}

fn gcm(work: &Work) -> Run<'static> {
    aead!(AesGcm::new(&work.key), work)
}

fn chachapoly(work: &Work) -> Result<Run<'static>, String> {
    let key = <[u8; 32]>::try_from(&work.key[..]).map_err(|_| format!("{NAME}: a key's length"))?;
    Ok(aead!(ChaCha20Poly1305::new(key), work))
}

fn hash<H: Hash>() -> Run<'static> {
    Box::new(move |m: &mut Messages, calls| {
        let (len, size) = (m.shape.len, m.shape.digest);
        call_each(m, calls, |c| {
            // SAFETY: the source has `len` bytes, and the result buffer has room for the digest.
            unsafe {
                let digest = H::hash(from_raw_parts(c.src, len));
                from_raw_parts_mut(c.dst, size).copy_from_slice(digest.as_ref());
            }
            true
        })
    })
}

fn hmac<H: Hash + Clone + 'static>(work: &Work) -> Run<'static>
where
    H::Context: Clone,
{
    let keyed = Hmac::<H>::new(&work.key);
    Box::new(move |m: &mut Messages, calls| {
        let (keyed, len, size) = (&keyed, m.shape.len, m.shape.digest);
        call_each(m, calls, |c| {
            let mut mac = keyed.clone();
            // SAFETY: the source has `len` bytes, and the result buffer has room for the digest.
            unsafe {
                mac.update(from_raw_parts(c.src, len));
                from_raw_parts_mut(c.dst, size).copy_from_slice(mac.finish().as_ref());
            }
            true
        })
    })
}
