//! AWS-LC, called as its headers recommend.
//!
//! AEADs use `EVP_AEAD` (aead.h): the key is set once in a context, which then seals and opens
//! whole messages, with the tag after the text. Ciphers use `EVP_CIPHER` (cipher.h): the key is set
//! once, and each message begins with a call of `EVP_CipherInit_ex` that passes an IV but no key.
//! Hashes need a single call (sha.h). HMAC (hmac.h) and CMAC (cmac.h) restart a context that keeps
//! its key. ChaCha20 (chacha.h) needs no context.

use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::path::Path;
use std::ptr::{null, null_mut, NonNull};
use std::sync::Arc;

use super::each::call_each;
use super::interface::Peer;
use super::library::{Find, Opened};
use crate::{Candidate, Messages, Op, Run, Work};

const FIND: Find = Find {
    peer: "aws-lc",
    variable: "KILN_AWS_LC",
    names: &["libcrypto-awslc.so"],
    cached: Some("libcrypto.so"),
    remedy: "kiln libraries install aws-lc",
};

type Ctx = *mut c_void;
type Kind = *const c_void;
type Constant = unsafe extern "C" fn() -> Kind;
type New = unsafe extern "C" fn() -> Ctx;
type Free = unsafe extern "C" fn(Ctx);
type Update = unsafe extern "C" fn(Ctx, *const u8, usize) -> c_int;
type Hash = unsafe extern "C" fn(*const u8, usize, *mut u8) -> *mut u8;
type Crypt = unsafe extern "C" fn(
    Ctx,
    *mut u8,
    *mut usize,
    usize,
    *const u8,
    usize,
    *const u8,
    usize,
    *const u8,
    usize,
) -> c_int;

struct Functions {
    version: String,
    aead_new: unsafe extern "C" fn(Kind, *const u8, usize, usize) -> Ctx,
    aead_free: Free,
    seal: Crypt,
    open: Crypt,
    cipher_new: New,
    cipher_free: Free,
    cipher_init: unsafe extern "C" fn(Ctx, Kind, *mut c_void, *const u8, *const u8, c_int) -> c_int,
    cipher_padding: unsafe extern "C" fn(Ctx, c_int) -> c_int,
    cipher_update: unsafe extern "C" fn(Ctx, *mut u8, *mut c_int, *const u8, c_int) -> c_int,
    chacha: unsafe extern "C" fn(*mut u8, *const u8, usize, *const u8, *const u8, u32),
    hmac_new: New,
    hmac_free: Free,
    hmac_init: unsafe extern "C" fn(Ctx, *const u8, usize, Kind, *mut c_void) -> c_int,
    hmac_update: Update,
    hmac_final: unsafe extern "C" fn(Ctx, *mut u8, *mut c_uint) -> c_int,
    cmac_new: New,
    cmac_free: Free,
    cmac_init: unsafe extern "C" fn(Ctx, *const u8, usize, Kind, *mut c_void) -> c_int,
    cmac_reset: unsafe extern "C" fn(Ctx) -> c_int,
    cmac_update: Update,
    cmac_final: unsafe extern "C" fn(Ctx, *mut u8, *mut usize) -> c_int,
    /// This field is last, so that the library is closed after all other fields are dropped.
    opened: Opened,
}

/// The library with its resolved functions.
#[derive(Clone)]
pub(super) struct AwsLc(Arc<Functions>);

impl AwsLc {
    /// Loads the library. If `file` is given, tries only that file.
    ///
    /// # Errors
    /// Returns one line that states the reason and a remedy.
    pub(super) fn load(file: Option<&Path>) -> Result<AwsLc, String> {
        FIND.load(file, Functions::load, |f| &f.version)
            .map(|f| AwsLc(Arc::new(f)))
    }

    /// Calls the function with this name, such as `EVP_aes_256_xts`, and returns its result: the
    /// constant by which the library identifies a cipher, digest or AEAD.
    fn get_constant(&self, name: &str) -> Result<Kind, String> {
        // SAFETY: functions with such names take no arguments and return the address of a constant.
        unsafe { Ok(self.0.opened.get::<Constant>(name)?()) }
    }

