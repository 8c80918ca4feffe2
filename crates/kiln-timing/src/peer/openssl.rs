//! OpenSSL's libcrypto, called as its documentation recommends.
//!
//! For many messages under one key, the documentation recommends a single `EVP_CIPHER_CTX` whose
//! cipher and key are set once. For each message, `EVP_CipherInit_ex(ctx, NULL, NULL, NULL, iv,
//! -1)` then sets the IV, and one `EVP_CipherUpdate` processes the whole message. According to
//! EVP_EncryptInit(3), a context may be reused in this way, and unchanged parameters are passed as
//! NULL. Without padding, only AEADs need a final call. The calls for an AEAD follow the order
//! given on the same page (AEAD interface): IV, associated data, text, final, tag. For CCM, the
//! length is passed before the associated data.
//!
//! For a digest, the algorithm is fetched once, as crypto(7) recommends for performance, and a
//! single `EVP_MD_CTX` is used. Each message takes three calls: init, update and final. For a MAC,
//! a single `EVP_MAC_CTX` holds the key, and `EVP_MAC_init` without a key begins the next message
//! under the same key (EVP_MAC(3)). A Poly1305 key may be used for only one message, so the key is
//! set again for each message.

mod functions;

use std::ffi::{c_int, c_void, CString};
use std::path::Path;
use std::ptr::{null, null_mut, NonNull};
use std::sync::Arc;

use super::each::{call_each, ccm_nonce};
use super::interface::Peer;
use crate::{Candidate, Messages, Op, Run, Work};
use functions::{Functions, Param};

// Constants from evp.h, such as `EVP_CTRL_AEAD_SET_IVLEN`.
const SET_IVLEN: c_int = 0x9;
const GET_TAG: c_int = 0x10;
const SET_TAG: c_int = 0x11;

/// The library with its resolved functions.
#[derive(Clone)]
pub(super) struct OpenSsl(Arc<Functions>);

impl OpenSsl {
    /// Loads the library. If `file` is given, tries only that file.
    ///
    /// # Errors
    /// Returns one line that states the reason and a remedy.
    pub(super) fn load(file: Option<&Path>) -> Result<OpenSsl, String> {
        functions::FIND
            .load(file, Functions::load, |f| &f.version)
            .map(|f| OpenSsl(Arc::new(f)))
    }

    fn cipher(&self, name: &str, work: &Work) -> Result<Cipher, String> {
        let f = &*self.0;
        let lacks = || format!("{} has no {name}", self.provider());
        let c_name = CString::new(name).map_err(|_| lacks())?;
        // SAFETY: the name is a C string. The result is a static object of the library, or null.
        let cipher = unsafe { (f.cipher_by_name)(c_name.as_ptr()) };
        if cipher.is_null() {
            return Err(lacks());
        }
        // SAFETY: EVP_CIPHER_CTX_new takes no arguments and returns a new context or null.
        let ctx = NonNull::new(unsafe { (f.ctx_new)() })
            .ok_or_else(|| format!("{} has no memory for a context", self.provider()))?;
        let own = Cipher {
            library: self.clone(),
            ctx,
        };
        let encrypt = c_int::from(work.op != Op::Decrypt);
        let ctx = ctx.as_ptr();
        let ccm = work.spec.name.starts_with("ccm(");
        // SAFETY: the context is new, and the key is as long as the cipher requires. The first call
        // sets only the cipher, because CCM's sizes must be set before the key. A null IV means
        // that the IV is set later.
        let ok = unsafe {
            (f.init)(ctx, cipher, null_mut(), null(), null(), encrypt) == 1
                && (!ccm || {
                    let nonce = ccm_nonce(&work.shape(16)) as c_int;
                    let tag = work.spec.tag as c_int;
                    (f.ctrl)(ctx, SET_IVLEN, nonce, null_mut()) == 1
                        && (f.ctrl)(ctx, SET_TAG, tag, null_mut()) == 1
                })
                && (f.init)(ctx, null(), null_mut(), work.key.as_ptr(), null(), -1) == 1
                && (f.set_padding)(ctx, 0) == 1
        };
        match ok {
            true => Ok(own),
            false => Err(format!(
                "{} refuses the key of {name} (XTS: it does when both halves are equal)",
                self.provider()
            )),
        }
    }

