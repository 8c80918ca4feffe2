//! libgcrypt, called as its manual recommends.
//!
//! A handle is opened once and given a key ("Working with cipher handles"). Setting the IV starts a
//! message (`gcry_cipher_setiv`, or `gcry_cipher_setctr` for CTR), and a single call of
//! `gcry_cipher_encrypt` processes it. For AEADs, the steps are: set the IV, set the lengths if the
//! mode is CCM (`GCRYCTL_SET_CCM_LENGTHS`), call `gcry_cipher_authenticate`, process the text, and
//! call `gcry_cipher_gettag` or `gcry_cipher_checktag`. A message in a single buffer is hashed with
//! `gcry_md_hash_buffer`, which is the fastest function according to the manual. For MACs, a handle
//! holds the key, and `gcry_mac_reset` is called before each message.

use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::Arc;

use super::each::{call_each, ccm_nonce};
use super::interface::Peer;
use super::library::{Find, Opened};
use crate::{Candidate, Messages, Op, Run, Work};

const FIND: Find = Find {
    peer: "libgcrypt",
    variable: "KILN_LIBGCRYPT",
    names: &["libgcrypt.so.20"],
    cached: Some("libgcrypt.so"),
    remedy: "kiln libraries install libgcrypt, or apt-get install libgcrypt20",
};

/// The oldest version with all required functions: ChaCha20-Poly1305, GCM, CCM, XTS and MACs.
const OLDEST: &CStr = c"1.8.0";

// Values of the enums gcry_ctl_cmds, gcry_cipher_modes, gcry_cipher_algos, gcry_md_algos and
// gcry_mac_algos in gcrypt.h.
const CTL_RESET: c_int = 4;
const CTL_DISABLE_SECMEM: c_int = 37;
const CTL_INITIALIZATION_FINISHED: c_int = 38;
const CTL_INITIALIZATION_FINISHED_P: c_int = 39;
const CTL_SET_CCM_LENGTHS: c_int = 69;
const MODE_ECB: c_int = 1;
const MODE_CBC: c_int = 3;
const MODE_STREAM: c_int = 4;
const MODE_CTR: c_int = 6;
const MODE_CCM: c_int = 8;
const MODE_GCM: c_int = 9;
const MODE_POLY1305: c_int = 10;
const MODE_XTS: c_int = 13;
const CHACHA20: c_int = 316;

type Handle = *mut c_void;
type Error = c_uint;
type Crypt = unsafe extern "C" fn(Handle, *mut u8, usize, *const u8, usize) -> Error;
type Bytes = unsafe extern "C" fn(Handle, *const u8, usize) -> Error;
type Ctl = unsafe extern "C" fn(Handle, c_int, *mut c_void, usize) -> Error;

struct Functions {
    version: String,
    open: unsafe extern "C" fn(*mut Handle, c_int, c_int, c_uint) -> Error,
    close: unsafe extern "C" fn(Handle),
    setkey: Bytes,
    setiv: Bytes,
    setctr: Bytes,
    ctl: Ctl,
    encrypt: Crypt,
    decrypt: Crypt,
    authenticate: Bytes,
    gettag: unsafe extern "C" fn(Handle, *mut u8, usize) -> Error,
    checktag: Bytes,
    hash_buffer: unsafe extern "C" fn(c_int, *mut u8, *const u8, usize),
    test_algo: unsafe extern "C" fn(c_int, c_int, *mut c_void, *mut usize) -> Error,
    mac_open: unsafe extern "C" fn(*mut Handle, c_int, c_uint, *mut c_void) -> Error,
    mac_close: unsafe extern "C" fn(Handle),
    mac_setkey: Bytes,
    mac_ctl: Ctl,
    mac_write: Bytes,
    mac_read: unsafe extern "C" fn(Handle, *mut u8, *mut usize) -> Error,
    /// This field is last, so that the library is closed after all other fields are dropped.
    opened: Opened,
}

/// The library with its resolved functions.
#[derive(Clone)]
pub(super) struct Gcrypt(Arc<Functions>);

