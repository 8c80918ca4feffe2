//! Transforms: a generic type for any kind of algorithm, and specific types for skciphers, AEADs
//! and hashes.

use std::ffi::CString;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr;

use super::{check, scatterlist, Api, Errno, ASYNC, INTERNAL};
use crate::cipher::{Impl, Kind, Op, BLOCK};
use crate::cpu;
use crate::fpu::Context;
use crate::sys;
use crate::tier::static_str;

/// Mask of the flag bits that contain an algorithm's type.
const TYPE_MASK: u32 = 0xf;

/// Returns the type number under which algorithms of this kind are registered.
fn type_of(kind: Kind) -> u32 {
    match kind {
        Kind::Aead => 0x3,
        Kind::Skcipher => 0x5,
        Kind::Hash => 0xe,
    }
}

/// A transform of any kind. Asynchronous requests complete on the CPU of the calling thread.
pub struct Transform {
    pub(crate) raw: sys::Tfm,
    api: &'static Api,
    _here: PhantomData<*mut ()>,
}

impl Transform {
    /// Opens the algorithm with this driver name.
    pub fn open(kind: Kind, driver: &str) -> Result<Transform, Errno> {
        Transform::open_in(Api::get_linked(), kind, driver, 0, 0)
    }

    /// Opens an implementation's driver. With `helper`, opens the asynchronous driver that the simd
    /// helper provides; otherwise opens the synchronous driver.
    pub fn open_impl(api: &'static Api, imp: Impl, helper: bool) -> Result<Transform, Errno> {
        let (kind, name) = (imp.kind(), imp.driver());
        if !helper {
            // Try the internal driver first. Hashes and scalar code have none, because the simd
            // helper does not wrap them.
            let inner = format!("__{name}");
            if let Ok(tfm) = Transform::open_in(api, kind, &inner, INTERNAL, INTERNAL) {
                return Ok(tfm);
            }
        }
        Transform::open_in(api, kind, name, 0, 0)
    }

    fn open_in(
        api: &'static Api,
        kind: Kind,
        name: &str,
        flags: u32,
        mask: u32,
    ) -> Result<Transform, Errno> {
        let name = CString::new(name).map_err(|_| Errno::NOT_THERE)?;
        let mut raw = sys::Tfm {
            name: name.as_ptr(),
            type_: flags | type_of(kind),
            mask: mask | TYPE_MASK,
            ..Default::default()
        };
        // SAFETY: the function takes a pointer to this structure, and the name outlives the call.
        unsafe { cpu::gate(api.open, (&raw mut raw).cast()) };
        raw.name = ptr::null();
        check(raw.err)?;
        Ok(Transform {
            raw,
            api,
            _here: PhantomData,
        })
    }

    /// Returns the name of the driver that was chosen.
    pub fn driver(&self) -> &str {
        // SAFETY: the string belongs to the algorithm, which stays registered as long as it has
        // transforms.
        unsafe { static_str(self.raw.driver) }.unwrap_or("?")
    }

    /// Returns whether requests may complete asynchronously.
    pub fn is_async(&self) -> bool {
        self.raw.flags & ASYNC != 0
    }

    /// Returns whether the algorithm is internal, that is, usable only by other algorithms.
    pub fn is_internal(&self) -> bool {
        self.raw.flags & INTERNAL != 0
    }

    /// Returns the algorithm's priority. Algorithms with a higher priority are preferred.
    pub fn priority(&self) -> i32 {
        self.raw.priority
    }

    pub fn set_key(&mut self, key: &[u8]) -> Result<(), Errno> {
        self.set(self.api.setkey, key.as_ptr(), key.len())
    }

    fn set(&mut self, function: sys::GateFn, key: *const u8, len: usize) -> Result<(), Errno> {
        let mut raw = sys::Setkey {
            tfm: self.raw.tfm,
            key,
            len: len as u32,
            err: 0,
        };
        // SAFETY: the function takes a pointer to this structure, which outlives the call.
        unsafe { cpu::gate(function, (&raw mut raw).cast()) };
        check(raw.err)
    }