    fn digest(&self, name: &str) -> Result<Digest, String> {
        let f = &*self.0;
        let lacks = || format!("{} has no {name}", self.provider());
        let c_name = CString::new(name).map_err(|_| lacks())?;
        // SAFETY: the name is a C string. The result is null, a static object of the library, or a
        // fetched digest, which is never freed.
        let md = unsafe {
            match f.md_fetch {
                Some(fetch) => fetch(null_mut(), c_name.as_ptr(), null()),
                None => (f.md_by_name)(c_name.as_ptr()),
            }
        };
        if md.is_null() {
            return Err(lacks());
        }
        // SAFETY: EVP_MD_CTX_new takes no arguments and returns a new context or null.
        let ctx = NonNull::new(unsafe { (f.md_ctx_new)() })
            .ok_or_else(|| format!("{} has no memory for a context", self.provider()))?;
        Ok(Digest {
            library: self.clone(),
            ctx,
            md,
        })
    }

    fn mac(&self, name: &str, of: Option<(&str, &str)>, work: &Work) -> Result<MacCtx, String> {
        let f = &*self.0;
        let lacks = || format!("{} has no EVP_MAC {name}", self.provider());
        let mac = f.mac.as_ref().ok_or_else(lacks)?;
        let c_name = CString::new(name).map_err(|_| lacks())?;
        let (key, value) = of.unwrap_or_default();
        let key = CString::new(key).map_err(|_| lacks())?;
        let value = CString::new(value).map_err(|_| lacks())?;
        let params = [
            match of {
                Some(_) => Param::text(&key, &value),
                None => Param::END,
            },
            Param::END,
        ];
        // SAFETY: the names are C strings. The context takes its own reference to the algorithm, so
        // the algorithm may be freed here.
        let ctx = unsafe {
            let algorithm = (mac.fetch)(null_mut(), c_name.as_ptr(), null());
            if algorithm.is_null() {
                return Err(lacks());
            }
            let ctx = (mac.ctx_new)(algorithm);
            (mac.free)(algorithm);
            ctx
        };
        let ctx = NonNull::new(ctx)
            .ok_or_else(|| format!("{} has no memory for a context", self.provider()))?;
        let own = MacCtx {
            library: self.clone(),
            ctx,
            size: work.spec.digest,
            key: match name {
                "POLY1305" => Some(work.key.to_vec()),
                _ => None,
            },
        };
        // SAFETY: the context is new, and `Param::END` ends the parameters. The function does not
        // keep pointers to the key or the parameters.
        let ok = unsafe {
            (mac.init)(
                ctx.as_ptr(),
                work.key.as_ptr(),
                work.key.len(),
                params.as_ptr(),
            )
        };
        match ok {
            1 => Ok(own),
            _ => Err(format!("{} refuses the key of {name}", self.provider())),
        }
    }
}

