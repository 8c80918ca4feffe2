//! A simulated user program that keeps patterns in its registers while it enters the kernel.

use std::ffi::c_void;

use kiln_measure::SplitMix64;

use crate::sys;
use crate::tier::Tier;

std::arch::global_asm!(include_str!("user.S"), options(att_syntax));

type Want = *const Pattern;
type Found = *mut Pattern;

extern "C" {
    fn kiln_user_call_128(want: Want, found: Found, f: sys::GateFn, arg: *mut c_void) -> u64;
    fn kiln_user_call_256(want: Want, found: Found, f: sys::GateFn, arg: *mut c_void) -> u64;
    fn kiln_user_call_512(want: Want, found: Found, f: sys::GateFn, arg: *mut c_void) -> u64;
}

/// The contents of a task's FPU registers, with the layout of `struct pattern` in
/// `kernel/load/patterns.h`. Registers that this CPU lacks stay zero.
#[repr(C, align(64))]
#[derive(Clone, PartialEq, Eq)]
pub struct Pattern {
    zmm: [[u8; 64]; 32],
    k: [u64; 8],
    mxcsr: u32,
    fcw: u16,
    pad: [u8; 58],
}

impl Pattern {
    /// Returns a pattern of zeros, to be overwritten with register contents.
    pub fn zero() -> Pattern {
        // SAFETY: the structure consists of plain numbers, for which zero is valid.
        unsafe { std::mem::zeroed() }
    }

    /// Generates pseudo-random register contents. MXCSR and the x87 control word mask all
    /// exceptions and select unusual rounding modes.
    pub(crate) fn from_seed(seed: u64) -> Pattern {
        let mut p = Pattern::zero();
        let mut random = SplitMix64(seed);
        let mut next = || random.next_u64();
        let bits = Tier::widest_present();
        let registers = if bits == 512 { 32 } else { 16 };
        let bytes = (bits / 8).max(16) as usize;
        for r in 0..registers {
            for b in (0..bytes).step_by(8) {
                p.zmm[r][b..b + 8].copy_from_slice(&next().to_le_bytes());
            }
        }
        if bits == 512 {
            p.k.fill_with(&mut next);
        }
        p.mxcsr = 0x1f80 | ((next() as u32 & 3) << 13);
        p.fcw = 0x007f | ((next() as u16 & 3) << 10) | 0x0200;
        p
    }
}

const _: () = {
    let mut i = 0;
    while i < Tier::ALL.len() {
        assert!(
            matches!(Tier::ALL[i].bits(), 64 | 128 | 256 | 512),
            "user.S has no routine for registers of this width"
        );
        i += 1;
    }
};

/// A program that keeps a pattern in its registers and repeatedly enters the kernel.
pub(crate) struct UserProgram {
    want: Pattern,
    found: Pattern,
    /// Number of kernel entries that changed the program's registers.
    pub corrupted: u64,
}

impl UserProgram {
    pub(crate) fn new(seed: u64) -> UserProgram {
        UserProgram {
            want: Pattern::from_seed(seed),
            found: Pattern::zero(),
            corrupted: 0,
        }
    }

    /// Enters kernel mode with the pattern in all registers and calls `f(arg)` there, like
    /// [`super::gate`]. On return, checks whether the registers have changed.
    ///
    /// # Safety
    /// The requirements of [`super::gate`] apply.
    pub(crate) unsafe fn enter(&mut self, f: sys::GateFn, arg: *mut c_void) {
        super::ensure();
        let call = match Tier::widest_present() {
            512 => kiln_user_call_512,
            256 => kiln_user_call_256,
            _ => kiln_user_call_128,
        };
        // SAFETY: the thread is a CPU that supports this width. The routine preserves callee-saved
        // registers and leaves MXCSR and the x87 control word at their defaults. The caller
        // promises that `f` and `arg` are suitable.
        unsafe { call(&self.want, &mut self.found, f, arg) };
        self.corrupted += u64::from(self.found != self.want);
    }
}
