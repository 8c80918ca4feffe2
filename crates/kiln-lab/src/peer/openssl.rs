//! OpenSSL's libcrypto as a peer, called as its documentation tells a user to call it.
//!
//! A user with one key and many messages keeps one `EVP_CIPHER_CTX`, gives it cipher and key once, and for each
//! message only the IV: `EVP_CipherInit_ex(ctx, NULL, NULL, NULL, iv, -1)`, then one `EVP_CipherUpdate`
//! (EVP_EncryptInit(3): a context may be reused so, and parameters that stay the same are given as NULL). For XTS
//! one update must hold the whole message (the same page, on XTS mode), and there is nothing to finalise.

use std::cell::RefCell;
use std::env;
use std::ffi::{c_char, c_int, c_ulong, c_void, CStr};
use std::ptr::{null, null_mut, NonNull};
use std::sync::Arc;

use kiln_kernel::xts::{Op, BLOCK};
use libloading::Library;

use crate::speed::{Candidate, Messages};

/// Names the library instead of those below; for a build of one's own.
pub const VARIABLE: &str = "KILN_OPENSSL";
/// Tried in this order.
const LIBRARIES: [&str; 2] = ["libcrypto.so.3", "libcrypto.so.1.1"];
/// The oldest version that has all functions below: 1.1.1.
const OLDEST: c_ulong = 0x1010_1000;

type Init = unsafe extern "C" fn(
    ctx: *mut c_void,
    cipher: *const c_void,
    engine: *mut c_void,
    key: *const u8,
    iv: *const u8,
    encrypt: c_int,
) -> c_int;
type Update = unsafe extern "C" fn(
    ctx: *mut c_void,
    out: *mut u8,
    out_len: *mut c_int,
    input: *const u8,
    in_len: c_int,
) -> c_int;
type Cipher = unsafe extern "C" fn() -> *const c_void;

/// The library, its functions looked up.
#[derive(Clone)]
pub struct OpenSsl(Arc<Functions>);

struct Functions {
    ctx_new: unsafe extern "C" fn() -> *mut c_void,
    ctx_free: unsafe extern "C" fn(*mut c_void),
    init: Init,
    update: Update,
    aes_128_xts: Cipher,
    aes_256_xts: Cipher,
    version: String,
    file: String,
    _library: Library,
}

impl OpenSsl {
    /// Loads it.
    ///
    /// # Errors
    /// A line that says why not, and what would help.
    pub fn load() -> Result<OpenSsl, String> {
        let named = env::var(VARIABLE).ok().filter(|name| !name.is_empty());
        let names = match &named {
            Some(name) => vec![name.as_str()],
            None => LIBRARIES.to_vec(),
        };
        let mut faults = Vec::new();
        for name in names {
            match Functions::load(name) {
                Ok(functions) => return Ok(OpenSsl(Arc::new(functions))),
                Err(why) => faults.push(why),
            }
        }
        let help = match named {
            Some(_) => format!("check {VARIABLE}"),
            None => "apt-get install libssl3".to_string(),
        };
        Err(format!(
            "peer openssl is not here: {}: {help}",
            faults.join("; ")
        ))
    }

    /// As rows name it: `openssl-3.0.17`.
    pub fn provider(&self) -> String {
        format!("openssl-{}", self.0.version)
    }

    /// `3.0.17`.
    pub fn version(&self) -> &str {
        &self.0.version
    }

    /// The library's file, as it was asked for.
    pub fn file(&self) -> &str {
        &self.0.file
    }

    /// AES-XTS with this key (two AES keys of equal length).
    ///
    /// # Errors
    /// OpenSSL has no AES-192-XTS, and refuses keys whose halves are equal.
    pub fn xts(&self, key: &[u8], op: Op) -> Result<Xts, String> {
        let cipher = match key.len() {
            32 => self.0.aes_128_xts,
            64 => self.0.aes_256_xts,
            n => return Err(format!("{} has no AES-{}-XTS", self.provider(), n * 8 / 2)),
        };
        // SAFETY: takes nothing; returns a new context or null.
        let ctx = NonNull::new(unsafe { (self.0.ctx_new)() })
            .ok_or_else(|| format!("{} has no memory for a context", self.provider()))?;
        let xts = Xts {
            library: self.clone(),
            ctx,
        };
        // SAFETY: the context is fresh, the cipher a static of the library's, the key as long as it takes; a null
        // IV says that it comes later.
        let ok = unsafe {
            (self.0.init)(
                ctx.as_ptr(),
                cipher(),
                null_mut(),
                key.as_ptr(),
                null(),
                c_int::from(op == Op::Encrypt),
            )
        };
        if ok == 1 {
            Ok(xts)
        } else {
            Err(format!(
                "{} refuses the key (it does when both halves are equal)",
                self.provider()
            ))
        }
    }

    /// AES-XTS as a candidate for the bench.
    pub fn candidate(&self, key: &[u8], op: Op) -> Result<Candidate<'static>, String> {
        let xts = RefCell::new(self.xts(key, op)?);
        let name = format!("EVP_aes_{}_xts", key.len() * 8 / 2);
        let run =
            Box::new(move |messages: &mut Messages, calls| xts.borrow_mut().run(messages, calls));
        Ok(Candidate::primitive(name, self.provider(), None, run))
    }
}

