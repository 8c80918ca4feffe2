//! Of budgets: what is measured at start, and runs under a way of cutting.

use std::ffi::{c_char, c_void};

use super::{kiln_requests, Impl};
use crate::cpu::Histogram;

/// `struct kiln_budget`.
#[repr(C)]
#[derive(Default)]
pub struct Budget {
    pub most: [u32; 2],
    pub start: [u32; 2],
    pub rate: [u64; 2],
    pub miss_rate: u64,
    pub granule: u32,
    pub posted: u32,
    pub min_bytes: u32,
    pub fastest: bool,
}

/// `struct kiln_calibration`.
#[repr(C)]
pub struct Calibration {
    pub memory: *mut u8,
    pub rates: *const u64,
    pub stalls: *const u64,
    pub nr_stalls: u32,
    pub chain: u64,
    pub ticks: u64,
    pub runs: u32,
    pub enough: u64,
}

/// `struct kiln_budget_part`.
#[repr(C)]
pub struct BudgetPart {
    pub section: Histogram,
    pub softirq: Histogram,
    pub wake: Histogram,
    pub ops: u64,
    pub sections: u64,
    pub interrupted: u64,
    pub stolen: u64,
    pub stalls: u64,
    pub long_sections: u64,
    pub long_witnessed: u64,
    pub op_ticks: *mut u64,
}

/// `struct kiln_budget_run`.
#[repr(C)]
pub struct BudgetRun {
    pub requests: *mut kiln_requests,
    pub part: *mut BudgetPart,
    pub null_chain: u64,
    pub long_ticks: u64,
    pub max_ops: u32,
    pub ticks: u64,
    pub min_ops: u64,
    pub cold: bool,
    pub quiet: bool,
    pub err: i32,
    pub sleeper: *mut c_void,
    pub now: u32,
    pub raised: u32,
    pub woken: u64,
    pub stop: bool,
    pub stopped: bool,
}

extern "C" {
    pub fn kiln_cut_way(way: u32) -> *const c_char;
    pub fn kiln_cut_set(way: u32, target: u64);
    pub fn kiln_cut_get(target: *mut u64) -> u32;
    pub fn kiln_cut_force(bytes: u32);
    pub fn kiln_budget_get(imp: *const Impl, budget: *mut Budget);
    pub fn kiln_budget_bytes(imp: *const Impl, decrypt: bool, ticks: u64) -> u32;
    pub fn kiln_calibrate(calibration: *mut c_void) -> u64;
    pub fn kiln_calibrate_again(calibration: *mut c_void) -> u64;
    pub fn kiln_budget_run(run: *mut c_void) -> u64;
    pub fn kiln_budget_chain(n: u64) -> u64;
}
