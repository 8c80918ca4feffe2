//! Nettle, called as its manual recommends. The names in parentheses are sections of the manual.
//!
//! The caller allocates a context and sets its key once. The function for a cipher mode updates the
//! IV, so that a later call can continue the message. Each message is therefore processed with a
//! copy of its IV (Cipher modes). For AEADs, the caller sets the nonce, passes the associated data,
//! encrypts or decrypts the text, and computes the tag. When decrypting, the caller also compares
//! the tags (Authenticated encryption). For CCM, the manual prefers the functions that process
//! whole messages. The digest function of a hash also prepares the context for the next message
//! (Hash functions). The digest function of a MAC does so too, and keeps the key (Keyed hash
//! functions).
//!
//! For each hash, the library reports the size of the context (nettle-meta.h). For all other
//! algorithms, the context gets more memory than Nettle's largest context needs.

use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::path::Path;
use std::sync::Arc;

use super::each::{call_each, ccm_nonce, same_tag, Memory};
use super::interface::Peer;
use super::library::{Find, Opened};
use crate::{Candidate, Messages, Op, Run, Work};

const FIND: Find = Find {
    peer: "nettle",
    variable: "KILN_NETTLE",
    names: &["libnettle.so.8"],
    cached: None,
    remedy: "apt-get install libnettle8",
};

/// Bytes to allocate for contexts of unknown size. The largest of these is the GCM context, at
/// about 4.4 KiB.
const ROOM: usize = 16 << 10;
/// The oldest minor version of Nettle 3 whose functions have the types declared in this file.
const OLDEST: c_int = 6;

type Ctx = *mut c_void;
type SetKey = unsafe extern "C" fn(Ctx, *const u8);
type Crypt = unsafe extern "C" fn(Ctx, usize, *mut u8, *const u8);
type Update = unsafe extern "C" fn(Ctx, usize, *const u8);
type Digest = unsafe extern "C" fn(Ctx, usize, *mut u8);
/// Type of `cbc_decrypt` and `ctr_crypt`.
type Mode = unsafe extern "C" fn(Ctx, Crypt, usize, *mut u8, usize, *mut u8, *const u8);
type CbcEncrypt = unsafe extern "C" fn(Ctx, *mut u8, usize, *mut u8, *const u8);
type XtsCrypt = unsafe extern "C" fn(Ctx, *const u8, usize, *mut u8, *const u8);
type CcmCrypt = unsafe extern "C" fn(
    Ctx,
    usize,
    *const u8,
    usize,
    *const u8,
    usize,
    usize,
    *mut u8,
    *const u8,
) -> c_int;

/// The layout of `struct nettle_hash` in nettle-meta.h.
#[repr(C)]
#[derive(Clone, Copy)]
struct HashMeta {
    name: *const c_char,
    context_size: c_uint,
    digest_size: c_uint,
    block_size: c_uint,
    init: unsafe extern "C" fn(Ctx),
    update: Update,
    digest: Digest,
}

#[derive(Clone)]
pub(super) struct Nettle {
    opened: Arc<Opened>,
    version: String,
}

impl Nettle {
    /// Loads the library. If `file` is given, tries only that file.
    ///
    /// # Errors
    /// Returns one line that states the reason and a remedy.
    pub(super) fn load(file: Option<&Path>) -> Result<Nettle, String> {
        let load = |o: &Opened| {
            // SAFETY: the types match version.h.
            let (major, minor) = unsafe {
                let major: unsafe extern "C" fn() -> c_int = o.get("nettle_version_major")?;
                let minor: unsafe extern "C" fn() -> c_int = o.get("nettle_version_minor")?;
                (major(), minor())
            };
            let version = format!("{major}.{minor}");
            // Reject version 4, which uses the same names for functions of different types.
            if major != 3 || minor < OLDEST {
                return Err(format!(
                    "{} is {version}: its functions are known from 3.{OLDEST} to 3.99",
                    o.file
                ));
            }
            Ok(Nettle {
                opened: Arc::new(o.clone()),
                version,
            })
        };
        FIND.load(file, load, |n| &n.version)
    }

