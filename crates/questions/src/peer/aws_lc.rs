//! AWS-LC, compiled in by the cargo feature `peers` and called as its headers recommend.
//!
//! AEADs use `EVP_AEAD` (aead.h): a context is initialised with the key once, and whole messages are sealed and
//! opened, with the tag after the text. Ciphers use `EVP_CIPHER` (cipher.h): the key is set once, and each message
//! begins with an `EVP_CipherInit_ex` with an IV but no key. Hashes take one call (sha.h). HMAC (hmac.h) and CMAC
//! (cmac.h) restart a context that keeps its key. ChaCha20 (chacha.h) needs no context.

use std::ffi::{c_int, c_uint};
use std::ptr::{null, null_mut};

use aws_lc_sys as lc;

use super::each::call_each;
use super::interface::Peer;
use crate::timing::{Candidate, Messages, Op, Run, Work};

/// Its name as a library.
pub(super) const NAME: &str = "aws-lc";

pub(super) struct AwsLc {
    version: String,
}

impl AwsLc {
    /// Always succeeds, because the library is part of the program.
    pub(super) fn new() -> AwsLc {
        let version = lc::AWSLC_VERSION_NUMBER_STRING;
        AwsLc {
            version: String::from_utf8_lossy(&version[..version.len() - 1]).into_owned(),
        }
    }
}

/// A context of the library, freed on drop.
struct Owned<T> {
    at: *mut T,
    free: unsafe extern "C" fn(*mut T),
}

impl<T> Owned<T> {
    fn new(at: *mut T, free: unsafe extern "C" fn(*mut T), what: &str) -> Result<Self, String> {
        match at.is_null() {
            true => Err(format!("{NAME}: {what} gives no context")),
            false => Ok(Owned { at, free }),
        }
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: made by the library and no longer in use.
        unsafe { (self.free)(self.at) }
    }
}

fn done(status: c_int, what: &str) -> Result<(), String> {
    match status {
        1 => Ok(()),
        _ => Err(format!("{NAME}: {what} fails")),
    }
}

impl Peer for AwsLc {
    fn name(&self) -> &'static str {
        NAME
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn file(&self) -> &str {
        "this program (--features peers)"
    }

    fn candidates(&self, work: &Work) -> Result<Vec<Candidate<'static>>, String> {
        let bits = work.key_bits;
        let alg: &str = &work.spec.name;
        let (name, run) = match alg {
            "gcm(aes)" => (format!("EVP_aead_aes_{bits}_gcm"), aead(work)?),
            "rfc7539(chacha20,poly1305)" => ("EVP_aead_chacha20_poly1305".to_string(), aead(work)?),
            "xts(aes)" if bits != 256 => {
                return Err(format!("{} has no {alg} with AES-{bits}", self.provider()))
            }
            "ecb(aes)" | "cbc(aes)" | "ctr(aes)" | "xts(aes)" => {
                (format!("EVP_aes_{bits}_{}", &alg[..3]), cipher(work)?)
            }
            "chacha20" => ("CRYPTO_chacha_20".to_string(), chacha(work)),
            "sha1" => ("SHA1".to_string(), hash(lc::SHA1)),
            "sha256" => ("SHA256".to_string(), hash(lc::SHA256)),
            "sha512" => ("SHA512".to_string(), hash(lc::SHA512)),
            "hmac(sha1)" | "hmac(sha256)" | "hmac(sha512)" => {
                (format!("HMAC_{}", &alg[5..alg.len() - 1]), hmac(work)?)
            }
            "cmac(aes)" => (format!("CMAC_aes_{bits}"), cmac(work)?),
            _ => return Ok(Vec::new()),
        };
        Ok(vec![Candidate::primitive(name, self.provider(), None, run)])
    }
}

