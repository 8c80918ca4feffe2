//! Of the ciphers: implementations, and calls of one or many.

use std::ffi::{c_char, c_void};

/// `struct kiln_impl`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Impl {
    pub alg: *const c_char,
    pub driver: *const c_char,
    pub kind: u32,
    pub tier: u32,
    pub priority: u32,
    pub constant_time: bool,
    pub key_min: u32,
    pub key_max: u32,
    pub key_step: u32,
    pub ivsize: u32,
    pub blocksize: u32,
    pub shortest: u32,
    pub digestsize: u32,
    pub tag_min: u32,
    pub tag_step: u32,
    pub ctxsize: u32,
    pub statesize: u32,
    pub class: u32,
    pub longest: u64,
    pub setkey: Option<KeyFn>,
    /// The largest of the three tables of functions.
    pub ops: [usize; 7],
}

/// `KILN_ANY_KEY`: as `key_max`, keys of any length.
pub const ANY_KEY: u32 = u32::MAX;

/// `struct kiln_series`.
#[repr(C)]
pub struct Series {
    pub imp: *const Impl,
    pub ctx: *const c_void,
    pub dst: *mut u8,
    pub src: *const u8,
    pub iv: *const u8,
    pub aad: *const u8,
    pub tag: *mut u8,
    pub len: usize,
    pub stride: usize,
    pub aadlen: usize,
    pub tagsize: usize,
    pub tag_stride: usize,
    pub count: usize,
    pub calls: u64,
    pub decrypt: bool,
    pub sections: u32,
    pub refused: u64,
}

/// `struct kiln_calls`.
#[repr(C)]
pub struct Calls {
    pub imp: *const Impl,
    pub ctx: *const c_void,
    pub dst: *mut u8,
    pub src: *const u8,
    pub fresh: *const u8,
    pub aad: *const u8,
    pub iv: *mut u8,
    pub tag: *mut u8,
    pub len: usize,
    pub src_stride: usize,
    pub dst_stride: usize,
    pub iv_stride: usize,
    pub aad_stride: usize,
    pub tag_stride: usize,
    pub aadlen: usize,
    pub tagsize: usize,
    pub count: usize,
    pub calls: u64,
    pub decrypt: bool,
    pub chained: bool,
    pub many: bool,
    pub sections: u32,
}

/// `struct kiln_pieces`.
#[repr(C)]
pub struct Pieces {
    pub imp: *const Impl,
    pub other: *const Impl,
    pub ctx: *const c_void,
    pub dst: *mut u8,
    pub src: *const u8,
    pub iv: *const u8,
    pub aad: *const u8,
    pub tag: *mut u8,
    pub len: usize,
    pub aadlen: usize,
    pub tagsize: usize,
    pub decrypt: bool,
    pub piece: *const u32,
    pub pieces: u32,
    pub aad_pieces: u32,
}

pub type KeyFn = unsafe extern "C" fn(ctx: *mut c_void, key: *const u8, len: usize) -> i32;

/// `struct kiln_call`.
#[repr(C)]
pub struct Call {
    pub function: usize,
    pub scalar: usize,
    pub args: [u64; 9],
    pub through: Option<crate::call::Through>,
    pub registers: *mut c_void,
    pub context: u32,
    pub section: bool,
    pub step: bool,
    pub done: bool,
    pub fell_back: bool,
    pub preempt_count: u32,
    pub result: u64,
}

/// `struct kiln_guest`.
#[repr(C)]
pub struct Guest {
    pub function: usize,
    pub scalar: usize,
    pub args: [u64; 9],
    pub section: bool,
    pub iv: *mut u8,
    pub iv_of: *const u8,
    pub iv_size: u32,
    pub got: *mut u8,
    pub want: *const u8,
    pub len: u32,
}

/// `struct kiln_guests`.
#[repr(C)]
pub struct Guests {
    pub guest: *mut Guest,
    pub softirqs: u32,
    pub hardirqs: u32,
    pub next: u32,
    pub next_hardirq: u32,
    pub interrupts: u64,
    pub into_sections: u64,
    pub served: u64,
    pub sections: u64,
    pub scalar_fallbacks: u64,
    pub corrupted: u64,
}