    fn own(&self, at: Ctx, free: Free, what: &str) -> Result<Owned, String> {
        match NonNull::new(at) {
            None => Err(format!("{}: {what} gives no context", self.provider())),
            Some(at) => Ok(Owned {
                library: self.clone(),
                at,
                free,
            }),
        }
    }

    fn done(&self, status: c_int, what: &str) -> Result<(), String> {
        match status {
            1 => Ok(()),
            _ => Err(format!("{}: {what} fails", self.provider())),
        }
    }
}

impl Functions {
    fn load(o: &Opened) -> Result<Functions, String> {
        // SAFETY: the types match aead.h, cipher.h, chacha.h, hmac.h and cmac.h, and the library
        // stays open in `opened`.
        unsafe {
            let text: unsafe extern "C" fn() -> *const c_char = o.get("awslc_version_string")?;
            Ok(Functions {
                version: version(CStr::from_ptr(text())),
                aead_new: o.get("EVP_AEAD_CTX_new")?,
                aead_free: o.get("EVP_AEAD_CTX_free")?,
                seal: o.get("EVP_AEAD_CTX_seal")?,
                open: o.get("EVP_AEAD_CTX_open")?,
                cipher_new: o.get("EVP_CIPHER_CTX_new")?,
                cipher_free: o.get("EVP_CIPHER_CTX_free")?,
                cipher_init: o.get("EVP_CipherInit_ex")?,
                cipher_padding: o.get("EVP_CIPHER_CTX_set_padding")?,
                cipher_update: o.get("EVP_CipherUpdate")?,
                chacha: o.get("CRYPTO_chacha_20")?,
                hmac_new: o.get("HMAC_CTX_new")?,
                hmac_free: o.get("HMAC_CTX_free")?,
                hmac_init: o.get("HMAC_Init_ex")?,
                hmac_update: o.get("HMAC_Update")?,
                hmac_final: o.get("HMAC_Final")?,
                cmac_new: o.get("CMAC_CTX_new")?,
                cmac_free: o.get("CMAC_CTX_free")?,
                cmac_init: o.get("CMAC_Init")?,
                cmac_reset: o.get("CMAC_Reset")?,
                cmac_update: o.get("CMAC_Update")?,
                cmac_final: o.get("CMAC_Final")?,
                opened: o.clone(),
            })
        }
    }
}

/// Extracts the version `5.12.0` from `AWS-LC 5.12.0` or `AWS-LC FIPS 5.12.0`.
fn version(text: &CStr) -> String {
    let text = text.to_string_lossy();
    text.split_whitespace().last().unwrap_or("?").to_string()
}

/// A context that the library allocated. When it is dropped, the library wipes the key and frees
/// the context.
struct Owned {
    library: AwsLc,
    at: NonNull<c_void>,
    free: Free,
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: the library allocated this context, and nothing uses the context after the drop.
        unsafe { (self.free)(self.at.as_ptr()) }
    }
}

impl Peer for AwsLc {
    fn name(&self) -> &'static str {
        FIND.peer
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
        let alg: &str = &work.spec.name;
        let (name, run) = match alg {
            "gcm(aes)" => {
                let name = format!("EVP_aead_aes_{bits}_gcm");
                let run = self.aead(&name, work)?;
                (name, run)
            }
            "rfc7539(chacha20,poly1305)" => {
                let name = "EVP_aead_chacha20_poly1305".to_string();
                let run = self.aead(&name, work)?;
                (name, run)
            }
            "xts(aes)" if bits != 256 => {
                return Err(format!("{} has no {alg} with AES-{bits}", self.provider()))
            }
            "ecb(aes)" | "cbc(aes)" | "ctr(aes)" | "xts(aes)" => {
                let name = format!("EVP_aes_{bits}_{}", &alg[..3]);
                let run = self.cipher(&name, work)?;
                (name, run)
            }
            "chacha20" => ("CRYPTO_chacha_20".to_string(), self.chacha(work)),
            "sha1" | "sha256" | "sha512" => {
                let name = alg.to_uppercase();
                let run = self.hash(&name)?;
                (name, run)
            }
            "hmac(sha1)" | "hmac(sha256)" | "hmac(sha512)" => {
                let hash = &alg[5..alg.len() - 1];
                (format!("HMAC_{hash}"), self.hmac(hash, work)?)
            }
            "cmac(aes)" => (format!("CMAC_aes_{bits}"), self.cmac(work)?),
            _ => return Ok(Vec::new()),
        };
        Ok(vec![Candidate::primitive(name, self.provider(), None, run)])
    }
}