impl Gcrypt {
    /// Loads and initialises the library. If `file` is given, tries only that file.
    ///
    /// # Errors
    /// Returns one line that states the reason and a remedy.
    pub(super) fn load(file: Option<&Path>) -> Result<Gcrypt, String> {
        FIND.load(file, Functions::load, |f| &f.version)
            .map(|f| Gcrypt(Arc::new(f)))
    }
}

impl Functions {
    fn load(o: &Opened) -> Result<Functions, String> {
        // SAFETY: the types match gcrypt.h, and the library stays open in `opened`. The
        // initialisation follows the manual: check the version, disable secure memory, finish the
        // initialisation. The last two steps are skipped if this process has already initialised
        // the library.
        unsafe {
            let check: unsafe extern "C" fn(*const c_char) -> *const c_char =
                o.get("gcry_check_version")?;
            let control: unsafe extern "C" fn(c_int, ...) -> Error = o.get("gcry_control")?;
            let version = check(null());
            if version.is_null() || check(OLDEST.as_ptr()).is_null() {
                let version = match version.is_null() {
                    true => "?".into(),
                    false => CStr::from_ptr(version).to_string_lossy(),
                };
                return Err(format!("{} is too old: {version}", o.file));
            }
            if control(CTL_INITIALIZATION_FINISHED_P) == 0 {
                control(CTL_DISABLE_SECMEM, 0 as c_int);
                control(CTL_INITIALIZATION_FINISHED, 0 as c_int);
            }
            Ok(Functions {
                version: CStr::from_ptr(version).to_string_lossy().into_owned(),
                open: o.get("gcry_cipher_open")?,
                close: o.get("gcry_cipher_close")?,
                setkey: o.get("gcry_cipher_setkey")?,
                setiv: o.get("gcry_cipher_setiv")?,
                setctr: o.get("gcry_cipher_setctr")?,
                ctl: o.get("gcry_cipher_ctl")?,
                encrypt: o.get("gcry_cipher_encrypt")?,
                decrypt: o.get("gcry_cipher_decrypt")?,
                authenticate: o.get("gcry_cipher_authenticate")?,
                gettag: o.get("gcry_cipher_gettag")?,
                checktag: o.get("gcry_cipher_checktag")?,
                hash_buffer: o.get("gcry_md_hash_buffer")?,
                test_algo: o.get("gcry_md_algo_info")?,
                mac_open: o.get("gcry_mac_open")?,
                mac_close: o.get("gcry_mac_close")?,
                mac_setkey: o.get("gcry_mac_setkey")?,
                mac_ctl: o.get("gcry_mac_ctl")?,
                mac_write: o.get("gcry_mac_write")?,
                mac_read: o.get("gcry_mac_read")?,
                opened: o.clone(),
            })
        }
    }
}

