//! Of the loads: what task and softirq do, and what became of it.

use std::ffi::c_void;

use super::Impl;

/// Told of an answer.
pub type OpDone = unsafe extern "C" fn(data: *mut c_void, answer: i32);

pub type OpCrypt = unsafe extern "C" fn(
    ctx: *mut c_void,
    slot: u32,
    dst: *mut u8,
    src: *const u8,
    len: usize,
    iv: *const u8,
    decrypt: bool,
    done: OpDone,
    data: *mut c_void,
) -> i32;

#[repr(C)]
pub struct Op {
    pub crypt: OpCrypt,
    pub ctx: *mut c_void,
    pub slots: u32,
}

#[repr(C)]
#[derive(Clone)]
pub struct OpSlot {
    pub side: *mut LoadSide,
    pub next: *mut OpSlot,
    pub seq: u64,
    pub message: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct LoadSide {
    pub imp: *const Impl,
    pub op: *const Op,
    pub slots: *mut OpSlot,
    pub depth: u32,
    pub ctx: *const c_void,
    pub src: *const u8,
    pub want: *const u8,
    pub dst: *mut u8,
    pub iv: *mut u8,
    pub len: u32,
    pub stride: u32,
    pub count: u32,
    pub next: u32,
    pub decrypt: bool,
    pub ops: u64,
    pub corrupted: u64,
    pub async_punts: u64,
    pub dropped: u64,
    pub reordered: u64,
    pub errors: u64,
    pub free: *mut OpSlot,
    pub in_flight: u32,
    pub put: u64,
    pub answered: u64,
}

#[repr(C)]
pub struct Load {
    pub task: LoadSide,
    pub softirq: LoadSide,
    pub second: LoadSide,
    pub stop_second: bool,
    pub second_stopped: bool,
    pub fallback: *const Impl,
    pub empty: bool,
    pub hardirq_fpu: bool,
    pub step: bool,
    pub step_softirq: bool,
    pub hardirq_hook: Option<unsafe extern "C" fn()>,
    pub ops: u64,
    pub spins: u64,
    pub pattern: *const u8,
    pub found: *mut u8,
    pub scalar_fallbacks: u64,
    pub hardirq_sections: u64,
}
