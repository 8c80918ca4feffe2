//! `kernel/include/kiln/kiln.h`, declaration by declaration.

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
}

#[repr(C)]
pub struct XtsSeries {
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
}

extern "C" {
    pub fn kiln_tiers_present() -> u32;
    pub fn kiln_tiers() -> u32;
    pub fn kiln_tier_lacks(tier: u32) -> *const c_char;
    pub fn kiln_tiers_mask(mask: u32);

    pub fn kiln_xts_impls() -> usize;
    pub fn kiln_xts_impl(i: usize) -> *const XtsImpl;
    pub fn kiln_xts_key_size() -> usize;
    pub fn kiln_xts_setkey(key: *mut XtsKey, raw: *const u8, len: usize) -> i32;
    pub fn kiln_xts_crypt(
        imp: *const XtsImpl,
        decrypt: bool,
        key: *const XtsKey,
        dst: *mut u8,
        src: *const u8,
        len: usize,
        iv: *const u8,
    ) -> i32;
    pub fn kiln_xts_run(imp: *const XtsImpl, series: *const XtsSeries);
}