impl Peer for Gcrypt {
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
        let aes = match bits {
            128 => 7,
            192 => 8,
            _ => 9,
        };
        let (name, run): (String, Run<'static>) = match alg {
            "xts(aes)" if bits == 192 => {
                return Err(format!("{} has no AES-192-XTS", self.provider()))
            }
            "ecb(aes)" => (aes_name(bits, "ECB"), self.skcipher(aes, MODE_ECB, work)?),
            "cbc(aes)" => (aes_name(bits, "CBC"), self.skcipher(aes, MODE_CBC, work)?),
            "ctr(aes)" => (aes_name(bits, "CTR"), self.skcipher(aes, MODE_CTR, work)?),
            "xts(aes)" => (aes_name(bits, "XTS"), self.skcipher(aes, MODE_XTS, work)?),
            "chacha20" => (
                "CHACHA20".into(),
                self.skcipher(CHACHA20, MODE_STREAM, work)?,
            ),
            "gcm(aes)" => (aes_name(bits, "GCM"), self.aead(aes, MODE_GCM, work)?),
            "ccm(aes)" => (aes_name(bits, "CCM"), self.aead(aes, MODE_CCM, work)?),
            "rfc7539(chacha20,poly1305)" => (
                "CHACHA20_POLY1305".into(),
                self.aead(CHACHA20, MODE_POLY1305, work)?,
            ),
            "sha1" => ("MD_SHA1".into(), self.digest(2, "SHA1")?),
            "sha256" => ("MD_SHA256".into(), self.digest(8, "SHA256")?),
            "sha512" => ("MD_SHA512".into(), self.digest(10, "SHA512")?),
            "blake2s-256" => ("MD_BLAKE2S_256".into(), self.digest(322, "BLAKE2S_256")?),
            "sm3" => ("MD_SM3".into(), self.digest(326, "SM3")?),
            "hmac(sha256)" => ("MAC_HMAC_SHA256".into(), self.mac(101, work)?),
            "hmac(sha512)" => ("MAC_HMAC_SHA512".into(), self.mac(103, work)?),
            "hmac(sha1)" => ("MAC_HMAC_SHA1".into(), self.mac(105, work)?),
            "cmac(aes)" => ("MAC_CMAC_AES".into(), self.mac(201, work)?),
            "poly1305" => ("MAC_POLY1305".into(), self.mac(501, work)?),
            _ => return Ok(Vec::new()),
        };
        Ok(vec![Candidate::primitive(
            format!("GCRY_{name}"),
            self.provider(),
            None,
            run,
        )])
    }
}

fn aes_name(bits: u32, mode: &str) -> String {
    format!("CIPHER_AES{bits}_{mode}")
}

impl Gcrypt {
    fn cipher(&self, algo: c_int, mode: c_int, work: &Work) -> Result<Cipher, String> {
        let f = &*self.0;
        let mut handle = null_mut();
        // SAFETY: the function stores a handle in `handle`, which has room for it.
        let error = unsafe { (f.open)(&mut handle, algo, mode, 0) };
        if error != 0 || handle.is_null() {
            return Err(format!("{} has no {}", self.provider(), work.spec.name));
        }
        let cipher = Cipher {
            library: self.clone(),
            handle,
        };
        // SAFETY: the handle is open, and the pointer and the length describe the key.
        let error = unsafe { (f.setkey)(handle, work.key.as_ptr(), work.key.len()) };
        match error {
            0 => Ok(cipher),
            _ => Err(format!(
                "{} refuses the key of {}",
                self.provider(),
                work.spec.name
            )),
        }
    }

