//! `kernel/include/kiln/kiln.h`, declaration by declaration.

use std::ffi::{c_char, c_void};

use crate::cpu::{Histogram, Stats};

/// What the gate calls in kernel mode.
pub type GateFn = unsafe extern "C" fn(*mut c_void) -> u64;

/// The start of `struct cpu`, as far as the signal handler knows it (cpu_offsets.h).
#[repr(C)]
pub struct CpuHead {
    _pcpu_hot: [u8; 64],
    _self: u64,
    pub irqs_off: u32,
    pub irq_pending: u32,
    pub kernel_mode: u32,
    _injecting: u32,
}

#[repr(C)]
pub struct CpuConfig {
    pub number: u32,
    pub preempt_full: bool,
    pub ticks_per_us: u64,
    pub tick_us: u64,
    pub slice_us: u64,
    pub switch_ns: u64,
    pub kstacks: *mut u8,
    pub kstack_size: u64,
    pub kstack_stride: u64,
    pub witness: *mut u64,
    pub witness_armed: u64,
}

pub const HISTOGRAM_SECTION: u32 = 0;
pub const HISTOGRAM_SOFTIRQ_LATENCY: u32 = 1;

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

extern "C" {
    pub fn kiln_tiers_present() -> u32;
    pub fn kiln_tiers() -> u32;
    pub fn kiln_tier_lacks(tier: u32) -> *const c_char;
    pub fn kiln_tiers_mask(mask: u32);

    pub fn kiln_xts_impls() -> usize;
    pub fn kiln_xts_impl(i: usize) -> *const XtsImpl;
    pub fn kiln_xts_key_size() -> usize;
    pub fn kiln_xts_setkey(key: *mut XtsKey, raw: *const u8, len: usize) -> i32;
    pub fn kiln_xts_crypt(call: *mut c_void) -> u64;
    pub fn kiln_xts_run(series: *mut c_void) -> u64;

    pub fn kiln_cpu_size() -> usize;
    pub fn kiln_cpu_tasks() -> usize;
    pub fn kiln_cpu_init(cpu: *mut CpuHead, config: *const CpuConfig);
    pub fn kiln_cpu_configure(cpu: *mut CpuHead, config: *const CpuConfig);
    pub fn kiln_cpu_start();
    pub fn kiln_cpu_stats(cpu: *mut CpuHead) -> *mut Stats;
    pub fn kiln_cpu_histogram(cpu: *mut CpuHead, which: u32) -> *mut Histogram;
    pub fn kiln_cpu_reset_stats(cpu: *mut CpuHead);
    pub fn kiln_cpu_share_area(cpu: *mut CpuHead, owner: *mut CpuHead);
    pub fn kiln_gate(f: GateFn, arg: *mut c_void) -> u64;
    pub fn kiln_irq_trampoline();
    pub fn kiln_irq_self();

    pub fn kiln_fpu_policy(i: u32) -> *const c_char;
    pub fn kiln_fpu_policy_set(i: u32);
    pub fn kiln_fpstate_size() -> u32;
    pub fn kiln_fpstate_forget(features: u32);

    pub fn kiln_load_attach(load: *mut c_void) -> u64;
    pub fn kiln_load_run(load: *mut c_void) -> u64;
    pub fn kiln_load_detach(load: *mut c_void) -> u64;
    #[cfg(test)]
    pub fn kiln_pattern_size() -> usize;
    pub fn kiln_usable(usable: *mut c_void) -> u64;
    pub fn kiln_storm(storm: *mut c_void) -> u64;
    pub fn kiln_fpu_pairs(pairs: *mut c_void) -> u64;
}

#[repr(C)]
pub struct LoadSide {
    pub imp: *const XtsImpl,
    pub key: *const XtsKey,
    pub src: *const u8,
    pub want: *const u8,
    pub iv: *const u8,
    pub dst: *mut u8,
    pub len: u32,
    pub stride: u32,
    pub count: u32,
    pub next: u32,
    pub decrypt: bool,
    pub ops: u64,
    pub corrupted: u64,
}

#[repr(C)]
pub struct Load {
    pub task: LoadSide,
    pub softirq: LoadSide,
    pub second: LoadSide,
    pub stop_second: bool,
    pub second_stopped: bool,
    pub fallback: *const XtsImpl,
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

#[repr(C)]
pub struct Usable {
    pub context: u32,
    pub in_section: bool,
    pub over_section: bool,
    pub usable: bool,
    pub warnings: u64,
    pub preempt_count: u32,
    pub preempt_after: u32,
}

#[repr(C)]
pub struct FpuPairs {
    pub pairs: u64,
    pub timed: bool,
}
