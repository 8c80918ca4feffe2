//! The libcrypto functions that Kiln calls, with the types that the headers evp.h, core.h and
//! crypto.h declare. These types are the same in versions 1.1.1 to 4.0.

use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void, CStr};
use std::ptr::{null, null_mut};

use crate::peer::library::{Find, Opened};

pub(super) const FIND: Find = Find {
    peer: "openssl",
    variable: "KILN_OPENSSL",
    names: &kiln_virtio::LIBCRYPTO,
    cached: Some("libcrypto.so"),
    remedy: "kiln libraries install openssl, or apt-get install libssl3",
};

/// The oldest version that has all required functions: 1.1.1.
const OLDEST: c_ulong = 0x1010_1000;

type Ctx = *mut c_void;
pub(super) type Init =
    unsafe extern "C" fn(Ctx, *const c_void, *mut c_void, *const u8, *const u8, c_int) -> c_int;
pub(super) type Update = unsafe extern "C" fn(Ctx, *mut u8, *mut c_int, *const u8, c_int) -> c_int;
type ByName = unsafe extern "C" fn(*const c_char) -> *const c_void;

pub(super) struct Functions {
    pub version: String,
    pub cipher_by_name: ByName,
    pub ctx_new: unsafe extern "C" fn() -> Ctx,
    pub ctx_free: unsafe extern "C" fn(Ctx),
    pub init: Init,
    pub update: Update,
    pub finish: unsafe extern "C" fn(Ctx, *mut u8, *mut c_int) -> c_int,
    pub ctrl: unsafe extern "C" fn(Ctx, c_int, c_int, *mut c_void) -> c_int,
    pub set_padding: unsafe extern "C" fn(Ctx, c_int) -> c_int,
    pub md_by_name: ByName,
    /// `EVP_MD_fetch`, added in version 3.0.
    pub md_fetch:
        Option<unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *const c_void>,
    pub md_ctx_new: unsafe extern "C" fn() -> Ctx,
    pub md_ctx_free: unsafe extern "C" fn(Ctx),
    pub md_init: unsafe extern "C" fn(Ctx, *const c_void, *mut c_void) -> c_int,
    pub md_update: unsafe extern "C" fn(Ctx, *const c_void, usize) -> c_int,
    pub md_final: unsafe extern "C" fn(Ctx, *mut u8, *mut c_uint) -> c_int,
    /// The MAC functions, added in version 3.0.
    pub mac: Option<Mac>,
    /// This field is last, so that the library is closed after all other fields are dropped.
    pub opened: Opened,
}

/// The functions that operate on `EVP_MAC` and its context.
pub(super) struct Mac {
    pub fetch: unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void,
    pub free: unsafe extern "C" fn(*mut c_void),
    pub ctx_new: unsafe extern "C" fn(*mut c_void) -> Ctx,
    pub ctx_free: unsafe extern "C" fn(Ctx),
    pub init: unsafe extern "C" fn(Ctx, *const u8, usize, *const Param) -> c_int,
    pub update: unsafe extern "C" fn(Ctx, *const u8, usize) -> c_int,
    pub finish: unsafe extern "C" fn(Ctx, *mut u8, *mut usize, usize) -> c_int,
}

/// The layout of `OSSL_PARAM` in core.h.
#[repr(C)]
pub(super) struct Param {
    key: *const c_char,
    data_type: c_uint,
    data: *mut c_void,
    data_size: usize,
    return_size: usize,
}

impl Param {
    pub(super) const END: Param = Param {
        key: null(),
        data_type: 0,
        data: null_mut(),
        data_size: 0,
        return_size: 0,
    };

    /// Creates a string parameter. The data type 4 is `OSSL_PARAM_UTF8_STRING`, and the return size
    /// `usize::MAX` is `OSSL_PARAM_UNMODIFIED`.
    pub(super) fn text(key: &CStr, value: &CStr) -> Param {
        Param {
            key: key.as_ptr(),
            data_type: 4,
            data: value.as_ptr().cast_mut().cast(),
            data_size: value.count_bytes(),
            return_size: usize::MAX,
        }
    }
}

impl Functions {
    pub(super) fn load(o: &Opened) -> Result<Functions, String> {
        // SAFETY: the types match the headers, and the library stays open in `opened`.
        unsafe {
            let number: unsafe extern "C" fn() -> c_ulong = o.get("OpenSSL_version_num")?;
            let text: unsafe extern "C" fn(c_int) -> *const c_char = o.get("OpenSSL_version")?;
            let version = version(CStr::from_ptr(text(0)));
            if number() < OLDEST {
                return Err(format!("{} is too old: {version}", o.file));
            }
            Ok(Functions {
                version,
                cipher_by_name: o.get("EVP_get_cipherbyname")?,
                ctx_new: o.get("EVP_CIPHER_CTX_new")?,
                ctx_free: o.get("EVP_CIPHER_CTX_free")?,
                init: o.get("EVP_CipherInit_ex")?,
                update: o.get("EVP_CipherUpdate")?,
                finish: o.get("EVP_CipherFinal_ex")?,
                ctrl: o.get("EVP_CIPHER_CTX_ctrl")?,
                set_padding: o.get("EVP_CIPHER_CTX_set_padding")?,
                md_by_name: o.get("EVP_get_digestbyname")?,
                md_fetch: o.get("EVP_MD_fetch").ok(),
                md_ctx_new: o.get("EVP_MD_CTX_new")?,
                md_ctx_free: o.get("EVP_MD_CTX_free")?,
                md_init: o.get("EVP_DigestInit_ex")?,
                md_update: o.get("EVP_DigestUpdate")?,
                md_final: o.get("EVP_DigestFinal_ex")?,
                mac: Mac::load(o).ok(),
                opened: o.clone(),
            })
        }
    }
}

impl Mac {
    fn load(o: &Opened) -> Result<Mac, String> {
        // SAFETY: the types match the headers, and the library stays open in `Functions::opened`.
        unsafe {
            Ok(Mac {
                fetch: o.get("EVP_MAC_fetch")?,
                free: o.get("EVP_MAC_free")?,
                ctx_new: o.get("EVP_MAC_CTX_new")?,
                ctx_free: o.get("EVP_MAC_CTX_free")?,
                init: o.get("EVP_MAC_init")?,
                update: o.get("EVP_MAC_update")?,
                finish: o.get("EVP_MAC_final")?,
            })
        }
    }
}

/// Extracts the version `3.0.17` from `OpenSSL 3.0.17 1 Jul 2025`.
fn version(text: &CStr) -> String {
    let text = text.to_string_lossy();
    text.split_whitespace().nth(1).unwrap_or("?").to_string()
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
        let opened = Opened::open("libc.so.6", "system").unwrap();
        let why = Functions::load(&opened).err().unwrap();
        assert!(why.contains("too old"), "{why}");
    }
}
