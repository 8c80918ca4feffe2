//! `kernel/include/kiln/esp.h`, declaration by declaration.

#![allow(missing_docs)] // the header has it all

use std::ffi::c_void;

use crate::sys;

extern "C" {
    pub fn kiln_replay_init(window: *mut Replay, size: u32);
    pub fn kiln_replay_accept(window: *mut Replay, seq: u64) -> bool;
    pub fn kiln_replay_break(broken: u32);
    pub fn kiln_esp_open(load: *mut c_void) -> u64;
    pub fn kiln_esp_close(load: *mut c_void) -> u64;
    pub fn kiln_esp_attach(load: *mut c_void) -> u64;
    pub fn kiln_esp_run(load: *mut c_void) -> u64;
    pub fn kiln_esp_detach(load: *mut c_void) -> u64;
    pub fn kiln_esp_price(load: *mut c_void) -> u64;
}

pub const REPLAY_MAX: usize = 4096;

/// `struct kiln_replay`.
#[repr(C)]
#[derive(Clone)]
pub struct Replay {
    pub size: u32,
    pub top: u64,
    pub lost: u64,
    pub replayed: u64,
    pub seen: [u64; REPLAY_MAX / 64],
}

/// `struct kiln_esp_packet`.
#[repr(C)]
pub struct EspPacket {
    pub input: *const u8,
    pub want: *const u8,
    pub in_len: u32,
    pub want_len: u32,
    pub payload: u32,
    pub iv: [u8; 16],
}

/// `struct kiln_esp_slot`.
#[repr(C)]
pub struct EspSlot {
    pub flow: *mut EspFlow,
    pub next: *mut EspSlot,
    pub request: *mut c_void,
    pub seq: u64,
    pub packet: u32,
    pub own: bool,
    pub sg: sys::Scatterlist,
    pub iv: [u8; 16],
    pub buffer: *mut u8,
}

pub const ESP_PHASES: usize = 3;

/// `struct kiln_esp_flow`.
#[repr(C)]
pub struct EspFlow {
    pub tfm: *mut c_void,
    pub decrypt: bool,
    pub assoclen: u32,
    pub packet: *const EspPacket,
    pub packets: u32,
    pub next: u32,
    pub slot: *mut EspSlot,
    pub slots: u32,
    pub load: *mut EspLoad,
    pub window: Replay,
    pub put: u64,
    pub done: u64,
    pub bytes: [u64; ESP_PHASES],
    pub corrupted: u64,
    pub errors: u64,
    pub async_punts: u64,
    pub dropped: u64,
    pub reordered: u64,
    pub free: *mut EspSlot,
    pub in_flight: u32,
    pub answered: u64,
}

/// `struct kiln_esp_arrival`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct EspArrival {
    pub when: u64,
    pub packet: u32,
    pub flow: u32,
}

/// `struct kiln_esp_sample`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct EspSample {
    pub when: u64,
    pub bytes: u64,
    pub arrived: u64,
    pub dropped: u64,
    pub lost: u64,
    pub sectors: u64,
    pub queued: u32,
    pub waiting: u32,
}

pub const ESP_RING: usize = 4096;

/// `struct kiln_esp_load`.
#[repr(C)]
pub struct EspLoad {
    pub flow: [EspFlow; 2],
    pub arrival: *const EspArrival,
    pub arrivals: u32,
    pub phase_end: [u64; ESP_PHASES],
    pub stack: u64,
    pub steal_limit: u64,
    pub steal_usual: u64,
    pub sectors_tfm: *mut c_void,
    pub src: *const u8,
    pub want: *const u8,
    pub dst: *mut u8,
    pub iv: *const u8,
    pub sector_len: u32,
    pub sector_count: u32,
    pub sector_next: u32,
    pub own_every: u32,
    pub ops: u64,
    pub sector_request: *mut c_void,
    pub sectors: u64,
    pub sectors_corrupted: u64,
    pub own_packets: u64,
    pub sample: *mut EspSample,
    pub max_samples: u32,
    pub sample_every: u64,
    pub samples: u32,
    pub started: bool,
    pub over: bool,
    pub start: u64,
    pub stolen: u64,
    pub last_irq: u64,
    pub next_arrival: u32,
    pub missed: u64,
    pub recovered: u64,
    pub ring: [u32; ESP_RING],
    pub ring_head: u32,
    pub ring_tail: u32,
    pub log: *mut u32,
    pub max_log: u32,
    pub logged: u32,
}