    /// Returns the function `nettle_NAME`.
    ///
    /// # Safety
    /// `T` must be the type of this function, and `self` must outlive the returned value.
    unsafe fn get<T: Copy>(&self, name: &str) -> Result<T, String> {
        // SAFETY: the caller promises that `T` is the function's type, and keeps `self` for as long
        // as it uses the function.
        unsafe { self.opened.get(&format!("nettle_{name}")) }
    }

    fn keyed(&self, set_key: &str, key: &[u8]) -> Result<Memory, String> {
        let ctx = Memory::new(ROOM);
        // SAFETY: every caller passes the name of a function that takes a context and a key whose
        // size is part of the name. The memory is larger than any context.
        unsafe {
            let set: SetKey = self.get(set_key)?;
            set(ctx.at(), key.as_ptr());
        }
        Ok(ctx)
    }
}

impl Peer for Nettle {
    fn name(&self) -> &'static str {
        FIND.peer
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn file(&self) -> &str {
        &self.opened.file
    }

    fn place(&self) -> &'static str {
        self.opened.place
    }

    fn candidates(&self, work: &Work) -> Result<Vec<Candidate<'static>>, String> {
        let bits = work.key_bits;
        let alg: &str = &work.spec.name;
        let aes = format!("aes{bits}");
        let (name, run) = match alg {
            "xts(aes)" | "cmac(aes)" if bits == 192 => {
                return Err(format!("{} has no {alg} with AES-192", self.provider()))
            }
            "ecb(aes)" => (aes.clone(), self.ecb(&aes, work)?),
            "cbc(aes)" => (format!("cbc_{aes}"), self.cbc(&aes, work)?),
            "ctr(aes)" => (format!("ctr_crypt_{aes}"), self.ctr(&aes, work)?),
            "xts(aes)" => (format!("xts_{aes}"), self.xts(&aes, work)?),
            "chacha20" => ("chacha_crypt32".to_string(), self.chacha(work)?),
            "gcm(aes)" => {
                let of = format!("gcm_{aes}");
                (of.clone(), self.aead(&of, "iv", work)?)
            }
            "rfc7539(chacha20,poly1305)" => {
                let of = "chacha_poly1305".to_string();
                (of.clone(), self.aead(&of, "nonce", work)?)
            }
            "ccm(aes)" => (format!("ccm_{aes}"), self.ccm(&aes, work)?),
            "sha1" | "sha256" | "sha512" | "sm3" => (alg.to_string(), self.hash(alg)?),
            "hmac(sha1)" => ("hmac_sha1".to_string(), self.mac("hmac_sha1", work)?),
            "hmac(sha256)" => ("hmac_sha256".to_string(), self.mac("hmac_sha256", work)?),
            "hmac(sha512)" => ("hmac_sha512".to_string(), self.mac("hmac_sha512", work)?),
            "cmac(aes)" => {
                let of = format!("cmac_{aes}");
                (of.clone(), self.mac(&of, work)?)
            }
            _ => return Ok(Vec::new()),
        };
        Ok(vec![Candidate::primitive(
            format!("nettle_{name}"),
            self.provider(),
            None,
            run,
        )])
    }
}

/// Returns a copy of an IV, for functions that modify the IV.
///
/// # Safety
/// `iv` must be readable for 16 bytes.
#[inline(always)]
unsafe fn copy(iv: *const u8) -> [u8; 16] {
    // SAFETY: the caller promises 16 readable bytes, and a byte array needs no alignment.
    unsafe { iv.cast::<[u8; 16]>().read() }
}