impl Peer for OpenSsl {
    fn name(&self) -> &'static str {
        functions::FIND.peer
    }

    fn version(&self) -> &str {
        &self.0.version
    }

    fn file(&self) -> &str {
        &self.0.opened.file
    }

    fn place(&self) -> &'static str {
        self.0.opened.place
    }

    fn candidates(&self, work: &Work) -> Result<Vec<Candidate<'static>>, String> {
        let bits = work.key_bits;
        let op = work.op;
        let cipher = |mode: &str| -> Result<(String, Cipher), String> {
            let name = match mode.split_once(':') {
                Some((_, whole)) => whole.to_string(),
                None => format!("aes-{bits}-{mode}"),
            };
            Ok((
                format!("EVP_{}", name.replace('-', "_")),
                self.cipher(&name, work)?,
            ))
        };
        let hmac = |of: &str| self.mac("HMAC", Some(("digest", of)), work);
        let alg: &str = &work.spec.name;
        let (name, run): (String, Run<'static>) = match alg {
            "xts(aes)" if bits == 192 => {
                return Err(format!("{} has no AES-192-XTS", self.provider()))
            }
            "ecb(aes)" | "cbc(aes)" | "ctr(aes)" | "xts(aes)" => {
                let (name, cipher) = cipher(&alg[..3])?;
                (name, skcipher(cipher))
            }
            "chacha20" => {
                let (name, cipher) = cipher(":chacha20")?;
                (name, skcipher(cipher))
            }
            "gcm(aes)" => {
                let (name, cipher) = cipher("gcm")?;
                (name, aead(cipher, op))
            }
            "ccm(aes)" => {
                let (name, cipher) = cipher("ccm")?;
                (name, ccm(cipher, op))
            }
            "rfc7539(chacha20,poly1305)" => {
                let (name, cipher) = cipher(":chacha20-poly1305")?;
                (name, aead(cipher, op))
            }
            "sha1" | "sha256" | "sha512" | "sm3" => {
                (format!("EVP_{alg}"), digest(self.digest(alg)?))
            }
            "blake2s-256" => ("EVP_blake2s256".into(), digest(self.digest("blake2s256")?)),
            "hmac(sha1)" => ("EVP_MAC_hmac_sha1".into(), mac(hmac("SHA1")?)),
            "hmac(sha256)" => ("EVP_MAC_hmac_sha256".into(), mac(hmac("SHA256")?)),
            "hmac(sha512)" => ("EVP_MAC_hmac_sha512".into(), mac(hmac("SHA512")?)),
            "cmac(aes)" => {
                let of = format!("AES-{bits}-CBC");
                let ctx = self.mac("CMAC", Some(("cipher", &of)), work)?;
                (format!("EVP_MAC_cmac_aes_{bits}"), mac(ctx))
            }
            "poly1305" => {
                let ctx = self.mac("POLY1305", None, work)?;
                ("EVP_MAC_poly1305".into(), mac(ctx))
            }
            _ => return Ok(Vec::new()),
        };
        Ok(vec![Candidate::primitive(name, self.provider(), None, run)])
    }
}

/// Converts a length to a C `int`, or returns an error if the length is too large.
fn int(len: usize) -> Result<c_int, String> {
    c_int::try_from(len).map_err(|_| format!("a message of {len} bytes"))
}

fn skcipher(cipher: Cipher) -> Run<'static> {
    let run = move |m: &mut Messages, calls| {
        let (f, ctx, len) = (&*cipher.library.0, cipher.ctx.as_ptr(), int(m.shape.len)?);
        let has_iv = m.shape.iv > 0;
        call_each(m, calls, |c| {
            let mut out = 0;
            // SAFETY: the context belongs to this thread and has a cipher and a key. The pointers
            // are valid for the message's length. Padding is off, so the output is exactly as long
            // as the input.
            unsafe {
                (!has_iv || (f.init)(ctx, null(), null_mut(), null(), c.iv, -1) == 1)
                    && (f.update)(ctx, c.dst, &mut out, c.src, len) == 1
                    && out == len
            }
        })
    };
    Box::new(run)
}

fn aead(cipher: Cipher, op: Op) -> Run<'static> {
    let run = move |m: &mut Messages, calls| {
        let (f, ctx, shape) = (&*cipher.library.0, cipher.ctx.as_ptr(), m.shape);
        let (len, aad, tag) = (int(shape.len)?, int(shape.prefix)?, int(shape.tag)?);
        let seal = op == Op::Encrypt;
        call_each(m, calls, |c| {
            let (mut out, mut rest) = (0, 0);
            // SAFETY: the context belongs to this thread and has a cipher and a key, and the
            // pointers are valid for the lengths in the shape. The final call writes nothing in
            // these modes, but the function requires a buffer.
            unsafe {
                (f.init)(ctx, null(), null_mut(), null(), c.iv, -1) == 1
                    && (f.update)(ctx, null_mut(), &mut out, c.aad, aad) == 1
                    && (f.update)(ctx, c.dst, &mut out, c.src, len) == 1
                    && out == len
                    && (seal || {
                        let tag_at = c.tag_to_open(shape.len).cast_mut();
                        (f.ctrl)(ctx, SET_TAG, tag, tag_at.cast()) == 1
                    })
                    && (f.finish)(ctx, [0u8; 32].as_mut_ptr(), &mut rest) == 1
                    && (!seal || {
                        let tag_at = c.tag_made(shape.len);
                        (f.ctrl)(ctx, GET_TAG, tag, tag_at.cast()) == 1
                    })
            }
        })
    };
    Box::new(run)
}

