//! The raw interface: the bindings that bindgen generates from `kernel/include/kiln/abi/`
//! (`crates/kiln-kbuild/tests/border.rs`), and types that have no name in C. This module does not
//! use the safe wrappers.

#[rustfmt::skip]
#[allow(clippy::all, clippy::undocumented_unsafe_blocks, non_camel_case_types, unreachable_pub, unused)]
mod generated;

use std::ffi::c_void;
use std::mem::offset_of;

pub use generated::*;

/// A function that the gate calls in kernel mode.
pub type GateFn = unsafe extern "C" fn(*mut c_void) -> u64;

/// The `setkey` function of an implementation.
pub(crate) type KeyFn = unsafe extern "C" fn(ctx: *mut c_void, key: *const u8, len: usize) -> i32;

/// A callback that receives an operation's result.
pub(crate) type OpDone = unsafe extern "C" fn(data: *mut c_void, answer: i32);

/// The `crypt` function of an operation.
pub type OpCrypt = unsafe extern "C" fn(
    ctx: *mut c_void,
    slot: u32,
    dst: *mut u8,
    src: *const u8,
    len: usize,
    iv: *const u8,
    decrypt: bool,
    done: Option<OpDone>,
    data: *mut c_void,
) -> i32;

/// The first fields of `struct cpu`, which the signal handler uses.
#[repr(C)]
pub(crate) struct CpuHead {
    _pcpu_hot: [u8; 64],
    _self: u64,
    pub irqs_off: u32,
    pub irq_pending: u32,
    pub kernel_mode: u32,
    _injecting: u32,
}

// `kernel/cpu/cpu.c` asserts the same offsets.
const _: () = {
    assert!(offset_of!(CpuHead, irqs_off) == KILN_CPU_IRQS_OFF as usize);
    assert!(offset_of!(CpuHead, irq_pending) == KILN_CPU_IRQ_PENDING as usize);
    assert!(offset_of!(CpuHead, kernel_mode) == KILN_CPU_KERNEL_MODE as usize);
    assert!(offset_of!(CpuHead, _injecting) == KILN_CPU_INJECTING as usize);
};
