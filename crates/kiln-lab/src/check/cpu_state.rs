//! What a call must leave as it found it and Rust cannot see: the direction flag and the SSE control word.

use std::arch::asm;

const DIRECTION: u64 = 1 << 10;
/// Rounding, masks, flush-to-zero; the sticky flags below are anybody's.
const CONTROL: u32 = 0xffc0;

/// Registers worth comparing.
#[derive(Clone, Copy)]
pub(crate) struct CpuState {
    flags: u64,
    mxcsr: u32,
}

impl CpuState {
    /// Now. Clears the direction flag, which all of Rust relies on.
    pub fn read() -> CpuState {
        let flags: u64;
        let mut mxcsr = 0u32;
        // SAFETY: pushes and pops one word, changes no register but its output and the flag
        // that the ABI wants clear anyway, and stores four bytes to a place of our own.
        unsafe {
            asm!(
                "pushfq",
                "pop {flags}",
                "cld",
                "stmxcsr [{mxcsr}]",
                flags = out(reg) flags,
                mxcsr = in(reg) &mut mxcsr,
            );
        }
        CpuState { flags, mxcsr }
    }

    /// What a call changed between `self` and `after`.
    pub fn spoilt(self, after: CpuState) -> Option<&'static str> {
        if after.flags & DIRECTION != 0 {
            Some("left the direction flag set")
        } else if (self.mxcsr ^ after.mxcsr) & CONTROL != 0 {
            Some("changed MXCSR")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_direction_flag_is_seen_and_cleared() {
        let before = CpuState::read();
        let flags: u64;
        let mut mxcsr = 0u32;
        // SAFETY: as in `read`, with the flag set in between and cleared before Rust goes on.
        unsafe {
            asm!("std", "pushfq", "pop {f}", "cld", "stmxcsr [{m}]", f = out(reg) flags, m = in(reg) &mut mxcsr);
        }
        let after = CpuState { flags, mxcsr };
        assert_eq!(before.spoilt(after), Some("left the direction flag set"));
        assert_eq!(before.spoilt(CpuState::read()), None);
        let rounding = CpuState {
            mxcsr: before.mxcsr ^ 0x2000,
            ..before
        };
        assert_eq!(before.spoilt(rounding), Some("changed MXCSR"));
    }
}
