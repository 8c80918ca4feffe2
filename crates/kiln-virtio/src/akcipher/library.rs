//! Bindings to libcrypto functions. The types match those in the headers evp.h, rsa.h and core.h,
//! which are the same in versions 3.0 to 4.0.

use std::env;
use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::ptr::{null, null_mut};
use std::sync::Arc;

pub(super) type Ctx = *mut c_void;
pub(super) type Pkey = *mut c_void;
type Start = unsafe extern "C" fn(Ctx) -> c_int;
type Crypt = unsafe extern "C" fn(Ctx, *mut u8, *mut usize, *const u8, usize) -> c_int;

/// The layout of `OSSL_PARAM` in core.h.
#[repr(C)]
pub(super) struct Param {
    key: *const c_char,
    kind: c_uint,
    data: *mut c_void,
    size: usize,
    returned: usize,
}

impl Param {
    pub(super) const END: Param = Param {
        key: null(),
        kind: 0,
        data: null_mut(),
        size: 0,
        returned: 0,
    };

    fn new(key: &'static CStr, kind: c_uint, data: &[u8]) -> Param {
        Param {
            key: key.as_ptr(),
            kind,
            data: data.as_ptr().cast_mut().cast(),
            size: data.len(),
            // `OSSL_PARAM_UNMODIFIED`
            returned: usize::MAX,
        }
    }

    /// Creates a parameter for a number in the host's byte order, which is little-endian.
    pub(super) fn number(key: &'static CStr, data: &[u8]) -> Param {
        Param::new(key, 2, data)
    }

    pub(super) fn text(key: &'static CStr, value: &'static CStr) -> Param {
        Param::new(key, 4, value.to_bytes())
    }

    pub(super) fn octets(key: &'static CStr, data: &[u8]) -> Param {
        Param::new(key, 5, data)
    }
}

/// The functions of the loaded library. The library is never unloaded, because its exit hooks must
/// still be able to run to free per-thread data.
pub(super) struct Functions {
    pub ctx_from_name: unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> Ctx,
    pub ctx_from_pkey: unsafe extern "C" fn(*mut c_void, Pkey, *const c_char) -> Ctx,
    pub ctx_free: unsafe extern "C" fn(Ctx),
    pub pkey_free: unsafe extern "C" fn(Pkey),
    pub fromdata_init: Start,
    pub fromdata: unsafe extern "C" fn(Ctx, *mut Pkey, c_int, *const Param) -> c_int,
    pub encrypt_init: Start,
    pub encrypt: Crypt,
    pub decrypt_init: Start,
    pub decrypt: Crypt,
    pub sign_init: Start,
    pub sign: Crypt,
    pub verify_init: Start,
    pub verify: unsafe extern "C" fn(Ctx, *const u8, usize, *const u8, usize) -> c_int,
    pub set_padding: unsafe extern "C" fn(Ctx, c_int) -> c_int,
    pub set_md: unsafe extern "C" fn(Ctx, *const c_void) -> c_int,
    pub md_by_name: unsafe extern "C" fn(*const c_char) -> *const c_void,
    pub clear_errors: unsafe extern "C" fn(),
}

/// File names of libcrypto in the system's library directories, newest version first.
pub const LIBCRYPTO: [&str; 3] = ["libcrypto.so.4", "libcrypto.so.3", "libcrypto.so.1.1"];

/// A handle to the loaded libcrypto.
#[derive(Clone)]
pub(crate) struct Library(pub(super) Arc<Functions>);

impl Library {
    /// Loads the newest libcrypto that has all required functions. Returns `None` if no such
    /// library is installed. If `KILN_OPENSSL` is set, loads the file that it names instead of a
    /// system library.
    pub(super) fn load() -> Option<Library> {
        let named = env::var("KILN_OPENSSL")
            .ok()
            .filter(|name| !name.is_empty());
        match &named {
            Some(name) => Library::open(name),
            None => Library::first(&LIBCRYPTO),
        }
    }

    /// Loads the first of these files that is a libcrypto with all required functions.
    fn first(names: &[&str]) -> Option<Library> {
        names.iter().find_map(|name| Library::open(name))
    }

    fn open(name: &str) -> Option<Library> {
        // SAFETY: libcrypto's constructors initialise only the library's own memory. A user who
        // selects another file is responsible for that file's constructors.
        let library = unsafe { libloading::Library::new(name) }.ok()?;
        let found = Functions::find(&library);
        std::mem::forget(library);
        Some(Library(Arc::new(found?)))
    }
}

impl Functions {
    fn find(library: &libloading::Library) -> Option<Functions> {
        /// # Safety
        /// `T` must be the symbol's type in the headers.
        unsafe fn get<T: Copy>(library: &libloading::Library, symbol: &str) -> Option<T> {
            // SAFETY: the caller guarantees the type, and the library stays loaded.
            unsafe { library.get::<T>(symbol.as_bytes()) }
                .ok()
                .map(|s| *s)
        }
        /// `OPENSSL_INIT_NO_LOAD_CONFIG`: do not read openssl.cnf, because its settings are not
        /// meant for this device.
        const NO_LOAD_CONFIG: u64 = 0x80;
        // SAFETY: the types match the headers of versions 3.0 to 4.0. An older library lacks
        // functions that were introduced in 3.0 (`from_name`), so loading it fails.
        unsafe {
            let init: unsafe extern "C" fn(u64, *const c_void) -> c_int =
                get(library, "OPENSSL_init_crypto")?;
            let functions = Functions {
                ctx_from_name: get(library, "EVP_PKEY_CTX_new_from_name")?,
                ctx_from_pkey: get(library, "EVP_PKEY_CTX_new_from_pkey")?,
                ctx_free: get(library, "EVP_PKEY_CTX_free")?,
                pkey_free: get(library, "EVP_PKEY_free")?,
                fromdata_init: get(library, "EVP_PKEY_fromdata_init")?,
                fromdata: get(library, "EVP_PKEY_fromdata")?,
                encrypt_init: get(library, "EVP_PKEY_encrypt_init")?,
                encrypt: get(library, "EVP_PKEY_encrypt")?,
                decrypt_init: get(library, "EVP_PKEY_decrypt_init")?,
                decrypt: get(library, "EVP_PKEY_decrypt")?,
                sign_init: get(library, "EVP_PKEY_sign_init")?,
                sign: get(library, "EVP_PKEY_sign")?,
                verify_init: get(library, "EVP_PKEY_verify_init")?,
                verify: get(library, "EVP_PKEY_verify")?,
                set_padding: get(library, "EVP_PKEY_CTX_set_rsa_padding")?,
                set_md: get(library, "EVP_PKEY_CTX_set_signature_md")?,
                md_by_name: get(library, "EVP_get_digestbyname")?,
                clear_errors: get(library, "ERR_clear_error")?,
            };
            (init(NO_LOAD_CONFIG, null()) == 1).then_some(functions)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A library that is missing or lacks a function is skipped, and the next one is tried.
    #[test]
    fn the_first_library_that_will_do_is_loaded() {
        let unusable = ["libcrypto.so.none", "libc.so.6"];
        assert!(Library::first(&unusable).is_none());
        let Some(usable) = LIBCRYPTO
            .into_iter()
            .find(|name| Library::open(name).is_some())
        else {
            eprintln!("skipped: no libcrypto 3 or 4 here: apt-get install libssl3");
            return;
        };
        assert_ne!(usable, "libcrypto.so.1.1", "it lacks functions");
        let names = [&unusable[..], &[usable]].concat();
        assert!(Library::first(&names).is_some());
    }
}