    /// Makes one in-place skcipher or AEAD request from task context. Each of `pieces` becomes one
    /// entry of the scatterlist. Together, the pieces hold `assoclen` bytes of associated data, the
    /// text and, for an AEAD, the tag. `len` is the length of the text, plus that of the tag for
    /// AEAD decryption.
    ///
    /// # Errors
    /// Fails with the error of the request: [`Errno::BAD_MESSAGE`] if a tag is wrong, and
    /// [`Errno::INVALID`] if the pieces are shorter than the request or a length exceeds 32 bits.
    pub fn crypt_in_place(
        &mut self,
        op: Op,
        iv: &mut [u8; BLOCK],
        assoclen: usize,
        len: usize,
        pieces: &mut [impl AsMut<[u8]>],
    ) -> Result<(), Errno> {
        let list: Vec<(*mut u8, usize)> = pieces
            .iter_mut()
            .map(|piece| (piece.as_mut().as_mut_ptr(), piece.as_mut().len()))
            .collect();
        let mut lens = list.iter().map(|&(_, len)| len).chain([assoclen, len]);
        if list.is_empty() || !lens.all(|len| u32::try_from(len).is_ok()) {
            return Err(Errno::INVALID);
        }
        // SAFETY: the pieces are borrowed mutably, so they are valid and do not overlap. If they
        // are too short for the request, it fails without accessing memory outside them.
        let (_, result) =
            unsafe { self.request(op, iv, assoclen, len, &list, &list, Context::Task) };
        check(result.0)
    }

    pub fn skcipher(self) -> Skcipher {
        Skcipher(self)
    }

    pub fn aead(self) -> Aead {
        Aead(self)
    }

    pub fn shash(self) -> Shash {
        Shash(self)
    }

    #[allow(clippy::too_many_arguments)]
    unsafe fn request(
        &mut self,
        op: Op,
        iv: &mut [u8; BLOCK],
        assoclen: usize,
        len: usize,
        src: &[(*mut u8, usize)],
        dst: &[(*mut u8, usize)],
        context: Context,
    ) -> (Errno, Errno) {
        // Callers pass the same list twice to request an in-place operation.
        let in_place = src == dst;
        let mut src = scatterlist(src);
        let mut dst = scatterlist(dst);
        let mut raw = sys::Request {
            tfm: self.raw.tfm,
            src: src.as_mut_ptr(),
            dst: match in_place {
                true => src.as_mut_ptr(),
                false => dst.as_mut_ptr(),
            },
            iv: iv.as_mut_ptr(),
            assoclen: assoclen as u32,
            len: len as u32,
            decrypt: op == Op::Decrypt,
            context: context as u32,
            ..Default::default()
        };
        // SAFETY: the function takes a pointer to this structure and returns once the request has
        // completed. The lists end with an entry marked as the last.
        unsafe { cpu::gate(self.api.request, (&raw mut raw).cast()) };
        (Errno(raw.submitted), Errno(raw.result))
    }
}

impl Drop for Transform {
    fn drop(&mut self) {
        if !self.raw.tfm.is_null() {
            // SAFETY: the transform is open, and no other code closes it.
            unsafe { cpu::gate(self.api.close, (&raw mut self.raw).cast()) };
        }
    }
}