impl Nettle {
    fn direction(work: &Work) -> &'static str {
        match work.op {
            Op::Decrypt => "decrypt",
            _ => "encrypt",
        }
    }

    fn ecb(&self, aes: &str, work: &Work) -> Result<Run<'static>, String> {
        let direction = Nettle::direction(work);
        let ctx = self.keyed(&format!("{aes}_set_{direction}_key"), &work.key)?;
        // SAFETY: functions with names of this form have the type `Crypt` in aes.h, and `keep`
        // holds the library open for as long as the closure can call them.
        let crypt: Crypt = unsafe { self.get(&format!("{aes}_{direction}"))? };
        let keep = self.clone();
        Ok(Box::new(move |m: &mut Messages, calls| {
            let (_, ctx, len) = (&keep, ctx.at(), m.shape.len);
            call_each(m, calls, |c| {
                // SAFETY: the context has a key for this direction, the pointers are valid for
                // `len` bytes, and `len` is a multiple of the block size.
                unsafe { crypt(ctx, len, c.dst, c.src) };
                true
            })
        }))
    }

    fn cbc(&self, aes: &str, work: &Work) -> Result<Run<'static>, String> {
        let direction = Nettle::direction(work);
        let ctx = self.keyed(&format!("{aes}_set_{direction}_key"), &work.key)?;
        let keep = self.clone();
        if work.op == Op::Encrypt {
            // SAFETY: functions with names of this form have the type `CbcEncrypt` in cbc.h, and
            // `keep` holds the library open. In versions before 3.8, which lack these functions,
            // the general function below is used instead.
            let whole = unsafe { self.get::<CbcEncrypt>(&format!("cbc_{aes}_encrypt")) };
            if let Ok(encrypt) = whole {
                return Ok(Box::new(move |m: &mut Messages, calls| {
                    let (_, ctx, len) = (&keep, ctx.at(), m.shape.len);
                    call_each(m, calls, |c| {
                        // SAFETY: the context has its key, the pointers are valid for `len` bytes,
                        // which is a multiple of the block size, and the function modifies only a
                        // copy of the IV.
                        unsafe {
                            encrypt(ctx, copy(c.iv).as_mut_ptr(), len, c.dst, c.src);
                        }
                        true
                    })
                }));
            }
        }
        // SAFETY: the types match the declarations in aes.h and cbc.h, and the closure that `mode`
        // returns holds the library open.
        let (block, mode) = unsafe {
            let block: Crypt = self.get(&format!("{aes}_{direction}"))?;
            let mode: Mode = self.get(&format!("cbc_{direction}"))?;
            (block, mode)
        };
        Ok(self.mode(ctx, block, mode))
    }

    fn ctr(&self, aes: &str, work: &Work) -> Result<Run<'static>, String> {
        let ctx = self.keyed(&format!("{aes}_set_encrypt_key"), &work.key)?;
        // SAFETY: the types match the declarations in aes.h and ctr.h, and the closure that `mode`
        // returns holds the library open.
        let (block, mode) = unsafe {
            let block: Crypt = self.get(&format!("{aes}_encrypt"))?;
            let mode: Mode = self.get("ctr_crypt")?;
            (block, mode)
        };
        Ok(self.mode(ctx, block, mode))
    }

    fn mode(&self, ctx: Memory, block: Crypt, mode: Mode) -> Run<'static> {
        let keep = self.clone();
        Box::new(move |m: &mut Messages, calls| {
            let (_, ctx, len) = (&keep, ctx.at(), m.shape.len);
            call_each(m, calls, |c| {
                // SAFETY: the context has its key, the pointers are valid for `len` bytes, the mode
                // accepts this length, and the function modifies only a copy of the IV.
                unsafe { mode(ctx, block, 16, copy(c.iv).as_mut_ptr(), len, c.dst, c.src) };
                true
            })
        })
    }

    fn xts(&self, aes: &str, work: &Work) -> Result<Run<'static>, String> {
        let direction = Nettle::direction(work);
        let ctx = self.keyed(&format!("xts_{aes}_set_{direction}_key"), &work.key)?;
        // SAFETY: functions with names of this form have the type `XtsCrypt` in xts.h, and `keep`
        // holds the library open for as long as the closure can call them.
        let crypt: XtsCrypt = unsafe { self.get(&format!("xts_{aes}_{direction}_message"))? };
        let keep = self.clone();
        Ok(Box::new(move |m: &mut Messages, calls| {
            let (_, ctx, len) = (&keep, ctx.at(), m.shape.len);
            call_each(m, calls, |c| {
                // SAFETY: the context has both keys, and the pointers are valid for the `len` bytes
                // of the message, which has at least one block.
                unsafe { crypt(ctx, c.iv, len, c.dst, c.src) };
                true
            })
        }))
    }

    fn chacha(&self, work: &Work) -> Result<Run<'static>, String> {
        let ctx = self.keyed("chacha_set_key", &work.key)?;
        // SAFETY: the types match the declarations in chacha.h, and `keep` holds the library open
        // for as long as the closure can call the functions.
        let (nonce, counter, crypt) = unsafe {
            let nonce: SetKey = self.get("chacha_set_nonce96")?;
            let counter: SetKey = self.get("chacha_set_counter32")?;
            let crypt: Crypt = self.get("chacha_crypt32")?;
            (nonce, counter, crypt)
        };
        let keep = self.clone();
        Ok(Box::new(move |m: &mut Messages, calls| {
            let (_, ctx, len) = (&keep, ctx.at(), m.shape.len);
            call_each(m, calls, |c| {
                // SAFETY: the context has its key, and the pointers are valid for `len` bytes. The
                // IV is 16 bytes long: 4 for the block number and 12 for the nonce.
                unsafe {
                    nonce(ctx, c.iv.add(4));
                    counter(ctx, c.iv);
                    crypt(ctx, len, c.dst, c.src);
                }
                true
            })
        }))
    }

    fn aead(&self, of: &str, nonce: &str, work: &Work) -> Result<Run<'static>, String> {
        let ctx = self.keyed(&format!("{of}_set_key"), &work.key)?;
        let decrypt = work.op == Op::Decrypt;
        // GCM's function takes the length of the IV as an argument, because GCM allows any length.
        // ChaCha's nonce has a fixed length.
        let gcm = nonce == "iv";
        // SAFETY: the types match the declarations in gcm.h and chacha-poly1305.h, and `keep` holds
        // the library open for as long as the closure can call the functions.
        let (set_iv, set_nonce, update, crypt, digest) = unsafe {
            let set_iv: Option<Update> = match gcm {
                true => Some(self.get(&format!("{of}_set_iv"))?),
                false => None,
            };
            let set_nonce: Option<SetKey> = match gcm {
                true => None,
                false => Some(self.get(&format!("{of}_set_nonce"))?),
            };
            let update: Update = self.get(&format!("{of}_update"))?;
            let crypt: Crypt = self.get(&format!("{of}_{}", Nettle::direction(work)))?;
            let digest: Digest = self.get(&format!("{of}_digest"))?;
            (set_iv, set_nonce, update, crypt, digest)
        };
        let keep = self.clone();
        Ok(Box::new(move |m: &mut Messages, calls| {
            let (_, ctx, shape) = (&keep, ctx.at(), m.shape);
            let (len, tag) = (shape.len, shape.tag);
            call_each(m, calls, |c| {
                let mut made = [0u8; 16];
                // SAFETY: the context has its key, and the pointers are valid for the lengths in
                // the shape. Tags are at most 16 bytes long, and `Call` computes their addresses.
                unsafe {
                    match (set_iv, set_nonce) {
                        (Some(set), _) => set(ctx, shape.iv, c.iv),
                        (_, Some(set)) => set(ctx, c.iv),
                        _ => return false,
                    }
                    update(ctx, shape.prefix, c.aad);
                    crypt(ctx, len, c.dst, c.src);
                    if decrypt {
                        digest(ctx, tag.min(16), made.as_mut_ptr());
                        same_tag(made.as_ptr(), c.tag_to_open(len), tag.min(16))
                    } else {
                        digest(ctx, tag.min(16), c.tag_made(len));
                        true
                    }
                }
            })
        }))
    }

    fn ccm(&self, aes: &str, work: &Work) -> Result<Run<'static>, String> {
        // The CCM functions for whole messages take the cipher's context instead of a CCM context.
        let ctx = self.keyed(&format!("ccm_{aes}_set_key"), &work.key)?;
        let direction = Nettle::direction(work);
        // SAFETY: functions with names of this form have the type `CcmCrypt` in ccm.h, except that
        // those for encryption return nothing; the return value is ignored below when encrypting.
        let crypt: CcmCrypt = unsafe { self.get(&format!("ccm_{aes}_{direction}_message"))? };
        let decrypt = work.op == Op::Decrypt;
        let keep = self.clone();
        Ok(Box::new(move |m: &mut Messages, calls| {
            let (_, ctx, shape) = (&keep, ctx.at(), m.shape);
            let nonce = ccm_nonce(&shape);
            let out = shape.len + if decrypt { 0 } else { shape.tag };
            call_each(m, calls, |c| {
                // SAFETY: the context has its key. The buffers have the sizes that the shape gives:
                // when decrypting, the tag follows the ciphertext in `src`; when encrypting, `dst`
                // has room for both. The nonce begins at the second byte of the IV.
                let right = unsafe {
                    crypt(
                        ctx,
                        nonce,
                        c.iv.add(1),
                        shape.prefix,
                        c.aad,
                        shape.tag,
                        out,
                        c.dst,
                        c.src,
                    )
                };
                !decrypt || right == 1
            })
        }))
    }

    fn hash(&self, name: &str) -> Result<Run<'static>, String> {
        // SAFETY: the symbol is a constant `struct nettle_hash` (nettle-meta.h). The name in this
        // structure is checked below.
        let meta = unsafe {
            let meta: *const HashMeta = self.get(name)?;
            *meta
        };
        // SAFETY: the `name` field of a `struct nettle_hash` points to a C string.
        let says = unsafe { CStr::from_ptr(meta.name) };
        if says.to_bytes() != name.as_bytes() || meta.context_size as usize > ROOM {
            return Err(format!("{} describes {name} otherwise", self.provider()));
        }
        let ctx = Memory::new(meta.context_size as usize);
        // SAFETY: the memory has the size that the library's description gives for this context.
        unsafe { (meta.init)(ctx.at()) };
        let keep = self.clone();
        Ok(Box::new(move |m: &mut Messages, calls| {
            let (_, ctx, len, size) = (&keep, ctx.at(), m.shape.len, m.shape.digest);
            call_each(m, calls, |c| {
                // SAFETY: the context is initialised, and digest() initialises it for the next
                // message. The result buffer has room for the digest.
                unsafe {
                    (meta.update)(ctx, len, c.src);
                    (meta.digest)(ctx, size, c.dst);
                }
                true
            })
        }))
    }

    fn mac(&self, of: &str, work: &Work) -> Result<Run<'static>, String> {
        let ctx = Memory::new(ROOM);
        // SAFETY: the types match hmac.h, which accepts keys of any length, and cmac.h, which has
        // one function per key length. The memory is larger than any context.
        let (update, digest) = unsafe {
            let set_key = format!("{of}_set_key");
            if of.starts_with("hmac") {
                let set: Update = self.get(&set_key)?;
                set(ctx.at(), work.key.len(), work.key.as_ptr());
            } else {
                let set: SetKey = self.get(&set_key)?;
                set(ctx.at(), work.key.as_ptr());
            }
            let update: Update = self.get(&format!("{of}_update"))?;
            let digest: Digest = self.get(&format!("{of}_digest"))?;
            (update, digest)
        };
        let keep = self.clone();
        Ok(Box::new(move |m: &mut Messages, calls| {
            let (_, ctx, len, size) = (&keep, ctx.at(), m.shape.len, m.shape.digest);
            call_each(m, calls, |c| {
                // SAFETY: the context has its key and keeps it after digest(). The result buffer
                // has room for the digest.
                unsafe {
                    update(ctx, len, c.src);
                    digest(ctx, size, c.dst);
                }
                true
            })
        }))
    }
}
