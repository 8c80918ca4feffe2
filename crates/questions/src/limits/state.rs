//! Saves and restores the vector state, as a kernel does around code that uses vector registers.

use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count};

/// XCR0 bits of the state components that a kernel's FPU section does not save: PKRU (9) and AMX
/// (17, 18).
const NOT_SAVED: u64 = 1 << 9 | 3 << 17;
/// XCR0 bits of the AVX-512 registers.
const AVX512: u64 = 7 << 5;
/// XCR0 bit of the upper halves of the ymm registers.
const AVX: u64 = 1 << 2;

/// Memory for the state, and the mask that selects the components to save.
pub(super) struct SaveArea {
    memory: Vec<u8>,
    offset: usize,
    mask: u64,
    compacts: bool,
}

impl SaveArea {
    /// Allocates the memory. Returns `None` if the CPU or the operating system does not support
    /// XSAVE.
    pub(super) fn new() -> Option<SaveArea> {
        #[allow(unused_unsafe)]
        // SAFETY: every x86-64 processor has cpuid. The block is needed because older toolchains
        // declare __cpuid as unsafe.
        let features = unsafe { __cpuid(1) }.ecx;
        if features >> 27 & 1 == 0 {
            return None;
        }
        #[allow(unused_unsafe)]
        // SAFETY: every x86-64 processor has cpuid, and leaf 0xD exists on every processor that
        // reports OSXSAVE.
        let (plain, compact) = unsafe { (__cpuid_count(0xd, 0), __cpuid_count(0xd, 1)) };
        // `plain` contains the size of the standard format with all components in XCR0. `compact`
        // contains the size of the compacted format with XCR0 | IA32_XSS.
        let size = plain.ebx.max(compact.ebx).max(576) as usize;
        let memory = vec![0; size + 64];
        let offset = memory.as_ptr().align_offset(64);
        Some(SaveArea {
            memory,
            offset,
            mask: xcr0() & !NOT_SAVED,
            compacts: compact.eax >> 1 & 1 != 0,
        })
    }

    /// Returns a description of the timed operation.
    pub(super) fn describe(&self) -> &'static str {
        match (self.compacts, self.mask & AVX512 == AVX512) {
            (true, true) => "XSAVEC and XRSTOR, AVX-512 state dirty",
            (true, false) => "XSAVEC and XRSTOR, vector state dirty",
            (false, true) => "XSAVE and XRSTOR, AVX-512 state dirty",
            (false, false) => "XSAVE and XRSTOR, vector state dirty",
        }
    }

    /// Modifies all vector registers, then saves and restores them `n` times. The registers are
    /// modified because the processor skips components that are in their initial state. A kernel
    /// cannot rely on this, because user code may have modified any register.
    pub(super) fn save_restore(&mut self, n: u64) {
        let area = self.memory[self.offset..].as_mut_ptr();
        dirty(self.mask);
        if self.compacts {
            // SAFETY: CPUID leaf 0xD reports XSAVEC. The mask, the area and the registers are valid
            // for the reasons given in the other branch.
            unsafe {
                asm!(
                    "2:", "xsavec64 [rdi]", "xrstor64 [rdi]", "dec rcx", "jnz 2b",
                    in("rdi") area,
                    inout("rcx") n.max(1) => _,
                    in("eax") self.mask as u32,
                    in("edx") (self.mask >> 32) as u32,
                    clobber_abi("sysv64"),
                    options(nostack),
                )
            };
        } else {
            // SAFETY: OSXSAVE was checked, and the mask is a subset of XCR0. The area is 64-byte
            // aligned and has the size that CPUID reports. Its header is zero at first, and later
            // has the content that XSAVE wrote. XRSTOR restores the state that was just saved, so
            // no register changes; the registers that the C calling convention lets a callee change
            // are declared anyway.
            unsafe {
                asm!(
                    "2:", "xsave64 [rdi]", "xrstor64 [rdi]", "dec rcx", "jnz 2b",
                    in("rdi") area,
                    inout("rcx") n.max(1) => _,
                    in("eax") self.mask as u32,
                    in("edx") (self.mask >> 32) as u32,
                    clobber_abi("sysv64"),
                    options(nostack),
                )
            };
        }
        clean(self.mask);
    }
}

/// Returns the state components that the operating system has enabled.
fn xcr0() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: this function is called only if CPUID reports OSXSAVE, so XGETBV exists. XGETBV only
    // reads a register of the CPU.
    unsafe {
        asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags))
    };
    u64::from(high) << 32 | u64::from(low)
}

fn dirty(mask: u64) {
    if mask & AVX512 == AVX512 {
        // SAFETY: XCR0 enables AVX-512, which is only possible on a CPU with AVX-512F. The code
        // writes only registers that a C callee may change, and they are declared.
        unsafe {
            asm!(
                ".irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
                "vpternlogd zmm\\r, zmm\\r, zmm\\r, 255",
                ".endr",
                ".irp r,0,1,2,3,4,5,6,7",
                "kxnorw k\\r, k\\r, k\\r",
                ".endr",
                clobber_abi("sysv64"),
                options(nomem, nostack),
            )
        };
    } else if mask & AVX != 0 {
        // SAFETY: XCR0 enables AVX, so the CPU supports it. The code writes only registers that a C
        // callee may change, and they are declared.
        unsafe {
            asm!(
                "vcmpps ymm0, ymm0, ymm0, 15",
                ".irp r,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
                "vmovaps ymm\\r, ymm0",
                ".endr",
                clobber_abi("sysv64"),
                options(nomem, nostack),
            )
        };
    }
}

/// Resets the registers to their initial state, so that later code is not slowed down.
fn clean(mask: u64) {
    if mask & AVX512 == AVX512 {
        // SAFETY: XCR0 enables AVX-512, so the CPU has AVX-512F. The code writes only registers
        // that a C callee may change, and they are declared.
        unsafe {
            asm!(
                ".irp r,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
                "vpxord zmm\\r, zmm\\r, zmm\\r",
                ".endr",
                ".irp r,0,1,2,3,4,5,6,7",
                "kxorw k\\r, k\\r, k\\r",
                ".endr",
                clobber_abi("sysv64"),
                options(nomem, nostack),
            )
        };
    }
    if mask & AVX != 0 {
        // SAFETY: XCR0 enables AVX, so the CPU supports it. The registers that the instruction
        // writes are declared.
        unsafe { asm!("vzeroall", clobber_abi("sysv64"), options(nomem, nostack)) };
    }
}