/// Declares one transform type per kind, with the methods that all these types share.
macro_rules! transforms {
    ($($(#[$doc:meta])* $name:ident: $kind:expr;)*) => {$(
        $(#[$doc])*
        pub struct $name(Transform);

        impl $name {
            /// Opens the driver called `name`. If no driver has this name, opens the preferred
            /// driver for the algorithm called `name`. Only drivers whose flags match `flags` in
            /// every bit that is set in `mask` are considered.
            pub fn open(name: &str, flags: u32, mask: u32) -> Result<$name, Errno> {
                Transform::open_in(Api::get_linked(), $kind, name, flags, mask).map($name)
            }
        }

        impl Deref for $name {
            type Target = Transform;

            fn deref(&self) -> &Transform {
                &self.0
            }
        }

        impl DerefMut for $name {
            fn deref_mut(&mut self) -> &mut Transform {
                &mut self.0
            }
        }
    )*};
}

transforms! {
    /// A transform for an skcipher, which encrypts without authentication.
    Skcipher: Kind::Skcipher;
    /// A transform for an AEAD, which encrypts the text and authenticates it with a tag.
    Aead: Kind::Aead;
    /// A transform for a hash. Hashes are synchronous in any context.
    Shash: Kind::Hash;
}

impl Skcipher {
    /// Makes one request in `context`. `src` and `dst` list the pieces of memory that hold the
    /// source and the destination. Returns the error code of the submitting call, and the final
    /// result of the request.
    ///
    /// # Safety
    /// The pieces of `src` must be readable, and the pieces of `dst` writable. Pieces in the same
    /// list must not overlap. The two lists must either cover the same bytes in the same order, or
    /// not overlap at all.
    pub unsafe fn request(
        &mut self,
        op: Op,
        iv: &mut [u8; BLOCK],
        len: usize,
        src: &[(*mut u8, usize)],
        dst: &[(*mut u8, usize)],
        context: Context,
    ) -> (Errno, Errno) {
        // SAFETY: the caller promises that the pieces are valid.
        unsafe { self.0.request(op, iv, 0, len, src, dst, context) }
    }
}

impl Aead {
    /// Sets the tag length in bytes. The default is the longest tag that the algorithm supports.
    pub fn set_tag_size(&mut self, bytes: usize) -> Result<(), Errno> {
        let function = self.api.setauthsize;
        self.set(function, ptr::null(), bytes)
    }

    /// Makes a request like [`Skcipher::request`]. The first `assoclen` bytes of the pieces are
    /// associated data. They are followed by `len` bytes, which include the tag for decryption.
    ///
    /// # Safety
    /// The requirements of [`Skcipher::request`] apply.
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
        // SAFETY: the caller promises that the pieces are valid.
        unsafe { self.0.request(op, iv, assoclen, len, src, dst, context) }
    }
}

/// Size in bytes of the longest digest.
const MAX_DIGEST: usize = 64;

impl Shash {
    /// Computes the digest of a message. The message is passed in pieces of the given lengths or,
    /// if the list is empty, in a single call. With `reimport`, exports and imports the state after
    /// each piece. In the returned array, the bytes after the digest are zero.
    ///
    /// # Panics
    /// If the lengths of the pieces do not add up to the length of the message.
    pub fn digest(
        &mut self,
        data: &[u8],
        pieces: &[u32],
        reimport: bool,
        context: Context,
    ) -> Result<[u8; MAX_DIGEST], Errno> {
        self.digest_from(None, data, pieces, reimport, context)
    }

    /// Computes the digest of a message whose first part has already been hashed. `state` is the
    /// exported state after the first part, and `data` is the rest of the message.
    ///
    /// # Errors
    /// [`Errno::INVALID`] if the state is not valid.
    ///
    /// # Panics
    /// If `state` is shorter than an exported state of `imp`, or this transform uses a driver other
    /// than that of `imp`.
    pub fn resume(
        &mut self,
        imp: Impl,
        state: &[u8],
        data: &[u8],
    ) -> Result<[u8; MAX_DIGEST], Errno> {
        assert!(state.len() >= imp.state_size() && imp.driver() == self.driver());
        let pieces = [data.len() as u32];
        self.digest_from(Some(state), data, &pieces, false, Context::Task)
    }

    fn digest_from(
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
        // SAFETY: the function takes a pointer to this structure, and no digest is longer than the
        // buffer.
        unsafe { cpu::gate(self.0.api.digest, (&raw mut raw).cast()) };
        check(raw.err)?;
        Ok(out)
    }
}
