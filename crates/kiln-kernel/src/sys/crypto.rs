//! Of the crypto API: requests, scripts of requests, hashes.

use std::ffi::{c_char, c_void};

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Scatterlist {
    pub addr: *mut u8,
    pub length: u32,
    pub last: bool,
    pub chain: bool,
}

#[repr(C)]
pub struct Tfm {
    pub name: *const c_char,
    pub kind: u32,
    pub mask: u32,
    pub tfm: *mut c_void,
    pub driver: *const c_char,
    pub flags: u32,
    pub priority: i32,
    pub ivsize: u32,
    pub err: i32,
}

#[repr(C)]
pub struct SetKey {
    pub tfm: *mut c_void,
    pub key: *const u8,
    pub len: u32,
    pub err: i32,
}

#[repr(C)]
pub struct Request {
    pub tfm: *mut c_void,
    pub src: *mut Scatterlist,
    pub dst: *mut Scatterlist,
    pub iv: *mut u8,
    pub assoclen: u32,
    pub len: u32,
    pub decrypt: bool,
    pub context: u32,
    pub submitted: i32,
    pub result: i32,
}

#[repr(C)]
pub struct kiln_requests {
    pub tfm: *mut c_void,
    pub m: super::kiln_messages,
    pub from: *mut Scatterlist,
    pub to: *mut Scatterlist,
    pub part: u32,
    pub err: i32,
    pub later: u64,
}

pub const KILN_REQUEST: u32 = 0;
pub const KILN_REQUEST_CHECKS: u32 = 1;
pub const KILN_REQUEST_COPY: u32 = 2;
pub const KILN_REQUEST_CALL: u32 = 3;
pub const KILN_REQUEST_SETUP: u32 = 4;

#[repr(C)]
pub struct CryptoOp {
    pub tfm: *mut c_void,
    pub slots: u32,
    pub request: *mut *mut c_void,
}

/// `struct kiln_request_ops`: functions that `kernel/` calls.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RequestOps {
    pub request_alloc: *const c_void,
    pub request_free: *const c_void,
    pub submit: *const c_void,
    pub tfm_free: *const c_void,
}

// SAFETY: addresses of code.
unsafe impl Sync for RequestOps {}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ScriptStep {
    pub kind: u32,
    pub tfm: u32,
    pub context: u32,
    pub flags: u32,
    pub count: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ScriptEvent {
    pub request: u32,
    pub answer: bool,
    pub kthread: bool,
    pub wrong: bool,
    pub err: i32,
    pub preempt_count: u32,
}

#[repr(C)]
pub struct Script {
    pub ops: *const RequestOps,
    pub tfm: *mut *mut c_void,
    pub step: *const ScriptStep,
    pub steps: u32,
    pub len: u32,
    pub src: *const u8,
    pub want: *const u8,
    pub iv: *const u8,
    pub event: *mut ScriptEvent,
    pub max_events: u32,
    pub events: u32,
    pub stuck: u32,
}

/// `struct kiln_digest`.
#[repr(C)]
pub struct Digest {
    pub tfm: *mut c_void,
    pub data: *const u8,
    pub len: u32,
    pub piece: *const u32,
    pub pieces: u32,
    pub reimport: bool,
    pub state: *const u8,
    pub out: *mut u8,
    pub context: u32,
    pub err: i32,
}