    fn skcipher(&self, algo: c_int, mode: c_int, work: &Work) -> Result<Run<'static>, String> {
        let cipher = self.cipher(algo, mode, work)?;
        let decrypt = work.op == Op::Decrypt;
        Ok(Box::new(move |m: &mut Messages, calls| {
            let (f, h, len, iv) = (&*cipher.library.0, cipher.handle, m.shape.len, m.shape.iv);
            let crypt = if decrypt { f.decrypt } else { f.encrypt };
            let set = if mode == MODE_CTR { f.setctr } else { f.setiv };
            call_each(m, calls, |c| {
                // SAFETY: the handle has its key, and only this thread uses it. The pointers are
                // valid for the lengths passed.
                unsafe {
                    (iv == 0 || set(h, c.iv, iv) == 0) && crypt(h, c.dst, len, c.src, len) == 0
                }
            })
        }))
    }

    fn aead(&self, algo: c_int, mode: c_int, work: &Work) -> Result<Run<'static>, String> {
        let cipher = self.cipher(algo, mode, work)?;
        let decrypt = work.op == Op::Decrypt;
        Ok(Box::new(move |m: &mut Messages, calls| {
            let (f, h, shape) = (&*cipher.library.0, cipher.handle, m.shape);
            let (len, tag) = (shape.len, shape.tag);
            let crypt = if decrypt { f.decrypt } else { f.encrypt };
            let ccm = mode == MODE_CCM;
            let (skip, iv) = match ccm {
                true => (1, ccm_nonce(&shape)),
                false => (0, shape.iv),
            };
            let mut lengths = [len as u64, shape.prefix as u64, tag as u64];
            let size = size_of_val(&lengths);
            call_each(m, calls, |c| {
                // SAFETY: the handle has its key, and only this thread uses it. The lengths of the
                // buffers match the shape; a CCM nonce begins at the second byte of the IV, and
                // tags are at the addresses that `Call` computes.
                unsafe {
                    (f.setiv)(h, c.iv.add(skip), iv) == 0
                        && (!ccm
                            || (f.ctl)(h, CTL_SET_CCM_LENGTHS, lengths.as_mut_ptr().cast(), size)
                                == 0)
                        && (f.authenticate)(h, c.aad, shape.prefix) == 0
                        && crypt(h, c.dst, len, c.src, len) == 0
                        && match decrypt {
                            true => (f.checktag)(h, c.tag_to_open(len), tag) == 0,
                            false => (f.gettag)(h, c.tag_made(len), tag) == 0,
                        }
                }
            })
        }))
    }

    fn digest(&self, algo: c_int, name: &str) -> Result<Run<'static>, String> {
        /// The value of `GCRYCTL_TEST_ALGO`.
        const TEST: c_int = 8;
        let f = self.0.clone();
        // SAFETY: the call only checks whether the library has the algorithm, and the unused
        // arguments may be null. The check is needed because using an unknown algorithm would
        // terminate the process.
        if unsafe { (f.test_algo)(algo, TEST, null_mut(), null_mut()) } != 0 {
            return Err(format!("{} has no {name}", self.provider()));
        }
        Ok(Box::new(move |m: &mut Messages, calls| {
            let len = m.shape.len;
            call_each(m, calls, |c| {
                // SAFETY: the source has `len` bytes, and the result buffer has room for the
                // digest.
                unsafe { (f.hash_buffer)(algo, c.dst, c.src, len) };
                true
            })
        }))
    }

    fn mac(&self, algo: c_int, work: &Work) -> Result<Run<'static>, String> {
        let f = &*self.0;
        let mut handle = null_mut();
        // SAFETY: the function stores a handle in `handle`, which has room for it.
        let error = unsafe { (f.mac_open)(&mut handle, algo, 0, null_mut()) };
        if error != 0 || handle.is_null() {
            return Err(format!("{} has no {}", self.provider(), work.spec.name));
        }
        let mac = Mac {
            library: self.clone(),
            handle,
        };
        // SAFETY: the handle is open, and the pointer and the length describe the key.
        if unsafe { (f.mac_setkey)(handle, work.key.as_ptr(), work.key.len()) } != 0 {
            return Err(format!(
                "{} refuses the key of {}",
                self.provider(),
                work.spec.name
            ));
        }
        Ok(Box::new(move |m: &mut Messages, calls| {
            let (f, h) = (&*mac.library.0, mac.handle);
            let (len, size) = (m.shape.len, m.shape.digest);
            call_each(m, calls, |c| {
                let mut out = size;
                // SAFETY: the handle has its key, and only this thread uses it. The result buffer
                // has room for `size` bytes.
                unsafe {
                    (f.mac_ctl)(h, CTL_RESET, null_mut(), 0) == 0
                        && (f.mac_write)(h, c.src, len) == 0
                        && (f.mac_read)(h, c.dst, &mut out) == 0
                }
            })
        }))
    }
}

struct Cipher {
    library: Gcrypt,
    handle: Handle,
}

impl Drop for Cipher {
    fn drop(&mut self) {
        // SAFETY: gcry_cipher_open returned this handle, and only this call closes it. Closing
        // wipes the key.
        unsafe { (self.library.0.close)(self.handle) };
    }
}

struct Mac {
    library: Gcrypt,
    handle: Handle,
}

impl Drop for Mac {
    fn drop(&mut self) {
        // SAFETY: gcry_mac_open returned this handle, and only this call closes it. Closing wipes
        // the key.
        unsafe { (self.library.0.mac_close)(self.handle) };
    }
}
