//! Loops that consist of a single kind of instruction. Call a loop only on a CPU that supports its
//! instruction.

use std::arch::asm;

/// Number of instructions in a loop body. It is large enough to hide the cost of the loop counter
/// and the branch.
pub(super) const IN_LOOP: u32 = 96;

/// Defines a loop that executes a body of 96 instructions `n` times. The body consists of eight
/// copies of the twelve instructions that `$op` generates for registers 0 to 11. Up to twelve
/// independent instructions can thus be in flight. Full throughput requires only latency × rate of
/// them, for example 4 × 2 on Zen 5.
macro_rules! independent {
    ($(#[$doc:meta])* $name:ident, $op:literal, $after:literal) => {
        $(#[$doc])*
        pub(super) fn $name(n: u64) {
            // SAFETY: the caller checked CPUID for the instruction. The code uses only its operands
            // and registers that the C calling convention lets a callee change. The counter starts
            // at 1 or more.
            unsafe {
                asm!(
                    "2:",
                    ".rept 8",
                    ".irp r,0,1,2,3,4,5,6,7,8,9,10,11",
                    $op,
                    ".endr",
                    ".endr",
                    "dec rcx",
                    "jnz 2b",
                    $after,
                    inout("rcx") n.max(1) => _,
                    clobber_abi("sysv64"),
                    options(nomem, nostack),
                )
            };
        }
    };
}

independent!(
    /// AESENC on 16-byte registers.
    aesenc_xmm,
    "aesenc xmm\\r, xmm15",
    ""
);
independent!(
    /// VAESENC on 32-byte registers.
    vaesenc_ymm,
    "vaesenc ymm\\r, ymm\\r, ymm15",
    "vzeroupper"
);
independent!(
    /// VAESENC on 64-byte registers.
    vaesenc_zmm,
    "vaesenc zmm\\r, zmm\\r, zmm15",
    "vzeroupper"
);
independent!(
    /// VPCLMULQDQ on 64-byte registers.
    vpclmulqdq_zmm,
    "vpclmulqdq zmm\\r, zmm\\r, zmm15, 0",
    "vzeroupper"
);

/// Runs a chain of AESENC instructions, each of which depends on the previous result.
pub(super) fn aesenc_chain(n: u64) {
    // SAFETY: as in `independent`, the caller checked CPUID, the code uses only registers, and the
    // counter starts at 1 or more.
    unsafe {
        asm!(
            "2:",
            ".rept 96",
            "aesenc xmm0, xmm15",
            ".endr",
            "dec rcx",
            "jnz 2b",
            inout("rcx") n.max(1) => _,
            clobber_abi("sysv64"),
            options(nomem, nostack),
        )
    };
}

/// Runs consecutive RDTSC instructions.
pub(super) fn rdtsc(n: u64) {
    // SAFETY: every x86-64 CPU has RDTSC, which writes only eax and edx, and both are declared. In
    // a process that disabled RDTSC with PR_TSC_SIGSEGV, the instruction causes a signal.
    unsafe {
        asm!(
            "2:",
            ".rept 96",
            "rdtsc",
            ".endr",
            "dec {n}",
            "jnz 2b",
            n = inout(reg) n.max(1) => _,
            out("eax") _,
            out("edx") _,
            options(nomem, nostack),
        )
    };
}
