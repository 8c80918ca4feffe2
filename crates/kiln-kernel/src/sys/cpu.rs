//! Of an emulated CPU: its head, its set-up, works, sections, and the questions put to it.

use std::ffi::{c_char, c_void};

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
    pub scheduler: u32,
    pub tick_us: u64,
    pub slice_us: u64,
    pub latency_us: u64,
    pub wakeup_us: u64,
    pub switch_ns: u64,
    pub tasks: *mut u8,
    pub nr_tasks: u32,
    pub kstacks: *mut u8,
    pub kstack_size: u64,
    pub kstack_stride: u64,
    pub witness: *mut u64,
    pub witness_armed: u64,
}

pub const HISTOGRAM_SECTION: u32 = 0;
pub const HISTOGRAM_SOFTIRQ_LATENCY: u32 = 1;

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
pub struct Scene {
    pub ops: *const c_void,
    pub program: [*const c_char; 4],
    pub played: [u32; 4],
    pub len: u32,
    pub size: u32,
    pub trace: *mut u8,
}

#[repr(C)]
pub struct FpuPairs {
    pub pairs: u64,
    pub timed: bool,
}

#[repr(C)]
pub struct FpuSaves {
    pub saves: u64,
}

/// `struct kiln_work`.
#[repr(C)]
pub struct Work {
    pub pending: u64,
    pub next: *mut Work,
    pub queue: *mut Workqueue,
    pub f: unsafe extern "C" fn(*mut Work),
}

/// `struct kiln_workqueue`.
#[repr(C)]
pub struct Workqueue {
    pub head: *mut Work,
    pub tail: *mut Work,
    pub running: *mut Work,
    pub stopped: u32,
}

/// `struct kiln_section`.
#[repr(C)]
pub struct Section {
    pub now: u64,
    pub irqs_seen: u32,
}
