//! Transforms of other kinds than skciphers: AEADs and hashes.

use std::ptr;

use super::{check, Api, Errno, Skcipher, INTERNAL, TYPE_AEAD, TYPE_SHASH, TYPE_SKCIPHER};
use crate::cipher::{Impl, Kind, Op, BLOCK};
use crate::cpu;
use crate::fpu::Context;
use crate::sys;

/// The type that an algorithm of this kind is registered as.
pub(super) fn type_of(kind: Kind) -> u32 {
    match kind {
        Kind::Skcipher => TYPE_SKCIPHER,
        Kind::Aead => TYPE_AEAD,
        Kind::Hash => TYPE_SHASH,
    }
}

/// A transform of any kind.
pub struct Transform(Skcipher);

impl Transform {
    /// The algorithm of this driver name.
    pub fn open(kind: Kind, driver: &str) -> Result<Transform, Errno> {
        Skcipher::open_as(type_of(kind), driver, 0, 0).map(Transform)
    }

    /// The driver of an implementation: behind the simd helper if `helper` is set, else the synchronous one.
    pub fn open_impl(api: &'static Api, imp: Impl, helper: bool) -> Result<Transform, Errno> {
        let (what, name) = (type_of(imp.kind()), imp.driver());
        if !helper {
            // Hashes and scalar code have no helper, and so no internal driver.
            let inner = format!("__{name}");
            if let Ok(tfm) = Skcipher::open_in(api, what, &inner, INTERNAL, INTERNAL) {
                return Ok(Transform(tfm));
            }
        }
        Skcipher::open_in(api, what, name, 0, 0).map(Transform)
    }

    pub fn set_key(&mut self, key: &[u8]) -> Result<(), Errno> {
        self.0.set_key(key)
    }

    /// As a skcipher's.
    pub fn skcipher(self) -> Skcipher {
        self.0
    }

    /// As an AEAD's.
    pub fn aead(self) -> Aead {
        Aead(self.0)
    }

    /// As a hash's.
    pub fn shash(self) -> Shash {
        Shash(self.0)
    }
}

/// A transform of an AEAD.
pub struct Aead(pub(crate) Skcipher);

impl Aead {
    /// As [`Skcipher::open`].
    pub fn open(name: &str, kind: u32, mask: u32) -> Result<Aead, Errno> {
        Skcipher::open_as(TYPE_AEAD, name, kind, mask).map(Aead)
    }

    /// The driver that was chosen.
    pub fn driver(&self) -> &str {
        self.0.driver()
    }

    /// Whether it may answer later.
    pub fn is_async(&self) -> bool {
        self.0.is_async()
    }

    /// Higher is preferred.
    pub fn priority(&self) -> i32 {
        self.0.priority()
    }

    /// Bytes of an IV.
    pub fn iv_size(&self) -> usize {
        self.0.raw.ivsize as usize
    }

    pub fn set_key(&mut self, key: &[u8]) -> Result<(), Errno> {
        self.0.set_key(key)
    }

    /// Choose the length of tags; the longest otherwise.
    pub fn set_tag_size(&mut self, bytes: usize) -> Result<(), Errno> {
        let mut raw = sys::Setkey {
            tfm: self.0.raw.tfm,
            key: ptr::null(),
            len: bytes as u32,
            err: 0,
        };
        // SAFETY: the function takes this structure.
        unsafe { cpu::gate(self.0.api.setauthsize, (&raw mut raw).cast()) };
        check(raw.err)
    }

    /// As [`Skcipher::request`]; the first `assoclen` bytes of the pieces are associated data,
    /// `len` those behind them, with the tag when decrypting.
    ///
    /// # Safety
    /// As [`Skcipher::request`].
    #[allow(clippy::too_many_arguments)]
    pub unsafe fn request(
        &mut self,
        op: Op,
        iv: &mut [u8; BLOCK],
        assoclen: usize,
        len: usize,
        src: &[(*mut u8, usize)],
        dst: &[(*mut u8, usize)],
        context: Context,
    ) -> (Errno, Errno) {
        // SAFETY: the caller's promises.
        unsafe {
            self.0
                .request_with(op, iv, assoclen, len, src, dst, context)
        }
    }
}

/// A transform of a hash, which is synchronous in any context.
pub struct Shash(Skcipher);

/// Bytes of the longest digest.
const MAX_DIGEST: usize = 64;

impl Shash {
    /// As [`Skcipher::open`].
    pub fn open(name: &str, kind: u32, mask: u32) -> Result<Shash, Errno> {
        Skcipher::open_as(TYPE_SHASH, name, kind, mask).map(Shash)
    }

    /// The driver that was chosen.
    pub fn driver(&self) -> &str {
        self.0.driver()
    }

    pub fn set_key(&mut self, key: &[u8]) -> Result<(), Errno> {
        self.0.set_key(key)
    }

    /// The digest of a message, in pieces or, if none are named, in one call; with `reimport` the
    /// state is exported and imported after each piece. What is behind the digest's bytes is zero.
    ///
    /// # Panics
    /// If the pieces are not the message.
    pub fn digest(
        &mut self,
        data: &[u8],
        pieces: &[u32],
        reimport: bool,
        context: Context,
    ) -> Result<[u8; MAX_DIGEST], Errno> {
        self.digest_of(None, data, pieces, reimport, context)
    }

    /// The same of a message that goes on from an exported state, in one piece.
    ///
    /// # Errors
    /// [`Errno::INVALID`] if it is not a state.
    ///
    /// # Panics
    /// If the state is shorter than the algorithm's.
    pub fn resume(
        &mut self,
        imp: Impl,
        state: &[u8],
        data: &[u8],
    ) -> Result<[u8; MAX_DIGEST], Errno> {
        assert!(state.len() >= imp.state_size() && imp.driver() == self.driver());
        let pieces = [data.len() as u32];
        self.digest_of(Some(state), data, &pieces, false, Context::Task)
    }

    fn digest_of(
        &mut self,
        state: Option<&[u8]>,
        data: &[u8],
        pieces: &[u32],
        reimport: bool,
        context: Context,
    ) -> Result<[u8; MAX_DIGEST], Errno> {
        let all: usize = pieces.iter().map(|&n| n as usize).sum();
        assert!(pieces.is_empty() || all == data.len());
        let mut out = [0; MAX_DIGEST];
        let mut raw = sys::Digest {
            tfm: self.0.raw.tfm,
            data: data.as_ptr(),
            len: data.len() as u32,
            piece: pieces.as_ptr(),
            pieces: pieces.len() as u32,
            reimport,
            state: state.map_or(ptr::null(), <[u8]>::as_ptr),
            out: out.as_mut_ptr(),
            context: context as u32,
            err: 0,
        };
        // SAFETY: the function takes this structure; no digest is longer than the buffer.
        unsafe { cpu::gate(self.0.api.digest, (&raw mut raw).cast()) };
        check(raw.err)?;
        Ok(out)
    }
}