fn aead(work: &Work) -> Result<Run<'static>, String> {
    // SAFETY: descriptions are constants; the key has the length it is told to have.
    let ctx = unsafe {
        let kind = match (&*work.spec.name, work.key_bits) {
            ("gcm(aes)", 128) => lc::EVP_aead_aes_128_gcm(),
            ("gcm(aes)", 192) => lc::EVP_aead_aes_192_gcm(),
            ("gcm(aes)", _) => lc::EVP_aead_aes_256_gcm(),
            _ => lc::EVP_aead_chacha20_poly1305(),
        };
        let ctx = lc::EVP_AEAD_CTX_new(kind, work.key.as_ptr(), work.key.len(), 16);
        Owned::new(ctx, lc::EVP_AEAD_CTX_free, "EVP_AEAD_CTX_new")?
    };
    let crypt = match work.op {
        Op::Decrypt => lc::EVP_AEAD_CTX_open,
        _ => lc::EVP_AEAD_CTX_seal,
    };
    let decrypt = work.op == Op::Decrypt;
    Ok(Box::new(move |m: &mut Messages, calls| {
        let (ctx, shape) = (&ctx, m.shape);
        let (from, to) = match decrypt {
            true => (shape.len + shape.tag, shape.len),
            false => (shape.len, shape.len + shape.tag),
        };
        call_each(m, calls, |c| {
            let mut made = 0;
            // SAFETY: the context has its key; what is read and written is what the shape has.
            let status = unsafe {
                crypt(
                    ctx.at,
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

fn cipher(work: &Work) -> Result<Run<'static>, String> {
    // SAFETY: descriptions are constants; keys have the length of theirs.
    let ctx = unsafe {
        let kind = match (&work.spec.name[..3], work.key_bits) {
            ("ecb", 128) => lc::EVP_aes_128_ecb(),
            ("ecb", 192) => lc::EVP_aes_192_ecb(),
            ("ecb", _) => lc::EVP_aes_256_ecb(),
            ("cbc", 128) => lc::EVP_aes_128_cbc(),
            ("cbc", 192) => lc::EVP_aes_192_cbc(),
            ("cbc", _) => lc::EVP_aes_256_cbc(),
            ("ctr", 128) => lc::EVP_aes_128_ctr(),
            ("ctr", 192) => lc::EVP_aes_192_ctr(),
            ("ctr", _) => lc::EVP_aes_256_ctr(),
            _ => lc::EVP_aes_256_xts(),
        };
        let ctx = Owned::new(
            lc::EVP_CIPHER_CTX_new(),
            lc::EVP_CIPHER_CTX_free,
            "EVP_CIPHER_CTX_new",
        )?;
        let encrypt = c_int::from(work.op != Op::Decrypt);
        let key = work.key.as_ptr();
        done(
            lc::EVP_CipherInit_ex(ctx.at, kind, null_mut(), key, null(), encrypt),
            "EVP_CipherInit_ex",
        )?;
        done(
            lc::EVP_CIPHER_CTX_set_padding(ctx.at, 0),
            "EVP_CIPHER_CTX_set_padding",
        )?;
        ctx
    };
    let has_iv = work.spec.name != "ecb(aes)";
    Ok(Box::new(move |m: &mut Messages, calls| {
        let (ctx, len) = (&ctx, c_int::try_from(m.shape.len).unwrap_or(0));
        call_each(m, calls, |c| {
            let mut made = 0;
            // SAFETY: the context has its key and direction; lengths are those the mode takes.
            unsafe {
                let started = !has_iv
                    || lc::EVP_CipherInit_ex(ctx.at, null(), null_mut(), null(), c.iv, -1) == 1;
                started
                    && lc::EVP_CipherUpdate(ctx.at, c.dst, &mut made, c.src, len) == 1
                    && made == len
            }
        })
    }))
}

fn chacha(work: &Work) -> Run<'static> {
    let key = work.key.clone();
    Box::new(move |m: &mut Messages, calls| {
        let (key, len) = (&key, m.shape.len);
        call_each(m, calls, |c| {
            // SAFETY: the key has 32 bytes; the IV is the block's number, then the nonce.
            unsafe {
                let counter = c.iv.cast::<u32>().read_unaligned();
                lc::CRYPTO_chacha_20(c.dst, c.src, len, key.as_ptr(), c.iv.add(4), counter);
            }
            true
        })
    })
}

type Hash = unsafe extern "C" fn(*const u8, usize, *mut u8) -> *mut u8;

fn hash(digest: Hash) -> Run<'static> {
    Box::new(move |m: &mut Messages, calls| {
        let len = m.shape.len;
        // SAFETY: results have room for a digest.
        call_each(m, calls, |c| unsafe {
            !digest(c.src, len, c.dst).is_null()
        })
    })
}

fn hmac(work: &Work) -> Result<Run<'static>, String> {
    // SAFETY: descriptions are constants; a key of any length.
    let ctx = unsafe {
        let kind = match &*work.spec.name {
            "hmac(sha1)" => lc::EVP_sha1(),
            "hmac(sha256)" => lc::EVP_sha256(),
            _ => lc::EVP_sha512(),
        };
        let ctx = Owned::new(lc::HMAC_CTX_new(), lc::HMAC_CTX_free, "HMAC_CTX_new")?;
        let key = work.key.as_ptr().cast();
        done(
            lc::HMAC_Init_ex(ctx.at, key, work.key.len(), kind, null_mut()),
            "HMAC_Init_ex",
        )?;
        ctx
    };
    Ok(Box::new(move |m: &mut Messages, calls| {
        let (ctx, len, size) = (&ctx, m.shape.len, m.shape.digest);
        call_each(m, calls, |c| {
            let mut made: c_uint = 0;
            // SAFETY: the context has its key; results have room for a digest.
            unsafe {
                lc::HMAC_Init_ex(ctx.at, null(), 0, null(), null_mut()) == 1
                    && lc::HMAC_Update(ctx.at, c.src, len) == 1
                    && lc::HMAC_Final(ctx.at, c.dst, &mut made) == 1
                    && made as usize == size
            }
        })
    }))
}

fn cmac(work: &Work) -> Result<Run<'static>, String> {
    // SAFETY: descriptions are constants; keys have the length of theirs.
    let ctx = unsafe {
        let kind = match work.key_bits {
            128 => lc::EVP_aes_128_cbc(),
            192 => lc::EVP_aes_192_cbc(),
            _ => lc::EVP_aes_256_cbc(),
        };
        let ctx = Owned::new(lc::CMAC_CTX_new(), lc::CMAC_CTX_free, "CMAC_CTX_new")?;
        let key = work.key.as_ptr().cast();
        done(
            lc::CMAC_Init(ctx.at, key, work.key.len(), kind, null_mut()),
            "CMAC_Init",
        )?;
        ctx
    };
    Ok(Box::new(move |m: &mut Messages, calls| {
        let (ctx, len, size) = (&ctx, m.shape.len, m.shape.digest);
        call_each(m, calls, |c| {
            let mut made = 0;
            // SAFETY: the context has its key; results have room for a block.
            unsafe {
                lc::CMAC_Reset(ctx.at) == 1
                    && lc::CMAC_Update(ctx.at, c.src, len) == 1
                    && lc::CMAC_Final(ctx.at, c.dst, &mut made) == 1
                    && made == size
            }
        })
    }))
}