impl Functions {
    fn load(name: &str) -> Result<Functions, String> {
        // SAFETY: libcrypto's constructors set up its own memory only; whoever sets KILN_OPENSSL answers for that file.
        let library = unsafe { Library::new(name) }.map_err(|e| one_line(&e))?;
        let missing = |e: libloading::Error| format!("{name} is too old: {}", one_line(&e));
        // SAFETY: the types are those of the library's headers, evp.h and crypto.h, the same in 1.1.1 and 3.x.
        unsafe {
            let version_num = *library
                .get::<unsafe extern "C" fn() -> c_ulong>(b"OpenSSL_version_num\0")
                .map_err(missing)?;
            let version_text = *library
                .get::<unsafe extern "C" fn(c_int) -> *const c_char>(b"OpenSSL_version\0")
                .map_err(missing)?;
            let version = version(CStr::from_ptr(version_text(0)));
            if version_num() < OLDEST {
                return Err(format!("{name} is too old: {version}"));
            }
            Ok(Functions {
                ctx_new: *library.get(b"EVP_CIPHER_CTX_new\0").map_err(missing)?,
                ctx_free: *library.get(b"EVP_CIPHER_CTX_free\0").map_err(missing)?,
                init: *library.get(b"EVP_CipherInit_ex\0").map_err(missing)?,
                update: *library.get(b"EVP_CipherUpdate\0").map_err(missing)?,
                aes_128_xts: *library.get(b"EVP_aes_128_xts\0").map_err(missing)?,
                aes_256_xts: *library.get(b"EVP_aes_256_xts\0").map_err(missing)?,
                version,
                file: name.to_string(),
                _library: library,
            })
        }
    }
}

fn one_line(e: &libloading::Error) -> String {
    e.to_string().lines().next().unwrap_or("?").to_string()
}

/// `3.0.17` of `OpenSSL 3.0.17 1 Jul 2025`.
fn version(text: &CStr) -> String {
    let text = text.to_string_lossy();
    text.split_whitespace().nth(1).unwrap_or("?").to_string()
}

/// One context, with a key.
pub struct Xts {
    library: OpenSsl,
    ctx: NonNull<c_void>,
}

impl Xts {
    /// One message. `src` and `dst` are equally long, at least a block.
    pub fn crypt(&mut self, iv: &[u8; BLOCK], src: &[u8], dst: &mut [u8]) -> Result<(), String> {
        let fits = src.len() == dst.len() && src.len() >= BLOCK;
        let len = c_int::try_from(src.len()).ok().filter(|_| fits);
        let len = len.ok_or_else(|| format!("a message of {} bytes", src.len()))?;
        // SAFETY: a shared and an exclusive borrow of `len` bytes each.
        let ok = unsafe { self.message(iv.as_ptr(), src.as_ptr(), dst.as_mut_ptr(), len) };
        ok.then_some(()).ok_or_else(|| self.failed())
    }

    fn failed(&self) -> String {
        format!("{} fails", self.library.provider())
    }

    fn run(&mut self, messages: &mut Messages, calls: u64) -> Result<(), String> {
        let (len, stride, chained) = (messages.shape.len, messages.src_stride, messages.chained);
        let c_len = c_int::try_from(len).map_err(|_| format!("a message of {len} bytes"))?;
        let (ivs, src, dst) = messages.parts();
        let count = ivs.len();
        assert!((count - 1) * stride + len <= src.len().min(dst.len()));
        let (src, dst) = (src.as_ptr(), dst.as_mut_ptr());
        let mut iv = ivs[0].as_ptr();
        let mut i = 0;
        for _ in 0..calls {
            let at = i * stride;
            // SAFETY: `at + len` is within both buffers (asserted above, i < count), which do not overlap; the IV is
            // one of the list's, or the first block of a result, `len` being 16 or more.
            let ok = unsafe { self.message(iv, src.add(at), dst.add(at), c_len) };
            if !ok {
                return Err(self.failed());
            }
            i = if i + 1 == count { 0 } else { i + 1 };
            iv = if chained {
                // SAFETY: within the buffer, as above.
                unsafe { dst.add(at) }
            } else {
                ivs[i].as_ptr()
            };
        }
        Ok(())
    }

    /// # Safety
    /// `iv` is readable for 16 bytes, `src` for `len`; `dst` is writable for `len` and they do not overlap.
    #[inline(always)]
    unsafe fn message(&mut self, iv: *const u8, src: *const u8, dst: *mut u8, len: c_int) -> bool {
        let f = &*self.library.0;
        let ctx = self.ctx.as_ptr();
        let mut out = 0;
        // SAFETY: the context has cipher and key and is this thread's (`&mut`); the pointers are the caller's
        // promise; XTS writes as many bytes as it reads.
        unsafe {
            (f.init)(ctx, null(), null_mut(), null(), iv, -1) == 1
                && (f.update)(ctx, dst, &mut out, src, len) == 1
                && out == len
        }
    }
}

impl Drop for Xts {
    fn drop(&mut self) {
        // SAFETY: from EVP_CIPHER_CTX_new, freed once; it wipes the key.
        unsafe { (self.library.0.ctx_free)(self.ctx.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(version(c"OpenSSL 3.0.17 1 Jul 2025"), "3.0.17");
        assert_eq!(version(c"OpenSSL 1.1.1w  11 Sep 2023"), "1.1.1w");
        assert_eq!(version(c""), "?");
    }

    #[test]
    fn a_library_without_the_functions_is_refused() {
        let why = Functions::load("libc.so.6").err().unwrap();
        assert!(why.contains("too old"), "{why}");
        let why = Functions::load("/no/such/file.so").err().unwrap();
        assert!(why.contains("/no/such/file.so"), "{why}");
    }

    #[test]
    fn keys_it_does_not_take() {
        let Ok(openssl) = OpenSsl::load() else { return };
        let fault = |key: &[u8]| openssl.xts(key, Op::Encrypt).err().unwrap();
        assert!(fault(&[1; 48]).contains("no AES-192-XTS"));
        assert!(fault(&[1; 64]).contains("refuses the key"));
    }
}
