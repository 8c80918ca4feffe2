//! Of `xts(aes)`, which has an interface of its own: implementations and calls.

use std::ffi::c_char;

/// `struct xts_key`: its size is known to C only.
#[repr(C)]
pub struct XtsKey {
    _opaque: [u8; 0],
}

pub type XtsCrypt = unsafe extern "C" fn(
    key: *const XtsKey,
    dst: *mut u8,
    src: *const u8,
    len: usize,
    iv: *const u8,
);

#[repr(C)]
pub struct XtsImpl {
    pub driver: *const c_char,
    pub tier: u32,
    pub priority: u32,
    pub constant_time: bool,
    pub encrypt: XtsCrypt,
    pub decrypt: XtsCrypt,
    pub first_tweak: unsafe extern "C" fn(key: *const XtsKey, tweak: *mut u8),
    pub encrypt_from: XtsCrypt,
    pub decrypt_from: XtsCrypt,
}

#[repr(C)]
pub struct XtsCall {
    pub imp: *const XtsImpl,
    pub key: *const XtsKey,
    pub dst: *mut u8,
    pub src: *const u8,
    pub iv: *const u8,
    pub len: usize,
    pub decrypt: bool,
}

#[repr(C)]
pub struct XtsSeries {
    pub imp: *const XtsImpl,
    pub key: *const XtsKey,
    pub dst: *mut u8,
    pub src: *const u8,
    pub iv: *const u8,
    pub len: usize,
    pub stride: usize,
    pub count: usize,
    pub calls: u64,
    pub decrypt: bool,
    pub chained: bool,
    pub sections: u32,
}