impl AwsLc {
    fn aead(&self, name: &str, work: &Work) -> Result<Run<'static>, String> {
        let f = &*self.0;
        let kind = self.get_constant(name)?;
        // SAFETY: the pointer and the length describe the key, and every AEAD used here has a
        // 16-byte tag.
        let ctx = unsafe { (f.aead_new)(kind, work.key.as_ptr(), work.key.len(), 16) };
        let ctx = self.own(ctx, f.aead_free, "EVP_AEAD_CTX_new")?;
        let decrypt = work.op == Op::Decrypt;
        let crypt = if decrypt { f.open } else { f.seal };
        Ok(Box::new(move |m: &mut Messages, calls| {
            let (ctx, shape) = (&ctx, m.shape);
            let (from, to) = match decrypt {
                true => (shape.len + shape.tag, shape.len),
                false => (shape.len, shape.len + shape.tag),
            };
            call_each(m, calls, |c| {
                let mut made = 0;
                // SAFETY: the context has its key. `from` and `to` are computed from the shape, and
                // the buffers have the shape's lengths.
                let status = unsafe {
                    crypt(
                        ctx.at.as_ptr(),
                        c.dst,
                        &mut made,
                        to,
                        c.iv,
                        shape.iv,
                        c.src,
                        from,
                        c.aad,
                        shape.prefix,
                    )
                };
                status == 1 && made == to
            })
        }))
    }

    fn cipher(&self, name: &str, work: &Work) -> Result<Run<'static>, String> {
        let f = &*self.0;
        let kind = self.get_constant(name)?;
        // SAFETY: EVP_CIPHER_CTX_new takes no arguments and may be called at any time.
        let ctx = self.own(
            unsafe { (f.cipher_new)() },
            f.cipher_free,
            "EVP_CIPHER_CTX_new",
        )?;
        let encrypt = c_int::from(work.op != Op::Decrypt);
        let (at, key) = (ctx.at.as_ptr(), work.key.as_ptr());
        // SAFETY: the context is new, and the key has the length that the cipher requires.
        unsafe {
            self.done(
                (f.cipher_init)(at, kind, null_mut(), key, null(), encrypt),
                "EVP_CipherInit_ex",
            )?;
            self.done((f.cipher_padding)(at, 0), "EVP_CIPHER_CTX_set_padding")?;
        }
        let has_iv = work.spec.name != "ecb(aes)";
        Ok(Box::new(move |m: &mut Messages, calls| {
            let (f, at) = (&*ctx.library.0, ctx.at.as_ptr());
            let len = c_int::try_from(m.shape.len).unwrap_or(0);
            call_each(m, calls, |c| {
                let mut made = 0;
                // SAFETY: the context has a key and a direction, and the mode accepts messages of
                // this length.
                unsafe {
                    let started =
                        !has_iv || (f.cipher_init)(at, null(), null_mut(), null(), c.iv, -1) == 1;
                    started
                        && (f.cipher_update)(at, c.dst, &mut made, c.src, len) == 1
                        && made == len
                }
            })
        }))
    }

    fn chacha(&self, work: &Work) -> Run<'static> {
        let (library, key) = (self.clone(), work.key.clone());
        Box::new(move |m: &mut Messages, calls| {
            let (f, key, len) = (&*library.0, &key, m.shape.len);
            call_each(m, calls, |c| {
                // SAFETY: the key is 32 bytes long. The first 4 bytes of the IV are the block
                // number, and the other 12 are the nonce.
                unsafe {
                    let counter = c.iv.cast::<u32>().read_unaligned();
                    (f.chacha)(c.dst, c.src, len, key.as_ptr(), c.iv.add(4), counter);
                }
                true
            })
        })
    }

    fn hash(&self, name: &str) -> Result<Run<'static>, String> {
        let library = self.clone();
        // SAFETY: callers pass only names of functions whose declarations in sha.h match `Hash`.
        let digest: Hash = unsafe { library.0.opened.get(name)? };
        Ok(Box::new(move |m: &mut Messages, calls| {
            let (_, len) = (&library, m.shape.len);
            // SAFETY: the source has `len` bytes, and the result buffer has room for a digest.
            call_each(m, calls, |c| unsafe {
                !digest(c.src, len, c.dst).is_null()
            })
        }))
    }

    fn hmac(&self, hash: &str, work: &Work) -> Result<Run<'static>, String> {
        let f = &*self.0;
        let kind = self.get_constant(&format!("EVP_{hash}"))?;
        // SAFETY: HMAC_CTX_new takes no arguments and may be called at any time.
        let ctx = self.own(unsafe { (f.hmac_new)() }, f.hmac_free, "HMAC_CTX_new")?;
        let (at, key) = (ctx.at.as_ptr(), work.key.as_ptr());
        // SAFETY: the context is new, and HMAC accepts keys of any length.
        let status = unsafe { (f.hmac_init)(at, key, work.key.len(), kind, null_mut()) };
        self.done(status, "HMAC_Init_ex")?;
        Ok(Box::new(move |m: &mut Messages, calls| {
            let (f, at) = (&*ctx.library.0, ctx.at.as_ptr());
            let (len, size) = (m.shape.len, m.shape.digest);
            call_each(m, calls, |c| {
                let mut made: c_uint = 0;
                // SAFETY: the context has its key, and the result buffer has room for a digest.
                unsafe {
                    (f.hmac_init)(at, null(), 0, null(), null_mut()) == 1
                        && (f.hmac_update)(at, c.src, len) == 1
                        && (f.hmac_final)(at, c.dst, &mut made) == 1
                        && made as usize == size
                }
            })
        }))
    }

    fn cmac(&self, work: &Work) -> Result<Run<'static>, String> {
        let f = &*self.0;
        let kind = self.get_constant(&format!("EVP_aes_{}_cbc", work.key_bits))?;
        // SAFETY: CMAC_CTX_new takes no arguments and may be called at any time.
        let ctx = self.own(unsafe { (f.cmac_new)() }, f.cmac_free, "CMAC_CTX_new")?;
        let (at, key) = (ctx.at.as_ptr(), work.key.as_ptr());
        // SAFETY: the context is new, and the key has the length that the cipher requires.
        let status = unsafe { (f.cmac_init)(at, key, work.key.len(), kind, null_mut()) };
        self.done(status, "CMAC_Init")?;
        Ok(Box::new(move |m: &mut Messages, calls| {
            let (f, at) = (&*ctx.library.0, ctx.at.as_ptr());
            let (len, size) = (m.shape.len, m.shape.digest);
            call_each(m, calls, |c| {
                let mut made = 0;
                // SAFETY: the context has its key, and the result buffer has room for a block.
                unsafe {
                    (f.cmac_reset)(at) == 1
                        && (f.cmac_update)(at, c.src, len) == 1
                        && (f.cmac_final)(at, c.dst, &mut made) == 1
                        && made == size
                }
            })
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(version(c"AWS-LC 5.12.0"), "5.12.0");
        assert_eq!(version(c"AWS-LC FIPS 2.0.0"), "2.0.0");
        assert_eq!(version(c""), "?");
    }
}