/// Returns a closure that encrypts or decrypts messages with CCM. The message length must be passed
/// before the associated data. When decrypting, the tag must be passed before the text, and the
/// update call that processes the text fails if the tag is wrong.
fn ccm(cipher: Cipher, op: Op) -> Run<'static> {
    let run = move |m: &mut Messages, calls| {
        let (f, ctx, shape) = (&*cipher.library.0, cipher.ctx.as_ptr(), m.shape);
        let (len, aad, tag) = (int(shape.len)?, int(shape.prefix)?, int(shape.tag)?);
        let seal = op == Op::Encrypt;
        call_each(m, calls, |c| {
            let mut out = 0;
            // SAFETY: the context belongs to this thread and has a cipher and a key, and the
            // pointers are valid for the shape's lengths. The nonce begins at the IV's second byte.
            unsafe {
                (seal || {
                    let tag_at = c.tag_to_open(shape.len).cast_mut();
                    (f.ctrl)(ctx, SET_TAG, tag, tag_at.cast()) == 1
                }) && (f.init)(ctx, null(), null_mut(), null(), c.iv.add(1), -1) == 1
                    && (f.update)(ctx, null_mut(), &mut out, null(), len) == 1
                    && (f.update)(ctx, null_mut(), &mut out, c.aad, aad) == 1
                    && (f.update)(ctx, c.dst, &mut out, c.src, len) == 1
                    && out == len
                    && (!seal || {
                        let tag_at = c.tag_made(shape.len);
                        (f.ctrl)(ctx, GET_TAG, tag, tag_at.cast()) == 1
                    })
            }
        })
    };
    Box::new(run)
}

fn digest(digest: Digest) -> Run<'static> {
    let run = move |m: &mut Messages, calls| {
        let (f, ctx, len) = (&*digest.library.0, digest.ctx.as_ptr(), m.shape.len);
        call_each(m, calls, |c| {
            // SAFETY: the context belongs to this thread, and the digest lives as long as the
            // library. The result buffer has room for the digest.
            unsafe {
                (f.md_init)(ctx, digest.md, null_mut()) == 1
                    && (f.md_update)(ctx, c.src.cast(), len) == 1
                    && (f.md_final)(ctx, c.dst, null_mut()) == 1
            }
        })
    };
    Box::new(run)
}

fn mac(ctx: MacCtx) -> Run<'static> {
    let run = move |m: &mut Messages, calls| {
        let len = m.shape.len;
        let Some(f) = &ctx.library.0.mac else {
            return Err("has no EVP_MAC".to_string());
        };
        let (at, key) = (ctx.ctx.as_ptr(), ctx.key.as_deref());
        let (key, key_len) = key.map_or((null(), 0), |k| (k.as_ptr(), k.len()));
        call_each(m, calls, |c| {
            let mut out = 0;
            // SAFETY: the context belongs to this thread and has an algorithm and a key. The result
            // buffer has room for `size` bytes.
            unsafe {
                (f.init)(at, key, key_len, null()) == 1
                    && (f.update)(at, c.src, len) == 1
                    && (f.finish)(at, c.dst, &mut out, ctx.size) == 1
            }
        })
    };
    Box::new(run)
}

/// A cipher context with its key.
struct Cipher {
    library: OpenSsl,
    ctx: NonNull<c_void>,
}

impl Drop for Cipher {
    fn drop(&mut self) {
        // SAFETY: EVP_CIPHER_CTX_new returned this context, and only this call frees it. Freeing
        // wipes the key.
        unsafe { (self.library.0.ctx_free)(self.ctx.as_ptr()) };
    }
}

struct Digest {
    library: OpenSsl,
    ctx: NonNull<c_void>,
    md: *const c_void,
}

impl Drop for Digest {
    fn drop(&mut self) {
        // SAFETY: EVP_MD_CTX_new returned this context, and only this call frees it.
        unsafe { (self.library.0.md_ctx_free)(self.ctx.as_ptr()) };
    }
}

struct MacCtx {
    library: OpenSsl,
    ctx: NonNull<c_void>,
    size: usize,
    /// The key, if it must be set again for each message; otherwise `None`.
    key: Option<Vec<u8>>,
}

impl Drop for MacCtx {
    fn drop(&mut self) {
        if let Some(mac) = &self.library.0.mac {
            // SAFETY: EVP_MAC_CTX_new returned this context, and only this call frees it. Freeing
            // wipes the key.
            unsafe { (mac.ctx_free)(self.ctx.as_ptr()) };
        }
    }
}
